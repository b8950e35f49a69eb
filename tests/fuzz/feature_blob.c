/*
 * feature_blob.c - the rows of a feature on disk.  The first byte chooses: the
 * rest is the file as it lies there; or it is the rows of a file of ours, of
 * which one byte is changed, or which ends early or late; or it is what befalls
 * a committed pair, after which a lookup gives the rows of one commit or a miss.
 */
#include "feature/inner.h"
#include "tests/fuzz/folder.h"

enum { MOST = 1 << 16 };

static const struct epd_model_parts parts = {
	.tenant = "", .snapshot = "00ff", .family = "qwen3_vl",
	.numeric = "lanes16-f32", .processor = "fast/1", .dtype = "f32",
	.quantisation = "none", .adapter = "", .resampler = "fast",
	.exif = "applied", .alpha = "white", .arithmetic = 1, .merge = 2,
	.patch = 16, .temporal = 2, .min_pixels = 1, .max_pixels = 1 << 20,
	.mean = { 0.5f, 0.5f, 0.5f }, .std = { 0.5f, 0.5f, 0.5f },
};
static const struct epd_feature f = {
	.fp = { { 0xab, 1 } }, .model = { { 2 } }, .parts = &parts,
	.grid = { 1, 2, 4 }, .layers = 1, .tokens = 2, .hidden = 8,
	.dtype = "f32",
};

enum { ROWS = 64 };		/* bytes of f's rows */

static struct epd_features *c;
static int dir;			/* of the pair */
static char blob[EPD_FEATURE_PATH], meta[EPD_FEATURE_PATH];
/* Two commits of f: files and rows. */
static struct { struct epd_buf meta, blob; uint8_t rows[ROWS]; } made[2];

static void
begin(void)
{
	struct epd_features_options o = { .sync = 0 };

	if (epd_features_open(&c, folder(), &o) || epd_feature_bytes(&f) != ROWS)
		abort();
	epd_feature_path(blob, &f.fp, EPD_HAS_BLOB);
	epd_feature_path(meta, &f.fp, EPD_HAS_META);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < ROWS; k++)
			made[i].rows[k] = (uint8_t)(i + 3 * k);
		if (epd_feature_remove(c, &f.fp) ||
		    epd_feature_commit(c, &f, made[i].rows, NULL, 0, 0) ||
		    epd_file_read(c->dirfd, meta, 4096, &made[i].meta) ||
		    epd_file_read(c->dirfd, blob, 4096, &made[i].blob))
			abort();
	}
	dir = openat(c->dirfd, "ab", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The file as it lies there, with the sum its head claims. */
static void
as_it_is(const uint8_t *p, size_t n)
{
	struct epd_cur cur = epd_cur(epd_span(p, n));
	uint64_t bytes = n > EPD_FEATURE_HEAD ? n - EPD_FEATURE_HEAD : 1, sum;
	struct epd_why why = { "" };
	uint8_t *rows = malloc(bytes);
	int rc;

	epd_unpack_bytes(&cur, 48);
	sum = epd_unpack_u64(&cur);
	folder_put(c->dirfd, blob, p, n);
	rc = epd_blob_read(c, &f.fp, bytes, sum, rows, &why);
	if (rc ? rc != EPD_ECORRUPT || !why.text[0] :
	    memcmp(rows, p + EPD_FEATURE_HEAD, bytes))
		abort();
	if (epd_blob_read(c, &f.fp, bytes, sum, NULL, NULL) != rc)
		abort();
	free(rows);
}

/* Rows written and read; then the file with one fault. */
static void
with_a_fault(const uint8_t *p, size_t n)
{
	size_t fault = p[0] | (size_t)p[1] << 8;
	int how = p[2] % 3;
	struct epd_buf b = { 0 };
	uint8_t *rows;
	uint64_t sum;

	p += 3;
	n -= 3;
	rows = malloc(n);
	if (epd_blob_write(c, dir, &f.fp, p, n, &sum) ||
	    epd_blob_read(c, &f.fp, n, sum, rows, NULL) || memcmp(rows, p, n))
		abort();
	if (epd_file_read(c->dirfd, blob, MOST + EPD_FEATURE_HEAD, &b) ||
	    b.n != n + EPD_FEATURE_HEAD)
		abort();
	fault %= b.n;
	if (how == 0)
		b.p[fault] ^= 1;
	else if (how == 1)
		b.n = fault;
	else
		epd_buf_put(&b, p, fault % n + 1);
	folder_put(c->dirfd, blob, b.p, b.n);
	if (epd_blob_read(c, &f.fp, n, sum, rows, NULL) != EPD_ECORRUPT)
		abort();
	epd_buf_free(&b);
	free(rows);
}

/* Four bytes a blow: on which file, what, where. */
static void
strike(struct epd_buf file[2], const uint8_t *p)
{
	struct epd_buf *b = &file[p[0] & 1];
	size_t where = b->n ? (p[2] | (size_t)p[3] << 8) % b->n : 0;
	const struct epd_buf *other = p[0] & 1 ? &made[1].blob : &made[1].meta;

	switch (p[0] >> 1 & 3) {
	case 0:
		if (b->n)
			b->p[where] ^= p[1];
		break;
	case 1:
		b->n = where;
		break;
	case 2:
		epd_buf_put(b, p + 1, 1);
		break;
	default:
		b->n = 0;
		epd_buf_put(b, other->p, other->n);
	}
}

static int
same(const struct epd_buf *a, const struct epd_buf *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

static void
pair(const uint8_t *p, size_t n)
{
	struct epd_buf file[2] = { { 0 }, { 0 } };
	struct epd_why why = { "" };
	uint8_t rows[ROWS];
	int whole = 0, rc;

	epd_buf_put(&file[0], made[0].meta.p, made[0].meta.n);
	epd_buf_put(&file[1], made[0].blob.p, made[0].blob.n);
	for (; n >= 4; p += 4, n -= 4)
		strike(file, p);
	for (int i = 0; i < 2; i++)
		whole |= same(&file[0], &made[i].meta) &&
		    same(&file[1], &made[i].blob);
	folder_put(c->dirfd, meta, file[0].p, file[0].n);
	folder_put(c->dirfd, blob, file[1].p, file[1].n);
	rc = epd_feature_lookup(c, &f, 0, rows, sizeof rows, &why);
	if (rc == 1 && memcmp(rows, made[0].rows, ROWS) &&
	    memcmp(rows, made[1].rows, ROWS))
		abort();
	if (rc != 1 && (whole || rc || !why.text[0] ||
	    epd_feature_has(c, &f.fp, EPD_HAS_META)))
		abort();
	epd_buf_free(&file[0]);
	epd_buf_free(&file[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (!c)
		begin();
	if (n < 5 || n > MOST)
		return 0;
	switch (p[0] % 3) {
	case 0: as_it_is(p + 1, n - 1); break;
	case 1: with_a_fault(p + 1, n - 1); break;
	default: pair(p + 1, n - 1);
	}
	return 0;
}
