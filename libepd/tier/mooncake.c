/*
 * mooncake.c - which way the store is asked, when it is passed over, and what
 * is counted, whichever way that was.
 *
 * 1. Each page that get was asked for is one hit or one miss.  A miss that is
 *    not for want of the object is an error or corrupt as well.
 * 2. A failure is the store's only if it refused, or had a page's whole time.
 * 3. has renews nothing: it asks the master's HTTP, in the one way that takes
 *    no lease.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "tier/mooncake_in.h"

#define SECOND UINT64_C(1000000000)
enum { FAILURES = 3 };
static const uint64_t AWAY_LEAST = SECOND, AWAY_MOST = 30 * SECOND;

static struct epd_mooncake *
mooncake(struct epd_lower *l)
{
	return (struct epd_mooncake *)(void *)l;
}

int
epd_errand_failed(struct epd_errand *e, int rc, const char *fmt, ...)
{
	va_list ap;

	if (e->rc)
		return rc;
	e->rc = rc;
	if (!e->why)
		return rc;
	va_start(ap, fmt);
	vsnprintf(e->why->text, sizeof e->why->text, fmt, ap);
	va_end(ap);
	return rc;
}

void
epd_mooncake_answered(struct epd_mooncake *m)
{
	m->failures = 0;
	m->away_ns = m->away_till = 0;
}

void
epd_mooncake_failed(struct epd_mooncake *m, const struct epd_why *said)
{
	uint64_t chance = 0;

	if (++m->failures < FAILURES ||
	    epd_clock_boot_ns() < m->away_till)
		return;
	m->away_ns = !m->away_ns ? AWAY_LEAST :
	    m->away_ns < AWAY_MOST / 2 ? 2 * m->away_ns : AWAY_MOST;
	/*
	 * Without chance all who lost it come back together, and no more than
	 * that.
	 */
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
		chance = 0;
	m->away_till = epd_clock_boot_ns() + m->away_ns / 2 +
	    chance % (m->away_ns / 2 + 1);
	epd_log(&m->log, "op=tier tier=mooncake_store status=away ms=%" PRIu64
	    " why=%s", m->away_ns / 1000000, said->text);
}

int
epd_mooncake_away(const struct epd_mooncake *m, struct epd_why *why)
{
	if (epd_clock_boot_ns() >= m->away_till)
		return 0;
	return epd_why(why, EPD_EPEER, "the Mooncake Store did not answer "
	    "before and is not asked for a while");
}

uint64_t
epd_mooncake_page_deadline(const struct epd_errand *e)
{
	const uint64_t now = epd_clock_boot_ns();

	return now + e->m->page_ns < e->deadline_ns ? now + e->m->page_ns :
	    e->deadline_ns;
}

int
epd_mooncake_is_bad(const struct epd_mooncake *m, const char *key)
{
	const uint64_t h = epd_xxh3_64(key, strlen(key));

	for (unsigned i = 0; i < EPD_MOONCAKE_BAD && i < m->nbad; i++)
		if (m->bad[i] == h)
			return 1;
	return 0;
}

void
epd_mooncake_bad(struct epd_mooncake *m, const char *key, int is)
{
	const uint64_t h = epd_xxh3_64(key, strlen(key));

	if (is && !epd_mooncake_is_bad(m, key))
		m->bad[m->nbad++ % EPD_MOONCAKE_BAD] = h;
	for (unsigned i = 0; !is && i < EPD_MOONCAKE_BAD; i++)
		if (m->bad[i] == h)
			m->bad[i] = 0;
}

void
epd_errand_corrupt(struct epd_errand *e, const char *key,
    const struct epd_why *said)
{
	epd_count(e->m->metrics, EPD_M_TIER_CORRUPT, 1);
	epd_mooncake_bad(e->m, key, 1);
	epd_log(&e->m->log, "op=tier tier=mooncake_store status=corrupt "
	    "key=%s why=%s", key, said->text);
}

int
epd_mooncake_open_object(struct epd_errand *e, long i, void *out,
    const void *in, size_t n, struct epd_why *why)
{
	const struct epd_span key = epd_span(e->m->key.p, e->m->key.n);
	struct epd_buf *b = epd_mooncake_object(e->m);
	int rc;

	/* By the C library it lies there as it is, by REST as text. */
	if (n >= EPD_OBJECT_HEAD &&
	    epd_object_bytes(in, &e->lot->shape) == (int64_t)n)
		return epd_object_unpack(out, e->lot, i, in, n, key, why);
	rc = epd_base64_unpack(b, epd_span(in, n));
	if (rc)
		return epd_why(why, rc == -ENOMEM ? rc : EPD_ECORRUPT,
		    "no page's object");
	return epd_object_unpack(out, e->lot, i, b->p, b->n, key, why);
}

struct epd_buf *
epd_mooncake_object(struct epd_mooncake *m)
{
	if (m->object.failed)
		epd_buf_free(&m->object);
	m->object.n = 0;
	return &m->object;
}

/* Which way; it is looked for once. */
static int
decide(struct epd_errand *e)
{
	struct epd_mooncake *m = e->m;
	struct epd_why why = { "no master is set" };
	int rc = EPD_EUNSUPPORTED;

	if (m->way != MOONCAKE_UNDECIDED)
		return 0;
	if (m->master)
		rc = epd_native_open(&m->native, m,
		    epd_mooncake_page_deadline(e), &why);
	if (rc == -ENOMEM || rc == -ECANCELED)
		return rc;
	/* A master that is away now, and there is no other way: it may come. */
	if (rc && rc != EPD_EUNSUPPORTED && !m->url) {
		epd_mooncake_failed(m, &why);
		epd_count(m->metrics, EPD_M_TIER_ERRORS, 1);
		return epd_errand_failed(e, EPD_EPEER, "%s", why.text);
	}
	m->way = rc ? MOONCAKE_REST : MOONCAKE_NATIVE;
	epd_log(&m->log, "op=tier tier=mooncake_store way=%s why=%s",
	    rc ? "rest" : "library", rc ? why.text : "it reached the master");
	return 0;
}

static int
begin(struct epd_errand *e, struct epd_lower *l, const struct epd_lot *lot,
    uint64_t deadline_ns, struct epd_why *why)
{
	int rc;

	*e = (struct epd_errand){ .m = mooncake(l), .lot = lot, .why = why,
	    .deadline_ns = deadline_ns };
	if ((rc = epd_mooncake_away(e->m, why)) || (rc = decide(e)))
		return rc;
	if (e->m->way == MOONCAKE_REST && !e->m->url)
		return epd_why(why, EPD_EPEER, "the Mooncake Store's library "
		    "does not reach it, and no REST service is set");
	return 0;
}

static int
mooncake_put(struct epd_lower *l, const struct epd_lot *lot,
    const void *const *page, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_errand e;
	int rc = begin(&e, l, lot, deadline_ns, why);

	if (rc || lot->n < 1)
		return rc;
	return e.m->way == MOONCAKE_NATIVE ? epd_native_put(&e, page) :
	    epd_rest_put(&e, page);
}

static long
get_some(struct epd_errand *e, void *const *out, uint8_t *had)
{
	return e->m->way == MOONCAKE_NATIVE ? epd_native_get(e, out, had) :
	    epd_rest_get(e, out, had);
}

/* Those that did not come, of the other sort: a run's file knows best what it was. */
static long
get_others(struct epd_errand *e, void *const *out, uint8_t *had)
{
	struct epd_lot other = *e->lot;
	void **left = epd_calloc((size_t)other.n, sizeof *left);
	long came;

	if (!left)
		return epd_errand_failed(e, -ENOMEM, "no memory"), 0;
	for (long i = 0; i < other.n; i++)
		left[i] = had[i] ? NULL : out[i];
	other.given = !other.given;
	e->lot = &other;
	came = get_some(e, left, had);
	epd_free(left);
	return came;
}

static long
mooncake_get(struct epd_lower *l, const struct epd_lot *lot,
    void *const *out, uint8_t *had, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_errand e;
	long asked = 0, came = 0;
	int rc;

	for (long i = 0; i < lot->n; i++)
		asked += out[i] != NULL;
	rc = begin(&e, l, lot, deadline_ns, why);
	if (!rc && asked)
		came = get_some(&e, out, had);
	if (!rc && !e.rc && came < asked &&
	    lot->shape.kind == EPD_OBJECT_KV_PAGE)
		came += get_others(&e, out, had);
	epd_count(mooncake(l)->metrics, EPD_M_TIER_HITS, (uint64_t)came);
	epd_count(mooncake(l)->metrics, EPD_M_TIER_MISSES,
	    (uint64_t)(asked - came));
	if (!rc && !e.answered)
		rc = e.rc;
	return rc ? rc : came;
}

static long
mooncake_has(struct epd_lower *l, const struct epd_lot *lot,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_errand e = { .m = mooncake(l), .lot = lot, .why = why,
	    .deadline_ns = deadline_ns };

	if (!e.m->admin_url)
		return epd_why(why, EPD_EUNSUPPORTED, "the Mooncake Store's "
		    "master is not set; asked otherwise it would prolong "
		    "leases");
	return epd_mooncake_seen(&e, NULL);
}

static int
mooncake_drop(struct epd_lower *l, const struct epd_lot *lot,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_errand e;
	int rc;

	if (!lot->given && lot->shape.kind != EPD_OBJECT_FEATURE_META)
		return 0;
	rc = begin(&e, l, lot, deadline_ns, why);
	if (rc)
		return rc;
	return e.m->way == MOONCAKE_NATIVE ? epd_native_drop(&e) :
	    epd_rest_drop(&e);
}

static void
mooncake_close(struct epd_lower *l)
{
	struct epd_mooncake *m = mooncake(l);

	if (!m)
		return;
	epd_native_close(m->native);
	epd_http_close(m->rest);
	epd_http_close(m->admin);
	epd_free(m->url);
	epd_free(m->master);
	epd_free(m->admin_url);
	epd_free(m->library);
	epd_free(m->host);
	if (m->key.p)
		explicit_bzero(m->key.p, m->key.n);
	epd_buf_free(&m->key);
	epd_buf_free(&m->object);
	epd_free(m);
}

static const struct epd_lower_ops mooncake_ops = {
	.tier = EPD_TIER_MOONCAKE,
	.close = mooncake_close,
	.put = mooncake_put,
	.get = mooncake_get,
	.has = mooncake_has,
	.drop = mooncake_drop,
};

/* "" and NULL: none. */
static int
copy(char **out, const char *s)
{
	if (!s || !*s)
		return 0;
	*out = epd_strdup(s);
	return *out ? 0 : -ENOMEM;
}

static void
seal_text(struct epd_mooncake *m)
{
	struct epd_namer h;
	struct epd_name name;

	if (!m->key.n)
		return;
	epd_namer_begin(&h, "epd-mooncake-key");
	epd_namer_add(&h, m->key.p, m->key.n);
	epd_namer_end(&h, &name);
	strcpy(m->seal, "-k");
	epd_hex_format(m->seal + 2, name.b, 8);
}

int
epd_mooncake_open(struct epd_lower **out, const struct epd_mooncake_options *o,
    struct epd_why *why)
{
	const int has_url = o->url && *o->url;
	struct epd_mooncake *m;

	if (!has_url && !(o->master && *o->master))
		return epd_why(why, EPD_EUSAGE, "a Mooncake Store needs the "
		    "address of its REST service, or of its master");
	if (o->most < 1 || o->most > 64 || !o->page_ns)
		return epd_why(why, EPD_EUSAGE, "1 to 64 pages of a Mooncake "
		    "Store at once, each with some time");
	m = epd_calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->ops = &mooncake_ops;
	m->most = o->most;
	m->level = o->level;
	m->page_ns = o->page_ns;
	m->pin = o->pin;
	m->metrics = o->metrics;
	m->log = o->log;
	epd_hex_format(m->store, o->store, sizeof o->store);
	epd_buf_put(&m->key, o->key.p, o->key.n);
	if (m->key.failed || copy(&m->url, o->url) ||
	    copy(&m->master, o->master) || copy(&m->admin_url, o->admin) ||
	    copy(&m->library, o->library) || copy(&m->host, o->host)) {
		mooncake_close((struct epd_lower *)(void *)m);
		return -ENOMEM;
	}
	seal_text(m);
	*out = (struct epd_lower *)(void *)m;
	return 0;
}
