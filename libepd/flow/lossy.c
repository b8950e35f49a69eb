/* lossy.c - the names of what a codec leaves of a state. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/book.h"
#include "flow/lossy.h"
#include "flow/names.h"
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

static int
rename_pages(struct epd_whole *f, uint32_t merge, struct epd_name *names)
{
	struct epd_page_image *im = epd_calloc(f->v.nimages + 1u, sizeof *im);
	const struct epd_name *up = &f->traits.base;
	uint32_t first = 0;
	int rc = im ? 0 : -ENOMEM;

	for (uint64_t i = 0; rc == 0 && i < f->rows; i++) {
		const uint64_t from = i * f->traits.page_tokens;
		const uint32_t rows = f->row[i].ref.rows;
		size_t k;

		if (from + rows > f->v.nids) {
			rc = EPD_ECORRUPT;
			break;
		}
		k = epd_names_shown(&f->v, merge, from, rows, &first, im);
		epd_page_name(names + i, up, f->v.ids + from, rows, im, k);
		up = names + i;
	}
	epd_free(im);
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
