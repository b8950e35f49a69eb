/*
 * meta.c - the commit marker: one line of JSON, for people to read, that ends in
 * its own checksum.
 *
 *	{"schema_version": 1, "fp": HEX, "model": HEX, "parts": {...},
 *	 "dtype": "f32", "grid": [1, 4, 4], "layers": 1, "tokens": 4,
 *	 "hidden": 64, "bytes": 1024, "blob_sum": HEX, "created_ms": N,
 *	 "deadline_ms": N, "pix": [W, H], "sum": HEX}
 *
 * sum is the BLAKE2b-64 of all bytes before `, "sum"`.
 *
 * Whether a meta is the one expected is not asked field by field: what it says
 * beyond the feature itself is read out, the line is written anew from the
 * feature expected, and the two must be the same bytes.  So no field, known or
 * not, can be off and pass, whatever its checksum says.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "feature/inner.h"

enum { SCHEMA = 1, SEAL = sizeof ", \"sum\": \"0123456789abcdef\"}\n" - 1 };

static void
seal_of(char out[SEAL + 1], struct epd_span body)
{
	snprintf(out, SEAL + 1, ", \"sum\": \"%016" PRIx64 "\"}\n",
	    epd_blake2b64(body));
}

static void
pack_reals(struct epd_jw *w, const char *key, const float *v, int n)
{
	epd_jw_begin(w, key, '[');
	for (int i = 0; i < n; i++)
		epd_jw_real(w, NULL, (double)v[i]);
	epd_jw_end(w, '[');
}

static void
pack_parts(struct epd_jw *w, const struct epd_model_parts *p)
{
	epd_jw_begin(w, "parts", '{');
	epd_jw_str(w, "tenant", p->tenant);
	epd_jw_str(w, "snapshot", p->snapshot);
	epd_jw_str(w, "family", p->family);
	epd_jw_str(w, "numeric", p->numeric);
	epd_jw_str(w, "processor", p->processor);
	epd_jw_str(w, "dtype", p->dtype);
	epd_jw_str(w, "quantisation", p->quantisation);
	epd_jw_str(w, "adapter", p->adapter);
	epd_jw_str(w, "resampler", p->resampler);
	epd_jw_str(w, "exif", p->exif);
	epd_jw_str(w, "alpha", p->alpha);
	epd_jw_uint(w, "arithmetic", p->arithmetic);
	epd_jw_uint(w, "merge", p->merge);
	epd_jw_uint(w, "patch", p->patch);
	epd_jw_uint(w, "temporal", p->temporal);
	epd_jw_int(w, "min_pixels", p->min_pixels);
	epd_jw_int(w, "max_pixels", p->max_pixels);
	pack_reals(w, "mean", p->mean, 3);
	pack_reals(w, "std", p->std, 3);
	epd_jw_end(w, '{');
}

int
epd_meta_pack(struct epd_buf *out, const struct epd_feature *f,
    const struct epd_meta *m)
{
	struct epd_jw w = { .out = out };
	char seal[SEAL + 1];
	uint8_t sum[8];

	for (int i = 0; i < 8; i++)
		sum[i] = (uint8_t)(m->blob_sum >> 8 * (7 - i));
	epd_jw_begin(&w, NULL, '{');
	epd_jw_uint(&w, "schema_version", SCHEMA);
	epd_jw_hex(&w, "fp", f->fp.b, EPD_NAME);
	epd_jw_hex(&w, "model", f->model.b, EPD_NAME);
	pack_parts(&w, f->parts);
	epd_jw_str(&w, "dtype", f->dtype);
	epd_jw_begin(&w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(&w, NULL, f->grid[i]);
	epd_jw_end(&w, '[');
	epd_jw_uint(&w, "layers", f->layers);
	epd_jw_uint(&w, "tokens", f->tokens);
	epd_jw_uint(&w, "hidden", f->hidden);
	epd_jw_uint(&w, "bytes", epd_feature_bytes(f));
	epd_jw_hex(&w, "blob_sum", sum, sizeof sum);
	epd_jw_uint(&w, "created_ms", m->created_ms);
	epd_jw_uint(&w, "deadline_ms", m->deadline_ms);
	epd_jw_begin(&w, "pix", '[');
	epd_jw_uint(&w, NULL, m->pix_w);
	epd_jw_uint(&w, NULL, m->pix_h);
	epd_jw_end(&w, '[');
	if (out->failed)
		return -ENOMEM;
	/* The bracket is closed by the seal. */
	seal_of(seal, epd_span(out->p, out->n));
	epd_buf_str(out, seal);
	return out->failed ? -ENOMEM : 0;
}

/* Check the seal and read the line. */
static int
unseal(struct epd_json **out, struct epd_span text, struct epd_why *why)
{
	char seal[SEAL + 1];
	int rc;

	if (text.n <= SEAL)
		return epd_why(why, EPD_ECORRUPT, "meta: cut short");
	seal_of(seal, epd_span(text.p, text.n - SEAL));
	if (memcmp((const uint8_t *)text.p + text.n - SEAL, seal, SEAL))
		return epd_why(why, EPD_ECORRUPT, "meta: checksum is wrong");
	rc = epd_json_parse(out, text, "meta", why);
	return rc == EPD_EFORMAT ? EPD_ECORRUPT : rc;
}

/* A whole number of 0 to max; bad is set if it is none. */
static uint64_t
number(const struct epd_json *j, uint64_t max, int *bad)
{
	int64_t v = epd_json_int(j, -1);

	if (epd_json_type(j) != EPD_JSON_INT || v < 0 || (uint64_t)v > max) {
		*bad = 1;
		return 0;
	}
	return (uint64_t)v;
}

static uint32_t
small(const struct epd_json *j, int *bad)
{
	return (uint32_t)number(j, UINT32_MAX, bad);
}

static void
hex(void *out, size_t n, const struct epd_json *j, int *bad)
{
	struct epd_span s = epd_json_bytes(j);
	char text[2 * EPD_NAME + 1];

	if (s.n != 2 * n || s.n >= sizeof text) {
		*bad = 1;
		return;
	}
	memcpy(text, s.p, s.n);
	text[s.n] = 0;
	if (strlen(text) != s.n || epd_hex_parse(out, n, text))
		*bad = 1;
}

/* What goes beyond the feature. */
static int
read_rest(struct epd_meta *m, const struct epd_json *j)
{
	const struct epd_json *pix = epd_json_get(j, "pix");
	uint8_t sum[8] = { 0 };
	int bad = 0;

	hex(sum, sizeof sum, epd_json_get(j, "blob_sum"), &bad);
	m->blob_sum = 0;
	for (int i = 0; i < 8; i++)
		m->blob_sum = m->blob_sum << 8 | sum[i];
	m->created_ms = number(epd_json_get(j, "created_ms"), INT64_MAX, &bad);
	m->deadline_ms = number(epd_json_get(j, "deadline_ms"), INT64_MAX,
	    &bad);
	m->pix_w = small(epd_json_at(pix, 0), &bad);
	m->pix_h = small(epd_json_at(pix, 1), &bad);
	return bad ? EPD_ECORRUPT : 0;
}

/* The key before the first byte in which two lines differ. */
static int
tell(struct epd_span got, struct epd_span want, struct epd_why *why)
{
	const char *a = got.p, *b = want.p;
	size_t i = 0, end, from;

	while (i < got.n && i < want.n && a[i] == b[i])
		i++;
	/* Back to `": `, then over the key to its opening quote. */
	for (end = i; end > 2 && memcmp(b + end - 2, "\":", 2); end--)
		continue;
	for (from = end > 2 ? end - 2 : 0; from && b[from - 1] != '"'; from--)
		continue;
	if (end <= 2)
		return epd_why(why, EPD_ECORRUPT, "meta: not one of ours");
	return epd_why(why, EPD_ECORRUPT, "meta: %.*s is another",
	    (int)(end - 2 - from), b + from);
}

int
epd_meta_match(struct epd_span text, const struct epd_feature *f,
    struct epd_meta *m, struct epd_why *why)
{
	struct epd_json *j;
	struct epd_buf want = { 0 };
	struct epd_meta got;
	int rc = unseal(&j, text, why);

	if (rc)
		return rc;
	rc = read_rest(&got, j);
	epd_json_free(j);
	if (rc)
		return epd_why(why, rc, "meta: a field is missing or wrong");
	rc = epd_meta_pack(&want, f, &got);
	if (!rc && (text.n != want.n || memcmp(text.p, want.p, want.n)))
		rc = tell(text, epd_span(want.p, want.n), why);
	epd_buf_free(&want);
	if (!rc)
		*m = got;
	return rc;
}

static void
word(char *out, size_t n, const struct epd_json *j)
{
	snprintf(out, n, "%s", epd_json_str(j, ""));
}

int
epd_meta_parse(struct epd_span text, struct epd_feature_meta *out,
    uint64_t *blob_sum, struct epd_why *why)
{
	struct epd_feature_meta o = { .tenant = "" };
	const struct epd_json *parts, *grid;
	struct epd_feature shape = { .dtype = o.dtype };
	struct epd_meta m;
	struct epd_json *j;
	int bad = 0, rc = unseal(&j, text, why);

	if (rc)
		return rc;
	if (epd_json_int(epd_json_get(j, "schema_version"), 0) != SCHEMA) {
		epd_json_free(j);
		return epd_why(why, EPD_EKIND, "meta: another schema_version");
	}
	parts = epd_json_get(j, "parts");
	grid = epd_json_get(j, "grid");
	hex(o.fp.b, EPD_NAME, epd_json_get(j, "fp"), &bad);
	hex(o.model.b, EPD_NAME, epd_json_get(j, "model"), &bad);
	word(o.tenant, sizeof o.tenant, epd_json_get(parts, "tenant"));
	word(o.family, sizeof o.family, epd_json_get(parts, "family"));
	word(o.snapshot, sizeof o.snapshot, epd_json_get(parts, "snapshot"));
	word(o.dtype, sizeof o.dtype, epd_json_get(j, "dtype"));
	for (size_t i = 0; i < 3; i++)
		o.grid[i] = small(epd_json_at(grid, i), &bad);
	shape.layers = o.layers = small(epd_json_get(j, "layers"), &bad);
	shape.tokens = o.tokens = small(epd_json_get(j, "tokens"), &bad);
	shape.hidden = o.hidden = small(epd_json_get(j, "hidden"), &bad);
	o.bytes = number(epd_json_get(j, "bytes"), INT64_MAX, &bad);
	if (read_rest(&m, j) || !o.bytes || epd_feature_bytes(&shape) != o.bytes)
		bad = 1;
	epd_json_free(j);
	if (bad)
		return epd_why(why, EPD_ECORRUPT,
		    "meta: a field is missing or wrong");
	o.created_ms = m.created_ms;
	o.deadline_ms = m.deadline_ms;
	o.pix_w = m.pix_w;
	o.pix_h = m.pix_h;
	*out = o;
	*blob_sum = m.blob_sum;
	return 0;
}

int
epd_meta_read(struct epd_features *c, const struct epd_name *fp,
    struct epd_buf *out)
{
	char path[EPD_FEATURE_PATH];
	int rc;

	epd_feature_path(path, fp, EPD_HAS_META);
	rc = epd_file_read(c->dirfd, path, EPD_META_MAX, out);
	return rc == EPD_ETOOBIG ? EPD_ECORRUPT : rc;
}
