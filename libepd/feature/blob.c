/*
 * blob.c - the rows of a feature on disk.
 *
 *	 0   8  "EPDFEAT1"
 *	 8  32  fp		the file's name, again
 *	40   8  bytes of rows
 *	48   8  BLAKE2b-64 of the rows
 *	56   4  zero
 *	60   4  CRC32C of all before
 *	64      rows, little-endian: [layers][tokens][hidden]
 *
 * The sum stands here and in meta: a blob of another commit than meta's is told
 * from its first 64 bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "feature/inner.h"

static const char magic[8] = "EPDFEAT1";

static int
pack_head(struct epd_buf *b, const struct epd_name *fp, uint64_t bytes,
    uint64_t sum)
{
	epd_buf_put(b, magic, sizeof magic);
	epd_buf_put(b, fp->b, EPD_NAME);
	epd_pack_u64(b, bytes);
	epd_pack_u64(b, sum);
	epd_pack_u32(b, 0);
	if (b->failed)
		return -ENOMEM;
	epd_pack_u32(b, epd_crc32c(0, b->p, b->n));
	return b->failed ? -ENOMEM : 0;
}

int
epd_blob_head(uint8_t out[EPD_FEATURE_HEAD], const struct epd_name *fp,
    uint64_t bytes, uint64_t sum)
{
	struct epd_buf b = { 0 };
	int rc = pack_head(&b, fp, bytes, sum);

	if (rc == 0)
		memcpy(out, b.p, EPD_FEATURE_HEAD);
	epd_buf_free(&b);
	return rc;
}

int
epd_blob_write(struct epd_features *c, int dir, const struct epd_name *fp,
    const void *rows, size_t bytes, uint64_t *sum)
{
	uint64_t s = epd_blake2b64(epd_span(rows, bytes));
	char path[EPD_FEATURE_PATH];
	struct epd_buf b = { 0 };
	struct epd_span part[2];
	int rc = pack_head(&b, fp, bytes, s);

	epd_feature_path(path, fp, EPD_HAS_BLOB);
	part[0] = epd_span(b.p, b.n);
	part[1] = epd_span(rows, bytes);
	if (!rc)
		rc = epd_file_replace(dir, strchr(path, '/') + 1, part, 2,
		    c->sync);
	epd_buf_free(&b);
	if (!rc)
		*sum = s;
	return rc;
}

/* Header, length, rows and their sum, from an open file. */
static int
load(int fd, const struct epd_buf *want, uint64_t bytes, uint64_t sum,
    void *buf, struct epd_why *why)
{
	uint8_t head[EPD_FEATURE_HEAD];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if ((uint64_t)st.st_size != EPD_FEATURE_HEAD + bytes)
		return epd_why(why, EPD_ECORRUPT, "blob: %lld bytes, not %llu",
		    (long long)st.st_size,
		    (unsigned long long)(EPD_FEATURE_HEAD + bytes));
	if ((n = epd_file_pread(fd, head, sizeof head, 0)) < 0)
		return (int)n;
	/* What the header must be is known to the byte. */
	if (n != (ssize_t)sizeof head || memcmp(head, want->p, sizeof head))
		return epd_why(why, EPD_ECORRUPT, "blob: header is another");
	n = epd_file_pread(fd, buf, (size_t)bytes, EPD_FEATURE_HEAD);
	if (n < 0)
		return (int)n;
	if ((uint64_t)n != bytes ||
	    epd_blake2b64(epd_span(buf, (size_t)bytes)) != sum)
		return epd_why(why, EPD_ECORRUPT, "blob: checksum is wrong");
	return 0;
}

int
epd_blob_read(struct epd_features *c, const struct epd_name *fp,
    uint64_t bytes, uint64_t sum, void *buf, struct epd_why *why)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf want = { 0 };
	void *own = NULL;
	int fd, rc;

	if (!bytes || bytes > EPD_BLOB_MAX)
		return EPD_ETOOBIG;
	epd_feature_path(path, fp, EPD_HAS_BLOB);
	fd = epd_file_open(c->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	if (!buf)
		buf = own = epd_malloc((size_t)bytes);
	rc = buf ? pack_head(&want, fp, bytes, sum) : -ENOMEM;
	if (!rc)
		rc = load(fd, &want, bytes, sum, buf, why);
	epd_buf_free(&want);
	epd_free(own);
	close(fd);
	return rc;
}
