/*
 * wire_rdma.c - rdma where there is no device, and what a guest knows of regions.
 * With devices it is tests/rxe that tests it.
 */
#include "tests/unit/wire.h"

#include "base/stop.h"
#include "transport/rdma_view.h"
#include "transport/rdma_wire.h"

/* Nothing here is a reason to fail: it is told why, and nothing is kept. */
TEST(without_a_device_it_says_so)
{
	const struct epd_transport *t = wire_table(EPD_VIA_RDMA);
	const struct epd_peer peer = { .address = "tcp://127.0.0.1:9",
		.deadline_ns = wire_in(100) };
	struct epd_transport_facts f = { .max_bytes = 77 };
	struct epd_rdma_host *h = NULL;
	struct epd_link *l = NULL;
	int fds;

	CHECK(t);
	if (!t->probe(t, &f, &wire_why))
		SKIP("skipped: there is an RDMA device here");
	fds = scratch_have("fd");
	for (int i = 0; i < 100; i++) {
		CHECK_INT(t->probe(t, &f, &wire_why), EPD_EUNSUPPORTED);
		CHECK(*wire_why.text);
		CHECK_INT(t->open(t, &l, &peer, &wire_why), EPD_EUNSUPPORTED);
		CHECK_INT(epd_rdma_host_open(&h, NULL, &wire_why),
		    EPD_EUNSUPPORTED);
	}
	CHECK_INT(f.max_bytes, 77);
	CHECK(!l && !h);
	epd_rdma_host_close(NULL);
	CHECK_INT(scratch_have("fd"), fds);
}

/* Of rail_in.h, which wants the libraries; absent where rdma is not built. */
int rail_poll(const int fd[3], uint64_t deadline_ns) __attribute__((weak));

static int asked;
static int
is_over_soon(void *arg)
{
	(void)arg;
	return ++asked > 3;
}

/* It waits for the device or the session, and all the same is called off. */
TEST(a_wait_that_is_called_off)
{
	int p[2], fd[3];
	uint64_t from;

	if (!rail_poll)
		SKIP("skipped: rdma is not built");
	CHECK(!pipe2(p, O_CLOEXEC));
	fd[0] = p[0];
	fd[1] = fd[2] = -1;
	from = wire_in(0);
	CHECK_INT(rail_poll(fd, wire_in(120)), EPD_ETIMEOUT);
	CHECK(wire_in(0) - from >= UINT64_C(120000000));
	asked = 0;
	epd_stop_heed(is_over_soon, NULL);
	from = wire_in(0);
	CHECK_INT(rail_poll(fd, wire_in(10000)), -ECANCELED);
	CHECK(wire_in(0) - from < UINT64_C(2000000000));
	/* A look is none to be called off, and what is there is told first. */
	CHECK_INT(rail_poll(fd, 0), EPD_ETIMEOUT);
	CHECK(write(p[1], "x", 1) == 1);
	CHECK_INT(rail_poll(fd, 0), 1);
	asked = 0;
	CHECK_INT(rail_poll(fd, wire_in(10000)), 1);
	epd_stop_heed(NULL, NULL);
	close(p[0]);
	close(p[1]);
}

/* An answer to EXPOSE: upto, writable, then pairs of offset and bytes. */
static struct epd_span
answer(struct epd_buf *b, uint64_t upto, uint32_t writable, uint32_t n,
    const uint64_t *pairs)
{
	b->n = 0;
	epd_pack_u64(b, upto);
	epd_pack_u32(b, writable);
	epd_pack_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		epd_pack_u64(b, pairs[2 * i]);
		epd_pack_u64(b, pairs[2 * i + 1]);
		epd_pack_u64(b, 0x1000 + pairs[2 * i]);
		epd_pack_u32(b, 7 + i);
	}
	return epd_span(b->p, b->n);
}

static enum epd_rdma_way
way(const struct epd_rdma_view *v, enum epd_op op, uint64_t at, uint64_t n,
    uint64_t *from)
{
	const struct epd_piece p = { .op = op, .offset = at, .bytes = n };

	return epd_rdma_view_way(v, &p, from);
}

TEST(what_is_told_is_known)
{
	struct epd_rdma_views vs = { 0 };
	struct epd_rdma_view *v;
	struct epd_buf b = { 0 };
	uint64_t from = 0;

	CHECK((v = epd_rdma_view_add(&vs, 5)));
	CHECK(epd_rdma_view_add(&vs, 5) == v && epd_rdma_view_find(&vs, 5) == v);
	CHECK(!epd_rdma_view_find(&vs, 6));
	CHECK_INT(way(v, EPD_OP_READ, 10, 5, &from), EPD_RDMA_ASK);
	CHECK_INT(from, 10);
	/* 100..130 asked: 100..110 and 120..125 are exposed. */
	CHECK_INT(epd_rdma_view_learn(v, 100, 130, answer(&b, 130, 0, 2,
	    (uint64_t[]){ 100, 10, 120, 5 })), 0);
	CHECK_INT(way(v, EPD_OP_READ, 100, 10, &from), EPD_RDMA_RAIL);
	CHECK_INT(way(v, EPD_OP_READ, 103, 7, &from), EPD_RDMA_RAIL);
	CHECK_INT(way(v, EPD_OP_WRITE, 103, 7, &from), EPD_RDMA_SESSION);
	CHECK_INT(way(v, EPD_OP_READ, 109, 2, &from), EPD_RDMA_SESSION);
	CHECK_INT(way(v, EPD_OP_READ, 120, 5, &from), EPD_RDMA_RAIL);
	CHECK_INT(way(v, EPD_OP_READ, 124, 2, &from), EPD_RDMA_SESSION);
	CHECK_INT(way(v, EPD_OP_READ, 99, 2, &from), EPD_RDMA_ASK);
	CHECK_INT(from, 99);
	CHECK_INT(epd_rdma_view_next(v, 90, 200), 100);
	CHECK_INT(epd_rdma_view_next(v, 130, 200), 200);
	CHECK_INT(epd_rdma_view_at(v, 121)->key.key, 8);
	CHECK_INT(epd_rdma_view_at(v, 121)->key.at, 0x1000 + 120);
	/* What lies before it, and joins it: a piece over both goes by rail. */
	CHECK_INT(epd_rdma_view_learn(v, 90, 100, answer(&b, 100, 0, 1,
	    (uint64_t[]){ 90, 10 })), 0);
	CHECK_INT(way(v, EPD_OP_READ, 92, 15, &from), EPD_RDMA_RAIL);
	epd_rdma_views_drop(&vs, 1);		/* only what is to be written */
	CHECK(epd_rdma_view_find(&vs, 5));
	epd_rdma_views_drop(&vs, 0);
	CHECK(!epd_rdma_view_find(&vs, 5));
	epd_buf_free(&b);
}

/* A host that lies: nothing is learnt. */
TEST(what_is_not_so_is_refused)
{
	static const struct {
		uint64_t upto;
		uint32_t n;
		uint64_t pairs[4];
	} bad[] = {
		{ 100, 0, { 0 } },			/* no progress */
		{ 131, 0, { 0 } },			/* more than was asked */
		{ 130, 1, { 99, 5 } }, { 130, 1, { 130, 1 } },
		{ 130, 1, { 110, 0 } }, { 130, 1, { 110, 21 } },
		{ 130, 1, { 110, UINT64_MAX } },
		{ 130, 2, { 110, 10, 119, 2 } },	/* one over the other */
		{ 130, 2, { 120, 2, 110, 2 } },		/* out of order */
	};
	struct epd_rdma_views vs = { 0 };
	struct epd_rdma_view *v = epd_rdma_view_add(&vs, 1);
	struct epd_buf b = { 0 };
	struct epd_span a;

	CHECK(v);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_INT(epd_rdma_view_learn(v, 100, 130, answer(&b, bad[i].upto,
		    0, bad[i].n, bad[i].pairs)), EPD_EPEER);
		CHECK_INT(v->n, 0);
	}
	a = answer(&b, 130, 0, 1, (uint64_t[]){ 100, 30 });
	for (size_t n = 0; n < a.n; n++)
		CHECK_INT(epd_rdma_view_learn(v, 100, 130, epd_span(a.p, n)),
		    EPD_EPEER);
	epd_pack_u8(&b, 0);
	CHECK_INT(epd_rdma_view_learn(v, 100, 130, epd_span(b.p, b.n)), EPD_EPEER);
	CHECK_INT(epd_rdma_view_learn(v, 100, 130, epd_span(b.p, b.n - 1)), 0);
	epd_rdma_views_drop(&vs, 0);
	epd_buf_free(&b);
}

static int
refuse(void *left, size_t n)
{
	(void)n;
	return (*(int *)left)-- == 0;
}

TEST(without_memory_nothing_is_learnt)
{
	for (int i = 0; i < 2; i++) {
		struct epd_rdma_views vs = { 0 };
		struct epd_rdma_view *v = epd_rdma_view_add(&vs, 1);
		struct epd_buf b = { 0 };
		struct epd_span a = answer(&b, 130, 0, 1, (uint64_t[]){ 100, 30 });
		int left = i;

		epd_alloc_hook(refuse, &left);
		CHECK_INT(epd_rdma_view_learn(v, 100, 130, a), -ENOMEM);
		epd_alloc_hook(NULL, NULL);
		CHECK_INT(v->n, 0);
		CHECK_INT(epd_rdma_view_learn(v, 100, 130, a), 0);
		epd_rdma_views_drop(&vs, 0);
		epd_buf_free(&b);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
