/*
 * shard_score.h - a few operations, what became of each, and whether a folder
 * is what that allows: what was acknowledged is there, what was refused is not,
 * what was unsure may be; and it opens, checks and goes on.
 */
#ifndef TESTS_SHARD_SCORE_H
#define TESTS_SHARD_SCORE_H

#include "tests/unit/shard.h"

enum { FAULT_OPS = 12, FAULT_MOST = 24 };

/* What became of operation k, which creates the state that salt k + 1 marks. */
struct fault_score {
	int rc[FAULT_MOST];	/* 1: not tried */
	int opened;
};

static uint64_t fault_checkpoint = 1500;	/* two or three a run */

static inline struct epd_shard_options
fault_options(int sync)
{
	struct epd_shard_options o = shard_plain;

	o.checkpoint_bytes = fault_checkpoint;
	o.log_keep = 1;
	o.sync = sync;
	return o;
}

static inline void
fault_work(struct fault_score *score, int dir, int sync)
{
	struct epd_shard_options o = fault_options(sync);
	struct epd_shard *s = NULL;
	uint32_t id;

	for (int k = 0; k < FAULT_OPS; k++)
		score->rc[k] = 1;
	score->opened = epd_shard_open(&s, dir, &o, NULL);
	if (score->opened)
		return;
	for (int k = 0; k < FAULT_OPS; k++) {
		score->rc[k] = EPD_EUNSURE;	/* if it dies in there */
		score->rc[k] = shard_create(s, (uint64_t)k + 1,
		    (uint64_t)k + 1, &id);
	}
	epd_shard_close(s);
}

/* How often the state with this salt is there. */
static inline int
fault_count(struct epd_shard *s, uint64_t salt)
{
	struct epd_version v;
	struct epd_state st;
	int n = 0;

	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id)
		if (epd_shard_version(s, st.id, 1, &v))
			return -1;
		else
			n += v.sampling.salt == salt;
	return n;
}

/* Whether the folder is what the score allows. */
static inline void
fault_verify(const struct fault_score *score, int dir)
{
	struct epd_shard_options o = fault_options(1);
	struct epd_why why = { "" };
	struct epd_shard *s;
	uint32_t id;
	int rc;

	rc = epd_shard_open(&s, dir, &o, &why);
	if (rc)
		CHECK_FAIL("opens with %d: %s", rc, why.text);
	for (int k = 0; k < FAULT_OPS; k++) {
		int n = fault_count(s, (uint64_t)k + 1);

		if (score->rc[k] == 0 && n != 1)
			CHECK_FAIL("acknowledged %d is there %d times", k, n);
		if (score->rc[k] == EPD_EUNSURE && n != 0 && n != 1)
			CHECK_FAIL("unsure %d is there %d times", k, n);
		if (score->rc[k] && score->rc[k] != EPD_EUNSURE && n != 0)
			CHECK_FAIL("refused %d (%d) is there", k, score->rc[k]);
	}
	CHECK_INT(shard_create(s, 500, 500, &id), 0);
	CHECK_INT(fault_count(s, 500), 1);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	/* A marker and temporaries have gone. */
	CHECK(faccessat(dir, "unsure", F_OK, 0));
	CHECK(scratch_count(dir, NULL) <= 5);
}

#endif
