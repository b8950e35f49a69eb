/* lossy.c - the names of what a codec leaves of a state. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/book.h"
#include "flow/lossy.h"
#include "flow/session.h"

int
epd_lossy_numeric(const struct epd_state *st, char out[EPD_NUMERIC_MAX])
{
	struct epd_json *j = NULL;
	const char *s;
	int rc = epd_json_parse(&j, epd_span_str(st->fingerprint ?
	    st->fingerprint : ""), "fingerprint", NULL);

	if (rc < 0)
		return rc;
	s = epd_json_str(epd_json_get(j, "numeric"), "");
	rc = strlen(s) < EPD_NUMERIC_MAX ? 0 : EPD_EFORMAT;
	if (rc == 0)
		memcpy(out, s, strlen(s) + 1);
	epd_json_free(j);
	return rc;
}

int
epd_lossy_is(const char *numeric)
{
	const size_t n = strlen(EPD_NUMERIC);

	return !strncmp(numeric, EPD_NUMERIC, n) && numeric[n] == '+';
}

void
epd_lossy_codec(const char *numeric, char out[EPD_CODEC_NAME])
{
	const char *name = numeric + strlen(EPD_NUMERIC) + 1;

	snprintf(out, EPD_CODEC_NAME, "%s", epd_codec_name_ok(name) ? name : "");
}

/* The fingerprint with another numeric family, all else as it was. */
static int
rewrite(struct epd_buf *out, const struct epd_json *j, const char *numeric)
{
	struct epd_json_iter it = epd_json_begin(j);
	int first = 1;

	epd_buf_str(out, "{");
	while (epd_json_next(&it)) {
		if (!first)
			epd_buf_str(out, ", ");
		first = 0;
		epd_json_quote(out, epd_span_str(it.key));
		epd_buf_str(out, ": ");
		if (strcmp(it.key, "numeric"))
			epd_json_dump(out, it.value);
		else
			epd_json_quote(out, epd_span_str(numeric));
	}
	epd_buf_str(out, "}");
	epd_buf_cstr(out);
	return out->failed ? -ENOMEM : 0;
}

/* Tokens an image takes up, and so where it ends. */
static uint64_t
ends(const struct epd_image_ref *r, uint32_t merge)
{
	return r->at + (uint64_t)r->grid[0] * (r->grid[1] / merge) *
	    (r->grid[2] / merge);
}

/* Page i's name behind up. */
static int
name_page(const struct epd_whole *f, uint64_t i, uint32_t merge,
    const struct epd_name *up, struct epd_name *out)
{
	const uint64_t at = i * f->traits.page_tokens;
	const uint32_t rows = f->row[i].ref.rows;
	struct epd_page_image *im = epd_calloc(f->v.nimages + 1u, sizeof *im);
	size_t n = 0;

	if (!im)
		return -ENOMEM;
	for (uint32_t k = 0; k < f->v.nimages; k++)
		if (f->v.images[k].at < at + rows &&
		    ends(f->v.images + k, merge) > at)
			im[n++] = (struct epd_page_image){
				.at = (int64_t)(f->v.images[k].at - at),
				.fp = f->v.images[k].fp,
			};
	epd_page_name(out, up, f->v.ids + at, rows, im, n);
	epd_free(im);
	return 0;
}

static int
rename_pages(struct epd_whole *f, uint32_t merge, struct epd_name *names)
{
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && i < f->rows; i++) {
		if (i * f->traits.page_tokens + f->row[i].ref.rows >
		    f->v.nids)
			return EPD_ECORRUPT;
		rc = name_page(f, i, merge, i ? names + i - 1 :
		    &f->traits.base, names + i);
	}
	return rc;
}

static int
make(struct epd_whole *f, const struct epd_json *j, const char *codec,
    struct epd_name *names, struct epd_buf *fp)
{
	const struct epd_run_shape shape = {
		.kind = EPD_OBJECT_KV_PAGE, .type = f->traits.kv_type,
		.tokens = f->traits.page_tokens, .bytes = f->traits.page_bytes,
	};
	const int64_t merge = epd_json_int(epd_json_get(j, "merge"), 0);
	const int64_t arithmetic = epd_json_int(epd_json_get(j, "arithmetic"),
	    0);
	char numeric[EPD_NUMERIC_MAX];
	int n;

	if (merge < 1 || merge > 64 || arithmetic < 1)
		return EPD_EFORMAT;
	n = snprintf(numeric, sizeof numeric, "%s+%s",
	    epd_json_str(epd_json_get(j, "numeric"), EPD_NUMERIC), codec);
	if (n < 0 || (size_t)n >= sizeof numeric)
		return EPD_ETOOBIG;
	epd_page_base(&f->traits.base, (uint32_t)arithmetic, numeric,
	    &f->traits.model_fp, &shape);
	n = rename_pages(f, (uint32_t)merge, names);
	return n < 0 ? n : rewrite(fp, j, numeric);
}

int
epd_lossy_rename(struct epd_whole *f, const char *codec,
    struct epd_name **names, struct epd_why *why)
{
	struct epd_name *own = epd_calloc(f->rows + 1, sizeof *own);
	struct epd_json *j = NULL;
	struct epd_buf fp = {0};
	int rc = own ? epd_json_parse(&j, epd_span_str(f->traits.fingerprint),
	    "fingerprint", why) : -ENOMEM;

	if (rc == 0)
		rc = make(f, j, codec, own, &fp);
	epd_json_free(j);
	if (rc < 0) {
		epd_free(own);
		epd_buf_free(&fp);
		return epd_why(why, rc, "a state of another numeric family: %s",
		    epd_strerror(rc));
	}
	epd_free(f->fingerprint);
	f->traits.fingerprint = f->fingerprint = (char *)fp.p;
	*names = own;
	return 0;
}
