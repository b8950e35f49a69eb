/*
 * legacy.h - the selector that Mooncake's TENT has today, as a pure function, for a
 * planner to be compared with.  After its sources at commit 3b5a594, as read.  Outside
 * this room include plan/plan.h.
 *
 * Where the sources leave it open: capabilities are asked with (memory here, memory
 * there), whatever the operation, since there is no boolean for reading a file; and
 * a GPU is any device, but for NVLink (CUDA) and TPU.
 */
#ifndef EPD_PLAN_LEGACY_H
#define EPD_PLAN_LEGACY_H

#include "plan/decide.h"

struct epd_legacy {
	uint32_t loaded;	/* bit b: enum epd_backend */
	int selector;		/* by policies; 0: the mode before them */
	int cpu;		/* the platform has no GPU */
	int gpudirect;		/* RDMA reaches GPU memory */
	int shm_path, cuda;	/* for tags: one is set; the platform is CUDA */
	const struct epd_rule *rule;
	int nrules;
};

enum { EPD_LEGACY_ATTEMPTS = 3 };	/* after the first */

/* What was chosen; backend EPD_VIA_NONE: UNSPEC. */
struct epd_legacy_choice {
	uint8_t backend;
	uint8_t staged;		/* by way of host memory, cross being the backend between */
	uint8_t cross, leg;
	uint8_t pool;
	uint16_t rule;		/* from 1; 0: a default one */
	uint64_t devices;	/* fails open to all ones */
};

/* The tags a buffer is registered with here, in the default order. */
int epd_legacy_tags(const struct epd_legacy *l, uint8_t out[EPD_PLAN_BACKENDS]);
/*
 * What is selected at intent->index.  Fails: EPD_EUSAGE, the hint is not loaded
 * (InvalidArgument at submit).
 */
int epd_legacy_select(const struct epd_legacy *l, const struct epd_intent *i,
    struct epd_legacy_choice *out);

struct epd_legacy_failure {
	int failures;		/* this one too */
	int at_submit;		/* the first submit failed: that is final */
	int cancelled;
	int staged;		/* what failed was staged */
	int unstaged;		/* staging has failed before */
};
/* After a completion has failed.  Fails: EPD_ENOPLAN, no more is tried. */
int epd_legacy_retry(const struct epd_legacy *l, const struct epd_intent *i,
    const struct epd_legacy_failure *f, struct epd_legacy_choice *out);

/* One of its backends as a capability; the booleans are taken as the way bytes go. */
int epd_legacy_capability(const struct epd_legacy *l, enum epd_backend b,
    struct epd_capability *out);
/* What it does at first, and after each failure, as plans; p gives the capabilities. */
int epd_legacy_decide(const struct epd_legacy *l, const struct epd_planner *p,
    const struct epd_intent *i, struct epd_decision *out);

#endif
