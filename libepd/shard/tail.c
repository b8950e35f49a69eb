/*
 * tail.c - what lies in the log behind the end of what is published, looked at
 * and left as it is.
 *
 *	whole frames	their writer is about to publish them, or died before
 *	a torn one	the begin of the next frame, or bytes that never came to the
 *			disk: what a crash leaves
 *	anything else	is cut as well by the next who appends
 *	damage		by the same rules as for a writer (wal.c): he refuses it
 *
 * A writer may be at it, and then what is seen means nothing: so it is believed
 * when nobody had the lock before and after, and the log did not change.  Who
 * cuts a tail has the lock till he has appended, and who appends moves the mark.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "shard/shard_in.h"
#include "shard/wal_in.h"
#include "shard/word.h"

enum { LOOKS = 3 };

/* 1 too if it cannot be told. */
static int
is_locked(int dirfd)
{
	int fd = epd_file_open(dirfd, "lock", O_RDONLY | O_NONBLOCK, 0), is;

	if (fd < 0)
		return fd != -ENOENT;
	is = epd_lock_is_held(fd, 0, 0);
	close(fd);
	return is;
}

/* Where the log ends, as far as that can be seen without the lock. */
struct sight {
	struct epd_tip tip, mark;
	uint32_t segment;
	off_t size;
};

static int
see(struct epd_wal *w, struct sight *out, struct epd_why *why)
{
	char name[EPD_WAL_NAME];
	uint32_t first;
	struct stat st;
	int rc = epd_wal_read_tip(w, 1, why);

	if (!rc)
		rc = epd_wal_range(w->dirfd, &first, &out->segment);
	if (rc)
		return rc;
	epd_wal_name(name, out->segment);
	if (fstatat(w->dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	out->tip = w->tip;
	out->mark = w->mark;
	out->size = st.st_size;
	return 0;
}

static int
is_same(const struct sight *a, const struct sight *b)
{
	return a->segment == b->segment && a->size == b->size &&
	    a->tip.lsn == b->tip.lsn && a->tip.again == b->tip.again &&
	    a->mark.lsn == b->mark.lsn && a->mark.again == b->mark.again;
}

/* Whether n bytes may be the begin of the frame that comes next, or never came. */
static int
is_torn(const struct epd_wal *w, const uint8_t *p, size_t n)
{
	static const uint8_t none[EPD_FRAME_HEAD];
	const uint32_t mark = (uint32_t)w->seg.salt;
	uint8_t head[4];

	for (int i = 0; i < 4; i++)
		head[i] = (uint8_t)(mark >> 8 * i);
	if (!memcmp(p, none, n))
		return 1;
	if (memcmp(p, head, n < 4 ? n : 4))
		return 0;
	return n < 24 || epd_word64(p + 16) == w->pos.lsn + 1;
}

/* Nothing whole at pos: 1 to go on, 0 at the end, *odd bytes there; or damage. */
static int
gap(struct epd_wal *w, uint64_t size, uint64_t *odd, struct epd_why *why)
{
	uint8_t head[EPD_FRAME_HEAD];
	char next[EPD_WAL_NAME];
	ssize_t n;
	int rc;

	epd_wal_name(next, w->pos.segment + 1);
	if (size < w->pos.offset)
		return -ESTALE;
	if (epd_wal_exists(w, next)) {
		if (w->pos.offset < size)
			return epd_wal_damage(w, why,
			    "damaged, and another segment follows");
		rc = epd_wal_switch(w, w->pos.segment + 1, w->pos.lsn, why);
		return rc ? rc : 1;
	}
	if (size == w->pos.offset)
		return 0;
	rc = epd_wal_proof(w, size);
	if (rc > 0)
		return epd_wal_damage(w, why,
		    "damaged, and a whole frame lies behind");
	n = rc ? rc : epd_file_pread(w->fd, head, sizeof head, w->pos.offset);
	if (n > 0 && !is_torn(w, head, (size_t)n))
		*odd = size - w->pos.offset;
	return n < 0 ? (int)n : 0;
}

static int
look(struct epd_wal *w, const struct epd_wal_pos *from, uint64_t *odd,
    struct epd_why *why)
{
	struct epd_frame f;
	uint64_t size = 0;
	int rc = epd_wal_switch(w, from->segment, EPD_WAL_ANY, why);

	if (!rc)
		w->pos = *from;
	do {
		if (rc >= 0)
			rc = epd_wal_size(w, &size);
		while (!rc) {
			rc = epd_wal_step(w, size, &f, why);
			if (rc <= 0)
				break;
			rc = epd_wal_deliver(w, &f, epd_wal_pass, NULL, why);
		}
		if (!rc)
			rc = gap(w, size, odd, why);
	} while (rc > 0);
	return rc;
}

/* One look; *sure: nobody was at it meanwhile. */
static int
look_once(struct epd_shard *s, int *sure, struct epd_why *why)
{
	const struct epd_wal_pos *from = epd_wal_pos(s->wal);
	struct sight before, after;
	struct epd_wal *w;
	uint64_t odd = 0;
	int rc = epd_wal_open(&w, s->dirfd, EPD_WAL_READ, NULL);

	if (rc)
		return rc;
	rc = see(w, &before, why);
	if (!rc)
		rc = look(w, from, &odd, why);
	*sure = !see(w, &after, NULL) && is_same(&before, &after) &&
	    !is_locked(s->dirfd);
	if (!rc && odd)
		rc = epd_why(why, 1, "log.%08u: byte %llu: %llu byte%s that "
		    "are no record's, nor what a crash leaves of one",
		    w->pos.segment, (unsigned long long)w->pos.offset,
		    (unsigned long long)odd, odd == 1 ? "" : "s");
	epd_wal_close(w);
	return rc;
}

int
epd_shard_tail(struct epd_shard *s, struct epd_why *why)
{
	struct epd_why what = { "" };
	int rc = 0, sure = 0;

	for (int i = 0; !sure && i < LOOKS; i++) {
		if (is_locked(s->dirfd) || epd_wal_exists(s->wal,
		    EPD_WAL_UNSURE))
			return 0;
		what = (struct epd_why){ "" };
		rc = look_once(s, &sure, &what);
	}
	/* What changes under us is somebody's. */
	if (!sure || rc == -ESTALE || rc == -ENOENT)
		return rc == -ENOMEM ? rc : 0;
	return rc ? epd_why(why, rc, "%s", what.text) : 0;
}
