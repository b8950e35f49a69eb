/*
 * parts.c - a feature handed to another machine's cache, and taken from one.
 *
 * What comes is not believed: the picture's bytes give its fingerprint again; meta
 * and blob agree to the byte on what they are of.  Whether the rows are what the
 * encoder would give only encoding again can tell, so of who is not trusted they are
 * not kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "feature/inner.h"

static const int which[EPD_PARTS] = {
	[EPD_PART_PIX] = EPD_HAS_PIX, [EPD_PART_BLOB] = EPD_HAS_BLOB,
	[EPD_PART_META] = EPD_HAS_META,
};

/* ---- handing ---- */

static int
open_part(struct epd_features *c, const struct epd_name *fp, int i,
    struct epd_feature_files *f)
{
	char path[EPD_FEATURE_PATH];
	struct stat st;
	int fd;

	epd_feature_path(path, fp, which[i]);
	fd = epd_file_open(c->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
		close(fd);
		return EPD_ECORRUPT;
	}
	f->fd[i] = fd;
	f->bytes[i] = (uint64_t)st.st_size;
	return 0;
}

int
epd_feature_open_parts(struct epd_features *c, const struct epd_name *fp,
    struct epd_feature_files *out)
{
	struct epd_feature_files f = { .fd = { -1, -1, -1 } };
	int rc = open_part(c, fp, EPD_PART_META, &f);

	if (rc == 0)
		rc = open_part(c, fp, EPD_PART_PIX, &f);
	if (rc == 0 && f.fd[EPD_PART_META] >= 0)
		rc = open_part(c, fp, EPD_PART_BLOB, &f);
	if (rc == 0 && f.fd[EPD_PART_META] < 0 && f.fd[EPD_PART_PIX] < 0)
		rc = -ENOENT;
	if (rc < 0) {
		epd_feature_close_parts(&f);
		return rc;
	}
	*out = f;
	return 0;
}

void
epd_feature_close_parts(struct epd_feature_files *f)
{
	for (int i = 0; i < EPD_PARTS; i++) {
		if (f->fd[i] >= 0)
			close(f->fd[i]);
		f->fd[i] = -1;
	}
}

/* ---- taking ---- */

static int
check_pix(struct epd_span file, const struct epd_name *fp,
    const struct epd_feature_meta *m, struct epd_why *why)
{
	uint8_t *rgb = NULL;
	struct epd_name is;
	uint32_t h, w;
	int rc = epd_pix_unpack(file, fp, &rgb, &h, &w, why);

	if (rc < 0)
		return rc;
	/* Without a meta nothing says of which model it is: nor do we. */
	if (m->tokens) {
		epd_image_fingerprint(&is, &m->model, m->grid, (long)h,
		    (long)w, rgb);
		if (!epd_name_equal(&is, fp) || m->pix_w != w || m->pix_h != h)
			rc = epd_why(why, EPD_ECORRUPT, "pix: it is not the "
			    "picture of its name");
	}
	epd_free(rgb);
	return rc;
}

static int
check_blob(struct epd_span file, const struct epd_name *fp,
    const struct epd_feature_meta *m, uint64_t sum, struct epd_why *why)
{
	uint8_t head[EPD_FEATURE_HEAD];

	if (file.n != EPD_FEATURE_HEAD + m->bytes)
		return epd_why(why, EPD_ECORRUPT, "blob: %zu bytes", file.n);
	if (epd_blob_head(head, fp, m->bytes, sum) < 0)
		return -ENOMEM;
	if (memcmp(head, file.p, sizeof head) ||
	    epd_blake2b64(epd_span((const uint8_t *)file.p + sizeof head,
	    (size_t)m->bytes)) != sum)
		return epd_why(why, EPD_ECORRUPT, "blob: it is not what its "
		    "meta says");
	return 0;
}

static int
check(const struct epd_name *fp, const struct epd_span part[EPD_PARTS],
    struct epd_why *why)
{
	struct epd_feature_meta m = { .tokens = 0 };
	uint64_t sum = 0;
	int rc = 0;

	if (part[EPD_PART_META].n)
		rc = epd_meta_parse(part[EPD_PART_META], &m, &sum, why);
	else if (part[EPD_PART_BLOB].n || !part[EPD_PART_PIX].n)
		rc = epd_why(why, EPD_ECORRUPT, "a feature without meta");
	if (rc == 0 && part[EPD_PART_META].n && !epd_name_equal(&m.fp, fp))
		rc = epd_why(why, EPD_ECORRUPT, "meta: another feature's");
	if (rc == 0 && part[EPD_PART_META].n && !part[EPD_PART_BLOB].n &&
	    !part[EPD_PART_PIX].n)
		rc = epd_why(why, EPD_ECORRUPT, "a feature of no bytes");
	if (rc == 0 && part[EPD_PART_PIX].n)
		rc = check_pix(part[EPD_PART_PIX], fp, &m, why);
	if (rc == 0 && part[EPD_PART_BLOB].n)
		rc = check_blob(part[EPD_PART_BLOB], fp, &m, sum, why);
	return rc;
}

static int
write_all(struct epd_features *c, const struct epd_name *fp,
    const struct epd_span part[EPD_PARTS])
{
	char path[EPD_FEATURE_PATH];
	/* A picture that is there is the one its feature was made of: it stays. */
	const int had = epd_feature_has(c, fp, EPD_HAS_PIX);
	int dir, rc = had < 0 ? had : 0;

	if (rc < 0)
		return rc;
	epd_feature_path(path, fp, EPD_HAS_META);
	path[2] = 0;
	if ((dir = epd_dir_make(c->dirfd, path)) < 0)
		return dir;
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++) {
		epd_feature_path(path, fp, which[i]);
		if (part[i].n && !(had && i == EPD_PART_PIX))
			rc = epd_file_replace(dir, path + 3, part + i, 1,
			    c->sync);
	}
	close(dir);
	if (rc == EPD_EUNSURE)
		rc = -EIO;
	if (rc < 0)
		epd_feature_unlink(c, fp, EPD_HAS_META | EPD_HAS_BLOB |
		    (had ? 0 : EPD_HAS_PIX), NULL);
	return rc;
}

int
epd_feature_take_parts(struct epd_features *c, const struct epd_name *fp,
    const struct epd_span part[EPD_PARTS], int trusted, struct epd_why *why)
{
	const struct epd_span picture[EPD_PARTS] = {
		[EPD_PART_PIX] = part[EPD_PART_PIX] };
	int rc = check(fp, part, why);

	if (rc < 0)
		return rc;
	if (!trusted && !picture[EPD_PART_PIX].n)
		return epd_why(why, EPD_ENOTHING, "rows of a peer's that is not "
		    "trusted are not kept, and no picture came with them");
	rc = epd_lock_share(c->busy, EPD_FEATURE_BUSY_MS);
	if (rc < 0)
		return rc;
	rc = epd_feature_has(c, fp, EPD_HAS_META);
	if (rc == 0)
		rc = write_all(c, fp, trusted ? part : picture);
	epd_lock_drop(c->busy);
	return rc > 0 ? 0 : rc;
}

int
epd_feature_is_there(struct epd_features *c, const struct epd_name *fp)
{
	int rc = epd_feature_has(c, fp, EPD_HAS_META);

	return rc ? rc < 0 ? rc : 2 : epd_feature_has(c, fp, EPD_HAS_PIX);
}
