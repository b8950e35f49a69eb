/*
 * rail_rights.h - what a key is good for, and nothing else.  One host is enough for
 * all of these: its guests have nothing in common.
 */
static struct host patient;

/* It with region 0 to be read and region 1 to be written, and a rail. */
struct pair {
	struct host *h;
	struct epd_rail *r;
	struct epd_rail_key out, in;
	char *p;
};
enum { PAIR = 64 << 10 };

static int
pair_start(struct pair *q)
{
	*q = (struct pair){ .h = &patient, .p = memory(PAIR) };
	if (!q->p || (!patient.pid && host_start(&patient)) ||
	    !(q->r = join(q->h, 0, "rxe0")) ||
	    expose(q->h, 0, ASK_MEMORY, PAIR, 0, 1, 0))
		return -1;
	q->out = q->h->got.key;
	if (expose(q->h, 0, ASK_MEMORY, PAIR, 1, 2, 1))
		return -1;
	q->in = q->h->got.key;
	fill(q->p, PAIR, 3);
	return 0;
}

/* Regions and memory are as they were; both ends of the rail end. */
static int
pair_end(struct pair *q)
{
	const int whole = same(q->p, PAIR, 3) == PAIR &&
	    host_ask(q->h, ASK_SAME, 0, 0, 0, 1) == 1 &&
	    host_ask(q->h, ASK_SAME, 0, 0, 1, 2) == 1;

	epd_rail_close(q->r);
	munmap(q->p, PAIR);
	if (host_ask(q->h, ASK_CLOSE, 0, 0, 0, 0) ||
	    host_ask(q->h, ASK_CLOSE, 1, 0, 0, 0) ||
	    host_ask(q->h, ASK_FREE, 0, 0, 0, 0) ||
	    host_ask(q->h, ASK_FREE, 0, 0, 1, 0))
		return -EPIPE;
	return whole ? 0 : -EILSEQ;
}

TEST(to_be_read_is_not_written)
{
	struct pair q;

	CHECK(!pair_start(&q));
	CHECK_INT(move(q.r, EPD_OP_WRITE, &q.out, 0, 100, q.p), -EACCES);
	/* The queue pair is gone with it, and says so. */
	CHECK(epd_rail_is_lost(q.r));
	CHECK_INT(begin(q.r, EPD_OP_READ, &q.out, 0, 100, q.p, 1), EPD_EPEER);
	CHECK(strstr(why.text, "exposed"));
	CHECK_INT(pair_end(&q), 0);
}

TEST(to_be_written_is_not_read)
{
	struct pair q;

	CHECK(!pair_start(&q));
	CHECK_INT(move(q.r, EPD_OP_READ, &q.in, 0, 100, q.p), -EACCES);
	CHECK_INT(pair_end(&q), 0);
}

TEST(covered_is_covered)
{
	for (int writes = 0; writes < 2; writes++) {
		struct pair q;

		CHECK(!pair_start(&q));
		CHECK_INT(host_ask(q.h, ASK_COVER, 0, 0, (uint64_t)writes, 0), 0);
		CHECK_INT(move(q.r, writes ? EPD_OP_WRITE : EPD_OP_READ,
		    writes ? &q.in : &q.out, 0, 100, q.p), -EACCES);
		CHECK_INT(pair_end(&q), 0);
	}
}

TEST(not_one_byte_beyond)
{
	for (int i = 0; i < 4; i++) {
		struct pair q;
		struct epd_rail_key k;
		const uint64_t at = i & 1 ? PAIR - 99 : 0;

		CHECK(!pair_start(&q));
		k = i < 2 ? q.out : q.in;
		k.bytes *= 2;
		k.at -= i & 1 ? 0 : 1;
		CHECK_INT(move(q.r, i < 2 ? EPD_OP_READ : EPD_OP_WRITE, &k, at,
		    100, q.p), -EACCES);
		CHECK_INT(pair_end(&q), 0);
	}
}

/* Another guest's key, of the same host: its domain is another. */
TEST(a_key_is_of_one_rail)
{
	for (int writes = 0; writes < 2; writes++) {
		struct epd_rail *other;
		struct pair q;

		CHECK(!pair_start(&q));
		CHECK((other = join(q.h, 1, "rxe0")));
		CHECK_INT(move(other, writes ? EPD_OP_WRITE : EPD_OP_READ,
		    writes ? &q.in : &q.out, 0, 100, q.p), -EACCES);
		CHECK(epd_rail_is_lost(other));
		CHECK_INT(epd_rail_is_lost(q.r), 0);
		epd_rail_close(other);
		CHECK_INT(pair_end(&q), 0);
	}
}

TEST(guessed_keys)
{
	struct pair q;
	struct epd_rail_key k;

	CHECK(!pair_start(&q));
	k = q.out;
	k.key ^= 1;
	CHECK_INT(move(q.r, EPD_OP_READ, &k, 0, 100, q.p), -EACCES);
	CHECK_INT(pair_end(&q), 0);
}

/* Those before the one that is refused have moved; those behind it have not. */
TEST(refused_in_the_middle)
{
	struct epd_piece_done d[16];
	struct pair q;
	int n = 0, rc = 0;

	CHECK(!pair_start(&q));
	for (uint64_t i = 0; i < 16; i++)
		CHECK_INT(begin(q.r, EPD_OP_READ, i == 5 ? &q.in : &q.out,
		    i * 1024, 1024, q.p + i * 1024, i), 0);
	while (n < 16 && (rc = epd_rail_wait(q.r, d + n, 16 - n, in_ms(10000),
	    &why)) > 0)
		n += rc;
	CHECK_INT(n, 16);
	for (uint64_t i = 0; i < 16; i++) {
		CHECK_INT(d[i].tag, i);
		CHECK_INT(d[i].rc, i < 5 ? 0 : i == 5 ? -EACCES : EPD_EPEER);
		CHECK_INT(d[i].bytes, i < 5 ? 1024 : 0);
	}
	CHECK_INT(epd_rail_wait(q.r, d, 16, in_ms(1000), &why), EPD_EPEER);
	CHECK_INT(same(q.p, 5 * 1024, 1), 5 * 1024);
	fill(q.p, PAIR, 3);
	CHECK_INT(pair_end(&q), 0);
}

TEST(the_host_of_all_these_ends_well)
{
	if (patient.pid)
		CHECK_INT(host_end(&patient), 0);
}
