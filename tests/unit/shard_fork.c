/* shard_fork.c - branches: what they share, what they cost, what frees it. */
#include "shard/shard_in.h"
#include "tests/unit/shard_forks.h"

static struct epd_clock_fake now = { 1000000, 5000000000 };

/* s1 at @n, each version with a run of its own: first, first + 1, ... */
static int
chain(struct epd_shard *s, uint32_t n, uint64_t first)
{
	uint32_t id, version;
	int rc = shard_create(s, 1, first, &id);

	for (uint32_t i = 1; !rc && i < n; i++)
		rc = shard_advance(s, id, i, 0, i + 1, first + i, &version);
	return rc;
}

static int
fork_n(struct epd_shard *s, uint32_t state, uint32_t version, uint32_t n,
    int replace, uint32_t *first)
{
	struct epd_fork_ask f = {
		.state = state, .version = version, .branches = n,
		.replace = replace, .reason = "agent_branch",
	};

	return epd_shard_fork(s, &f, first, NULL);
}

static uint64_t
salt_of(struct epd_shard *s, uint32_t id)
{
	struct epd_version v;

	return epd_shard_version(s, id, 1, &v) ? 0 : v.sampling.salt;
}

TEST(from_any_version)
{
	int dir = scratch_open();
	struct epd_version v, w;
	struct epd_state p, c;
	struct epd_shard *s;
	uint32_t first = 0;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 3, 5), 0);
	CHECK_INT(fork_n(s, 1, 0, 1, 0, &first), 0);
	CHECK_INT(first, 2);
	CHECK_INT(fork_n(s, 1, 1, 3, 0, &first), 0);
	CHECK_INT(first, 3);
	CHECK_INT(epd_shard_state(s, 1, &p), 0);
	CHECK_INT(p.versions, 3);
	CHECK_INT(p.epoch, 5);
	for (uint32_t id = 2; id < 6; id++) {
		uint32_t at = id == 2 ? 3 : 1;

		CHECK_INT(epd_shard_state(s, id, &c), 0);
		CHECK_INT(c.versions, 1);
		CHECK_INT(c.parent_state, 1);
		CHECK_INT(c.parent_version, at);
		CHECK_INT(c.epoch, id == 2 ? 4 : 5);
		CHECK_INT(c.status, EPD_ACTIVE);
		CHECK(c.page_tokens == p.page_tokens &&
		    c.page_bytes == p.page_bytes &&
		    epd_name_equal(&c.base, &p.base) &&
		    !strcmp(c.fingerprint, p.fingerprint) &&
		    !strcmp(c.tenant, p.tenant));
		CHECK_INT(epd_shard_version(s, 1, at, &v), 0);
		CHECK_INT(epd_shard_version(s, id, 0, &w), 0);
		CHECK(v.node == w.node && v.run == w.run &&
		    v.nids == w.nids && v.start == w.start &&
		    v.sampling.seed == w.sampling.seed);
	}
	CHECK_INT(hold_heads(s, 1), 4);
	CHECK_INT(hold_heads(s, 2), 1);
	CHECK_INT(hold_heads(s, 3), 2);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	scratch_close(dir);
}

/* How many live states' newest versions stand on the node. */
static int
standing(struct epd_shard *s, uint64_t node)
{
	struct epd_outline o;
	struct epd_state st;
	int n = 0;

	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id) {
		uint64_t at;

		if (epd_shard_holds(s, st.id, 0, &at))
			return -1;
		while (at && at != node)
			at = epd_shard_outline(s, at, &o) ? 0 : o.parent;
		n += at == node;
	}
	return n;
}

TEST(counts_with_and_without_the_parent)
{
	for (int replace = 0; replace < 2; replace++) {
		int dir = scratch_open();
		uint8_t told[256] = { 0 };
		struct epd_state st;
		struct epd_shard *s;
		uint32_t first;

		CHECK_INT(shard_open(&s, dir, 0), 0);
		CHECK_INT(chain(s, 4, 5), 0);
		CHECK_INT(fork_n(s, 1, 0, 8, replace, &first), 0);
		CHECK_INT(hold_heads(s, 4), replace ? 8 : 9);
		for (uint64_t node = 1; node <= 4; node++)
			CHECK_INT(standing(s, node), replace ? 8 : 9);
		CHECK_INT(epd_shard_state(s, 1, &st), replace ? EPD_ENOSTATE :
		    0);
		CHECK_INT(hold_nodes(s), 4);
		CHECK(hold_same(s, dir));
		for (uint32_t id = replace ? 2 : 1; id < 10; id++)
			CHECK_INT(epd_shard_release(s, id, "", hold_freed,
			    told, NULL), 0);
		CHECK_INT(hold_nodes(s), 0);
		CHECK(told[5] == 1 && told[6] == 1 && told[7] == 1 &&
		    told[8] == 1);
		epd_shard_close(s);
		scratch_close(dir);
	}
}

TEST(replace_frees_what_is_newer)
{
	int dir = scratch_open();
	uint8_t told[256] = { 0 };
	struct shard_made m;
	struct epd_run_link l[2];
	struct epd_shard *s;
	uint32_t first, version;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 3, 5), 0);
	CHECK_INT(epd_shard_advance(s, 1, 3, 0, hold_make(&m, l, 9, 20),
	    &version, NULL), 0);
	CHECK_INT(fork_n(s, 1, 2, 2, 1, &first), 0);
	CHECK_INT(hold_nodes(s), 2);
	CHECK_INT(hold_heads(s, 1), 0);
	CHECK_INT(hold_heads(s, 2), 2);
	epd_shard_tell(s, hold_freed, told);
	/* The run of @3, and of @4 its own and those it links. */
	CHECK(told[7] == 1 && told[20] == 1 && told[21] == 1 && told[22] == 1);
	CHECK(!told[5] && !told[6]);
	epd_shard_tell(s, hold_freed, told);
	CHECK_INT(told[7], 1);
	CHECK(hold_same(s, dir));
	CHECK_INT(epd_shard_release(s, 2, "", hold_freed, told, NULL), 0);
	CHECK(!told[5] && !told[6]);
	CHECK_INT(epd_shard_release(s, 3, "", hold_freed, told, NULL), 0);
	CHECK(told[5] == 1 && told[6] == 1);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	scratch_close(dir);
}

/* Links told as freed though their body lies in the checkpoint's file. */
TEST(links_behind_a_checkpoint)
{
	int dir = scratch_open();
	uint8_t told[256] = { 0 };
	struct epd_state st = shard_traits(1);
	struct epd_version v;
	struct shard_made m;
	struct epd_run_link l[2];
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_create(s, &st, hold_make(&m, l, 9, 20), &id, NULL),
	    0);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_version(s, 1, 1, &v), 0);
	CHECK(v.nlinks == 2 && v.links[0].run == 21 && v.links[1].run == 22 &&
	    v.links[0].pages == 1 && v.npages == 3 && v.pages[2].rows == 8);
	CHECK_INT(epd_shard_release(s, 1, "", hold_freed, told, NULL), 0);
	CHECK(told[20] == 1 && told[21] == 1 && told[22] == 1);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	/* Links that contradict the pages. */
	hold_make(&m, l, 9, 20);
	l[1].pages = 2;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, NULL), -EINVAL);
	m.v.run = 0;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, NULL), 0);
	l[1].pages = 3;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, NULL), -EINVAL);
	l[1].pages = 0;
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, NULL), -EINVAL);
	l[1] = (struct epd_run_link){ 0, 2 };
	CHECK_INT(epd_shard_create(s, &st, &m.v, &id, NULL), -EINVAL);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(salts)
{
	int dir = scratch_open(), other = scratch_open();
	struct epd_fork_ask f = { .state = 1, .branches = 4, .has_seed = 1,
	    .seed = 42 };
	uint64_t salt[40], twice;
	struct epd_version v, w;
	struct epd_shard *s, *t;
	uint32_t first, version;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_open(&t, other, 0), 0);
	CHECK_INT(chain(s, 2, 5), 0);
	/* With a seed: the same whatever the numbers are. */
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(first, 2);
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(first, 6);
	CHECK_INT(shard_create(t, 7, 0, &first), 0);
	CHECK_INT(shard_create(t, 1, 5, &first), 0);
	CHECK_INT(shard_advance(t, 2, 1, 0, 2, 6, &version), 0);
	f.state = 2;
	CHECK_INT(epd_shard_fork(t, &f, &first, NULL), 0);
	CHECK_INT(first, 3);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK(salt_of(s, 2 + i) && salt_of(s, 2 + i) ==
		    salt_of(s, 6 + i));
		CHECK(salt_of(s, 2 + i) == salt_of(t, 3 + i));
	}
	/* Another seed, none, another version, a child's: all differ. */
	f.state = 1;
	f.seed = 43;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.seed = 42;
	f.version = 1;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.version = 0;
	f.state = 2;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.state = 3;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.has_seed = 0;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(first, 30);
	for (uint32_t id = 2; id < 34; id++) {
		salt[id] = salt_of(s, id);
		for (uint32_t k = 2; k < id; k++)
			CHECK((salt[k] == salt[id]) == (id >= 6 && id < 10 &&
			    k == id - 4));
	}
	/* Only the salt is a branch's own, and only at @1. */
	CHECK_INT(epd_shard_version(s, 1, 2, &v), 0);
	CHECK_INT(epd_shard_version(s, 2, 1, &w), 0);
	CHECK(v.sampling.salt == 2 && w.sampling.seed == v.sampling.seed &&
	    w.sampling.top_k == v.sampling.top_k);
	CHECK_INT(shard_advance(s, 2, 1, 0, 77, 0, &version), 0);
	CHECK_INT(epd_shard_version(s, 2, 2, &w), 0);
	CHECK(w.sampling.salt == 77);
	/* At a child's @1 its own salt counts, at its @2 that of @2. */
	twice = salt_of(s, 18);
	CHECK_INT(fork_n(s, 2, 2, 1, 0, &first), 0);
	CHECK(salt_of(s, first) != twice && salt_of(s, first) != 77);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint32_t id = 2; id < 34; id++)
		CHECK(salt_of(s, id) == salt[id]);
	f = (struct epd_fork_ask){ .state = 2, .version = 1, .branches = 4,
	    .has_seed = 1, .seed = 42 };
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK(salt_of(s, first) == twice);
	epd_shard_close(s);
	epd_shard_close(t);
	scratch_close(other);
	scratch_close(dir);
}

TEST(time_to_live)
{
	int dir = scratch_open();
	struct epd_fork_ask f = { .state = 1, .branches = 2 };
	struct epd_state st = shard_traits(1);
	uint8_t told[256] = { 0 };
	struct epd_shard *s;
	struct shard_made m;
	uint32_t id, first;

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	st.ttl_deadline_ms = now.wall_ms + 50;
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 1, 8), &id, NULL), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.ttl_ms = 90;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	f.ttl_ms = UINT64_MAX;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(epd_shard_state(s, 2, &st), 0);
	CHECK_INT(st.ttl_deadline_ms, now.wall_ms + 50);
	CHECK_INT(epd_shard_state(s, 4, &st), 0);
	CHECK_INT(st.ttl_deadline_ms, now.wall_ms + 90);
	CHECK_INT(epd_shard_state(s, 6, &st), 0);
	CHECK(st.ttl_deadline_ms == UINT64_MAX);
	now.wall_ms += 50;
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), EPD_ENOSTATE);
	/* Nor may what is over be suspected, which would keep it for ever. */
	CHECK_INT(epd_shard_suspect(s, 1, "", NULL), EPD_ENOSTATE);
	CHECK_INT(epd_shard_expire(s, hold_freed, told, NULL), 3);
	CHECK_INT(epd_shard_state(s, 4, &st), 0);
	CHECK_INT(hold_heads(s, 1), 4);
	now.wall_ms += 40;
	CHECK_INT(epd_shard_expire(s, hold_freed, told, NULL), 2);
	CHECK_INT(hold_heads(s, 1), 2);
	CHECK(!told[8]);
	CHECK_INT(epd_shard_release(s, 6, "", hold_freed, told, NULL), 0);
	CHECK_INT(epd_shard_release(s, 7, "", hold_freed, told, NULL), 0);
	CHECK_INT(told[8], 1);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

/* A branch's own deadline, of a parent that has none. */
TEST(time_to_live_of_branches_alone)
{
	int dir = scratch_open();
	struct epd_fork_ask f = { .state = 1, .branches = 2, .ttl_ms = 10 };
	struct epd_state st;
	struct epd_shard *s;
	uint32_t id, first;

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	now.wall_ms += 10;
	CHECK_INT(epd_shard_state(s, 2, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	/* The next writer reclaims them. */
	CHECK_INT(fork_n(s, 1, 0, 1, 0, &first), 0);
	CHECK_INT(first, 4);
	CHECK_INT(epd_shard_lsn(s), 5);
	CHECK_INT(hold_heads(s, 1), 2);
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

TEST(numbers_are_never_used_again)
{
	int dir = scratch_open(), crashed = scratch_open();
	struct shard_image im = { .n = 0 };
	struct epd_shard *s;
	uint32_t first, id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 1, 5), 0);
	CHECK_INT(fork_n(s, 1, 0, 3, 0, &first), 0);
	CHECK_INT(shard_grab(&im, dir), 0);
	CHECK_INT(shard_lay(&im, crashed), 0);
	for (id = 1; id < 5; id++)
		CHECK_INT(epd_shard_release(s, id, "", NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(shard_create(s, 1, 9, &id), 0);
	CHECK_INT(id, 5);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(fork_n(s, 5, 0, 2, 1, &first), 0);
	CHECK_INT(first, 6);
	CHECK_INT(fork_n(s, 5, 0, 2, 1, &first), EPD_ENOSTATE);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(fork_n(s, 6, 0, 1, 0, &first), 0);
	CHECK_INT(first, 8);
	epd_shard_close(s);
	/* As a crash left it, right behind the fork. */
	CHECK_INT(shard_open(&s, crashed, 0), 0);
	CHECK_INT(fork_n(s, 2, 0, 1, 0, &first), 0);
	CHECK_INT(first, 5);
	CHECK(hold_same(s, crashed));
	epd_shard_close(s);
	shard_image_free(&im);
	scratch_close(crashed);
	scratch_close(dir);
}

/* A child that takes a decode lease on s1 and keeps it. */
static void
decode(int said, int go, void *arg)
{
	const int *dirs = arg;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint64_t id;
	int rc = epd_procs_open(&procs, dirs[1]);

	if (!rc)
		rc = hold_open(&s, dirs[0], procs);
	if (!rc)
		rc = epd_shard_lease(s, 1, 0, EPD_LEASE_DECODE, 60000, &id,
		    NULL);
	hold_say(said, rc);
	hold_hear(go);
}

TEST(refusals)
{
	int dir = scratch_open(), store = scratch_open(), rc;
	int dirs[2] = { dir, store };
	struct epd_fork_ask f = { .state = 1, .branches = 2 };
	struct epd_handoff half = { .id = { 1 }, .state = 1, .version = 2 };
	struct epd_why why = { "" };
	struct epd_procs *procs;
	struct hold_child child;
	struct epd_shard *s, *r;
	uint32_t first = 77;
	char *big = malloc(70000), text[80];
	uint64_t lsn;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(chain(s, 2, 5), 0);
	hold_fork(&child, &rc, decode, dirs);
	CHECK_INT(rc, 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ELOCKED);
	snprintf(text, sizeof text, "s1: process %d is decoding it",
	    (int)child.pid);
	CHECK_STR(why.text, text);
	CHECK_INT(hold_end(&child, SIGKILL), -SIGKILL);
	lsn = epd_shard_lsn(s);
	f.branches = 0;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), -EINVAL);
	f.branches = EPD_FORK_MAX + 1;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), -EINVAL);
	CHECK_STR(why.text, "65537 branches; 1 to 65536");
	f.branches = 2;
	f.version = 3;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ENOTHING);
	CHECK_STR(why.text, "s1: it has no version @3");
	f.version = 0;
	f.expect = 1;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_EVERSION);
	CHECK_STR(why.text, "s1: it is at @2, not @1");
	f.expect = 0;
	f.state = 2;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ENOSTATE);
	f.state = 0;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ENOSTATE);
	f.state = 1;
	memset(big, 'x', 69999);
	big[69999] = '\0';
	f.reason = big;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ETOOBIG);
	f.reason = NULL;
	CHECK_INT(epd_shard_lsn(s), lsn);
	CHECK_INT(epd_shard_suspect(s, 1, "no image", NULL), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ESTATUS);
	CHECK_STR(why.text, "s1: no fork of what is SUSPECT");
	CHECK_INT(epd_shard_clear(s, 1, "it is back", NULL), 0);
	CHECK_INT(epd_shard_prepare(s, &half, NULL), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ESTATUS);
	CHECK_STR(why.text, "s1: mid-hand-off, until that is decided");
	CHECK_INT(epd_shard_rollback_at(s, half.id, 0, "", NULL), 0);
	CHECK_INT(first, 77);
	CHECK_INT(shard_open(&r, dir, 1), 0);
	CHECK_INT(epd_shard_fork(r, &f, &first, &why), -EROFS);
	epd_shard_close(r);
	/* And now it may. */
	f.expect = 2;
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), 0);
	CHECK_INT(first, 2);
	CHECK_INT(epd_shard_abort(s, 2, "", NULL), 0);
	f = (struct epd_fork_ask){ .state = 2, .branches = 1 };
	CHECK_INT(epd_shard_fork(s, &f, &first, &why), EPD_ESTATUS);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	epd_procs_close(procs);
	free(big);
	scratch_close(store);
	scratch_close(dir);
}

/* s1@2 with three branches that went on; any order frees each run once. */
static void
release_all(const uint32_t order[4])
{
	int dir = scratch_open();
	uint8_t told[256] = { 0 };
	struct epd_shard *s;
	uint32_t first, version;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 2, 5), 0);
	CHECK_INT(fork_n(s, 1, 2, 2, 0, &first), 0);
	CHECK_INT(fork_n(s, 1, 1, 1, 0, &first), 0);
	for (uint32_t id = 2; id <= 4; id++)
		CHECK_INT(shard_advance(s, id, 1, 0, id, 10 + id, &version), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(epd_shard_release(s, order[i], "", hold_freed, told,
		    NULL), 0);
		CHECK_INT(epd_shard_release(s, order[i], "", hold_freed, told,
		    NULL), 0);
		CHECK(i == 3 || !told[5]);
		for (uint32_t id = 2; id <= 4; id++)
			CHECK(!told[10 + id] == (order[0] != id &&
			    (i < 1 || order[1] != id) &&
			    (i < 2 || order[2] != id) &&
			    (i < 3 || order[3] != id)));
		if (i == 1)
			CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	}
	CHECK_INT(hold_nodes(s), 0);
	for (int run = 0; run < 256; run++)
		CHECK_INT(told[run], run == 5 || run == 6 ||
		    (run >= 12 && run <= 14));
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(kind12_any_order_frees_once)
{
	for (uint32_t k = 0; k < 256 && !check_failed; k++) {
		const uint32_t order[4] = {
			1 + k % 4, 1 + k / 4 % 4, 1 + k / 16 % 4, 1 + k / 64,
		};
		unsigned seen = 0;

		for (int i = 0; i < 4; i++)
			seen |= 1u << order[i];
		if (seen == 30)
			release_all(order);
	}
}

struct cost {
	uint64_t record, file;
	size_t memory;
};

static int
add_memory(void *arg, size_t n)
{
	*(size_t *)arg += n;
	return 0;
}

static int
fork_record(void *arg, const struct epd_record *r)
{
	if (!strcmp(r->kind, "fork"))
		((struct cost *)arg)->record = r->bytes;
	return 0;
}

/* What 8 branches of a state of so many tokens add to log and memory. */
static int
cost_of(uint32_t tokens, struct cost *c)
{
	struct epd_page_ref *pages = calloc(tokens / 16, sizeof *pages);
	int32_t *ids = calloc(tokens, sizeof *ids);
	struct epd_state t = shard_traits(1);
	struct epd_version v = {
		.ids = ids, .nids = tokens, .pages = pages,
		.npages = tokens / 16, .run = 5,
	};
	int dir = scratch_open(), rc;
	struct epd_shard *s;
	struct stat a, b;
	uint32_t id, first;

	for (uint32_t i = 0; i < v.npages; i++)
		pages[i].rows = 16;
	rc = shard_open(&s, dir, 0);
	if (!rc)
		rc = epd_shard_create(s, &t, &v, &id, NULL);
	/* These make room that what comes then has. */
	if (!rc)
		rc = shard_create(s, 2, 0, &id);
	if (!rc)
		rc = fork_n(s, 1, 0, 8, 0, &first);
	if (!rc)
		rc = fstatat(dir, "log.00000001", &a, 0);
	epd_alloc_hook(add_memory, &c->memory);
	if (!rc)
		rc = fork_n(s, 1, 0, 8, 0, &first);
	epd_alloc_hook(NULL, NULL);
	if (!rc)
		rc = fstatat(dir, "log.00000001", &b, 0);
	if (!rc) {
		c->file = (uint64_t)(b.st_size - a.st_size);
		rc = epd_shard_walk(s, fork_record, c, NULL);
		epd_shard_close(s);
	}
	free(pages);
	free(ids);
	scratch_close(dir);
	return rc;
}

TEST(costs_the_same_whatever_the_context)
{
	struct cost small = { 0 }, large = { 0 };

	CHECK_INT(cost_of(1024, &small), 0);
	CHECK_INT(cost_of(131072, &large), 0);
	printf("# 8 branches of 1,024 tokens: a record of %llu bytes, %llu of "
	    "log, %zu of memory; of 131,072: %llu, %llu, %zu\n",
	    (unsigned long long)small.record, (unsigned long long)small.file,
	    small.memory, (unsigned long long)large.record,
	    (unsigned long long)large.file, large.memory);
	CHECK(small.record && small.record == large.record);
	CHECK_INT(small.file, large.file);
	CHECK_INT(small.memory, large.memory);
}

TEST(two_hundred_deep)
{
	enum { DEEP = 200 };
	int dir = scratch_open();
	uint8_t told[256] = { 0 };
	uint64_t salt[DEEP + 2], node;
	struct epd_version v;
	struct epd_shard *s;
	uint32_t first, version;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 1, 1), 0);
	for (uint32_t i = 1; i <= DEEP; i++) {
		CHECK_INT(fork_n(s, i, 0, 1, 0, &first), 0);
		CHECK_INT(first, i + 1);
		CHECK_INT(shard_advance(s, first, 1, 0, i, i + 1, &version), 0);
		salt[first] = salt_of(s, first);
		for (uint32_t k = 2; k < first; k++)
			CHECK(salt[k] != salt[first]);
	}
	CHECK_INT(epd_shard_version(s, DEEP + 1, 0, &v), 0);
	CHECK_INT(v.start, DEEP * SHARD_IDS);
	CHECK_INT(hold_nodes(s), DEEP + 1);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	/* All but the deepest go, and it keeps every node. */
	for (uint32_t id = 1; id <= DEEP; id++)
		CHECK_INT(epd_shard_release(s, id, "", hold_freed, told,
		    NULL), 0);
	CHECK_INT(hold_nodes(s), DEEP + 1);
	CHECK_INT(epd_shard_holds(s, DEEP + 1, 0, &node), 0);
	CHECK_INT(hold_heads(s, node), 1);
	CHECK(!told[1] && !told[DEEP]);
	CHECK_INT(epd_shard_release(s, DEEP + 1, "", hold_freed, told, NULL),
	    0);
	for (int run = 1; run <= DEEP + 1; run++)
		CHECK_INT(told[run], 1);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

/* As many as a record takes, and nothing of one too many. */
TEST(most_branches)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t first;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 1, 5), 0);
	CHECK_INT(fork_n(s, 1, 0, EPD_FORK_MAX, 1, &first), 0);
	CHECK_INT(hold_heads(s, 1), EPD_FORK_MAX);
	CHECK(salt_of(s, 2) != salt_of(s, EPD_FORK_MAX + 1));
	CHECK_INT(fork_n(s, 2, 0, 1, 0, &first), 0);
	CHECK_INT(first, EPD_FORK_MAX + 2);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

/* A state goes to SUSPECT and back, to ABORTED and away. */
TEST(moves_of_status)
{
	int dir = scratch_open();
	struct epd_state st;
	struct epd_shard *s;
	uint32_t id, version, first;
	uint8_t told[256] = { 0 };

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(chain(s, 1, 5), 0);
	CHECK_INT(fork_n(s, 1, 0, 2, 0, &first), 0);
	CHECK_INT(epd_shard_clear(s, 1, "", NULL), EPD_ESTATUS);
	CHECK_INT(epd_shard_suspect(s, 1, "no image", NULL), 0);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	CHECK_INT(st.status, EPD_SUSPECT);
	CHECK_INT(st.epoch, 3);
	CHECK(hold_same(s, dir));
	CHECK_INT(epd_shard_suspect(s, 1, "", NULL), EPD_ESTATUS);
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 6, &version), EPD_ESTATUS);
	CHECK_INT(epd_shard_release(s, 1, "", NULL, NULL, NULL), EPD_ESTATUS);
	CHECK_INT(epd_shard_clear(s, 1, "back", NULL), 0);
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 6, &version), 0);
	CHECK_INT(epd_shard_suspect(s, 2, "", NULL), 0);
	CHECK_INT(epd_shard_abort(s, 2, "gone for good", NULL), 0);
	CHECK_INT(epd_shard_clear(s, 2, "", NULL), EPD_ESTATUS);
	CHECK_INT(epd_shard_abort(s, 2, "", NULL), EPD_ESTATUS);
	CHECK_INT(epd_shard_abort(s, 3, "", NULL), 0);
	CHECK_INT(epd_shard_abort(s, 9, "", NULL), EPD_ENOSTATE);
	CHECK(hold_same(s, dir));
	for (id = 1; id < 4; id++)
		CHECK_INT(epd_shard_release(s, id, "", hold_freed, told, NULL),
		    0);
	CHECK(told[5] == 1 && told[6] == 1);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(sixty_four_processes)
{
	forks_run(64, SHARD_SLOW ? 100 : 1600, 1 << 16);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
