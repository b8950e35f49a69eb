/* wire_faulty.c - the faults are what they say, around shm and tcp alike. */
#include "tests/unit/wire.h"

static struct wire w;
static struct epd_faulty f;
static uint8_t p[8][1000];

static struct epd_link *
up(const struct epd_fault *faults, int n)
{
	struct epd_peer peer = { .deadline_ns = wire_in(5000) };
	struct epd_link *l = NULL;

	if (wire_start(&w, "tcp://127.0.0.1:0", NULL, NULL))
		return NULL;
	peer.address = epd_server_address(w.server, 0);
	epd_faulty_init(&f, wire_table(EPD_VIA_TCP), faults, n);
	memset(p, 0, sizeof p);
	return f.ops.open(&f.ops, &l, &peer, &wire_why) ? NULL : l;
}

static void
down(struct epd_link *l)
{
	f.ops.close(l);
	wire_stop(&w);
}

static int
put(struct epd_link *l, uint64_t id, int i, enum epd_op op)
{
	const struct epd_piece piece = { (uint64_t)i, op, id, (uint64_t)i * 1000,
		1000, p[i], 0 };

	return f.ops.submit(l, &piece, &wire_why);
}

/* What is told until ms are over; bit i: move i was told. */
static int
told(struct epd_link *l, int ms, struct epd_piece_done *out)
{
	const uint64_t end = wire_in(ms);
	struct epd_piece_done d[8];
	int n, all = 0;

	while ((n = f.ops.wait(l, d, 8, end, &wire_why)) > 0)
		for (int i = 0; i < n; i++, all++)
			if (all < 16)
				out[all] = d[i];
	return all;
}

TEST(without_faults)
{
	struct epd_piece_done d[16];
	struct epd_link *l = up(NULL, 0);
	uint64_t id;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	for (int i = 0; i < 8; i++)
		CHECK_INT(put(l, id, i, EPD_OP_READ), 0);
	CHECK_INT(told(l, 50, d), 8);
	for (int i = 0; i < 8; i++)
		CHECK(!d[i].rc && wire_is_right(p[i], (uint64_t)i * 1000, 1000));
	down(l);
	CHECK_INT(f.links, 0);
}

TEST(open_call_and_submit)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_OPEN, .at = 1, .n = 2, .rc = EPD_EPEER },
		{ .kind = EPD_FAULT_CALL, .at = 1, .n = 1, .rc = EPD_ECREDIT },
		{ .kind = EPD_FAULT_SUBMIT, .at = 2, .n = 1, .rc = -EIO },
	};
	struct epd_link *l = up(faults, 3), *m;
	struct epd_peer peer = { .deadline_ns = wire_in(5000) };
	struct epd_piece_done d[16];
	uint64_t id;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	peer.address = epd_server_address(w.server, 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(f.ops.open(&f.ops, &m, &peer, &wire_why), EPD_EPEER);
	CHECK_INT(f.ops.open(&f.ops, &m, &peer, &wire_why), 0);
	f.ops.close(m);
	CHECK(!wire_open(l, WIRE_BOTH, 0));
	CHECK(wire_open(l, WIRE_BOTH, 0));
	CHECK_INT(put(l, id, 0, EPD_OP_READ), 0);
	CHECK_INT(put(l, id, 1, EPD_OP_READ), 0);
	CHECK_INT(put(l, id, 2, EPD_OP_READ), -EIO);
	CHECK_INT(put(l, id, 2, EPD_OP_READ), 0);
	CHECK_INT(told(l, 50, d), 3);
	/* The one before dispatch moved nothing. */
	CHECK_INT(f.moves, 4);
	down(l);
}

TEST(a_part_of_it_moves)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_MOVE, .at = 1, .n = 1, .rc = EPD_EPEER,
		    .bytes = 300 } };
	struct epd_link *l = up(faults, 1);
	struct epd_piece_done d[16];
	uint64_t id;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	CHECK_INT(put(l, id, 0, EPD_OP_READ), 0);
	CHECK_INT(put(l, id, 1, EPD_OP_READ), 0);
	CHECK_INT(told(l, 50, d), 2);
	CHECK_INT(d[1].rc, EPD_EPEER);
	CHECK_INT(d[1].bytes, 300);
	CHECK(wire_is_right(p[1], 1000, 300) && !p[1][300]);
	down(l);
}

/* It moves, its time passes, another comes first; then it is told all the same. */
TEST(kind14_told_late)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_LATE, .at = 0, .n = 1, .ns = 120000000 } };
	struct epd_link *l = up(faults, 1);
	struct epd_piece_done d[16];
	uint64_t id, begun;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	CHECK_INT(put(l, id, 0, EPD_OP_READ), 0);
	CHECK_INT(f.ops.wait(l, d, 8, wire_in(30), &wire_why), EPD_ETIMEOUT);
	CHECK_INT(put(l, id, 1, EPD_OP_READ), 0);
	CHECK_INT(f.ops.wait(l, d, 8, wire_in(1000), &wire_why), 1);
	CHECK_INT(d[0].tag, 1);
	begun = epd_clock_boot_ns();
	CHECK_INT(f.ops.wait(l, d, 8, wire_in(1000), &wire_why), 1);
	CHECK_INT(d[0].tag, 0);
	CHECK_INT(d[0].rc, 0);
	CHECK(epd_clock_boot_ns() - begun < 500000000);
	CHECK(wire_is_right(p[0], 0, 1000));
	down(l);
}

TEST(a_byte_comes_otherwise)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_CORRUPT, .at = 0, .n = 2, .bytes = 17 } };
	struct epd_link *l = up(faults, 1);
	struct epd_piece_done d[16];
	uint64_t id;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	CHECK_INT(put(l, id, 0, EPD_OP_READ), 0);
	for (int i = 0; i < 1000; i++)
		p[1][i] = wire_byte(1000 + (uint64_t)i);
	CHECK_INT(put(l, id, 1, EPD_OP_WRITE), 0);
	CHECK_INT(told(l, 50, d), 2);
	CHECK(!d[0].rc && !d[1].rc && d[0].bytes == 1000 && d[1].bytes == 1000);
	CHECK_INT(wire_meet(l), 0);
	CHECK_INT(p[0][17], wire_byte(17) ^ 0x40);
	CHECK_INT(w.host.p[1017], wire_byte(1017) ^ 0x40);
	/* What was ours to send is as it was. */
	CHECK(wire_is_right(p[1], 1000, 1000));
	down(l);
}

TEST(told_twice_and_never)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_TWICE, .at = 0, .n = 1 },
		{ .kind = EPD_FAULT_DROP, .at = 1, .n = 1 } };
	struct epd_link *l = up(faults, 2);
	struct epd_piece_done d[16];
	uint64_t id;
	int times[3] = { 0 }, n;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	for (int i = 0; i < 3; i++)
		CHECK_INT(put(l, id, i, EPD_OP_READ), 0);
	n = told(l, 100, d);
	for (int i = 0; i < n; i++)
		times[d[i].tag]++;
	CHECK(times[0] == 2 && times[1] == 0 && times[2] == 1);
	/* It has moved all the same. */
	CHECK(wire_is_right(p[1], 1000, 1000));
	down(l);
}

TEST(cut)
{
	static const struct epd_fault faults[] = {
		{ .kind = EPD_FAULT_CUT, .at = 1, .n = 1, .rc = EPD_EPEER } };
	struct epd_link *l = up(faults, 1);
	struct epd_piece_done d[16];
	uint64_t id;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	CHECK_INT(put(l, id, 0, EPD_OP_READ), 0);
	CHECK_INT(put(l, id, 1, EPD_OP_READ), EPD_EPEER);
	CHECK_INT(put(l, id, 1, EPD_OP_READ), EPD_EPEER);
	CHECK(!wire_open(l, WIRE_BOTH, 0));
	CHECK_INT(f.ops.wait(l, d, 8, wire_in(1000), &wire_why), EPD_EPEER);
	down(l);
}

/* The table of all: what is not built says so. */
TEST(the_table)
{
	const struct epd_transports *all = epd_transports();
	struct epd_peer peer = { .address = "tcp://127.0.0.1:1",
		.deadline_ns = wire_in(100) };
	struct epd_transport_facts facts;
	struct epd_link *l;

	CHECK(epd_transport_of(all, EPD_VIA_SHM) && epd_transport_of(all, EPD_VIA_TCP));
	for (int i = 0; i < all->n; i++) {
		const struct epd_transport *t = all->t[i];
		const int rc = t->probe(t, &facts, &wire_why);

		for (int j = 0; j < i; j++)
			CHECK(all->t[j]->backend != t->backend);
		CHECK(rc == 0 || rc == EPD_EUNSUPPORTED);
		if (rc) {
			CHECK(*wire_why.text);
			CHECK_INT(t->open(t, &l, &peer, &wire_why), rc);
		} else {
			CHECK(facts.alignment && facts.max_bytes &&
			    facts.max_inflight);
		}
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
