/*
 * flow_faults.c - memory, disk and calls that fail, and kills, at any point of a
 * prefill or a decode: a clear end, no state changed by halves, nothing left
 * that a sweep does not find, and the next try works.
 *
 *	flow_faults [all] [TEST...]
 *
 * With `all` every point is tried, else some spread over all.
 */
#include "tests/check.h"
#include "tests/unit/fault.h"
#include "tests/unit/flow.h"

static int every;

/* Points to try of so many. */
static int
stride(int n, int wanted)
{
	return every || n <= wanted ? 1 : n / wanted;
}

/* A request that is made before anything may fail. */
struct request {
	struct epd_json *content;
	struct epd_request_image image;
	struct epd_prefill p;
};

static void
request_begin(struct request *r, const char *picture, uint32_t state)
{
	r->content = kit_json("[{\"type\":\"image\"},{\"type\":\"text\","
	    "\"text\":\"Look at it.\"}]");
	r->image = (struct epd_request_image){ .path = picture };
	r->p = (struct epd_prefill){
		.kind = EPD_PROMPT_TURN, .content = r->content, .role = "user",
		.images = &r->image, .nimages = 1, .workflow = "w1",
		.state = state,
	};
}

static int
prefill(struct kit *k, const struct request *r)
{
	struct epd_prefilled out;

	return epd_flow_prefill(k->se, &r->p, &out, kit_why(k));
}

static struct kit_said said[2];

static int
decode(struct kit *k, uint32_t a, uint32_t b)
{
	const uint32_t both[] = { a, b };

	return kit_decode(k, both, b ? 2 : 1, 3, said);
}

/* A store with two states that have an answer each. */
static void
begin(struct kit *k, const char *model)
{
	struct epd_prefilled p;
	struct kit_said one;

	kit_start(k, model);
	for (int i = 0; i < 2; i++)
		if (kit_say(k, 0, i ? "Hello." : "What is the left object?",
		    NULL, &p) < 0 ||
		    kit_decode(k, &p.state, 1, 3, &one) < 0)
			golden_die("states", k->why.text);
}

static uint32_t
version(struct kit *k, uint32_t state)
{
	struct epd_workflow w;
	struct epd_state st;

	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0 ||
	    epd_shard_state(w.shard, state, &st) < 0)
		golden_die("state", k->why.text);
	epd_workflow_close(&w);
	return st.versions;
}

static uint64_t
versions(struct kit *k)
{
	uint64_t n = 0;

	for (uint32_t i = 1; i <= 2; i++) {
		struct kit_log l = kit_read(k, i, 0);

		n = n * 100000 + l.head.node;
		kit_log_free(&l);
	}
	return n;
}

/* Nothing is amiss, and a sweep finds no run that nobody has. */
static int
clean(struct kit *k, int orphans)
{
	struct epd_swept s = { .runs = 0 };
	int faults = kit_check(k), rc = epd_flow_gc(k->s, &s, kit_why(k));

	if (faults || rc < 0 || (!orphans && s.runs))
		printf("# %d faults, gc %d (%s), %llu runs swept\n", faults,
		    rc, k->why.text, (unsigned long long)s.runs);
	return faults == 0 && rc == 0 && (orphans || s.runs == 0);
}

static void
forget(struct kit *k)
{
	kit_lose(k, 0);
	epd_file_remove(k->dir, "store/features");
}

/* ---- memory ---- */

TEST(memory_for_prefill)
{
	struct request r;
	int total = 1, failed = 0, without = 0;
	struct kit k;

	begin(&k, QWEN3);
	request_begin(&r, kit_picture(&k, "a.ppm", 84, 56, 1), 1);
	for (int n = 1; n <= total; n += stride(total, 120)) {
		uint64_t before = versions(&k);
		int rc, count;

		forget(&k);
		kit_reopen(&k);
		scratch_starve(n, n % 2);
		rc = prefill(&k, &r);
		count = scratch_mem.count;
		scratch_starve(0, 0);
		total = rc == 0 && !(n % 2) ? count : total < n + 1 ?
		    n + 200 : total;
		if (rc < 0) {
			failed++;
			CHECK_INT(rc, -ENOMEM);
			CHECK(*k.why.text);
			CHECK(versions(&k) == before);
		}
		CHECK(clean(&k, 0));
		if (rc == 0 && count < n)
			break;
		if (rc == 0) {
			/* The state now needs the picture that forget takes. */
			without++;
			kit_end(&k);
			epd_json_free(r.content);
			begin(&k, QWEN3);
			request_begin(&r, kit_picture(&k, "a.ppm", 84, 56, 1),
			    1);
		}
	}
	CHECK(failed > 50);
	/* The index of pages alone is done without. */
	CHECK(without <= 1);
	CHECK_INT(prefill(&k, &r), 0);
	epd_json_free(r.content);
	kit_end(&k);
}

TEST(memory_for_decode)
{
	int failed = 0, n = 1, rc, count;
	struct kit k;

	begin(&k, QWEN2);
	for (;; n += every ? 1 : 7) {
		uint32_t was[2];

		for (int i = 0; i < 2; i++)
			was[i] = version(&k, (uint32_t)i + 1);
		kit_lose(&k, 0);
		kit_reopen(&k);
		memset(said, 0, sizeof said);
		scratch_starve(n, n % 2);
		rc = decode(&k, 1, 2);
		count = scratch_mem.count;
		scratch_starve(0, 0);
		if (rc < 0)
			CHECK(*k.why.text);
		CHECK(clean(&k, 0));
		if (rc == 0 && count < n)
			break;
		if (rc == 0)
			continue;
		failed++;
		CHECK_INT(rc, -ENOMEM);
		/* One of the two may have ended well. */
		for (int i = 0; i < 2; i++)
			CHECK_INT(version(&k, (uint32_t)i + 1), was[i] +
			    (said[i].ended && said[i].end.rc == 0));
	}
	CHECK(failed > 10);
	kit_end(&k);
}

TEST(memory_for_opening)
{
	int rc = -1, count;
	struct kit k;

	begin(&k, QWEN25);
	kit_close(&k);
	for (int n = 1; rc < 0; n += every ? 1 : 13) {
		kit_why(&k);
		scratch_starve(n, n % 2);
		rc = kit_try_open(&k);
		count = scratch_mem.count;
		scratch_starve(0, 0);
		if (rc < 0) {
			CHECK_INT(rc, -ENOMEM);
			CHECK(*k.why.text);
		} else if (count >= n) {
			kit_close(&k);
			rc = -1;
		}
	}
	CHECK(clean(&k, 0));
	kit_end(&k);
}

/* ---- room ---- */

/* A memory tier of its own, so many bytes large; 0 if that may not be. */
static int
small_tier(struct kit *k, unsigned kib)
{
	char how[40];

	mkdir(k->config.memory_dir, 0700);
	snprintf(how, sizeof how, "size=%uk,mode=700", kib);
	return mount("none", k->config.memory_dir, "tmpfs", 0, how) == 0;
}

TEST(full_memory_tier)
{
	int full = 0, fit = 0;

	for (unsigned kib = 8; kib <= 120; kib += 4) {
		struct epd_prefilled p;
		struct kit k;
		int rc;

		kit_begin(&k, QWEN2);
		if (!small_tier(&k, kib)) {
			kit_end(&k);
			SKIP("mounting a small tmpfs takes root");
		}
		rc = kit_try_open(&k);
		if (rc == 0) {
			rc = kit_say(&k, 0, "A text of some fifty tokens that "
			    "takes up several pages, so that a small tier is "
			    "full.", NULL, &p);
			if (rc < 0)
				CHECK(strstr(k.why.text, "memory tier: "));
			full += rc < 0;
			fit += rc == 0;
			if (rc == 0)
				rc = kit_decode(&k, &p.state, 1, 20, said);
			CHECK(clean(&k, 0));
		}
		CHECK(rc == 0 || rc == -ENOSPC);
		kit_close(&k);
		umount(k.config.memory_dir);
		kit_end(&k);
	}
	CHECK(full > 1 && fit > 1);
}

/* A file system smaller than the cap: what was there longest makes room. */
TEST(old_runs_make_room)
{
	struct epd_prefilled p, first;
	struct kit_said again;
	struct kit k;

	kit_begin(&k, QWEN2);
	if (!small_tier(&k, 160)) {
		kit_end(&k);
		SKIP("mounting a small tmpfs takes root");
	}
	kit_open(&k);
	for (int i = 0; i < 30; i++) {
		CHECK_INT(kit_say(&k, 0, "A text of some fifty tokens that "
		    "takes up several pages, so that a small tier is full.",
		    NULL, &p), 0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 5, i ? said : &again),
		    0);
		if (i == 0)
			first = p;
		else
			CHECK(kit_hash_said(said) == kit_hash_said(&again));
	}
	CHECK_INT(kit_decode(&k, &first.state, 1, 5, said), 0);
	CHECK(said[0].end.lost > 0);
	CHECK(clean(&k, 0));
	kit_close(&k);
	umount(k.config.memory_dir);
	kit_end(&k);
}

/* A cap that no state fits under is kept to in between, and nothing is wrong. */
TEST(cap_below_one_state)
{
	struct epd_prefilled p[3];
	struct kit_said alone;
	struct kit k;

	kit_begin(&k, QWEN2);
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, "A text of some fifty tokens that takes up "
	    "several pages.", NULL, p), 0);
	CHECK_INT(kit_decode(&k, &p->state, 1, 5, &alone), 0);
	kit_end(&k);
	kit_begin(&k, QWEN2);
	k.config.memory_cap = 20000;
	k.alone = 1;
	kit_open(&k);
	for (int i = 0; i < 3; i++)
		CHECK_INT(kit_say(&k, 0, "A text of some fifty tokens that "
		    "takes up several pages.", NULL, p + i), 0);
	CHECK_INT(kit_runs(&k), 1);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(kit_decode(&k, &p[i].state, 1, 5, said), 0);
		CHECK(kit_hash_said(said) == kit_hash_said(&alone));
	}
	CHECK(clean(&k, 0));
	kit_end(&k);
}

/* A small cap is used: not all goes for a run of one page. */
TEST(small_cap_keeps_what_fits)
{
	struct epd_prefilled p;
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.memory_cap = 200000;
	kit_open(&k);
	for (int i = 0; i < 12; i++)
		CHECK_INT(kit_say(&k, 0, "Hi", NULL, &p), 0);
	CHECK(kit_runs(&k) >= 8);
	kit_end(&k);
}

/* ---- calls ---- */

static int
all_of_it(struct kit *k, const struct request *r)
{
	int rc = prefill(k, r);

	return rc < 0 ? rc : decode(k, 1, 2);
}

static void
calls_that_fail(int err, int how)
{
	struct request r;
	int total, failed = 0;
	struct kit k;

	begin(&k, QWEN2);
	request_begin(&r, kit_picture(&k, "a.ppm", 84, 56, 1), 1);
	k.config.state_sync = 1;
	kit_lose(&k, 0);
	kit_reopen(&k);
	fault_arm(1 << 30, 0, 0);
	CHECK_INT(all_of_it(&k, &r), 0);
	total = fault_calls();
	CHECK(total > 50);
	for (int n = 1; n < total; n += stride(total, 40)) {
		int rc;

		/* Another picture, so that it has to be encoded. */
		kit_picture(&k, "a.ppm", 84, 56, (uint32_t)n + 1);
		kit_lose(&k, 0);
		kit_reopen(&k);
		fault_arm(n, err, how);
		rc = all_of_it(&k, &r);
		fault_calls();
		failed += rc < 0;
		if (rc < 0)
			CHECK(*k.why.text);
		kit_reopen(&k);
		CHECK(clean(&k, rc == EPD_EUNSURE || how & FAULT_ON));
		CHECK_INT(all_of_it(&k, &r), 0);
		CHECK(clean(&k, 0));
		/* Not longer than they may be. */
		if (versions(&k) % 100000 > 30) {
			kit_end(&k);
			epd_json_free(r.content);
			begin(&k, QWEN2);
			request_begin(&r, kit_picture(&k, "a.ppm", 84, 56, 1),
			    1);
			k.config.state_sync = 1;
		}
	}
	CHECK(failed > 10);
	epd_json_free(r.content);
	kit_end(&k);
}

TEST(no_space) { calls_that_fail(ENOSPC, 0); }
TEST(no_space_from_there_on) { calls_that_fail(ENOSPC, FAULT_ON); }
TEST(bad_disk) { calls_that_fail(EIO, 0); }

/* A disk that fails to read pages back has lost them, no more. */
TEST(pages_that_cannot_be_read)
{
	static const char *const calls[] = { "pread", "openat" };
	struct kit_said want;
	struct epd_prefilled p;
	struct kit k;

	for (int c = 0; c < 2; c++) {
		int lost = 0;

		kit_start(&k, QWEN2);
		CHECK_INT(kit_say(&k, 0, "What is the left object?", NULL, &p),
		    0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 3, &want), 0);
		for (int n = 1, made = n; n <= made; n++) {
			int rc;

			CHECK_INT(kit_say(&k, 0, "What is the left object?",
			    NULL, &p), 0);
			kit_reopen(&k);
			fault_arm(n, EIO, 0);
			fault.only = calls[c];
			rc = kit_decode(&k, &p.state, 1, 3, said);
			made = fault_calls();
			made = rc < 0 ? n + 1 : made;
			if (rc < 0)
				CHECK(*k.why.text);
			else
				CHECK(kit_hash_said(said) ==
				    kit_hash_said(&want));
			lost += rc == 0 && said[0].end.lost > 0;
			CHECK(clean(&k, 0));
		}
		CHECK(c || lost > 0);
		kit_end(&k);
	}
}

TEST(killed)
{
	struct request r;
	int dead = 0;
	struct kit k;

	for (int n = 1;; n += every ? 1 : 11) {
		pid_t pid;
		int status;

		begin(&k, QWEN2);
		request_begin(&r, kit_picture(&k, "a.ppm", 84, 56, 1), 1);
		k.config.state_sync = 1;
		kit_close(&k);
		fflush(stdout);
		if ((pid = fork()) == 0) {
			kit_open(&k);
			fault_arm(n, 0, FAULT_KILL);
			_exit(all_of_it(&k, &r) != 0);
		}
		status = scratch_wait(pid);
		CHECK(status == 0 || status == -SIGKILL);
		dead += status != 0;
		kit_open(&k);
		CHECK(clean(&k, 1));
		CHECK(clean(&k, 0));
		CHECK_INT(all_of_it(&k, &r), 0);
		CHECK(clean(&k, 0));
		epd_json_free(r.content);
		kit_end(&k);
		if (status == 0)
			break;
	}
	CHECK(dead > 8);
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
