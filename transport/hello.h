/*
 * hello.h - the first words of a connection, before anything else is believed:
 * the server says who it wants, both show that they are.
 */
#ifndef TRANSPORT_HELLO_H
#define TRANSPORT_HELLO_H

#include "base/err.h"
#include "base/piece.h"
#include "base/span.h"
#include "transport/address.h"
#include "transport/auth.h"
#include "transport/stream.h"

/* The server's flags: it asks for the key. */
enum { EPD_HELLO_KEY = 1 };

/*
 * The client's side.  Fails: EPD_EAUTH, EPD_EPEER (speaks otherwise, is lost),
 * EPD_ETIMEOUT, -errno, or as the server says, with its sentence.
 */
int epd_hello_client(struct epd_stream *s, struct epd_auth *auth,
    const struct epd_address *at, const struct epd_peer *peer, struct epd_why *why);

/*
 * The server's, up to its answer: key is empty where none is asked.  id is the
 * question's, proof what epd_hello_answer sends.  Fails: EPD_EAUTH (the peer was
 * told), EPD_EPEER, EPD_EFORMAT, EPD_ETIMEOUT, -errno.
 */
struct epd_hello {
	uint64_t id;
	struct epd_auth_talk talk;
	struct epd_span key;
};
int epd_hello_server(struct epd_stream *s, struct epd_span key, struct epd_hello *out,
    uint64_t deadline_ns);
/* status 0: welcome, and from here on frames are sealed; else text says why not. */
int epd_hello_answer(struct epd_stream *s, struct epd_auth *auth,
    const struct epd_hello *h, int status, const char *text, uint64_t deadline_ns);
/* Nobody is let in, whoever it is: sent at once or not at all. */
void epd_hello_refuse(int fd, int status, const char *text);

/* What a peer refused with, its words made text. */
int epd_hello_refused(struct epd_why *why, int rc, struct epd_span words);

#endif
