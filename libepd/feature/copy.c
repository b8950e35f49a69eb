/*
 * copy.c - a feature from one cache to another, file by file in the order of a
 * commit: picture, blob, meta.  Nothing is believed here; the sums are looked at
 * where it is next looked up.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "feature/inner.h"

/* One of its files; absent is 0. */
static int
copy_file(struct epd_features *from, struct epd_features *to, int dir,
    const struct epd_name *fp, int which, uint64_t *bytes)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf b = { 0 };
	struct epd_span part;
	int rc;

	epd_feature_path(path, fp, which);
	rc = epd_file_read(from->dirfd, path, (size_t)EPD_BLOB_MAX +
	    EPD_FEATURE_HEAD, &b);
	part = epd_span(b.p, b.n);
	if (!rc)
		rc = epd_file_replace(dir, path + 3, &part, 1, to->sync);
	if (!rc)
		*bytes += b.n;
	epd_buf_free(&b);
	return rc == -ENOENT ? 0 : rc;
}

static int
copy_all(struct epd_features *from, struct epd_features *to,
    const struct epd_name *fp, uint64_t *bytes)
{
	char path[EPD_FEATURE_PATH];
	int dir, rc;

	epd_feature_path(path, fp, EPD_HAS_META);
	path[2] = 0;
	dir = epd_dir_make(to->dirfd, path);
	if (dir < 0)
		return dir;
	rc = copy_file(from, to, dir, fp, EPD_HAS_PIX, bytes);
	if (!rc && epd_feature_has(from, fp, EPD_HAS_META) == 1)
		rc = copy_file(from, to, dir, fp, EPD_HAS_BLOB, bytes);
	if (!rc)
		rc = copy_file(from, to, dir, fp, EPD_HAS_META, bytes);
	close(dir);
	if (rc == EPD_EUNSURE)
		rc = -EIO;
	if (rc)
		epd_feature_unlink(to, fp, EPD_HAS_META | EPD_HAS_BLOB, NULL);
	return rc;
}

int
epd_feature_copy(struct epd_features *from, const struct epd_name *fp,
    struct epd_features *to, uint64_t *bytes)
{
	int rc = epd_lock_share(to->busy, EPD_FEATURE_BUSY_MS);

	if (rc)
		return rc;
	rc = epd_feature_has(to, fp, EPD_HAS_META);
	if (!rc)
		rc = copy_all(from, to, fp, bytes);
	epd_lock_drop(to->busy);
	return rc > 0 ? 0 : rc;
}
