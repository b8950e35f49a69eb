/* tier_index - pages by name: put, found, pushed out, torn, lost, starved, killed. */
#include "fault.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "scratch.h"
#include "tests/check.h"
#include "tier/tier.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, 4096 };
static const uint8_t uuid[16] = { 0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    13, 14, 15 };
#define HEX "ab0102030405060708090a0b0c0d0e0f"
#define OURS "mem/epd-" HEX
#define PAGES OURS "/pages"
enum { CAP = 1 << 20, SETS = CAP / 65536 - 1, MOST = 8 };

struct tier {
	int dir;
	char store[300], mem[300];
	struct epd_memory *m;
	struct epd_index *x;
};

/* A store and, beside it, a place for memory folders; an index if asked. */
static int
tier_open(struct tier *t, uint64_t cap, int index)
{
	const char mark[] = "epd-store 1\nuuid " HEX "\n";
	struct epd_span part = epd_span(mark, sizeof mark - 1);
	int fd, rc;

	*t = (struct tier){ .dir = scratch_open() };
	snprintf(t->store, sizeof t->store, "%s/store", scratch_path);
	snprintf(t->mem, sizeof t->mem, "%s/mem", scratch_path);
	fd = epd_dir_make(t->dir, "store");
	if (fd < 0 || epd_file_replace(fd, "store", &part, 1, 0))
		return -1;
	close(fd);
	rc = epd_memory_open(&t->m, t->mem, uuid, t->store, cap, NULL);
	return rc || !index ? rc : epd_index_open(&t->x, t->m);
}

static void
tier_close(struct tier *t)
{
	epd_index_close(t->x);
	epd_memory_close(t->m);
	scratch_close(t->dir);
}

static int
again(struct tier *t)
{
	epd_index_close(t->x);
	t->x = NULL;
	return epd_index_open(&t->x, t->m);
}

static struct epd_name
name_of(uint64_t k)
{
	struct epd_name out;
	struct epd_namer n;

	epd_namer_begin(&n, "test");
	epd_namer_u64(&n, k);
	epd_namer_end(&n, &out);
	return out;
}

/* A run id that goes with the name. */
static uint64_t
get_run(const struct epd_name *name)
{
	uint64_t run;

	memcpy(&run, name->b + 8, 8);
	return run | 1;
}

/* Put page k alone, as page 0 of the run. */
static void
put(struct tier *t, uint64_t k, const char *workflow, uint64_t run)
{
	struct epd_page_entry e = { .name = name_of(k), .rows = 16 };

	epd_index_put(t->x, workflow, run, 16, &e, 1);
}

/* Whether page k is said to be there. */
static int
says(struct tier *t, uint64_t k, const char *workflow, uint64_t run,
    uint32_t at)
{
	struct epd_name name = name_of(k);
	struct epd_index_hit hit;

	return epd_index_find(t->x, &name, &hit) == 1 &&
	    !strcmp(hit.workflow, workflow) && hit.run == run && hit.at == at;
}

static int
misses(struct tier *t, uint64_t k)
{
	struct epd_name name = name_of(k);
	struct epd_index_hit hit = { .run = 77, .at = 7 };

	return epd_index_find(t->x, &name, &hit) == 0 && hit.run == 77 &&
	    hit.at == 7;
}

enum { GIVEN = 1, PARTIAL = 2 };

/* A run of pages k, k + 1, ...; the last part full if asked. */
static int
make_run(struct tier *t, const char *workflow, uint64_t id, uint64_t k, int n,
    int how)
{
	struct epd_page_entry e[MOST];
	struct epd_run *r;
	void *p;
	int dir = epd_memory_dir(t->m, workflow), rc;

	rc = dir < 0 ? dir : epd_run_new(&r, dir, &shape);
	if (rc)
		return rc;
	for (int i = 0; !rc && i < n; i++) {
		e[i] = (struct epd_page_entry){ .name = name_of(k +
		    (uint64_t)i), .rows = how & PARTIAL && i == n - 1 ? 3 : 16 };
		rc = epd_run_add(r, &p);
	}
	if (how & GIVEN)
		epd_run_given(r);
	if (!rc)
		rc = epd_run_publish(r, id, e, n);
	epd_run_close(r);
	close(dir);
	return rc;
}

static int
pages_fd(struct tier *t)
{
	return openat(t->dir, PAGES, O_RDWR | O_CLOEXEC, 0);
}

TEST(put_is_found_by_all_and_the_last_counts)
{
	struct epd_page_entry e[4];
	struct epd_index_hit hit;
	struct tier t, other;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	CHECK(misses(&t, 1));
	put(&t, 1, "w1", 100);
	CHECK(says(&t, 1, "w1", 100, 0));
	put(&t, 1, "w2", 200);
	CHECK(says(&t, 1, "w2", 200, 0));
	for (int i = 0; i < 4; i++)
		e[i] = (struct epd_page_entry){ name_of(10 + (uint64_t)i),
		    i == 2 ? 15 : 16, 5 };
	epd_index_put(t.x, "w1", 300, 16, e, 4);
	CHECK(says(&t, 10, "w1", 300, 0) && says(&t, 11, "w1", 300, 1));
	CHECK(misses(&t, 12) && says(&t, 13, "w1", 300, 3));
	/* What is no run, no page or no workflow is no hint. */
	put(&t, 20, "w1", 0);
	put(&t, 20, "", 5);
	put(&t, 20, "../w1", 5);
	put(&t, 20, "0123456789012345678901234567890123456789"
	    "012345678901234567890123", 5);
	epd_index_put(t.x, "w1", 5, 64, e, 4);
	epd_index_put(t.x, "w1", 5, 16, e, 0);
	CHECK(misses(&t, 20) && says(&t, 10, "w1", 300, 0));
	put(&t, 20, "012345678901234567890123456789012345678901234567890123"
	    "456789012", 5);
	CHECK(says(&t, 20, "01234567890123456789012345678901234567890123456"
	    "7890123456789012", 5, 0));
	/* Another process of the store sees the same, and so does a later one. */
	other = t;
	CHECK_INT(epd_index_open(&other.x, t.m), 0);
	CHECK(says(&other, 10, "w1", 300, 0));
	put(&other, 10, "w9", 900);
	CHECK(says(&t, 10, "w9", 900, 0));
	epd_index_close(other.x);
	CHECK_INT(again(&t), 0);
	CHECK(says(&t, 10, "w9", 900, 0) && says(&t, 1, "w2", 200, 0));
	/* None is one that knows nothing. */
	epd_index_close(NULL);
	epd_index_put(NULL, "w1", 5, 16, e, 4);
	CHECK_INT(epd_index_find(NULL, &e[0].name, &hit), 0);
	CHECK_INT(epd_index_rebuild(NULL), -EBADF);
	tier_close(&t);
}

TEST(a_name_has_two_hints)
{
	struct epd_name name = name_of(1);
	struct epd_index_hit hit = { .run = 0 };
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	put(&t, 1, "a", 5);
	put(&t, 1, "b", 6);
	put(&t, 1, "c", 7);
	CHECK(says(&t, 1, "c", 7, 0));
	/* The same again takes no second place. */
	put(&t, 1, "c", 7);
	CHECK_INT(epd_index_find(t.x, &name, &hit), 1);
	epd_index_forget(t.x, &name, &hit);
	CHECK(says(&t, 1, "b", 6, 0));
	/* What was forgotten is forgotten once. */
	epd_index_forget(t.x, &name, &hit);
	CHECK(says(&t, 1, "b", 6, 0));
	CHECK_INT(epd_index_find(t.x, &name, &hit), 1);
	epd_index_forget(t.x, &name, &hit);
	CHECK(misses(&t, 1));
	tier_close(&t);
}

TEST(kind03_a_name_counts_to_its_last_bit)
{
	struct epd_page_entry e = { .name = name_of(1), .rows = 16 };
	struct epd_index_hit hit;
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	epd_index_put(t.x, "w1", 1, 16, &e, 1);
	for (int bit = 0; bit < 8 * EPD_NAME; bit++) {
		struct epd_name x = e.name;

		x.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK_INT(epd_index_find(t.x, &x, &hit), 0);
	}
	/* Two that differ in the last bit stand side by side. */
	e.name.b[EPD_NAME - 1] ^= 0x80;
	epd_index_put(t.x, "w2", 2, 16, &e, 1);
	CHECK(says(&t, 1, "w1", 1, 0));
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
	CHECK_INT(hit.run, 2);
	tier_close(&t);
}

/* Names that all fall into set 0. */
static struct epd_page_entry
crowd(uint8_t k)
{
	struct epd_page_entry e = { .rows = 16 };

	e.name.b[EPD_NAME - 1] = k;
	return e;
}

TEST(a_full_set_forgets_the_oldest)
{
	struct epd_index_hit hit;
	struct epd_page_entry e;
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	for (uint8_t k = 1; k <= 8; k++) {
		e = crowd(k);
		epd_index_put(t.x, "w1", k, 16, &e, 1);
	}
	/* 1 is said again, so 2 is the oldest now, then 3. */
	e = crowd(1);
	epd_index_put(t.x, "w1", 101, 16, &e, 1);
	for (uint8_t k = 9; k <= 10; k++) {
		e = crowd(k);
		epd_index_put(t.x, "w1", k, 16, &e, 1);
	}
	for (uint8_t k = 1; k <= 10; k++) {
		e = crowd(k);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), k != 2 && k != 3);
		if (k != 2 && k != 3)
			CHECK_INT(hit.run, k == 1 ? 101 : k);
	}
	/* An age that cannot grow any more does not stop anything. */
	for (int round = 0; round < 100; round++) {
		e = crowd((uint8_t)(100 + round));
		epd_index_put(t.x, "w1", 5, 16, &e, 1);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
	}
	tier_close(&t);
}

TEST(kind20_a_torn_or_damaged_slot_is_a_miss)
{
	uint8_t was[128], half[128] = { 0 }, x;
	struct epd_page_entry e = crowd(1);
	struct epd_index_hit hit;
	struct tier t;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	epd_index_put(t.x, "w1", 0x1111, 16, &e, 1);
	fd = pages_fd(&t);
	CHECK(pread(fd, was, sizeof was, 1024) == sizeof was);
	for (int at = 0; at < 128; at++)
		for (int bit = 0; bit < 8; bit++) {
			x = was[at] ^ (uint8_t)(1 << bit);
			CHECK(pwrite(fd, &x, 1, 1024 + at) == 1);
			CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
			CHECK(pwrite(fd, was + at, 1, 1024 + at) == 1);
		}
	/* Torn between this and what the same slot says of another run. */
	hit.run = 0x1111;
	strcpy(hit.workflow, "w1");
	epd_index_forget(t.x, &e.name, &hit);
	epd_index_put(t.x, "w2", 0x2222, 16, &e, 1);
	CHECK(pread(fd, half, sizeof half, 1024) == sizeof half);
	for (int at = 33; at < 128; at++) {
		uint8_t torn[128];

		memcpy(torn, half, (size_t)at);
		memcpy(torn + at, was + at, (size_t)(128 - at));
		CHECK(pwrite(fd, torn, sizeof torn, 1024) == sizeof torn);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
	}
	/* A torn slot is free. */
	epd_index_put(t.x, "w3", 0x3333, 16, &e, 1);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
	CHECK_INT(hit.run, 0x3333);
	CHECK(pread(fd, half, 1, 1024) == 1);
	CHECK(!half[0]);
	close(fd);
	tier_close(&t);
}

/* A slot that says what no process of ours writes, its sum right. */
static void
forge(int fd, int at, const struct epd_page_entry *e, uint64_t run, uint64_t age,
    const char *workflow, size_t n)
{
	uint8_t slot[128] = { 0 };
	uint64_t sum;

	memcpy(slot, e->name.b, EPD_NAME);
	memcpy(slot + 56, workflow, n);
	for (int i = 0; i < 8; i++) {
		slot[32 + i] = (uint8_t)(run >> 8 * i);
		slot[48 + i] = (uint8_t)(age >> 8 * i);
	}
	sum = epd_xxh3_64(slot, 120);
	for (int i = 0; i < 8; i++)
		slot[120 + i] = (uint8_t)(sum >> 8 * i);
	CHECK(pwrite(fd, slot, sizeof slot, 1024 + at * 128) == sizeof slot);
}

/* A slot that says there is none younger does not stay the one that is found. */
TEST(an_age_that_nothing_is_above)
{
	struct epd_page_entry e = crowd(1);
	struct epd_index_hit hit;
	struct tier t;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	fd = pages_fd(&t);
	for (uint64_t below = 0; below < 3; below++) {
		forge(fd, 0, &e, 5, UINT64_MAX - below, "w1", 3);
		for (uint64_t run = 6; run < 11; run++) {
			epd_index_put(t.x, "w1", run, 16, &e, 1);
			CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
			CHECK_INT(hit.run, run);
		}
	}
	close(fd);
	tier_close(&t);
}

TEST(what_no_writer_of_ours_leaves_behind)
{
	static const char long_one[64] = "0123456789012345678901234567890123456"
	    "789012345678901234567890123";
	struct epd_page_entry e = crowd(1);
	struct epd_index_hit hit;
	struct tier t;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	fd = pages_fd(&t);
	forge(fd, 0, &e, 5, 1, "w1", 3);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
	CHECK_STR(hit.workflow, "w1");
	forge(fd, 0, &e, 0, 1, "w1", 3);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
	forge(fd, 0, &e, 5, 1, "../w1", 6);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
	forge(fd, 0, &e, 5, 1, "", 1);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
	forge(fd, 0, &e, 5, 1, long_one, sizeof long_one);
	CHECK_INT(epd_index_find(t.x, &e.name, &hit), 0);
	/* Two writers that met may have left a name twice. */
	for (int last = 0; last < 2; last++) {
		forge(fd, 0, &e, 50, last ? 1 : 2, "w1", 3);
		forge(fd, 3, &e, 53, last ? 2 : 1, "w1", 3);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
		CHECK_INT(hit.run, last ? 53 : 50);
		epd_index_put(t.x, "w1", 60, 16, &e, 1);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
		CHECK_INT(hit.run, 60);
	}
	/* The highest age there is does not keep others out. */
	forge(fd, 0, &e, 5, UINT64_MAX, "w1", 3);
	for (uint8_t k = 2; k < 30; k++) {
		e = crowd(k);
		epd_index_put(t.x, "w1", k, 16, &e, 1);
		CHECK_INT(epd_index_find(t.x, &e.name, &hit), 1);
		CHECK_INT(hit.run, k);
	}
	close(fd);
	tier_close(&t);
}

/* Two runs, of pages 1 to 3 and 11 to 12; what they say is in the index. */
static int
two_runs(struct tier *t)
{
	int rc = make_run(t, "w1", 100, 1, 3, 0);

	return rc ? rc : make_run(t, "w2", 200, 11, 2, 0);
}

static int
says_two(struct tier *t)
{
	return says(t, 1, "w1", 100, 0) && says(t, 3, "w1", 100, 2) &&
	    says(t, 11, "w2", 200, 0) && says(t, 12, "w2", 200, 1);
}

/* The file is whole and the only one; n is what the folder holds. */
static int
tidy(struct tier *t)
{
	struct stat st;
	int fd = openat(t->dir, OURS, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int n = scratch_count(fd, "w"), rc = fstatat(fd, "pages", &st, 0);

	close(fd);
	return !rc && n == 2 && st.st_size == (SETS + 1) * 1024;
}

TEST(kind26_a_lost_index_is_made_again_from_the_runs)
{
	struct tier t;
	int a, b;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(make_run(&t, "w2", 201, 21, 4, PARTIAL), 0);
	CHECK_INT(make_run(&t, "w2", 202, 31, 2, GIVEN), 0);
	CHECK_INT(make_run(&t, "w3", 300, 41, 2, 0), 0);
	/* Known by its link alone. */
	a = epd_memory_find(t.m, "w3");
	b = epd_memory_dir(t.m, "w4");
	CHECK_INT(epd_run_link(a, 300, b, 301), 0);
	CHECK_INT(epd_run_free(a, 300), 0);
	/* What is no run, or a damaged one, stands in nobody's way. */
	CHECK_INT(symlinkat("/nowhere", a, "0000000000000001"), 0);
	CHECK_INT(mkfifoat(a, "0000000000000002", 0600), 0);
	CHECK_INT(close(openat(a, "0000000000000003", O_CREAT | O_RDWR |
	    O_CLOEXEC, 0600)), 0);
	for (int round = 0; round < 3; round++) {
		if (round < 2)
			CHECK_INT(again(&t), 0);
		else
			CHECK_INT(epd_index_rebuild(t.x), 10);
		CHECK(says_two(&t) && says(&t, 21, "w2", 201, 0) &&
		    says(&t, 23, "w2", 201, 2));
		CHECK(misses(&t, 24) && misses(&t, 31) && misses(&t, 32));
		CHECK(says(&t, 41, "w4", 301, 0) && says(&t, 42, "w4", 301, 1));
		CHECK(misses(&t, 99) && tidy(&t));
		put(&t, 99, "w1", 9);
		CHECK(says(&t, 99, "w1", 9, 0));
		if (round == 0)
			CHECK_INT(unlinkat(t.dir, PAGES, 0), 0);
	}
	close(a);
	close(b);
	tier_close(&t);
}

TEST(a_damaged_file_is_replaced)
{
	struct epd_memory *look;
	struct epd_index *x = NULL;
	struct tier t;
	uint8_t was, flipped;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(epd_memory_look(&look, t.mem, uuid, t.store, CAP, NULL), 0);
	for (int at = 0; at < 1024; at += at < 84 || at > 1016 ? 1 : 31) {
		fd = pages_fd(&t);
		CHECK(pread(fd, &was, 1, at) == 1);
		flipped = was ^ (uint8_t)(1 << at % 8);
		CHECK(pwrite(fd, &flipped, 1, at) == 1);
		close(fd);
		CHECK_INT(epd_index_open(&x, look), EPD_ECORRUPT);
		CHECK(!x);
		CHECK_INT(again(&t), 0);
		CHECK(says_two(&t) && tidy(&t));
	}
	for (int n = (SETS + 1) * 1024 + 1; n >= 0; n -= n > 1100 ? 1024 : 101) {
		fd = pages_fd(&t);
		CHECK_INT(ftruncate(fd, n), 0);
		close(fd);
		CHECK_INT(epd_index_open(&x, look), EPD_ECORRUPT);
		CHECK_INT(again(&t), 0);
		CHECK(says_two(&t) && tidy(&t));
	}
	/* Things that are no file at all. */
	for (int what = 0; what < 4; what++) {
		CHECK_INT(unlinkat(t.dir, PAGES, 0), 0);
		if (what == 0)
			CHECK_INT(mkfifoat(t.dir, PAGES, 0600), 0);
		if (what == 1)
			CHECK_INT(symlinkat("store", t.dir, PAGES), 0);
		if (what >= 2)
			CHECK_INT(mkdirat(t.dir, PAGES, 0700), 0);
		if (what == 3)
			CHECK_INT(mkdirat(t.dir, PAGES "/x", 0700), 0);
		CHECK(epd_index_open(&x, look) < 0 && !x);
		CHECK_INT(again(&t), 0);
		CHECK(says_two(&t) && tidy(&t));
	}
	epd_memory_close(look);
	tier_close(&t);
}

TEST(kind17_the_index_of_another_store_is_not_taken)
{
	const uint8_t their_uuid[16] = { 0xcd };
	struct epd_buf b = { 0 };
	struct epd_span part;
	struct tier t, u;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	u = t;
	CHECK_INT(epd_memory_open(&u.m, t.mem, their_uuid, t.store, CAP, NULL),
	    0);
	u.x = NULL;
	CHECK_INT(again(&u), 0);
	put(&t, 7, "w1", 1);
	CHECK(misses(&u, 7));
	/* Whole and of the right size, but it speaks of other runs. */
	CHECK_INT(epd_file_read(t.dir, PAGES, 1 << 20, &b), 0);
	fd = openat(t.dir, "mem/epd-cd000000000000000000000000000000",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	part = epd_span(b.p, b.n);
	CHECK_INT(epd_file_replace(fd, "pages", &part, 1, 0), 0);
	close(fd);
	epd_buf_free(&b);
	CHECK_INT(again(&u), 0);
	CHECK(misses(&u, 7) && says(&t, 7, "w1", 1, 0));
	epd_index_close(u.x);
	epd_memory_close(u.m);
	tier_close(&t);
}

TEST(its_size_goes_with_the_cap)
{
	static const struct { uint64_t cap, slots; } at[] = {
		{ 1, 24 }, { CAP, SETS * 8 }, { 16 << 20, 255 * 8 },
		{ 64 << 20, 4096 }, { 128 << 20, 8192 },
		{ (uint64_t)4 << 30, 262144 }, { (uint64_t)1 << 40, 524288 },
		{ UINT64_MAX, 524288 } };
	struct epd_memory *look;
	struct epd_index *x;
	struct stat st;
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(epd_memory_look(&look, t.mem, uuid, t.store, CAP, NULL), 0);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		struct tier u = t;

		CHECK_INT(epd_memory_open(&u.m, t.mem, uuid, t.store, at[i].cap,
		    NULL), 0);
		u.x = NULL;
		CHECK_INT(again(&u), 0);
		CHECK(says_two(&u));
		CHECK_INT(fstatat(t.dir, PAGES, &st, 0), 0);
		CHECK_INT(st.st_size, 1024 + at[i].slots * 128);
		CHECK(at[i].cap < CAP || (uint64_t)st.st_size <= at[i].cap / 64);
		/* Holes are no bytes, whatever a file system adds. */
		CHECK(epd_index_bytes(t.m) <= 1 << 16);
		/* Who only looks takes any. */
		CHECK_INT(epd_index_open(&x, look), 0);
		epd_index_close(x);
		epd_index_close(u.x);
		epd_memory_close(u.m);
	}
	epd_memory_close(look);
	tier_close(&t);
}

TEST(looking_makes_and_writes_nothing)
{
	struct epd_memory *look;
	struct epd_buf before = { 0 }, after = { 0 };
	struct tier t, u;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(epd_memory_look(&look, t.mem, uuid, t.store, CAP, NULL), 0);
	u = (struct tier){ .m = look };
	CHECK_INT(epd_index_open(&u.x, look), -ENOENT);
	CHECK(!u.x && faccessat(t.dir, PAGES, F_OK, 0) < 0);
	CHECK_INT(again(&t), 0);
	CHECK_INT(epd_index_open(&u.x, look), 0);
	CHECK(says_two(&u));
	CHECK_INT(epd_file_read(t.dir, PAGES, 1 << 20, &before), 0);
	put(&u, 1, "w9", 9);
	CHECK_INT(epd_index_rebuild(u.x), -EBADF);
	CHECK_INT(epd_file_read(t.dir, PAGES, 1 << 20, &after), 0);
	CHECK(before.n == after.n && !memcmp(before.p, after.p, after.n));
	CHECK(says_two(&u));
	epd_buf_free(&before);
	epd_buf_free(&after);
	epd_index_close(u.x);
	epd_memory_close(look);
	/* No folder at all. */
	CHECK_INT(epd_file_remove(t.dir, "mem"), 0);
	CHECK_INT(epd_memory_look(&look, t.mem, uuid, t.store, CAP, NULL), 0);
	CHECK_INT(epd_index_open(&u.x, look), -ENOENT);
	CHECK_INT(epd_index_bytes(look), 0);
	CHECK(faccessat(t.dir, "mem", F_OK, 0) < 0);
	epd_memory_close(look);
	tier_close(&t);
}

static int64_t
times(struct tier *t, const char *path)
{
	struct stat st;

	if (fstatat(t->dir, path, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	return (st.st_atim.tv_sec + st.st_mtim.tv_sec) * 1000000000 +
	    st.st_atim.tv_nsec + st.st_mtim.tv_nsec;
}

TEST(kind24_a_probe_renews_nothing)
{
	static const char *const path[] = { OURS "/w/w1/0000000000000064",
	    OURS "/w/w2/00000000000000c8", PAGES, OURS "/w/w1", OURS };
	enum { N = sizeof path / sizeof *path };
	const struct timespec old[2] = { { 5, 0 }, { 6, 0 } };
	int64_t was[N];
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	/* Nor is being put in, by who made the run or by who makes the index. */
	for (int i = 0; i < 2; i++)
		CHECK_INT(utimensat(t.dir, path[i], old, 0), 0);
	CHECK_INT(again(&t), 0);
	put(&t, 1, "w1", 100);
	for (int i = 0; i < 2; i++)
		CHECK(times(&t, path[i]) == (int64_t)11000000000);
	for (int i = 0; i < N; i++) {
		CHECK_INT(utimensat(t.dir, path[i], old, 0), 0);
		was[i] = times(&t, path[i]);
	}
	CHECK(says_two(&t) && misses(&t, 50));
	CHECK_INT(again(&t), 0);
	CHECK(says_two(&t) && misses(&t, 50));
	for (int i = 0; i < N - 2; i++)
		CHECK(times(&t, path[i]) == was[i]);
	tier_close(&t);
}

/* ---- others, and what they do to the file ---- */

enum { PUTTERS = 4, EACH = 4000 };

TEST(putting_at_once_gives_right_hints_or_none)
{
	struct tier t;
	pid_t pid[PUTTERS];
	int found = 0;

	CHECK_INT(tier_open(&t, 64 << 20, 1), 0);
	for (int p = 0; p < PUTTERS; p++) {
		pid[p] = fork();
		if (pid[p])
			continue;
		/* Half of all names by everybody, so that slots are fought for. */
		for (uint64_t k = 0; k < EACH; k++) {
			struct epd_name name = name_of(k % 2 ? k : k * 10 +
			    (uint64_t)p);
			struct epd_page_entry e = { name, 16, 0 };
			struct epd_index_hit hit;

			epd_index_put(t.x, "w1", get_run(&name), 16, &e, 1);
			if (epd_index_find(t.x, &name, &hit) &&
			    (hit.run != get_run(&name) || hit.at ||
			    strcmp(hit.workflow, "w1")))
				_exit(1);
		}
		_exit(0);
	}
	for (int p = 0; p < PUTTERS; p++)
		CHECK_INT(scratch_wait(pid[p]), 0);
	for (uint64_t k = 1; k < EACH; k += 2) {
		struct epd_name name = name_of(k);
		struct epd_index_hit hit;

		if (!epd_index_find(t.x, &name, &hit))
			continue;
		CHECK(hit.run == get_run(&name));
		found++;
	}
	/* 10,000 names on 4,096 slots: most of the last ones are there. */
	CHECK(found > EACH / 16);
	tier_close(&t);
}

TEST(a_file_lost_or_cut_under_us_is_a_miss_then_made_anew)
{
	struct tier t, u;
	int fd;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	CHECK_INT(two_runs(&t), 0);
	for (int how = 0; how < 3; how++) {
		CHECK_INT(epd_index_rebuild(t.x), 5);
		CHECK(says_two(&t));
		fd = pages_fd(&t);
		if (how == 0)
			CHECK_INT(ftruncate(fd, 0), 0);
		if (how == 1)
			CHECK_INT(ftruncate(fd, 1500), 0);
		if (how == 2)
			CHECK_INT(unlinkat(t.dir, PAGES, 0), 0);
		close(fd);
		CHECK(how == 2 || misses(&t, 1) || misses(&t, 11));
		put(&t, 77, "w7", 7);
		CHECK(says_two(&t) && says(&t, 77, "w7", 7, 0) && tidy(&t));
	}
	/* Another made a new one meanwhile: that is taken. */
	u = t;
	u.x = NULL;
	CHECK_INT(again(&u), 0);
	CHECK_INT(epd_index_rebuild(u.x), 5);
	put(&u, 88, "w8", 8);
	CHECK(misses(&t, 88) && misses(&u, 77));
	put(&t, 99, "w9", 9);
	CHECK(says(&t, 88, "w8", 8, 0) && says(&u, 99, "w9", 9, 0));
	epd_index_close(u.x);
	tier_close(&t);
}

TEST(a_folder_swept_away_is_begun_anew)
{
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 1), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(epd_file_remove(t.dir, OURS), 0);
	put(&t, 1, "w1", 5);
	CHECK(faccessat(t.dir, OURS, F_OK, 0) < 0);
	CHECK_INT(make_run(&t, "w1", 6, 31, 1, 0), 0);
	put(&t, 1, "w1", 5);
	CHECK(says(&t, 1, "w1", 5, 0) && says(&t, 31, "w1", 6, 0) && tidy(&t));
	CHECK(misses(&t, 11));
	tier_close(&t);
}

/* ---- accounting ---- */

TEST(used_and_fit_agree_and_the_index_stays)
{
	struct epd_memory_fit fit;
	struct epd_why why = { "" };
	uint64_t used = 0, bytes, swept = 0;
	struct tier t;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	CHECK_INT(epd_index_bytes(t.m), 0);
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(again(&t), 0);
	for (uint64_t k = 100; k < 1000; k++)
		put(&t, k, "w1", k);
	bytes = epd_index_bytes(t.m);
	CHECK_INT(bytes, (SETS + 1) * 1024);
	CHECK_INT(epd_memory_used(t.m, &swept), 0);
	CHECK_INT(swept, used + bytes);
	CHECK_INT(epd_memory_fit(t.m, CAP - used - bytes, NULL, NULL, &fit,
	    &why), 0);
	CHECK(fit.runs == 0 && fit.over == 0 && fit.used == used + bytes);
	CHECK_INT(epd_memory_fit(t.m, CAP - used - bytes + 1, NULL, NULL, &fit,
	    &why), 0);
	CHECK(fit.runs == 1 && fit.over == 0);
	CHECK_INT(epd_memory_fit(t.m, CAP, NULL, NULL, &fit, &why), 0);
	CHECK(fit.used == bytes && fit.over == bytes && fit.runs == 1);
	CHECK(strstr(why.text, "and the index's 16384 are more than"));
	CHECK_INT(epd_memory_used(t.m, &used), 0);
	CHECK_INT(used, bytes);
	CHECK(says(&t, 999, "w1", 999, 0));
	/* It goes with the folder, and counts there. */
	CHECK_INT(epd_file_remove(t.dir, "store"), 0);
	CHECK_INT(epd_memory_sweep(t.mem, &swept, NULL), 1);
	CHECK_INT(swept, bytes);
	CHECK_INT(scratch_count(t.dir, NULL), 0);
	tier_close(&t);
}

/* ---- full, failing, starved, killed ---- */

static int
full_tmpfs(int kib)
{
	struct tier t;
	char opt[32];
	struct statfs fs;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL,
	    MS_REC | MS_PRIVATE, NULL))
		return 77;
	if (!getenv("TMPDIR"))
		setenv("TMPDIR", "/dev/shm", 1);
	snprintf(opt, sizeof opt, "size=%dk", kib);
	if (mount("tmpfs", getenv("TMPDIR"), "tmpfs", 0, opt))
		return 77;
	if (tier_open(&t, (uint64_t)1 << 30, 0))
		return 0;
	if (make_run(&t, "w1", 100, 1, 3, 0))
		return 0;
	for (int round = 0; round < 3; round++) {
		int rc = again(&t);

		if (rc && rc != -ENOSPC)
			return 1;
		if (rc)
			continue;
		for (uint64_t k = 10; k < 2000; k++) {
			put(&t, k, "w1", k);
			if (!says(&t, k, "w1", k, 0) && !misses(&t, k))
				return 2;
		}
		if (!says(&t, 3, "w1", 100, 2) && !misses(&t, 3))
			return 3;
		if (statfs(t.mem, &fs) || (kib < 4096 && fs.f_bfree))
			return 4;
		rc = (int)epd_index_rebuild(t.x);
		if (rc != 3 && rc != -ENOSPC)
			return 5;
	}
	epd_index_close(t.x);
	epd_memory_close(t.m);
	return scratch_count(t.dir, "pages") == 3 ? 0 : 6;
}

TEST(a_full_tmpfs_is_enospc_and_no_fault)
{
	int skipped = 0;

	for (int kib = 24; kib <= 120 && !skipped; kib += 4) {
		pid_t pid = fork();
		int rc;

		if (!pid)
			_exit(full_tmpfs(kib));
		rc = scratch_wait(pid);
		skipped = rc == 77;
		if (rc && !skipped)
			CHECK_FAIL("tmpfs of %d KiB: %d", kib, rc);
	}
	if (skipped)
		SKIP("cannot mount a tmpfs");
}

TEST(kind16_every_allocation_and_call_fails)
{
	static const int err[] = { ENOSPC, EIO, EMFILE };
	struct tier t;
	int failed = 0;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	for (int kind = 0; kind < 4; kind++)
		for (int how = 0; how <= FAULT_ON; how++)
			for (int at = 1, hit = 1; hit; at++) {
				int rc, want = kind == 3 ? -ENOMEM : -err[kind];

				unlinkat(t.dir, PAGES, 0);
				if (kind == 3)
					scratch_starve(at, how);
				else
					fault_arm(at, err[kind], how);
				rc = again(&t);
				if (!rc)
					put(&t, 7, "w1", 1);
				hit = kind == 3 ? scratch_mem.count >= at :
				    fault_calls() >= at;
				scratch_starve(0, 0);
				CHECK(rc == 0 || rc == want);
				CHECK(!rc || !t.x);
				failed += rc != 0;
				/* What says anything says it right. */
				if (!rc)
					CHECK(says(&t, 7, "w1", 1, 0) ||
					    misses(&t, 7));
				CHECK_INT(again(&t), 0);
				CHECK(says(&t, 1, "w1", 100, 0) ||
				    misses(&t, 1));
			}
	CHECK(failed > 20);
	CHECK_INT(epd_index_rebuild(t.x), 5);
	CHECK(says_two(&t));
	tier_close(&t);
}

TEST(kind31_killed_at_every_call_it_leaves_nothing_for_good)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 100000, 1 };
	struct tier t;
	int rc = -SIGKILL, killed = 0;

	CHECK_INT(tier_open(&t, CAP, 0), 0);
	CHECK_INT(two_runs(&t), 0);
	for (int at = 1; rc == -SIGKILL; at++, killed++) {
		pid_t pid;

		CHECK(at < 200);
		unlinkat(t.dir, PAGES, 0);
		pid = fork();
		if (!pid) {
			fault_arm(at, 0, FAULT_KILL);
			if (again(&t))
				_exit(1);
			put(&t, 7, "w1", 1);
			_exit(0);
		}
		rc = scratch_wait(pid);
		CHECK(rc == -SIGKILL || rc == 0);
		CHECK_INT(again(&t), 0);
		CHECK(says_two(&t) && (says(&t, 7, "w1", 1, 0) ||
		    misses(&t, 7)));
		epd_clock_fake(&later);
		CHECK_INT(epd_memory_sweep(t.mem, NULL, NULL), 0);
		epd_clock_fake(NULL);
		CHECK(tidy(&t));
	}
	CHECK(killed > 10);
	tier_close(&t);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
