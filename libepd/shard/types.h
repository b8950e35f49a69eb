/*
 * types.h - what a shard keeps: states and their versions, as callers see them.
 * Outside this room include shard/shard.h.
 */
#ifndef EPD_SHARD_TYPES_H
#define EPD_SHARD_TYPES_H

#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"

/*
 * The life cycle: R's edges and the added ones, each with its reason, are one
 * table in shard/life.h.  SHARED and REFERENCED are printed from counts.
 */
enum epd_status {
	EPD_ACTIVE = 1, EPD_OFFLOADING, EPD_OFFLOADED, EPD_RESTORING,
	EPD_SUSPECT, EPD_ABORTED, EPD_FREE,
};
const char *epd_status_name(enum epd_status s);	/* "ACTIVE"; "?" if none */

/* How a version left its turn, and why decoding ended. */
enum epd_turn_state {
	EPD_TURN_IS_PROMPT, EPD_TURN_IS_OPEN, EPD_TURN_IS_CLOSED,
	EPD_TURN_IS_RAW,
};
enum epd_finish {
	EPD_FINISH_NONE, EPD_FINISH_EOS, EPD_FINISH_STOP, EPD_FINISH_LENGTH,
	EPD_FINISH_INTERRUPT,
};
const char *epd_turn_name(unsigned turn);	/* "closed"; NULL if none */
const char *epd_finish_name(unsigned finish);	/* "eos"; NULL if none */

struct epd_page_ref {
	struct epd_name name;
	uint32_t rows;		/* tokens computed; all but a run's last are full */
	uint64_t sum;
};

/* Pages that others made: their run, linked under an id of this version's own. */
struct epd_run_link {
	uint64_t run;
	uint32_t pages;
};

struct epd_image_ref {
	uint64_t at;
	uint32_t grid[3];
	struct epd_name fp;
};

struct epd_sampling {
	float temp, top_p, penalty;
	int32_t top_k;
	uint64_t seed, salt;
};

/*
 * What one version adds to its parent.  Its pages are first_page,
 * first_page + 1, ...; if the parent's last page was part full, first_page is
 * that page, copied and filled on.  The first of them lie in links, if it has
 * any, the others in run.  Pages hold the keys and values of all tokens but the
 * sequence's last, which the next computation runs first.
 * Arrays are on loan from caller or shard.
 */
struct epd_version {
	uint64_t node;		/* out: id, the lsn of its record */
	uint64_t parent;	/* out: node, 0 for a root */
	uint64_t start;		/* out: tokens before */
	uint64_t wall_ms;	/* out */
	const int32_t *ids;
	const struct epd_image_ref *images;
	const struct epd_page_ref *pages;
	uint32_t nids, nimages, npages;
	uint32_t first_page;
	const struct epd_run_link *links;
	uint32_t nlinks;
	uint64_t run;		/* 0: no pages but links' */
	int64_t next_pos;	/* position of the next text token; less the length: rope_delta */
	uint8_t turn, finish;
	uint8_t given;		/* its pages are a caller's or a peer's, or rest on such */
	uint8_t has_lengths;	/* the two below are known, else 0 */
	/* All up to here as epd_transcript renders it (engine/chat). */
	uint64_t text_bytes, messages_bytes;
	struct epd_sampling sampling;
	const float *logprobs;	/* [nids] or NULL */
	struct epd_span note;	/* JSON for people: command, counters; may be empty */
};

/* What a walk over many versions looks at. */
struct epd_glance {
	uint64_t node, parent, run;
	uint32_t first_page, npages, nids, nimages, nlinks;
	uint8_t has_lengths;
	uint64_t text_bytes, messages_bytes;
};

/* What all versions of a state have in common. */
struct epd_state {
	uint32_t id;			/* out */
	uint32_t versions;		/* out: the newest is @versions */
	enum epd_status status;		/* out */
	uint64_t epoch;			/* out: lsn of the last change */
	uint64_t created_ms;		/* out */
	uint64_t changed_ms;		/* out: by epoch, or shared no more */
	uint32_t parent_state, parent_version;	/* 0: none */
	uint64_t ttl_deadline_ms;	/* wall clock; 0: never */
	uint32_t page_tokens, kv_type;
	uint64_t page_bytes;
	struct epd_name model_fp;	/* parts of the fingerprint below, hashed */
	struct epd_name base;		/* parent's name of page 0 */
	const char *tier;		/* out: OFFLOADING, OFFLOADED to there; else "" */
	const char *tool;		/* out: whose result it waits for, or "" */
	uint64_t wait_deadline_ms;	/* out: when that is expected, wall clock; 0: no idea */
	/* fingerprint: JSON of all parts.  NULL counts as "". */
	const char *model_path, *tenant, *fingerprint;
};

#endif
