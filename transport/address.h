/* address.h - addresses as peers write them, and sockets at them. */
#ifndef TRANSPORT_ADDRESS_H
#define TRANSPORT_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

enum epd_scheme { EPD_AT_TCP = 1, EPD_AT_UNIX = 2, EPD_AT_FILE = 4 };

/* Long enough for "tcp://[HOST]:PORT". */
enum { EPD_HOST = 256, EPD_ADDRESS = 4096 };

struct epd_address {
	enum epd_scheme scheme;
	char host[EPD_HOST];		/* tcp: a name or a number, no brackets */
	char port[8];
	char path[EPD_ADDRESS];		/* unix, file: from / */
};

/*
 * "tcp://HOST:PORT", "tcp://[V6]:PORT", "unix:///PATH", "file:///PATH"; which: the
 * schemes that will do.  Fails: EPD_EUSAGE.
 */
int epd_address_parse(struct epd_address *out, const char *text, int which,
    struct epd_why *why);

enum { EPD_ENDS = 8 };
struct epd_end {
	struct sockaddr_storage at;
	socklen_t n;
};
/*
 * The numbers of a tcp address, at most EPD_ENDS; a name is looked up aside, so that
 * the deadline holds.  The count, or EPD_EPEER (no such host), EPD_ETIMEOUT, -errno.
 */
int epd_address_resolve(const struct epd_address *a, int to_listen,
    struct epd_end out[EPD_ENDS], uint64_t deadline_ns, struct epd_why *why);
int epd_end_is_loopback(const struct sockaddr_storage *at);
/* "tcp://127.0.0.1:7000" */
void epd_end_format(char *out, size_t n, const struct sockaddr_storage *at);

/*
 * The socket address of a path, which may be longer than the kernel takes: *dir is
 * then an open folder, to be closed after; else -1.
 */
int epd_address_unix(const char *path, struct epd_end *out, int *dir);

/*
 * A connected socket that does not block.
 * Fails: EPD_EPEER, EPD_ETIMEOUT, -ECANCELED (base/stop.h), -errno.
 */
int epd_address_connect(const struct epd_address *a, uint64_t deadline_ns,
    struct epd_why *why);
/* What every connection's socket is told. */
void epd_socket_settle(int fd);

#endif
