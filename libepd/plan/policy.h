/*
 * policy.h - which paths a transfer may take: rules (Mooncake #2079), of which the
 * first that matches counts, and the contract (#2856) each comes with.  Outside this
 * room include plan/plan.h.
 */
#ifndef EPD_PLAN_POLICY_H
#define EPD_PLAN_POLICY_H

#include <stdint.h>

#include "plan/model.h"

enum {
	EPD_PLAN_RULES = 32,
	EPD_PLAN_NAME = 32,		/* bytes of a rule's or device's name, NUL too */
	EPD_PLAN_BACKENDS = 16,		/* in a list of them */
	EPD_PLAN_TEMPLATES = 16,
};

enum epd_intent_class {
	EPD_INTENT_ANY, EPD_INTENT_FOREGROUND, EPD_INTENT_BACKGROUND,
	EPD_INTENT_PREFETCH, EPD_INTENT_OFFLOAD, EPD_INTENT_HANDOFF,
	EPD_INTENT_COUNT
};

/* What a contract allows besides the path that is chosen first. */
enum epd_allow {
	EPD_MAY_FALLBACK = 1,
	EPD_MAY_FP8 = 2, EPD_MAY_INT8 = 4, EPD_MAY_CUSTOM = 8,
	EPD_MAY_RECOMPUTE = 16,
	/* Nothing was said of it: what a transfer asks to be given up, but if it is strict. */
	EPD_MAY_UNSAID = 32,
};

struct epd_contract {
	uint32_t allows;		/* enum epd_allow */
	/*
	 * Health and an estimate that are fresh and sure are wanted of every path, and
	 * that it will be done by the deadline; what matches no rule has no path.
	 */
	int strict;
	uint64_t max_nic_bytes, max_staging_bytes;	/* 0: no cap */
};

/* A filter that is 0 takes all. */
struct epd_rule {
	char name[EPD_PLAN_NAME];
	uint8_t segment;		/* enum epd_segment_type */
	uint8_t same_machine;		/* enum epd_asked */
	uint32_t here, there;		/* masks of media, by epd_media_pattern */
	uint32_t priorities, intents;	/* bit: enum epd_priority, epd_intent_class */
	uint64_t min_size, max_size;	/* bytes, both inclusive */
	/*
	 * In order of preference; none: as the target's own list says.  A place with
	 * EPD_VIA_NONE is a name nobody knows.
	 */
	uint8_t backend[EPD_PLAN_BACKENDS];
	int nbackends;
	uint64_t devices;		/* mask of rails; 0: all */
	int devices_unknown;		/* some were named, and none of them is there */
	uint8_t pool;			/* of queue pairs */
	struct epd_contract contract;
};

enum epd_asked { EPD_ASKED_NOT, EPD_ASKED_YES, EPD_ASKED_NO };
enum epd_segment_type { EPD_SEGMENT_ANY, EPD_SEGMENT_MEMORY, EPD_SEGMENT_FILE };

/* "cpu", "cuda", "rocm", "tpu", "*": a mask of media; 0: no such pattern. */
uint32_t epd_media_pattern(const char *text);

/*
 * The places of a path, in order as bytes go; a stage leads from each to the next.
 * A place is of the side that has the bytes (FROM) or gets them (TO).
 */
enum epd_place {
	EPD_FROM_DEVICE = 1, EPD_FROM_HOST, EPD_FROM_FILE,
	EPD_TO_DEVICE, EPD_TO_HOST, EPD_TO_FILE,
};
/* What may be composed of primitives (capabilities with EPD_CAN_STAGE), and no more. */
struct epd_path_template {
	char name[EPD_PLAN_NAME];	/* "device-host-net-host-device" */
	uint8_t place[8];		/* enum epd_place; 0 ends */
};
/* The ones the RFC begins with.  Numbers of shapes are theirs in this order. */
const struct epd_path_template *epd_plan_templates(int *n);

/* epd_plan.shape. */
enum { EPD_SHAPE_DIRECT = 1, EPD_SHAPE_RECOMPUTE = 2, EPD_SHAPE_TEMPLATE = 8 };

#endif
