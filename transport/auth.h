/*
 * auth.h - who is at the other end: proofs that both have the key, and a MAC on each
 * frame after.  Nothing is encrypted: who can listen can read.  Bulk has no MAC.
 */
#ifndef TRANSPORT_AUTH_H
#define TRANSPORT_AUTH_H

#include <stdint.h>

#include "base/span.h"
#include "transport/frame.h"

enum {
	EPD_AUTH_NONCE = 32, EPD_AUTH_PROOF = 32,
	EPD_AUTH_KEY_LEAST = 16,	/* bytes: what can be guessed is no key */
};

enum epd_auth_role { EPD_AUTH_CLIENT = 1, EPD_AUTH_SERVER };

/* What both have seen: their nonces, and what the server said of itself. */
struct epd_auth_talk {
	uint8_t server[EPD_AUTH_NONCE], client[EPD_AUTH_NONCE];
	uint16_t version, flags;
};

/* One end of a connection. */
struct epd_auth {
	uint8_t out[32], in[32];	/* keys of the two ways */
	uint64_t nout, nin;		/* frames so far */
	int on;				/* 0: no key was asked; MACs are zero */
};

/* Random bytes of the kernel's.  Fails: -errno. */
int epd_auth_nonce(uint8_t out[EPD_AUTH_NONCE]);
void epd_auth_proof(uint8_t out[EPD_AUTH_PROOF], struct epd_span key,
    const struct epd_auth_talk *talk, enum epd_auth_role by);
/* In a time that does not tell where they differ. */
int epd_auth_equal(const uint8_t *a, const uint8_t *b, int n);
void epd_auth_begin(struct epd_auth *a, struct epd_span key,
    const struct epd_auth_talk *talk, enum epd_auth_role we);

/* The frame as it is sent, with the next number's MAC. */
void epd_auth_seal(struct epd_auth *a, uint8_t out[EPD_FRAME],
    const struct epd_frame *f, struct epd_span body);
/* One that came.  Fails: EPD_EAUTH: it is not the next one of who we talk to. */
int epd_auth_open(struct epd_auth *a, const uint8_t head[EPD_FRAME],
    struct epd_span body);

#endif
