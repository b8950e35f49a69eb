/*
 * mount_kill.h - the daemon killed or stopped while processes are in the mount in
 * every way they can be: whoever was in it is out of it at once.
 */
#ifndef TESTS_MOUNT_KILL_H
#define TESTS_MOUNT_KILL_H

#include "tests/fs/mount_fsx.h"

enum { KL_KINDS = 9, KL_LOADS = 18, KL_ROOM = 65536 };

struct kl {
	atomic_ullong out_ms[KL_LOADS];	/* when each was out; 0: not yet */
	atomic_int how[KL_LOADS];	/* its errno */
	atomic_int in[KL_LOADS];	/* it has been in the mount */
};
static struct kl *kl;

static inline int
kl_is_over(int e)
{
	return e == ENOTCONN || e == ECONNABORTED || e == ESTALE;
}

static inline _Noreturn void
kl_out(int i, int e)
{
	kl->how[i] = e;
	kl->out_ms[i] = mt_ms();
	_exit(0);
}

/* Errors that are answers: the store is as it is. */
static inline void
kl_tell(int i, int kind, int rc)
{
	const int e = errno;

	if (rc >= 0) {
		kl->in[i] = 1;
		return;
	}
	/* Where it was unmounted there is an empty folder. */
	if (kl_is_over(e) || (e == ENOENT && access(mt_path("README"), F_OK)))
		kl_out(i, e);
	if (e != ENOENT && e != EAGAIN && e != EINTR && e != EINVAL &&
	    e != EPERM && e != ENODATA && e != EBUSY && e != EEXIST)
		mt_bad("load %d: %s", kind, strerror(e));
}

static int kl_at;

/* What is mapped and no more to be had is a signal: that is an answer. */
static inline void
kl_bus(int sig)
{
	(void)sig;
	kl->how[kl_at] = EFAULT;
	kl->out_ms[kl_at] = mt_ms();
	_exit(0);
}

static inline const char *
kl_page(uint64_t *r)
{
	const struct mt_file *f;

	do
		f = mt_file + (*r = mt_mix(*r)) % (uint64_t)mt_files;
	while (!f->is_page);
	return f->path;
}

static inline void
kl_map(int i, uint64_t *r)
{
	int fd = open(mt_path("%s", kl_page(r)), O_RDONLY | O_CLOEXEC);
	struct stat st;
	volatile const uint8_t *p;

	kl_tell(i, 1, fd);
	if (fd < 0)
		return;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fstat(fd, &st) == 0 && (p = mmap(NULL, (size_t)st.st_size,
	    PROT_READ, MAP_SHARED, fd, 0)) != MAP_FAILED) {
		for (off_t at = 0; at < st.st_size; at += 4096)
			(void)p[at];
		munmap((void *)(uintptr_t)p, (size_t)st.st_size);
	}
	close(fd);
}

/* A verb and its answer; some wait for a job. */
static inline void
kl_ctl(int i, const char *path, const char *verb)
{
	char buf[4096];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n;

	kl_tell(i, 5, fd);
	if (fd < 0)
		return;
	n = write(fd, verb, strlen(verb));
	kl_tell(i, 6, (int)n);
	n = read(fd, buf, sizeof buf);
	kl_tell(i, 7, (int)n);
	close(fd);
}

static inline void
kl_made(int i, uint64_t *r)
{
	char path[1024];

	snprintf(path, sizeof path, "%s", mt_path(
	    "workflows/known/states/s1/forks/k%d-%llu", i,
	    (unsigned long long)((*r = mt_mix(*r)) % 1000)));
	kl_tell(i, 8, mkdir(path, 0755));
	kl_tell(i, 8, rmdir(path));
}

/* In the mount again and again, or waiting there, until it is gone. */
static inline _Noreturn void
kl_load(int i, const char *job)
{
	const struct sigaction bus = { .sa_handler = kl_bus };
	static char buf[KL_ROOM];
	uint64_t r = mt_mix(mt.seed + (uint64_t)i);
	struct pollfd p;
	struct stat st;
	struct dirent *e;
	DIR *d;
	int fd, held = open(mt_path("%s", kl_page(&r)), O_RDONLY | O_CLOEXEC);

	kl_at = i;
	sigaction(SIGBUS, &bus, NULL);
	for (;;) {
		errno = 0;
		switch (i % KL_KINDS) {
		case 0:
			kl_tell(i, 0, stat(mt_path("%s", kl_page(&r)), &st));
			break;
		case 1:
			kl_map(i, &r);
			break;
		case 2:		/* one that stays open */
			if (held < 0)
				held = open(mt_path("%s", kl_page(&r)),
				    O_RDONLY | O_CLOEXEC);
			kl_tell(i, 2, held);
			if (held < 0)
				break;
			(void)posix_fadvise(held, 0, 0, POSIX_FADV_DONTNEED);
			kl_tell(i, 2, (int)pread(held, buf, sizeof buf, 0));
			break;
		case 3:
			d = opendir(mt_path("pages"));
			kl_tell(i, 3, d ? 0 : -1);
			if (!d)
				break;
			errno = 0;
			while ((e = readdir(d)))
				errno = 0;
			kl_tell(i, 3, errno ? -1 : 0);
			closedir(d);
			break;
		case 4:		/* who waits for what does not come */
			fd = open(mt_path("workflows/known/states/s1/text"),
			    O_RDONLY | O_CLOEXEC);
			kl_tell(i, 4, fd);
			while (fd >= 0 && read(fd, buf, sizeof buf) > 0)
				;
			p = (struct pollfd){ .fd = fd, .events = POLLPRI };
			poll(&p, 1, 20000);
			if (p.revents & POLLERR)
				kl_tell(i, 4, (int)read(fd, buf, 1));
			close(fd);
			break;
		case 5:
			kl_ctl(i, mt_path("workflows/known/states/s1/ctl"),
			    "fork 1\n");
			break;
		case 6:
			kl_made(i, &r);
			break;
		case 7:		/* jobs, and who waits for them */
			if (*job)
				kl_ctl(i, mt_path("%s/ctl", job), i < KL_KINDS ?
				    "decode n 400 ignore-eos\nwait\n" : "wait\n");
			else
				kl_ctl(i, mt_path("workflows/known/states/s2/"
				    "ctl"), "say x\nwait\n");
			break;
		default:
			kl_tell(i, 8, (fd = open(mt_path("workflows/known/log"),
			    O_RDONLY | O_CLOEXEC)));
			if (fd < 0)
				break;
			kl_tell(i, 8, (int)read(fd, buf, sizeof buf));
			close(fd);
			break;
		}
	}
}

/* ---- rounds ---- */

struct kl_sum {
	unsigned rounds, loads, in, jobs, stuck, left;
	uint64_t worst_ms, sum_ms;
};

/* All that were in it are out, each within a second. */
static inline void
kl_await(struct kl_sum *s, const pid_t *pid, uint64_t from)
{
	uint64_t took;

	for (int i = 0; i < KL_LOADS; i++) {
		uint64_t now = mt_ms();
		int rc = mt_wait(pid[i], now < from + 3000 ?
		    (int)(from + 3000 - now) : 1);

		if (rc == -ETIMEDOUT) {
			mt_bad("load %d is still there, in state %c", i %
			    KL_KINDS, mt_proc_state(pid[i]));
			s->stuck++;
			kill(pid[i], SIGKILL);
			if (mt_wait(pid[i], 3000) == -ETIMEDOUT)
				mt_bad("and cannot be killed, in state %c",
				    mt_proc_state(pid[i]));
			continue;
		}
		if (rc)
			mt_bad("load %d ended with %d", i % KL_KINDS, rc);
		took = kl->out_ms[i] > from ? kl->out_ms[i] - from : 0;
		s->loads++;
		s->in += kl->in[i] != 0;
		s->sum_ms += took;
		s->worst_ms = took > s->worst_ms ? took : s->worst_ms;
		if (took > 1000)
			mt_bad("load %d: %s after %llu ms", i % KL_KINDS,
			    strerror(kl->how[i]), (unsigned long long)took);
	}
}

/* What the daemon has started ends too, and has nothing of the mount's. */
static inline void
kl_children(struct kl_sum *s, const pid_t *child, int n, uint64_t from)
{
	for (int i = 0; i < n; i++) {
		uint64_t now = mt_ms();

		if (mt_fds(child[i], "/dev/fuse"))
			mt_bad("a child of the daemon has /dev/fuse (%d)",
			    (int)child[i]);
		if (mt_wait(child[i], now < from + 10000 ? (int)(from + 10000 -
		    now) : 1) == -ETIMEDOUT && mt_proc_state(child[i])) {
			mt_bad("a child of the daemon lives on, in state %c",
			    mt_proc_state(child[i]));
			s->left++;
			kill(child[i], SIGKILL);
			mt_wait(child[i], 1000);
		}
	}
}

static inline void
kl_start(pid_t *pid, const char *job)
{
	memset(kl, 0, sizeof *kl);
	for (int i = 0; i < KL_LOADS; i++)
		if ((pid[i] = mt_fork()) == 0)
			kl_load(i, job);
}

/* The daemon, under load, gets the signal.  job: a state that can be decoded, or "". */
static inline void
kl_round(struct kl_sum *s, int sig, const char *job, int after_ms)
{
	pid_t pid[KL_LOADS], child[64];
	uint64_t from;
	int n, end;

	if (mt_up() < 0) {
		mt_bad("round %u: not mounted", s->rounds);
		mt_said();
		return;
	}
	kl_start(pid, job);
	usleep((useconds_t)after_ms * 1000);
	n = mt_children(mt.daemon, child, 64);
	if (n < 1)
		mt_bad("round %u: the daemon has no child", s->rounds);
	s->jobs += n > 1 ? (unsigned)n - 1 : 0;
	from = mt_ms();
	kill(mt.daemon, sig);
	end = mt_wait(mt.daemon, sig == SIGKILL ? 2000 : 5000);
	if (end == -ETIMEDOUT) {
		mt_bad("round %u: the daemon does not end, in state %c",
		    s->rounds, mt_proc_state(mt.daemon));
		kill(mt.daemon, SIGKILL);
		mt_wait(mt.daemon, 2000);
	} else if (end != (sig == SIGKILL ? -SIGKILL : 0)) {
		mt_bad("round %u: the daemon ended with %d", s->rounds, end);
	}
	if (sig != SIGKILL)
		from = mt_ms();		/* it may take its time, they may not */
	atomic_store(&mt.sh->daemon, 0);
	kl_await(s, pid, from);
	kl_children(s, child, n, from);
	if (sig == SIGKILL) {
		struct stat st;

		if (stat(mt.at, &st) == 0 || errno != ENOTCONN)
			mt_bad("after the kill stat says %s", strerror(errno));
		end = MT_RUN(NULL, 5000, "epd-mount", "-u", mt.at);
		if (end)
			mt_bad("epd-mount -u gives %d", end);
	}
	if (mt_mounted()) {
		mt_bad("round %u: still mounted", s->rounds);
		umount2(mt.at, MNT_DETACH);
	}
	if (mt_said())
		mt_bad("round %u: it said something", s->rounds);
	s->rounds++;
}

/* A state that a model can go on from, if commands and model are there. */
static inline const char *
kl_job(void)
{
	static char job[200];
	struct epd_buf b = {0};
	char out[160];

	snprintf(out, sizeof out, "%s/out", mt.dir);
	*job = '\0';
	if (MT_RUN(out, 60000, "epd-prefill", "-m", MT_MODEL, "-p",
	    "What does the sign say?") == 0 && mt_slurp(out, &b) == 0) {
		const char *text = epd_buf_cstr(&b), *slash = strchr(text, '/');

		if (slash)
			snprintf(job, sizeof job, "workflows/%.*s/states/%.*s",
			    (int)(slash - text), text, (int)strcspn(slash + 1,
			    "@\n"), slash + 1);
	}
	else
		printf("# no state to decode: no jobs\n");
	epd_buf_free(&b);
	unlink(out);
	return job;
}

#endif
