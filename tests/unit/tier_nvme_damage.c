/* tier_nvme_damage - packs that are not what was written, and what is no pack at all. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/check.h"
#include "tier_lots.h"

static const struct epd_run_shape tiny = { EPD_OBJECT_KV_PAGE, LOTS_F32, 16,
    8192 };

/* The pack of a lot as bytes. */
static int
take(const struct disk *d, struct epd_buf *out)
{
	char path[200];

	return epd_file_read(d->dir, disk_path(path, "w1", 1), 1 << 20, out);
}

/* Another file with the first n bytes of p in its place. */
static int
lay(const struct disk *d, const uint8_t *p, size_t n)
{
	char path[200];
	int fd;

	unlinkat(d->dir, disk_path(path, "w1", 1), 0);
	fd = openat(d->dir, path, O_WRONLY | O_CREAT | O_EXCL, 0400);
	if (fd < 0 || epd_file_pwrite(fd, p, n, 0))
		return -1;
	return close(fd);
}

static mode_t
mode(const struct disk *d)
{
	char path[200];
	struct stat st;

	return fstatat(d->dir, disk_path(path, "w1", 1), &st,
	    AT_SYMLINK_NOFOLLOW) ? 0 : st.st_mode & 07777;
}

static void
each_byte(enum epd_packing packing)
{
	long all = 0, some = 0, none = 0;
	struct epd_buf b = { 0 };
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, packing), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(take(&d, &b), 0);
	for (size_t i = 0; i < b.n; i++) {
		/* Of pages a byte in seven. */
		if (i > 4096 && i % 7)
			continue;
		b.p[i] ^= (uint8_t)(1 << i % 8);
		CHECK_INT(lay(&d, b.p, b.n), 0);
		const long n = disk_get(&d, &k);

		CHECK(n >= 0 && n <= 3 && n != 1);
		all += n == 3;
		some += n == 2;
		none += n == 0;
		CHECK_INT(mode(&d), n == 2 ? 0500 : 0400);
		/* Every byte of the front counts. */
		CHECK(n == 0 || i >= 4096);
		CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), some + none);
		CHECK(disk_has(&d, &k) == (n ? 3 : 0));
		if (i % 16 == 0 && n < 3) {
			CHECK_INT(disk_put(&d, &k), 0);
			CHECK_INT(disk_get(&d, &k), 3);
			CHECK_INT(mode(&d), 0400);
		}
		b.p[i] ^= (uint8_t)(1 << i % 8);
	}
	CHECK_INT(none, 4096);
	CHECK(some > 1000);
	CHECK(packing == EPD_PACKING_ZSTD ? all > 0 : !all);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_ERRORS), 0);
	epd_buf_free(&b);
	lots_free(&k);
	disk_close(&d);
}

TEST(every_byte_damaged_is_a_miss_or_the_right_bytes)
{
	each_byte(EPD_PACKING_NONE);
	each_byte(EPD_PACKING_ZSTD);
}

TEST(cut_at_every_length_it_is_a_miss)
{
	struct epd_buf b = { 0 };
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(take(&d, &b), 0);
	for (size_t n = 0; n < b.n; n += n < 4200 ? 1 : 97) {
		CHECK_INT(lay(&d, b.p, n), 0);
		CHECK_INT(disk_get(&d, &k), 0);
		CHECK_INT(disk_has(&d, &k), 0);
	}
	/* And one that goes on. */
	memset(epd_buf_add(&b, 4096), 0, 4096);
	CHECK_INT(lay(&d, b.p, b.n), 0);
	CHECK_INT(disk_get(&d, &k), 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 3);
	epd_buf_free(&b);
	lots_free(&k);
	disk_close(&d);
}

/* The power went: blocks that were written and not flushed read as zeros, in any mix. */
TEST(kind34_blocks_whose_writes_were_lost_are_misses)
{
	struct epd_buf b = { 0 }, torn = { 0 };
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(take(&d, &b), 0);
	const size_t blocks = (b.n + 4095) / 4096;
	CHECK(blocks >= 7 && blocks < 16);
	for (unsigned lost = 1; lost < 1u << blocks; lost++) {
		long whole = 0;

		torn.n = 0;
		epd_buf_put(&torn, b.p, b.n);
		for (size_t i = 0; i < blocks; i++)
			if (lost >> i & 1)
				memset(torn.p + 4096 * i, 0, b.n - 4096 * i <
				    4096 ? b.n - 4096 * i : 4096);
		/* Pages are of two blocks each, behind a front of one. */
		for (int i = 0; i < 3 && !(lost & 1); i++)
			whole += !(lost >> (1 + 2 * i) & 3);
		CHECK_INT(lay(&d, torn.p, torn.n), 0);
		/* Nor is one of them wrong: disk_get looks at each. */
		CHECK(disk_get(&d, &k) >= whole);
	}
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 3);
	epd_buf_free(&b);
	epd_buf_free(&torn);
	lots_free(&k);
	disk_close(&d);
}

TEST(cut_while_it_is_read_it_is_a_miss)
{
	struct epd_buf b = { 0 };
	struct lots k;
	struct disk d;
	char path[200];
	pid_t pid;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 900, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(epd_file_read(d.dir, disk_path(path, "w1", 1), 8 << 20, &b), 0);
	CHECK_INT(lay(&d, b.p, b.n), 0);
	pid = fork();
	if (!pid) {
		const int fd = openat(d.dir, path, O_RDWR);

		for (;;)
			if (ftruncate(fd, 300 * 4096) ||
			    epd_file_pwrite(fd, b.p + 300 * 4096,
			    b.n - 300 * 4096, 300 * 4096))
				_exit(1);
	}
	for (int i = 0; i < 300; i++)
		CHECK(disk_get(&d, &k) >= 0);	/* and none of it lies */
	kill(pid, SIGKILL);
	CHECK_INT(scratch_wait(pid), -SIGKILL);
	epd_buf_free(&b);
	lots_free(&k);
	disk_close(&d);
}

enum { LINK, DANGLING, FIFO, FOLDER, FULL_FOLDER, SOCKET, EMPTY, STRANGE };

/* Something that is no pack in the place of one. */
static int
stand(const struct disk *d, int what, const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char at[300];
	int fd, rc;

	switch (what) {
	case LINK:	/* to a good one */
		return symlinkat("0000000000000002", d->dir, path);
	case DANGLING:
		return symlinkat("nowhere", d->dir, path);
	case FIFO:
		return mkfifoat(d->dir, path, 0600);
	case FOLDER:
		return mkdirat(d->dir, path, 0700);
	case FULL_FOLDER:
		snprintf(at, sizeof at, "%s/a", path);
		return mkdirat(d->dir, path, 0700) ? -1 :
		    mkdirat(d->dir, at, 0700);
	case SOCKET:
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/s",
		    d->dir);
		rc = bind(fd, (struct sockaddr *)&a, sizeof a);
		close(fd);
		return rc ? rc : renameat(d->dir, "s", d->dir, path);
	default:
		fd = openat(d->dir, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		return fd < 0 ? -1 : close(fd);
	}
}

TEST(what_stands_in_a_packs_place_is_a_miss_and_makes_way)
{
	struct lots k, good;
	struct disk d;
	char path[200];

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	lots_make(&good, &tiny, "w1", 2, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &good), 0);
	disk_path(path, "w1", 1);
	for (int what = 0; what < STRANGE; what++) {
		CHECK_INT(stand(&d, what, path), 0);
		CHECK_INT(disk_has(&d, &k), 0);
		CHECK_INT(disk_get(&d, &k), 0);
		CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), what + 1);
		CHECK_INT(disk_put(&d, &k), 0);
		CHECK_INT(disk_get(&d, &k), 3);
		CHECK_INT(disk_get(&d, &good), 3);
		CHECK_INT(disk_drop(&d, &k), 0);
		/* Or it is dropped as it is. */
		CHECK_INT(stand(&d, what, path), 0);
		CHECK_INT(disk_drop(&d, &k), 0);
		CHECK_INT(faccessat(d.dir, path, F_OK, AT_SYMLINK_NOFOLLOW), -1);
	}
	lots_free(&k);
	lots_free(&good);
	disk_close(&d);
}

TEST(what_stands_in_a_workflows_place_is_a_miss_and_makes_way)
{
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(symlinkat("..", d.dir, LOTS_FOLDER "/w/w1"), 0);
	CHECK_INT(disk_get(&d, &k), 0);
	CHECK_INT(disk_has(&d, &k), 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), 3);
	lots_free(&k);
	disk_close(&d);
}

TEST(modes_are_the_users_own)
{
	const mode_t was = umask(0);
	struct lots k;
	struct disk d;
	struct stat st;
	char path[200];

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	umask(was);
	CHECK_INT(fstatat(d.dir, disk_path(path, "w1", 1), &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0400);
	CHECK_INT(fstatat(d.dir, LOTS_FOLDER, &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	CHECK_INT(fstatat(d.dir, LOTS_FOLDER "/w/w1", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0700);
	lots_free(&k);
	disk_close(&d);
}

TEST(another_users_folder_is_not_opened_and_a_pack_that_is_shut_is_a_miss)
{
	struct epd_memory *m;
	struct lots k;
	struct disk d;
	char path[200];
	int rc;

	if (geteuid())
		SKIP("another user takes root");
	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &tiny, "w1", 1, 0, 3, 7, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(fchmod(d.dir, 0755), 0);
	CHECK_INT(fchmodat(d.dir, "mem", 0755, 0), 0);
	CHECK_INT(seteuid(65534), 0);
	rc = epd_memory_open(&m, d.mem, lots_uuid, d.store, 1 << 20, NULL);
	CHECK_INT(seteuid(0), 0);
	CHECK(rc == -EPERM || rc == -EACCES);
	/* Given away by name: what is in it counts as anybody's, or as none. */
	CHECK_INT(fchownat(d.dir, LOTS_FOLDER, 65534, 65534, 0), 0);
	CHECK_INT(epd_memory_open(&m, d.mem, lots_uuid, d.store, 1 << 20, NULL),
	    -EPERM);
	CHECK_INT(fchownat(d.dir, LOTS_FOLDER, 0, 0, 0), 0);
	/* Of a pack that we may not read we have nothing, and say so. */
	disk_path(path, "w1", 1);
	CHECK_INT(fchownat(d.dir, LOTS_FOLDER "/w", 65534, 65534, 0), 0);
	CHECK_INT(fchownat(d.dir, LOTS_FOLDER "/w/w1", 65534, 65534, 0), 0);
	CHECK_INT(seteuid(65534), 0);
	rc = (int)disk_get(&d, &k);
	CHECK_INT(seteuid(0), 0);
	CHECK_INT(rc, 0);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_ERRORS), 1);
	CHECK_INT(disk_get(&d, &k), 3);
	lots_free(&k);
	disk_close(&d);
}

/* ---- many at once ---- */

enum { CROWD = 5, ROUNDS = 1000 };

/* One of two that put, drop and get the same lots till it is killed. */
static void
work(struct disk *d, struct lots *k, uint64_t x)
{
	if (disk_reopen(d, x & 1 ? EPD_PACKING_ZSTD : EPD_PACKING_NONE,
	    1 << 20))
		_exit(10);
	for (;;) {
		struct lots *one;
		long n;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		one = k + x % CROWD;
		switch (x >> 32 & 3) {
		case 0:
			n = disk_drop(d, one);
			break;
		case 1:
			n = disk_get(d, one);
			if (n && n != one->lot.n)
				_exit(11);
			break;
		default:
			n = disk_put(d, one);
			/*
			 * What the dead left counts too; and one made old below
			 * before it was locked is swept.
			 */
			n = n == -ENOSPC || n == -ENOENT ? 0 : n;
		}
		if (n < 0) {
			printf("# %ld: %s\n", n, d->why.text);
			_exit(12);
		}
	}
}

TEST(two_put_and_drop_the_same_and_are_killed_a_thousand_times)
{
	struct lots k[CROWD];
	struct disk d;
	uint64_t used, x = 0x9e3779b97f4a7c15u;
	pid_t pid[2] = { 0 };
	long there = 0, n;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	for (unsigned i = 0; i < CROWD; i++)
		lots_make(&k[i], &tiny, "w1", i + 1, 100 * i, 3 + (long)i, 16, 0);
	for (int i = 0; i < ROUNDS; i++) {
		const int who = i % 2;
		struct lots *one = k + i % CROWD;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (pid[who]) {
			kill(pid[who], SIGKILL);
			CHECK_INT(scratch_wait(pid[who]), -SIGKILL);
		}
		pid[who] = fork();
		if (!pid[who])
			work(&d, k, x);
		usleep((unsigned)(x >> 40) % 3000);
		n = disk_get(&d, one);
		CHECK(n == 0 || n == one->lot.n);
		there += n > 0;
		/* What the dead left is as old as they. */
		if (i % 10 == 9) {
			const int w = openat(d.dir, LOTS_FOLDER "/w/w1",
			    O_RDONLY | O_DIRECTORY);
			DIR *l = fdopendir(w);
			struct dirent *e;
			const struct timespec old[2] = { { .tv_sec = 1 },
			    { .tv_sec = 1 } };

			while ((e = readdir(l)))
				if (epd_is_temp(e->d_name))
					(void)utimensat(w, e->d_name, old, 0);
			closedir(l);
			CHECK(epd_memory_sweep(d.mem, NULL, NULL) >= 0);
		}
	}
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		CHECK_INT(scratch_wait(pid[i]), -SIGKILL);
	}
	CHECK(there > ROUNDS / 20);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
	CHECK_INT(epd_memory_used(d.m, &used), 0);
	CHECK_INT(used, disk_files(&d));
	for (int i = 0; i < CROWD; i++) {
		CHECK_INT(disk_put(&d, &k[i]), 0);
		CHECK_INT(disk_get(&d, &k[i]), k[i].lot.n);
		lots_free(&k[i]);
	}
	printf("# %ld of %d looks found a pack, each whole\n", there, ROUNDS);
	disk_close(&d);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
