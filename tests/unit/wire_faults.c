/*
 * wire_faults.c - the RFC's five faults on every transport that runs here, by real links
 * to a real server: tcp, shm, io_uring, each falling back to another.  What stores make of
 * them is in wire_ways.
 */
#include "tests/unit/wire.h"
#include "tests/unit/wire_world.h"

/* ---- ways ---- */

enum { BY_TCP, BY_SHM, BY_URING, HOWS };
static const char *const how_name[] = { "tcp", "shm", "io_uring" };

struct road {
	struct wire w;			/* a server: of tcp and of shm the same host */
	char address[2][400];		/* by tcp, by unix */
	struct epd_server *other;
	pthread_t thread;
	int dir, fd;			/* of a file */
	uint8_t *file;
	enum epd_op op;
	struct world_ways ways;
};
static uint8_t here_bytes[WIRE_BYTES];

static void *
run_other(void *arg)
{
	return epd_server_run(arg, -1, NULL) < 0 ? arg : NULL;
}

static int
place_file(struct epd_link *l, enum epd_op op, struct epd_passage *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf q = {0}, a = {0};
	struct epd_cur c;
	int rc;

	epd_pack_u32(&q, op == EPD_OP_WRITE ? EPD_FILE_WRITE : 0);
	epd_pack_u64(&q, 0);
	epd_buf_str(&q, "bytes");
	rc = epd_link_ops(l)->call(l, EPD_FILE_OPEN, epd_span(q.p, q.n), &a,
	    deadline_ns, why);
	c = epd_cur(epd_span(a.p, a.n));
	out->window = epd_unpack_u64(&c);
	epd_buf_free(&q);
	epd_buf_free(&a);
	return rc;
}

/* A link by the faulty one, and a window of all there is. */
static int
place(void *arg, struct epd_faulty *f, struct epd_passage *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct road *r = arg;
	const enum epd_backend b = f->ops.backend;
	const struct epd_peer peer = { .checksum = 1,
		.address = r->address[b == EPD_VIA_TCP ? 0 : 1],
		.deadline_ns = deadline_ns };
	int rc = f->ops.open(&f->ops, &out->link, &peer, why);

	if (rc)
		return rc;
	if (b == EPD_VIA_IO_URING)
		rc = place_file(out->link, r->op, out, deadline_ns, why);
	else
		rc = (out->window = wire_open(out->link, WIRE_MIXED, r->op ==
		    EPD_OP_WRITE)) ? 0 : EPD_EPEER;
	if (rc)
		f->ops.close(out->link);
	return rc;
}

static int
open_file(struct road *r)
{
	const struct epd_transport *t = wire_table(EPD_VIA_IO_URING);
	struct epd_transport_facts f;

	if (!t || t->probe(t, &f, &wire_why))
		return 0;
	r->fd = openat(r->dir, "bytes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (r->fd < 0 || ftruncate(r->fd, WIRE_BYTES))
		abort();
	r->file = mmap(NULL, WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
	    r->fd, 0);
	snprintf(r->address[1], sizeof r->address[1], "file://%s", scratch_path);
	return 1;
}

/* 0: it is not to be had here. */
static int
road(struct road *r, int how)
{
	const struct epd_server_options o = { .nlisten = 1, .listen =
	    &(const char *){ r->address[1] } };

	memset(r, 0, sizeof *r);
	r->fd = -1;
	r->dir = scratch_open();
	if (wire_start(&r->w, "tcp://127.0.0.1:0", NULL, NULL))
		abort();
	snprintf(r->address[0], sizeof r->address[0], "%s",
	    epd_server_address(r->w.server, 0));
	snprintf(r->address[1], sizeof r->address[1], "unix://%s/s/sock",
	    scratch_path);
	r->ways = (struct world_ways){ .place = place, .here = here_bytes,
	    .there = r->w.host.p, .size = WIRE_BYTES, .piece = 20000 };
	if (how == BY_URING) {
		r->ways.first = wire_table(EPD_VIA_IO_URING);
		r->ways.medium = EPD_IN_FILE;
		if (!open_file(r))
			return 0;
		r->ways.there = r->file;
		return 1;
	}
	if (epd_server_open(&r->other, &r->w.host.host, &o, &wire_why) ||
	    pthread_create(&r->thread, NULL, run_other, r->other))
		abort();
	r->ways.first = wire_table(how == BY_TCP ? EPD_VIA_TCP : EPD_VIA_SHM);
	r->ways.second = wire_table(how == BY_TCP ? EPD_VIA_SHM : EPD_VIA_TCP);
	return 1;
}

static void
leave(struct road *r)
{
	if (r->other) {
		epd_server_stop(r->other);
		pthread_join(r->thread, NULL);
		epd_server_close(r->other);
	}
	if (r->file)
		munmap(r->file, WIRE_BYTES);
	if (r->fd >= 0)
		close(r->fd);
	wire_stop(&r->w);
	scratch_close(r->dir);
}

/* Whether all came, or went, and the server has nothing open. */
static int
is_over(struct road *r, const struct world *w)
{
	if (r->fd < 0 && !wire_settles(&r->w, 3000))
		return 0;
	wire_see();
	return is_equal(w) && is_idle(w);
}

/* The way that is taken when the first cannot be. */
static enum epd_backend
otherwise(const struct road *r)
{
	return r->ways.second ? r->ways.second->backend : EPD_VIA_RECOMPUTE;
}

static int
may_compute(const struct road *r, struct world *w)
{
	w->intent.tokens = r->ways.second ? 0 : 1000;
	w->intent.tokens_per_s = 1000;
	return r->ways.second == NULL;
}

#define ON_EACH(how, r) \
	for (int how = 0; how < HOWS; how++) \
		for (int there_is = road(&(r), how), left = 0; !left; \
		    left = 1, leave(&(r))) \
			if (!there_is) \
				printf("# %s: %s: SKIP\n", how_name[how], \
				    wire_why.text); \
			else

/* ---- five faults ---- */

TEST(without_faults)
{
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r)
		for (r.op = EPD_OP_READ; r.op <= EPD_OP_WRITE; r.op++) {
			begin(&w, &r.ways, &r, r.op, 0, NULL, 0, NULL, 0);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK(is_over(&r, &w));
			CHECK_INT(got.backend, r.ways.first->backend);
			CHECK_INT(got.attempts, 1);
			end(&w);
		}
}

TEST(fault1_primary_fails_before_dispatch)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r)
		for (r.op = EPD_OP_READ; r.op <= EPD_OP_WRITE; r.op++) {
			begin(&w, &r.ways, &r, r.op, RECOMPUTES, f, 1, NULL, 0);
			may_compute(&r, &w);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK_INT(got.backend, otherwise(&r));
			CHECK_INT(got.fallbacks, 1);
			CHECK_INT(got.retries, 2);
			CHECK_INT(w.opened[r.ways.first->backend], 3);
			if (r.ways.second)
				CHECK(is_over(&r, &w));
			else
				CHECK_INT(w.recomputed, 1);
			end(&w);
		}
}

TEST(fault2_primary_fails_after_submission)
{
	/* Some move, one fails, and then the link. */
	const struct epd_fault once[] = {
		{ EPD_FAULT_MOVE, 7, 1, EPD_EPEER, 5000, 0 },
		{ EPD_FAULT_MOVE, 20, 1, EPD_EPEER, 0, 0 },
	};
	const struct epd_fault ever[] = {
		{ EPD_FAULT_MOVE, 7, 1, EPD_EPEER, 5000, 0 },
		{ EPD_FAULT_CUT, 20, 0, EPD_EPEER, 0, 0 },
	};
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r)
		for (r.op = EPD_OP_READ; r.op <= EPD_OP_WRITE; r.op++) {
			/* It is tried again, and goes. */
			begin(&w, &r.ways, &r, r.op, 0, once, 2, NULL, 0);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK(is_over(&r, &w));
			CHECK_INT(got.backend, r.ways.first->backend);
			CHECK(got.attempts > 1);
			CHECK(got.bytes < w.intent.bytes + 40 * 20000);
			end(&w);
			/* It never goes. */
			begin(&w, &r.ways, &r, r.op, RECOMPUTES, ever, 2, NULL,
			    0);
			may_compute(&r, &w);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK_INT(got.backend, otherwise(&r));
			CHECK_INT(got.fallbacks, 1);
			CHECK(!r.ways.second || is_over(&r, &w));
			end(&w);
		}
}

TEST(fault3_stale_dependency_is_revalidated)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, -ENODEV, 0, 0 } };
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r) {
		r.op = EPD_OP_READ;
		begin(&w, &r.ways, &r, r.op, 0, NULL, 0, NULL, 0);
		w.change_at = 1;
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.replans, 1);
		CHECK_INT(w.decided, 2);
		CHECK(is_over(&r, &w));
		end(&w);
		if (!r.ways.second)
			continue;
		/* A fallback is not dispatched as it was decided either. */
		begin(&w, &r.ways, &r, r.op, 0, f, 1, NULL, 0);
		w.change_at = 2;
		CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
		CHECK_INT(got.replans, 1);
		CHECK_INT(got.backend, otherwise(&r));
		CHECK(is_over(&r, &w));
		end(&w);
	}
}

TEST(fault4_late_completion_of_an_old_attempt)
{
	/* Told twice: the second is nobody's. */
	const struct epd_fault twice[] = { { EPD_FAULT_TWICE, 1, 6, 0, 0, 0 } };
	/* Told late, of an attempt that is over by then. */
	const struct epd_fault late[] = {
		{ EPD_FAULT_LATE, 3, 2, 0, 0, 60 * WORLD_MS },
		{ EPD_FAULT_MOVE, 6, 1, EPD_EPEER, 5000, 0 },
	};
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r)
		for (r.op = EPD_OP_READ; r.op <= EPD_OP_WRITE; r.op++) {
			begin(&w, &r.ways, &r, r.op, ONLY_FIRST, twice, 1,
			    NULL, 0);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK_INT(got.attempts, 1);
			CHECK(got.late >= 1);
			CHECK(is_over(&r, &w));
			end(&w);
			begin(&w, &r.ways, &r, r.op, ONLY_FIRST, late, 2, NULL,
			    0);
			CHECK_INT(epd_carry(&w.c, &got, NULL), 0);
			CHECK(got.attempts > 1);
			CHECK(is_over(&r, &w));
			/* And it stays as it is. */
			epd_clock_sleep_ns(80 * WORLD_MS);
			CHECK(is_over(&r, &w));
			end(&w);
		}
}

TEST(fault5_fallback_the_policy_does_not_allow)
{
	const struct epd_fault f[] = { { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } };
	const struct epd_fault cut[] = { { EPD_FAULT_CUT, 3, 0, EPD_EPEER, 0, 0 } };
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r)
		for (r.op = EPD_OP_READ; r.op <= EPD_OP_WRITE; r.op++)
			for (int k = 0; k < 2; k++) {
				begin(&w, &r.ways, &r, r.op, NO_FALLBACK,
				    k ? cut : f, 1, NULL, 0);
				may_compute(&r, &w);
				w.c.deadline_ns = epd_clock_boot_ns() +
				    400 * WORLD_MS;
				CHECK_INT(epd_carry(&w.c, &got, NULL),
				    EPD_EPEER);
				CHECK_INT(got.fallbacks, 0);
				CHECK_INT(w.recomputed, 0);
				if (r.ways.second)
					CHECK_INT(w.opened[otherwise(&r)], 0);
				CHECK(is_idle(&w));
				CHECK(r.fd >= 0 || wire_settles(&r.w, 3000));
				end(&w);
			}
}

/* A peer that never tells of a move: the deadline holds on each of them. */
TEST(kind30_a_move_that_is_never_told)
{
	const struct epd_fault f[] = { { EPD_FAULT_DROP, 2, 0, 0, 0, 0 } };
	struct epd_carried got;
	struct world w;
	struct road r;

	ON_EACH(how, r) {
		const uint64_t from = epd_clock_boot_ns();

		r.op = EPD_OP_READ;
		begin(&w, &r.ways, &r, r.op, ONLY_FIRST, f, 1, NULL, 0);
		w.c.deadline_ns = from + 400 * WORLD_MS;
		CHECK_INT(epd_carry(&w.c, &got, NULL), EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - from < 2000 * WORLD_MS);
		CHECK(is_idle(&w));
		CHECK(r.fd >= 0 || wire_settles(&r.w, 3000));
		end(&w);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
