/*
 * link.c - rdma as a transport: links to a real data server in another process, by
 * two Soft-RoCE devices.  Runs in the guest that boot.sh makes.
 */
#include "tests/rxe/deaf.h"
#include "tests/rxe/serve.h"
#include "tests/rxe/stop.h"

#include "transport/rail.h"
#include "transport/rdma_wire.h"
#include "transport/client.h"

static struct epd_link *
rdma(struct serve *s)
{
	int rc = is_deaf ? deafen(0) : 0;	/* a failed test left it */
	struct epd_link *l = serve_link(s->address, KEY, "rxe0", 10000, &rc);

	if (!l)
		printf("# no link: %d %s\n", rc, wire_why.text);
	return l;
}

/* One server for all that leave it as it was; the last test ends it. */
static struct serve common;

static struct epd_link *
common_link(void)
{
	if (common.pid)
		go_on(common.pid);	/* a failed test left it stopped */
	else if (serve_start(&common, "serve", -1))
		return NULL;
	return rdma(&common);
}

TEST(the_table_has_it)
{
	const struct epd_transport *t = wire_table(EPD_VIA_RDMA);
	struct epd_transport_facts f;

	CHECK(t);
	CHECK_INT(t->probe(t, &f, &wire_why), 0);
	CHECK_INT(f.ndevices, 2);
	CHECK(f.max_inflight >= 16 && f.max_inflight <= 64);
}

static const struct { uint64_t at, n; } some[] = {
	{ 0, 1 }, { 1, 7 }, { 4095, 4097 }, { 69999, 65536 }, { 262143, 300001 },
	{ 1000003, 1 << 20 }, { WIRE_BYTES - 1, 1 }, { 0, WIRE_BYTES },
};

TEST(every_kind_of_window_both_ways)
{
	uint8_t *p = malloc(WIRE_BYTES + 1);
	struct epd_link *l;
	struct served n;

	CHECK(p && (l = common_link()));
	for (int kind = 0; kind < WIRE_KINDS; kind++)
		for (int writes = 0; writes < 2; writes++) {
			uint64_t id = wire_open(l, (enum wire_kind)kind, writes);

			CHECK(id);
			for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
				struct epd_piece_done d;

				memset(p, 0, some[i].n + 1);
				for (uint64_t k = 0; writes && k < some[i].n; k++)
					p[k] = wire_byte(some[i].at + k);
				d = wire_move(l, writes ? EPD_OP_WRITE :
				    EPD_OP_READ, id, some[i].at, p, some[i].n);
				CHECK_INT(d.rc, 0);
				CHECK_INT(d.bytes, some[i].n);
				CHECK_INT(d.tag, 7);
				CHECK(wire_is_right(p, some[i].at, some[i].n));
				CHECK_INT(p[some[i].n], 0);
			}
			CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(5000),
			    &wire_why), 0);
		}
	n = serve_counts(&common);
	CHECK(n.rdma.exposed > 20);		/* it was not all by the session */
	CHECK_INT(n.rdma.regions, 0);
	CHECK_INT(n.server.windows, 0);
	/* Of files alone and what lies in them, half of the kinds, some was. */
	CHECK(n.rdma.by_session > 0);
	epd_link_ops(l)->close(l);
	CHECK(serve_settles(&common, &n));
	free(p);
}

/* Where all can be exposed the server's processor moves nothing. */
TEST(the_server_moves_nothing)
{
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_link *l;
	struct served n, was;
	uint64_t id;

	CHECK(p && (l = common_link()));
	was = serve_counts(&common);
	CHECK((id = wire_open(l, WIRE_MEMORY, 0)));
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, WIRE_BYTES).rc, 0);
	n = serve_counts(&common);
	CHECK_INT(n.server.moves, was.server.moves);
	CHECK_INT(n.rdma.regions, 1);
	CHECK_INT(n.rdma.by_session, was.rdma.by_session);
	/* Stopped, it is read on. */
	stop(common.pid);
	memset(p, 0, WIRE_BYTES);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 5, p, WIRE_BYTES - 5).rc, 0);
	CHECK(wire_is_right(p, 5, WIRE_BYTES - 5));
	/* But a call has its deadline, and is the link's end. */
	{
		const uint64_t t = epd_clock_boot_ns();
		struct epd_buf a = { 0 };
		int rc = epd_link_ops(l)->call(l, WIRE_ECHO, epd_span("12345678",
		    8), &a, wire_in(300), &wire_why);

		CHECK_INT(rc, EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - t < 3 * SECOND);
		epd_buf_free(&a);
	}
	go_on(common.pid);
	epd_link_ops(l)->close(l);
	CHECK(serve_settles(&common, &n));
	free(p);
}

/* Regions that are not told in time: the deadline holds, and the move goes on. */
TEST(asking_has_a_deadline)
{
	uint8_t p[4096];
	const struct epd_piece m = { 3, EPD_OP_READ, 0, 0, sizeof p, p, 0 };
	struct epd_piece piece = m;
	struct epd_piece_done d;
	struct epd_link *l;
	uint64_t t;

	CHECK((l = common_link()));
	CHECK((piece.window = wire_open(l, WIRE_BOTH, 0)));
	stop(common.pid);
	CHECK_INT(epd_link_ops(l)->submit(l, &piece, &wire_why), 0);
	t = epd_clock_boot_ns();
	CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(300), &wire_why),
	    EPD_ETIMEOUT);
	CHECK(epd_clock_boot_ns() - t < 3 * SECOND);
	go_on(common.pid);
	CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(10000), &wire_why), 1);
	CHECK(!d.rc && d.tag == 3 && d.bytes == sizeof p);
	CHECK(wire_is_right(p, 0, sizeof p));
	CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(1000), &wire_why),
	    EPD_EUSAGE);
	epd_link_ops(l)->close(l);
}

TEST(many_at_once_in_many_windows)
{
	uint8_t *p = malloc(64 << 12);
	struct epd_piece_done d[64];
	uint64_t id[8], seen = 0;
	struct epd_link *l;
	int full = 0, got = 0, rc = 0;

	CHECK(p && (l = common_link()));
	for (int i = 0; i < 8; i++)
		CHECK((id[i] = wire_open(l, i % 2 ? WIRE_MIXED : WIRE_BOTH, 0)));
	for (uint64_t i = 0; i < 65; i++) {
		const struct epd_piece m = { i, EPD_OP_READ, id[i % 8],
			i * 40000, 4096, p + (i % 64) * 4096, 0 };

		rc = epd_link_ops(l)->submit(l, &m, &wire_why);
		full += rc == -EAGAIN;
	}
	CHECK_INT(full, 1);
	while (got < 64 && (rc = epd_link_ops(l)->wait(l, d, 64, wire_in(20000),
	    &wire_why)) > 0)
		for (int i = 0; i < rc; i++, got++) {
			CHECK_INT(d[i].rc, 0);
			CHECK_INT(d[i].bytes, 4096);
			CHECK(!(seen >> d[i].tag & 1));
			seen |= UINT64_C(1) << d[i].tag;
			CHECK(wire_is_right(p + d[i].tag * 4096,
			    d[i].tag * 40000, 4096));
		}
	CHECK_INT(got, 64);
	epd_link_ops(l)->close(l);
	free(p);
}

/* What one move is refused ends that move alone. */
TEST(refused_moves)
{
	uint8_t p[64];
	struct epd_link *l;
	uint64_t id;

	CHECK((l = common_link()));
	CHECK_INT(wire_move(l, EPD_OP_READ, 4711, 0, p, 8).rc, EPD_ENOTHING);
	CHECK((id = wire_open(l, WIRE_BOTH, 0)));
	CHECK(wire_move(l, EPD_OP_WRITE, id, 0, p, 8).rc < 0);
	CHECK(wire_move(l, EPD_OP_READ, id, WIRE_BYTES - 7, p, 8).rc < 0);
	CHECK(wire_move(l, EPD_OP_READ, id, UINT64_MAX - 2, p, 8).rc < 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, WIRE_BYTES, p, 0).rc, 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, WIRE_BYTES - 8, p, 8).rc, 0);
	CHECK(wire_is_right(p, WIRE_BYTES - 8, 8));
	CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(5000), &wire_why), 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 8).rc, EPD_ENOTHING);
	epd_link_ops(l)->close(l);
}

TEST(who_may_not_open)
{
	struct epd_link *l;
	struct serve plain;
	struct served n, was;
	int rc;

	CHECK((l = common_link()) && !serve_start(&plain, "plain", -1));
	epd_link_ops(l)->close(l);
	was = serve_counts(&common);
	CHECK(!serve_link(common.address, KEY "x", "rxe0", 10000, &rc));
	CHECK_INT(rc, EPD_EAUTH);
	CHECK(!serve_link(plain.address, KEY, "rxe0", 10000, &rc));
	CHECK_INT(rc, EPD_EUNSUPPORTED);
	CHECK(!serve_link(common.address, KEY, "mlx9", 10000, &rc));
	CHECK_INT(rc, EPD_EUNSUPPORTED);
	CHECK(!serve_link("unix:///tmp/none", KEY, "rxe0", 10000, &rc));
	CHECK_INT(rc, EPD_EUSAGE);
	CHECK(!serve_link("tcp://10.77.0.2:1", KEY, "rxe0", 10000, &rc));
	CHECK_INT(rc, EPD_EPEER);
	/* And without a device of its choice it is still let in. */
	CHECK((l = serve_link(common.address, KEY, NULL, 10000, &rc)));
	epd_link_ops(l)->close(l);
	CHECK(serve_settles(&common, &n));
	CHECK_INT(n.rdma.let_in, was.rdma.let_in + 1);
	CHECK_INT(serve_end(&plain), 0);
}

#include "tests/rxe/link_hostile.h"

TEST(the_server_of_all_these_ends_well)
{
	struct served n;

	if (!common.pid)
		return;
	CHECK(serve_settles(&common, &n));
	CHECK_INT(serve_end(&common), 0);
}

#include "tests/rxe/link_kills.h"

int
main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve_main(atoi(argv[2]), 1);
	if (argc == 4 && !strcmp(argv[1], "plain"))
		return serve_main(atoi(argv[2]), 0);
	if (argc == 4 && !strcmp(argv[1], "keeper"))
		return keeper_main(atoi(argv[2]), atoi(argv[3]));
	if (argc == 4 && !strcmp(argv[1], "mover"))
		return mover_main(atoi(argv[2]), atoi(argv[3]));
	return check_main(argc, argv);
}
