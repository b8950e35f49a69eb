/*
 * pix.c - the picture a feature was made from: resized 8-bit RGB, compressed.
 *
 *	 0   8  "EPDPIX 1"
 *	 8  32  fp		the file's name, again
 *	40   4  width
 *	44   4  height
 *	48   8  BLAKE2b-64 of the frame
 *	56   4  zero
 *	60   4  CRC32C of all before
 *	64      one zstd frame (RFC 8878) that says its content's size:
 *		RGB, [height][width][3]
 *
 * Nothing is allocated before width, height and the frame's own word agree and
 * are within the cap; the frame is undone into exactly that much.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "feature/inner.h"

static const char magic[8] = "EPDPIX 1";
enum { LEVEL = 3 };

static int
sane(uint64_t h, uint64_t w)
{
	return h && w && h <= EPD_PIX_MAX && w <= EPD_PIX_MAX &&
	    h * w <= EPD_PIX_MAX;
}

int
epd_pix_write(struct epd_features *c, int dir, const struct epd_name *fp,
    const uint8_t *rgb, long h, long w)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf head = { 0 };
	struct epd_span part[2];
	size_t raw, room, n;
	void *z;
	int rc;

	if (h < 1 || w < 1)
		return -EINVAL;
	if (!sane((uint64_t)h, (uint64_t)w))
		return EPD_ETOOBIG;
	raw = (size_t)h * (size_t)w * 3;
	room = ZSTD_compressBound(raw);
	z = epd_malloc(room);
	if (!z)
		return -ENOMEM;
	n = ZSTD_compress(z, room, rgb, raw, LEVEL);
	rc = ZSTD_isError(n) ? -ENOMEM : 0;
	epd_buf_put(&head, magic, sizeof magic);
	epd_buf_put(&head, fp->b, EPD_NAME);
	epd_pack_u32(&head, (uint32_t)w);
	epd_pack_u32(&head, (uint32_t)h);
	epd_pack_u64(&head, epd_blake2b64(epd_span(z, rc ? 0 : n)));
	epd_pack_u32(&head, 0);
	if (!head.failed)
		epd_pack_u32(&head, epd_crc32c(0, head.p, head.n));
	if (head.failed)
		rc = -ENOMEM;
	epd_feature_path(path, fp, EPD_HAS_PIX);
	part[0] = epd_span(head.p, head.n);
	part[1] = epd_span(z, n);
	if (!rc)
		rc = epd_file_replace(dir, strchr(path, '/') + 1, part, 2,
		    c->sync);
	epd_buf_free(&head);
	epd_free(z);
	return rc;
}

static int
inflate(struct epd_span z, uint8_t **rgb, size_t raw, uint64_t sum,
    struct epd_why *why)
{
	uint8_t *b;
	size_t n;

	if (epd_blake2b64(z) != sum)
		return epd_why(why, EPD_ECORRUPT, "pix: checksum is wrong");
	if (ZSTD_getFrameContentSize(z.p, z.n) != raw)
		return epd_why(why, EPD_ECORRUPT,
		    "pix: the frame is not of that size");
	b = epd_malloc(raw);
	if (!b)
		return -ENOMEM;
	n = ZSTD_decompress(b, raw, z.p, z.n);
	if (n != raw) {
		epd_free(b);
		return epd_why(why, EPD_ECORRUPT, "pix: %s",
		    ZSTD_isError(n) ? ZSTD_getErrorName(n) : "cut short");
	}
	*rgb = b;
	return 0;
}

int
epd_pix_unpack(struct epd_span file, const struct epd_name *fp, uint8_t **rgb,
    uint32_t *h, uint32_t *w, struct epd_why *why)
{
	struct epd_cur c = epd_cur(file);
	struct epd_span mark = epd_unpack_bytes(&c, sizeof magic);
	struct epd_span name = epd_unpack_bytes(&c, EPD_NAME);
	uint32_t width = epd_unpack_u32(&c), height = epd_unpack_u32(&c);
	uint64_t sum = epd_unpack_u64(&c);
	uint32_t zero = epd_unpack_u32(&c), crc = epd_unpack_u32(&c);
	int rc = 0;

	if (c.failed || memcmp(mark.p, magic, sizeof magic) || zero ||
	    epd_crc32c(0, file.p, EPD_FEATURE_HEAD - 4) != crc)
		return epd_why(why, EPD_ECORRUPT, "pix: header is damaged");
	if (memcmp(name.p, fp->b, EPD_NAME))
		return epd_why(why, EPD_ECORRUPT, "pix: another picture");
	if (!sane(height, width))
		return epd_why(why, EPD_ECORRUPT, "pix: %" PRIu32 " x %" PRIu32,
		    width, height);
	if (rgb)
		rc = inflate(epd_span(c.p, epd_cur_left(&c)), rgb,
		    (size_t)height * width * 3, sum, why);
	if (rc)
		return rc;
	*h = height;
	*w = width;
	return 0;
}

int
epd_pix_read(struct epd_features *c, const struct epd_name *fp, uint8_t **rgb,
    uint32_t *h, uint32_t *w, struct epd_why *why)
{
	size_t max = EPD_FEATURE_HEAD + ZSTD_compressBound(EPD_PIX_MAX * 3ul);
	char path[EPD_FEATURE_PATH];
	uint8_t head[EPD_FEATURE_HEAD];
	struct epd_buf b = { 0 };
	ssize_t n;
	int fd, rc;

	epd_feature_path(path, fp, EPD_HAS_PIX);
	if (rgb) {
		rc = epd_file_read(c->dirfd, path, max, &b);
		if (!rc)
			rc = epd_pix_unpack(epd_span(b.p, b.n), fp, rgb, h, w,
			    why);
		epd_buf_free(&b);
		return rc == EPD_ETOOBIG ? EPD_ECORRUPT : rc;
	}
	fd = epd_file_open(c->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	n = epd_file_pread(fd, head, sizeof head, 0);
	close(fd);
	if (n < 0)
		return (int)n;
	return epd_pix_unpack(epd_span(head, (size_t)n), fp, NULL, h, w, why);
}
