/*
 * wire_world.h - one carry, its planner and the two ways that it may go, each with
 * faults of its own: over what transports is the test's.  What is there lies in one
 * array, and so does what is here; items are stretches of both.
 */
#ifndef TESTS_WIRE_WORLD_H
#define TESTS_WIRE_WORLD_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/stop.h"
#include "move/move.h"
#include "tests/check.h"
#include "transport/transport.h"

#define WORLD_MS UINT64_C(1000000)
enum { WORLD_ITEMS = 40 };
enum { ONLY_FIRST = 1, NO_FALLBACK = 2, NOT_SAFE = 4, UNVERSIONED = 8,
	RECOMPUTES = 16 };

/* Two transports, and how a passage is come by. */
struct world_ways {
	const struct epd_transport *first, *second;	/* second NULL: there is none */
	/*
	 * A link by f, and a window there; NULL: f's link, and window 1.  The ways' arg
	 * is w->arg.
	 */
	int (*place)(void *arg, struct epd_faulty *f, struct epd_passage *out,
	    uint64_t deadline_ns, struct epd_why *why);
	uint8_t medium;			/* of what is there */
	uint8_t *there, *here;
	int is_afar;			/* there is what another process has, as far as is known */
	uint64_t size;
	uint64_t piece;
};

struct world {
	const struct world_ways *ways;
	void *arg;
	struct epd_faulty first, second;
	struct epd_planner *planner;
	struct epd_operations how;
	struct epd_intent intent;
	struct epd_item item[WORLD_ITEMS];
	struct epd_carry c;
	struct epd_ledger books;
	int decided, commits, opened[EPD_VIA_COUNT], recomputed, fresh;
	int change_at;			/* the look at which the policy changes */
	int looks;
	uint64_t reserved;		/* bytes, seen while a way was open */
};

static int
decide(void *arg, int32_t index, struct epd_decision *out, struct epd_why *why)
{
	struct world *w = arg;

	(void)why;
	w->decided++;
	w->intent.index = index;
	w->intent.now_ns = epd_clock_boot_ns();
	return epd_plan_decide(w->planner, &w->how, &w->intent, out);
}

static void
now(void *arg, struct epd_generations *out)
{
	struct world *w = arg;

	epd_plan_generations(w->planner, &w->how, &w->intent, out);
	if (w->change_at && w->looks++ == w->change_at - 1)
		out->policy++;
}

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct world *w = arg;
	const enum epd_backend b = (enum epd_backend)plan->stage[0].backend;
	struct epd_faulty *f = b == w->ways->first->backend ? &w->first :
	    &w->second;
	const struct epd_peer peer = { .address = "mem", .deadline_ns = deadline_ns };
	int rc;

	(void)moved;
	w->opened[b]++;
	w->reserved = w->books.used.nic_bytes;
	for (uint32_t i = 0; i < w->c.n; i++)
		w->item[i].offset = (uint64_t)((uint8_t *)w->item[i].local -
		    w->ways->here);
	out->window = 1;
	rc = w->ways->place ? w->ways->place(w->arg, f, out, deadline_ns, why) :
	    f->ops.open(&f->ops, &out->link, &peer, why);
	out->fresh = w->fresh;
	return rc;
}

static void
close_way(void *arg, struct epd_passage *p, int broken)
{
	(void)broken;
	(void)arg;
	epd_link_ops(p->link)->close(p->link);
}

static int
commit(void *arg, const struct epd_plan *plan, const struct epd_passage *p,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct world *w = arg;

	(void)plan;
	(void)p;
	(void)deadline_ns;
	(void)why;
	w->commits++;
	return 0;
}

static int
recompute(void *arg, const struct epd_plan *plan, struct epd_why *why)
{
	(void)plan;
	(void)why;
	((struct world *)arg)->recomputed++;
	return 0;
}

static const struct epd_carrier carrier = {
	.decide = decide, .now = now, .open = open_way, .close = close_way,
	.commit = commit, .recompute = recompute,
};

static void
begin(struct world *w, const struct world_ways *ways, void *arg, enum epd_op op,
    int how, const struct epd_fault *first, int nfirst,
    const struct epd_fault *second, int nsecond)
{
	const uint8_t via[2] = { (uint8_t)ways->first->backend,
		(uint8_t)(ways->second ? ways->second->backend : 0) };
	const uint64_t machine = via[0] == EPD_VIA_SHM || via[1] == EPD_VIA_SHM ?
	    1 : 2;
	uint8_t *there = ways->there, *here = ways->here;
	struct epd_capability can[3];
	struct epd_plan_config c;
	uint64_t at = 0;
	int n = 0;

	memset(w, 0, sizeof *w);
	w->ways = ways;
	w->arg = arg;
	epd_faulty_init(&w->first, ways->first, first, nfirst);
	if (ways->second)
		epd_faulty_init(&w->second, ways->second, second, nsecond);
	epd_plan_config_default(&c);
	epd_capability_default(can + n++, ways->first->backend);
	if (ways->second && !(how & ONLY_FIRST))
		epd_capability_default(can + n++, ways->second->backend);
	for (int i = 0; how & NOT_SAFE && i < n; i++)
		can[i].flags &= ~(uint32_t)EPD_CAN_RETRY;
	if (!(how & ONLY_FIRST))
		epd_capability_default(can + n++, EPD_VIA_RECOMPUTE);
	c.capability = can;
	c.ncapabilities = n;
	c.contract.allows = how & NO_FALLBACK ? 0 : EPD_MAY_FALLBACK;
	if (how & RECOMPUTES)
		c.contract.allows |= EPD_MAY_RECOMPUTE;
	c.policy_generation = 1;
	epd_planner_new(&w->planner, &c, NULL);
	for (uint64_t i = 0; i < ways->size; i++) {
		if (!ways->is_afar)
			there[i] = (uint8_t)(op == EPD_OP_READ ?
			    i * 7 + i / 255 : 0);
		here[i] = (uint8_t)(op == EPD_OP_READ ? 0 : i * 5 + i / 253);
	}
	for (uint64_t i = 0; i < WORLD_ITEMS; i++) {
		const uint64_t bytes = 1 + i * 9973 % (ways->size / WORLD_ITEMS);

		w->item[i] = (struct epd_item){ .local = here + at,
		    .bytes = bytes, .sum = epd_xxh3_64(there + at, bytes),
		    .has_sum = 1 };
		at += bytes;
	}
	w->intent = (struct epd_intent){
		.id = 100, .bytes = at, .op = (uint8_t)op, .hint = via[0],
		.here = { .medium = EPD_IN_CPU, .node = 1, .machine = 1,
		    .ntags = 2, .tag = { via[0], via[1] } },
		.there = { .medium = ways->medium ? ways->medium : EPD_IN_CPU,
		    .node = 2, .machine = machine,
		    .ntags = 2, .tag = { via[0], via[1] } },
		.priority = EPD_PRIO_NORMAL,
	};
	w->intent.here.ntags = w->intent.there.ntags = ways->second ? 2 : 1;
	epd_ledger_default(&w->books);
	epd_ledger_credit(&w->books, &(struct epd_credits){ .generation = 1,
	    .bytes = UINT64_MAX, .slots = 100, .staging = 100 });
	w->c = (struct epd_carry){
		.op = op, .item = w->item, .n = WORLD_ITEMS,
		.versioned = !(how & UNVERSIONED),
		.piece_bytes = ways->piece ? ways->piece : 10000,
		.deadline_ns = epd_clock_boot_ns() + 5000 * WORLD_MS,
		.books = &w->books, .how = &carrier, .arg = w,
	};
}

static inline void
end(struct world *w)
{
	epd_planner_free(w->planner);
}

static inline int
is_equal(const struct world *w)
{
	for (int i = 0; i < WORLD_ITEMS; i++)
		if (memcmp(w->item[i].local, w->ways->there +
		    ((uint8_t *)w->item[i].local - w->ways->here),
		    w->item[i].bytes))
			return 0;
	return 1;
}

static inline int
is_idle(const struct world *w)
{
	static const struct epd_charge none;

	return w->first.links == 0 && w->second.links == 0 &&
	    !memcmp(&w->books.used, &none, sizeof none);
}

#endif
