/* tier_memory - the memory tier's folder: claimed, filled, made room in, swept. */
#include "fault.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "page/page.h"
#include "scratch.h"
#include "tests/check.h"
#include "tier/tier.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, 4096 };
static const uint8_t uuid[16] = { 0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    13, 14, 15 };
#define HEX "ab0102030405060708090a0b0c0d0e0f"
/* Header and one page and the table's page. */
enum { RUN_BYTES = 3 * 4096 };

struct tier {
	int dir;
	char store[300], mem[300];
	struct epd_memory *m;
};

static int
put(int dirfd, const char *name, const char *text)
{
	struct epd_span part = epd_span_str(text);

	return epd_file_replace(dirfd, name, &part, 1, 0);
}

/* A store and, beside it, a place for memory folders. */
static int
tier_open(struct tier *t, uint64_t cap)
{
	int fd;

	t->dir = scratch_open();
	snprintf(t->store, sizeof t->store, "%s/store", scratch_path);
	snprintf(t->mem, sizeof t->mem, "%s/mem", scratch_path);
	fd = epd_dir_make(t->dir, "store");
	if (fd < 0 || put(fd, "store", "epd-store 1\nuuid " HEX "\n"))
		return -1;
	close(fd);
	return epd_memory_open(&t->m, t->mem, uuid, t->store, cap, NULL);
}

static void
tier_close(struct tier *t)
{
	epd_memory_close(t->m);
	scratch_close(t->dir);
}

/* A one-page run in a workflow, last opened at second `when`. */
static int
put_run(struct tier *t, const char *workflow, uint64_t id, int when)
{
	/* Recent, and after the last change: no kernel moves it by itself. */
	const time_t base = time(NULL) - 20000;
	const struct timespec at[2] = { { .tv_sec = base + when },
	    { .tv_sec = base } };
	struct epd_page_entry e = { .rows = 1 };
	struct epd_run *r;
	char name[17];
	void *p;
	int dir = epd_memory_dir(t->m, workflow), rc;

	if (dir < 0)
		return dir;
	rc = epd_run_new(&r, dir, &shape);
	if (!rc) {
		rc = epd_run_add(r, &p);
		if (!rc) {
			memset(p, 1, 4096);
			rc = epd_run_publish(r, id, &e, 1);
		}
		epd_run_close(r);
	}
	snprintf(name, sizeof name, "%016" PRIx64, id);
	if (!rc && when && utimensat(dir, name, at, 0))
		rc = -errno;
	close(dir);
	return rc;
}

static int
has_run(struct tier *t, const char *workflow, uint64_t id)
{
	char name[17];
	int dir = epd_memory_find(t->m, workflow), rc;

	if (dir < 0)
		return 0;
	snprintf(name, sizeof name, "%016" PRIx64, id);
	rc = !faccessat(dir, name, F_OK, 0);
	close(dir);
	return rc;
}

TEST(folder_is_made_signed_and_found_again)
{
	struct epd_memory *again;
	struct epd_buf b = { 0 };
	struct tier t;
	struct stat st;
	int fd;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(epd_memory_cap(t.m), 1 << 20);
	CHECK_INT(fstatat(t.dir, "mem/epd-" HEX, &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	CHECK_INT(epd_file_read(t.dir, "mem/epd-" HEX "/store", 4096, &b), 0);
	CHECK_STR(epd_buf_cstr(&b), t.store);
	epd_buf_free(&b);
	CHECK_INT(epd_memory_find(t.m, "w1"), -ENOENT);
	CHECK_INT(put_run(&t, "w1", 5, 0), 0);
	CHECK_INT(epd_memory_open(&again, t.mem, uuid, t.store, 7, NULL), 0);
	fd = epd_memory_find(again, "w1");
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(epd_memory_remove(again, "w1"), 0);
	CHECK_INT(epd_memory_remove(again, "w1"), 0);
	CHECK(!has_run(&t, "w1", 5));
	epd_memory_close(again);
	epd_memory_close(NULL);
	tier_close(&t);
}

static int
count_names(void *arg, const char *workflow)
{
	(void)workflow;
	++*(int *)arg;
	return 0;
}

TEST(looking_makes_no_folder)
{
	struct epd_memory *m;
	struct tier t;
	uint64_t bytes = 1;
	int fd, names = 0;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w1", 5, 0), 0);
	CHECK_INT(epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL), 0);
	CHECK_INT(epd_memory_cap(m), 9);
	fd = epd_memory_find(m, "w1");
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(epd_memory_used(m, &bytes), 0);
	CHECK_INT(bytes, RUN_BYTES);
	CHECK_INT(epd_memory_dir(m, "w2"), -EBADF);
	CHECK_INT(epd_memory_remove(m, "w1"), -EBADF);
	CHECK_INT(epd_memory_fit(m, UINT64_MAX, NULL, NULL, NULL, NULL), -EBADF);
	CHECK(has_run(&t, "w1", 5) && faccessat(t.dir, "mem/epd-" HEX "/w/w2",
	    F_OK, 0));
	epd_memory_close(m);
	/* One that others may write is none of ours. */
	CHECK_INT(fchmodat(t.dir, "mem/epd-" HEX, 0777, 0), 0);
	CHECK_INT(epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL), 0);
	CHECK_INT(epd_memory_find(m, "w1"), -ENOENT);
	epd_memory_close(m);
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX), 0);
	for (int there = 1; there >= 0; there--) {
		CHECK_INT(epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL),
		    0);
		CHECK_INT(epd_memory_find(m, "w1"), -ENOENT);
		CHECK_INT(epd_memory_dir(m, "w1"), -EBADF);
		CHECK_INT(epd_memory_used(m, &bytes), 0);
		CHECK_INT(bytes, 0);
		CHECK_INT(epd_memory_each(m, count_names, &names), 0);
		CHECK_INT(names, 0);
		epd_memory_close(m);
		CHECK(faccessat(t.dir, "mem/epd-" HEX, F_OK, 0) < 0);
		CHECK_INT(epd_file_remove(t.dir, "mem"), 0);
	}
	CHECK(faccessat(t.dir, "mem", F_OK, 0) < 0);
	CHECK_INT(epd_memory_look(&m, t.mem, uuid, "store", 9, NULL), -EINVAL);
	tier_close(&t);
}

/* Only what is not there, or another's, counts as empty. */
TEST(what_cannot_be_looked_at_is_not_empty)
{
	static const int errs[] = { EIO, EACCES, EMFILE };
	struct rlimit all, few;
	struct epd_memory *m = NULL;
	struct epd_why why = { "" };
	struct tier t;
	int rc = -EMFILE, refused = 0, fd;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w1", 5, 0), 0);
	for (size_t i = 0; i < sizeof errs / sizeof *errs; i++) {
		fault.only = "openat";
		fault_arm(1, errs[i], FAULT_ON);
		rc = epd_memory_look(&m, t.mem, uuid, t.store, 9, &why);
		CHECK(fault_calls() > 0);
		CHECK_INT(rc, -errs[i]);
		CHECK(!m && why.text[0]);
	}
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	CHECK((fd = dup(0)) >= 0);
	close(fd);
	for (rlim_t n = (rlim_t)fd; rc; n++) {
		few.rlim_cur = n;
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL);
		setrlimit(RLIMIT_NOFILE, &all);
		CHECK(rc == 0 || rc == -EMFILE);
		refused += rc != 0;
	}
	CHECK(refused > 1);
	fd = epd_memory_find(m, "w1");
	CHECK(fd >= 0);
	close(fd);
	epd_memory_close(m);
	if (!geteuid()) {
		CHECK_INT(fchmod(t.dir, 0711), 0);
		CHECK_INT(seteuid(65534), 0);
		rc = epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL);
		CHECK_INT(seteuid(0), 0);
		CHECK_INT(rc, 0);
		CHECK_INT(epd_memory_find(m, "w1"), -ENOENT);
		epd_memory_close(m);
	}
	tier_close(&t);
}

TEST(workflow_names_stay_inside)
{
	static const char *const bad[] = { "", ".", "..", "../x", "a/b", "/a",
	    ".hidden" };
	struct tier t;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_INT(epd_memory_dir(t.m, bad[i]), -EINVAL);
		CHECK_INT(epd_memory_find(t.m, bad[i]), -EINVAL);
		CHECK_INT(epd_memory_remove(t.m, bad[i]), -EINVAL);
	}
	/* A workflow may be called what it likes otherwise. */
	CHECK_INT(put_run(&t, "store", 5, 0), 0);
	CHECK(has_run(&t, "store", 5));
	tier_close(&t);
}

TEST(hostile_folders_are_refused)
{
	struct epd_memory *m = NULL;
	struct epd_why why;
	struct tier t;
	int fd;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(fchmodat(t.dir, "mem/epd-" HEX, 0750, 0), 0);
	CHECK_INT(epd_memory_open(&m, t.mem, uuid, t.store, 1, &why), -EPERM);
	CHECK(strstr(why.text, "mode 750"));
	CHECK_INT(fchmodat(t.dir, "mem/epd-" HEX, 0700, 0), 0);
	if (!geteuid()) {
		CHECK_INT(fchownat(t.dir, "mem/epd-" HEX, 65534, 65534, 0), 0);
		CHECK_INT(epd_memory_open(&m, t.mem, uuid, t.store, 1, &why),
		    -EPERM);
		CHECK(strstr(why.text, "user 65534"));
	}
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX), 0);
	CHECK_INT(symlinkat("/tmp", t.dir, "mem/epd-" HEX), 0);
	CHECK_INT(epd_memory_open(&m, t.mem, uuid, t.store, 1, &why), -EPERM);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
	CHECK_INT(unlinkat(t.dir, "mem/epd-" HEX, 0), 0);
	fd = openat(t.dir, "mem/epd-" HEX, O_CREAT | O_RDWR, 0600);
	close(fd);
	CHECK_INT(epd_memory_open(&m, t.mem, uuid, t.store, 1, &why), -EPERM);
	CHECK_INT(unlinkat(t.dir, "mem/epd-" HEX, 0), 0);
	CHECK_INT(epd_memory_open(&m, t.mem, uuid, "not/absolute", 1, &why),
	    -EINVAL);
	CHECK(!m);
	tier_close(&t);
}

TEST(kind18_used_is_the_sum_of_the_files)
{
	uint64_t used = 1;
	struct tier t;
	int a, b;

	CHECK_INT(tier_open(&t, 1 << 30), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 0);
	for (uint64_t i = 1; i <= 500; i++) {
		CHECK_INT(put_run(&t, "w1", i, 0), 0);
		if (i > 10) {
			a = epd_memory_find(t.m, "w1");
			CHECK_INT(epd_run_free(a, i - 10), 0);
			close(a);
		}
	}
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 10 * RUN_BYTES);
	/* Linked elsewhere, a run is there once. */
	a = epd_memory_find(t.m, "w1");
	b = epd_memory_dir(t.m, "w2");
	CHECK_INT(epd_run_link(a, 500, b, 500), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 10 * RUN_BYTES);
	CHECK_INT(epd_run_free(a, 500), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 10 * RUN_BYTES);
	CHECK_INT(epd_run_free(b, 500), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 9 * RUN_BYTES);
	close(a);
	close(b);
	tier_close(&t);
}

TEST(the_run_opened_longest_ago_goes_first)
{
	struct epd_memory_fit fit;
	struct epd_run *r;
	struct tier t;
	int dir;

	CHECK_INT(tier_open(&t, 10 * RUN_BYTES), 0);
	for (uint64_t i = 1; i <= 8; i++)
		CHECK_INT(put_run(&t, i % 2 ? "w1" : "w2", i,
		    1000 + (int)(i * 3 % 8)), 0);
	/* Times 1003 6 1 4 7 2 5 0: oldest first is 8 3 6 1 4 7 2 5. */
	CHECK_INT(epd_memory_fit(t.m, 2 * RUN_BYTES, NULL, NULL, &fit, NULL), 0);
	CHECK_INT(fit.runs + fit.over, 0);
	CHECK_INT(fit.used, 8 * RUN_BYTES);
	CHECK_INT(epd_memory_fit(t.m, 2 * RUN_BYTES + 1, NULL, NULL, &fit,
	    NULL), 0);
	CHECK_INT(fit.runs, 1);
	CHECK_INT(fit.evicted, RUN_BYTES);
	CHECK(!has_run(&t, "w2", 8) && has_run(&t, "w1", 3));
	/* Opening run 3 makes it the youngest. */
	dir = epd_memory_find(t.m, "w1");
	CHECK_INT(epd_run_open(&r, dir, 3, &shape, NULL, 0, NULL), 0);
	close(dir);
	CHECK_INT(epd_memory_fit(t.m, 5 * RUN_BYTES, NULL, NULL, &fit, NULL), 0);
	CHECK_INT(fit.runs, 2);
	CHECK(!has_run(&t, "w2", 6) && !has_run(&t, "w1", 1));
	CHECK(has_run(&t, "w1", 3) && has_run(&t, "w2", 4));
	/* kind 24: looking, as opposed to opening, renews nothing. */
	CHECK(has_run(&t, "w2", 4));
	CHECK_INT(epd_memory_fit(t.m, 6 * RUN_BYTES, NULL, NULL, &fit, NULL), 0);
	CHECK(!has_run(&t, "w2", 4));
	/* A mapping outlives eviction. */
	CHECK_INT(epd_memory_fit(t.m, 10 * RUN_BYTES, NULL, NULL, &fit, NULL),
	    0);
	CHECK_INT(fit.used, 0);
	CHECK(*(const uint8_t *)epd_run_page(r, 0) == 1);
	CHECK_INT(epd_run_verify(r, 0), 0);
	epd_run_close(r);
	tier_close(&t);
}

TEST(each_opening_counts)
{
	struct timespec last = { 0 };
	struct stat st;
	struct tier t;
	int dir;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w1", 1, 1), 0);
	dir = epd_memory_find(t.m, "w1");
	for (int i = 0; i < 3; i++) {
		struct epd_run *r;

		CHECK_INT(epd_run_open(&r, dir, 1, &shape, NULL, 0, NULL), 0);
		epd_run_close(r);
		CHECK_INT(fstatat(dir, "0000000000000001", &st, 0), 0);
		CHECK(st.st_atim.tv_sec > last.tv_sec ||
		    (st.st_atim.tv_sec == last.tv_sec &&
		    st.st_atim.tv_nsec > last.tv_nsec));
		last = st.st_atim;
		usleep(15000);
	}
	close(dir);
	tier_close(&t);
}

TEST(kind08_a_request_larger_than_the_cache_completes)
{
	struct epd_memory_fit fit;
	struct epd_why why;
	struct tier t;

	CHECK_INT(tier_open(&t, 4 * RUN_BYTES), 0);
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_INT(put_run(&t, "w1", i, 0), 0);
	CHECK_INT(epd_memory_fit(t.m, 5 * RUN_BYTES, NULL, NULL, &fit, &why), 0);
	CHECK_INT(fit.runs, 3);
	CHECK_INT(fit.used, 0);
	CHECK_INT(fit.over, RUN_BYTES);
	CHECK(strstr(why.text, "are more than"));
	CHECK_INT(epd_memory_fit(t.m, UINT64_MAX, NULL, NULL, &fit, NULL), 0);
	CHECK(fit.over == UINT64_MAX - 4 * RUN_BYTES);
	CHECK_INT(epd_memory_fit(t.m, 0, NULL, NULL, NULL, NULL), 0);
	tier_close(&t);
}

static int
keep_odd(void *arg, const char *workflow, uint64_t run)
{
	(void)arg;
	return !strcmp(workflow, "w1") && run % 2;
}

TEST(kind23_eviction_makes_progress_or_says_who_pins)
{
	struct epd_memory_fit fit;
	struct epd_why why;
	struct tier t;
	int a, b;

	CHECK_INT(tier_open(&t, 6 * RUN_BYTES), 0);
	/* The oldest are the pinned ones. */
	for (uint64_t i = 1; i <= 6; i++)
		CHECK_INT(put_run(&t, "w1", i, i % 2 ? 1000 : 2000), 0);
	CHECK_INT(epd_memory_fit(t.m, 2 * RUN_BYTES, keep_odd, NULL, &fit, &why),
	    0);
	CHECK_INT(fit.runs, 2);
	CHECK_INT(fit.over, 0);
	CHECK_INT(epd_memory_fit(t.m, 5 * RUN_BYTES, keep_odd, NULL, &fit, &why),
	    0);
	CHECK_INT(fit.runs, 1);
	CHECK_INT(fit.over, 2 * RUN_BYTES);
	CHECK(strstr(why.text, "3 files are in use, the first in w1, run"));
	CHECK(has_run(&t, "w1", 1) && has_run(&t, "w1", 3) &&
	    has_run(&t, "w1", 5));
	/* Kept under one name is kept under all. */
	a = epd_memory_find(t.m, "w1");
	b = epd_memory_dir(t.m, "w0");
	CHECK_INT(epd_run_link(a, 3, b, 3), 0);
	close(a);
	close(b);
	CHECK_INT(epd_memory_fit(t.m, 6 * RUN_BYTES, keep_odd, NULL, &fit, &why),
	    0);
	CHECK_INT(fit.runs, 0);
	CHECK(has_run(&t, "w0", 3) && has_run(&t, "w1", 3));
	/* Without a reason to stay both names go, and the bytes once. */
	CHECK_INT(epd_memory_fit(t.m, 6 * RUN_BYTES, NULL, NULL, &fit, &why), 0);
	CHECK_INT(fit.runs, 3);
	CHECK_INT(fit.evicted, 3 * RUN_BYTES);
	CHECK_INT(fit.used, 0);
	tier_close(&t);
}

/* The folder of w1, for hooks. */
static int linked_in;
static uint64_t linked_as;

/* Whoever finds the run still there gives it one more name. */
static void
link_once_more(void)
{
	for (uint64_t id = linked_as; id; id = id == linked_as ? id - 1 : 0)
		if (!epd_run_link(linked_in, id, linked_in, linked_as + 1)) {
			linked_as++;
			break;
		}
}

static void
link_for_ever(void)
{
	link_once_more();
	fault.only = "unlinkat";
	fault_arm(1, 0, FAULT_HOOK);
}

static int
link_as(struct tier *t, const char *from, uint64_t run, const char *to,
    uint64_t as)
{
	int a = epd_memory_find(t->m, from), b = epd_memory_dir(t->m, to);
	int rc = epd_run_link(a, run, b, as);

	close(a);
	close(b);
	return rc;
}

TEST(kind18_names_in_one_workflow_and_in_many_count_once)
{
	struct epd_memory_fit fit;
	struct tier t;
	uint64_t used;

	CHECK_INT(tier_open(&t, 4 * RUN_BYTES), 0);
	CHECK_INT(put_run(&t, "w1", 1, 1000), 0);
	CHECK_INT(put_run(&t, "w1", 2, 2000), 0);
	CHECK_INT(put_run(&t, "w2", 3, 3000), 0);
	/* Run 2 is at the ends and in the middle of both folders. */
	CHECK_INT(link_as(&t, "w1", 2, "w1", 0xf), 0);
	CHECK_INT(link_as(&t, "w1", 2, "w1", 0x1f), 0);
	CHECK_INT(link_as(&t, "w1", 0xf, "w2", 2), 0);
	CHECK_INT(link_as(&t, "w1", 0xf, "w0", 0x2f), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, 3 * RUN_BYTES);
	CHECK_INT(epd_memory_fit(t.m, RUN_BYTES, NULL, NULL, &fit, NULL), 0);
	CHECK(fit.used == used && !fit.runs && !fit.over);
	/* Each call lets go of one file, whatever the number of names. */
	for (uint64_t left = 2; left + 1; left--) {
		CHECK_INT(epd_memory_fit(t.m, (4 - left) * RUN_BYTES, NULL,
		    NULL, &fit, NULL), 0);
		CHECK_INT(fit.runs, 1);
		CHECK_INT(fit.evicted, RUN_BYTES);
		CHECK_INT(fit.used, left * RUN_BYTES);
		CHECK_INT(epd_memory_used(t.m, &used), 0);
		CHECK_INT(used, fit.used);
		CHECK_INT(has_run(&t, "w1", 1), 0);
		CHECK_INT(has_run(&t, "w1", 0x1f), left == 2);
		CHECK_INT(has_run(&t, "w1", 2), left == 2);
		CHECK_INT(has_run(&t, "w2", 2), left == 2);
		CHECK_INT(has_run(&t, "w0", 0x2f), left == 2);
		CHECK_INT(has_run(&t, "w2", 3), left > 0);
	}
	tier_close(&t);
}

TEST(kind23_a_name_made_meanwhile_goes_too)
{
	struct epd_memory_fit fit;
	struct tier t;
	uint64_t used;

	CHECK_INT(tier_open(&t, 4 * RUN_BYTES), 0);
	for (int round = 0; round < 3; round++) {
		CHECK_INT(put_run(&t, "w1", 1, 1000), 0);
		CHECK_INT(link_as(&t, "w1", 1, "w1", 2), 0);
		CHECK_INT(put_run(&t, "w2", 5, 2000), 0);
		CHECK_INT(put_run(&t, "w2", 6, 3000), 0);
		linked_in = epd_memory_find(t.m, "w1");
		linked_as = 2;
		fault.hook = round == 2 ? link_for_ever : link_once_more;
		fault.only = "unlinkat";
		if (round)
			fault_arm(1, 0, FAULT_HOOK);
		CHECK_INT(epd_memory_fit(t.m, 2 * RUN_BYTES, NULL, NULL, &fit,
		    NULL), 0);
		fault_calls();
		CHECK_INT(linked_as > 2, round > 0);
		CHECK_INT(fit.over, 0);
		CHECK_INT(fit.runs, 1);
		CHECK_INT(epd_memory_used(t.m, &used), 0);
		/* Who links for ever is left behind, but nobody waits for him. */
		CHECK_INT(used, (round == 2 ? 3 : 2) * RUN_BYTES);
		CHECK(has_run(&t, "w2", 5) && has_run(&t, "w2", 6));
		close(linked_in);
		CHECK_INT(epd_memory_remove(t.m, "w1"), 0);
		CHECK_INT(epd_memory_remove(t.m, "w2"), 0);
	}
	/* A name beside w/ holds the bytes, but not in the tier. */
	CHECK_INT(put_run(&t, "w1", 1, 1000), 0);
	CHECK_INT(put_run(&t, "w1", 2, 2000), 0);
	CHECK_INT(linkat(t.dir, "mem/epd-" HEX "/w/w1/0000000000000001", t.dir,
	    "kept", 0), 0);
	CHECK_INT(epd_memory_fit(t.m, 3 * RUN_BYTES, NULL, NULL, &fit, NULL), 0);
	CHECK(fit.used == RUN_BYTES && !fit.over);
	CHECK(!has_run(&t, "w1", 1) && has_run(&t, "w1", 2));
	tier_close(&t);
}

static int
count_name(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static void
unseen(void *arg, const char *name)
{
	snprintf(arg, 80, "%s", name);
}

TEST(kind31_folders_whose_store_is_gone_are_swept)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 100000, 1 };
	uint64_t bytes = 1;
	char name[80] = "";
	struct tier t;
	int n = 0, fd;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w1", 1, 0), 0);
	CHECK_INT(put_run(&t, "w2", 2, 0), 0);
	CHECK_INT(epd_memory_each(t.m, count_name, &n), 0);
	CHECK_INT(n, 2);
	CHECK_INT(epd_memory_sweep(t.mem, &bytes, NULL), 0);
	CHECK_INT(bytes, 0);
	CHECK(has_run(&t, "w1", 1));
	/* Somebody who has made a folder and not signed it yet is let be. */
	fd = epd_dir_make(t.dir, "mem/epd-ffffffffffffffffffffffffffffffff");
	close(fd);
	fd = epd_dir_make(t.dir, "mem/epd-other");
	close(fd);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
	epd_clock_fake(&later);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 1);
	epd_clock_fake(NULL);
	CHECK_INT(epd_memory_unseen(t.mem, unseen, name), 0);
	CHECK_STR(name, "");
	/* Another store at that path. */
	fd = epd_file_open(t.dir, "store", O_RDONLY | O_DIRECTORY, 0);
	CHECK_INT(put(fd, "store", "epd-store 1\nuuid "
	    "00000000000000000000000000000000\n"), 0);
	/* It is told of, and stays. */
	CHECK_INT(epd_memory_unseen(t.mem, unseen, name), 0);
	CHECK_STR(name, "epd-" HEX);
	CHECK(has_run(&t, "w1", 1));
	CHECK_INT(epd_memory_sweep(t.mem, &bytes, NULL), 1);
	CHECK_INT(bytes, 2 * RUN_BYTES);
	CHECK(!has_run(&t, "w1", 1));
	/* Who still has the folder open begins anew. */
	CHECK_INT(put(fd, "store", "epd-store 1\nuuid " HEX "\n"), 0);
	CHECK_INT(put_run(&t, "w1", 1, 0), 0);
	CHECK(has_run(&t, "w1", 1));
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
	/* A uuid of its own file counts too. */
	CHECK_INT(renameat(fd, "store", fd, "uuid"), 0);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
	close(fd);
	/* The store is gone. */
	CHECK_INT(epd_file_remove(t.dir, "store"), 0);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 1);
	CHECK_INT(scratch_count(t.dir, NULL), 0);
	CHECK_INT(epd_memory_sweep("/nowhere/at/all", NULL, NULL), 0);
	tier_close(&t);
}

TEST(kind31_kill_loop_leaves_nothing_in_the_folder)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 1000000, 1 };
	struct tier t;
	uint64_t used;
	int published = 0;

	CHECK_INT(tier_open(&t, 1 << 30), 0);
	srand(3);
	for (int i = 0; i < 60; i++) {
		int pipes[2], named = i % 2;
		char c;
		pid_t pid;

		CHECK_INT(pipe(pipes), 0);
		pid = fork();
		if (!pid) {
			fault.no_tmpfile = named;
			if (write(pipes[1], "x", 1) != 1)
				_exit(2);
			for (;;) {
				uint64_t id;

				if (epd_run_id(&id) || put_run(&t, "w1", id, 0))
					_exit(1);
			}
		}
		CHECK(read(pipes[0], &c, 1) == 1);
		close(pipes[0]);
		close(pipes[1]);
		usleep((useconds_t)(rand() % 1500));
		kill(pid, SIGKILL);
		CHECK_INT(scratch_wait(pid), -SIGKILL);
	}
	epd_clock_fake(&later);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
	epd_clock_fake(NULL);
	/* What is left is whole runs, and they can all go. */
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	published = scratch_count(t.dir, "store");
	CHECK_INT(used, (uint64_t)published * RUN_BYTES);
	CHECK_INT(epd_memory_fit(t.m, 1 << 30, NULL, NULL, NULL, NULL), 0);
	CHECK_INT(scratch_count(t.dir, "store"), 0);
	tier_close(&t);
}

TEST(a_folder_that_will_not_go_hinders_no_other)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 100000, 1 };
	uint64_t bytes = 1;
	int failed = 1;
	struct tier t;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	close(epd_dir_make(t.dir, "mem/epd-ffffffffffffffffffffffffffffffff"));
	close(epd_dir_make(t.dir, "mem/epd-eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"));
	epd_clock_fake(&later);
	fault_arm(1, EIO, 0);
	fault.only = "unlinkat";
	CHECK_INT(epd_memory_sweep(t.mem, &bytes, &failed), 1);
	CHECK(fault_calls() > 1);
	CHECK_INT(failed, -EIO);
	CHECK_INT(bytes, 0);
	CHECK_INT(epd_memory_sweep(t.mem, NULL, &failed), 1);
	CHECK_INT(failed, 0);
	epd_clock_fake(NULL);
	tier_close(&t);
}

TEST(who_looks_can_tell_that_writers_are_shut_out)
{
	struct epd_memory *m;
	struct epd_why why = { "" };
	struct tier t;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(epd_memory_shut(t.m, &why), 0);
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX), 0);
	CHECK_INT(epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL), 0);
	CHECK_INT(epd_memory_shut(m, &why), 0);
	CHECK_STR(why.text, "");
	CHECK_INT(put(t.dir, "mem/epd-" HEX, "x"), 0);
	CHECK_INT(epd_memory_shut(m, &why), -EPERM);
	CHECK_STR(why.text, "epd-" HEX ": not a folder of ours");
	epd_memory_close(m);
	CHECK_INT(epd_memory_look(&m, t.mem, uuid, t.store, 9, NULL), 0);
	CHECK_INT(epd_memory_shut(m, NULL), -EPERM);
	epd_memory_close(m);
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX), 0);
	tier_close(&t);
}

struct paths {
	char text[400];
};

static int
add_path(void *arg, int dirfd, const char *path)
{
	struct paths *p = arg;
	const char *last = strrchr(path, '/');
	size_t n = strlen(p->text);

	snprintf(p->text + n, sizeof p->text - n, "%s ", path);
	return faccessat(dirfd, last ? last + 1 : path, F_OK,
	    AT_SYMLINK_NOFOLLOW) ? -ENOENT : 0;
}

/* By paths beneath the folder, whatever a workflow is called. */
TEST(what_is_strange_is_told_by_its_path)
{
	struct paths p = { "" };
	struct tier t;
	int n = 0;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w", 1, 0), 0);
	CHECK_INT(epd_memory_strange(t.m, NULL, add_path, &p), 0);
	CHECK_STR(p.text, "");
	CHECK_INT(put(t.dir, "mem/epd-" HEX "/w/w/junk", "x"), 0);
	CHECK_INT(epd_memory_strange(t.m, NULL, add_path, &p), 0);
	CHECK_STR(p.text, "w/w/junk ");
	CHECK_INT(put(t.dir, "mem/epd-" HEX "/w/l", "x"), 0);
	CHECK_INT(epd_memory_each(t.m, count_name, &n), 0);
	CHECK_INT(n, 1);
	p.text[0] = '\0';
	CHECK_INT(epd_memory_strange(t.m, "l", add_path, &p), 0);
	CHECK_STR(p.text, "w/l ");
	close(epd_dir_make(t.dir, "mem/epd-" HEX "/pages"));
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX "/w/l"), 0);
	CHECK_INT(epd_file_remove(t.dir, "mem/epd-" HEX "/w/w/junk"), 0);
	p.text[0] = '\0';
	CHECK_INT(epd_memory_strange(t.m, NULL, add_path, &p), 0);
	CHECK_STR(p.text, "pages ");
	tier_close(&t);
}

TEST(every_allocation_fails)
{
	struct epd_memory_fit fit;
	struct epd_memory *m;
	struct tier t;
	uint64_t bytes;
	int failed = 0;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	CHECK_INT(put_run(&t, "w1", 1, 0), 0);
	for (int step = 0; step < 5; step++)
		for (int at = 1, hit = 1; hit; at++) {
			int rc = 0;

			m = NULL;
			scratch_starve(at, 0);
			if (step == 0)
				rc = epd_memory_open(&m, t.mem, uuid, t.store,
				    1, NULL);
			if (step == 1)
				rc = epd_memory_used(t.m, &bytes);
			if (step == 2)
				rc = epd_memory_fit(t.m, 1, NULL, NULL, &fit,
				    NULL);
			if (step == 3)
				rc = epd_memory_sweep(t.mem, NULL, NULL);
			if (step == 4)
				rc = epd_memory_look(&m, t.mem, uuid, t.store,
				    1, NULL);
			hit = scratch_mem.count >= at;
			scratch_starve(0, 0);
			epd_memory_close(m);
			CHECK(rc == 0 || rc == -ENOMEM);
			failed += rc != 0;
			CHECK(has_run(&t, "w1", 1));
		}
	CHECK(failed > 5);
	tier_close(&t);
}

TEST(no_folder_named_is_dev_shm_or_the_store)
{
	uint8_t own[16] = { 0xed };
	char name[40] = "epd-";
	struct epd_memory *m;
	struct tier t;
	int fd;

	CHECK_INT(tier_open(&t, 1 << 20), 0);
	for (int i = 0; i < 4; i++)
		own[4 + i] = (uint8_t)(getpid() >> 8 * i);
	epd_hex_format(name + 4, own, sizeof own);
	CHECK_INT(epd_memory_open(&m, "", own, t.store, 1, NULL), 0);
	fd = epd_memory_dir(m, "w1");
	CHECK(fd >= 0);
	close(fd);
	epd_memory_close(m);
	if (scratch_count(t.dir, "store"))
		CHECK_INT(faccessat(t.dir, "store/memory", F_OK, 0), 0);
	fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);
	if (fd >= 0) {
		CHECK_INT(epd_file_remove(fd, name), 0);
		close(fd);
	}
	tier_close(&t);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
