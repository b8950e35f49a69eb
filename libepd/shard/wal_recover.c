/*
 * wal_recover.c - after a failed flush.  The page cache may show what the disk
 * has not got, so the last segment is read past it, its whole frames are
 * written to a new file, flushed, and that takes the name; then the marker goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "shard/wal_in.h"

enum { ALIGN = 4096 };

/* The file's bytes as the disk has them.  The caller frees *out. */
static int
read_direct(int dirfd, const char *name, uint8_t **out, size_t *size)
{
	struct stat st;
	ssize_t n = 0;
	uint8_t *p;
	size_t room;
	int fd;

	fd = epd_file_open(dirfd, name, O_RDONLY | O_DIRECT, 0);
	if (fd == -EINVAL) {
		/* No such thing on this file system: drop the clean pages. */
		fd = epd_file_open(dirfd, name, O_RDONLY, 0);
		if (fd >= 0)
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		n = -errno;
		close(fd);
		return (int)n;
	}
	room = ((size_t)st.st_size + ALIGN) & ~(size_t)(ALIGN - 1);
	p = epd_alloc_aligned(ALIGN, room);
	/* A direct read ends at the end of the file, wherever that is. */
	if (p)
		n = epd_file_pread(fd, p, room, 0);
	close(fd);
	if (!p || n < 0) {
		epd_free(p);
		return p ? (int)n : -ENOMEM;
	}
	*out = p;
	*size = (size_t)n;
	return 0;
}

/* Length of the part that is whole; *lsn is its last record. */
static size_t
whole(struct epd_span s, const struct epd_segment *seg, uint64_t *lsn)
{
	size_t off = EPD_SEGMENT_HEAD;
	struct epd_frame f;

	*lsn = seg->base - 1;
	while (epd_frame_parse(epd_span((const uint8_t *)s.p + off, s.n - off),
	    seg, &f) && f.lsn == *lsn + 1) {
		off += EPD_FRAME_HEAD + f.payload.n;
		*lsn += f.count;
	}
	return off;
}

/* Whether a whole frame behind off says that what is at off was durable. */
static int
proof(struct epd_span s, size_t off, const struct epd_segment *seg,
    uint64_t lsn)
{
	struct epd_frame f;

	for (off++; (off = epd_frame_mark(s, off, seg)) < s.n; off++)
		if (epd_frame_parse(epd_span((const uint8_t *)s.p + off,
		    s.n - off), seg, &f) && f.flushed > lsn)
			return 1;
	return 0;
}

/* Check the bytes of the segment and find where its whole part ends. */
static int
examine(struct epd_wal *w, struct epd_span s, const char *name, size_t *end,
    struct epd_why *why)
{
	struct epd_segment seg;
	uint64_t lsn;
	int rc;

	rc = epd_segment_unpack(s, &seg);
	if (!rc && memcmp(seg.uuid, w->seg.uuid, 16))
		rc = EPD_ECORRUPT;
	if (rc)
		return epd_why(why, rc, "%s: byte 0: segment head: %s", name,
		    epd_strerror(rc));
	*end = whole(s, &seg, &lsn);
	if (proof(s, *end, &seg, lsn) ||
	    (!w->tip_bad && w->tip.segment == seg.number &&
	    lsn < w->tip.flushed))
		return epd_why(why, EPD_ECORRUPT, "%s: byte %zu: a flush "
		    "failed, and the disk lost what was published", name, *end);
	return 0;
}

int
epd_wal_recover(struct epd_wal *w, struct epd_why *why)
{
	char name[EPD_WAL_NAME];
	struct epd_span part;
	size_t size = 0, end = 0;
	uint8_t *p = NULL;
	uint32_t n;
	int rc;

	rc = epd_wal_read_tip(w, 0, why);
	if (rc)
		return rc;
	n = w->tip.segment > w->pos.segment ? w->tip.segment : w->pos.segment;
	for (;; n++) {
		epd_wal_name(name, n + 1);
		if (!epd_wal_exists(w, name))
			break;
	}
	epd_wal_name(name, n);
	rc = read_direct(w->dirfd, name, &p, &size);
	if (rc)
		return epd_why(why, rc, "%s: after a failed flush: %s", name,
		    epd_strerror(rc));
	rc = examine(w, epd_span(p, size), name, &end, why);
	if (!rc) {
		part = epd_span(p, end);
		rc = epd_file_replace(w->dirfd, name, &part, 1, 1);
		if (rc)
			epd_why(why, rc, "%s: copy after a failed flush: %s",
			    name, epd_strerror(rc));
	}
	epd_free(p);
	if (rc)
		return rc;
	/*
	 * Whoever waits for a flush of the old file learns that it is gone;
	 * where there is no tip that comes with the one to be made.
	 */
	if (!w->tip_bad && (rc = epd_wal_retip(w)) < 0)
		return epd_why(why, rc, "tip: %s", epd_strerror(rc));
	if (unlinkat(w->dirfd, EPD_WAL_UNSURE, 0) < 0 && errno != ENOENT)
		return -errno;
	epd_dir_sync(w->dirfd);
	return 0;
}
