/*
 * base_file.c - files and directories, with the system calls failing at will:
 * the wrappers below stand before the C library's.
 */
#include "tests/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/file.h"

static struct {
	int left, no;		/* the left-th call to come fails by no */
	int calls;
	int no_openat2;
	size_t most;		/* bytes a transfer may take, 0: all */
} fault;

static int
fails(void)
{
	fault.calls++;
	if (!fault.no || fault.left-- != 0)
		return 0;
	errno = fault.no;
	return 1;
}

static size_t
some(size_t n)
{
	return fault.most && n > fault.most ? fault.most : n;
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	return fails() ? -1 : syscall(SYS_pwrite64, fd, p, some(n), off);
}

ssize_t
pread(int fd, void *p, size_t n, off_t off)
{
	return fails() ? -1 : syscall(SYS_pread64, fd, p, some(n), off);
}

int
fdatasync(int fd)
{
	return fails() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int
fsync(int fd)
{
	return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int
renameat(int a, const char *from, int b, const char *to)
{
	return fails() ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, 0);
}

/* How many arguments there are it cannot know, and takes them all for there. */
__attribute__((no_sanitize_address)) long
syscall(long number, ...)
{
	long (*next)(long, ...), a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && fault.no_openat2) {
		errno = fault.no_openat2;
		return -1;
	}
	if (number == SYS_openat2 && fails())
		return -1;
	next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static char where[256];
static int dir = -1;

/* A fresh directory; the test's own ends with the next one's beginning. */
static void
fresh(void)
{
	const char *t = getenv("TMPDIR");

	memset(&fault, 0, sizeof fault);
	if (dir >= 0) {
		close(dir);
		epd_file_remove(AT_FDCWD, where + 1);
	}
	snprintf(where, sizeof where, "%s/epd-file.XXXXXX", t ? t : "/tmp");
	if (!mkdtemp(where) || chdir("/"))
		abort();
	dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int
put(const char *path, const char *text)
{
	struct epd_span s = epd_span_str(text);

	return epd_file_replace(dir, path, &s, 1, 1);
}

static const char *
got(const char *path)
{
	static char text[64];
	struct epd_buf b = { 0 };
	int rc = epd_file_read(dir, path, sizeof text - 1, &b);

	snprintf(text, sizeof text, "%s",
	    rc ? epd_errlabel(rc) : epd_buf_cstr(&b));
	epd_buf_free(&b);
	return text;
}

static int
count(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static int
entries(void)
{
	int n = 0;

	return epd_dir_each(dir, count, &n) ? -1 : n;
}

static int
open_files(void)
{
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), n = 0;

	if (epd_dir_each(fd, count, &n))
		n = -1;
	close(fd);
	return n;
}

TEST(open_stays_beneath_and_off_links)
{
	static const int without[] = { 0, ENOSYS, EPERM };

	for (int i = 0; i < 3; i++) {
		int fd;

		fresh();
		fault.no_openat2 = without[i];
		CHECK_INT(mkdirat(dir, "d", 0700), 0);
		CHECK_INT(put("d/f", "x"), 0);
		CHECK_INT(symlinkat("d", dir, "l"), 0);
		CHECK_INT(symlinkat("d/f", dir, "lf"), 0);
		CHECK_INT(symlinkat("/etc", dir, "abs"), 0);
		CHECK_STR(got("d/f"), "x");
		CHECK_STR(got("d//f"), "x");
		CHECK_STR(got("./d/./f"), "x");
		CHECK_STR(got("l/f"), without[i] ? "ENOTDIR" : "ELOOP");
		CHECK_STR(got("lf"), "ELOOP");
		CHECK(epd_file_open(dir, "abs/passwd", O_RDONLY, 0) < 0);
		CHECK_INT(epd_file_open(dir, "/etc/passwd", O_RDONLY, 0),
		    -EXDEV);
		CHECK_INT(epd_file_open(dir, "../x", O_RDONLY, 0), -EXDEV);
		CHECK_INT(epd_file_open(dir, "d/../../x", O_RDONLY, 0),
		    -EXDEV);
		CHECK_INT(epd_file_open(dir, "..", O_RDONLY, 0), -EXDEV);
		CHECK_STR(got("none"), "ENOENT");
		CHECK_STR(got("none/f"), "ENOENT");
		CHECK_STR(got(""), "ENOENT");
		CHECK_STR(got("d"), "EISDIR");
		CHECK_INT(epd_file_open(dir, "d/f/", O_RDONLY, 0), -ENOTDIR);
		fd = epd_file_open(dir, "lf", O_WRONLY | O_CREAT, 0600);
		CHECK_INT(fd, -ELOOP);
		fd = epd_file_open(dir, "d/new", O_WRONLY | O_CREAT, 0640);
		CHECK(fd >= 0);
		CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		close(fd);
		fd = epd_file_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
		CHECK(fd >= 0);
		close(fd);
		fault.no_openat2 = 0;
	}
}

TEST(open_within_follows_links_but_not_off_the_mount)
{
	int fd;

	fresh();
	CHECK_INT(mkdirat(dir, "d", 0700), 0);
	CHECK_INT(mkdirat(dir, "e", 0700), 0);
	CHECK_INT(put("d/f", "x"), 0);
	CHECK_INT(symlinkat("../d", dir, "e/l"), 0);
	CHECK_INT(symlinkat("/proc/self/status", dir, "e/abs"), 0);
	CHECK_INT(symlinkat("/proc/self/fd/0", dir, "e/magic"), 0);
	fd = epd_file_open_within(dir, "e/l/f", O_RDONLY);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	fd = epd_file_open_within(dir, "e/../d/f", O_RDONLY);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(epd_file_open_within(dir, "e/abs", O_RDONLY), -EXDEV);
	CHECK_INT(epd_file_open_within(dir, "e/magic", O_RDONLY), -EXDEV);
	CHECK_INT(epd_file_open_within(dir, "none", O_RDONLY), -ENOENT);
	fault.no_openat2 = EPERM;
	CHECK_INT(epd_file_open_within(dir, "d/f", O_RDONLY), -ENOSYS);
	fault.no_openat2 = 0;
	/* What is mounted as what, where there is one to be told. */
	fd = open("/proc", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	CHECK_INT(epd_dir_is(fd, "proc"), 1);
	CHECK_INT(epd_dir_is(fd, "pro"), 0);
	CHECK_INT(epd_dir_is(fd, "fuse.epd"), 0);
	close(fd);
	CHECK_INT(epd_dir_is(dir, "proc"), 0);
	CHECK_INT(epd_dir_is(-1, "proc"), 0);
}

TEST(read_takes_no_more_than_it_may)
{
	struct epd_buf b = { 0 };
	char name[300];

	fresh();
	epd_buf_str(&b, "old");
	CHECK_INT(put("f", "12345"), 0);
	CHECK_INT(epd_file_read(dir, "f", 4, &b), EPD_ETOOBIG);
	CHECK_INT(epd_file_read(dir, "none", 4, &b), -ENOENT);
	CHECK_STR(epd_buf_cstr(&b), "old");
	CHECK_INT(epd_file_read(dir, "f", 5, &b), 0);
	CHECK_STR(epd_buf_cstr(&b), "12345");
	CHECK_INT(put("e", ""), 0);
	CHECK_INT(epd_file_read(dir, "e", 0, &b), 0);
	CHECK_INT(b.n, 0);
	CHECK_INT(epd_file_read(dir, "f", SIZE_MAX, &b), 0);
	CHECK_INT(b.n, 5);
	CHECK_INT(mkfifoat(dir, "p", 0600), 0);
	CHECK_INT(epd_file_read(dir, "p", 5, &b), -EINVAL);
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	CHECK_INT(epd_file_read(dir, name, 5, &b), -ENAMETOOLONG);
	epd_buf_free(&b);
}

TEST(slurp_reads_pipes)
{
	struct epd_buf b = { 0 };
	static char big[300000];
	int p[2], q[2], status;
	pid_t pid;

	CHECK_INT(pipe(p), 0);
	CHECK_INT(pipe(q), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		size_t done = 0;

		memset(big, 'a', sizeof big);
		usleep(2000);
		while (done < sizeof big) {
			ssize_t n = write(p[1], big + done, sizeof big - done);

			if (n < 0)
				_exit(1);
			done += (size_t)n;
		}
		_exit(write(q[1], "12345", 5) != 5);
	}
	close(p[1]);
	close(q[1]);
	CHECK_INT(fcntl(p[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_INT(epd_file_slurp(p[0], sizeof big, &b), 0);
	CHECK_INT(b.n, sizeof big);
	CHECK(b.p[0] == 'a' && b.p[sizeof big - 1] == 'a');
	CHECK_INT(epd_file_slurp(q[0], 4, &b), EPD_ETOOBIG);
	CHECK_INT(b.n, sizeof big);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	CHECK_INT(epd_file_slurp(p[0], 0, &b), 0);
	CHECK_INT(b.n, 0);
	CHECK_INT(epd_file_slurp(-1, 4, &b), -EBADF);
	close(p[0]);
	close(q[0]);
	epd_buf_free(&b);
}

TEST(pread_and_pwrite_finish_and_keep_bounds)
{
	char in[1000], out[1001];
	int fd;

	fresh();
	for (int i = 0; i < 1000; i++)
		in[i] = (char)i;
	fd = epd_file_open(dir, "f", O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	fault.most = 7;
	fault.no = EINTR;
	fault.left = 3;
	CHECK_INT(epd_file_pwrite(fd, in, 1000, 10), 0);
	CHECK(fault.calls > 100);
	fault.left = 5;
	CHECK_INT(epd_file_pread(fd, out, 1001, 10), 1000);
	CHECK(!memcmp(in, out, 1000));
	CHECK_INT(epd_file_pread(fd, out, 10, 5000), 0);
	CHECK_INT(epd_file_pread(fd, out, 1, UINT64_MAX), -EINVAL);
	CHECK_INT(epd_file_pwrite(fd, out, 1, UINT64_MAX), -EFBIG);
	CHECK_INT(epd_file_pwrite(fd, out, SIZE_MAX, 0), -EFBIG);
	CHECK_INT(epd_file_pread(-1, out, 1, 0), -EBADF);
	fault.left = 0;
	CHECK_INT(epd_file_datasync(fd), 0);
	close(fd);
}

TEST(replace_makes_and_replaces)
{
	struct epd_span s[3] = {
		epd_span("ab", 2), epd_span(NULL, 0), epd_span("cd", 2),
	};
	struct stat st;

	fresh();
	CHECK_INT(mkdirat(dir, "d", 0700), 0);
	CHECK_INT(epd_file_replace(dir, "d/f", s, 3, 1), 0);
	CHECK_STR(got("d/f"), "abcd");
	CHECK_INT(fstatat(dir, "d/f", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(epd_file_replace(dir, "d/f", s, 1, 0), 0);
	CHECK_STR(got("d/f"), "ab");
	CHECK_INT(epd_file_replace(dir, "d/f", NULL, 0, 0), 0);
	CHECK_STR(got("d/f"), "");
	CHECK_INT(epd_file_replace(dir, "d/", s, 1, 0), -EINVAL);
	CHECK_INT(epd_file_replace(dir, "", s, 1, 0), -EINVAL);
	CHECK_INT(epd_file_replace(dir, "d/..", s, 1, 0), -EINVAL);
	CHECK_INT(epd_file_replace(dir, "../f", s, 1, 0), -EXDEV);
	CHECK_INT(epd_file_replace(dir, "none/f", s, 1, 0), -ENOENT);
	CHECK_INT(epd_file_replace(dir, "d", s, 1, 0), -EISDIR);
	CHECK_INT(entries(), 1);
	/* A link under the name is replaced, not followed. */
	CHECK_INT(symlinkat("d/f", dir, "l"), 0);
	CHECK_INT(epd_file_replace(dir, "l", s, 1, 0), 0);
	CHECK_STR(got("l"), "ab");
	CHECK_STR(got("d/f"), "");
}

TEST(replace_fails_clean_at_every_call)
{
	static const int errors[] = { ENOSPC, EIO, EDQUOT };
	int files = open_files(), n, rc = -1;

	for (int e = 0; e < 3; e++) {
		fresh();
		CHECK_INT(put("f", "old"), 0);
		rc = -1;
		for (n = 0; rc; n++) {
			fault.no = errors[e];
			fault.left = n;
			rc = put("f", "new");
			fault.no = 0;
			CHECK_INT(entries(), 1);
			if (rc == EPD_EUNSURE)
				CHECK_STR(got("f"), "new");
			else if (rc) {
				CHECK_INT(rc, -errors[e]);
				CHECK_STR(got("f"), "old");
			}
			if (rc == EPD_EUNSURE)
				CHECK_INT(put("f", "old"), 0);
		}
		CHECK_STR(got("f"), "new");
		/* Two opens, write, flush, rename, flush. */
		CHECK_INT(n, 7);
	}
	CHECK(open_files() <= files + 1);
}

TEST(a_killed_replace_leaves_old_or_new)
{
	fresh();
	CHECK_INT(put("f", "old"), 0);
	for (int n = 0; n < 20; n++) {
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (!pid) {
			for (;;)
				put("f", n & 1 ? "new" : "newer");
		}
		usleep(500u * (unsigned)n);
		kill(pid, SIGKILL);
		CHECK_INT(waitpid(pid, &status, 0), pid);
		CHECK(!strncmp(got("f"), "new", 3) || !strcmp(got("f"), "old"));
	}
}

TEST(dir_make_makes_all_and_follows_nothing)
{
	struct stat st;
	int fd;

	fresh();
	fd = epd_dir_make(dir, "a/b//c/");
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK_INT(epd_dir_sync(fd), 0);
	close(fd);
	CHECK_INT(fstatat(dir, "a/b/c", &st, 0), 0);
	CHECK(S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
	fd = epd_dir_make(dir, "a/b/c");
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(put("f", "x"), 0);
	CHECK_INT(symlinkat("a", dir, "l"), 0);
	CHECK_INT(epd_dir_make(dir, "f"), -ENOTDIR);
	CHECK_INT(epd_dir_make(dir, "f/x"), -ENOTDIR);
	CHECK_INT(epd_dir_make(dir, "l/x"), -ENOTDIR);
	CHECK_INT(epd_dir_make(dir, "l"), -ENOTDIR);
	CHECK_INT(epd_dir_make(dir, "../x"), -EXDEV);
	CHECK_INT(epd_dir_make(dir, "/x"), -EXDEV);
	CHECK_INT(epd_dir_make(dir, ""), -ENOENT);
	fault.no = EIO;
	fault.left = 0;
	CHECK_INT(epd_dir_make(dir, "new/x"), -EIO);
}

TEST(dir_root_goes_where_a_person_says)
{
	char path[300];
	int fd;

	fresh();
	CHECK_INT(mkdirat(dir, "real", 0700), 0);
	CHECK_INT(symlinkat("real", dir, "l"), 0);
	snprintf(path, sizeof path, "%s/l/x", where);
	CHECK_INT(epd_dir_root(path, 0), -ENOENT);
	fd = epd_dir_root(path, 1);
	CHECK(fd >= 0);
	close(fd);
	fd = epd_dir_root(path, 0);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(chdir(where), 0);
	fd = epd_dir_root("real/../l/x/", 1);
	CHECK(fd >= 0);
	close(fd);
	fd = epd_dir_root("rel/y", 1);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(chdir("/"), 0);
	fd = epd_dir_root("/", 1);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(epd_dir_root("", 1), -ENOENT);
}

static int
stop_at_two(void *arg, const char *name)
{
	(void)name;
	return ++*(int *)arg == 2 ? 77 : 0;
}

TEST(dir_each_stops_when_told)
{
	int n = 0;

	fresh();
	CHECK_INT(put("a", ""), 0);
	CHECK_INT(put("b", ""), 0);
	CHECK_INT(put("c", ""), 0);
	CHECK_INT(epd_dir_each(dir, stop_at_two, &n), 77);
	CHECK_INT(n, 2);
	CHECK_INT(entries(), 3);
	CHECK_INT(entries(), 3);
	CHECK_INT(epd_dir_each(-1, stop_at_two, &n), -EBADF);
}

TEST(remove_takes_trees_not_what_links_name)
{
	char name[16];
	int fd, half = -1;

	fresh();
	close(epd_dir_make(dir, "t/u/v"));
	close(epd_dir_make(dir, "keep"));
	CHECK_INT(put("keep/f", "x"), 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "t/u/%d", i);
		CHECK_INT(epd_file_replace(dir, name, NULL, 0, 0), 0);
	}
	CHECK_INT(symlinkat("../keep", dir, "t/l"), 0);
	CHECK_INT(epd_file_remove(dir, "t"), 0);
	CHECK_INT(entries(), 1);
	CHECK_STR(got("keep/f"), "x");
	CHECK_INT(epd_file_remove(dir, "t"), 0);
	CHECK_INT(epd_file_remove(dir, "t/none"), 0);
	CHECK_INT(epd_file_remove(dir, "../x"), -EXDEV);
	CHECK_INT(epd_file_remove(dir, "."), -EINVAL);
	CHECK_INT(epd_file_remove(dir, ""), -EINVAL);
	CHECK_INT(epd_file_remove(dir, "keep/f"), 0);
	CHECK_INT(epd_file_remove(dir, "keep"), 0);
	CHECK_INT(entries(), 0);
	/* Too deep to follow is an error, and no crash. */
	fd = dup(dir);
	for (int i = 0; i < 140; i++) {
		int next = epd_dir_make(fd, "d");

		CHECK(next >= 0);
		if (i == 70)
			half = dup(next);
		close(fd);
		fd = next;
	}
	close(fd);
	CHECK_INT(epd_file_remove(dir, "d"), -ENAMETOOLONG);
	CHECK_INT(epd_file_remove(half, "d"), 0);
	close(half);
	CHECK_INT(epd_file_remove(dir, "d"), 0);
	CHECK_INT(entries(), 0);
}

static int
refuse_at(void *arg, size_t n)
{
	(void)n;
	return (*(int *)arg)-- == 0;
}

TEST(what_lies_in_a_folder)
{
	struct stat st, other;

	fresh();
	CHECK_INT(mkdirat(dir, "a", 0700), 0);
	CHECK_INT(mkdirat(dir, "a/b", 0700), 0);
	CHECK_INT(mkdirat(dir, "c", 0700), 0);
	CHECK_INT(symlinkat("../a/b", dir, "c/d"), 0);
	CHECK_INT(fstatat(dir, "a", &st, 0), 0);
	CHECK_INT(fstatat(dir, "c", &other, 0), 0);
	CHECK(epd_file_lies_in(openat(dir, "a", O_PATH), &st));
	CHECK(epd_file_lies_in(openat(dir, "a/b", O_PATH), &st));
	CHECK(epd_file_lies_in(openat(dir, "c/d", O_PATH), &st));
	CHECK(!epd_file_lies_in(openat(dir, "c/d", O_PATH), &other));
	CHECK(!epd_file_lies_in(openat(dir, ".", O_PATH), &st));
	CHECK(!epd_file_lies_in(open("/", O_PATH), &st));
	CHECK(!epd_file_lies_in(-1, &st));
	CHECK_INT(epd_file_remove(dir, "a"), 0);
	CHECK_INT(epd_file_remove(dir, "c"), 0);
}

TEST(reading_without_memory_keeps_what_was)
{
	struct epd_buf b = { 0 };
	int left, rc = -1, n;

	fresh();
	CHECK_INT(put("f", "12345"), 0);
	epd_buf_str(&b, "old");
	for (n = 0; rc; n++) {
		left = n;
		epd_alloc_hook(refuse_at, &left);
		rc = epd_file_read(dir, "f", 100, &b);
		epd_alloc_hook(NULL, NULL);
		if (rc) {
			CHECK_INT(rc, -ENOMEM);
			CHECK(b.n == 3 && !memcmp(b.p, "old", 3));
		}
	}
	CHECK_INT(n, 2);
	CHECK_STR(epd_buf_cstr(&b), "12345");
	epd_buf_free(&b);
	fresh();
	CHECK_INT(rmdir(where), 0);
	close(dir);
	dir = -1;
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
