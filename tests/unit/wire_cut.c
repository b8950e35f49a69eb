/*
 * wire_cut.c - connections that break and bytes that turn: what is told to be certain
 * is, and from there a new link goes on.
 */
#include "tests/unit/wire_proxy.h"

enum { BLOCK = 256 << 10 };
#define ADDRESS "tcp://127.0.0.1:0"

static struct wire w;
static struct wire_proxy x;

static int
up(void)
{
	const int rc = wire_start(&w, ADDRESS, NULL, NULL);

	return rc ? rc : proxy_start(&x, epd_server_address(w.server, 0));
}

static void
down(void)
{
	proxy_stop(&x);
	wire_stop(&w);
}

static struct epd_link *
open_link(int checksum)
{
	return wire_link(EPD_VIA_TCP, x.address, NULL, checksum);
}

/*
 * Move all of the window, each connection cut after `cut` bytes, going on from what is
 * certain; after enough cuts nothing is cut any more.  The number of links it took,
 * or -1: what was certain was not right.
 */
static int
in_parts(enum epd_op op, int from_server, uint64_t cut, int cuts, int checksum,
    uint8_t *p)
{
	uint64_t done = 0;
	int links = 0;

	while (done < WIRE_BYTES) {
		struct epd_piece_done d;
		struct epd_link *l;
		uint64_t id;

		proxy_set(&x, from_server, links < cuts ? cut : UINT64_MAX,
		    UINT64_MAX);
		links++;
		if (!(l = open_link(checksum)))
			continue;
		id = wire_open(l, WIRE_MIXED, 1);
		d = (struct epd_piece_done){ .rc = EPD_EPEER };
		if (id)
			d = wire_move(l, op, id, done, p + done,
			    WIRE_BYTES - done);
		epd_link_ops(l)->close(l);
		if (!d.rc && d.bytes != WIRE_BYTES - done)
			return -1;
		if (d.rc && d.rc != EPD_EPEER)
			return -1;
		/* All that it wrote is to be seen. */
		if (!wire_settles(&w, 5000))
			return -1;
		wire_see();
		if (!wire_is_right(op == EPD_OP_READ ? p + done :
		    w.host.p + done, done, d.bytes))
			return -1;
		done += d.bytes;
	}
	return links;
}

/* Each class of place: in the greeting, heads, bodies, bulk, sums, and at their edges. */
static const uint64_t cuts[] = { 0, 47, 48, 83, 84, 85, 131, 132, 196, 197, 250, 256,
	260, 300, 65536, BLOCK, BLOCK + 200, BLOCK + 256, BLOCK + 264, BLOCK + 300,
	2 * BLOCK + 300, 3000000 };

static void
cut(int checksum)
{
	uint8_t *p = malloc(WIRE_BYTES);
	int links = 0, n;

	CHECK_INT(up(), 0);
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
		for (int from_server = 0; from_server < 2; from_server++) {
			memset(p, 0, WIRE_BYTES);
			n = in_parts(EPD_OP_READ, from_server, cuts[i], 2,
			    checksum, p);
			CHECK(n > 0 && wire_is_right(p, 0, WIRE_BYTES));
			links += n;
			CHECK(wire_settles(&w, 5000));
			memset(w.host.p, 0, WIRE_BYTES);
			n = in_parts(EPD_OP_WRITE, from_server, cuts[i], 2,
			    checksum, p);
			CHECK(n > 0 && wire_is_right(w.host.p, 0, WIRE_BYTES));
			links += n;
		}
	printf("# %d links\n", links);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.gone, w.host.opened);
	down();
	free(p);
}

TEST(cut_at_each_place) { cut(0); }
TEST(cut_at_each_place_with_sums) { cut(1); }

/* A read that was cut goes on where it was cut, not at its beginning. */
TEST(what_came_is_kept)
{
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_piece_done d;
	struct epd_link *l;

	CHECK_INT(up(), 0);
	for (int checksum = 0; checksum < 2; checksum++) {
		proxy_set(&x, 1, 1000000, UINT64_MAX);
		CHECK((l = open_link(checksum)));
		d = wire_move(l, EPD_OP_READ, wire_open(l, WIRE_BOTH, 0), 0, p,
		    WIRE_BYTES);
		CHECK_INT(d.rc, EPD_EPEER);
		CHECK(d.bytes >= 3 * BLOCK && d.bytes < 1000000);
		if (checksum)
			CHECK_INT(d.bytes % BLOCK, 0);
		CHECK(wire_is_right(p, 0, d.bytes));
		epd_link_ops(l)->close(l);
	}
	down();
	free(p);
}

/* A thousand pieces under way in tens, cut at random; every one arrives, once. */
TEST(a_thousand_pieces_cut_at_random)
{
	enum { N = 1000, EACH = 3001, ROOM = 64 };
	uint8_t *p = calloc(N, EACH);
	uint32_t seed = 12345;
	struct { uint64_t done; int is_under_way, is_over; } *at =
	    calloc(N, sizeof *at);
	int left = N, links = 0, wrong = 0;

	CHECK_INT(up(), 0);
	while (left && links < 5000) {
		struct epd_piece_done d[ROOM];
		struct epd_link *l;
		uint64_t id;
		int n;

		seed = seed * 1664525 + 1013904223;
		proxy_set(&x, 1, links > 200 ? UINT64_MAX : seed >> 8 & 0x3fff,
		    UINT64_MAX);
		links++;
		if (!(l = open_link(links % 2)))
			continue;
		id = wire_open(l, WIRE_MIXED, 0);
		do {
			for (int i = 0; i < N; i++) {
				struct epd_piece piece = { (uint64_t)i,
					EPD_OP_READ, id, (uint64_t)i * EACH +
					at[i].done, EACH - at[i].done, p +
					i * EACH + at[i].done, 0 };

				if (at[i].is_over || at[i].is_under_way)
					continue;
				if (epd_link_ops(l)->submit(l, &piece, NULL))
					break;
				at[i].is_under_way = 1;
			}
			n = epd_link_ops(l)->wait(l, d, ROOM, wire_in(5000),
			    &wire_why);
			for (int i = 0; i < n; i++) {
				const uint64_t k = d[i].tag;

				wrong += k >= N || !at[k].is_under_way ||
				    (d[i].rc && d[i].rc != EPD_EPEER);
				at[k].is_under_way = 0;
				at[k].done += d[i].bytes;
				at[k].is_over = !d[i].rc;
				left -= !d[i].rc;
				wrong += at[k].is_over && at[k].done != EACH;
			}
		} while (n > 0 && left);
		epd_link_ops(l)->close(l);
		for (int i = 0; i < N; i++)
			wrong += at[i].is_under_way;
	}
	CHECK_INT(left, 0);
	CHECK_INT(wrong, 0);
	CHECK(wire_is_right(p, 0, (uint64_t)N * EACH));
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.gone, w.host.opened);
	printf("# %d links\n", links);
	down();
	free(p);
	free(at);
}

/* ---- bytes that turn ---- */

/* Bytes of one way until the bulk of the first move. */
enum {
	TO_SERVER = 48 + 36 + 48 + 8 + 48 + 20,	/* PROVE, CALL, WRITE */
	FROM_SERVER = 48 + 36 + 48 + 48 + 16 + 48 /* HELLO, PROVE, CALL, READ */
};

static int
turned(enum epd_op op, uint64_t at, struct epd_piece_done *d, uint8_t *p)
{
	struct epd_buf a = { 0 };
	struct epd_link *l;
	uint64_t id;
	int rc;

	proxy_set(&x, op == EPD_OP_READ, UINT64_MAX, at);
	if (!(l = open_link(1)))
		return -1;
	id = wire_open(l, WIRE_MIXED, 1);
	*d = wire_move(l, op, id, 0, p, 3 * BLOCK);
	/* The link goes on, or does not. */
	rc = wire_ask(l, WIRE_ECHO, 1, 2, &a);
	epd_buf_free(&a);
	epd_link_ops(l)->close(l);
	if (!wire_settles(&w, 5000))
		return -1;
	wire_see();
	return rc;
}

TEST(a_turned_byte_costs_its_move)
{
	static const uint64_t into[] = { 0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 3,
		BLOCK + 7, BLOCK + 8, BLOCK + 9, 2 * BLOCK + 7, 2 * BLOCK + 15,
		2 * BLOCK + 16, 3 * BLOCK + 23 };
	struct epd_server_counts n;
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_piece_done d;

	CHECK_INT(up(), 0);
	memcpy(p, w.host.p, WIRE_BYTES);
	for (size_t i = 0; i < sizeof into / sizeof *into; i++) {
		const uint64_t blocks = into[i] / (BLOCK + 8);

		CHECK_INT(turned(EPD_OP_READ, FROM_SERVER + into[i], &d, p), 0);
		CHECK_INT(d.rc, EPD_ECORRUPT);
		CHECK_INT(d.bytes, blocks * BLOCK);
		CHECK(wire_is_right(p, 0, d.bytes));
		memcpy(p, w.host.p, WIRE_BYTES);
		CHECK_INT(turned(EPD_OP_WRITE, TO_SERVER + into[i], &d, p), 0);
		CHECK_INT(d.rc, EPD_ECORRUPT);
		CHECK_INT(d.bytes, blocks * BLOCK);
		wire_fill(&w.host);
	}
	epd_server_counts(w.server, &n);
	CHECK_INT(n.corrupt, sizeof into / sizeof *into);
	down();
	free(p);
}

/* One in a head or a greeting breaks the link, never more. */
TEST(a_turned_byte_of_a_head_breaks_the_link)
{
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_piece_done d;

	CHECK_INT(up(), 0);
	memcpy(p, w.host.p, WIRE_BYTES);
	for (int at = 0; at < 48; at += 5) {
		CHECK(turned(EPD_OP_READ, FROM_SERVER - 48 + (uint64_t)at, &d, p));
		CHECK_INT(d.rc, EPD_EPEER);
		CHECK(turned(EPD_OP_READ, (uint64_t)at, &d, p));
		CHECK(turned(EPD_OP_WRITE, TO_SERVER - 68 + (uint64_t)at, &d, p));
		CHECK(turned(EPD_OP_WRITE, (uint64_t)at, &d, p));
	}
	CHECK(wire_settles(&w, 2000));
	CHECK(wire_is_right(w.host.p, 0, WIRE_BYTES));
	down();
	free(p);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
