/*
 * draft.c - who may do what with a draft's name goes by the lock on its file.
 *
 * 1. Only who has the file's lock, and has then seen that the name is still that
 *    file's, writes to it or unlinks it.  So a name is never taken from a decode
 *    that lives, and a file that has lost its name is written by nobody.
 * 2. A file that nobody has locked is a dead decode's.
 */
#include "flow/draft.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"

enum {
	TRIES = 4,	/* a sweeper may take it away before it is locked, */
	SWEPT_MS = 50	/* or have it locked for a moment */
};

static void
format(char name[EPD_DRAFT_NAME], uint32_t state, uint32_t version)
{
	snprintf(name, EPD_DRAFT_NAME, EPD_DRAFT_PREFIX "%" PRIu32 ".%" PRIu32,
	    state, version);
}

/* Whether the name is that of the open file, and its only one. */
static int
is_named(int dirfd, const char *name, int fd)
{
	struct stat own, st;

	return !fstat(fd, &own) && S_ISREG(own.st_mode) &&
	    own.st_nlink == 1 &&
	    !fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	    own.st_dev == st.st_dev && own.st_ino == st.st_ino;
}

/* ---- reading along ---- */

static int
open_live(int dirfd, uint32_t state, uint32_t version, struct stat *st)
{
	char name[EPD_DRAFT_NAME];
	int fd, rc = 0;

	format(name, state, version);
	fd = epd_file_open(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, st))
		rc = -errno;
	else if (!S_ISREG(st->st_mode))
		rc = -EINVAL;
	else if (!epd_lock_is_held(fd, 0, 0))
		rc = -ENOENT;
	else if (st->st_size > EPD_DRAFT_MAX)
		rc = EPD_ETOOBIG;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

int
epd_draft_read(int dirfd, uint32_t state, uint32_t version,
    struct epd_ids *out)
{
	struct epd_buf b = {0};
	struct epd_cur c;
	struct stat st;
	void *to;
	ssize_t n;
	const size_t had = out->n;
	int fd = open_live(dirfd, state, version, &st), rc = 0;

	if (fd < 0)
		return fd;
	/* What comes meanwhile is for the next time. */
	to = epd_buf_add(&b, (size_t)st.st_size);
	n = to ? epd_file_pread(fd, to, (size_t)st.st_size, 0) : -ENOMEM;
	close(fd);
	c = epd_cur(epd_span(b.p, n > 0 ? (size_t)n : 0));
	while (rc == 0 && epd_cur_left(&c) >= 4) {
		const int32_t id = (int32_t)epd_unpack_u32(&c);

		epd_ids_put(out, &id, 1);
		rc = out->failed ? -ENOMEM : 0;
	}
	epd_buf_free(&b);
	if (rc < 0)
		out->n = had;
	return n < 0 ? (int)n : rc;
}

/* ---- writing ---- */

void
epd_draft_begin(struct epd_draft *d, int dirfd, uint32_t state,
    uint32_t version)
{
	*d = (struct epd_draft){ .fd = -1 };
	format(d->name, state, version);
	for (int i = 0; !d->on && i < TRIES; i++) {
		int fd = epd_file_open(dirfd, d->name, O_RDWR | O_CREAT |
		    O_NONBLOCK | O_NOCTTY, 0600);

		if (fd < 0 || epd_lock_wait(fd, SWEPT_MS)) {
			if (fd >= 0)
				close(fd);
			return;
		}
		d->fd = fd;
		d->on = is_named(dirfd, d->name, fd);
		if (!d->on)
			close(fd);
	}
	if (d->on && ftruncate(d->fd, 0))
		epd_draft_end(d, dirfd);
}

void
epd_draft_put(struct epd_draft *d, int dirfd, int32_t id)
{
	const uint32_t le = htole32((uint32_t)id);

	if (!d->on)
		return;
	if (d->bytes + sizeof le > EPD_DRAFT_MAX ||
	    epd_file_pwrite(d->fd, &le, sizeof le, d->bytes))
		epd_draft_end(d, dirfd);
	else
		d->bytes += sizeof le;
}

void
epd_draft_end(struct epd_draft *d, int dirfd)
{
	if (!d->on)
		return;
	/* Its folder may have been wiped, and be another by now. */
	if (is_named(dirfd, d->name, d->fd))
		unlinkat(dirfd, d->name, 0);
	close(d->fd);
	d->on = 0;
}

/* ---- those of the dead ---- */

struct dead {
	int dirfd, take;
	struct epd_drafts *out;
};

static int
look(void *arg, const char *name)
{
	const struct dead *x = arg;
	struct epd_drafts *out = x->out;
	struct stat st;
	int fd;

	if (!epd_memory_is_draft(name))
		return 0;
	fd = epd_file_open(x->dirfd, name, (x->take ? O_RDWR : O_RDONLY) |
	    O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) || (x->take ? epd_lock_try(fd) :
	    epd_lock_is_held(fd, 0, 0)) ||
	    !is_named(x->dirfd, name, fd) ||
	    (x->take && unlinkat(x->dirfd, name, 0))) {
		close(fd);
		return 0;
	}
	close(fd);
	if (out->n++ == 0)
		snprintf(out->first, sizeof out->first, "%.*s",
		    EPD_DRAFT_NAME - 1, name);
	out->bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

int
epd_drafts_dead(int dirfd, int take, struct epd_drafts *out)
{
	struct epd_drafts sum = { .n = 0 };
	struct dead x = { dirfd, take, &sum };
	int rc = dirfd < 0 ? 0 : epd_dir_each(dirfd, look, &x);

	if (rc == 0)
		*out = sum;
	return rc;
}
