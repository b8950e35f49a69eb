/* tier_nvme - lots to a disk and back: what comes is what went, or it is a miss. */
#include <errno.h>
#include <sys/resource.h>

#include "tests/check.h"
#include "tier/nvme_in.h"
#include "tier_lots.h"

static const struct epd_run_shape shapes[] = {
	{ EPD_OBJECT_KV_PAGE, LOTS_BF16, 16, 4096 },
	{ EPD_OBJECT_KV_PAGE, LOTS_F32, 16, 12288 },
	{ EPD_OBJECT_KV_PAGE, LOTS_BF16, 16, 196608 },
	{ EPD_OBJECT_KV_PAGE, LOTS_F32, 1, 640 },
	{ EPD_OBJECT_KV_PAGE, LOTS_BF16, 64, 5120 },
	{ EPD_OBJECT_KV_PAGE, LOTS_F32, 16, 3 << 20 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void
there_and_back(const char *tmp, enum epd_packing packing, size_t askew)
{
	static const long counts[] = { 1, 2, 7, 65, 300 };
	struct disk d;
	uint64_t run = 1;

	CHECK_INT(disk_open_in(&d, tmp, packing, UINT64_MAX), 0);
	for (int s = 0; s < SHAPES; s++) {
		for (int c = 0; c < 5; c++) {
			const struct epd_run_shape *shape = shapes + s;
			const long n = counts[c];
			struct lots k;

			if (shape->bytes * (uint64_t)n > 64 << 20)
				continue;
			lots_make(&k, shape, "w1", run, 100 * run, n,
			    1 + (uint32_t)n % shape->tokens, askew);
			run++;
			k.lot.given = c & 1;
			CHECK_INT(disk_has(&d, &k), 0);
			CHECK_INT(disk_get(&d, &k), 0);
			CHECK_INT(disk_put(&d, &k), 0);
			CHECK_INT(disk_has(&d, &k), n);
			CHECK_INT(disk_get(&d, &k), n);
			CHECK_INT(disk_drop(&d, &k), 0);
			CHECK_INT(disk_get(&d, &k), 0);
			lots_free(&k);
		}
	}
	CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_ERRORS), 0);
	CHECK_INT(disk_files(&d), 0);
	disk_close(&d);
}

TEST(round_trip_raw)
{
	there_and_back(NULL, EPD_PACKING_NONE, 0);
}

TEST(round_trip_zstd)
{
	there_and_back(NULL, EPD_PACKING_ZSTD, 0);
}

TEST(round_trip_auto)
{
	there_and_back(NULL, EPD_PACKING_AUTO, 0);
}

TEST(round_trip_from_and_to_memory_that_is_askew)
{
	there_and_back(NULL, EPD_PACKING_NONE, 24);
	there_and_back(NULL, EPD_PACKING_ZSTD, 24);
}

TEST(round_trip_on_a_disk)
{
	there_and_back("/var/tmp", EPD_PACKING_NONE, 0);
	there_and_back("/var/tmp", EPD_PACKING_ZSTD, 8);
}

TEST(thousands_of_pages)
{
	struct disk d;
	struct lots k;

	CHECK_INT(disk_open(&d, EPD_PACKING_ZSTD), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 5000, 3, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 5000);
	/* Backwards, every other one. */
	for (long i = 0; i < 2500; i++) {
		struct epd_page_entry e = k.entry[i];
		const void *p = k.page[i];

		k.entry[i] = k.entry[4999 - i];
		k.page[i] = k.page[4999 - i];
		k.entry[4999 - i] = e;
		k.page[4999 - i] = p;
	}
	for (long i = 0; i < 5000; i += 2)
		k.out[i] = NULL;
	CHECK_INT(disk_get(&d, &k), 2500);
	lots_free(&k);
	disk_close(&d);
}

TEST(only_those_asked_for)
{
	struct disk d;
	struct lots k;

	CHECK_INT(disk_open(&d, EPD_PACKING_AUTO), 0);
	lots_make(&k, &shapes[1], "w1", 1, 0, 40, 16, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	for (long i = 0; i < 40; i++)
		if (i != 0 && i != 7 && i != 8 && i != 39)
			k.out[i] = NULL;
	CHECK_INT(disk_get(&d, &k), 4);
	CHECK(k.had[0] && k.had[7] && k.had[8] && k.had[39]);
	/* Nothing lands beside them. */
	for (size_t i = 0; i < k.stride; i++)
		CHECK_INT(k.back[k.stride + i], 0xa5);
	for (long i = 0; i < 40; i++)
		k.out[i] = NULL;
	CHECK_INT(disk_get(&d, &k), 0);
	lots_free(&k);
	disk_close(&d);
}

TEST(under_a_links_name_lies_a_part_with_a_pack_of_its_own)
{
	struct lots all, part, mixed;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&all, &lots_small, "w1", 1, 0, 20, 16, 0);
	lots_make(&part, &lots_small, "w2", 2, 5, 6, 16, 0);
	CHECK_INT(disk_put(&d, &all), 0);
	CHECK_INT(disk_get(&d, &part), 0);
	CHECK_INT(disk_put(&d, &part), 0);
	CHECK_INT(disk_drop(&d, &all), 0);
	CHECK_INT(disk_get(&d, &part), 6);
	/* Asked for more than is there, it gives what is. */
	lots_make(&mixed, &lots_small, "w2", 2, 8, 6, 16, 0);
	CHECK_INT(disk_has(&d, &mixed), 3);
	CHECK_INT(disk_get(&d, &mixed), 3);
	CHECK(mixed.had[0] && mixed.had[2] && !mixed.had[3]);
	lots_free(&all);
	lots_free(&part);
	lots_free(&mixed);
	disk_close(&d);
}

static uint64_t
inode(const struct disk *d, const char *workflow, uint64_t run)
{
	char path[200];
	struct stat st;

	return fstatat(d->dir, disk_path(path, workflow, run), &st,
	    AT_SYMLINK_NOFOLLOW) ? 0 : st.st_ino;
}

TEST(put_again_writes_nothing)
{
	struct lots k, part;
	struct disk d;
	uint64_t ino;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 20, 16, 0);
	lots_make(&part, &lots_small, "w1", 1, 3, 4, 16, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	ino = inode(&d, "w1", 1);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_put(&d, &part), 0);
	CHECK(inode(&d, "w1", 1) == ino);
	lots_free(&k);
	lots_free(&part);
	disk_close(&d);
}

TEST(other_pages_under_a_run_replace_none_that_would_be_lost)
{
	struct lots k, other, more;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 8, 16, 0);
	lots_make(&other, &lots_small, "w1", 1, 4, 8, 16, 0);
	lots_make(&more, &lots_small, "w1", 1, 0, 12, 16, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_put(&d, &other), -EEXIST);
	CHECK(strstr(d.why.text, "other pages"));
	CHECK_INT(disk_get(&d, &k), 8);
	CHECK_INT(disk_get(&d, &other), 4);
	/* One that has them all may. */
	CHECK_INT(disk_put(&d, &more), 0);
	CHECK_INT(disk_get(&d, &k), 8);
	CHECK_INT(disk_get(&d, &more), 12);
	CHECK_INT(disk_drop(&d, &k), 0);
	CHECK_INT(disk_put(&d, &other), 0);
	CHECK_INT(disk_get(&d, &other), 8);
	CHECK_INT(disk_get(&d, &k), 4);
	lots_free(&k);
	lots_free(&other);
	lots_free(&more);
	disk_close(&d);
}

/* Whoever asks has the pages, and is told; computed becomes given, and never back. */
TEST(what_was_given_is_told_whoever_asks)
{
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 4, 16, 0);
	for (int put = 0; put < 4; put++) {
		k.lot.given = put & 1;
		CHECK_INT(disk_put(&d, &k), 0);
		for (int asks = 0; asks < 2; asks++) {
			k.lot.given = asks;
			CHECK_INT(disk_has(&d, &k), 4);
			CHECK_INT(disk_get(&d, &k), 4);
			CHECK_INT(k.had[0], put ? EPD_HAD_GIVEN : EPD_HAD);
			CHECK_INT(k.had[3], put ? EPD_HAD_GIVEN : EPD_HAD);
		}
	}
	CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
	lots_free(&k);
	disk_close(&d);
}

/* The pack of one run in the place of another's, on purpose. */
static int
swapped(struct disk *d, const char *w, uint64_t run, const char *as_w,
    uint64_t as)
{
	char from[200], to[200];

	disk_path(from, w, run);
	disk_path(to, as_w, as);
	unlinkat(d->dir, to, 0);
	return linkat(d->dir, from, d->dir, to, 0);
}

TEST(kind17_of_a_pack_in_anothers_place_come_the_pages_asked_for_or_none)
{
	struct lots k, other, given;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 4, 16, 0);
	lots_make(&other, &lots_small, "w2", 1, 2, 4, 9, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_put(&d, &other), 0);
	/* Two of them are the same; of the two others there is nothing. */
	CHECK_INT(swapped(&d, "w1", 1, "w2", 1), 0);
	CHECK_INT(disk_has(&d, &other), 2);
	CHECK_INT(disk_get(&d, &other), 2);
	CHECK(other.had[0] && other.had[1]);
	/* Of the same name, but another sum or other rows. */
	other.entry[0].sum++;
	other.entry[1].rows--;
	CHECK_INT(disk_get(&d, &other), 0);
	/* Another sort of page. */
	lots_make(&given, &lots_small, "w1", 1, 0, 4, 16, 0);
	given.lot.shape.type = LOTS_F32;
	CHECK_INT(disk_get(&d, &given), 0);
	given.lot.shape = lots_small;
	given.lot.shape.tokens = 8;
	CHECK_INT(disk_get(&d, &given), 0);
	given.lot.shape = lots_small;
	CHECK_INT(disk_get(&d, &given), 4);
	/* What is of another sort makes way. */
	given.lot.shape.type = LOTS_F32;
	CHECK_INT(disk_put(&d, &given), 0);
	CHECK_INT(disk_get(&d, &given), 4);
	CHECK_INT(disk_get(&d, &k), 0);
	lots_free(&k);
	lots_free(&other);
	lots_free(&given);
	disk_close(&d);
}

static int
alias(struct disk *d, const struct lots *k, const struct lots *as)
{
	return epd_lower_ops(d->l)->alias(d->l, k->lot.workflow, k->lot.run,
	    as->lot.workflow, as->lot.run);
}

TEST(an_alias_is_the_same_bytes_counted_once_and_each_name_goes_alone)
{
	struct lots k, part, none;
	uint64_t one, used;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 20, 16, 0);
	lots_make(&part, &lots_small, "w2", 2, 5, 6, 16, 0);
	lots_make(&none, &lots_small, "w3", 3, 90, 6, 16, 0);
	CHECK_INT(alias(&d, &k, &part), -ENOENT);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(epd_memory_used(d.m, &one), 0);
	CHECK_INT(alias(&d, &k, &part), 0);
	CHECK_INT(alias(&d, &k, &part), 0);
	CHECK_INT(epd_memory_used(d.m, &used), 0);
	CHECK_INT(used, one);
	CHECK_INT(disk_get(&d, &part), 6);
	CHECK_INT(disk_put(&d, &part), 0);
	CHECK_INT(inode(&d, "w2", 2), inode(&d, "w1", 1));
	/* Another pack is not replaced by one. */
	CHECK_INT(disk_put(&d, &none), 0);
	CHECK_INT(alias(&d, &k, &none), -EEXIST);
	CHECK_INT(disk_get(&d, &none), 6);
	CHECK_INT(disk_drop(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 0);
	CHECK_INT(disk_get(&d, &part), 6);
	lots_free(&k);
	lots_free(&part);
	lots_free(&none);
	disk_close(&d);
}

TEST(kind18_ten_thousand_puts_and_drops_and_the_books_are_the_files)
{
	enum { RUNS = 24, TIMES = 10000 };
	struct lots k[RUNS];
	uint64_t used, x = 88172645463325252u;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_ZSTD), 0);
	for (unsigned i = 0; i < RUNS; i++)
		lots_make(&k[i], &shapes[i % 2], i % 3 ? "w1" : "w2", i + 1,
		    100 * i, 1 + (long)i % 5, 16, 0);
	for (int i = 0; i < TIMES; i++) {
		struct lots *one;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		one = k + x % RUNS;
		if (x >> 32 & 1)
			CHECK_INT(disk_put(&d, one), 0);
		else
			CHECK_INT(disk_drop(&d, one), 0);
		if (i % 97)
			continue;
		CHECK_INT(epd_memory_used(d.m, &used), 0);
		CHECK_INT(used, disk_files(&d));
	}
	for (int i = 0; i < RUNS; i++) {
		CHECK_INT(disk_drop(&d, &k[i]), 0);
		lots_free(&k[i]);
	}
	CHECK_INT(epd_memory_used(d.m, &used), 0);
	CHECK_INT(used, 0);
	CHECK_INT(disk_files(&d), 0);
	disk_close(&d);
}

TEST(kind23_the_one_used_longest_ago_makes_way_and_who_is_in_the_way_is_told)
{
	enum { RUNS = 12 };
	struct lots k[RUNS], large;
	struct epd_pack p;
	uint64_t used, each;
	struct disk d;
	int fd;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	for (unsigned i = 0; i < RUNS; i++)
		lots_make(&k[i], &lots_small, "w1", i + 1, 100 * i, 7, 16, 0);
	CHECK_INT(disk_put(&d, &k[0]), 0);
	CHECK_INT(epd_nvme_look(d.m, "w1", 1, &p, &each, NULL), 0);
	CHECK_STR(p.manifest, "{\"a\":1}");
	CHECK_STR(p.workflow, "w1");
	CHECK_INT(each, disk_files(&d));
	epd_pack_free(&p);
	CHECK_INT(disk_reopen(&d, EPD_PACKING_NONE, 4 * each), 0);
	for (int i = 1; i < RUNS; i++) {
		usleep(2000);
		CHECK_INT(disk_get(&d, &k[0]), 7);	/* a use */
		CHECK_INT(disk_put(&d, &k[i]), 0);
		CHECK_INT(epd_memory_used(d.m, &used), 0);
		CHECK(used <= 4 * each);
	}
	CHECK_INT(disk_has(&d, &k[0]), 7);
	CHECK_INT(disk_has(&d, &k[1]), 0);
	CHECK_INT(disk_has(&d, &k[RUNS - 1]), 7);
	CHECK_INT(disk_counted(&d, EPD_M_EVICT_RUNS), RUNS - 4);
	/* One that will never go in takes nobody's place. */
	lots_make(&large, &lots_small, "w1", 99, 9000, 64, 16, 0);
	CHECK_INT(disk_put(&d, &large), -ENOSPC);
	CHECK(strstr(d.why.text, "tier nvme: "));
	CHECK(strstr(d.why.text, " bytes"));
	CHECK_INT(disk_has(&d, &k[0]), 7);
	/* Nor does what another is still writing, which no eviction takes. */
	fd = openat(d.dir, LOTS_FOLDER "/w/w1/.tmp.0123456789abcdef",
	    O_RDWR | O_CREAT, 0600);
	CHECK_INT(posix_fallocate(fd, 0, (off_t)(4 * each)), 0);
	close(fd);
	CHECK_INT(disk_put(&d, &k[5]), -ENOSPC);
	CHECK(strstr(d.why.text, "in use"));
	for (int i = 0; i < RUNS; i++)
		lots_free(&k[i]);
	lots_free(&large);
	disk_close(&d);
}

TEST(auto_packs_where_the_disk_is_slow)
{
	struct epd_nvme *v;
	struct epd_pack p;
	uint64_t bytes;
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_AUTO), 0);
	v = (struct epd_nvme *)(void *)d.l;
	lots_make(&k, &shapes[2], "w1", 1, 0, 9, 16, 0);
	v->disk_ns = (uint64_t)1 << 40;
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK(v->zstd_ns && v->zstd_bytes < 1 << 20);
	CHECK_INT(epd_nvme_look(d.m, "w1", 1, &p, &bytes, NULL), 0);
	CHECK(bytes < 9 * 196608 * 15 / 16);
	epd_pack_free(&p);
	CHECK_INT(disk_get(&d, &k), 9);
	k.lot.run = 2;
	v->disk_ns = 1;
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(epd_nvme_look(d.m, "w1", 2, &p, &bytes, NULL), 0);
	CHECK(bytes > 9 * 196608);
	epd_pack_free(&p);
	CHECK_INT(disk_get(&d, &k), 9);
	lots_free(&k);
	disk_close(&d);
}

TEST(kind18_a_cap_holds_though_not_every_put_measures)
{
	uint64_t each, used;
	struct epd_pack p;
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 1, 16, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(epd_nvme_look(d.m, "w1", 1, &p, &each, NULL), 0);
	epd_pack_free(&p);
	CHECK_INT(disk_reopen(&d, EPD_PACKING_NONE, 300 * each), 0);
	for (k.lot.run = 2; k.lot.run < 700; k.lot.run++) {
		CHECK_INT(disk_put(&d, &k), 0);
		CHECK_INT(epd_memory_used(d.m, &used), 0);
		CHECK(used <= 300 * each);
		CHECK_INT(used, disk_files(&d));
		CHECK(k.lot.run < 300 || used > 290 * each);
	}
	lots_free(&k);
	disk_close(&d);
}

TEST(kind24_has_touches_no_time_and_starves_nothing)
{
	const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct epd_pack p;
	struct stat was, is;
	struct lots a, b, c;
	uint64_t bytes;
	char path[200];
	struct disk d;

	CHECK_INT(disk_open_in(&d, "/var/tmp", EPD_PACKING_NONE, 100 << 10), 0);
	lots_make(&a, &lots_small, "w1", 1, 0, 10, 16, 0);
	lots_make(&b, &lots_small, "w1", 2, 100, 10, 16, 0);
	lots_make(&c, &lots_small, "w1", 3, 200, 10, 16, 0);
	CHECK_INT(disk_put(&d, &a), 0);
	/* So old that any kernel would note that it is read. */
	disk_path(path, "w1", 1);
	CHECK_INT(utimensat(d.dir, path, old, 0), 0);
	CHECK_INT(disk_put(&d, &b), 0);
	CHECK_INT(fstatat(d.dir, path, &was, 0), 0);
	CHECK_INT(disk_has(&d, &a), 10);
	CHECK_INT(disk_put(&d, &a), 0);
	CHECK_INT(epd_nvme_look(d.m, "w1", 1, &p, &bytes, NULL), 0);
	epd_pack_free(&p);
	for (long i = 0; i < 10; i++)
		a.out[i] = NULL;
	CHECK_INT(disk_get(&d, &a), 0);		/* of nothing: no use either */
	CHECK_INT(fstatat(d.dir, path, &is, 0), 0);
	CHECK(!memcmp(&was.st_atim, &is.st_atim, sizeof is.st_atim));
	CHECK(!memcmp(&was.st_mtim, &is.st_mtim, sizeof is.st_mtim));
	CHECK(!memcmp(&was.st_ctim, &is.st_ctim, sizeof is.st_ctim));
	for (int i = 0; i < 100; i++)
		CHECK_INT(disk_has(&d, &a), 10);
	CHECK_INT(disk_put(&d, &c), 0);		/* a goes, however often looked at */
	CHECK_INT(disk_has(&d, &a), 0);
	CHECK_INT(disk_has(&d, &b), 10);
	lots_free(&a);
	lots_free(&b);
	lots_free(&c);
	disk_close(&d);
}

/* Out of files nobody knows what is there, and nothing is taken for absent. */
TEST(what_cannot_be_opened_is_not_taken_for_absent)
{
	struct rlimit was, none;
	struct lots a, b;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&a, &lots_small, "w1", 1, 0, 10, 16, 0);
	lots_make(&b, &lots_small, "w1", 1, 0, 4, 16, 0);
	CHECK_INT(disk_put(&d, &a), 0);
	getrlimit(RLIMIT_NOFILE, &was);
	none = was;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK_INT(disk_has(&d, &a), -EMFILE);
	CHECK_INT(disk_put(&d, &b), -EMFILE);
	setrlimit(RLIMIT_NOFILE, &was);
	CHECK_INT(disk_has(&d, &a), 10);
	/* What is there and is none is absent. */
	CHECK_INT(disk_drop(&d, &a), 0);
	CHECK_INT(disk_has(&d, &a), 0);
	lots_free(&a);
	lots_free(&b);
	disk_close(&d);
}

TEST(kind26_opened_again_what_is_there_is_there_and_never_anothers)
{
	struct lots k, other;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_ZSTD), 0);
	lots_make(&k, &shapes[2], "w1", 1, 0, 10, 16, 0);
	lots_make(&other, &shapes[2], "w1", 2, 50, 10, 16, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_reopen(&d, EPD_PACKING_NONE, UINT64_MAX), 0);
	CHECK_INT(disk_get(&d, &other), 0);
	CHECK_INT(disk_put(&d, &other), 0);
	CHECK_INT(disk_get(&d, &k), 10);
	CHECK_INT(disk_get(&d, &other), 10);
	lots_free(&k);
	lots_free(&other);
	disk_close(&d);
}

TEST(a_time_that_is_over_asks_nothing_and_leaves_nothing)
{
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 100, 16, 0);
	CHECK_INT(epd_lower_ops(d.l)->put(d.l, &k.lot, k.page, 1, &d.why),
	    EPD_ETIMEOUT);
	CHECK_INT(disk_files(&d), 0);
	CHECK_INT(disk_put(&d, &k), 0);
	lots_poison(&k);
	CHECK_INT(epd_lower_ops(d.l)->get(d.l, &k.lot, k.out, k.had, 1, &d.why),
	    EPD_ETIMEOUT);
	CHECK_INT(lots_had(&k), 0);
	lots_free(&k);
	disk_close(&d);
}

TEST(lots_that_cannot_be_are_refused)
{
	char name[80];
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 2, 16, 0);
	k.lot.n = 0;
	CHECK_INT(disk_put(&d, &k), EPD_EUSAGE);
	k.lot.n = 2;
	k.lot.workflow = "../w1";
	CHECK_INT(disk_put(&d, &k), -EINVAL);
	CHECK_INT(disk_get(&d, &k), 0);
	memset(name, 'w', sizeof name);
	name[64] = '\0';
	k.lot.workflow = name;
	CHECK_INT(disk_put(&d, &k), -ENAMETOOLONG);
	name[63] = '\0';
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 2);
	/* A manifest too large is left out, and is no reason to keep no pages. */
	k.lot.workflow = "w2";
	k.lot.manifest = (struct epd_span){ k.memory, EPD_PACK_MANIFEST + 1 };
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 2);
	lots_free(&k);
	disk_close(&d);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
