/*
 * serve.h - one connection of the server's: an inner part.  It is its thread's but
 * for what stands first, which the server's lock is for.
 */
#ifndef TRANSPORT_SERVE_H
#define TRANSPORT_SERVE_H

#include <pthread.h>
#include <stdint.h>

#include "base/host.h"
#include "transport/address.h"
#include "transport/auth.h"
#include "transport/server.h"
#include "transport/stream.h"
#include "transport/window.h"

struct epd_serve {
	struct epd_serve *next;		/* in the server's list */
	int is_guest, is_let_go;	/* has shown who it is; is to end */
	int is_over;			/* its thread does nothing more */

	pthread_t thread;
	struct epd_server *server;
	uint64_t number;
	enum epd_scheme scheme;
	struct epd_stream in;		/* its fd too: shut down under the lock */
	struct epd_auth auth;
	struct epd_guest *guest;
	struct epd_windows windows;
	struct epd_buf body, answer;
	uint8_t *block;			/* of bulk that lies in a file alone */
};

/* What all connections have in common; it does not change while they live. */
struct epd_server_common {
	struct epd_host host;
	struct epd_server_options o;
	struct epd_buf key;
	struct epd_server_counts counts;	/* by atomics */
};
struct epd_server_common *epd_server_common(struct epd_server *s);
/* A stranger has shown who it is.  Fails: EPD_ECREDIT: there are enough guests. */
int epd_server_admit(struct epd_server *s, struct epd_serve *c);
/* The thread is done with c; the socket is closed, and c freed when it is joined. */
void epd_server_over(struct epd_server *s, struct epd_serve *c);

static inline void
epd_server_count(uint64_t *which, int64_t by)
{
	__atomic_fetch_add(which, (uint64_t)by, __ATOMIC_RELAXED);
}

/* The thread: from the first words to the end. */
void *epd_serve_thread(void *c);

/* When a question or answer with this much bulk has to be over. */
uint64_t epd_serve_deadline(const struct epd_serve *c, uint64_t bulk);
/*
 * Answer: status with body, which goes out with what follows or before the next
 * wait.  Failures of all these end the connection.
 */
int epd_serve_answer(struct epd_serve *c, const struct epd_frame *question,
    int status, struct epd_span body);
/* The same with bulk to follow. */
int epd_serve_answer_bulk(struct epd_serve *c, const struct epd_frame *question);
/* Refuse, with why's sentence, or the code's. */
int epd_serve_refuse(struct epd_serve *c, const struct epd_frame *question, int rc,
    const struct epd_why *why);

int epd_serve_read(struct epd_serve *c, const struct epd_frame *f,
    const struct epd_frame_range *r);
int epd_serve_write(struct epd_serve *c, const struct epd_frame *f,
    const struct epd_frame_range *r);
int epd_serve_map(struct epd_serve *c, const struct epd_frame *f,
    struct epd_span ask);

#endif
