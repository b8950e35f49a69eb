/* page_run - run files: written, published, mapped, damaged, starved, killed. */
#include "fault.h"

#include <inttypes.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "page/layout.h"
#include "tests/check.h"
#include "scratch.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, 5000 };

static void
fill(void *page, long i)
{
	memset(page, (int)(i * 7 + 1), (size_t)shape.bytes);
}

static void
entries(struct epd_page_entry *e, long n)
{
	for (long i = 0; i < n; i++) {
		memset(&e[i], 0, sizeof e[i]);
		memset(e[i].name.b, (int)i + 1, EPD_NAME);
		e[i].rows = (uint32_t)(i % 16 + 1);
	}
}

/* A run of n pages under id; e gets its entries.  0 or the first error. */
static int
make_run(int dir, uint64_t id, long n, struct epd_page_entry *e)
{
	struct epd_run *r;
	void *p;
	int rc = epd_run_new(&r, dir, &shape);

	if (rc)
		return rc;
	for (long i = 0; !rc && i < n; i++)
		if (!(rc = epd_run_add(r, &p)))
			fill(p, i);
	entries(e, n);
	if (!rc)
		rc = epd_run_publish(r, id, e, n);
	epd_run_close(r);
	return rc;
}

static int
run_fd(int dir, uint64_t id)
{
	char name[EPD_RUN_NAME];
	int fd;

	epd_run_format(name, id);
	fchmodat(dir, name, 0600, 0);
	fd = openat(dir, name, O_RDWR | O_CLOEXEC, 0);
	return fd;
}

TEST(round_trip_and_pages_stay_put)
{
	enum { N = 100 };
	struct epd_page_entry e[N];
	struct epd_run *r;
	void *page[N];
	int dir = scratch_open();

	CHECK_INT(epd_run_new(&r, dir, &shape), 0);
	for (long i = 0; i < N; i++) {
		CHECK_INT(epd_run_add(r, &page[i]), 0);
		CHECK_INT((uintptr_t)page[i] % 4096, 0);
		for (size_t k = 0; k < shape.bytes; k++)
			CHECK(((uint8_t *)page[i])[k] == 0);
		fill(page[i], i);
	}
	CHECK_INT(epd_run_count(r), N);
	CHECK_INT(scratch_count(dir, NULL), 0);
	for (long i = 0; i < N; i++)
		CHECK(epd_run_page(r, i) == page[i]);
	entries(e, N);
	CHECK_INT(epd_run_publish(r, 42, e, N), 0);
	CHECK_INT(epd_run_add(r, &page[0]), -EROFS);
	CHECK_INT(epd_run_publish(r, 43, e, N), -EINVAL);	/* kind 25 */
	CHECK(e[0].sum && e[0].sum != e[1].sum);
	CHECK_INT(epd_run_verify(r, 3), 0);
	epd_run_close(r);
	CHECK_INT(scratch_count(dir, NULL), 1);

	CHECK_INT(epd_run_open(&r, dir, 42, &shape, e, N, NULL), 0);
	CHECK_INT(epd_run_count(r), N);
	for (long i = 0; i < N; i++) {
		uint8_t want[5000];

		fill(want, i);
		CHECK(!memcmp(epd_run_page(r, i), want, sizeof want));
		CHECK_INT(epd_run_verify(r, i), 0);
		CHECK(!memcmp(&epd_run_entries(r)[i].name, &e[i].name,
		    EPD_NAME));
	}
	CHECK(!epd_run_page(r, N) && !epd_run_page(r, -1));
	CHECK_INT(epd_run_verify(r, N), -EINVAL);
	/* Mappings outlive the name. */
	CHECK_INT(epd_run_free(dir, 42), 0);
	CHECK_INT(epd_run_free(dir, 42), 0);
	CHECK(*(const uint8_t *)epd_run_page(r, 5) == 36);
	epd_run_close(r);
	CHECK_INT(epd_run_open(&r, dir, 42, &shape, NULL, 0, NULL), -ENOENT);
	scratch_close(dir);
}

TEST(published_pages_are_read_only_here_too)
{
	struct epd_page_entry e;
	int dir = scratch_open();
	pid_t pid = fork();

	if (!pid) {
		struct rlimit none = { 0, 0 };
		struct epd_run *r;
		void *p;

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		entries(&e, 1);
		if (epd_run_new(&r, dir, &shape) || epd_run_add(r, &p) ||
		    epd_run_publish(r, 1, &e, 1))
			_exit(1);
		*(volatile uint8_t *)p = 1;
		_exit(0);
	}
	CHECK_INT(scratch_wait(pid), -SIGSEGV);
	scratch_close(dir);
}

TEST(kind26_a_taken_id_is_refused_and_the_run_lives_on)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	uint8_t zero[5000] = { 0 };
	void *p;
	int dir = scratch_open();

	CHECK_INT(make_run(dir, 7, 2, e), 0);
	CHECK_INT(epd_run_new(&r, dir, &shape), 0);
	for (long i = 0; i < 2; i++) {
		CHECK_INT(epd_run_add(r, &p), 0);
		fill(p, i + 5);
	}
	entries(e, 3);
	CHECK_INT(epd_run_publish(r, 7, e, 2), -EEXIST);
	CHECK(e[0].sum == 0);
	/* Writable still, and what comes next is as zero as ever. */
	memset(p, 9, (size_t)shape.bytes);
	CHECK_INT(epd_run_add(r, &p), 0);
	CHECK(!memcmp(p, zero, sizeof zero));
	CHECK_INT(epd_run_publish(r, 8, e, 3), 0);
	epd_run_close(r);
	CHECK_INT(epd_run_open(&r, dir, 8, &shape, e, 3, NULL), 0);
	CHECK(*(const uint8_t *)epd_run_page(r, 1) == 9);
	for (long i = 0; i < 3; i++)
		CHECK_INT(epd_run_verify(r, i), 0);
	epd_run_close(r);
	/* The run that had the id is as it was. */
	CHECK_INT(epd_run_open(&r, dir, 7, &shape, NULL, 0, NULL), 0);
	CHECK_INT(epd_run_count(r), 2);
	CHECK_INT(epd_run_verify(r, 1), 0);
	epd_run_close(r);
	scratch_close(dir);
}

TEST(wrong_use)
{
	struct epd_run_shape s = shape;
	struct epd_page_entry e[2];
	struct epd_run *r = NULL;
	uint64_t id = 0;
	void *p;
	int dir = scratch_open();

	s.kind = EPD_OBJECT_STATE_SNAPSHOT;
	CHECK_INT(epd_run_new(&r, dir, &s), EPD_EKIND);
	s = shape;
	s.bytes = 0;
	CHECK_INT(epd_run_new(&r, dir, &s), -EINVAL);
	s.bytes = UINT64_MAX;
	CHECK_INT(epd_run_new(&r, dir, &s), EPD_ETOOBIG);
	CHECK(!r);
	CHECK_INT(epd_run_new(&r, dir, &shape), 0);
	entries(e, 2);
	CHECK_INT(epd_run_publish(r, 1, e, 0), -EINVAL);
	CHECK_INT(epd_run_add(r, &p), 0);
	CHECK_INT(epd_run_publish(r, 1, e, 2), -EINVAL);
	CHECK_INT(epd_run_publish(r, 0, e, 1), -EINVAL);
	e[0].rows = 17;
	CHECK_INT(epd_run_publish(r, 1, e, 1), -EINVAL);
	e[0].rows = 0;
	CHECK_INT(epd_run_publish(r, 1, e, 1), -EINVAL);
	epd_run_close(r);
	epd_run_close(NULL);
	CHECK_INT(scratch_count(dir, NULL), 0);
	CHECK_INT(epd_run_id(&id), 0);
	CHECK(id);
	scratch_close(dir);
}

TEST(kind17_another_requests_pages_are_refused)
{
	struct epd_page_entry a[3], b[3], x[3];
	struct epd_run_shape s = shape;
	struct epd_why why;
	struct epd_run *r;
	int dir = scratch_open();

	CHECK_INT(make_run(dir, 1, 3, a), 0);
	CHECK_INT(make_run(dir, 2, 3, b), 0);
	/* Another run's file under this id. */
	CHECK_INT(renameat(dir, "0000000000000002", dir, "0000000000000001"),
	    0);
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, NULL, 0, &why),
	    EPD_ECORRUPT);
	CHECK(strstr(why.text, "holds run 0000000000000002"));
	CHECK_INT(make_run(dir, 3, 3, a), 0);
	/* Right file, other contents expected: each field of each entry. */
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++) {
			memcpy(x, a, sizeof x);
			if (k == 0)
				x[i].name.b[31] ^= 1;
			if (k == 1)
				x[i].rows++;
			if (k == 2)
				x[i].sum ^= 1;
			CHECK_INT(epd_run_open(&r, dir, 3, &shape, x, 3, &why),
			    EPD_ECORRUPT);
		}
	CHECK_INT(epd_run_open(&r, dir, 3, &shape, a, 2, &why), EPD_ECORRUPT);
	s.type = 0;
	CHECK_INT(epd_run_open(&r, dir, 3, &s, a, 3, &why), EPD_ECORRUPT);
	s = shape;
	s.tokens = 64;
	CHECK_INT(epd_run_open(&r, dir, 3, &s, a, 3, &why), EPD_ECORRUPT);
	s = shape;
	s.bytes--;
	CHECK_INT(epd_run_open(&r, dir, 3, &s, a, 3, &why), EPD_ECORRUPT);
	CHECK_INT(epd_run_open(&r, dir, 3, &shape, a, 3, &why), 0);
	epd_run_close(r);
	scratch_close(dir);
}

TEST(every_byte_of_header_and_table_flipped)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	int dir = scratch_open(), fd;
	long table = 4096 + 3 * 8192, end = table + 3 * 48;

	CHECK_INT(make_run(dir, 1, 3, e), 0);
	fd = run_fd(dir, 1);
	for (long at = 0; at < end; at = at == 4095 ? table : at + 1) {
		uint8_t was, flipped;
		int rc;

		CHECK(pread(fd, &was, 1, at) == 1);
		flipped = was ^ (uint8_t)(1 << at % 8);
		CHECK(pwrite(fd, &flipped, 1, at) == 1);
		rc = epd_run_open(&r, dir, 1, &shape, NULL, 0, NULL);
		if (rc != EPD_ECORRUPT)
			CHECK_FAIL("byte %ld flipped: %d", at, rc);
		CHECK(pwrite(fd, &was, 1, at) == 1);
	}
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, e, 3, NULL), 0);
	epd_run_close(r);
	close(fd);
	scratch_close(dir);
}

/* Set a byte of the header and put its checksum right. */
static void
set_head(int fd, int at, uint8_t to)
{
	uint8_t head[4096];
	uint32_t crc;

	if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
		return;
	head[at] = to;
	crc = epd_crc32c(0, head, 4092);
	for (int i = 0; i < 4; i++)
		head[4092 + i] = (uint8_t)(crc >> 8 * i);
	if (pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
		return;
}

TEST(a_newer_format_is_named_and_refused)
{
	/* format, kind; then count, and what must be zero */
	static const int at[] = { 8, 12, 40, 52, 4091 };
	static const uint8_t was[] = { 1, 1, 1, 0, 0 };
	struct epd_page_entry e[1];
	struct epd_why why;
	struct epd_run *r;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, 1, e), 0);
	fd = run_fd(dir, 1);
	for (int i = 0; i < 5; i++) {
		set_head(fd, at[i], 2);
		CHECK_INT(epd_run_open(&r, dir, 1, &shape, NULL, 0, &why),
		    i < 2 ? EPD_EKIND : EPD_ECORRUPT);
		if (i < 2)
			CHECK(strstr(why.text, i ? "kind 2" : "format 2"));
		set_head(fd, at[i], was[i]);
	}
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, e, 1, NULL), 0);
	epd_run_close(r);
	close(fd);
	scratch_close(dir);
}

TEST(a_damaged_page_is_told_from_its_neighbours)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, 3, e), 0);
	fd = run_fd(dir, 1);
	CHECK(pwrite(fd, "x", 1, 4096 + 8192 + 4999) == 1);
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, e, 3, NULL), 0);
	CHECK_INT(epd_run_verify(r, 0), 0);
	CHECK_INT(epd_run_verify(r, 1), EPD_ECORRUPT);
	CHECK_INT(epd_run_verify(r, 1), EPD_ECORRUPT);
	CHECK_INT(epd_run_verify(r, 2), 0);
	epd_run_close(r);
	close(fd);
	scratch_close(dir);
}

TEST(kind32_cut_by_a_peer_is_damage_and_no_sigbus)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	struct stat st;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, 3, e), 0);
	fd = run_fd(dir, 1);
	CHECK_INT(fstat(fd, &st), 0);
	CHECK_INT(ftruncate(fd, st.st_size + 1), 0);
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, NULL, 0, NULL),
	    EPD_ECORRUPT);
	for (long n = st.st_size - 1; n >= 0; n -= n > 8200 ? 97 : 1)  {
		CHECK_INT(ftruncate(fd, n), 0);
		CHECK_INT(epd_run_open(&r, dir, 1, &shape, NULL, 0, NULL),
		    EPD_ECORRUPT);
	}
	close(fd);
	/* Things that are no files do not make anybody wait. */
	CHECK_INT(mkfifoat(dir, "0000000000000002", 0600), 0);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, NULL, 0, NULL),
	    EPD_ECORRUPT);
	CHECK_INT(symlinkat("/etc/passwd", dir, "0000000000000003"), 0);
	CHECK_INT(epd_run_open(&r, dir, 3, &shape, NULL, 0, NULL), -ELOOP);
	scratch_close(dir);
}

TEST(kind32_cut_while_it_is_looked_at)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	struct stat st;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, 3, e), 0);
	CHECK_INT(epd_run_look(&r, dir, 1, &shape, e, 3, NULL), 0);
	CHECK_INT(epd_run_verify(r, 0), 0);
	fd = run_fd(dir, 1);
	CHECK_INT(fstat(fd, &st), 0);
	CHECK_INT(ftruncate(fd, 4096 + st.st_size / 3), 0);
	CHECK_INT(epd_run_verify(r, 2), EPD_ECORRUPT);
	CHECK_INT(ftruncate(fd, 0), 0);
	CHECK_INT(epd_run_verify(r, 1), EPD_ECORRUPT);
	CHECK_INT(epd_run_verify(r, 0), 0);	/* it was looked at */
	/* What it hands to the kernel is an error there. */
	CHECK(pwrite(fd, epd_run_page(r, 0), 16, 0) == -1 && errno == EFAULT);
	epd_run_close(r);
	close(fd);
	scratch_close(dir);
}

TEST(kind32_punched_while_it_is_used)
{
	struct epd_page_entry e[3];
	struct epd_run *r;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, 3, e), 0);
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, e, 3, NULL), 0);
	CHECK_INT(epd_run_verify(r, 1), 0);
	CHECK_INT(epd_run_again(r), 0);
	fd = run_fd(dir, 1);
	/* Of those that nobody looked at nothing was computed. */
	CHECK_INT(pwrite(fd, "!", 1, 4096), 1);
	CHECK_INT(epd_run_again(r), 0);
	CHECK_INT(pwrite(fd, "!", 1, 4096 + 8192 + 7), 1);
	CHECK_INT(epd_run_again(r), EPD_ECORRUPT);
	CHECK_INT(epd_run_verify(r, 1), EPD_ECORRUPT);
	epd_run_close(r);
	close(fd);
	scratch_close(dir);
}

struct seen { int n; uint64_t id, bytes; };

static int
see(void *arg, uint64_t run, uint64_t bytes)
{
	struct seen *s = arg;

	s->n++;
	s->id ^= run;
	s->bytes += bytes;
	return 0;
}

TEST(linked_and_listed)
{
	struct epd_page_entry e[2];
	struct seen seen = { 0 };
	struct epd_run *r;
	int dir = scratch_open(), other;

	CHECK_INT(make_run(dir, 0xabcdef, 2, e), 0);
	CHECK_INT(make_run(dir, 0xfedcba9876543210, 2, e), 0);
	CHECK_INT(close(openat(dir, "ABCDEFABCDEFABCD", O_CREAT | O_RDWR,
	    0600)), 0);
	CHECK_INT(close(openat(dir, "store", O_CREAT | O_RDWR, 0600)), 0);
	other = epd_dir_make(dir, "0000000000000009");
	CHECK(other >= 0);
	CHECK_INT(epd_run_link(dir, 0xabcdef, other, 0xabcdef), 0);
	CHECK_INT(epd_run_link(dir, 0xabcdef, other, 0xabcdef), 0);
	CHECK_INT(epd_run_link(dir, 0xabcd, other, 0xabcd), -ENOENT);
	CHECK_INT(make_run(other, 5, 1, e), 0);
	CHECK_INT(make_run(dir, 5, 1, e), 0);
	CHECK_INT(epd_run_link(dir, 5, other, 5), -EEXIST);
	CHECK_INT(epd_run_free(dir, 5), 0);
	CHECK_INT(epd_run_each(dir, see, &seen), 0);
	CHECK_INT(seen.n, 2);
	CHECK(seen.id == (0xabcdef ^ 0xfedcba9876543210));
	CHECK_INT(seen.bytes, 2 * (4096 + 2 * (8192 + 48)));
	CHECK_INT(epd_run_free(dir, 0xabcdef), 0);
	CHECK_INT(epd_run_open(&r, other, 0xabcdef, &shape, NULL, 0, NULL), 0);
	CHECK_INT(epd_run_verify(r, 0), 0);
	epd_run_close(r);
	close(other);
	scratch_close(dir);
}

/* ---- where a file needs a name ---- */

/* One that nobody may write is swept by its owner all the same, root or not. */
TEST(kind31_what_is_shut_to_writers_is_swept)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 100000, 1 };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int dir = scratch_open(), fd, n;
	pid_t pid;

	CHECK_INT(fchmod(dir, 0777), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (getuid() == 0 && setuid(65534))
			_exit(1);
		fd = openat(dir, ".tmp.0123456789abcdef", O_RDWR | O_CREAT, 0600);
		if (fd < 0 || fchmod(fd, 0400) || fcntl(fd, F_OFD_SETLK, &lock))
			_exit(2);
		epd_clock_fake(&later);
		n = epd_run_sweep(dir);
		close(fd);
		_exit(n != 0 ? 3 : epd_run_sweep(dir) != 1 ? 4 : 0);
	}
	CHECK_INT(scratch_wait(pid), 0);
	CHECK_INT(scratch_count(dir, NULL), 0);
	scratch_close(dir);
}

TEST(kind31_named_runs_of_the_dead_are_swept)
{
	struct epd_clock_fake later = { epd_clock_wall_ms() + 100000, 1 };
	struct epd_page_entry e[2];
	struct epd_run *r;
	void *p;
	int dir = scratch_open();
	pid_t pid;

	fault.no_tmpfile = 1;
	CHECK_INT(make_run(dir, 1, 2, e), 0);
	CHECK_INT(make_run(dir, 1, 2, e), -EEXIST);
	CHECK_INT(scratch_count(dir, NULL), 1);
	CHECK_INT(epd_run_new(&r, dir, &shape), 0);
	CHECK_INT(epd_run_add(r, &p), 0);
	CHECK_INT(scratch_count(dir, NULL), 2);
	pid = fork();
	if (!pid) {
		struct epd_run *mine;

		if (epd_run_new(&mine, dir, &shape) || epd_run_add(mine, &p))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	CHECK_INT(scratch_wait(pid), -SIGKILL);
	CHECK_INT(scratch_count(dir, NULL), 3);
	CHECK_INT(epd_run_sweep(dir), 0);
	epd_clock_fake(&later);
	CHECK_INT(epd_run_sweep(dir), 1);
	CHECK_INT(epd_run_sweep(dir), 0);
	epd_clock_fake(NULL);
	/* The living one was let be. */
	fill(p, 0);
	entries(e, 1);
	CHECK_INT(epd_run_publish(r, 2, e, 1), 0);
	epd_run_close(r);
	fault.no_tmpfile = 0;
	CHECK_INT(scratch_count(dir, NULL), 2);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, 1, NULL), 0);
	CHECK_INT(epd_run_verify(r, 0), 0);
	epd_run_close(r);
	scratch_close(dir);
}

TEST(kill_at_every_call_leaves_no_run_or_a_whole_one)
{
	for (int named = 0; named < 2; named++) {
		int dir = scratch_open(), rc = -SIGKILL;

		for (int at = 1; rc == -SIGKILL; at++) {
			struct epd_page_entry e[5];
			struct epd_run *r;
			pid_t pid;

			CHECK(at < 100);
			fault.no_tmpfile = named;
			pid = fork();
			if (!pid) {
				fault_arm(at, 0, FAULT_KILL);
				_exit(make_run(dir, 1, 5, e) ? 1 : 0);
			}
			fault.no_tmpfile = 0;
			rc = scratch_wait(pid);
			CHECK(rc == -SIGKILL || rc == 0);
			if (epd_run_open(&r, dir, 1, &shape, NULL, 0, NULL))
				continue;
			CHECK_INT(epd_run_count(r), 5);
			for (long i = 0; i < 5; i++)
				CHECK_INT(epd_run_verify(r, i), 0);
			epd_run_close(r);
			epd_run_free(dir, 1);
		}
		if (!named)
			CHECK_INT(scratch_count(dir, NULL), 0);
		scratch_close(dir);
	}
}

/* ---- full, failing, starved ---- */

/* In a child with mounts of its own: a tmpfs of so many KiB, filled up. */
static int
fill_tmpfs(const char *path, int kib)
{
	struct epd_page_entry *e = calloc(4096, sizeof *e);
	char opt[32];
	struct statfs fs;
	int dir;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL,
	    MS_REC | MS_PRIVATE, NULL))
		return 77;
	snprintf(opt, sizeof opt, "size=%dk", kib);
	if (mount("tmpfs", path, "tmpfs", 0, opt))
		return 77;
	dir = open(path, O_RDONLY | O_DIRECTORY);
	for (int round = 0; round < 3; round++) {
		struct epd_run *r;
		long n = 0;
		void *p;
		int rc;

		if (epd_run_new(&r, dir, &shape))
			return 2;
		while (!(rc = epd_run_add(r, &p)))
			fill(p, n++);
		if (rc != -ENOSPC)
			return 3;
		/* Room for the table may or may not be left. */
		entries(e, n);
		rc = epd_run_publish(r, 1, e, n);
		if (n && rc && rc != -ENOSPC)
			return 4;
		if (!rc) {
			for (long i = 0; i < n; i++)
				if (epd_run_verify(r, i))
					return 5;
			epd_run_free(dir, 1);
		} else if (n) {
			/* A failed publish leaves the pages as they were. */
			for (long i = 0; i < n; i++)
				if (*(const uint8_t *)epd_run_page(r, i) !=
				    (uint8_t)(i * 7 + 1))
					return 6;
		}
		epd_run_close(r);
		if (scratch_count(dir, NULL) || statfs(path, &fs) ||
		    fs.f_bfree != fs.f_blocks)
			return 7;
	}
	return 0;
}

TEST(kind19_kind32_full_tmpfs_is_enospc_and_nothing_left)
{
	int dir = scratch_open(), skipped = 0;

	for (int kib = 4; kib <= 1024 && !skipped; kib += kib < 64 ? 4 : 60) {
		pid_t pid = fork();
		int rc;

		if (!pid)
			_exit(fill_tmpfs(scratch_path, kib));
		rc = scratch_wait(pid);
		if (rc == 77)
			skipped = 1;
		else if (rc)
			CHECK_FAIL("tmpfs of %d KiB: %d", kib, rc);
	}
	scratch_close(dir);
	if (skipped)
		SKIP("cannot mount a tmpfs");
}

TEST(kind20_every_call_fails_once_and_for_ever)
{
	static const int err[] = { ENOSPC, EIO, EMFILE };
	struct epd_page_entry e[5];
	struct epd_run *r;
	int failed = 0;

	for (int how = 0; how <= FAULT_ON; how++)
		for (int k = 0; k < 3; k++)
			for (int at = 1, hit = 1; hit; at++) {
				int dir = scratch_open(), rc;

				fault_arm(at, err[k], how);
				rc = make_run(dir, 1, 5, e);
				hit = fault_calls() >= at;
				failed += rc != 0;
				CHECK(rc == 0 || rc == -err[k]);
				if (rc)
					CHECK_INT(scratch_count(dir, NULL), 0);
				else
					CHECK_INT(epd_run_free(dir, 1), 0);
				CHECK_INT(make_run(dir, 1, 5, e), 0);
				/* And in opening. */
				fault_arm(at, err[k], how);
				rc = epd_run_open(&r, dir, 1, &shape, e, 5,
				    NULL);
				fault_calls();
				CHECK(rc == 0 || rc == -err[k]);
				if (!rc)
					epd_run_close(r);
				scratch_close(dir);
			}
	CHECK(failed > 20);
}

TEST(kind16_every_allocation_fails)
{
	struct epd_page_entry e[5], *expect = e;
	struct epd_run *r;
	int failed = 0;

	for (int on = 0; on < 2; on++)
		for (int at = 1, hit = 1; hit; at++) {
			int dir = scratch_open(), rc;

			scratch_starve(at, on);
			rc = make_run(dir, 1, 5, e);
			if (!rc)
				rc = epd_run_open(&r, dir, 1, &shape, expect,
				    5, NULL);
			if (!rc)
				epd_run_close(r);
			hit = scratch_mem.count >= at;
			scratch_starve(0, 0);
			CHECK(rc == 0 || rc == -ENOMEM);
			failed += rc != 0;
			scratch_close(dir);
		}
	CHECK(failed >= 10);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
