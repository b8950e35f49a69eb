/*
 * wire_carry - plans carried out over a transport that fails: retries as new attempts,
 * fallback, late completions, reservations, deadlines.
 *
 * The transport below the faults moves bytes to and from one array here, so what a
 * test asks is of move/ alone; the same over tcp, shm and io_uring is in wire_faults.
 */
#include "tests/unit/wire_world.h"

#define MS WORLD_MS
enum { SIZE = 8 << 20, ITEMS = WORLD_ITEMS, MOVES = 8 };

/* ---- a transport of memory ---- */

static uint8_t there[SIZE], here[SIZE];

static uint64_t asked;			/* bytes, of all moves */

struct mem {
	EPD_LINK_OPS;
	struct epd_piece piece[MOVES];
	int n;
};

static int
mem_probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)t;
	(void)why;
	*out = (struct epd_transport_facts){ .alignment = 1 };
	return 0;
}

static int
mem_open(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct mem *m = calloc(1, sizeof *m);

	(void)peer;
	(void)why;
	m->ops = t;
	*out = (struct epd_link *)(void *)m;
	return 0;
}

static void
mem_close(struct epd_link *l)
{
	free(l);
}

static int
mem_submit(struct epd_link *l, const struct epd_piece *p, struct epd_why *why)
{
	struct mem *m = (struct mem *)(void *)l;

	(void)why;
	if (m->n == MOVES)
		return -EAGAIN;
	m->piece[m->n++] = *p;
	asked += p->bytes;
	return 0;
}

static int
mem_wait(struct epd_link *l, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct mem *m = (struct mem *)(void *)l;
	int n = 0;

	(void)deadline_ns;
	if (!m->n)
		return epd_why(why, EPD_EUSAGE, "nothing is under way");
	/* The last first: no order is promised. */
	for (; m->n && n < max; n++) {
		const struct epd_piece *p = m->piece + --m->n;

		if (p->op == EPD_OP_READ)
			memcpy(p->local, there + p->offset, p->bytes);
		else
			memcpy(there + p->offset, p->local, p->bytes);
		done[n] = (struct epd_piece_done){ .tag = p->tag,
		    .bytes = p->bytes };
	}
	return n;
}

static int
mem_shut(struct epd_link *l, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	(void)l;
	(void)window;
	(void)deadline_ns;
	(void)why;
	return 0;
}

#define MEM(name, via) static const struct epd_transport name = { \
	.backend = via, .probe = mem_probe, .open = mem_open, \
	.close = mem_close, .submit = mem_submit, .wait = mem_wait, \
	.shut = mem_shut }
MEM(mem_rdma, EPD_VIA_RDMA);
MEM(mem_tcp, EPD_VIA_TCP);

static const struct world_ways ways = { .first = &mem_rdma, .second = &mem_tcp,
	.there = there, .here = here, .size = SIZE };

/* ---- nothing fails ---- */

TEST(both_ways_in_pieces)
{
	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		struct epd_carried got;
		struct world w;

		begin(&w, &ways, NULL, (enum epd_op)op, 0, NULL, 0, NULL, 0);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK(is_equal(&w) && is_idle(&w));
		CHECK_INT(got.backend, EPD_VIA_RDMA);
		CHECK_INT(got.attempts, 1);
		CHECK_INT(got.bytes, w.intent.bytes);
		CHECK_INT(w.commits, 1);
		CHECK(w.reserved >= w.intent.bytes);
		end(&w);
	}
}

/* ---- the RFC's five faults ---- */

TEST(fault1_primary_fails_before_dispatch)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w) && is_idle(&w));
	CHECK_INT(got.backend, EPD_VIA_TCP);
	CHECK_INT(got.role, EPD_ROLE_FALLBACK);
	CHECK_INT(got.fallbacks, 1);
	CHECK_INT(got.retries, 2);
	CHECK_INT(w.opened[EPD_VIA_RDMA], 3);
	end(&w);
}

TEST(fault2_primary_fails_after_submission)
{
	/* Some move, one fails, the rest never comes. */
	const struct epd_fault f[] = {
		{ EPD_FAULT_MOVE, 13, 1, EPD_EPEER, 5000, 0 },
		{ EPD_FAULT_CUT, 20, 0, EPD_EPEER, 0, 0 },
	};
	struct epd_carried got;
	struct world w;

	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		begin(&w, &ways, NULL, (enum epd_op)op, 0, f, 2, NULL, 0);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK(is_equal(&w) && is_idle(&w));
		CHECK_INT(got.backend, EPD_VIA_TCP);
		CHECK_INT(got.fallbacks, 1);
		/* What had come whole was not moved again. */
		CHECK(got.bytes < w.intent.bytes + 8 * 10000);
		end(&w);
	}
}

TEST(fault3_stale_dependency_is_revalidated)
{
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, NULL, 0, NULL, 0);
	w.change_at = 1;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(got.replans, 1);
	CHECK_INT(w.decided, 2);
	CHECK(is_equal(&w) && is_idle(&w));
	end(&w);
}

/* The same before a fallback: it is not dispatched as it was decided. */
TEST(fault3_stale_fallback_is_decided_anew)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, -ENODEV, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, NULL, 0);
	w.change_at = 2;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(got.replans, 1);
	CHECK_INT(got.backend, EPD_VIA_TCP);
	CHECK(is_equal(&w));
	end(&w);
}

TEST(fault4_late_completion_of_an_old_attempt)
{
	/* Told twice, and told late: neither is the new attempt's. */
	const struct epd_fault f[] = {
		{ EPD_FAULT_TWICE, 3, 2, 0, 0, 0 },
		{ EPD_FAULT_LATE, 6, 1, 0, 0, 30 * MS },
		{ EPD_FAULT_MOVE, 9, 1, EPD_EPEER, 0, 0 },
	};
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, ONLY_FIRST, f, 3, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w) && is_idle(&w));
	CHECK(got.attempts > 1);
	CHECK(got.late >= 1);
	end(&w);
}

/* A link that is used again tells of moves of the attempt before. */
static struct epd_link *shared;
static int
open_shared(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	if (!shared) {
		int rc = open_way(arg, plan, moved, out, deadline_ns, why);

		if (rc < 0)
			return rc;
		shared = out->link;
	}
	*out = (struct epd_passage){ .link = shared, .window = 1 };
	return 0;
}
static void
close_shared(void *arg, struct epd_passage *p, int broken)
{
	(void)arg;
	(void)p;
	(void)broken;
}

TEST(fault4_an_old_attempts_tags_count_for_nothing)
{
	const struct epd_fault f[] = {
		{ EPD_FAULT_TWICE, 0, 4, 0, 0, 0 },
		{ EPD_FAULT_LATE, 4, 2, 0, 0, 60 * MS },
		{ EPD_FAULT_MOVE, 7, 1, EPD_EPEER, 0, 0 },
	};
	struct epd_carrier how = carrier;
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, ONLY_FIRST, f, 3, NULL, 0);
	shared = NULL;
	how.open = open_shared;
	how.close = close_shared;
	w.c.how = &how;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(got.attempts, 2);
	CHECK(got.late > 0);
	CHECK(is_equal(&w));
	epd_link_ops(shared)->close(shared);
	CHECK(is_idle(&w));
	end(&w);
}

TEST(fault5_fallback_the_policy_does_not_allow)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, NO_FALLBACK, f, 1, NULL, 0);
	w.c.deadline_ns = epd_clock_boot_ns() + 400 * MS;
	CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_EPEER);
	CHECK_INT(w.opened[EPD_VIA_TCP], 0);
	CHECK_INT(got.fallbacks, 0);
	CHECK(is_idle(&w));
	end(&w);
}

/* ---- a peer that is away ---- */

/* By either way nobody answers before back_ns; how often that was tried. */
static uint64_t back_ns;
static int tried, tried_late;
static int away_rc;
static int
place_away(void *arg, struct epd_faulty *f, struct epd_passage *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	const struct epd_peer peer = { .address = "mem", .deadline_ns = deadline_ns };
	const uint64_t now_ns = epd_clock_boot_ns();

	(void)arg;
	if (now_ns < back_ns) {
		tried++;
		tried_late += back_ns - now_ns < 1000 * MS;
		return epd_why(why, away_rc, "nobody answers");
	}
	return f->ops.open(&f->ops, &out->link, &peer, why);
}

static void
go_away(struct world_ways *to, int rc, uint64_t ms)
{
	*to = ways;
	to->place = place_away;
	to->size = SIZE / 64;
	back_ns = epd_clock_boot_ns() + ms * MS;
	away_rc = rc;
	tried = tried_late = 0;
}

TEST(a_peer_that_is_back_in_time)
{
	struct world_ways away;
	struct epd_carried got;
	struct world w;

	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		go_away(&away, EPD_EPEER, op == EPD_OP_READ ? 300 : 1500);
		begin(&w, &away, NULL, (enum epd_op)op, 0, NULL, 0, NULL, 0);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		/* As soon as it is there, or half a second later. */
		CHECK(epd_clock_boot_ns() - back_ns < 900 * MS);
		CHECK(is_equal(&w) && is_idle(&w));
		CHECK_INT(w.commits, 1);
		end(&w);
	}
}

/* Tries at first, and then no more than four rounds a second, over both ways. */
TEST(kind29_a_peer_that_stays_away_is_not_stormed)
{
	struct world_ways away;
	struct epd_carried got;
	struct epd_why why;
	struct world w;
	uint64_t from;

	for (int how = 0; how <= ONLY_FIRST; how++) {
		go_away(&away, EPD_EPEER, 2500);
		begin(&w, &away, NULL, EPD_OP_READ, how, NULL, 0, NULL, 0);
		from = epd_clock_boot_ns();
		w.c.deadline_ns = from + 2500 * MS;
		CHECK_INT(epd_carry(&w.c, &got, &why), EPD_EPEER);
		CHECK_STR(why.text, "nobody answers");
		from = epd_clock_boot_ns() - from;
		CHECK(from >= 1900 * MS && from < 2600 * MS);
		/* 6 or 3; while waits grow to half a second 8 rounds; then 4 a second. */
		CHECK(tried <= (how ? 3 + 16 : 6 + 32));
		CHECK(tried_late >= 1 && tried_late <= (how ? 5 : 10));
		CHECK_INT(tried, got.attempts);
		CHECK(is_idle(&w));
		end(&w);
	}
}

TEST(what_is_refused_for_good_ends_at_once)
{
	static const int no[] = { EPD_EAUTH, EPD_EUSAGE, EPD_EMODEL, EPD_EKIND,
		EPD_ENOTHING, EPD_EUNSUPPORTED };
	struct world_ways away;
	struct epd_carried got;
	struct world w;

	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		const uint64_t from = epd_clock_boot_ns();

		go_away(&away, no[i], 5000);
		begin(&w, &away, NULL, EPD_OP_READ, ONLY_FIRST, NULL, 0, NULL, 0);
		CHECK_INT(epd_carry(&w.c, &got, NULL), no[i]);
		CHECK_INT(tried, 1);
		CHECK(epd_clock_boot_ns() - from < 500 * MS);
		CHECK(is_idle(&w));
		end(&w);
	}
}

TEST(waits_double_to_half_a_second_and_are_not_alike)
{
	const uint64_t far = epd_clock_boot_ns() + 60000 * MS;
	uint64_t most = 10 * MS, least = UINT64_MAX, longest = 0, wait = 0;

	for (int i = 0; i < 7; i++) {
		const uint64_t from = epd_clock_boot_ns();
		uint64_t ns;

		CHECK_INT(epd_back_off(&wait, far), 1);
		ns = epd_clock_boot_ns() - from;
		CHECK(ns >= most / 2 && ns < most + 30 * MS);
		most = most < 250 * MS ? most * 2 : 500 * MS;
		CHECK_INT(wait, most);
	}
	for (int i = 0; i < 24; i++) {
		const uint64_t from = epd_clock_boot_ns();
		uint64_t ns;

		wait = 20 * MS;
		CHECK_INT(epd_back_off(&wait, far), 1);
		ns = epd_clock_boot_ns() - from;
		least = ns < least ? ns : least;
		longest = ns > longest ? ns : longest;
	}
	CHECK(longest - least > 2 * MS);
	/* What does not fit is not begun. */
	wait = 500 * MS;
	most = epd_clock_boot_ns();
	CHECK_INT(epd_back_off(&wait, most + 100 * MS), 0);
	CHECK(epd_clock_boot_ns() - most < 50 * MS);
}

/* ---- what may be done again ---- */

TEST(unsafe_after_partial_progress_is_refused)
{
	const struct epd_fault f[] = { { EPD_FAULT_MOVE, 5, 1, EPD_EPEER, 100, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_WRITE, NOT_SAFE | UNVERSIONED, f, 1, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_EPARTIAL);
	CHECK_INT(got.attempts, 1);
	CHECK_INT(w.commits, 0);
	CHECK(is_idle(&w));
	end(&w);
	/* A target that is versioned may be begun again, whatever the backend. */
	begin(&w, &ways, NULL, EPD_OP_WRITE, NOT_SAFE, f, 1, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w));
	end(&w);
	/* So may what is idempotent. */
	begin(&w, &ways, NULL, EPD_OP_WRITE, UNVERSIONED, f, 1, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w));
	end(&w);
}

TEST(unsafe_before_anything_moved_is_no_matter)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 1, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_WRITE, NOT_SAFE | UNVERSIONED, f, 1, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(got.attempts, 2);
	CHECK(is_equal(&w) && is_idle(&w));
	end(&w);
}

TEST(a_fresh_window_has_nothing_of_the_last)
{
	const struct epd_fault f[] = { { EPD_FAULT_MOVE, 200, 1, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_WRITE, 0, f, 1, NULL, 0);
	w.fresh = 1;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w));
	CHECK(got.again > 0);
	CHECK_INT(got.bytes - got.again, w.intent.bytes);
	end(&w);
}

/* ---- damage ---- */

TEST(damage_is_found_and_moved_again)
{
	const struct epd_fault f[] = {
		{ EPD_FAULT_CORRUPT, 4, 3, 0, 17, 0 },
		{ EPD_FAULT_MOVE, 30, 1, EPD_ECORRUPT, 0, 0 },
	};
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 2, NULL, 0);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_equal(&w) && is_idle(&w));
	CHECK(got.corrupt >= 2);
	CHECK(got.bytes < w.intent.bytes + 8 * (SIZE / ITEMS));
	end(&w);
}

TEST(damage_that_stays_is_told)
{
	const struct epd_fault f[] = { { EPD_FAULT_CORRUPT, 0, 0, 0, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, f, 1);
	CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_ECORRUPT);
	CHECK(is_idle(&w));
	end(&w);
}

/* ---- deadlines ---- */

TEST(kind30_a_peer_that_says_nothing)
{
	const struct epd_fault f[] = { { EPD_FAULT_DROP, 0, 0, 0, 0, 0 } };
	uint64_t from = epd_clock_boot_ns();
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, f, 1);
	w.c.deadline_ns = epd_clock_boot_ns() + 600 * MS;
	CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_ETIMEOUT);
	from = epd_clock_boot_ns() - from;
	CHECK(from >= 500 * MS && from < 2000 * MS);
	CHECK(is_idle(&w));
	end(&w);
	/* The other path gets its share of the time. */
	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, NULL, 0);
	w.c.deadline_ns = epd_clock_boot_ns() + 1500 * MS;
	w.c.tries = 1;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(got.backend, EPD_VIA_TCP);
	CHECK(is_equal(&w));
	end(&w);
}

static atomic_int over;
static int
is_over(void *arg)
{
	(void)arg;
	return atomic_load(&over);
}

static void *
call_off(void *arg)
{
	(void)arg;
	epd_clock_sleep_ns(150 * MS);
	atomic_store(&over, 1);
	return NULL;
}

TEST(called_off)
{
	const struct epd_fault f[] = { { EPD_FAULT_DROP, 0, 0, 0, 0, 0 } };
	uint64_t from = epd_clock_boot_ns();
	struct epd_carried got;
	pthread_t t;
	struct world w;
	int rc;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, f, 1, f, 1);
	atomic_store(&over, 0);
	pthread_create(&t, NULL, call_off, NULL);
	epd_stop_heed(is_over, NULL);
	rc = epd_carry(&w.c, &got, NULL);
	epd_stop_heed(NULL, NULL);
	pthread_join(t, NULL);
	CHECK_INT(rc, -ECANCELED);
	CHECK(epd_clock_boot_ns() - from < 1000 * MS);
	CHECK(is_idle(&w));
	end(&w);
}

/* A piece that breaks goes on where it broke, by the same way and by the other. */
TEST(no_certain_byte_moves_twice)
{
	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++)
		for (uint32_t times = 1; times <= 4; times++) {
			const struct epd_fault f[] = {
				{ EPD_FAULT_MOVE, 0, times, EPD_EPEER, 100, 0 } };
			struct epd_carried got;
			struct epd_item *item;
			struct world w;

			begin(&w, &ways, NULL, (enum epd_op)op, 0, f, 1, NULL, 0);
			item = w.item;
			*item = w.item[WORLD_ITEMS - 1];
			CHECK(item->bytes > 500);
			w.c.n = 1;
			w.c.piece_bytes = 1 << 20;
			asked = 0;
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK_INT(asked, (long long)item->bytes);
			CHECK_INT(got.bytes, (long long)item->bytes);
			CHECK(!memcmp(item->local, there + item->offset,
			    item->bytes));
			CHECK(is_idle(&w));
			end(&w);
		}
}

/* What is not where it was begins from its first byte. */
TEST(a_fresh_passage_begins_anew)
{
	const struct epd_fault f[] = { { EPD_FAULT_MOVE, 0, 1, EPD_EPEER, 100, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_WRITE, 0, f, 1, NULL, 0);
	w.item[0] = w.item[WORLD_ITEMS - 1];
	w.c.n = 1;
	w.c.piece_bytes = 1 << 20;
	w.fresh = 1;
	asked = 0;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(asked, (long long)w.item[0].bytes + 100);
	end(&w);
}

/* ---- what it takes ---- */

TEST(a_charge_is_granted_whole_or_not_at_all)
{
	struct epd_ledger l;
	struct epd_charge c = { .nic_bytes = 10, .receiver_bytes = 10,
	    .request_slots = 1, .staging_slots = 65 };
	struct epd_charge before;

	epd_ledger_default(&l);
	epd_ledger_credit(&l, &(struct epd_credits){ .bytes = 100, .slots = 1 });
	before = l.used;
	CHECK_INT(epd_ledger_take(&l, &c, NULL), EPD_ECREDIT);
	CHECK(!memcmp(&before, &l.used, sizeof before));
	c.staging_slots = 64;
	CHECK_INT(epd_ledger_take(&l, &c, NULL), 0);
	CHECK_INT(epd_ledger_take(&l, &c, NULL), EPD_ECREDIT);
	CHECK_INT(l.used.nic_bytes, 10);
	/* What is granted beside what is used. */
	epd_ledger_credit(&l, &(struct epd_credits){ .bytes = 5, .slots = 1,
	    .staging = 3 });
	CHECK_INT(l.limit.receiver_bytes, 15);
	CHECK_INT(l.limit.consumer_slots, 3);
	epd_ledger_give(&l, &c);
	CHECK(!memcmp(&before, &l.used, sizeof before));
	/* Every part alone is enough to refuse it. */
	for (int i = 0; i < 8; i++) {
		struct epd_charge one = {0};
		struct epd_ledger tight = {0};

		switch (i) {
		case 0: one.nic_bytes = 1; break;
		case 1: one.receiver_bytes = 1; break;
		case 2: one.host_staging_bytes = 1; break;
		case 3: one.request_slots = 1; break;
		case 4: one.staging_slots = 1; break;
		case 5: one.consumer_slots = 1; break;
		case 6: one.qp_slots = 1; break;
		default: one.cq_slots = 1; break;
		}
		CHECK_INT(epd_ledger_take(&tight, &one, NULL), EPD_ECREDIT);
	}
}

static void *
grant(void *arg)
{
	struct world *w = arg;

	epd_clock_sleep_ns(100 * MS);
	w->books.limit.request_slots = 64;
	return NULL;
}

TEST(it_waits_for_what_is_not_granted_yet)
{
	struct epd_carried got;
	pthread_t t;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, NULL, 0, NULL, 0);
	w.books.limit.request_slots = 0;
	w.c.deadline_ns = epd_clock_boot_ns() + 300 * MS;
	CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_ECREDIT);
	CHECK_INT(w.opened[EPD_VIA_RDMA] + w.opened[EPD_VIA_TCP], 0);
	w.c.deadline_ns = epd_clock_boot_ns() + 5000 * MS;
	pthread_create(&t, NULL, grant, &w);
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	pthread_join(t, NULL);
	CHECK(is_equal(&w) && is_idle(&w));
	end(&w);
}

/* ---- recompute ---- */

TEST(what_cannot_come_is_computed)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, -ENODEV, 0, 0 } };
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, RECOMPUTES, f, 1, f, 1);
	w.intent.tokens = 1000;
	w.intent.tokens_per_s = 500;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK_INT(w.recomputed, 1);
	CHECK_INT(got.backend, EPD_VIA_RECOMPUTE);
	CHECK_INT(got.role, EPD_ROLE_DEGRADED);
	CHECK_INT(got.fallbacks, 2);
	end(&w);
}

static int refuse_at, asked_for;
static int
refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return ++asked_for == refuse_at;
}

TEST(memory_fails_at_each_place)
{
	struct world_ways few = ways;
	int failed = 0;

	for (refuse_at = 1;; refuse_at++) {
		struct epd_carried got;
		struct world w;
		int rc;

		few.size = SIZE / 64;
		begin(&w, &few, NULL, EPD_OP_READ, 0, NULL, 0, NULL, 0);
		asked_for = 0;
		epd_alloc_hook(refuse, NULL);
		rc = epd_carry(&w.c, &got, NULL);
		epd_alloc_hook(NULL, NULL);
		CHECK(rc == 0 || rc == -ENOMEM);
		CHECK(is_idle(&w));
		CHECK(rc < 0 || is_equal(&w));
		failed += rc < 0;
		end(&w);
		if (asked_for < refuse_at)
			break;
	}
	CHECK(failed >= 3);
}

TEST(nothing_to_move)
{
	struct epd_carried got;
	struct world w;

	begin(&w, &ways, NULL, EPD_OP_READ, 0, NULL, 0, NULL, 0);
	w.c.n = 0;
	CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
	CHECK(is_idle(&w));
	end(&w);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
