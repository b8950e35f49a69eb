/* wire_tcp.c - calls and moves over a connection: right bytes, in every kind of window. */
#include "tests/unit/wire.h"

#define ADDRESS "tcp://127.0.0.1:0"
#define KEY "0123456789abcdef0123456789abcdef"

static struct wire w;

static int
up(const char *key)
{
	return wire_start(&w, ADDRESS, key, NULL);
}

static struct epd_link *
tcp(const char *key, int checksum)
{
	return wire_link(EPD_VIA_TCP, epd_server_address(w.server, 0), key,
	    checksum);
}

TEST(calls)
{
	struct epd_buf a = { 0 }, big = { 0 };
	struct epd_link *l;

	CHECK_INT(up(NULL), 0);
	CHECK((l = tcp(NULL, 0)));
	const struct epd_transport *t = epd_link_ops(l);
	CHECK_INT(wire_ask(l, WIRE_ECHO, 5, 6, &a), 0);
	CHECK_INT(a.n, 8);
	CHECK_INT(a.p[0], 5);
	/* Appended to; a failure leaves it, and the link goes on. */
	CHECK_INT(wire_ask(l, WIRE_FAIL, EEXIST, 0, &a), -EEXIST);
	CHECK_STR(wire_why.text, "as you like");
	CHECK_INT(a.n, 8);
	CHECK_INT(wire_ask(l, WIRE_ECHO, 7, 8, &a), 0);
	CHECK_INT(a.n, 16);
	/* As large as there may be, both ways; and larger. */
	CHECK(epd_buf_add(&big, 16 << 20));
	memset(big.p, 3, big.n);
	a.n = 0;
	CHECK_INT(t->call(l, WIRE_ECHO, epd_span(big.p, big.n), &a,
	    wire_in(5000), &wire_why), 0);
	CHECK(a.n == big.n && !memcmp(a.p, big.p, a.n));
	CHECK(epd_buf_add(&big, 1));
	CHECK_INT(t->call(l, WIRE_ECHO, epd_span(big.p, big.n), &a,
	    wire_in(5000), &wire_why), EPD_ETOOBIG);
	CHECK_INT(wire_ask(l, WIRE_BIG, (16 << 20) + 1, 0, &a), EPD_ETOOBIG);
	CHECK_INT(wire_ask(l, 99, 0, 0, &a), EPD_EUNSUPPORTED);
	CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), 0);
	t->close(l);
	CHECK(wire_settles(&w, 2000));
	wire_stop(&w);
	epd_buf_free(&a);
	epd_buf_free(&big);
	CHECK_INT(w.rc, 0);
}

/* Offsets and sizes around every edge there is: blocks, buffers, extents. */
static const uint64_t sizes[] = { 1, 7, 48, 4095, 4096, 4097, 65536,
	(256 << 10) - 1, 256 << 10, (256 << 10) + 1, (512 << 10) + 8, 1 << 20,
	WIRE_BYTES };
static const uint64_t places[] = { 0, 1, 4095, 69999, 262143, 262144, 1000003 };

static int
reads(struct epd_link *l, uint64_t id, uint8_t *p)
{
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
			const uint64_t n = sizes[i], at = places[j];
			struct epd_piece_done d;

			if (at + n > WIRE_BYTES)
				continue;
			memset(p, 0, n + 1);
			d = wire_move(l, EPD_OP_READ, id, at, p, n);
			if (d.rc || d.bytes != n || d.tag != 7 ||
			    !wire_is_right(p, at, n) || p[n])
				return 0;
		}
	return 1;
}

static int
writes(struct epd_link *l, uint64_t id, uint8_t *p)
{
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
			const uint64_t n = sizes[i], at = places[j];
			struct epd_piece_done d;

			if (at + n > WIRE_BYTES)
				continue;
			memset(w.host.p, 0, WIRE_BYTES);
			memcpy(p, wire_want + at, n);
			if (wire_meet(l))
				return 0;
			d = wire_move(l, EPD_OP_WRITE, id, at, p, n);
			if (wire_meet(l) || d.rc || d.bytes != n ||
			    !wire_is_right(w.host.p + at, at, n) ||
			    (at && w.host.p[at - 1]) ||
			    (at + n < WIRE_BYTES && w.host.p[at + n]))
				return 0;
		}
	wire_fill(&w.host);
	return 1;
}

static void
each_kind(const char *key, int checksum)
{
	uint8_t *p = malloc(WIRE_BYTES + 1);
	struct epd_link *l;

	CHECK(p);
	CHECK_INT(up(key), 0);
	CHECK((l = tcp(key, checksum)));
	for (int kind = 0; kind < WIRE_KINDS; kind++) {
		uint64_t id = wire_open(l, (enum wire_kind)kind, 1);

		CHECK(id);
		CHECK(reads(l, id, p));
		CHECK_INT(wire_meet(l), 0);
		CHECK(writes(l, id, p));
		CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), &wire_why), 0);
		CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), &wire_why),
		    EPD_ENOTHING);
		CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 1).rc, EPD_ENOTHING);
	}
	epd_link_ops(l)->close(l);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.gone, w.host.opened);
	wire_stop(&w);
	free(p);
}

TEST(each_size_at_each_place) { each_kind(NULL, 0); }
TEST(with_sums) { each_kind(NULL, 1); }
TEST(with_a_key_and_sums) { each_kind(KEY, 1); }

/* What cannot be had is refused by itself; the link goes on. */
TEST(beyond_and_against_the_rules)
{
	static uint8_t p[4096];
	struct epd_link *l;
	uint64_t id, ro;

	CHECK_INT(up(NULL), 0);
	CHECK((l = tcp(NULL, 1)));
	CHECK((id = wire_open(l, WIRE_BOTH, 1)));
	CHECK((ro = wire_open(l, WIRE_BOTH, 0)));
	CHECK_INT(wire_move(l, EPD_OP_READ, id, WIRE_BYTES, p, 1).rc, EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, WIRE_BYTES - 1, p, 2).rc,
	    EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, UINT64_MAX, p, 2).rc, EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_WRITE, id, UINT64_MAX - 4095, p, 4096).rc,
	    EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_WRITE, ro, 0, p, 4096).rc, -EACCES);
	CHECK_INT(wire_move(l, EPD_OP_READ, 12345, 0, p, 1).rc, EPD_ENOTHING);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 0).rc, 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 4096).rc, 0);
	CHECK(wire_is_right(p, 0, 4096));
	CHECK_INT(wire_meet(l), 0);
	CHECK(wire_is_right(w.host.p, 0, WIRE_BYTES));
	epd_link_ops(l)->close(l);
	wire_stop(&w);
}

/* Many under way both ways, calls among them; a call comes after earlier writes. */
static void
many(const char *key, int checksum)
{
	enum { N = 1000, EACH = 3000 };
	static uint8_t in[N][EACH], out[EACH];
	struct epd_piece_done d[64];
	struct epd_buf a = { 0 };
	struct epd_link *l;
	uint64_t id;
	int told = 0, put = 0, bad = 0, n;

	CHECK_INT(up(key), 0);
	CHECK((l = tcp(key, checksum)));
	CHECK((id = wire_open(l, WIRE_MIXED, 1)));
	for (int i = 0; i < EACH; i++)
		out[i] = wire_byte((uint64_t)i);
	while (told < N) {
		while (put < N) {
			struct epd_piece p = { (uint64_t)put, put % 3 ?
			    EPD_OP_READ : EPD_OP_WRITE, id, put % 3 ?
			    (uint64_t)(put * 3001) : 0, EACH, put % 3 ?
			    (void *)in[put] : (void *)out, 0 };
			const int rc = epd_link_ops(l)->submit(l, &p, &wire_why);

			if (rc == -EAGAIN)
				break;
			CHECK_INT(rc, 0);
			put++;
			if (put % 100 == 0)
				CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), 0);
		}
		n = epd_link_ops(l)->wait(l, d, 64, wire_in(5000), &wire_why);
		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			bad += d[i].rc || d[i].bytes != EACH ||
			    (d[i].tag % 3 && !wire_is_right(in[d[i].tag],
			    d[i].tag * 3001, EACH));
		told += n;
	}
	CHECK_INT(bad, 0);
	CHECK_INT(epd_link_ops(l)->wait(l, d, 1, wire_in(0), &wire_why),
	    EPD_EUSAGE);
	epd_link_ops(l)->close(l);
	wire_stop(&w);
	epd_buf_free(&a);
}

TEST(a_thousand_under_way) { many(NULL, 0); }
TEST(a_thousand_with_a_key_and_sums) { many(KEY, 1); }

/* Called off: told at once, memory is not touched any more, all else goes on. */
TEST(kind14_called_off_then_it_comes)
{
	/* More than fits the sockets: some have begun, and some have not. */
	enum { N = 32, EACH = 1 << 20 };
	uint8_t *p[N];
	struct epd_piece_done d[N];
	struct epd_buf a = { 0 };
	struct epd_link *l;
	uint64_t id;
	int off = 0, told = 0, n;

	CHECK_INT(up(NULL), 0);
	for (int checksum = 0; checksum < 2; checksum++) {
		CHECK((l = tcp(NULL, checksum)));
		CHECK((id = wire_open(l, WIRE_BOTH, 1)));
		off = told = 0;
		for (int i = 0; i < N; i++) {
			struct epd_piece piece = { (uint64_t)i, i % 2 ?
			    EPD_OP_READ : EPD_OP_WRITE, id, i % 2 ? 2 * EACH :
			    (uint64_t)(i / 2 % 2) * EACH, EACH, NULL, 0 };

			CHECK((p[i] = malloc(EACH)));
			if (i % 2)
				memset(p[i], 0xaa, EACH);
			else
				memcpy(p[i], wire_want + piece.offset, EACH);
			piece.local = p[i];
			CHECK_INT(epd_link_ops(l)->submit(l, &piece, NULL), 0);
		}
		for (int i = 0; i < N; i++)
			if (i % 4 > 1) {
				CHECK_INT(epd_link_ops(l)->cancel(l,
				    (uint64_t)i), 0);
				/* Whoever touches it now is seen by ASan. */
				free(p[i]);
				p[i] = NULL;
			}
		while (told < N) {
			n = epd_link_ops(l)->wait(l, d, N, wire_in(5000),
			    &wire_why);
			CHECK(n > 0);
			told += n;
			for (int i = 0; i < n; i++) {
				off += d[i].rc == -ECANCELED;
				CHECK(d[i].rc == (d[i].tag % 4 > 1 ?
				    -ECANCELED : 0));
			}
		}
		CHECK_INT(off, N / 2);
		CHECK_INT(epd_link_ops(l)->cancel(l, 0), EPD_ENOTHING);
		for (int i = 0; i < N; i++) {
			CHECK(!p[i] || i % 2 == 0 || wire_is_right(p[i],
			    2 * EACH, EACH));
			free(p[i]);
		}
		/* In step still. */
		CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), 0);
		epd_buf_free(&a);
		epd_link_ops(l)->close(l);
		CHECK(wire_settles(&w, 2000));
		wire_see();
		wire_fill(&w.host);
	}
	CHECK(wire_settles(&w, 2000));
	wire_stop(&w);
}

/* ---- memory ---- */

static int fail_at, count;		/* atomics */

static int
refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) ==
	    __atomic_load_n(&fail_at, __ATOMIC_SEQ_CST);
}

/* Everything once; the first failure, or 0. */
static int
whole(enum epd_backend b, const char *address, uint8_t *p)
{
	struct epd_link *l = wire_link(b, address, NULL, 1);
	struct epd_piece_done d;
	struct epd_buf a = { 0 };
	int rc = -1;
	uint64_t id;

	if (!l)
		return -1;
	if ((id = wire_open(l, WIRE_MIXED, 1))) {
		memset(p, 0, 200000);
		d = wire_move(l, EPD_OP_READ, id, 60000, p, 200000);
		rc = d.rc;
		/* What is told to have moved has. */
		if (d.bytes && !wire_is_right(p, 60000, d.bytes))
			abort();
		if (!rc)
			rc = wire_move(l, EPD_OP_WRITE, id, 60000, p, 200000).rc;
		if (!rc)
			rc = wire_ask(l, WIRE_ECHO, 1, 2, &a);
	}
	epd_link_ops(l)->close(l);
	epd_buf_free(&a);
	return rc;
}

static void
starved(enum epd_backend b, const char *address)
{
	uint8_t *p = malloc(200000);
	int failed = 0, fds, n;

	epd_alloc_hook(refuse, NULL);
	CHECK_INT(wire_start(&w, address, NULL, NULL), 0);
	CHECK_INT(whole(b, epd_server_address(w.server, 0), p), 0);
	CHECK(wire_settles(&w, 2000));
	fds = scratch_have("fd");
	for (n = 1; n < 200; n++) {
		__atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&fail_at, n, __ATOMIC_SEQ_CST);
		failed += whole(b, epd_server_address(w.server, 0), p) != 0;
		__atomic_store_n(&fail_at, 0, __ATOMIC_SEQ_CST);
		CHECK(wire_settles(&w, 2000));
		if (__atomic_load_n(&count, __ATOMIC_SEQ_CST) < n)
			break;
	}
	CHECK(n < 200 && failed >= n / 2);
	CHECK_INT(scratch_have("fd"), fds);
	CHECK_INT(w.host.opened, w.host.gone);
	CHECK(wire_is_right(w.host.p, 0, WIRE_BYTES));
	printf("# %d allocations, %d of them missed\n", n - 1, failed);
	wire_stop(&w);
	epd_alloc_hook(NULL, NULL);
	free(p);
}

TEST(kind16_each_allocation_fails) { starved(EPD_VIA_TCP, ADDRESS); }

TEST(kind16_each_allocation_of_shm_fails)
{
	char address[300];
	int dir = scratch_open();

	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	starved(EPD_VIA_SHM, address);
	scratch_close(dir);
}

/* Addresses, and who is not there. */
TEST(addresses)
{
	static const char *const wrong[] = { "", "tcp://", "tcp://:1", "tcp://a",
		"tcp://a:", "tcp://a:-1", "tcp://a:65536", "tcp://a:1x",
		"tcp://::1:80", "tcp://[::1]80", "tcp://[::1", "unix://x", "unix:///",
		"http://a:1", "file:///tmp" };

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK(!wire_link(EPD_VIA_TCP, wrong[i], NULL, 0));
		CHECK(*wire_why.text);
	}
	CHECK(!wire_link(EPD_VIA_TCP, "tcp://127.0.0.1:1", NULL, 0));
	CHECK(!wire_link(EPD_VIA_TCP, "unix:///nowhere/at/all", NULL, 0));
	CHECK(!wire_link(EPD_VIA_SHM, "tcp://127.0.0.1:1", NULL, 0));
	/* By name, and over v6. */
	CHECK_INT(wire_start(&w, "tcp://localhost:0", NULL, NULL), 0);
	struct epd_link *l = tcp(NULL, 0);
	CHECK(l);
	epd_link_ops(l)->close(l);
	wire_stop(&w);
	if (wire_start(&w, "tcp://[::1]:0", NULL, NULL))
		SKIP("no v6 here");
	CHECK((l = tcp(NULL, 0)));
	epd_link_ops(l)->close(l);
	wire_stop(&w);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
