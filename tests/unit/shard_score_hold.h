/*
 * shard_score_hold.h - operations that fork, lease and hand over, what became
 * of each, and whether a folder is what that allows: what another one becomes
 * by those that were acknowledged, and some of those that were unsure.
 */
#ifndef TESTS_SHARD_SCORE_HOLD_H
#define TESTS_SHARD_SCORE_HOLD_H

#include "tests/unit/shard_hold.h"
#include "tests/unit/shard_score.h"

enum { HOLD_OPS = 21 };

/* Who takes the leases; open before anything fails. */
static struct epd_procs *hold_procs;

static const struct epd_clock_fake hold_now = { 1700000000000, 5000000000 };

static inline int
hold_fork_of(struct epd_shard *s, uint32_t id, int replace)
{
	struct epd_fork_ask f = {
		.state = id, .branches = 2, .replace = replace,
		.reason = "agent_branch",
	};
	uint32_t first;

	return epd_shard_fork(s, &f, &first, NULL);
}

static inline int
hold_begin(struct epd_shard *s, uint8_t n, int target)
{
	struct epd_handoff h = {
		.id = { n }, .state = 1, .version = 3, .store = "/store",
		.workflow = "w2", .peer = { 9 }, .peer_state = 4,
		.peer_version = 1, .peer_lsn = 8, .deadline_ms = 5,
	};
	struct epd_state st = shard_traits(n);
	struct shard_made m;
	struct epd_run_link l[2];
	uint32_t id;

	return target ? epd_shard_ready(s, &h, &st,
	    hold_make(&m, l, n, 100 + 10 * (uint64_t)n), &id, NULL) :
	    epd_shard_prepare(s, &h, NULL);
}

/* The first lease on a state, 0 if there is none. */
static inline uint64_t
hold_lease_of(struct epd_shard *s, uint32_t id)
{
	struct epd_lease l = { .id = 0 };

	while (!epd_shard_lease_next(s, l.id, &l))
		if (l.state == id)
			return l.id;
	return 0;
}

static inline int
hold_op(struct epd_shard *s, int k)
{
	static const uint8_t one[16] = { 1 }, two[16] = { 2 };
	static const uint8_t three[16] = { 3 };
	struct shard_made m;
	uint64_t lease;
	uint32_t u;

	switch (k) {
	case 0: return shard_create(s, 1, 11, &u);
	case 1: return shard_advance(s, 1, 1, 0, 2, 12, &u);
	case 2: return hold_fork_of(s, 1, 0);		/* s2, s3 */
	case 3: return epd_shard_lease(s, 1, 0, EPD_LEASE_DECODE, 1000,
	    &lease, NULL);
	case 4: return epd_shard_renew(s, hold_lease_of(s, 1), 2000, NULL);
	case 5: return epd_shard_advance_leased(s, hold_lease_of(s, 1), 1, 2,
	    shard_make(&m, 3, 13), &u, NULL);
	case 6: return hold_fork_of(s, 2, 1);		/* s4, s5 */
	case 7: return hold_begin(s, 1, 0);
	case 8: return hold_begin(s, 2, 1);		/* s6 */
	case 9: return epd_shard_lease(s, 3, 1, EPD_LEASE_TRANSFER, 1000,
	    &lease, NULL);
	case 10: return epd_shard_release(s, 3, "", NULL, NULL, NULL);
	case 11: return epd_shard_commit_at(s, one, 0, NULL);
	case 12: return epd_shard_adopt(s, two, "", NULL);
	case 13: return epd_shard_forget_at(s, one, 0, NULL);
	case 14: return epd_shard_suspect(s, 4, "no image", NULL);
	case 15: return epd_shard_clear(s, 4, "", NULL);
	case 16: return epd_shard_drop(s, hold_lease_of(s, 3), "", NULL);
	case 17: return hold_begin(s, 3, 1);
	case 18: return epd_shard_rollback_at(s, three, 0, "", NULL);
	case 19: return epd_shard_abort(s, 5, "", NULL);
	default: return epd_shard_lease(s, 4, 0, EPD_LEASE_DECODE, 1000,
	    &lease, NULL);
	}
}

static inline struct epd_shard_options
hold_options(int sync)
{
	struct epd_shard_options o = fault_options(sync);

	o.procs = hold_procs;
	return o;
}

static inline void
hold_work(struct fault_score *score, int dir, int sync)
{
	struct epd_shard_options o = hold_options(sync);
	struct epd_shard *s = NULL;

	epd_clock_fake(&hold_now);
	for (int k = 0; k < HOLD_OPS; k++)
		score->rc[k] = 1;
	score->opened = epd_shard_open(&s, dir, &o, NULL);
	if (score->opened)
		return;
	for (int k = 0; k < HOLD_OPS; k++) {
		score->rc[k] = EPD_EUNSURE;	/* if it dies in there */
		score->rc[k] = hold_op(s, k);
	}
	epd_shard_close(s);
}

/* What a folder shows after those operations that the mask has. */
static inline uint64_t
hold_replayed(uint32_t mask, int *rc)
{
	struct epd_shard_options o = hold_options(0);
	int dir = scratch_open();
	struct epd_shard *s = NULL;
	uint64_t h = 0;

	o.checkpoint_bytes = 1 << 20;
	*rc = epd_shard_open(&s, dir, &o, NULL);
	for (int k = 0; k < HOLD_OPS && !*rc; k++)
		*rc = mask >> k & 1 ? hold_op(s, k) : 0;
	if (!*rc)
		h = hold_hash_of(s, 0);
	epd_shard_close(s);
	scratch_close(dir);
	return h;
}

/* One of the ways in which the unsure ones may have ended gives this. */
static inline int
hold_explained(const struct fault_score *score, uint64_t hash)
{
	uint32_t sure = 0, unsure = 0, part = 0;
	int rc;

	for (int k = 0; k < HOLD_OPS; k++) {
		sure |= (uint32_t)(score->rc[k] == 0) << k;
		unsure |= (uint32_t)(score->rc[k] == EPD_EUNSURE) << k;
	}
	do {
		if (hold_replayed(sure | part, &rc) == hash && !rc)
			return 1;
		part = (part - unsure) & unsure;
	} while (part);
	return 0;
}

static inline void
hold_verify(const struct fault_score *score, int dir)
{
	struct epd_shard_options o = hold_options(1);
	struct epd_why why = { "" };
	struct epd_shard *s;
	uint32_t id;
	int rc;

	epd_clock_fake(&hold_now);
	rc = epd_shard_open(&s, dir, &o, &why);
	if (rc)
		CHECK_FAIL("opens with %d: %s", rc, why.text);
	if (!hold_explained(score, hold_hash_of(s, 0))) {
		for (int k = 0; k < HOLD_OPS; k++)
			printf("# operation %d: %d\n", k, score->rc[k]);
		CHECK_FAIL("not what these give");
	}
	CHECK_INT(shard_create(s, 500, 500, &id), 0);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	CHECK(faccessat(dir, "unsure", F_OK, 0));
	CHECK(scratch_count(dir, NULL) <= 5);
}

#endif
