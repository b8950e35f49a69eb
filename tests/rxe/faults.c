/*
 * faults.c - the RFC's five faults on rdma, by real links to a real server in another
 * process, falling back to tcp.  Runs in the guest that boot.sh makes; the same on what
 * needs no device is unit/wire_faults.
 */
#include "tests/rxe/serve.h"
#include "tests/unit/wire_world.h"

static uint8_t there[WIRE_BYTES], here[WIRE_BYTES];
static struct serve s;
static enum epd_op op;

/* A link by the faulty one, and a window of memory. */
static int
place(void *arg, struct epd_faulty *f, struct epd_passage *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	const struct epd_peer peer = { .address = s.address, .checksum = 1,
		.device = "rxe0", .key = epd_span_str(KEY),
		.deadline_ns = deadline_ns };
	int rc = f->ops.open(&f->ops, &out->link, &peer, why);

	(void)arg;
	if (rc)
		return rc;
	out->window = wire_open(out->link, WIRE_MEMORY, op == EPD_OP_WRITE);
	if (out->window)
		return 0;
	f->ops.close(out->link);
	return EPD_EPEER;
}

static struct world_ways ways = { .place = place, .here = here, .there = there,
	.is_afar = 1, .size = WIRE_BYTES, .piece = 60000 };

static int
up(enum epd_op which)
{
	op = which;
	memcpy(there, wire_want, sizeof there);
	ways.first = wire_table(EPD_VIA_RDMA);
	ways.second = wire_table(EPD_VIA_TCP);
	return serve_start(&s, "serve", -1);
}

/* What it has now, by tcp. */
static int
read_back(void)
{
	const struct epd_transport *t = wire_table(EPD_VIA_TCP);
	const struct epd_peer peer = { .address = s.address,
		.key = epd_span_str(KEY), .deadline_ns = wire_in(10000) };
	struct epd_link *l;
	uint64_t id;
	int rc;

	if (t->open(t, &l, &peer, &wire_why))
		return -1;
	id = wire_open(l, WIRE_MEMORY, 0);
	rc = id ? wire_move(l, EPD_OP_READ, id, 0, there, WIRE_BYTES).rc : -1;
	t->close(l);
	return rc;
}

/* All came, or went, and neither side has anything open. */
static int
is_over(const struct world *w)
{
	struct served n;

	if (op == EPD_OP_WRITE && read_back())
		return 0;
	return is_equal(w) && is_idle(w) && serve_settles(&s, &n);
}

static void
start(struct world *w, int how, const struct epd_fault *f, int n)
{
	begin(w, &ways, NULL, op, how, f, n, NULL, 0);
	/* What is there is the server's own; its sums go with it. */
	for (int i = 0; i < WORLD_ITEMS; i++)
		w->item[i].sum = epd_xxh3_64(there + ((uint8_t *)
		    w->item[i].local - here), w->item[i].bytes);
	w->c.deadline_ns = epd_clock_boot_ns() + 20 * SECOND;
}

#define BOTH_WAYS for (int way = EPD_OP_READ; way <= EPD_OP_WRITE; way++)

TEST(fault1_primary_fails_before_dispatch)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;

	BOTH_WAYS {
		CHECK(!up((enum epd_op)way));
		start(&w, 0, f, 1);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.backend, EPD_VIA_TCP);
		CHECK_INT(got.fallbacks, 1);
		CHECK_INT(w.opened[EPD_VIA_RDMA], 3);
		CHECK(is_over(&w));
		end(&w);
		CHECK_INT(serve_end(&s), 0);
	}
}

TEST(fault2_primary_fails_after_submission)
{
	const struct epd_fault once[] = { { EPD_FAULT_MOVE, 7, 1, EPD_EPEER,
	    5000, 0 } };
	const struct epd_fault ever[] = {
		{ EPD_FAULT_MOVE, 7, 1, EPD_EPEER, 5000, 0 },
		{ EPD_FAULT_CUT, 12, 0, EPD_EPEER, 0, 0 },
	};
	struct epd_carried got;
	struct world w;

	BOTH_WAYS {
		CHECK(!up((enum epd_op)way));
		start(&w, 0, once, 1);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.backend, EPD_VIA_RDMA);
		CHECK(got.attempts > 1);
		CHECK(is_over(&w));
		end(&w);
		start(&w, 0, ever, 2);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.backend, EPD_VIA_TCP);
		CHECK_INT(got.fallbacks, 1);
		CHECK(is_over(&w));
		end(&w);
		CHECK_INT(serve_end(&s), 0);
	}
}

TEST(fault3_stale_dependency_is_revalidated)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, -ENODEV, 0, 0 } };
	struct epd_carried got;
	struct world w;

	CHECK(!up(EPD_OP_READ));
	for (int at = 1; at <= 2; at++) {
		start(&w, 0, f, at == 2);
		w.change_at = at;
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.replans, 1);
		CHECK_INT(got.backend, at == 2 ? EPD_VIA_TCP : EPD_VIA_RDMA);
		CHECK(is_over(&w));
		end(&w);
	}
	CHECK_INT(serve_end(&s), 0);
}

TEST(fault4_late_completion_of_an_old_attempt)
{
	const struct epd_fault twice[] = { { EPD_FAULT_TWICE, 1, 6, 0, 0, 0 } };
	const struct epd_fault late[] = {
		{ EPD_FAULT_LATE, 3, 2, 0, 0, 60 * WORLD_MS },
		{ EPD_FAULT_MOVE, 6, 1, EPD_EPEER, 5000, 0 },
	};
	struct epd_carried got;
	struct world w;

	BOTH_WAYS {
		CHECK(!up((enum epd_op)way));
		start(&w, ONLY_FIRST, twice, 1);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK(got.late >= 1);
		CHECK(is_over(&w));
		end(&w);
		start(&w, ONLY_FIRST, late, 2);
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK(got.attempts > 1);
		CHECK(is_over(&w));
		/* And it stays as it is. */
		epd_clock_sleep_ns(80 * WORLD_MS);
		CHECK(is_over(&w));
		end(&w);
		CHECK_INT(serve_end(&s), 0);
	}
}

TEST(fault5_fallback_the_policy_does_not_allow)
{
	const struct epd_fault f[] = { { EPD_FAULT_CUT, 3, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct served n;
	struct world w;

	BOTH_WAYS {
		CHECK(!up((enum epd_op)way));
		start(&w, NO_FALLBACK, f, 1);
		/* The peer is waited for till then. */
		w.c.deadline_ns = epd_clock_boot_ns() + 3 * SECOND;
		CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_EPEER);
		CHECK_INT(got.fallbacks, 0);
		CHECK_INT(w.opened[EPD_VIA_TCP], 0);
		CHECK(is_idle(&w) && serve_settles(&s, &n));
		end(&w);
		CHECK_INT(serve_end(&s), 0);
	}
}

int
main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve_main(atoi(argv[2]), 1);
	return check_main(argc, argv);
}
