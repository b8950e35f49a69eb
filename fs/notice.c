/*
 * notice.c - telling of changes: attributes called back from the kernel, polls
 * woken, and files touched so that inotify speaks.
 *
 * The kernel tells inotify only of what is done to a file through its own mount.
 * So a child of ours, the toucher, truncates files that changed, which does nothing to
 * them.  It is a process, since one that waits for a file system it serves itself
 * cannot be killed; and it opens the mount anew each time, so that it keeps
 * nobody from unmounting, and looks that it is still this one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fs/hands.h"
#include "fs/notice.h"

enum {
	TOUCH_NS = 10000000, SHARE = 10,	/* between rounds of touching */
	DEAF_MS = 500			/* between looks where nobody says */
};

/* ---- polls ---- */

void
epd_fs_unpoll(struct epd_fs_mount *m, struct epd_fs_handle *h)
{
	struct epd_fs_poller **at, *p;

	pthread_mutex_lock(&m->fs.lock);
	for (at = &m->poller; (p = *at);) {
		if (p->h != h) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		fuse_pollhandle_destroy(p->ph);
		epd_free(p);
	}
	pthread_mutex_unlock(&m->fs.lock);
}

static unsigned
events(struct epd_fs_mount *m, struct epd_fs_handle *h)
{
	if (h->talk)
		return POLLOUT | (epd_fs_talk_ready(h->talk) ? POLLIN : 0);
	if (!(epd_fs_kind(h->at.kind)->how & EPD_FS_GROWS) || h->at.version)
		return POLLIN | POLLOUT;
	if (epd_fs_handle_is_gone(h, &m->fs))
		return POLLHUP | POLLIN;
	return epd_fs_handle_size(h, &m->fs) > epd_fs_handle_seen(h) ?
	    POLLIN | POLLPRI : 0;
}

static void
op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
    struct fuse_pollhandle *ph)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h = epd_fs_handle_of(fi);
	struct epd_fs_poller *p = NULL;
	unsigned now;

	(void)ino;
	if (ph) {
		epd_fs_unpoll(m, h);
		if (!(p = epd_calloc(1, sizeof *p)))
			fuse_pollhandle_destroy(ph);
	}
	pthread_mutex_lock(&m->fs.lock);
	if (p) {
		p->ph = ph;
		p->h = h;
		p->next = m->poller;
		m->poller = p;
	}
	epd_fs_sync(&m->fs);
	now = events(m, h);
	pthread_mutex_unlock(&m->fs.lock);
	fuse_reply_poll(req, now);
}

void
epd_fs_poll_ops(struct fuse_lowlevel_ops *ops)
{
	ops->poll = op_poll;
}

/* Those with something to read, taken off the list. */
static struct epd_fs_poller *
woken(struct epd_fs_mount *m)
{
	struct epd_fs_poller **at = &m->poller, *p, *out = NULL;

	while ((p = *at)) {
		if (!(events(m, p->h) & POLLIN)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->next = out;
		out = p;
	}
	return out;
}

/* ---- the toucher ---- */

static int
is_mount(int fd, dev_t dev)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dev;
}

/*
 * Each message is a device number and a path beneath the mount, and less than
 * PIPE_BUF, so that it is written whole or not at all.
 */
struct touch {
	dev_t dev;
	char path[1024];
};
_Static_assert(sizeof(struct touch) <= PIPE_BUF, "a message is one write");

static void
touch(const char *mountpoint, const struct touch *t)
{
	char self[32];
	int dir = open(mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;

	if (is_mount(dir, t->dev))
		fd = openat(dir, t->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (is_mount(fd, t->dev)) {
		snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
		(void)!truncate(self, 0);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
}

/* Nothing of the daemon's stays open here but the pipe. */
static void
let_go(int pipe_)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; null >= 0 && i < 3; i++)
		(void)dup2(null, i);
	if (pipe_ > 3)
		(void)close_range(3, (unsigned)pipe_ - 1, 0);
	(void)close_range((unsigned)pipe_ + 1, ~0u, 0);
}

static _Noreturn void
toucher(const char *mountpoint, int from)
{
	struct touch t;
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	/* The daemon is what is stopped; this ends with it. */
	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGTERM, &ignore, NULL);
	sigaction(SIGHUP, &ignore, NULL);
	(void)!chdir("/");
	(void)prctl(PR_SET_NAME, "epd-toucher");
	let_go(from);
	while (read(from, &t, sizeof t) == sizeof t)
		touch(mountpoint, &t);
	_exit(0);
}

void
epd_fs_toucher_start(struct epd_fs_mount *m)
{
	int pipe_[2];

	m->touch = -1;
	m->toucher = -1;
	if (pipe2(pipe_, O_CLOEXEC) < 0)
		return;
	if ((m->toucher = fork()) == 0) {
		close(pipe_[1]);
		toucher(m->fs.o.mountpoint, pipe_[0]);
	}
	close(pipe_[0]);
	if (m->toucher < 0) {
		close(pipe_[1]);
		return;
	}
	m->touch = pipe_[1];
	(void)fcntl(m->touch, F_SETFL, O_NONBLOCK);
}

void
epd_fs_toucher_stop(struct epd_fs_mount *m)
{
	if (m->touch >= 0)
		close(m->touch);
	if (m->toucher > 0)
		waitpid(m->toucher, NULL, 0);
	m->touch = -1;
}

/* Files that change without their workflow's state being another one. */
static int
is_watched(const struct epd_fs_at *at)
{
	switch (at->kind) {
	case EPD_FS_EVENTS: case EPD_FS_LOG:
		return 1;
	case EPD_FS_STATE_JSON: case EPD_FS_STATUS: case EPD_FS_VERSION_NO:
	case EPD_FS_EPOCH: case EPD_FS_TEXT: case EPD_FS_TOKENS:
	case EPD_FS_MESSAGES:
		return !at->version;
	default:
		return 0;
	}
}

/* A number that is another when the file is. */
static uint64_t
shows(struct epd_fs *fs, const struct epd_fs_node *n)
{
	const struct epd_fs_kind *k = epd_fs_kind(n->at.kind);
	struct epd_watch *w;
	struct epd_state st;
	struct epd_fs_workflow *of;
	uint64_t size = 0;

	/* To look at its size would be to read it. */
	if (n->at.kind == EPD_FS_LOG)
		return epd_fs_workflow(fs, &n->at, &of, NULL) < 0 ? 0 :
		    of->lsn + 1;
	if (k->how & EPD_FS_GROWS && k->size(fs, &n->at, &size) < 0)
		return 0;
	if (!n->at.state)
		return size + 1;
	if (epd_fs_watch(fs, &n->at, &w, NULL) < 0 ||
	    epd_shard_state(epd_watch_shard(w), n->at.state, &st) < 0)
		return 0;
	return (st.epoch << 32) + size + 1;
}

void
epd_fs_heed(struct epd_fs *fs, struct epd_fs_node *n)
{
	if (n->in[EPD_FS_TOUCHED].at || !is_watched(&n->at))
		return;
	n->seen = epd_fs_stamp(fs, &n->at);
	n->shown = shows(fs, n);
	epd_fs_node_enlist(&fs->nodes, n, EPD_FS_TOUCHED);
}

static int
path_of(const struct epd_fs_node *n, char *out, size_t room)
{
	size_t at = room - 1, len;

	out[at] = '\0';
	for (; n->up; n = n->up) {
		len = strlen(n->name);
		if (len + 1 > at)
			return -1;
		at -= len;
		memcpy(out + at, n->name, len);
		if (n->up->up)
			out[--at] = '/';
	}
	memmove(out, out + at, room - at);
	return 0;
}

/* 0: the toucher has enough to do, and n waits. */
static int
touch_one(struct epd_fs_mount *m, struct epd_fs_node *n)
{
	struct touch t = { .dev = m->dev };
	uint64_t stamp = epd_fs_stamp(&m->fs, &n->at), now;

	/* What is about a workflow is as it was if that is, but for jobs' lines. */
	if (stamp && stamp == n->seen && n->at.kind != EPD_FS_EVENTS)
		return 1;
	now = shows(&m->fs, n);
	if (now && now != n->shown && path_of(n, t.path, sizeof t.path) == 0 &&
	    write(m->touch, &t, sizeof t) < 0 && errno == EAGAIN)
		return 0;
	if (now)
		n->shown = now;
	n->seen = stamp;
	return 1;
}

/* ---- the thread ---- */

void
epd_fs_call_back(struct epd_fs_mount *m)
{
	uint64_t *stale;
	size_t n;

	/* Who comes second knows that what the first took is called back. */
	pthread_mutex_lock(&m->calling);
	pthread_mutex_lock(&m->fs.lock);
	epd_fs_sync(&m->fs);
	stale = m->fs.stale_ino;
	n = m->fs.nstale;
	m->fs.stale_ino = NULL;
	m->fs.nstale = m->fs.stales = 0;
	pthread_mutex_unlock(&m->fs.lock);
	for (size_t i = 0; i < n; i++)
		fuse_lowlevel_notify_inval_inode(m->se, stale[i], -1, 0);
	epd_free(stale);
	pthread_mutex_unlock(&m->calling);
}

/* What the kernel has is called back, and polls are woken. */
static void
tell(struct epd_fs_mount *m)
{
	struct epd_fs_poller *p, *next;

	epd_fs_call_back(m);
	pthread_mutex_lock(&m->fs.lock);
	p = woken(m);
	pthread_mutex_unlock(&m->fs.lock);
	for (; p; p = next) {
		next = p->next;
		fuse_lowlevel_notify_poll(p->ph);
		fuse_pollhandle_destroy(p->ph);
		epd_free(p);
	}
}

/*
 * Files that show something else are touched.  It takes no more than its share of the
 * time; *due is when it may be done again.  0: some are left for then.
 */
static int
touch_all(struct epd_fs_mount *m, uint64_t *due)
{
	const uint64_t from = epd_clock_boot_ns();
	uint64_t took;
	int all = 1;

	pthread_mutex_lock(&m->fs.lock);
	for (struct epd_fs_node *n = m->fs.nodes.list[EPD_FS_TOUCHED];
	    n && all; n = n->in[EPD_FS_TOUCHED].next)
		all = touch_one(m, n);
	pthread_mutex_unlock(&m->fs.lock);
	took = epd_clock_boot_ns() - from;
	*due = from + took + (took * SHARE > TOUCH_NS ? took * SHARE :
	    TOUCH_NS);
	return all;
}

static void *
notices(void *arg)
{
	struct epd_fs_mount *m = arg;
	struct pollfd fd[] = {
		{ .fd = m->fs.wake, .events = POLLIN },
		{ .fd = m->fs.notify, .events = POLLIN },
	};
	uint64_t n, now, due = 0;
	int wants = 0;		/* something changed since files were touched */
	int deaf = 1;		/* it may be: look */

	while (!__atomic_load_n(&m->stopping, __ATOMIC_ACQUIRE)) {
		now = epd_clock_boot_ns();
		if (wants && now >= due)
			wants = !touch_all(m, &due);
		n = due > now ? (due - now) / 1000000 + 1 : 0;
		if (poll(fd, 2, wants ? (int)n : deaf ? DEAF_MS : -1) < 0 &&
		    errno != EINTR)
			break;
		(void)!read(m->fs.wake, &n, sizeof n);
		pthread_mutex_lock(&m->fs.lock);
		deaf = epd_fs_look_around(&m->fs);
		pthread_mutex_unlock(&m->fs.lock);
		tell(m);
		wants = m->touch >= 0;
	}
	return NULL;
}

int
epd_fs_notice_start(struct epd_fs_mount *m, pthread_t *out)
{
	return -pthread_create(out, NULL, notices, m);
}

void
epd_fs_notice_stop(struct epd_fs_mount *m, pthread_t t)
{
	__atomic_store_n(&m->stopping, 1, __ATOMIC_RELEASE);
	epd_fs_wake(&m->fs);
	pthread_join(t, NULL);
}
