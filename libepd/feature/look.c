/*
 * look.c - what is in the folder: one meta, one picture, all names, removing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "feature/list.h"

int
epd_feature_meta(struct epd_features *c, const struct epd_name *fp,
    struct epd_feature_meta *out)
{
	struct epd_feature_meta o;
	struct epd_buf b = { 0 };
	uint64_t sum;
	int rc = epd_meta_read(c, fp, &b);

	if (!rc)
		rc = epd_meta_parse(epd_span(b.p, b.n), &o, &sum, NULL);
	epd_buf_free(&b);
	if (!rc && !epd_name_equal(&o.fp, fp))
		rc = EPD_ECORRUPT;
	if (!rc)
		*out = o;
	return rc;
}

int
epd_feature_pixels(struct epd_features *c, const struct epd_name *fp,
    uint8_t **rgb, long *h, long *w)
{
	uint32_t height, width;
	int rc = epd_pix_read(c, fp, rgb, &height, &width, NULL);

	if (rc == EPD_ECORRUPT && c->busy >= 0)
		epd_feature_unlink(c, fp, EPD_HAS_PIX, NULL);
	if (rc)
		return rc;
	*h = (long)height;
	*w = (long)width;
	return 0;
}

int
epd_feature_blob(struct epd_features *c, const struct epd_name *fp)
{
	char path[EPD_FEATURE_PATH];
	struct stat st;
	int fd;

	epd_feature_path(path, fp, EPD_HAS_BLOB);
	/* A pipe in its place is not waited for. */
	fd = epd_file_open(c->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

int
epd_feature_remove(struct epd_features *c, const struct epd_name *fp)
{
	return epd_feature_unlink(c, fp,
	    EPD_HAS_META | EPD_HAS_BLOB | EPD_HAS_PIX, NULL);
}

int
epd_feature_evict(struct epd_features *c, const struct epd_name *fp)
{
	int rc = epd_feature_has(c, fp, EPD_HAS_PIX);

	if (rc <= 0)
		return rc < 0 ? rc : -ENOENT;
	return epd_feature_unlink(c, fp, EPD_HAS_META | EPD_HAS_BLOB, NULL);
}

/* ---- listing ---- */

static int
list_name(void *arg, const char *name)
{
	struct epd_feature_list *l = arg;
	struct epd_feature_found f, *more;
	char hex[2 * EPD_NAME + 1], again[2 * EPD_NAME + 1];

	if (strlen(name) < 2 * EPD_NAME)
		return 0;
	memcpy(hex, name, 2 * EPD_NAME);
	hex[2 * EPD_NAME] = 0;
	f.has = 0;
	for (int bit = EPD_HAS_META; bit <= EPD_HAS_PIX; bit <<= 1)
		if (!strcmp(name + 2 * EPD_NAME, epd_feature_ext(bit)))
			f.has = bit;
	if (!f.has || epd_hex_parse(f.fp.b, EPD_NAME, hex))
		return 0;
	epd_hex_format(again, f.fp.b, EPD_NAME);
	if (strcmp(again, hex) || strncmp(hex, l->fan, 2))
		return 0;
	if (!(more = epd_grow(l->at, l->n, &l->cap, sizeof *more)))
		return -ENOMEM;
	l->at = more;
	l->at[l->n++] = f;
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	const struct epd_feature_found *x = a, *y = b;

	return memcmp(x->fp.b, y->fp.b, EPD_NAME);
}

void
epd_feature_list_free(struct epd_feature_list *l)
{
	epd_free(l->at);
	*l = (struct epd_feature_list){ .at = NULL };
}

int
epd_feature_list(struct epd_features *c, int fan, struct epd_feature_list *out)
{
	struct epd_feature_list l = { .at = NULL };
	size_t n = 0;
	int dir, rc;

	snprintf(l.fan, sizeof l.fan, "%02x", (unsigned)fan & 255);
	dir = epd_file_open(c->dirfd, l.fan, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	rc = epd_dir_each(dir, list_name, &l);
	close(dir);
	if (rc) {
		epd_feature_list_free(&l);
		return rc;
	}
	if (l.n)
		qsort(l.at, l.n, sizeof *l.at, by_name);
	/* One entry a name. */
	for (size_t i = 0; i < l.n; i++)
		if (n && !by_name(&l.at[n - 1], &l.at[i]))
			l.at[n - 1].has |= l.at[i].has;
		else
			l.at[n++] = l.at[i];
	l.n = n;
	*out = l;
	return 0;
}

int
epd_feature_each(struct epd_features *c, const char *prefix,
    int (*fn)(void *arg, const struct epd_name *fp), void *arg)
{
	size_t len = strlen(prefix);
	int rc = 0;

	if (len > 2 * EPD_NAME)
		return 0;
	for (int fan = 0; !rc && fan < 256; fan++) {
		struct epd_feature_list l = { .at = NULL };
		char hex[2 * EPD_NAME + 1];

		snprintf(hex, sizeof hex, "%02x", (unsigned)fan);
		if (strncmp(hex, prefix, len < 2 ? len : 2))
			continue;
		rc = epd_feature_list(c, fan, &l);
		for (size_t i = 0; !rc && i < l.n; i++) {
			epd_hex_format(hex, l.at[i].fp.b, EPD_NAME);
			if (l.at[i].has & EPD_HAS_META &&
			    !strncmp(hex, prefix, len))
				rc = fn(arg, &l.at[i].fp);
		}
		epd_feature_list_free(&l);
	}
	return rc;
}
