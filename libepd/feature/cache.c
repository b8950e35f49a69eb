/*
 * cache.c - the folder, and the two ways in: lookup and commit.
 *
 *	features/ab/FP.pix	the picture, if kept	(pix.c)
 *	features/ab/FP.blob	the rows		(blob.c)
 *	features/ab/FP.meta	the commit marker	(meta.c)
 *	features/memo		files decoded before	(memo.c)
 *	features/busy		no bytes: a commit under way shares its lock
 *
 * FP is 64 hex digits, ab the first two of them.
 *
 * Invariants
 * 1. Each file is replaced whole, never written in place; picture, blob and meta
 *    are made in this order, and unlinked in the other.  So a kill at any point
 *    leaves a miss and at most what epd_feature_sweep takes.
 *    Who commits shares the lock of `busy`, so that a sweep can tell what
 *    the dead left from what is on its way.
 * 2. Rows reach a caller only after meta matched the feature asked for to the
 *    byte and the blob matched meta, fresh ones too.
 * 3. Two writers of one fp may mix their files; then the sums differ, which is a
 *    miss.  A reader that catches a pair half replaced looks again, and only a
 *    meta that still says the same thing is deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "feature/inner.h"

enum { TRIES = 4 };	/* looks at a pair that changes under us */

enum verdict { HIT = 1, ABSENT, EXPIRED, BAD_META, BAD_BLOB };

const char *
epd_feature_ext(int which)
{
	return which == EPD_HAS_META ? ".meta" :
	    which == EPD_HAS_BLOB ? ".blob" : ".pix";
}

void
epd_feature_path(char out[EPD_FEATURE_PATH], const struct epd_name *fp,
    int which)
{
	char hex[2 * EPD_NAME + 1];

	epd_hex_format(hex, fp->b, EPD_NAME);
	snprintf(out, EPD_FEATURE_PATH, "%.2s/%s%s", hex, hex,
	    epd_feature_ext(which));
}

int
epd_feature_unlink(struct epd_features *c, const struct epd_name *fp,
    int which, uint64_t *bytes)
{
	char path[EPD_FEATURE_PATH], *name;
	struct stat st;
	int dir, rc = 0;

	epd_feature_path(path, fp, EPD_HAS_META);
	path[2] = 0;
	dir = epd_file_open(c->dirfd, path, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	for (int bit = EPD_HAS_META; bit <= EPD_HAS_PIX; bit <<= 1) {
		if (!(which & bit))
			continue;
		epd_feature_path(path, fp, bit);
		name = path + 3;
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
			st.st_size = 0;
		if (!unlinkat(dir, name, 0)) {
			if (bytes)
				*bytes += (uint64_t)st.st_size;
		} else if (errno != ENOENT) {
			/* A blob must not go from under its meta. */
			rc = -errno;
			break;
		}
	}
	close(dir);
	return rc;
}

int
epd_feature_has(struct epd_features *c, const struct epd_name *fp, int which)
{
	char path[EPD_FEATURE_PATH];

	epd_feature_path(path, fp, which);
	if (!faccessat(c->dirfd, path, F_OK, AT_SYMLINK_NOFOLLOW))
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

int
epd_feature_expired(struct epd_features *c, const struct epd_name *fp,
    uint64_t deadline_ms)
{
	return deadline_ms && epd_clock_wall_ms() >= deadline_ms &&
	    epd_feature_has(c, fp, EPD_HAS_PIX) == 1;
}

int
epd_features_open(struct epd_features **out, int dirfd,
    const struct epd_features_options *o)
{
	struct epd_features *c = epd_calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->metrics = o->metrics;
	c->ttl_ms = o->ttl_ms;
	c->sync = o->sync;
	c->busy = -1;
	c->dirfd = o->look ? epd_file_open(dirfd, "features", O_RDONLY |
	    O_DIRECTORY, 0) : epd_dir_make(dirfd, "features");
	if (c->dirfd < 0) {
		int rc = c->dirfd;

		epd_free(c);
		return rc;
	}
	if (!o->look)
		c->busy = epd_file_open(c->dirfd, "busy", O_RDWR | O_CREAT,
		    0600);
	if (!o->look && c->busy < 0) {
		int rc = c->busy;

		close(c->dirfd);
		epd_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

void
epd_features_close(struct epd_features *c)
{
	if (!c)
		return;
	if (c->busy >= 0)
		close(c->busy);
	close(c->dirfd);
	epd_free(c);
}

/* A missing file is a miss; a missing folder is not. */
static int
absent(struct epd_features *c, struct epd_why *why)
{
	struct stat st;

	if (fstat(c->dirfd, &st))
		return -errno;
	epd_why(why, 0, "not in the cache");
	return st.st_nlink ? ABSENT : -ENOENT;
}

/*
 * Look at a pair once.  text is what meta said; m is set with HIT.  buf NULL
 * checks only.  A verdict or -errno.
 */
static int
examine(struct epd_features *c, const struct epd_feature *f, void *buf,
    struct epd_buf *text, struct epd_meta *m, struct epd_why *why)
{
	int rc = epd_meta_read(c, &f->fp, text);

	if (rc == -ENOENT)
		return absent(c, why);
	if (rc == EPD_ECORRUPT) {
		epd_why(why, 0, "meta: too long");
		return BAD_META;
	}
	if (!rc)
		rc = epd_meta_match(epd_span(text->p, text->n), f, m, why);
	if (rc)
		return rc == EPD_ECORRUPT ? BAD_META : rc;
	if (epd_feature_expired(c, &f->fp, m->deadline_ms)) {
		epd_why(why, 0, "expired");
		return EXPIRED;
	}
	rc = epd_blob_read(c, &f->fp, epd_feature_bytes(f), m->blob_sum, buf,
	    why);
	if (rc == -ENOENT)
		epd_why(why, 0, "blob: missing");
	if (rc == -ENOENT || rc == EPD_ECORRUPT)
		return BAD_BLOB;
	return rc ? rc : HIT;
}

/* Until a verdict holds: bad only if meta says afterwards what it said before. */
static int
settle(struct epd_features *c, const struct epd_feature *f, void *buf,
    struct epd_meta *m, struct epd_why *why)
{
	struct epd_buf text = { 0 }, again = { 0 };
	int v = 0, rc;

	for (int i = 0; i < TRIES; i++) {
		epd_buf_free(&text);
		v = examine(c, f, buf, &text, m, why);
		if (v <= ABSENT)
			break;
		epd_buf_free(&again);
		rc = epd_meta_read(c, &f->fp, &again);
		if (rc == -ENOENT)
			v = ABSENT;
		else if (rc && rc != EPD_ECORRUPT)
			v = rc;
		if (v <= ABSENT || (text.n == again.n && (!text.n ||
		    !memcmp(text.p, again.p, text.n))))
			break;
	}
	epd_buf_free(&text);
	epd_buf_free(&again);
	return v;
}

int
epd_feature_lookup(struct epd_features *c, const struct epd_feature *f,
    int readback, void *buf, size_t cap, struct epd_why *why)
{
	size_t bytes = epd_feature_bytes(f);
	struct epd_meta m;
	int v = ABSENT;

	if (!bytes)
		return epd_why(why, -EINVAL, "a feature of no size");
	if (cap < bytes)
		epd_why(why, 0, "%zu bytes do not hold %zu", cap, bytes);
	else
		v = settle(c, f, buf, &m, why);
	if (v < 0)
		return epd_why(why, v, "features: %s", epd_strerror(v));
	if (v == HIT) {
		epd_count(c->metrics, readback ? EPD_M_MM_READBACK :
		    EPD_M_MM_HIT, 1);
		return 1;
	}
	if (v == BAD_META)
		epd_count(c->metrics, EPD_M_CORRUPT_META, 1);
	if (v == BAD_BLOB)
		epd_count(c->metrics, EPD_M_CORRUPT_BLOB, 1);
	if (v == EXPIRED)
		epd_count(c->metrics, EPD_M_MM_EXPIRED, 1);
	/* If it will not go, it is as much a miss the next time. */
	if (v != ABSENT)
		epd_feature_unlink(c, &f->fp, EPD_HAS_META | EPD_HAS_BLOB,
		    NULL);
	if (!readback)
		epd_count(c->metrics, EPD_M_MM_MISS, 1);
	return 0;
}

/* The pair's verdict; without a picture that is wanted a hit is as good as none. */
static int
whole(struct epd_features *c, const struct epd_feature *f, int picture)
{
	struct epd_meta m;
	int v = settle(c, f, NULL, &m, NULL);

	if (v == HIT && picture &&
	    !(m.pix_w && epd_feature_has(c, &f->fp, EPD_HAS_PIX) == 1))
		return ABSENT;
	return v;
}

static int
write_meta(struct epd_features *c, int dir, const struct epd_feature *f,
    struct epd_meta *m)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf b = { 0 };
	struct epd_span part;
	int rc;

	m->created_ms = epd_clock_wall_ms();
	if (c->ttl_ms && m->pix_w)
		m->deadline_ms = c->ttl_ms > INT64_MAX - m->created_ms ?
		    INT64_MAX : m->created_ms + c->ttl_ms;
	rc = epd_meta_pack(&b, f, m);
	epd_feature_path(path, &f->fp, EPD_HAS_META);
	part = epd_span(b.p, b.n);
	if (!rc)
		rc = epd_file_replace(dir, path + 3, &part, 1, c->sync);
	epd_buf_free(&b);
	return rc;
}

/* Picture, blob, meta. */
static int
write_all(struct epd_features *c, int dir, const struct epd_feature *f,
    const void *rows, const uint8_t *pixels, long h, long w)
{
	struct epd_meta m = { 0 };
	int rc = 0;

	if (pixels)
		rc = epd_pix_write(c, dir, &f->fp, pixels, h, w);
	/* Encoded from the picture that is kept, most likely. */
	if (!rc && epd_pix_read(c, &f->fp, NULL, &m.pix_h, &m.pix_w, NULL))
		m.pix_h = m.pix_w = 0;
	if (!rc)
		rc = epd_blob_write(c, dir, &f->fp, rows, epd_feature_bytes(f),
		    &m.blob_sum);
	return rc ? rc : write_meta(c, dir, f, &m);
}

static int
commit(struct epd_features *c, const struct epd_feature *f, const void *rows,
    const uint8_t *pixels, long h, long w)
{
	char path[EPD_FEATURE_PATH];
	int dir, rc = 0, v, ours = EPD_HAS_BLOB;

	v = whole(c, f, pixels != NULL);
	if (v <= HIT)
		return v < 0 ? v : 0;
	epd_feature_path(path, &f->fp, EPD_HAS_META);
	path[2] = 0;
	dir = epd_dir_make(c->dirfd, path);
	if (dir < 0)
		return dir;
	if (pixels && !epd_feature_has(c, &f->fp, EPD_HAS_PIX))
		ours |= EPD_HAS_PIX;
	/*
	 * Readers would delete the new blob beside a stale meta.  One that was
	 * not there is left alone: it is another writer's, just now.
	 */
	if (v != ABSENT)
		rc = epd_feature_unlink(c, &f->fp, EPD_HAS_META, NULL);
	if (!rc)
		rc = write_all(c, dir, f, rows, pixels, h, w);
	close(dir);
	if (!rc)
		return 0;
	/* A flush that failed is a commit that failed. */
	if (rc == EPD_EUNSURE) {
		epd_feature_unlink(c, &f->fp, EPD_HAS_META, NULL);
		rc = -EIO;
	}
	/* Give the space back, unless another has committed meanwhile. */
	if (!epd_feature_has(c, &f->fp, EPD_HAS_META))
		epd_feature_unlink(c, &f->fp, ours, NULL);
	return rc;
}

int
epd_feature_commit(struct epd_features *c, const struct epd_feature *f,
    const void *rows, const uint8_t *pixels, long h, long w)
{
	int rc;

	if (!epd_feature_bytes(f))
		return -EINVAL;
	if (epd_feature_bytes(f) > EPD_BLOB_MAX)
		return EPD_ETOOBIG;
	/* A sweep holds it for an instant only. */
	if ((rc = epd_lock_share(c->busy, EPD_FEATURE_BUSY_MS)) < 0)
		return rc;
	rc = commit(c, f, rows, pixels, h, w);
	epd_lock_drop(c->busy);
	return rc;
}
