/* shard_basic.c - the verbs, what they refuse, and what is seen afterwards. */
#include "shard/record.h"
#include "shard/segment.h"
#include "tests/unit/shard.h"

static struct epd_clock_fake now = { 1000000, 5000000000 };

static int
count_record(void *arg, const struct epd_record *r)
{
	char *text = arg;
	size_t n = strlen(text);

	snprintf(text + n, 400 - n, "%llu %s s%u@%u %s\n",
	    (unsigned long long)r->lsn, r->kind, r->state, r->version,
	    r->reason);
	return 0;
}

static void
add_run(void *arg, uint64_t run)
{
	*(uint64_t *)arg = *(uint64_t *)arg * 10 + run;
}

static int
add_live(void *arg, const struct epd_version *v)
{
	*(uint64_t *)arg = *(uint64_t *)arg * 10 + v->run;
	return 0;
}

TEST(create_advance_release)
{
	int dir = scratch_open();
	struct epd_shard *s, *r;
	struct epd_version v;
	struct epd_state st;
	uint32_t id = 0, version = 0, heads, children;
	uint64_t runs = 0, h;
	char text[400] = "";

	CHECK_INT(shard_open(&s, dir, 1), -ENOENT);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(id, 1);
	CHECK_INT(shard_create(s, 2, 0, &id), 0);
	CHECK_INT(id, 2);
	CHECK_INT(shard_advance(s, 1, 1, 77, 3, 6, &version), 0);
	CHECK_INT(version, 2);
	/* Again by the same key: the same answer, and nothing new. */
	CHECK_INT(shard_advance(s, 1, 1, 77, 3, 6, &version), 0);
	CHECK_INT(version, 2);
	CHECK_INT(epd_shard_lsn(s), 3);
	CHECK_INT(shard_advance(s, 1, 1, 78, 3, 9, &version), EPD_EVERSION);
	CHECK_INT(shard_advance(s, 1, 1, 0, 3, 9, &version), EPD_EVERSION);
	CHECK_INT(shard_advance(s, 1, 3, 0, 3, 9, &version), EPD_EVERSION);
	CHECK_INT(shard_advance(s, 9, 1, 0, 3, 9, &version), EPD_ENOSTATE);
	CHECK_INT(version, 2);
	CHECK_INT(epd_shard_version(s, 1, 0, &v), 0);
	CHECK_INT(v.parent, 1);
	CHECK_INT(v.node, 3);
	CHECK_INT(v.start, SHARD_IDS);
	CHECK_INT(v.run, 6);
	CHECK_INT(epd_shard_version(s, 1, 3, &v), EPD_ENOTHING);
	CHECK_INT(epd_shard_counts(s, 1, &heads, &children), 0);
	CHECK(heads == 1 && children == 1);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	CHECK_INT(st.versions, 2);
	CHECK_INT(st.epoch, 3);
	CHECK_STR(st.tenant, "a");
	CHECK_STR(epd_status_name(st.status), "ACTIVE");
	h = shard_hash(s);
	CHECK_INT(shard_open(&r, dir, 1), 0);
	CHECK(shard_hash(r) == h);
	CHECK_INT(epd_shard_runs(s, add_live, &runs), 0);
	CHECK_INT(runs, 56);
	runs = 0;
	CHECK_INT(epd_shard_release(s, 1, "done", add_run, &runs, NULL), 0);
	CHECK(runs == 56 || runs == 65);
	CHECK_INT(epd_shard_release(s, 1, "done", add_run, &runs, NULL), 0);
	CHECK_INT(epd_shard_release(s, 3, "", NULL, NULL, NULL), EPD_ENOSTATE);
	CHECK_INT(epd_shard_release(s, 0, "", NULL, NULL, NULL), EPD_ENOSTATE);
	CHECK_INT(epd_shard_state(s, 1, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_lsn(s), 4);
	/* The reader still sees its snapshot, until it catches up. */
	CHECK(shard_hash(r) == h);
	CHECK_INT(epd_shard_catch_up(r, NULL), 0);
	CHECK(shard_hash(r) == shard_hash(s));
	CHECK_INT(epd_shard_walk(r, count_record, text, NULL), 0);
	CHECK_STR(text, "1 create s1@1 \n2 create s2@1 \n3 advance s1@2 \n"
	    "4 release s1@0 done\n");
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	CHECK_INT(epd_shard_check(r, shard_fault_print, NULL, NULL), 0);
	CHECK_INT(shard_create(r, 1, 0, &id), -EROFS);
	epd_shard_close(s);
	epd_shard_close(r);
	/* A number is not used again. */
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_release(s, 2, "", NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(id, 3);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(what_contradicts_itself_is_not_written)
{
	int dir = scratch_open();
	struct epd_state st = shard_traits(1);
	struct epd_why why = { "" };
	struct epd_shard *s;
	struct shard_made m;
	uint32_t id = 7;
	char *big = malloc(70000);

	memset(big, 'x', 69999);
	big[69999] = '\0';
	CHECK_INT(shard_open(&s, dir, 0), 0);
	shard_make(&m, 4, 3);
	m.v.run = 0;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), -EINVAL);
	shard_make(&m, 4, 3);
	m.pages[0].rows = 17;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), -EINVAL);
	shard_make(&m, 4, 3);
	m.v.first_page = 9;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), -EINVAL);
	CHECK(*why.text);
	shard_make(&m, 4, 3);
	m.v.turn = 9;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), EPD_EKIND);
	shard_make(&m, 4, 3);
	m.v.next_pos = INT64_MIN;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), -EINVAL);
	m.v.next_pos = INT64_MAX;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), -EINVAL);
	shard_make(&m, 4, 3);
	st.fingerprint = big;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), EPD_ETOOBIG);
	st.fingerprint = NULL;
	m.v.note = epd_span(big, 65 << 20);	/* never read */
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, &why), EPD_ETOOBIG);
	CHECK_INT(id, 7);
	CHECK_INT(epd_shard_lsn(s), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_lsn(s), 1);
	epd_shard_close(s);
	free(big);
	scratch_close(dir);
}

TEST(time_to_live)
{
	int dir = scratch_open();
	struct epd_state st = shard_traits(1);
	struct epd_shard *s, *r;
	struct shard_made m;
	uint32_t id, version;
	uint64_t runs = 0;
	char text[400] = "";

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	st.ttl_deadline_ms = now.wall_ms + 50;
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 1, 8), &id, NULL), 0);
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 2, 9), &id, NULL), 0);
	CHECK_INT(shard_create(s, 3, 7, &id), 0);
	CHECK_INT(shard_open(&r, dir, 1), 0);
	now.wall_ms += 49;
	CHECK_INT(epd_shard_state(r, 1, &st), 0);
	now.wall_ms += 1;
	CHECK_INT(epd_shard_state(r, 1, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_next(r, 0, &st), 0);
	CHECK_INT(st.id, 3);
	CHECK_INT(shard_advance(s, 2, 1, 0, 4, 0, &version), EPD_ENOSTATE);
	/* The next writer reclaims, and tells when it is asked. */
	CHECK_INT(shard_advance(s, 3, 1, 0, 4, 0, &version), 0);
	CHECK_INT(epd_shard_lsn(s), 6);
	CHECK_INT(epd_shard_expire(s, add_run, &runs, NULL), 0);
	CHECK(runs == 89 || runs == 98);
	CHECK_INT(epd_shard_walk(s, count_record, text, NULL), 0);
	CHECK(strstr(text, "4 release s1@0 expired\n5 release s2@0 expired\n"
	    "6 advance s3@2"));
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(r);
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

TEST(expire_counts)
{
	int dir = scratch_open();
	struct epd_state st = shard_traits(1);
	struct epd_shard *s;
	struct shard_made m;
	uint32_t id;

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	st.ttl_deadline_ms = now.wall_ms + 50;
	for (int i = 0; i < 150; i++)
		CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 1, 0), &id,
		    NULL), 0);
	CHECK_INT(epd_shard_expire(s, NULL, NULL, NULL), 0);
	now.wall_ms += 50;
	CHECK_INT(epd_shard_expire(s, NULL, NULL, NULL), 150);
	CHECK_INT(epd_shard_expire(s, NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

TEST(checkpoints_keep_everything)
{
	for (int keep = -1; keep < 3; keep++) {
		int dir = scratch_open();
		struct epd_shard_options o = shard_plain;
		struct epd_shard *s, *r;
		uint32_t id, version;
		uint64_t h;

		o.checkpoint_bytes = 4096;
		o.log_keep = keep;
		CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
		CHECK_INT(epd_shard_open(&r, dir, &o, NULL), 0);
		for (uint32_t i = 0; i < 120; i++) {
			CHECK_INT(shard_create(s, i, i + 1, &id), 0);
			CHECK_INT(shard_advance(s, id, 1, i, i, 0, &version), 0);
			if (i % 3)
				CHECK_INT(epd_shard_release(s, id, "", NULL,
				    NULL, NULL), 0);
			/* Another handle, far behind now and then. */
			if (i % 40 == 39)
				CHECK_INT(shard_create(r, i, 0, &id), 0);
			if (i % 17 == 0)
				CHECK_INT(epd_shard_catch_up(r, NULL), 0);
		}
		CHECK_INT(epd_shard_catch_up(s, NULL), 0);
		h = shard_hash(s);
		CHECK(h);
		CHECK_INT(epd_shard_catch_up(r, NULL), 0);
		CHECK(shard_hash(r) == h);
		CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
		CHECK_INT(epd_shard_check(r, shard_fault_print, NULL, NULL), 0);
		epd_shard_close(r);
		epd_shard_close(s);
		CHECK_INT(shard_open(&r, dir, 1), 0);
		CHECK(shard_hash(r) == h);
		CHECK_INT(epd_shard_check(r, shard_fault_print, NULL, NULL), 0);
		epd_shard_close(r);
		CHECK(keep < 0 || scratch_count(dir, NULL) == 4 + keep);
		scratch_close(dir);
	}
}

/* Keys answer from a checkpoint as they do from the log. */
TEST(keys_are_kept)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id, version = 0;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(shard_advance(s, 1, 1, 41, 2, 0, &version), 0);
	CHECK_INT(shard_advance(s, 1, 2, 42, 2, 0, &version), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(shard_advance(s, 1, 1, 41, 2, 0, &version), 0);
		CHECK_INT(version, 2);
		CHECK_INT(shard_advance(s, 1, 2, 42, 2, 0, &version), 0);
		CHECK_INT(version, 3);
		/* A key is of one version. */
		CHECK_INT(shard_advance(s, 1, 1, 42, 2, 0, &version),
		    EPD_EVERSION);
		CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
		epd_shard_close(s);
		CHECK_INT(shard_open(&s, dir, 0), 0);
	}
	CHECK_INT(epd_shard_lsn(s), 3);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(a_lock_held_is_told)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct epd_state st = shard_traits(1);
	struct epd_why why = { "" };
	struct epd_shard *s, *r;
	struct shard_made m;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	uint32_t id;
	int fd;

	o.lock_timeout_ms = 20;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	fd = openat(dir, "lock", O_RDWR);
	CHECK(fd >= 0 && !fcntl(fd, F_OFD_SETLK, &l));
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 1, 0), &id, &why),
	    EPD_ELOCKED);
	CHECK(strstr(why.text, "held by"));
	/* Readers take no lock; nor does opening a settled log. */
	CHECK_INT(shard_open(&r, dir, 1), 0);
	epd_shard_close(r);
	CHECK_INT(epd_shard_open(&r, dir, &o, NULL), 0);
	epd_shard_close(r);
	close(fd);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

/* How long a verb waited in vain, in ms. */
static int
in_vain(struct epd_shard *s)
{
	uint64_t from = epd_clock_boot_ns();
	uint32_t id;

	return shard_create(s, 1, 0, &id) == EPD_ELOCKED ?
	    (int)((epd_clock_boot_ns() - from) / 1000000) : -1;
}

/* Who stands still with the lock costs little more than one wait. */
TEST(a_lock_that_stays_held_is_waited_for_less)
{
	enum { WAIT = 160, VERBS = 20 };
	int dir = scratch_open(), fd, all = 0;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	uint32_t id;

	o.lock_timeout_ms = WAIT;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	fd = openat(dir, "lock", O_RDWR);
	for (int i = 0; i < 2; i++) {
		l.l_type = F_WRLCK;
		CHECK(!fcntl(fd, F_OFD_SETLK, &l));
		CHECK(in_vain(s) >= WAIT);
		CHECK_INT(epd_shard_vain(s), 1);
		CHECK(in_vain(s) >= WAIT / 4);
		CHECK_INT(epd_shard_vain(s), 2);
		/* Had once, it is waited for as long as ever. */
		l.l_type = F_UNLCK;
		CHECK(!fcntl(fd, F_OFD_SETLK, &l));
		CHECK_INT(shard_create(s, 1, 0, &id), 0);
		CHECK_INT(epd_shard_vain(s), 0);
	}
	l.l_type = F_WRLCK;
	CHECK(!fcntl(fd, F_OFD_SETLK, &l));
	for (int i = 0; i < VERBS; i++)
		all += in_vain(s);
	CHECK(all >= WAIT && all < 4 * WAIT);
	close(fd);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(a_tip_is_not_durable_beyond_its_end)
{
	struct epd_tip t = { 1, { 7 }, 4096, 5, 5, 0 }, got = { 0 };
	uint8_t b[EPD_TIP_SIZE];

	epd_tip_pack(b, &t);
	CHECK_INT(epd_tip_unpack(epd_span(b, sizeof b), &got), 0);
	CHECK(got.lsn == 5 && got.flushed == 5);
	t.flushed = 6;
	epd_tip_pack(b, &t);
	CHECK_INT(epd_tip_unpack(epd_span(b, sizeof b), &got), EPD_ECORRUPT);
	CHECK(got.flushed == 5);
}

/* Two words behind the links, or none and the bytes that always were. */
TEST(lengths_pack_and_unpack)
{
	const struct epd_run_link link = { 3, 1 };
	struct epd_arena a = { 0 };
	struct shard_made m;
	struct epd_version v;
	struct epd_glance g;

	for (int linked = 0; linked < 2; linked++) {
		const size_t at = 68 + (linked ? 4 + 12 : 0);
		struct epd_buf with = { 0 }, without = { 0 };

		shard_make(&m, 4, 3);
		m.v.links = linked ? &link : NULL;
		m.v.nlinks = (uint32_t)linked;
		m.v.has_lengths = 0;
		epd_body_pack(&without, &m.v);
		CHECK_INT(epd_body_size(&m.v), without.n);
		m.v.has_lengths = 1;
		m.v.text_bytes = 0x0102030405060708;
		m.v.messages_bytes = 9;
		epd_body_pack(&with, &m.v);
		CHECK_INT(epd_body_size(&m.v), with.n);
		CHECK_INT(with.n, without.n + 16);
		CHECK_INT(with.p[2], without.p[2] | 8);
		CHECK(!memcmp(with.p + 4, without.p + 4, at - 4));
		CHECK(!memcmp(with.p + at, "\x08\x07\x06\x05\x04\x03\x02\x01"
		    "\x09\0\0\0\0\0\0", 16));
		CHECK(!memcmp(with.p + at + 16, without.p + at,
		    without.n - at));
		CHECK_INT(epd_body_unpack(epd_span(with.p, with.n), &a, &v), 0);
		CHECK(v.has_lengths && v.text_bytes == 0x0102030405060708 &&
		    v.messages_bytes == 9 && v.nids == m.v.nids &&
		    !memcmp(v.ids, m.v.ids, v.nids * sizeof *v.ids) &&
		    v.note.n == m.v.note.n);
		CHECK_INT(epd_body_glance(epd_span(with.p, with.n), &g), 0);
		CHECK(g.has_lengths && g.text_bytes == v.text_bytes &&
		    g.messages_bytes == 9);
		CHECK_INT(epd_body_glance(epd_span(without.p, without.n), &g),
		    0);
		CHECK(!g.has_lengths && !g.text_bytes && !g.messages_bytes);
		for (size_t n = 0; n < with.n - v.note.n; n++)
			CHECK_INT(epd_body_glance(epd_span(with.p, n), &g),
			    EPD_ECORRUPT);
		epd_buf_free(&with);
		epd_buf_free(&without);
	}
	epd_arena_free(&a);
}

TEST(records_pack_and_unpack)
{
	struct epd_buf b = { 0 };
	struct epd_arena a = { 0 };
	uint64_t salts[3] = { 1, 2, 1ull << 63 };
	struct epd_fork f = { 3, 2, 9, 3, 1, 55, salts, "agent_branch" }, g;
	struct epd_rec r = { 0 };
	struct epd_cur c;

	epd_fork_pack(&b, &f);
	c = epd_cur(epd_span(b.p, b.n));
	CHECK_INT(epd_record_next(&c, &r), 1);
	CHECK_INT(r.kind, EPD_KIND_FORK);
	CHECK_INT(epd_fork_unpack(r.payload, &a, &g), 0);
	CHECK(g.id == 3 && g.version == 2 && g.first == 9 && g.count == 3 &&
	    g.replace == 1 && g.ttl_deadline_ms == 55 &&
	    g.salts[2] == 1ull << 63);
	CHECK_STR(g.reason, "agent_branch");
	for (size_t n = 0; n < r.payload.n; n++)
		CHECK_INT(epd_fork_unpack(epd_span(r.payload.p, n), &a, &g),
		    EPD_ECORRUPT);
	CHECK_INT(epd_record_next(&c, &r), 0);
	CHECK_STR(epd_kind_name(8), "offload");
	CHECK(!epd_kind_name(0) && !epd_kind_name(16));
	epd_arena_free(&a);
	epd_buf_free(&b);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
