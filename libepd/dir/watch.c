/*
 * watch.c - the thread of one that stays: it renews the node's lease, tells what waits
 * to be told, and watches what is under our prefix.
 *
 * 1. A watch tells of what came, not that nothing did.  So etcd is asked, a few times
 *    within the bound, for its revision: when the watch has come as far as that, all
 *    that was heard is as it was when etcd was asked.  That is progress, and the only
 *    thing that makes what was heard younger.
 * 2. Who else writes to this etcd moves its revision, and no event of ours tells.  Then
 *    a beat is written, which comes by the watch.
 * 3. A watch that broke, was compacted away, or makes no sense is begun anew at the
 *    revision that etcd has; what was heard is forgotten before.
 * 4. While etcd is away nothing is renewed and nothing told: what was put waits in the
 *    queue.  All there is goes into it when the lease is another.
 */
#include "dir/ask.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "dir/memory.h"

#define MS 1000000ull

enum {
	LINE_MOST = 256 << 10,		/* a burst that is longer: anew */
	PART = 5,			/* progress is asked for so often in a bound */
	TELL_ONCE = 32,			/* told between two looks at the watch */
	BEATS = 8,			/* that did not come: the watch is dead */
	NAP_MS = 20,
};

struct watcher {
	struct epd_dir *d;
	struct epd_http *http;		/* of the watch alone; NULL: none */
	struct epd_buf line, body;	/* body: what it was asked for by */
	int broken;
	int late;			/* looks since it was as far as etcd */
	uint64_t asked_ns, asked_revision;	/* of the last look */
	uint64_t look_ns, keep_ns, anew_ns, wait_ns;
};

static int
is_closing(void *arg)
{
	return ((struct epd_dir *)arg)->closing;
}

/* What waits to be told does not wait for the watch. */
static int
has_to_do(void *arg)
{
	struct epd_dir *d = arg;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = d->first && !d->away;
	pthread_mutex_unlock(&d->lock);
	return rc || d->closing;
}

static uint64_t
by_timeout(const struct epd_dir *d)
{
	return epd_clock_boot_ns() + d->timeout_ns;
}

/* A key changed, at a revision of which more may come. */
static void
changed(void *arg, const char *key, uint64_t revision)
{
	struct epd_dir *d = arg;
	const size_t n = strlen(d->prefix);
	char path[EPD_ETCD_KEY], *end;

	pthread_mutex_lock(&d->lock);
	if (revision > d->arriving)
		d->arriving = revision;
	if (!strncmp(key, d->prefix, n) && !strncmp(key + n, "hints/", 6)) {
		strcpy(path, key + n + 6);
		end = strrchr(path, '/');
		if (end)
			*end = '\0';
		epd_heard_drop(d, path, revision);
	}
	pthread_mutex_unlock(&d->lock);
}

/* All up to a revision has come; 0: no more than before. */
static void
progress(struct watcher *w, uint64_t revision)
{
	struct epd_dir *d = w->d;

	pthread_mutex_lock(&d->lock);
	if (revision > d->seen)
		d->seen = revision;
	if (w->asked_revision && d->seen >= w->asked_revision) {
		d->fresh_ns = w->asked_ns;
		w->asked_revision = 0;
		w->late = 0;
	}
	pthread_mutex_unlock(&d->lock);
}

static int
take_line(struct watcher *w, struct epd_span line)
{
	struct epd_watched seen;
	int rc = epd_watch_line(&seen, line, changed, w->d);

	if (rc && rc != -ENOMEM)
		epd_ask_wrong(w->d);
	if (rc || seen.over)
		return -1;
	progress(w, seen.revision);
	return 0;
}

static int
take_part(void *arg, struct epd_span part)
{
	struct watcher *w = arg;
	const char *p = part.p, *end = p + part.n, *stop;

	while (p < end) {
		stop = memchr(p, '\n', (size_t)(end - p));
		epd_buf_put(&w->line, p, (size_t)((stop ? stop : end) - p));
		if (w->line.failed || w->line.n > LINE_MOST)
			w->broken = 1;
		if (w->broken)
			return 1;
		if (!stop)
			break;
		if (w->line.n && take_line(w, epd_span(w->line.p, w->line.n)))
			w->broken = 1;
		w->line.n = 0;
		p = stop + 1;
	}
	return w->broken;
}

/* What was heard is no longer watched. */
static void
forget(struct watcher *w, uint64_t revision)
{
	struct epd_dir *d = w->d;

	epd_http_close(w->http);
	w->http = NULL;
	epd_buf_free(&w->line);
	epd_buf_free(&w->body);
	w->broken = w->late = 0;
	w->asked_revision = 0;
	pthread_mutex_lock(&d->lock);
	epd_heard_clear(d);
	d->fresh_ns = 0;
	d->seen = d->arriving = revision;
	pthread_mutex_unlock(&d->lock);
}

/* Ask for the revision, and when that was. */
static int
look(struct watcher *w, uint64_t *revision, uint64_t *asked_ns)
{
	struct epd_json *answer;
	struct epd_ask a;
	int rc;

	*asked_ns = epd_clock_boot_ns();
	epd_ask_begin(&a, w->d);
	epd_ask_key(&a, "key", "beat");
	epd_jw_bool(&a.w, "count_only", 1);
	rc = epd_ask(&a, "kv/range", by_timeout(w->d), &answer, revision,
	    NULL);
	if (rc)
		return rc;
	epd_json_free(answer);
	if (!*revision)
		epd_ask_wrong(w->d);
	return *revision ? 0 : EPD_EPEER;
}

static int
begin_watch(struct watcher *w)
{
	struct epd_http_request r = { .method = "POST", .path = "/v3/watch",
		.deadline_ns = UINT64_MAX, .most = SIZE_MAX, .more = take_part,
		.arg = w };
	struct epd_dir *d = w->d;
	struct epd_ask a;
	uint64_t revision, asked;
	int at, rc = look(w, &revision, &asked);

	if (rc)
		return rc;
	forget(w, revision);
	pthread_mutex_lock(&d->lock);
	at = d->at;
	pthread_mutex_unlock(&d->lock);
	rc = epd_http_open(&w->http, d->endpoint[at], 1, NULL);
	if (rc)
		return rc;
	epd_ask_begin(&a, d);
	epd_jw_begin(&a.w, "create_request", '{');
	epd_ask_folder(&a, "");
	epd_jw_uint(&a.w, "start_revision", revision + 1);
	epd_jw_bool(&a.w, "fragment", 1);
	epd_jw_end(&a.w, '}');
	epd_jw_end(&a.w, '}');
	w->body = a.body;
	r.body = epd_span(w->body.p, w->body.n);
	rc = w->body.failed ? -ENOMEM : epd_http_start(w->http, &r, NULL);
	if (rc)
		forget(w, revision);
	return rc;
}

static int
beat(struct watcher *w)
{
	struct epd_buf value = { 0 };
	struct epd_ask a;

	epd_term_format(&value, 1);
	epd_ask_begin(&a, w->d);
	epd_ask_put(&a, "beat", &value, 0);
	epd_buf_free(&value);
	return epd_ask_only(&a, "kv/put", by_timeout(w->d), NULL);
}

/* Progress is asked for; -EAGAIN: the watch is to be begun anew. */
static int
step_watch(struct watcher *w)
{
	struct epd_dir *d = w->d;
	const uint64_t part = d->bound_ns / PART, now = epd_clock_boot_ns();
	uint64_t revision, asked, seen;
	int rc;

	if (!d->bound_ns || now < w->look_ns)
		return 0;
	w->look_ns = now + (part < 5 * MS ? 5 * MS :
	    part > 1000 * MS ? 1000 * MS : part);
	if (!w->http)
		return now < w->anew_ns ? 0 : begin_watch(w);
	rc = look(w, &revision, &asked);
	if (rc)
		return rc;
	pthread_mutex_lock(&d->lock);
	seen = d->seen;
	pthread_mutex_unlock(&d->lock);
	/* An etcd that was there before, or one that is another. */
	if (revision < seen || w->late > BEATS) {
		w->broken = 1;
		return 0;
	}
	w->asked_ns = asked;
	w->asked_revision = revision;
	w->late++;
	progress(w, 0);
	return w->late > 1 ? beat(w) : 0;
}

static int
get_lease(struct watcher *w)
{
	struct epd_dir *d = w->d;
	struct epd_node_info self = d->o.self;
	struct epd_buf value = { 0 };
	char key[EPD_ETCD_KEY];
	struct epd_ask a;
	uint64_t id, now = epd_clock_boot_ns();
	int rc = epd_etcd_grant(d, d->lease_ms, &id, by_timeout(d), NULL);

	if (rc)
		return rc;
	self.wall_ms = epd_clock_wall_ms();
	epd_etcd_node_key(key, d);
	epd_node_format(&value, &self);
	epd_ask_begin(&a, d);
	epd_ask_put(&a, key, &value, id);
	epd_buf_free(&value);
	rc = epd_ask_only(&a, "kv/put", by_timeout(d), NULL);
	if (rc)
		return rc == EPD_ELEASE ? 0 : rc;
	w->keep_ns = now + d->lease_ms * MS / 3;
	pthread_mutex_lock(&d->lock);
	d->lease = id;
	epd_told_wait_all(d);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

static int
step_lease(struct watcher *w)
{
	struct epd_dir *d = w->d;
	const uint64_t now = epd_clock_boot_ns();
	struct epd_json *answer;
	struct epd_ask a;
	uint64_t revision, lease, left;
	int rc;

	pthread_mutex_lock(&d->lock);
	lease = d->lease;
	pthread_mutex_unlock(&d->lock);
	if (!*d->o.self.address)
		return 0;
	if (!lease)
		return get_lease(w);
	if (now < w->keep_ns)
		return 0;
	epd_ask_begin(&a, d);
	epd_jw_uint(&a.w, "ID", lease);
	rc = epd_ask(&a, "lease/keepalive", by_timeout(d), &answer, &revision,
	    NULL);
	if (rc && rc != EPD_ELEASE)
		return rc;
	left = rc ? 0 : epd_etcd_number(epd_json_get(
	    epd_json_get(answer, "result"), "TTL"));
	if (!rc)
		epd_json_free(answer);
	w->keep_ns = now + d->lease_ms * MS / 3;
	if (left)
		return 0;
	epd_log(&d->log, "op=directory lease=lost");
	pthread_mutex_lock(&d->lock);
	d->lease = 0;
	pthread_mutex_unlock(&d->lock);
	return get_lease(w);
}

static int
step_tell(struct watcher *w)
{
	struct epd_dir *d = w->d;
	int rc = 0;

	for (int i = 0; i < TELL_ONCE && !rc; i++) {
		struct epd_told *t;

		pthread_mutex_lock(&d->lock);
		t = d->lease ? epd_told_next(d) : NULL;
		pthread_mutex_unlock(&d->lock);
		if (!t)
			break;
		rc = epd_etcd_tell(d, t, by_timeout(d), NULL);
	}
	return rc == EPD_ELEASE ? 0 : rc;
}

/* Take what the watch has, till there is something else to do. */
static void
wait_watch(struct watcher *w)
{
	struct epd_dir *d = w->d;
	const uint64_t now = epd_clock_boot_ns();
	uint64_t till = now + 1000 * MS;
	struct epd_http_done done;

	if (d->bound_ns && w->look_ns < till)
		till = w->look_ns;
	if (*d->o.self.address && w->keep_ns < till)
		till = w->keep_ns;
	if (w->http && !w->broken) {
		epd_stop_heed(has_to_do, d);
		if (!epd_http_wait(w->http, &done, till, NULL)) {
			epd_buf_free(&done.answer);
			w->broken = 1;
		}
		epd_stop_heed(is_closing, d);
	} else {
		while (!has_to_do(d) && epd_clock_boot_ns() < till)
			epd_clock_sleep_ns(NAP_MS / 4 * MS);
	}
	if (!w->broken)
		return;
	epd_log(&d->log, "op=directory watch=anew");
	forget(w, 0);
	/* One that lasted a while is begun at once, others later and later. */
	w->wait_ns = now - w->anew_ns > 5000 * MS ? 0 :
	    w->wait_ns ? w->wait_ns * 2 : 10 * MS;
	if (w->wait_ns > 1000 * MS)
		w->wait_ns = 1000 * MS;
	w->anew_ns = epd_clock_boot_ns() + w->wait_ns;
	w->look_ns = 0;
}

/* Of one that was away: try, if it is time. */
static int
is_back(struct watcher *w)
{
	struct epd_dir *d = w->d;
	uint64_t retry, revision, asked;

	pthread_mutex_lock(&d->lock);
	retry = d->retry_ns;
	pthread_mutex_unlock(&d->lock);
	if (epd_clock_boot_ns() < retry || look(w, &revision, &asked))
		return 0;
	/* The lease may be over by now. */
	w->keep_ns = 0;
	return 1;
}

void *
epd_etcd_watch(void *arg)
{
	struct watcher w = { .d = arg };
	struct epd_dir *d = arg;

	epd_stop_heed(is_closing, d);
	while (!d->closing) {
		if (epd_dir_is_away(d) && !is_back(&w))
			epd_clock_sleep_ns(NAP_MS * MS);
		else if (step_lease(&w) || step_tell(&w) || step_watch(&w))
			epd_clock_sleep_ns(NAP_MS * MS);
		else
			wait_watch(&w);
	}
	forget(&w, 0);
	epd_stop_heed(NULL, NULL);
	return NULL;
}
