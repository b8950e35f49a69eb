/*
 * shard_life.h - sequences drawn from the table of life.h and played on a
 * shard: what the table allows must be accepted, and check must agree.
 */
#ifndef TESTS_SHARD_LIFE_H
#define TESTS_SHARD_LIFE_H

#include "shard/life.h"
#include "tests/unit/shard.h"

enum { LIFE_STATES = 64 };

/* A random move out of `from` that a verb of the shard can make; -1: none. */
static inline int
life_draw(enum epd_state_life from, uint64_t *r)
{
	int found = -1, n = 0;

	for (int i = 0; i < epd_state_nmoves; i++) {
		const struct epd_state_move *m = &epd_state_moves[i];

		if (m->from != from || (m->verb != EPD_KIND_CREATE &&
		    m->verb != EPD_KIND_ADVANCE && m->verb != EPD_KIND_RELEASE))
			continue;
		if (shard_mix(++*r) % (uint64_t)++n == 0)
			found = i;
	}
	return found;
}

/* One sequence; the checkpoint, another handle and reopening come in too. */
static inline void
life_play(uint64_t seed, int steps)
{
	enum epd_state_life life[LIFE_STATES] = { EPD_STATE_NONE };
	uint32_t versions[LIFE_STATES] = { 0 }, n = 0, version;
	int dir = scratch_open();
	struct epd_shard *s;
	uint64_t r = seed * 1000003;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (int i = 0; i < steps; i++) {
		uint32_t id = 1 + (uint32_t)(shard_mix(++r) % (n + 1));
		const struct epd_state_move *m;
		int move;

		if (id >= LIFE_STATES)
			continue;
		move = life_draw(life[id], &r);
		if (move < 0) {
			/* Nothing leads out of FREE. */
			CHECK_INT(life[id], EPD_STATE_FREE);
			CHECK_INT(shard_advance(s, id, 1, 0, 1, 0, &version),
			    EPD_ENOSTATE);
			continue;
		}
		m = &epd_state_moves[move];
		switch (m->verb) {
		case EPD_KIND_CREATE:
			CHECK_INT(shard_create(s, r, r & 1 ? r : 0, &version), 0);
			CHECK_INT(version, id);
			versions[id] = 1;
			n++;
			break;
		case EPD_KIND_ADVANCE:
			CHECK_INT(shard_advance(s, id, versions[id], 0, r,
			    0, &version), 0);
			CHECK_INT(version, ++versions[id]);
			break;
		default:
			CHECK_INT(epd_shard_release(s, id, m->reason, NULL,
			    NULL, NULL), 0);
			break;
		}
		life[id] = m->to;
		if (shard_mix(++r) % 16 == 0)
			CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
		if (shard_mix(++r) % 16 == 0) {
			epd_shard_close(s);
			CHECK_INT(shard_open(&s, dir, 0), 0);
		}
	}
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

#endif
