/* link_hostile.h - guests that speak the session's and the rail's language, but ill. */

static struct epd_client *
session(void)
{
	const struct epd_peer peer = { .address = common.address,
		.key = epd_span_str(KEY), .deadline_ns = wire_in(10000) };
	struct epd_client *c = NULL;

	if (!common.pid && serve_start(&common, "serve", -1))
		return NULL;
	return epd_client_open(&c, &peer, EPD_AT_TCP, &wire_why) ? NULL : c;
}

static int
ask(struct epd_client *c, enum epd_wire_verb verb, const void *p, size_t n,
    struct epd_buf *a)
{
	a->n = 0;
	return epd_client_ask(c, verb, epd_span(p, n), a, NULL, wire_in(10000),
	    &wire_why);
}

static int
step(struct epd_client *c, uint32_t step_, uint32_t ms, struct epd_buf *a)
{
	const uint32_t q[2] = { step_, ms };

	return ask(c, EPD_WIRE_RAIL, q, step_ == EPD_RDMA_OPEN ? 4 : 8, a);
}

static int
expose(struct epd_client *c, uint64_t window, uint64_t offset, uint64_t bytes,
    struct epd_buf *a)
{
	const uint64_t q[3] = { window, offset, bytes };

	return ask(c, EPD_WIRE_EXPOSE, q, sizeof q, a);
}

static uint64_t
open_window(struct epd_client *c, enum wire_kind kind, int writable)
{
	const uint32_t q[2] = { kind, (uint32_t)writable };
	struct epd_buf a = { 0 };
	struct epd_cur cur;
	uint64_t id = 0;

	if (!epd_client_call(c, WIRE_OPEN, epd_span(q, sizeof q), &a,
	    wire_in(10000), &wire_why)) {
		cur = epd_cur(epd_span(a.p, a.n));
		id = epd_unpack_u64(&cur);
	}
	epd_buf_free(&a);
	return id;
}

/* A rail made by hand, past rdma's own end. */
static struct epd_rail *
by_hand(struct epd_client *c)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct epd_rail_invite to = { 0 };
	struct epd_rail *r = NULL;
	struct epd_buf a = { 0 };

	if (!step(c, EPD_RDMA_OPEN, 0, &a) && a.n == EPD_RDMA_INVITE) {
		at.sin_port = htons((uint16_t)(a.p[2] | a.p[3] << 8));
		memcpy(&at.sin_addr, a.p + 4, 4);
		memcpy(&to.at, &at, sizeof at);
		memcpy(to.token, a.p + 20, EPD_RAIL_TOKEN);
		if (epd_rail_knock(&r, &to, "rxe0", epd_client_fd(c),
		    wire_in(10000), &wire_why))
			r = NULL;
		else if (step(c, EPD_RDMA_ADMIT, 10000, &a) ||
		    epd_rail_joined(r, wire_in(10000), &wire_why)) {
			epd_rail_close(r);
			r = NULL;
		}
	}
	epd_buf_free(&a);
	return r;
}

TEST(words_that_are_none)
{
	struct epd_client *c;
	struct epd_buf a = { 0 };
	struct epd_rail *r;
	struct served n;
	uint64_t id;

	CHECK((c = session()));
	CHECK((id = open_window(c, WIRE_BOTH, 0)));
	/* Before there is a rail. */
	CHECK_INT(expose(c, id, 0, 10, &a), EPD_EUSAGE);
	CHECK_INT(step(c, EPD_RDMA_ADMIT, 10, &a), EPD_EUSAGE);
	CHECK_INT(ask(c, EPD_WIRE_RAIL, "", 0, &a), EPD_EFORMAT);
	CHECK_INT(ask(c, EPD_WIRE_RAIL, "\1\0\0\0\0", 5, &a), EPD_EFORMAT);
	CHECK_INT(ask(c, EPD_WIRE_RAIL, "\7\0\0\0", 4, &a), EPD_EFORMAT);
	CHECK_INT(ask(c, EPD_WIRE_RAIL, "\2\0\0\0", 4, &a), EPD_EFORMAT);
	/* Nobody knocks; the token is dead with that. */
	CHECK_INT(step(c, EPD_RDMA_OPEN, 0, &a), 0);
	CHECK_INT(step(c, EPD_RDMA_ADMIT, 50, &a), EPD_ETIMEOUT);
	CHECK_INT(step(c, EPD_RDMA_ADMIT, 50, &a), EPD_EUSAGE);
	CHECK((r = by_hand(c)));
	CHECK_INT(step(c, EPD_RDMA_OPEN, 0, &a), EPD_EUSAGE);
	/* Ranges that are none. */
	CHECK_INT(expose(c, 4711, 0, 10, &a), EPD_ENOTHING);
	CHECK_INT(expose(c, id, 0, 0, &a), EPD_EUSAGE);
	CHECK_INT(expose(c, id, WIRE_BYTES, 1, &a), EPD_EUSAGE);
	CHECK_INT(expose(c, id, UINT64_MAX, 2, &a), EPD_EUSAGE);
	CHECK_INT(expose(c, id, 2, UINT64_MAX, &a), EPD_EUSAGE);
	CHECK_INT(ask(c, EPD_WIRE_EXPOSE, &id, 8, &a), EPD_EFORMAT);
	/* Of one that is, what there is of it. */
	CHECK_INT(expose(c, id, WIRE_BYTES - 4, 1000, &a), 0);
	CHECK_INT(a.n, 16 + EPD_RDMA_EACH);
	n = serve_counts(&common);
	CHECK_INT(n.rdma.regions, 1);
	epd_rail_close(r);
	epd_client_close(c);
	CHECK(serve_settles(&common, &n));
	epd_buf_free(&a);
}

/* The first key of an answer to EXPOSE. */
static struct epd_rail_key
key_of(const struct epd_buf *a)
{
	struct epd_cur c = epd_cur(epd_span(a->p, a->n));
	struct epd_rail_key k;

	epd_unpack_bytes(&c, 24);
	k.bytes = epd_unpack_u64(&c);
	k.at = epd_unpack_u64(&c);
	k.key = epd_unpack_u32(&c);
	return k;
}

/* A move with a key, past all that keeps a guest from it: what came of it. */
static int
with_key(struct epd_rail *r, enum epd_op op, const struct epd_rail_key *k,
    uint8_t *p, uint64_t n)
{
	const struct epd_piece m = { 1, op, 0, 0, n, p, 0 };
	struct epd_piece_done d = { 0 };
	int rc = epd_rail_submit(r, &m, k, &wire_why);

	if (!rc)
		rc = epd_rail_wait(r, &d, 1, wire_in(10000), &wire_why);
	return rc == 1 ? d.rc : rc;
}

/*
 * 0: a call covers what is to be written; 1: shut, 2: COVER cover what is to be read;
 * 3: a call does not; 4: nor does another window's shut.
 */
static void
after(int what)
{
	const uint32_t echo[2] = { 0, 0 };
	struct epd_client *c;
	struct epd_buf a = { 0 };
	struct epd_rail_key k;
	struct epd_rail *r;
	uint8_t p[100];
	uint64_t id, other;

	CHECK((c = session()) &&
	    (r = by_hand(c)));
	CHECK((other = open_window(c, WIRE_BOTH, 0)));
	CHECK((id = open_window(c, WIRE_BOTH, what == 0)));
	CHECK_INT(expose(c, id, 0, sizeof p, &a), 0);
	k = key_of(&a);
	for (int i = 0; i < 100; i++)
		p[i] = wire_byte((uint64_t)i);
	CHECK_INT(with_key(r, what ? EPD_OP_READ : EPD_OP_WRITE, &k, p, 100), 0);
	if (what == 0 || what == 3)
		CHECK_INT(epd_client_call(c, WIRE_ECHO, epd_span(echo,
		    sizeof echo), &a, wire_in(10000), &wire_why), 0);
	else if (what == 2)
		CHECK_INT(ask(c, EPD_WIRE_COVER, &id, 8, &a), 0);
	else
		CHECK_INT(epd_client_shut(c, what == 4 ? other : id,
		    wire_in(10000), &wire_why), 0);
	CHECK_INT(with_key(r, what ? EPD_OP_READ : EPD_OP_WRITE, &k, p, 100),
	    what < 3 ? -EACCES : 0);
	epd_rail_close(r);
	epd_client_close(c);
	epd_buf_free(&a);
}

TEST(a_call_covers_what_is_to_be_written) { after(0); }
TEST(shut_covers) { after(1); }
TEST(cover_covers) { after(2); }
TEST(a_call_leaves_what_is_to_be_read) { after(3); }
TEST(windows_are_covered_one_by_one) { after(4); }

/* The link asks again after a call, and says nothing of it. */
TEST(writes_before_and_after_a_call)
{
	uint8_t p[3000];
	struct epd_buf a = { 0 };
	struct epd_link *l;
	struct served n, was;
	uint64_t id;

	CHECK((l = common_link()));
	was = serve_counts(&common);
	CHECK((id = wire_open(l, WIRE_BOTH, 1)));
	for (uint64_t i = 0; i < 5; i++) {
		const struct epd_piece m = { i, EPD_OP_WRITE, id, 0, sizeof p, p, 0 };
		struct epd_piece_done d;

		for (uint64_t k = 0; k < sizeof p; k++)
			p[k] = wire_byte(k);
		CHECK_INT(epd_link_ops(l)->submit(l, &m, &wire_why), 0);
		/* It has ended when the call begins, and is told after. */
		CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), 0);
		n = serve_counts(&common);
		CHECK_INT(n.rdma.exposed, was.rdma.exposed + i + 1);
		CHECK_INT(n.rdma.regions, 0);
		memset(p, 0, sizeof p);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(1000),
		    &wire_why), 1);
		CHECK(!d.rc && d.bytes == sizeof p && d.tag == i);
	}
	epd_link_ops(l)->close(l);
	epd_buf_free(&a);
}
