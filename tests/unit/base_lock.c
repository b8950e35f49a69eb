/* base_lock.c - locks, procs and metrics among processes that come and die. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/metrics.h"

static char where[256];
static int dir = -1;

static void
fresh(void)
{
	const char *t = getenv("TMPDIR");

	if (dir >= 0) {
		close(dir);
		epd_file_remove(AT_FDCWD, where + 1);
	}
	snprintf(where, sizeof where, "%s/epd-lock.XXXXXX", t ? t : "/tmp");
	if (!mkdtemp(where) || chdir("/"))
		abort();
	dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int
lock_file(void)
{
	return epd_file_open(dir, "lock", O_RDWR | O_CREAT, 0600);
}

/* A child that does fn, says so, and waits to be killed; -1 if it failed. */
static pid_t
child(int (*fn)(void *arg), void *arg)
{
	int p[2];
	char c = 0;
	pid_t pid;

	if (pipe(p))
		return -1;
	pid = fork();
	if (!pid) {
		close(p[0]);
		c = fn(arg) ? 'n' : 'y';
		if (write(p[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(p[1]);
	if (read(p[0], &c, 1) != 1)
		c = 0;
	close(p[0]);
	return c == 'y' ? pid : -1;
}

static void
end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int
take_lock(void *arg)
{
	(void)arg;
	return epd_lock_take(lock_file(), 100, NULL);
}

TEST(lock_names_its_holder_and_goes_with_it)
{
	struct epd_why why = { "" };
	char want[80], text[32] = "";
	uint64_t begin;
	int fd;
	pid_t pid;

	fresh();
	pid = child(take_lock, NULL);
	CHECK(pid > 0);
	fd = lock_file();
	begin = epd_clock_boot_ns();
	CHECK_INT(epd_lock_take(fd, 30, &why), EPD_ELOCKED);
	CHECK(epd_clock_boot_ns() - begin >= 30000000u);
	CHECK(epd_clock_boot_ns() - begin < 2000000000u);
	snprintf(want, sizeof want, "held by process %d for more than 30 ms",
	    (int)pid);
	CHECK_STR(why.text, want);
	CHECK_INT(epd_lock_take(fd, 0, NULL), EPD_ELOCKED);
	CHECK_INT(epd_lock_try(fd), EPD_ELOCKED);
	end(pid);
	CHECK_INT(epd_lock_take(fd, 1000, &why), 0);
	CHECK(epd_file_pread(fd, text, 31, 0) > 0);
	CHECK_INT(atoi(text), getpid());
	close(fd);
}

TEST(lock_excludes_within_a_process_and_drops)
{
	struct epd_why why = { "" };
	int a, b;

	fresh();
	a = lock_file();
	b = lock_file();
	CHECK_INT(epd_lock_try(a), 0);
	CHECK_INT(epd_lock_take(b, 2, &why), EPD_ELOCKED);
	CHECK_STR(why.text, "held by another process for more than 2 ms");
	epd_lock_drop(a);
	CHECK_INT(epd_lock_take(b, 0, NULL), 0);
	CHECK_INT(epd_lock_take(b, 0, NULL), 0);
	close(b);
	CHECK_INT(epd_lock_take(a, 0, NULL), 0);
	close(a);
	CHECK_INT(epd_lock_take(a, 0, NULL), -EBADF);
	a = epd_file_open(dir, "lock", O_RDONLY, 0);
	CHECK_INT(epd_lock_take(a, 0, NULL), -EBADF);
	close(a);
}

static int
share_lock(void *arg)
{
	(void)arg;
	return epd_lock_share(lock_file(), 100);
}

/* Of anybody's and any kind but one's own; who cannot ask is told that it is. */
TEST(lock_is_held_by_somebody_else)
{
	int a, b;
	pid_t pid;

	fresh();
	a = lock_file();
	b = epd_file_open(dir, "lock", O_RDONLY, 0);
	CHECK_INT(epd_lock_is_held(b, 0, 0), 0);
	CHECK_INT(epd_lock_try(a), 0);
	CHECK_INT(epd_lock_is_held(b, 0, 0), 1);
	CHECK_INT(epd_lock_is_held(b, 100, 5), 1);
	CHECK_INT(epd_lock_is_held(a, 0, 0), 0);
	epd_lock_drop(a);
	CHECK_INT(epd_lock_is_held(b, 0, 0), 0);
	pid = child(share_lock, NULL);
	CHECK(pid > 0);
	CHECK_INT(epd_lock_is_held(b, 0, 0), 1);
	end(pid);
	CHECK_INT(epd_lock_is_held(b, 0, 0), 0);
	close(a);
	close(b);
	CHECK_INT(epd_lock_is_held(-1, 0, 0), 1);
}

TEST(lock_waits_end_though_the_clock_stands)
{
	struct epd_clock_fake fake = { 1, 1 };
	int a, b;

	fresh();
	a = lock_file();
	b = lock_file();
	CHECK_INT(epd_lock_take(a, 0, NULL), 0);
	epd_clock_fake(&fake);
	CHECK_INT(epd_lock_take(b, 20, NULL), EPD_ELOCKED);
	epd_clock_fake(NULL);
	close(a);
	close(b);
}

TEST(lock_is_handed_on_while_another_waits)
{
	int fd, total = 0;
	pid_t pid[4];

	fresh();
	fd = epd_file_open(dir, "sum", O_RDWR | O_CREAT, 0600);
	CHECK_INT(epd_file_pwrite(fd, &total, sizeof total, 0), 0);
	for (int i = 0; i < 4; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i])
			continue;
		for (int j = 0; j < 25; j++) {
			int l = lock_file(), v = 0;

			if (epd_lock_take(l, 20000, NULL) ||
			    epd_file_pread(fd, &v, sizeof v, 0) < 0)
				_exit(1);
			v++;
			if (epd_file_pwrite(fd, &v, sizeof v, 0))
				_exit(1);
			epd_lock_drop(l);
			close(l);
		}
		_exit(0);
	}
	for (int i = 0; i < 4; i++) {
		int status;

		CHECK_INT(waitpid(pid[i], &status, 0), pid[i]);
		CHECK_INT(status, 0);
	}
	CHECK(epd_file_pread(fd, &total, sizeof total, 0) == sizeof total);
	CHECK_INT(total, 100);
	close(fd);
}

static struct epd_proc *shared;

static int
register_self(void *arg)
{
	struct epd_procs *p;
	int rc = epd_procs_open(&p, dir);

	(void)arg;
	if (!rc)
		*shared = *epd_procs_self(p);
	return rc;
}

TEST(procs_tells_the_living_from_the_dead)
{
	struct epd_procs *a, *b;
	struct epd_proc who;
	pid_t pid;

	fresh();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_INT(epd_procs_open(&a, dir), 0);
	CHECK_INT(epd_procs_self(a)->pid, getpid());
	CHECK_INT(epd_procs_alive(a, epd_procs_self(a)), 1);
	pid = child(register_self, NULL);
	CHECK(pid > 0);
	CHECK_INT(shared->pid, pid);
	CHECK_INT(epd_procs_alive(a, shared), 1);
	kill(pid, SIGSTOP);
	CHECK_INT(epd_procs_alive(a, shared), 1);
	who = *shared;
	who.start++;
	CHECK_INT(epd_procs_alive(a, &who), 0);
	who = *shared;
	who.boot[3] ^= 1;
	CHECK_INT(epd_procs_alive(a, &who), 0);
	who = *epd_procs_self(a);
	who.start--;
	CHECK_INT(epd_procs_alive(a, &who), 0);
	who.pid = -1;
	CHECK_INT(epd_procs_alive(a, &who), 0);
	/* Of another namespace the byte alone tells. */
	who = *shared;
	who.start ^= 1ull << 60;
	CHECK_INT(epd_procs_alive(a, &who), 1);
	/* Dead as soon as killed, though not waited for yet. */
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	CHECK_INT(epd_procs_alive(a, shared), 0);
	waitpid(pid, NULL, 0);
	CHECK_INT(epd_procs_alive(a, shared), 0);
	CHECK_INT(epd_procs_alive(a, &who), 0);
	/* A second opening, and closing, of one process does no harm. */
	CHECK_INT(epd_procs_open(&b, dir), 0);
	CHECK_INT(epd_procs_alive(b, epd_procs_self(a)), 1);
	epd_procs_close(b);
	CHECK_INT(epd_procs_alive(a, epd_procs_self(a)), 1);
	pid = fork();
	if (!pid) {
		if (epd_procs_open(&b, dir))
			_exit(2);
		_exit(epd_procs_alive(b, epd_procs_self(a)) != 1);
	}
	{
		int status;

		waitpid(pid, &status, 0);
		CHECK_INT(status, 0);
	}
	epd_procs_close(a);
	epd_procs_close(NULL);
	munmap(shared, sizeof *shared);
}

/* The dead one's child keeps its open file, and with it the byte. */
static int
register_and_leave_a_child(void *arg)
{
	int rc = register_self(NULL);
	pid_t pid = rc ? -1 : fork();

	if (!pid)
		for (;;)
			pause();
	*(pid_t *)arg = pid;
	return pid < 0;
}

TEST(procs_is_not_fooled_by_an_heir)
{
	struct epd_procs *a;
	pid_t pid, *heir;

	fresh();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	heir = mmap(NULL, sizeof *heir, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && heir != MAP_FAILED);
	CHECK_INT(epd_procs_open(&a, dir), 0);
	pid = child(register_and_leave_a_child, heir);
	CHECK(pid > 0);
	CHECK_INT(epd_procs_alive(a, shared), 1);
	end(pid);
	CHECK_INT(epd_procs_alive(a, shared), 0);
	kill(*heir, SIGKILL);
	epd_procs_close(a);
	munmap(shared, sizeof *shared);
	munmap(heir, sizeof *heir);
}

static int
refuse_all(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return 1;
}

TEST(opening_without_memory_fails_clean)
{
	struct epd_procs *p = (struct epd_procs *)1;
	struct epd_metrics *m = (struct epd_metrics *)1;

	fresh();
	epd_alloc_hook(refuse_all, NULL);
	CHECK_INT(epd_procs_open(&p, dir), -ENOMEM);
	CHECK_INT(epd_metrics_open(&m, dir), -ENOMEM);
	epd_alloc_hook(NULL, NULL);
	CHECK_INT(epd_procs_open(&p, -1), -EBADF);
	CHECK_INT(epd_metrics_open(&m, -1), -EBADF);
	CHECK(p == (struct epd_procs *)1 && m == (struct epd_metrics *)1);
}

static int
no_temporaries(void *arg, const char *name)
{
	(void)arg;
	return !strncmp(name, EPD_TEMP_PREFIX, 5);
}

/* Processes that all begin at once, when this one closes its end of a pipe. */
static int
count_in_processes(int n)
{
	int go[2], bad = 0;
	char c;

	if (pipe(go))
		return -1;
	for (int i = 0; i < n; i++) {
		struct epd_metrics *m;
		pid_t pid = fork();

		if (pid < 0)
			return -1;
		if (pid)
			continue;
		close(go[1]);
		if (read(go[0], &c, 1) || epd_metrics_open(&m, dir))
			_exit(1);
		for (int j = 0; j < 1000; j++)
			epd_count(m, EPD_M_MM_HIT, 2);
		epd_count_max(m, EPD_M_ITL_MAX_NS, 100u + (unsigned)i);
		_exit(0);
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < n; i++) {
		int status;

		wait(&status);
		bad |= status;
	}
	return bad;
}

TEST(metrics_add_up_over_processes)
{
	struct epd_metrics *m;

	for (int round = 0; round < 20; round++) {
		fresh();
		/* A file of another layout is replaced by one of them only. */
		if (round & 1)
			CHECK_INT(epd_file_replace(dir, "metrics",
			    &(struct epd_span){ "EPDMETR0", 8 }, 1, 0), 0);
		CHECK_INT(count_in_processes(8), 0);
		CHECK_INT(epd_metrics_open(&m, dir), 0);
		CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 16000);
		CHECK_INT(epd_metrics_get(m, EPD_M_ITL_MAX_NS), 107);
		CHECK_INT(epd_metrics_get(m, EPD_M_MM_MISS), 0);
		epd_metrics_close(m);
		CHECK_INT(epd_dir_each(dir, no_temporaries, NULL), 0);
	}
}

TEST(metrics_without_a_file_count_nothing)
{
	epd_count(NULL, EPD_M_MM_HIT, 1);
	epd_count_max(NULL, EPD_M_MM_HIT, 1);
	epd_metrics_reset(NULL);
	epd_metrics_close(NULL);
	CHECK_INT(epd_metrics_get(NULL, EPD_M_MM_HIT), 0);
	CHECK_STR(epd_metric_name(EPD_M_MM_HIT), "mm_hit");
	CHECK_STR(epd_metric_group(EPD_M_TRANSFER_TIMEOUTS), "transfer");
	CHECK_STR(epd_metric_name(EPD_M_COUNT), "unknown");
}

TEST(metrics_read_are_a_copy)
{
	struct epd_metrics *m, *copy;
	struct stat before, after;
	struct epd_buf good = { 0 };
	struct epd_span s;

	fresh();
	CHECK_INT(epd_metrics_read(&copy, dir), 0);
	CHECK_INT(epd_metrics_get(copy, EPD_M_MM_HIT), 0);
	epd_metrics_close(copy);
	CHECK_INT(fstatat(dir, "metrics", &before, 0), -1);
	CHECK_INT(epd_metrics_open(&m, dir), 0);
	epd_count(m, EPD_M_MM_HIT, 5);
	CHECK_INT(fstatat(dir, "metrics", &before, 0), 0);
	CHECK_INT(epd_metrics_read(&copy, dir), 0);
	CHECK_INT(epd_metrics_get(copy, EPD_M_MM_HIT), 5);
	epd_count(copy, EPD_M_MM_HIT, 1);
	epd_count(m, EPD_M_MM_MISS, 2);
	CHECK_INT(epd_metrics_get(copy, EPD_M_MM_HIT), 6);
	CHECK_INT(epd_metrics_get(copy, EPD_M_MM_MISS), 0);
	CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 5);
	epd_metrics_close(copy);
	epd_metrics_close(m);
	/* Of another boot, or cut: zeros, and left as it is. */
	CHECK_INT(epd_file_read(dir, "metrics", 65536, &good), 0);
	for (size_t n = 0; n <= good.n; n += good.n / 2) {
		good.p[20] ^= n == good.n;
		s = epd_span(good.p, n);
		CHECK_INT(epd_file_replace(dir, "metrics", &s, 1, 0), 0);
		CHECK_INT(fstatat(dir, "metrics", &before, 0), 0);
		CHECK_INT(epd_metrics_read(&copy, dir), 0);
		CHECK_INT(epd_metrics_get(copy, EPD_M_MM_HIT), 0);
		epd_metrics_close(copy);
		CHECK_INT(fstatat(dir, "metrics", &after, 0), 0);
		CHECK(before.st_ino == after.st_ino &&
		    before.st_size == after.st_size);
	}
	epd_buf_free(&good);
	CHECK_INT(unlinkat(dir, "metrics", 0), 0);
	CHECK_INT(mkfifoat(dir, "metrics", 0600), 0);
	CHECK_INT(epd_metrics_read(&copy, dir), -EINVAL);
	CHECK_INT(unlinkat(dir, "metrics", 0), 0);
	CHECK_INT(epd_metrics_read(&copy, -1), -EBADF);
}

TEST(metrics_survive_any_file_under_their_name)
{
	struct epd_metrics *m;
	struct epd_buf good = { 0 };
	struct epd_span s;
	struct stat st;

	fresh();
	CHECK_INT(epd_metrics_open(&m, dir), 0);
	epd_count(m, EPD_M_MM_HIT, 5);
	epd_metrics_close(m);
	CHECK_INT(epd_metrics_open(&m, dir), 0);
	CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 5);
	epd_metrics_reset(m);
	CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 0);
	epd_count(m, EPD_M_MM_HIT, 6);
	epd_metrics_close(m);
	CHECK_INT(epd_file_read(dir, "metrics", 65536, &good), 0);
	for (size_t cut = 0; cut < good.n; cut += 37) {
		s = epd_span(good.p, cut);
		CHECK_INT(epd_file_replace(dir, "metrics", &s, 1, 0), 0);
		CHECK_INT(epd_metrics_open(&m, dir), 0);
		epd_count(m, EPD_M_TRANSFER_TIMEOUTS, 1);
		CHECK_INT(epd_metrics_get(m, EPD_M_TRANSFER_TIMEOUTS), 1);
		CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 0);
		epd_metrics_close(m);
	}
	/* Whatever is in the head: magic, layout, boot, count. */
	s = epd_span(good.p, good.n);
	for (size_t i = 0; i < 64; i++) {
		good.p[i] ^= 0x10;
		CHECK_INT(epd_file_replace(dir, "metrics", &s, 1, 0), 0);
		good.p[i] ^= 0x10;
		CHECK_INT(epd_metrics_open(&m, dir), 0);
		CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 0);
		epd_metrics_close(m);
	}
	CHECK_INT(epd_file_replace(dir, "metrics", &s, 1, 0), 0);
	CHECK_INT(epd_metrics_open(&m, dir), 0);
	CHECK_INT(epd_metrics_get(m, EPD_M_MM_HIT), 6);
	epd_metrics_close(m);
	epd_buf_free(&good);
	CHECK_INT(unlinkat(dir, "metrics", 0), 0);
	CHECK_INT(symlinkat("other", dir, "metrics"), 0);
	CHECK_INT(epd_metrics_open(&m, dir), -ELOOP);
	CHECK(fstatat(dir, "other", &st, 0) < 0);
	CHECK_INT(unlinkat(dir, "metrics", 0), 0);
	CHECK_INT(mkfifoat(dir, "metrics", 0600), 0);
	CHECK_INT(epd_metrics_open(&m, dir), -EINVAL);
	CHECK_INT(unlinkat(dir, "metrics", 0), 0);
	CHECK_INT(mkdirat(dir, "metrics", 0700), 0);
	CHECK_INT(epd_metrics_open(&m, dir), -EISDIR);
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
