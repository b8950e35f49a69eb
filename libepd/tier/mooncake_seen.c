/*
 * mooncake_seen.c - what the master says is there.
 *
 * GET /batch_query_keys?keys=K,K,... of its HTTP.  /query_key, which asks for
 * one, and the REST service's exist each give the key a lease, so that who only
 * looks would keep the store from evicting (tried with 0.3.13: a key that was
 * queried so cannot be removed until the lease is over; one that was queried in
 * a batch can).
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "tier/mooncake_in.h"

enum {
	PATH_MOST = 1900,	/* of a URL, with its base */
	ANSWER_MOST = 64 << 10,
};
static const char BATCH[] = "/batch_query_keys?keys=";

/* Keys of pages from..till in one question; how many of them are there. */
static long
count(struct epd_errand *e, long from, long till, const struct epd_json *data,
    uint8_t *seen)
{
	char key[EPD_MOONCAKE_KEY];
	long n = 0;

	for (long i = from; i < till; i++) {
		int is;

		epd_mooncake_key(e->m, e->lot, i, key);
		is = epd_json_bool(epd_json_get(epd_json_get(data, key), "ok"),
		    0);
		if (seen)
			seen[i] = (uint8_t)is;
		n += is;
	}
	return n;
}

static long
failed(struct epd_errand *e, int rc, const char *said)
{
	epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
	epd_errand_failed(e, rc, "the Mooncake Store's master: %s", said);
	return rc;
}

static long
ask(struct epd_errand *e, const char *path, long from, long till,
    uint8_t *seen)
{
	struct epd_why why = { "" };
	struct epd_http_request r = { .method = "GET", .path = path,
	    .most = ANSWER_MOST };
	struct epd_http_done d;
	struct epd_json *j = NULL, *data;
	long n;
	int rc;

	r.deadline_ns = epd_mooncake_page_deadline(e);
	rc = epd_http_do(e->m->admin, &r, &d, &why);
	if (rc)
		return failed(e, rc, why.text);
	if (d.status != 200 || epd_json_parse(&j, epd_span(d.answer.p,
	    d.answer.n), "an answer", NULL))
		rc = EPD_EPEER;
	epd_buf_free(&d.answer);
	data = epd_json_get(j, "data");
	if (rc || epd_json_type(data) != EPD_JSON_OBJECT) {
		epd_json_free(j);
		return failed(e, EPD_EPEER, "no answer of a master's");
	}
	n = count(e, from, till, data, seen);
	epd_json_free(j);
	return n;
}

long
epd_mooncake_seen(struct epd_errand *e, uint8_t *seen)
{
	struct epd_buf path = { 0 };
	char key[EPD_MOONCAKE_KEY];
	long n = 0, at = 0;
	int rc;

	if (!e->m->admin && (rc = epd_http_open(&e->m->admin, e->m->admin_url,
	    1, e->why)))
		return rc;
	for (long i = 0; i < e->lot->n; i = at) {
		long part;

		path.n = 0;
		epd_buf_str(&path, BATCH);
		for (; at < e->lot->n && path.n < PATH_MOST -
		    EPD_MOONCAKE_KEY; at++) {
			epd_mooncake_key(e->m, e->lot, at, key);
			epd_buf_fmt(&path, "%s%s", at > i ? "," : "", key);
		}
		part = path.failed ? -ENOMEM :
		    ask(e, epd_buf_cstr(&path), i, at, seen);
		if (part < 0) {
			n = part;
			break;
		}
		n += part;
	}
	epd_buf_free(&path);
	return n;
}
