/*
 * pass.c - between libfuse and /dev/fuse.
 *
 *  1. INIT's answer gets the flags that ask for passthrough, if INIT offered it; an
 *     open's gets the kernel's id of the file.  A thread reads a request, works
 *     on it and answers by itself, so what the answer needs is the thread's.
 *     So too a flag of an open that libfuse has no word for.
 *  2. The kernel wants one file for one inode at a time: opens of it share one
 *     backing until the last is closed.
 *
 * Numbers and shapes are those of the kernel's include/uapi/linux/fuse.h.
 */
#include "fs/pass.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"

#define INIT_EXT (1u << 30)
#define PASSTHROUGH (1u << 5)		/* of flags2: bit 37 */
#define OPEN_PASSTHROUGH (1u << 7)

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

/* INIT's answer, which later kernels read one more word of. */
struct init_out {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2, max_stack_depth, unused[6];
};

struct epd_fs_backing {
	struct epd_fs_backing *next;
	uint64_t ino;
	int id;
	unsigned uses;
};

static _Thread_local struct {
	int offered;		/* the request is INIT, and it offers it */
	int id;			/* the file of the open that is answered */
	uint32_t flags;		/* and what more is said of it */
} now;

static ssize_t
read_request(int fd, void *buf, size_t n, void *userdata)
{
	const struct fuse_in_header *h = buf;
	const struct fuse_init_in *in = (const void *)(h + 1);
	ssize_t got = read(fd, buf, n);

	(void)userdata;
	now.offered = 0;
	/* flags2 is the fifth word of what INIT says. */
	if (got >= (ssize_t)(sizeof *h + 20) && h->opcode == FUSE_INIT &&
	    in->flags & INIT_EXT)
		now.offered = !!(((const uint32_t *)in)[4] & PASSTHROUGH);
	return got;
}

static ssize_t
write_init(int fd, const struct iovec *iov, struct epd_fs_mount *m)
{
	struct fuse_out_header h;
	struct init_out out = {0};
	const size_t n = iov[1].iov_len;
	ssize_t rc;

	memcpy(&h, iov[0].iov_base, sizeof h);
	memcpy(&out, iov[1].iov_base, n < sizeof out ? n : sizeof out);
	out.flags |= INIT_EXT;
	out.flags2 |= PASSTHROUGH;
	out.max_stack_depth = 1;
	h.len = sizeof h + sizeof out;
	rc = writev(fd, (struct iovec[]){ { &h, sizeof h },
	    { &out, sizeof out } }, 2);
	m->passthrough = rc >= 0;
	/* What libfuse asked to be written was. */
	return rc < 0 ? rc : (ssize_t)(iov[0].iov_len + n);
}

static ssize_t
write_answer(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *h = iov[0].iov_base;
	struct fuse_open_out open;

	if (count == 2 && !h->error && now.offered) {
		now.offered = 0;
		return write_init(fd, iov, userdata);
	}
	if (count == 2 && !h->error && now.flags &&
	    iov[1].iov_len == sizeof open) {
		memcpy(&open, iov[1].iov_base, sizeof open);
		if (now.id)
			open.open_flags &= ~(uint32_t)(FOPEN_KEEP_CACHE |
			    FOPEN_DIRECT_IO);
		open.open_flags |= now.flags;
		open.padding = (uint32_t)now.id;
		return writev(fd, (struct iovec[]){ iov[0],
		    { &open, sizeof open } }, 2);
	}
	return writev(fd, iov, count);
}

void
epd_fs_pass_start(struct epd_fs_mount *m)
{
	static const struct fuse_custom_io io = {
		.read = read_request, .writev = write_answer,
	};

	(void)fuse_session_custom_io(m->se, &io, fuse_session_fd(m->se));
}

void
epd_fs_back(struct epd_fs_mount *m, struct epd_fs_handle *h)
{
	struct backing_map map = { .fd = h->fd };
	struct epd_fs_backing *b;

	pthread_mutex_lock(&m->fs.lock);
	for (b = m->backing; b && b->ino != h->ino;)
		b = b->next;
	if (!b && m->passthrough && (b = epd_calloc(1, sizeof *b))) {
		b->ino = h->ino;
		b->id = ioctl(fuse_session_fd(m->se), BACKING_OPEN, &map);
		if (b->id <= 0) {	/* it is for root, and not on all files */
			epd_free(b);
			b = NULL;
			m->passthrough = m->backing != NULL;
		} else {
			b->next = m->backing;
			m->backing = b;
		}
	}
	if (b) {
		b->uses++;
		h->backing = b->id;
	}
	pthread_mutex_unlock(&m->fs.lock);
}

int
epd_fs_reply_open(fuse_req_t req, const struct fuse_file_info *fi,
    const struct epd_fs_handle *h)
{
	int rc;

	/* A talk has no place in it: who waits to read keeps nobody from writing. */
	now.id = h->backing;
	now.flags = h->backing ? OPEN_PASSTHROUGH : h->talk ? FOPEN_STREAM : 0;
	rc = fuse_reply_open(req, fi);
	now.id = 0;
	now.flags = 0;
	return rc;
}

void
epd_fs_unback(struct epd_fs_mount *m, struct epd_fs_handle *h)
{
	struct epd_fs_backing **at = &m->backing, *b;

	if (!h->backing)
		return;
	pthread_mutex_lock(&m->fs.lock);
	while ((b = *at) && b->id != h->backing)
		at = &b->next;
	if (b && --b->uses == 0) {
		(void)ioctl(fuse_session_fd(m->se), BACKING_CLOSE,
		    &(uint32_t){ (uint32_t)b->id });
		*at = b->next;
		epd_free(b);
	}
	pthread_mutex_unlock(&m->fs.lock);
	h->backing = 0;
}
