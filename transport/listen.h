/* listen.h - sockets that wait for peers. */
#ifndef TRANSPORT_LISTEN_H
#define TRANSPORT_LISTEN_H

#include <sys/types.h>

#include "transport/address.h"

struct epd_listener {
	int fd;				/* does not block; -1: none */
	enum epd_scheme scheme;
	int needs_key;			/* it is reached from other machines */
	char address[EPD_ADDRESS + 8];	/* as peers write it */
	char path[EPD_ADDRESS];		/* a Unix socket's, and which it is */
	dev_t dev;
	ino_t ino;
};

/*
 * Fails: EPD_EUSAGE, -EADDRINUSE (somebody listens there), -EPERM (the folder is not
 * the user's alone), -errno.
 */
int epd_listen_open(struct epd_listener *out, const char *address, int has_key,
    struct epd_why *why);
/* A Unix socket's file goes, if it is still this one. */
void epd_listen_close(struct epd_listener *l);

#endif
