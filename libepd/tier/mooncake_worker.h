/*
 * mooncake_worker.h - a thread that calls the Mooncake Store's C library, whose
 * calls have no deadline: one that does not come back is left, with all that it
 * was given, and nothing is asked until it does.  Not for outsiders.
 */
#ifndef EPD_TIER_MOONCAKE_WORKER_H
#define EPD_TIER_MOONCAKE_WORKER_H

#include <pthread.h>

#include "tier/mooncake_in.h"

enum { EPD_WORKER_KEYS = 64 };

enum epd_worker_job {
	EPD_WORKER_NOTHING,
	EPD_WORKER_SETUP,
	EPD_WORKER_ROOM,	/* `want` bytes, registered, for those before */
	EPD_WORKER_GET,		/* result: bytes, or what went wrong */
	EPD_WORKER_PUT,		/* result: 0, or what went wrong */
	EPD_WORKER_EXIST,	/* result: 1, 0, or what went wrong */
	EPD_WORKER_REMOVE,	/* whoever has a lease on it */
	EPD_WORKER_DROP,	/* unless somebody has */
};

struct epd_worker {
	/*
	 * What is asked and what was answered: touched only while it is not
	 * busy.
	 */
	int n;
	char key[EPD_WORKER_KEYS][EPD_MOONCAKE_KEY];
	void *buffer[EPD_WORKER_KEYS];	/* within room */
	size_t size[EPD_WORKER_KEYS];
	int64_t result[EPD_WORKER_KEYS];
	size_t want;
	uint8_t *room;

	struct epd_worker_in *in;
};

/*
 * Load the library and begin with it.  Fails: EPD_EUNSUPPORTED (it is not here,
 * or not the one that is known), EPD_EPEER (it does not reach the master),
 * EPD_ETIMEOUT.
 */
int epd_worker_open(struct epd_worker **out, const struct epd_mooncake *m,
    uint64_t deadline_ns, struct epd_why *why);
/* Waits no more than a second for a call that does not come back. */
void epd_worker_close(struct epd_worker *w);
/* 0, or EPD_EPEER: what was asked before is still under way. */
int epd_worker_is_busy(struct epd_worker *w);
/*
 * EPD_ETIMEOUT: it goes on.  EPD_EPEER: the call failed as a whole.  -ENOMEM.
 */
int epd_worker_ask(struct epd_worker *w, enum epd_worker_job job,
    uint64_t deadline_ns);

#endif
