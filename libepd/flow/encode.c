/*
 * encode.c - images to features.  A memo answers for a file that has been seen,
 * so a hit costs a lookup; a miss comes from the shared store, or is decoded, fitted
 * and encoded; either is committed, and read back through the route a hit takes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/feature_tier.h"
#include "flow/inner.h"
#include "flow/where.h"

void
epd_session_feature(const struct epd_session *s, const struct epd_name *fp,
    const uint32_t grid[3], struct epd_feature *out)
{
	const uint32_t merge = (uint32_t)s->info->processor.merge;

	*out = (struct epd_feature){
		.fp = *fp,
		.model = s->feature_model,
		.parts = &s->parts,
		.grid = { grid[0], grid[1], grid[2] },
		.layers = 1 + (uint32_t)s->info->deepstack,
		.tokens = grid[0] * (grid[1] / merge) * (grid[2] / merge),
		.hidden = (uint32_t)s->info->hidden,
		.dtype = s->store->config.feature_dtype,
	};
}

/* Run the encoder on a fitted picture and commit what comes out. */
static int
encode_pixels(struct epd_session *s, const struct epd_feature *f,
    const struct epd_image *im, struct epd_why *why)
{
	size_t n = (size_t)f->layers * f->tokens * f->hidden;
	uint64_t from = epd_clock_boot_ns();
	uint16_t *half = NULL;
	float *rows;
	int rc;

	if ((rc = epd_session_engine(s, why)) < 0)
		return rc;
	if (!(rows = epd_alloc_aligned(64, n * sizeof *rows)))
		return epd_why(why, -ENOMEM, "%s", epd_strerror(-ENOMEM));
	rc = epd_encode(s->engine, im, 1, s->resampler, rows, why);
	if (rc < 0 || (rc = epd_session_whole(s, why)) < 0)
		goto out;
	epd_count(s->store->metrics, EPD_M_ENCODE_COUNT, 1);
	epd_count(s->store->metrics, EPD_M_ENCODE_NS,
	    epd_clock_boot_ns() - from);
	if (s->feature_type == EPD_BF16) {
		if (!(half = epd_alloc_aligned(64, n * sizeof *half))) {
			rc = epd_why(why, -ENOMEM, "no memory");
			goto out;
		}
		epd_bf16_from_f32(half, rows, n);
	}
	from = epd_clock_boot_ns();
	rc = epd_feature_commit(s->store->features, f,
	    half ? (const void *)half : rows,
	    s->store->config.keep_pixels ? im->rgb : NULL, im->h, im->w);
	epd_count(s->store->metrics, EPD_M_EP_TRANSFER_COUNT, 1);
	epd_count(s->store->metrics, EPD_M_EP_TRANSFER_NS,
	    epd_clock_boot_ns() - from);
	if (rc < 0)
		epd_why(why, rc, "feature cache: %s", epd_strerror(rc));
	else
		epd_feature_tier_put(s->store, f, half ? (const void *)half :
		    rows);
out:
	epd_free(half);
	epd_free(rows);
	return rc;
}

/* 1: it was there; 0: a miss, which is no matter to tell of. */
static int
lookup(struct epd_session *s, const struct epd_feature *f, int readback,
    void *buf, size_t cap, struct epd_why *why)
{
	struct epd_why inner = {{0}};
	int rc = epd_feature_lookup(s->store->features, f, readback, buf, cap,
	    &inner);

	return rc < 0 ? epd_why(why, rc, "%s", inner.text) : rc;
}

/* What was just committed, by the route a hit takes. */
static int
read_back(struct epd_session *s, const struct epd_feature *f, void *buf,
    size_t cap, struct epd_why *why)
{
	int rc = lookup(s, f, 1, buf, cap, why);

	if (rc == 0)
		return epd_why(why, -EIO, "a feature just committed cannot be "
		    "read back");
	return rc < 0 ? rc : 0;
}

/*
 * 1: there, here or in the shared store, and then here too.  im is its picture, if that
 * is at hand.
 */
static int
find(struct epd_session *s, const struct epd_feature *f,
    const struct epd_image *im, void *buf, size_t cap, struct epd_why *why)
{
	const int keep = im && im->rgb && s->store->config.keep_pixels;
	int rc = lookup(s, f, 0, buf, cap, why);

	if (rc != 0 || cap < epd_feature_bytes(f))
		return rc;
	rc = epd_feature_tier_get(s->store, f, buf, why);
	if (rc <= 0)
		return rc;
	rc = epd_feature_commit(s->store->features, f, buf, keep ? im->rgb :
	    NULL, keep ? im->h : 0, keep ? im->w : 0);
	if (rc < 0)
		return epd_why(why, rc, "feature cache: %s", epd_strerror(rc));
	rc = read_back(s, f, buf, cap, why);
	return rc < 0 ? rc : 1;
}

/* An image of a request on its way: what is known, and its picture if decoded. */
struct work {
	struct epd_encoded e;
	struct epd_image im;
	struct epd_memo_key key;
	int unnoted;		/* in: the memo is not to be asked */
	int keyed;		/* the memo may be told */
};

/* A file may claim any time at all; past 2262 it wraps. */
static int64_t
ns_of(struct timespec t)
{
	return (int64_t)((uint64_t)t.tv_sec * 1000000000u +
	    (uint64_t)t.tv_nsec);
}

static int
read_file(struct epd_session *s, const char *path, struct epd_buf *bytes,
    struct work *w, struct epd_why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
	struct epd_memo memo;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return epd_why(why, rc, "%s: %s", path, epd_strerror(rc));
	}
	w->key = (struct epd_memo_key){
		.dev = st.st_dev, .ino = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = ns_of(st.st_mtim),
		.ctime_ns = ns_of(st.st_ctim),
	};
	w->keyed = S_ISREG(st.st_mode) && s->store->config.debug_memo &&
	    epd_file_settled(&st);
	if (S_ISDIR(st.st_mode)) {
		close(fd);
		return epd_why(why, -EISDIR, "%s: is a directory", path);
	}
	/* Opening was not to wait; reading what comes down a pipe is. */
	if (!S_ISREG(st.st_mode))
		(void)fcntl(fd, F_SETFL, O_RDONLY);
	if (w->keyed && !w->unnoted && epd_memo_get(s->store->features, &w->key,
	    &s->feature_model, &memo) == 1) {
		close(fd);
		w->e.memo = 1;
		w->e.fp = memo.fp;
		memcpy(w->e.grid, memo.grid, sizeof memo.grid);
		return 1;
	}
	rc = epd_file_slurp(fd, (size_t)s->store->config.image_max_bytes,
	    bytes);
	close(fd);
	if (rc < 0)
		return epd_why(why, rc, "%s: %s", path, rc == EPD_ETOOBIG ?
		    "more bytes than image.max_bytes" : epd_strerror(rc));
	return 0;
}

/* Grid and name of the picture in w. */
static void
name(struct epd_session *s, struct work *w)
{
	const struct epd_processor *p = &s->info->processor;

	w->e.grid[0] = 1;
	w->e.grid[1] = (uint32_t)(w->im.h / p->patch);
	w->e.grid[2] = (uint32_t)(w->im.w / p->patch);
	epd_image_fingerprint(&w->e.fp, &s->feature_model, w->e.grid, w->im.h,
	    w->im.w, w->im.rgb);
}

/* Decode, fit, name. */
static int
look(struct epd_session *s, const char *path, struct epd_span bytes,
    struct work *w, struct epd_why *why)
{
	const struct epd_config *c = &s->store->config;
	const struct epd_processor *p = &s->info->processor;
	struct epd_image_rules rules = {
		.exif = c->exif,
		.white = !strcmp(c->alpha, "white"),
		.max_pixels = c->image_max_pixels,
	};
	struct epd_image im;
	struct epd_why inner = {{0}};
	long ow, oh;
	int rc = epd_image_decode(&im, bytes, &rules, &inner);

	if (rc < 0)
		return epd_why(why, rc, "%s: %s", path, *inner.text ?
		    inner.text : epd_strerror(rc));
	rc = epd_image_fit(p, im.w, im.h, &ow, &oh, &inner);
	if (rc < 0)
		epd_why(why, rc, "%s: %s", path, inner.text);
	else if ((rc = epd_image_resize(&w->im, &im, ow, oh, s->resampler)) < 0)
		epd_why(why, rc, "%s: %s", path, epd_strerror(rc));
	epd_image_free(&im);
	if (rc == 0)
		name(s, w);
	return rc;
}

static int
feature_why(struct epd_why *why, int rc, const struct epd_name *fp,
    const char *text)
{
	char hex[2 * EPD_NAME + 1];

	epd_hex_format(hex, fp->b, EPD_NAME);
	return epd_why(why, rc, "f:%.16s: %s", hex, text);
}

/*
 * The picture that is kept of a feature.  It must bear the feature's name, or
 * it was made under other settings, and what this session would make of it is
 * not what is wanted.  EPD_ESUSPECT when there is none.
 */
static int
kept_picture(struct epd_session *s, const struct epd_name *fp, struct work *w,
    struct epd_why *why)
{
	int rc = epd_feature_pixels(s->store->features, fp, &w->im.rgb,
	    &w->im.h, &w->im.w);

	if (rc == -ENOENT || rc == EPD_ECORRUPT)
		return feature_why(why, EPD_ESUSPECT, fp, "neither the feature "
		    "nor its picture is in the store; encode the image again");
	if (rc < 0)
		return feature_why(why, rc, fp, epd_strerror(rc));
	name(s, w);
	if (epd_name_equal(&w->e.fp, fp))
		return 0;
	epd_image_free(&w->im);
	return feature_why(why, EPD_EMODEL, fp, "was made by another model, or "
	    "with other image settings");
}

/*
 * Rows that are gone: encode them again from the kept picture, or from the file
 * at path (NULL: none) if that still gives the same picture.
 */
static int
again(struct epd_session *s, const struct epd_feature *f, const char *path,
    void *buf, size_t cap, struct epd_why *why)
{
	struct epd_buf bytes = {0};
	struct work w = { .unnoted = 1 };
	int rc = kept_picture(s, &f->fp, &w, why);

	if (rc == EPD_ESUSPECT && path &&
	    (rc = read_file(s, path, &bytes, &w, why)) == 0) {
		rc = look(s, path, epd_span(bytes.p, bytes.n), &w, why);
		if (rc == 0 && !epd_name_equal(&w.e.fp, &f->fp))
			rc = epd_why(why, EPD_ESTALE, "%s: was changed while "
			    "it was read", path);
	}
	epd_buf_free(&bytes);
	if (rc == 0)
		rc = encode_pixels(s, f, &w.im, why);
	if (rc == 0)
		rc = read_back(s, f, buf, cap, why);
	epd_image_free(&w.im);
	return rc;
}

int
epd_flow_rows(struct epd_session *s, const struct epd_feature *f, void *buf,
    size_t cap, struct epd_why *why)
{
	struct epd_feature_meta meta;
	int rc;

	/* Looked up by what it is not, it would be thrown out as damaged. */
	if (epd_feature_meta(s->store->features, &f->fp, &meta) == 0 &&
	    !epd_name_equal(&meta.model, &s->feature_model))
		return feature_why(why, EPD_EMODEL, &f->fp, "was made by "
		    "another model, or with other image settings");
	rc = find(s, f, NULL, buf, cap, why);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = again(s, f, NULL, buf, cap, why);
	/* Neither rows nor picture are here: another node may have them. */
	if (rc == EPD_ESUSPECT && epd_where_feature(s->store, &f->fp, 0) == 0) {
		rc = lookup(s, f, 0, buf, cap, why);
		rc = rc > 0 ? 0 : rc < 0 ? rc : again(s, f, NULL, buf, cap, why);
	}
	return rc;
}

/* Name and grid of a feature of this store. */
static int
resolve_feature(struct epd_session *s, const struct epd_name *fp,
    struct work *w, struct epd_why *why)
{
	struct epd_feature_meta meta;
	int rc = epd_feature_meta(s->store->features, fp, &meta);

	if (rc == -ENOENT)
		return feature_why(why, EPD_ENOTHING, fp, "no such feature");
	/* Its picture tells what a damaged meta does not. */
	if (rc == EPD_ECORRUPT)
		return kept_picture(s, fp, w, why);
	if (rc < 0)
		return feature_why(why, rc, fp, epd_strerror(rc));
	if (!epd_name_equal(&meta.model, &s->feature_model))
		return feature_why(why, EPD_EMODEL, fp, "was made by another "
		    "model, or with other image settings");
	w->e.fp = *fp;
	memcpy(w->e.grid, meta.grid, sizeof meta.grid);
	return 0;
}

/* Name and grid of one image of a request. */
static int
resolve(struct epd_session *s, const struct epd_request_image *r,
    struct work *w, struct epd_why *why)
{
	struct epd_buf bytes = {0};
	int rc;

	if (!r->path)
		return resolve_feature(s, &r->feature, w, why);
	rc = read_file(s, r->path, &bytes, w, why);
	if (rc == 0)
		rc = look(s, r->path, epd_span(bytes.p, bytes.n), w, why);
	epd_buf_free(&bytes);
	return rc < 0 ? rc : 0;
}

/*
 * Have image w in the cache and its rows in buf: 1 it was there, 0 it was
 * encoded.  A memo may outlive its feature, and then the picture is found again.
 */
static int
settle(struct epd_session *s, const struct epd_request_image *r,
    struct work *w, void *buf, size_t cap, struct epd_why *why)
{
	const struct epd_config *c = &s->store->config;
	struct epd_feature f;
	int rc = 0;

	epd_session_feature(s, &w->e.fp, w->e.grid, &f);
	/* A feature that is asked for by name is no cache's guess. */
	if (!r->path || (c->epd_enabled && c->feature_cache))
		rc = find(s, &f, &w->im, buf, cap, why);
	if (rc != 0)
		return rc;
	if (!w->im.rgb) {
		w->e.memo = 0;
		return again(s, &f, r->path, buf, cap, why);
	}
	if ((rc = encode_pixels(s, &f, &w->im, why)) < 0)
		return rc;
	return read_back(s, &f, buf, cap, why);
}

/* Settle each distinct image; rows[i] is that of the first equal one. */
static int
settle_all(struct epd_session *s, const struct epd_request_image *req, int n,
    const struct epd_plan_image *plan, struct work *w,
    struct epd_request_rows *out, struct epd_why *why)
{
	struct epd_feature f;
	size_t most = 0;
	int rc;

	for (int i = 0; i < n; i++) {
		epd_session_feature(s, &w[i].e.fp, w[i].e.grid, &f);
		most = epd_feature_bytes(&f) > most ? epd_feature_bytes(&f) :
		    most;
		w[i].e.tokens = f.tokens;
	}
	if ((rc = epd_recv_pool_new(&out->pool, most, n)) < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	for (int i = 0; i < n; i++) {
		uint64_t from = epd_clock_boot_ns();

		if (plan[i].same != i) {
			out->rows[i] = out->rows[plan[i].same];
			w[i].e.hit = 1;
			epd_count(s->store->metrics, EPD_M_MM_DEDUP, 1);
			continue;
		}
		out->rows[i] = epd_recv_take(out->pool, most);
		rc = settle(s, req + i, w + i, out->rows[i], most, why);
		if (rc < 0)
			return rc;
		w[i].e.hit = rc;
		out->hits += (uint32_t)rc;
		out->encoded += !rc;
		w[i].e.ns = epd_clock_boot_ns() - from;
		epd_count(s->store->metrics, rc ? EPD_M_SECOND_PASS_NS :
		    EPD_M_FIRST_PASS_NS, w[i].e.ns);
		if (w[i].keyed && w[i].im.rgb) {
			struct epd_memo memo = { .fp = w[i].e.fp };

			memcpy(memo.grid, w[i].e.grid, sizeof memo.grid);
			/* A memo that cannot be kept costs time only. */
			(void)epd_memo_put(s->store->features, &w[i].key,
			    &s->feature_model, &memo);
		}
	}
	return 0;
}

int
epd_flow_images(struct epd_session *s, const struct epd_request_image *req,
    int n, struct epd_request_rows *out, struct epd_encoded *each,
    struct epd_why *why)
{
	struct epd_plan_image *plan = epd_calloc((size_t)n, sizeof *plan);
	struct work *w = epd_calloc((size_t)n, sizeof *w);
	int rc = 0;

	*out = (struct epd_request_rows){
		.image = epd_calloc((size_t)n, sizeof *out->image),
		.rows = epd_calloc((size_t)n, sizeof *out->rows),
	};
	if (!plan || !w || !out->image || !out->rows)
		rc = epd_why(why, -ENOMEM, "no memory");
	for (int i = 0; rc == 0 && i < n; i++) {
		rc = resolve(s, req + i, w + i, why);
		plan[i].fp = w[i].e.fp;
		memcpy(plan[i].grid, w[i].e.grid, sizeof plan[i].grid);
	}
	if (rc == 0) {
		epd_feature_plan(plan, n, (uint32_t)s->info->processor.merge);
		rc = settle_all(s, req, n, plan, w, out, why);
	}
	for (int i = 0; w && i < n; i++) {
		if (rc == 0) {
			out->image[i].fp = w[i].e.fp;
			memcpy(out->image[i].grid, w[i].e.grid,
			    sizeof out->image[i].grid);
		}
		if (rc == 0 && each)
			each[i] = w[i].e;
		epd_image_free(&w[i].im);
	}
	epd_free(w);
	epd_free(plan);
	if (rc < 0)
		epd_request_rows_free(out);
	return rc;
}

void
epd_request_rows_free(struct epd_request_rows *r)
{
	epd_recv_pool_free(r->pool);
	epd_free(r->image);
	epd_free(r->rows);
	*r = (struct epd_request_rows){0};
}

int
epd_flow_encode(struct epd_session *s, const char *path,
    struct epd_encoded *out, struct epd_why *why)
{
	struct epd_request_image r = { .path = path };
	struct epd_request_rows rows;
	struct epd_encoded e;
	uint64_t from = epd_clock_boot_ns();
	int rc = epd_flow_images(s, &r, 1, &rows, &e, why);

	if (rc < 0)
		return rc;
	epd_request_rows_free(&rows);
	e.ns = epd_clock_boot_ns() - from;
	epd_log(&s->store->log, "op=encode image=%s hit=%d memo=%d tokens=%u "
	    "ns=%llu", path, e.hit, e.memo, e.tokens, (unsigned long long)e.ns);
	*out = e;
	return 0;
}
