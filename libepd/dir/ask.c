/*
 * ask.c - one question to etcd: by which endpoint, how long, and what that shows.
 *
 * 1. Away begins when it cannot be reached, or has said nothing for as long as one
 *    question may take, or nonsense three times in a row.  It ends with an answer.
 * 2. While it is away only who keeps watch asks, or who has no such thread, and not
 *    before the time: the wait doubles, and half of it is left to chance.
 * 3. A client is one's while he asks.
 */
#include "dir/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

#define MS 1000000ull

static const uint64_t wait_least = 250 * MS, wait_most = 8000 * MS;

void
epd_ask_begin(struct epd_ask *a, struct epd_dir *d)
{
	memset(a, 0, sizeof *a);
	a->d = d;
	a->w.out = &a->body;
	epd_jw_begin(&a->w, NULL, '{');
}

static void
put_base64(struct epd_ask *a, const char *field, const void *p, size_t n)
{
	struct epd_buf b = { 0 };

	epd_base64_pack(&b, epd_span(p, n));
	if (b.failed)
		a->body.failed = 1;
	else
		epd_jw_bytes(&a->w, field, epd_span(b.p, b.n));
	epd_buf_free(&b);
}

static size_t
whole_key(const struct epd_ask *a, char out[EPD_ETCD_KEY], const char *key)
{
	const int n = snprintf(out, EPD_ETCD_KEY, "%s%s", a->d->prefix, key);

	return n < EPD_ETCD_KEY ? (size_t)n : EPD_ETCD_KEY - 1;
}

void
epd_ask_key(struct epd_ask *a, const char *field, const char *key)
{
	char whole[EPD_ETCD_KEY];

	put_base64(a, field, whole, whole_key(a, whole, key));
}

void
epd_ask_folder(struct epd_ask *a, const char *key)
{
	char whole[EPD_ETCD_KEY];
	const size_t n = whole_key(a, whole, key);

	put_base64(a, "key", whole, n);
	whole[n - 1]++;
	put_base64(a, "range_end", whole, n);
}

void
epd_ask_put(struct epd_ask *a, const char *key, const struct epd_buf *value,
    uint64_t lease)
{
	epd_ask_key(a, "key", key);
	put_base64(a, "value", value->p, value->n);
	if (value->failed)
		a->body.failed = 1;
	if (lease)
		epd_jw_uint(&a->w, "lease", lease);
}

/* Under the lock. */
static int
is_not_now(const struct epd_dir *d)
{
	if (!d->away)
		return 0;
	return d->has_thread ? !pthread_equal(d->thread, pthread_self()) :
	    epd_clock_boot_ns() < d->retry_ns;
}

int
epd_ask_not(struct epd_dir *d)
{
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = is_not_now(d);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

void
epd_ask_wrong(struct epd_dir *d)
{
	epd_count(d->o.metrics, EPD_M_DIR_ERRORS, 1);
}

static void
note_answer(struct epd_dir *d)
{
	int was;

	pthread_mutex_lock(&d->lock);
	was = d->away;
	d->away = 0;
	d->failing_ns = d->wait_ns = 0;
	pthread_mutex_unlock(&d->lock);
	if (!was)
		return;
	epd_log(&d->log, "op=directory etcd=back");
	if (d->o.say)
		d->o.say(d->o.arg, "the directory is there again");
}

static void
note_failure(struct epd_dir *d, int rc, uint64_t waited,
    const struct epd_why *why)
{
	struct epd_why text;
	uint64_t half;
	int begins = 0;

	pthread_mutex_lock(&d->lock);
	d->failing_ns += rc == EPD_EPEER ? d->timeout_ns :
	    rc == EPD_ETIMEOUT ? waited : d->timeout_ns / 3 + 1;
	if (d->failing_ns >= d->timeout_ns) {
		begins = !d->away;
		d->away = 1;
		d->wait_ns = !d->wait_ns ? wait_least :
		    d->wait_ns >= wait_most / 2 ? wait_most : d->wait_ns * 2;
		half = d->wait_ns / 2;
		d->salt += epd_clock_boot_ns();
		d->retry_ns = epd_clock_boot_ns() + half +
		    epd_xxh3_64(&d->salt, sizeof d->salt) % half;
	}
	pthread_mutex_unlock(&d->lock);
	epd_ask_wrong(d);
	if (!begins)
		return;
	epd_count(d->o.metrics, EPD_M_DIR_AWAY, 1);
	epd_why(&text, 0, "the directory is away, this node goes on alone: %s",
	    why->text);
	epd_log(&d->log, "op=directory etcd=away why=\"%.150s\"", why->text);
	if (d->o.say)
		d->o.say(d->o.arg, text.text);
}

static int
take_client(struct epd_dir *d, int at, struct epd_http **out,
    struct epd_why *why)
{
	struct epd_http *h = NULL;

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < d->nidle && !h; i++)
		if (d->idle[i].at == at) {
			h = d->idle[i].http;
			d->idle[i] = d->idle[--d->nidle];
		}
	pthread_mutex_unlock(&d->lock);
	if (h) {
		*out = h;
		return 0;
	}
	return epd_http_open(out, d->endpoint[at], 1, why);
}

static void
give_client(struct epd_dir *d, int at, struct epd_http *h)
{
	pthread_mutex_lock(&d->lock);
	if (d->nidle < EPD_DIR_IDLE) {
		d->idle[d->nidle].http = h;
		d->idle[d->nidle++].at = at;
		h = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	epd_http_close(h);
}

/* An answer says of what revision it is, and one of a stream's what came of it. */
static int
is_answer(const char *path, const struct epd_json *answer, uint64_t revision)
{
	return !strcmp(path, "/v3/lease/keepalive") ? epd_json_type(
	    epd_json_get(answer, "result")) == EPD_JSON_OBJECT : revision != 0;
}

static int
ask_one(struct epd_dir *d, int at, const struct epd_http_request *r,
    struct epd_json **answer, uint64_t *revision, struct epd_why *why)
{
	struct epd_http_done done;
	struct epd_http *h;
	int rc = take_client(d, at, &h, why);

	if (rc)
		return rc;
	rc = epd_http_do(h, r, &done, why);
	give_client(d, at, h);
	if (rc)
		return rc;
	rc = epd_etcd_answer(answer, revision, done.status,
	    epd_span(done.answer.p, done.answer.n), why);
	epd_buf_free(&done.answer);
	if (!rc && !is_answer(r->path, *answer, *revision)) {
		epd_json_free(*answer);
		rc = epd_why(why, EPD_EFORMAT, "no answer of etcd's: what was "
		    "asked for is not in it");
	}
	return rc;
}

/* The endpoints in turn, from the one that answered last. */
static int
ask_all(struct epd_dir *d, struct epd_http_request *r, uint64_t end_ns,
    struct epd_json **answer, uint64_t *revision, struct epd_why *why)
{
	int rc = EPD_EPEER;

	for (int left = d->endpoints; left; left--) {
		const uint64_t now = epd_clock_boot_ns();
		int at;

		if (now >= end_ns)
			return epd_why(why, EPD_ETIMEOUT, "no answer in time");
		pthread_mutex_lock(&d->lock);
		at = d->at;
		pthread_mutex_unlock(&d->lock);
		r->deadline_ns = now + (end_ns - now) / (uint64_t)left;
		rc = ask_one(d, at, r, answer, revision, why);
		if (!rc || rc == EPD_ELEASE || rc == -ECANCELED ||
		    rc == -ENOMEM)
			break;
		pthread_mutex_lock(&d->lock);
		if (d->at == at)
			d->at = (at + 1) % d->endpoints;
		pthread_mutex_unlock(&d->lock);
	}
	return rc;
}

int
epd_ask(struct epd_ask *a, const char *path, uint64_t deadline_ns,
    struct epd_json **answer, uint64_t *revision, struct epd_why *why)
{
	struct epd_dir *d = a->d;
	const uint64_t now = epd_clock_boot_ns();
	uint64_t end = now + d->timeout_ns;
	struct epd_why said = { "" };
	char whole[64];
	struct epd_http_request r = { .method = "POST", .path = whole,
		.most = EPD_ETCD_ANSWER };
	int rc, cut = deadline_ns < end;

	if (cut)
		end = deadline_ns;
	snprintf(whole, sizeof whole, "/v3/%s", path);
	epd_jw_end(&a->w, '}');
	if (a->body.failed)
		rc = -ENOMEM;
	else if (epd_ask_not(d))
		rc = epd_why(why, EPD_EPEER, "the directory is away");
	else if (now >= end)
		rc = epd_why(why, EPD_ETIMEOUT, "no time is left");
	else {
		r.body = epd_span(a->body.p, a->body.n);
		rc = ask_all(d, &r, end, answer, revision, &said);
		if (!rc || rc == EPD_ELEASE)
			note_answer(d);
		else if (rc != -ECANCELED && rc != -ENOMEM)
			/* A timer's last fraction of a millisecond is no matter. */
			note_failure(d, rc, cut ? epd_clock_boot_ns() - now :
			    d->timeout_ns, &said);
		if (rc == EPD_EFORMAT || rc == EPD_ETOOBIG)
			rc = EPD_EPEER;
		if (rc)
			epd_why(why, rc, "%s", said.text);
	}
	epd_buf_free(&a->body);
	return rc;
}

int
epd_ask_only(struct epd_ask *a, const char *path, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_json *answer = NULL;
	uint64_t revision;
	int rc = epd_ask(a, path, deadline_ns, &answer, &revision, why);

	if (!rc)
		epd_json_free(answer);
	return rc;
}
