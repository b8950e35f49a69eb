/*
 * flow_reuse_lost.c - donors that go, are damaged or are not to be had, and an
 * index that lies: a miss, computed, counted, never wrong; and what is shared is
 * freed with its last name, in whatever order.
 *
 *	flow_reuse_lost [all] [TEST...]
 */
#include <sys/mman.h>

#include "tests/check.h"
#include "tests/unit/fault.h"
#include "tests/unit/reuse.h"

static int every;

/* The path of page i's run beneath the kit's folder. */
static const char *
path_of(struct kit *k, uint32_t state, long i)
{
	static char path[160];
	struct kit_log l = kit_read(k, state, 0);
	char hex[33];

	epd_hex_format(hex, k->s->uuid, 16);
	snprintf(path, sizeof path, "memory/epd-%s/w/%s/%016llx", hex,
	    k->workflow, (unsigned long long)l.run[i]);
	kit_log_free(&l);
	return path;
}

static const char *
index_path(const struct kit *k)
{
	static char path[120];
	char hex[33];

	epd_hex_format(hex, k->s->uuid, 16);
	snprintf(path, sizeof path, "memory/epd-%s/pages", hex);
	return path;
}

/* One bit of a page of the run; the file stays where it is. */
static void
flip(struct kit *k, const char *path, long page)
{
	const uint64_t stride = (k->se->page_bytes + 4095) / 4096 * 4096,
	    at = 4096 + (uint64_t)page * stride + 100;
	uint8_t b = 0;
	int fd = -1;

	if (fchmodat(k->dir, path, 0600, 0) < 0 ||
	    (fd = openat(k->dir, path, O_RDWR, 0)) < 0 ||
	    epd_file_pread(fd, &b, 1, at) != 1)
		golden_die(path, "cannot be damaged");
	b ^= 1;
	if (epd_file_pwrite(fd, &b, 1, at) < 0)
		golden_die(path, "cannot be damaged");
	close(fd);
}

/* Whether a taker in `workflow` is right, with so much reused of the donor's. */
static int
takes(struct kit *k, const char *workflow, const char *text, uint64_t reused,
    uint32_t *state)
{
	struct epd_prefilled p, q;
	struct kit_said said[2];
	int ok;

	in(k, workflow);
	if (raw(k, 0, text, NULL, &p) < 0)
		return 0;
	if (state)
		*state = p.state;
	alone(k, text, NULL, &q);
	ok = p.reused == reused && p.borrowed == reused && p.lost == 0 &&
	    p.fresh == p.tokens - 1 - reused && same(k, p.state, q.state) &&
	    right(k, p.state) && kit_decode(k, &p.state, 1, 2, said) == 0 &&
	    kit_decode(k, &q.state, 1, 2, said + 1) == 0 &&
	    kit_hash_said(said) == kit_hash_said(said + 1) &&
	    said->end.lost == 0 && release(k, q.state) == 0;
	if (!ok)
		printf("# %s: reused %llu, not %llu\n", workflow,
		    (unsigned long long)p.reused, (unsigned long long)reused);
	return ok;
}

/* ---- donors that went ---- */

TEST(a_released_donor_is_a_miss)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	struct kit k;

	kit_start(&k, QWEN2);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
		CHECK_INT(p.reused, 0);
		CHECK_INT(release(&k, p.state), 0);
	}
	CHECK_INT(kit_runs(&k), 0);
	CHECK(takes(&k, "two", text, 0, NULL));
	CHECK_INT(kit_count(&k, EPD_M_PAGES_CORRUPT), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Its pages are others' too: who took them is found in its place. */
TEST(a_taker_stands_in_for_its_donor)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	uint64_t whole;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
	whole = (p.tokens - 1) / 16 * 16;
	k.workflow = "two";
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, whole);
	k.workflow = "one";
	CHECK_INT(release(&k, 1), 0);
	k.workflow = "three";
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, whole);
	CHECK(right(&k, p.state));
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	kit_end(&k);
}

/* And when the taker has gone, the donor that is still there. */
TEST(a_donor_outlives_its_taker)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	uint64_t whole;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
	whole = (p.tokens - 1) / 16 * 16;
	k.workflow = "two";
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(release(&k, p.state), 0);
	k.workflow = "three";
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, whole);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* A tier that lost all, or this workflow's part of it. */
TEST(an_evicted_donor_is_a_miss)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	struct kit k;

	for (int wipe = 0; wipe < 2; wipe++) {
		kit_start(&k, QWEN3);
		CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
		kit_lose(&k, wipe);
		CHECK(takes(&k, "two", text, 0, NULL));
		CHECK_INT(kit_check(&k), 0);
		kit_lose(&k, wipe);
		CHECK(takes(&k, "two", text, 0, NULL));
		kit_end(&k);
	}
}

/* A page of the donor's that is not what it was: none of it is taken on. */
TEST(a_damaged_donor_is_a_miss)
{
	const char *text = words(30, 0, 0);

	for (int page = 0; page < 3; page++)
		for (int across = 0; across < 2; across++) {
			struct epd_prefilled p;
			struct kit_said said;
			uint32_t taker;
			struct kit k;

			kit_start(&k, QWEN2);
			CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
			flip(&k, path_of(&k, p.state, 0), page);
			kit_reopen(&k);
			CHECK(takes(&k, across ? "w2" : "w1", text, 0,
			    &taker));
			CHECK(kit_count(&k, EPD_M_PAGES_CORRUPT) > 0);
			/* The donor mends itself when it goes on. */
			k.workflow = "w1";
			CHECK_INT(kit_decode(&k, &p.state, 1, 2, &said), 0);
			CHECK(said.end.lost > 0);
			CHECK(right(&k, p.state));
			CHECK_INT(kit_check(&k), 0);
			kit_end(&k);
		}
}

/* A page that is not asked for does no harm. */
TEST(damage_behind_the_match)
{
	struct epd_prefilled p;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), words(30, 0, 0), NULL, &p), 0);
	flip(&k, path_of(&k, p.state, 0), 4);
	CHECK(takes(&k, "two", words(14, 1, 9), 32, NULL));
	kit_end(&k);
}

/* A link that leads to other pages under the right name. */
TEST(kind17_another_file_under_a_links_name)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p, q, r;
	char from[160];
	struct kit_said said;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
	CHECK(q.reused > 0);
	alone(&k, words(0, 9, 30), NULL, &r);
	snprintf(from, sizeof from, "%s", path_of(&k, r.state, 0));
	CHECK(unlinkat(k.dir, path_of(&k, q.state, 0), 0) == 0);
	CHECK(linkat(k.dir, from, k.dir, path_of(&k, q.state, 0), 0) == 0);
	kit_reopen(&k);
	CHECK_INT(kit_decode(&k, &q.state, 1, 2, &said), 0);
	CHECK(said.end.lost > 0);
	CHECK(right(&k, q.state) && right(&k, p.state) &&
	    right(&k, r.state));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/*
 * kind15: the donor goes between the match and the publishing, at whatever call
 * that gives a file its name: what was mapped is copied.
 */
static struct kit *at_hook;

static void
take_away(void)
{
	const char *was = at_hook->workflow;

	at_hook->workflow = "one";
	kit_lose(at_hook, 0);
	at_hook->workflow = was;
}

TEST(kind15_a_donor_goes_meanwhile)
{
	const char *text = words(30, 0, 3);
	int copied = 0;

	for (int n = 1, calls = 1; n <= calls; n++) {
		struct epd_prefilled p, q, r;
		struct kit k;

		kit_start(&k, QWEN2);
		CHECK_INT(raw(&k, in(&k, "one"), words(30, 0, 0), NULL, &p),
		    0);
		k.workflow = "two";
		at_hook = &k;
		fault.hook = take_away;
		fault_arm(n, 0, FAULT_HOOK);
		fault.only = "linkat";
		CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
		/* It is disarmed once it has run. */
		calls = fault_calls() < n ? n : n + 1;
		if (calls == n)
			fault.at = 0;
		CHECK(q.reused >= 32);
		CHECK(right(&k, q.state));
		copied += calls > n && links(&k, q.state, 0) == 1;
		alone(&k, text, NULL, &r);
		CHECK(same(&k, q.state, r.state));
		k.workflow = "one";
		CHECK(kit_decode(&k, &p.state, 1, 1, &(struct kit_said){ .n =
		    0 }) == 0);
		CHECK_INT(kit_check(&k), 0);
		CHECK(balanced(&k));
		kit_end(&k);
	}
	CHECK(copied > 0);
}

/* ---- the index ---- */

TEST(a_lost_index_is_made_again)
{
	const char *text = words(30, 0, 0);

	for (int i = 0; i < 4; i++) {
		struct epd_prefilled p;
		struct kit k;
		int fd;

		kit_start(&k, QWEN2);
		CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
		kit_close(&k);
		kit_open(&k);
		if (i == 0)
			CHECK(unlinkat(k.dir, index_path(&k), 0) == 0);
		if (i > 0) {
			fd = openat(k.dir, index_path(&k), O_RDWR, 0);
			CHECK(fd >= 0);
			if (i == 1)
				CHECK(ftruncate(fd, 0) == 0);
			if (i == 2)
				CHECK(ftruncate(fd, 1500) == 0);
			if (i == 3)
				CHECK(pwrite(fd, "rubbish", 7, 0) == 7);
			close(fd);
		}
		CHECK(takes(&k, "two", text, (p.tokens - 1) / 16 * 16, NULL));
		kit_end(&k);
	}
}

/* Every slot turned wrong in one bit is no slot; no state is the worse for it. */
TEST(corrupt_entries)
{
	const char *text = words(30, 0, 0);
	static uint8_t b[1 << 16];
	struct epd_prefilled p;
	struct kit k;
	int fd, flipped = 0;
	ssize_t n;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
	fd = openat(k.dir, index_path(&k), O_RDWR, 0);
	CHECK(fd >= 0);
	for (off_t at = 1024; (n = pread(fd, b, sizeof b, at)) > 0;
	    at += n) {
		for (ssize_t i = 0; i + 128 <= n; i += 128)
			if (b[i + 32]) {
				b[i + (i / 128 * 37) % 128] ^= 4;
				flipped++;
			}
		CHECK(pwrite(fd, b, (size_t)n, at) == n);
	}
	close(fd);
	CHECK(flipped > 2);
	CHECK(takes(&k, "two", text, 0, NULL));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/*
 * Hints that are whole and wrong: what they lead to is looked at, and then the one
 * before is asked; where both are wrong it is a miss.
 */
TEST(an_index_that_lies)
{
	const char *text = words(30, 0, 0);
	struct epd_page_entry e[64];
	struct epd_prefilled p, q;
	struct kit_log a, b;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
	alone(&k, words(0, 7, 30), NULL, &q);
	a = kit_read(&k, p.state, 0);
	b = kit_read(&k, q.state, 0);
	for (long i = 0; i < a.npages; i++)
		e[i] = (struct epd_page_entry){ a.page[i].name,
		    a.page[i].rows, a.page[i].sum };
	for (int i = 0; i < 4; i++) {
		static const char *const to[] = {
			"two", "three", "four", "five",
		};

		epd_index_put(epd_store_index(k.s), i == 2 ? "nowhere" : "one",
		    i == 1 ? 1234567 : b.run[0], 16, e, a.npages);
		if (i == 3)
			epd_index_put(epd_store_index(k.s), "nowhere",
			    b.run[0], 16, e, a.npages);
		CHECK(takes(&k, to[i], text, i ? 0 : (p.tokens - 1) / 16 * 16,
		    NULL));
	}
	kit_log_free(&a);
	kit_log_free(&b);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Pages a caller gave serve their workflow, and so does what rests on them. */
TEST(given_pages_stay_where_they_are)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p, q, r;
	const void *pages[64];
	struct epd_created c;
	struct epd_create_state ask = { .workflow = "given" };
	struct epd_run_shape shape;
	struct epd_workflow w;
	struct epd_run *run;
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
	l = kit_read(&k, p.state, 0);
	epd_seq_shape(k.se, &shape);
	CHECK_INT(epd_workflow_open(&w, k.s, "one", 1, kit_why(&k)), 0);
	CHECK_INT(epd_run_open(&run, w.runs, l.run[0], &shape, NULL, 0,
	    kit_why(&k)), 0);
	for (long i = 0; i < l.npages; i++)
		pages[i] = epd_run_page(run, i);
	ask.ids = l.ids;
	ask.nids = (uint32_t)l.n;
	ask.pages = pages;
	ask.npages = (uint32_t)l.npages;
	ask.rows = l.page[l.npages - 1].rows;
	CHECK_INT(epd_flow_create(k.se, &ask, &c, kit_why(&k)), 0);
	epd_run_close(run);
	epd_workflow_close(&w);
	kit_log_free(&l);
	CHECK_INT(release(&k, p.state), 0);
	/* Nobody else has them, or finds them in an index made anew. */
	CHECK(takes(&k, "two", text, 0, NULL));
	k.workflow = "two";
	CHECK_INT(release(&k, 1), 0);
	CHECK(epd_index_rebuild(epd_store_index(k.s)) >= 0);
	CHECK(takes(&k, "three", text, 0, NULL));
	k.workflow = "three";
	CHECK_INT(release(&k, 1), 0);
	/* In their workflow they serve; what is computed on them stays there too. */
	k.workflow = "given";
	CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
	CHECK_INT(q.reused, q.tokens - 1);
	CHECK_INT(raw(&k, 0, words(30, 3, 20), NULL, &r), 0);
	CHECK(r.reused >= p.tokens - 16);
	CHECK_INT(raw(&k, c.state, words(0, 3, 20), NULL, &q), 0);
	CHECK_INT(kit_decode(&k, &q.state, 1, 20, &said), 0);
	for (int i = 0; i < 2; i++) {
		CHECK(takes(&k, i ? "five" : "four", words(30, 3, 20), 0,
		    NULL));
		CHECK_INT(release(&k, 1), 0);
		CHECK(epd_index_rebuild(epd_store_index(k.s)) >= 0);
	}
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	kit_end(&k);
}

/* ---- freeing ---- */

enum { SHARERS = 4 };

/* Four states, a file between them, released in the nth of all orders. */
static int
freed_in_order(int n)
{
	struct epd_prefilled p[SHARERS];
	int left[SHARERS] = { 0, 1, 2, 3 }, count = SHARERS, ok = 1;
	struct kit k;

	kit_start(&k, QWEN2);
	for (int i = 0; i < SHARERS; i++) {
		k.workflow = i < 2 ? "w1" : "w2";
		if (raw(&k, 0, words(25, i % 3, 2 * (i % 3)), NULL, p + i) < 0)
			return 0;
		ok &= i == 0 || p[i].reused >= 16;
	}
	for (; ok && count > 0; count--) {
		int at = n % count;

		n /= count;
		k.workflow = left[at] < 2 ? "w1" : "w2";
		ok &= release(&k, p[left[at]].state) == 0 && balanced(&k);
		left[at] = left[count - 1];
		for (int i = 0; i < count - 1; i++) {
			struct kit_log l;

			k.workflow = left[i] < 2 ? "w1" : "w2";
			l = kit_read(&k, p[left[i]].state, 0);
			ok &= kit_recount(&k, &l);
			kit_log_free(&l);
		}
		ok &= kit_check(&k) == 0;
	}
	ok = ok && kit_runs(&k) == 0 && kit_count(&k, EPD_M_PAGES_LOST) == 0;
	kit_end(&k);
	return ok;
}

TEST(freed_in_any_order)
{
	for (int n = 0; n < 24; n++)
		CHECK(freed_in_order(n));
}

/* A tier too small for all: a shared file goes with all its names or stays. */
TEST(shared_runs_under_a_small_cap)
{
	struct epd_prefilled p;
	struct kit_said said;
	uint64_t used = 0;
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.memory_cap = 120000;
	kit_open(&k);
	for (int i = 0; i < 24; i++) {
		char w[8];

		snprintf(w, sizeof w, "w%d", i % 5);
		k.workflow = w;
		CHECK_INT(raw(&k, 0, words(14, i % 7, 10), NULL, &p), 0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
		CHECK(right(&k, p.state));
		CHECK(balanced(&k));
		CHECK_INT(epd_memory_used(k.s->memory, &used), 0);
		CHECK(used <= 120000);
	}
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* ---- memory, calls ---- */

/* Donors in two workflows, so that a taker links, copies and computes. */
static void
donors(struct kit *k)
{
	struct epd_prefilled p;

	kit_start(k, QWEN2);
	if (raw(k, in(k, "one"), words(30, 0, 0), NULL, &p) < 0 ||
	    raw(k, in(k, "two"), words(14, 2, 6), NULL, &p) < 0 || !p.reused ||
	    raw(k, 0, words(14, 2, 16), NULL, &p) < 0)
		golden_die("donors", k->why.text);
}

/* A request of words(30, 0, 8) that allocates nothing before it. */
static int
ask(struct kit *k, const char *text, struct epd_prefilled *out)
{
	const struct epd_prefill p = {
		.kind = EPD_PROMPT_RAW, .text = epd_span_str(text),
		.workflow = "two",
	};

	return epd_flow_prefill(k->se, &p, out, kit_why(k));
}

static int
all_well(struct kit *k, const char *text, int orphans)
{
	struct epd_swept s = { .runs = 0 };
	struct epd_prefilled p, q;
	int ok = kit_check(k) == 0 && epd_flow_gc(k->s, &s, kit_why(k)) == 0 &&
	    (orphans || s.runs == 0) && balanced(k);

	if (!ok)
		printf("# %llu runs swept\n", (unsigned long long)s.runs);
	if (!ok || raw(k, 0, text, NULL, &p) < 0)
		return 0;
	alone(k, text, NULL, &q);
	ok = same(k, p.state, q.state) && right(k, p.state);
	return ok && release(k, p.state) == 0 && release(k, q.state) == 0;
}

TEST(kind16_memory_for_reuse)
{
	int failed = 0, less = 0;

	for (int pass = 0; pass < 2; pass++) {
		const char *text = pass ? words(30, 0, 8) : words(14, 2, 12);
		struct kit k;

		donors(&k);
		for (int n = 1; ; n += every ? 1 : 3) {
			struct epd_prefilled p = { .state = 0 };
			int rc, count;

			kit_reopen(&k);
			scratch_starve(n, n % 2);
			rc = ask(&k, text, &p);
			count = scratch_mem.count;
			scratch_starve(0, 0);
			failed += rc < 0;
			CHECK(rc == 0 || rc == -ENOMEM);
			CHECK(rc == 0 || *k.why.text);
			if (rc == 0) {
				less += count >= n && p.reused < 32;
				CHECK(right(&k, p.state));
				CHECK_INT(release(&k, p.state), 0);
			}
			if (every || n % 4 == 1)
				CHECK(all_well(&k, text, 0));
			if (rc == 0 && count < n)
				break;
		}
		kit_end(&k);
	}
	CHECK(failed > 20);
	/* Without an index one goes on, and computes. */
	CHECK(less <= 4);
}

TEST(kind20_calls_that_fail)
{
	static const int errs[] = { EIO, ENOSPC };
	int failed = 0, went_on = 0;

	for (int e = 0; e < 2; e++) {
		const char *text = e ? words(14, 2, 12) : words(30, 0, 8);
		struct kit k;

		donors(&k);
		for (int n = 1; ; n += every ? 1 : 2) {
			struct epd_prefilled p = { .state = 0 };
			int calls, rc;

			kit_reopen(&k);
			fault_arm(n, errs[e], 0);
			rc = ask(&k, text, &p);
			calls = fault_calls();
			failed += rc < 0;
			went_on += rc == 0 && n <= calls;
			if (rc == 0) {
				CHECK(right(&k, p.state));
				CHECK_INT(release(&k, p.state), 0);
			}
			kit_reopen(&k);
			CHECK(all_well(&k, text, rc == EPD_EUNSURE));
			if (rc == 0 && calls < n)
				break;
		}
		kit_end(&k);
	}
	printf("# %d failed, %d went on\n", failed, went_on);
	CHECK(failed > 5 && went_on > 5);
}

/* ---- processes ---- */

static int
forked(struct kit *k, const char *workflow, const char *text, uint64_t *reused)
{
	struct epd_prefilled p;
	uint64_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int rc;

	if (shared == MAP_FAILED)
		golden_die("shared memory", "none");
	fflush(stdout);
	if ((pid = fork()) == 0) {
		kit_open(k);
		k->workflow = workflow;
		rc = raw(k, 0, text, NULL, &p);
		*shared = p.reused;
		kit_close(k);
		_exit(rc != 0);
	}
	rc = scratch_wait(pid);
	*reused = *shared;
	munmap(shared, sizeof *shared);
	return rc;
}

TEST(between_processes)
{
	const char *text = words(30, 0, 0);
	uint64_t reused;
	struct kit k;

	kit_begin(&k, QWEN25);
	CHECK_INT(forked(&k, "one", text, &reused), 0);
	CHECK_INT(reused, 0);
	CHECK_INT(forked(&k, "two", text, &reused), 0);
	CHECK(reused >= 32 && reused % 16 == 0);
	CHECK_INT(forked(&k, "one", words(30, 0, 3), &reused), 0);
	CHECK(reused >= 32);
	kit_open(&k);
	for (int i = 0; i < 3; i++) {
		k.workflow = i == 1 ? "two" : "one";
		CHECK(right(&k, i == 2 ? 2 : 1));
	}
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	kit_end(&k);
}

/* Takers, donors that are released, and evictions, all at once. */
TEST(many_at_once)
{
	enum { N = 6 };
	pid_t pid[N];
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.memory_cap = 400000;
	kit_open(&k);
	kit_close(&k);
	fflush(stdout);
	for (int i = 0; i < N; i++) {
		if ((pid[i] = fork()) != 0)
			continue;
		kit_open(&k);
		for (int n = 0; n < (every ? 60 : 12); n++) {
			struct epd_prefilled p;
			struct kit_said said;
			char w[8];

			snprintf(w, sizeof w, "w%d", (i + n) % 3);
			k.workflow = w;
			if (raw(&k, 0, words(20, (i + n) % 4, 10), NULL, &p) ||
			    kit_decode(&k, &p.state, 1, 2, &said))
				_exit(1);
			if (n % 3 == i % 3 && release(&k, p.state))
				_exit(2);
			if (n % 5 == 4)
				kit_lose(&k, 0);
		}
		kit_close(&k);
		_exit(0);
	}
	for (int i = 0; i < N; i++)
		CHECK_INT(scratch_wait(pid[i]), 0);
	kit_open(&k);
	CHECK_INT(kit_check(&k), 0);
	CHECK_INT(epd_flow_gc(k.s, &(struct epd_swept){ .runs = 0 },
	    kit_why(&k)), 0);
	CHECK(balanced(&k));
	for (int i = 0; i < 3; i++) {
		struct epd_ref ref = { .kind = EPD_REF_WORKFLOW };

		snprintf(ref.workflow, sizeof ref.workflow, "w%d", i);
		CHECK_INT(epd_flow_release(k.s, &ref, "", kit_why(&k)), 0);
	}
	CHECK_INT(kit_runs(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "all")) {
		every = 1;
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	return check_main(argc, argv);
}
