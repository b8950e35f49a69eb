/*
 * shard_kill.h - kills at every named point: before each call that changes
 * something, and within each write.  A point's name says the call, the file,
 * and whether the workflow's lock is held.
 *
 * A program that includes this has its own pwrite and so on.
 */
#ifndef TESTS_SHARD_KILL_H
#define TESTS_SHARD_KILL_H

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/unit/shard_hold.h"
#include "tests/unit/shard_score.h"

enum { KILL_POINTS = 128, KILL_NAME = 40, KILL_CALLS = 4096 };

/* Shared with the child: the points by name, and which each call was. */
struct kill_points {
	char name[KILL_POINTS][KILL_NAME];
	int n, calls;
	uint8_t at[KILL_CALLS];
	struct fault_score score;
};

static struct {
	struct kill_points *all;	/* NULL: nothing is counted */
	int nth;			/* the call that is the last; 0: none */
	int locked, failing;		/* the next flush is to fail */
	long (*raw)(long, ...);
} killing;

__attribute__((constructor)) static void
kill_begin(void)
{
	*(void **)&killing.raw = dlsym(RTLD_NEXT, "syscall");
}

/* What the file is, by its name; a temporary is one whatever it is for. */
static void
kill_file(char out[16], int fd, const char *path, int64_t off)
{
	char link[40], full[300];
	const char *name = path;
	long n;

	if (!path) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		n = killing.raw(SYS_readlinkat, AT_FDCWD, link, full,
		    sizeof full - 1);
		full[n > 0 ? n : 0] = '\0';
		name = strrchr(full, '/');
		name = name ? name + 1 : full;
	}
	if (!strncmp(name, "log.", 4))
		name = "log";
	else if (!strncmp(name, ".tmp.", 5))
		name = "temporary";
	else if (!strncmp(name, "epd-test.", 9) || !strcmp(name, "."))
		name = "folder";
	else if (!strcmp(name, "tip") && off)
		name = "mark";
	snprintf(out, 16, "%.15s", name);
}

/* One more call; it may be the last.  1: within it. */
static int
kill_point(const char *call, int fd, const char *path, int64_t off, int within)
{
	struct kill_points *p = killing.all;
	char name[KILL_NAME], file[16];
	int i, no = errno;

	if (!p)
		return 0;
	kill_file(file, fd, path, off);
	snprintf(name, sizeof name, "%s %s%s", call, file,
	    killing.locked ? ", locked" : "");
	for (i = 0; i < p->n && strcmp(p->name[i], name); i++)
		;
	if (i == p->n && p->n < KILL_POINTS)
		strcpy(p->name[p->n++], name);
	if (p->calls < KILL_CALLS)
		p->at[p->calls] = (uint8_t)i;
	errno = no;
	if (++p->calls != killing.nth)
		return 0;
	if (!within)
		killing.raw(SYS_kill, getpid(), SIGKILL);
	return 1;
}

#define KILLS(call, fd, path) kill_point(call, fd, path, 0, 0)

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	kill_point("write", fd, NULL, off, 0);
	if (kill_point("half of", fd, NULL, off, 1)) {
		killing.raw(SYS_pwrite64, fd, p, n / 2, off);
		killing.raw(SYS_kill, getpid(), SIGKILL);
	}
	return killing.raw(SYS_pwrite64, fd, p, n, off);
}

int
fdatasync(int fd)
{
	long rc;

	KILLS("flush", fd, NULL);
	if (killing.failing) {
		killing.failing = 0;
		errno = EIO;
		return -1;
	}
	rc = killing.raw(SYS_fdatasync, fd);
	KILLS("flushed", fd, NULL);
	return (int)rc;
}

int
fsync(int fd)
{
	KILLS("sync", fd, NULL);
	return (int)killing.raw(SYS_fsync, fd);
}

int
ftruncate(int fd, off_t n)
{
	KILLS("cut", fd, NULL);
	return (int)killing.raw(SYS_ftruncate, fd, n);
}

int
renameat(int a, const char *from, int b, const char *to)
{
	KILLS("rename to", b, to);
	return (int)killing.raw(SYS_renameat2, a, from, b, to, 0L);
}

int
unlinkat(int fd, const char *path, int flags)
{
	KILLS("remove", fd, path);
	return (int)killing.raw(SYS_unlinkat, fd, path, flags);
}

int
fcntl(int fd, int what, ...)
{
	struct flock *l;
	va_list ap;
	long arg;

	va_start(ap, what);
	arg = va_arg(ap, long);
	va_end(ap);
	l = (struct flock *)arg;
	if (what == F_OFD_SETLK) {
		char file[16];
		int whole = 0;

		kill_file(file, fd, NULL, 0);
		whole = !strcmp(file, "lock");
		KILLS(l->l_type == F_UNLCK ? "unlock" : "lock", fd, NULL);
		arg = killing.raw(SYS_fcntl, fd, what, arg);
		if (whole && !arg)
			killing.locked = l->l_type != F_UNLCK;
		return (int)arg;
	}
	return (int)killing.raw(SYS_fcntl, fd, what, arg);
}

/* openat2 comes this way, for the most part to look. */
long
syscall(long no, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, no);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (no == SYS_openat2 && *(uint64_t *)a[2] & O_CREAT)
		KILLS("make", (int)a[0], (const char *)a[1]);
	return killing.raw(no, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- what is done meanwhile ---- */

static inline void
kill_try(struct fault_score *score, struct epd_shard *s, int k)
{
	uint32_t id;

	score->rc[k] = EPD_EUNSURE;	/* if it dies in there */
	score->rc[k] = shard_create(s, (uint64_t)k + 1, (uint64_t)k + 1, &id);
}

/* Bytes that are no frame, where the next one is to be. */
static inline int
kill_litter(int dir)
{
	static const char none[100] = "no frame";
	char name[20];
	uint32_t first, last;
	struct stat st;
	int fd, rc = 0;

	for (first = last = 1; last < 1000; last++) {
		snprintf(name, sizeof name, "log.%08u", last);
		if (!faccessat(dir, name, F_OK, 0))
			first = last;
	}
	snprintf(name, sizeof name, "log.%08u", first);
	fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || killing.raw(SYS_pwrite64, fd, none,
	    sizeof none, st.st_size) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Open anew, after something happened to the folder. */
static inline struct epd_shard *
kill_reopen(struct epd_shard *s, int dir, const struct epd_shard_options *o)
{
	struct epd_shard *next = NULL;

	epd_shard_close(s);
	return epd_shard_open(&next, dir, o, NULL) ? NULL : next;
}

/* Twelve creates, and between them all else that a log goes through. */
static inline int
kill_work(struct fault_score *score, int dir, struct epd_procs *procs,
    uint64_t checkpoint)
{
	struct epd_shard_options o = fault_options(1);
	struct epd_shard *s = NULL;
	uint64_t lease = 0;
	int k = 0;

	o.checkpoint_bytes = checkpoint;
	o.procs = procs;
	if (epd_shard_open(&s, dir, &o, NULL))
		return 1;
	for (; k < 4; k++)
		kill_try(score, s, k);
	if (epd_shard_lease(s, 1, 0, EPD_LEASE_DECODE, 60000, &lease, NULL) ||
	    epd_shard_renew(s, lease, 70000, NULL))
		return 2;
	kill_try(score, s, k++);
	if (epd_shard_drop(s, lease, "", NULL))
		return 3;
	/* A flush that fails; the next one settles it. */
	killing.failing = 1;
	kill_try(score, s, k++);
	if (!(s = kill_reopen(s, dir, &o)))
		return 4;
	kill_try(score, s, k++);
	/* A torn tail, which the next append cuts. */
	kill_litter(dir);
	if (!(s = kill_reopen(s, dir, &o)))
		return 5;
	for (; k < 10; k++)
		kill_try(score, s, k);
	if (epd_shard_checkpoint(s, NULL) ||
	    epd_shard_expire(s, NULL, NULL, NULL) < 0)
		return 6;
	/* A lost tip. */
	if (killing.raw(SYS_unlinkat, dir, "tip", 0))
		return 7;
	if (!(s = kill_reopen(s, dir, &o)))
		return 8;
	for (; k < FAULT_OPS; k++)
		kill_try(score, s, k);
	epd_shard_close(s);
	return 0;
}

/* One child, killed at its nth call; how it ended. */
static inline int
kill_one(struct kill_points *all, int nth, struct epd_procs *procs,
    uint64_t checkpoint)
{
	int dir = scratch_open(), rc;
	pid_t pid;

	all->calls = 0;
	for (int k = 0; k < FAULT_OPS; k++)
		all->score.rc[k] = 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		killing.all = all;
		killing.nth = nth;
		_exit(kill_work(&all->score, dir, procs, checkpoint));
	}
	rc = scratch_wait(pid);
	if (!nth || rc == -SIGKILL)
		fault_verify(&all->score, dir);
	if (check_failed)
		printf("# killed at call %d, %s\n", nth,
		    all->name[all->at[nth ? nth - 1 : 0]]);
	scratch_close(dir);
	return rc;
}

/* Each call of such a run, and again with other checkpoints, so many times. */
static inline void
kill_all(int kills)
{
	struct kill_points *all = mmap(NULL, sizeof *all, PROT_READ |
	    PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int store = scratch_open(), done = 0, met = 0, acked = 0;
	int hit[KILL_POINTS] = { 0 };
	struct epd_procs *procs;

	CHECK(all != MAP_FAILED);
	CHECK_INT(epd_procs_open(&procs, store), 0);
	for (uint64_t round = 0; done < kills; round++) {
		const uint64_t checkpoint = 700 + 600 * (round % 6);
		int calls;

		CHECK_INT(kill_one(all, 0, procs, checkpoint), 0);
		calls = all->calls;
		CHECK(calls > 100 && calls < KILL_CALLS);
		for (int n = 1; n <= calls; n++, done++) {
			CHECK_INT(kill_one(all, n, procs, checkpoint),
			    -SIGKILL);
			CHECK(!check_failed);
			hit[all->at[n - 1]]++;
			for (int k = 0; k < FAULT_OPS; k++)
				acked += !all->score.rc[k];
		}
	}
	for (int i = 0; i < all->n; i++) {
		met += hit[i] > 0;
		if (getenv("SHARD_WHY"))
			printf("# %5d %s\n", hit[i], all->name[i]);
	}
	printf("# row 1: %s kills at %d of %d points, 0 of %s acknowledged "
	    "lost\n", row_n((unsigned)done), met, all->n,
	    row_n((unsigned)acked));
	CHECK_INT(met, all->n);
	CHECK(all->n < KILL_POINTS);
	epd_procs_close(procs);
	munmap(all, sizeof *all);
	scratch_close(store);
}

#endif
