/* sweep.h - a sweep of the store while it goes on.  Not for outsiders. */
#ifndef EPD_FLOW_SWEEP_H
#define EPD_FLOW_SWEEP_H

#include "flow/handoff.h"
#include "flow/keep.h"
#include "flow/need.h"

struct epd_sweep {
	struct epd_store *s;
	struct epd_swept *out;
	struct epd_need need;
	void (*fn)(void *arg, int rc, const char *text);
	void *arg;
	int failed;			/* how often fn was told of a failure */
	struct epd_settling settling;
};
/* rc 0: it is told, and no failure. */
void epd_sweep_tell(struct epd_sweep *g, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A step of it, that failed or not. */
void epd_sweep_step(struct epd_sweep *g, const char *what, int rc);

/* Temporaries in a folder that are older than grace_ms. */
int epd_sweep_leftovers(struct epd_sweep *g, int dirfd, uint64_t grace_ms);
/* A log's temporaries are its lock holder's; while one is at it they stay. */
int epd_sweep_log_leftovers(struct epd_sweep *g, int dirfd);
/*
 * A workflow's folder whose maker died or failed before its first record; that of one
 * who may still be at it stays, and that of a hand-off's target.  1 if it is gone.
 */
int epd_sweep_bury(struct epd_sweep *g, const char *name);
/* What is left over in one that has no log yet. */
int epd_sweep_begun(struct epd_sweep *g, const char *name);
/*
 * States that somebody died over are ended, and told with whose work it was; so are
 * other leases of the dead, before they are dropped.
 */
int epd_sweep_dead(struct epd_sweep *g, struct epd_workflow *w,
    struct epd_why *why);

#endif
