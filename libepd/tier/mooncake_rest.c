/*
 * mooncake_rest.c - the store by its REST service.
 *
 * 1. A page is one slot from its first question to its last, so that no more
 *    than m->most are asked for at once and no memory but theirs is used.
 * 2. Each question ends by a page's time or the call's end; when a call
 *    returns, none is under way.
 * 3. Put: look; what is whole stays, what is something else is removed, what is
 *    absent is sent.  The service answers a put under a key that is taken as if
 *    it had been done, so that only looking tells.
 * 4. The service tells neither why it removes nothing (no object, a lease on
 *    it) nor why it takes nothing.  That the master is there was seen by the
 *    look before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "move/move.h"
#include "tier/mooncake_in.h"

enum {
	SMALL = 4096,			/* of an answer that is no object */
	BODY_MOST = 100 << 20,		/* the service reads no more */
};

enum step { LOOK, SEND, REMOVE, EXIST, NOTHING };

struct slot {
	long page;
	enum step step;
	int whole;			/* it has a page's whole time */
	int bad, refused;		/* something else; not removed */
	struct epd_buf body;
	char key[EPD_MOONCAKE_KEY];
};

struct talk {
	struct epd_errand *e;
	enum step (*first)(struct talk *t, struct slot *s);
	/* d->rc is 0, or EPD_ETOOBIG of a look. */
	enum step (*next)(struct talk *t, struct slot *s,
	    struct epd_http_done *d);
	const void *const *in;
	void *const *out;
	uint8_t *had;			/* put: what waits for a lease to end */
	long waiting, came, there;
	void *room;			/* for a page that is only looked at */
	int under_way, over;
	struct slot *slot;
};

static int
send_body(struct talk *t, struct slot *s)
{
	const struct epd_lot *lot = t->e->lot;
	struct epd_mooncake *m = t->e->m;
	const struct epd_span key = epd_span(m->key.p, m->key.n);
	const size_t bound = epd_object_bound(&lot->shape);
	struct epd_buf *object = epd_mooncake_object(m);
	void *p = epd_buf_add(object, bound);
	int64_t n;

	if (!p)
		return -ENOMEM;
	n = epd_object_pack(p, lot, s->page, t->in[s->page], m->level, key);
	if (n < 0)
		return (int)n;
	if (epd_base64_bytes((size_t)n) > BODY_MOST - SMALL)
		return epd_errand_failed(t->e, EPD_ETOOBIG, "a page is larger "
		    "than the Mooncake Store's REST service takes");
	s->body.n = 0;
	epd_buf_fmt(&s->body, "{\"key\":\"%s\",\"value\":\"", s->key);
	epd_base64_pack(&s->body, epd_span(object->p, (size_t)n));
	epd_buf_str(&s->body, "\"}");
	return s->body.failed ? -ENOMEM : 0;
}

static int
start(struct talk *t, struct slot *s)
{
	static const char *const method[] = { "GET", "PUT", "DELETE", "GET" };
	static const char *const path[] = { "get/", "put", "remove/",
	    "exist/" };
	struct epd_http_request r = { .method = method[s->step],
	    .tag = (uint64_t)(s - t->slot), .most = SMALL };
	char at[EPD_MOONCAKE_KEY + 16];
	int rc;

	snprintf(at, sizeof at, "/api/%s%s", path[s->step],
	    s->step == SEND ? "" : s->key);
	r.path = at;
	if (s->step == LOOK)
		r.most = epd_base64_bytes(epd_object_bound(
		    &t->e->lot->shape));
	if (s->step == SEND) {
		if ((rc = send_body(t, s)))
			return rc;
		r.body = epd_span(s->body.p, s->body.n);
	}
	r.deadline_ns = epd_mooncake_page_deadline(t->e);
	s->whole = r.deadline_ns < t->e->deadline_ns;
	return epd_http_start(t->e->m->rest, &r, t->e->rc ? NULL : t->e->why);
}

/* The service failed it, and what for. */
static enum step
failed(struct talk *t, const struct slot *s, const struct epd_http_done *d)
{
	struct epd_errand *e = t->e;
	struct epd_why why = d->why;
	const int rc = d->rc ? d->rc : EPD_EPEER;

	if (rc == -ENOMEM || rc == -ECANCELED) {
		t->over = 1;
		epd_errand_failed(e, rc, "%s", epd_strerror(rc));
		return NOTHING;
	}
	if (!d->rc)
		snprintf(why.text, sizeof why.text, "it answers with %ld",
		    d->status);
	epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
	epd_errand_failed(e, rc == EPD_ETOOBIG ? EPD_EPEER : rc,
	    "the Mooncake Store at %.80s: %s", e->m->url, why.text);
	if (rc != EPD_ETIMEOUT || s->whole)
		epd_mooncake_failed(e->m, &why);
	return NOTHING;
}

/* Something a store says of an object: that it has it, or has not. */
static int
is_answer(struct talk *t, struct slot *s, const struct epd_http_done *d)
{
	if (d->rc != EPD_ETOOBIG && d->status != 200 && d->status != 404) {
		failed(t, s, d);
		return 0;
	}
	t->e->answered++;
	epd_mooncake_answered(t->e->m);
	return 1;
}

/* The object in an answer to a look: 0, or it is something else. */
static int
take(struct talk *t, struct slot *s, struct epd_http_done *d, void *out)
{
	int rc = d->rc;

	if (!rc)
		rc = epd_mooncake_open_object(t->e, s->page, out,
		    d->answer.p, d->answer.n, &d->why);
	if (rc == -ENOMEM) {
		t->over = 1;
		epd_errand_failed(t->e, rc, "no memory");
	} else if (rc) {
		epd_errand_corrupt(t->e, s->key, &d->why);
	}
	return rc;
}

/*
 * A put is all or nothing: what has begun is waited for, and no more is begun.
 */
static int
is_over(const struct talk *t)
{
	return t->over || (t->in && t->e->rc);
}

static void
step(struct talk *t, struct slot *s, enum step next)
{
	int rc;

	s->step = is_over(t) ? NOTHING : next;
	if (s->step == NOTHING)
		return;
	rc = start(t, s);
	if (!rc) {
		t->under_way++;
		return;
	}
	s->step = NOTHING;
	t->over = 1;
	epd_errand_failed(t->e, rc, "%s", epd_strerror(rc));
}

static void
end_of(struct talk *t, struct epd_http_done *d)
{
	struct slot *s = &t->slot[d->tag];

	t->under_way--;
	step(t, s, d->rc && !(d->rc == EPD_ETOOBIG && s->step == LOOK) ?
	    failed(t, s, d) : t->next(t, s, d));
	epd_buf_free(&d->answer);
}

/* Whether another page may be begun. */
static int
goes_on(struct talk *t)
{
	if (is_over(t))
		return 0;
	if (epd_clock_boot_ns() >= t->e->deadline_ns) {
		epd_errand_failed(t->e, EPD_ETIMEOUT, "the Mooncake Store "
		    "has not answered for all pages in time");
		return 0;
	}
	/*
	 * Who has failed once is tried with one, so that it costs one page's
	 * time.
	 */
	return !(t->e->m->failures && t->under_way) &&
	    !epd_mooncake_away(t->e->m, NULL);
}

static void
run(struct talk *t)
{
	struct epd_errand *e = t->e;
	struct epd_http_done d;
	long next = 0;
	int rc;

	for (;;) {
		for (int i = 0; i < e->m->most && next < e->lot->n &&
		    goes_on(t); i++) {
			struct slot *s = &t->slot[i];

			if (s->step != NOTHING)
				continue;
			s->page = next++;
			s->bad = s->refused = 0;
			epd_mooncake_key(e->m, e->lot, s->page, s->key);
			step(t, s, t->first(t, s));
			i -= s->step == NOTHING;	/* it was passed over */
		}
		if (!t->under_way)
			break;
		rc = epd_http_wait(e->m->rest, &d, UINT64_MAX,
		    e->rc ? NULL : e->why);
		if (rc) {	/* called off: nothing is left under way */
			epd_errand_failed(e, rc, "%s", epd_strerror(rc));
			epd_http_close(e->m->rest);
			e->m->rest = NULL;
			t->over = 1;
			return;
		}
		end_of(t, &d);
	}
	if (next < e->lot->n)
		epd_errand_failed(e, EPD_EPEER, "the Mooncake Store does not "
		    "answer and is not asked for a while");
}

static int
open_talk(struct talk *t)
{
	struct epd_mooncake *m = t->e->m;
	int rc;

	if (!m->rest && (rc = epd_http_open(&m->rest, m->url, m->most,
	    t->e->why)))
		return t->e->rc = rc;
	t->slot = epd_calloc((size_t)m->most, sizeof *t->slot);
	if (!t->slot)
		return t->e->rc = -ENOMEM;
	for (int i = 0; i < m->most; i++)
		t->slot[i].step = NOTHING;
	return 0;
}

static void
close_talk(struct talk *t)
{
	for (int i = 0; t->slot && i < t->e->m->most; i++)
		epd_buf_free(&t->slot[i].body);
	epd_free(t->slot);
}

static enum step
get_first(struct talk *t, struct slot *s)
{
	return t->out[s->page] ? LOOK : NOTHING;
}

static enum step
get_next(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	if (is_answer(t, s, d) && d->status != 404 &&
	    !take(t, s, d, t->out[s->page])) {
		t->had[s->page] = epd_mooncake_had(t->e);
		t->came++;
	}
	return NOTHING;
}

long
epd_rest_get(struct epd_errand *e, void *const *out, uint8_t *had)
{
	struct talk t = { .e = e, .first = get_first, .next = get_next,
	    .out = out, .had = had };

	if (!open_talk(&t))
		run(&t);
	close_talk(&t);
	return t.came;
}

static enum step
put_first(struct talk *t, struct slot *s)
{
	return epd_mooncake_is_bad(t->e->m, s->key) ? REMOVE : LOOK;
}

/* It cannot be had out of the way now. */
static enum step
wait_for(struct talk *t, struct slot *s)
{
	t->had[s->page] = 1;
	t->waiting++;
	return NOTHING;
}

static enum step
put_looked(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	if (!is_answer(t, s, d))
		return NOTHING;
	if (d->status == 404)
		return SEND;
	if (!take(t, s, d, t->room)) {
		epd_mooncake_bad(t->e->m, s->key, 0);
		return NOTHING;
	}
	s->bad = 1;
	return s->refused ? wait_for(t, s) : REMOVE;
}

static enum step
put_next(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	struct epd_errand *e = t->e;

	if (s->step == LOOK)
		return put_looked(t, s, d);
	if (s->step == SEND) {
		if (d->status == 200)
			return NOTHING;
		epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
		epd_errand_failed(e, -ENOSPC, "the Mooncake Store at %.80s "
		    "takes no more: it answers a put with %ld", e->m->url,
		    d->status);
		return NOTHING;
	}
	if (d->status == 200) {
		epd_mooncake_bad(e->m, s->key, 0);
		return SEND;
	}
	epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
	epd_log(&e->m->log, "op=tier tier=mooncake_store status=not_removed "
	    "key=%s why=%s", s->key, "absent, or a lease is on it");
	s->refused = 1;
	return s->bad ? wait_for(t, s) : LOOK;
}

static enum step
heal_first(struct talk *t, struct slot *s)
{
	return t->had[s->page] ? REMOVE : NOTHING;
}

/* Not looked at: that would begin another lease. */
static enum step
heal_next(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	if (s->step == SEND)
		return put_next(t, s, d);
	if (d->status != 200)
		return NOTHING;
	epd_mooncake_bad(t->e->m, s->key, 0);
	t->had[s->page] = 0;
	t->waiting--;
	return SEND;
}

/* What lies under another page's key goes once nobody's lease is on it. */
static void
heal(struct talk *t)
{
	struct epd_errand *e = t->e;
	uint64_t wait = 0;

	t->first = heal_first;
	t->next = heal_next;
	while (t->waiting && !e->rc) {
		if (!epd_back_off(&wait, e->deadline_ns)) {
			epd_errand_failed(e, -EBUSY, "the Mooncake Store has "
			    "something else under the keys of %ld pages, and "
			    "keeps it while a lease is on it", t->waiting);
			return;
		}
		run(t);
	}
}

static enum step
exist_first(struct talk *t, struct slot *s)
{
	(void)t;
	(void)s;
	return EXIST;
}

static enum step
exist_next(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	struct epd_json *j = NULL;

	if (d->status != 200)
		return failed(t, s, d);
	if (!epd_json_parse(&j, epd_span(d->answer.p, d->answer.n),
	    "an answer", NULL))
		t->there += epd_json_bool(epd_json_get(j, "exists"), 0);
	epd_json_free(j);
	return NOTHING;
}

/*
 * Each page is there now: what is put may be evicted at once, and nobody is
 * told.  The master is asked where it can be; exist gives each a lease.
 */
static void
look_again(struct talk *t)
{
	struct epd_errand *e = t->e;

	if (e->m->admin_url) {
		t->there = epd_mooncake_seen(e, NULL);
		if (t->there < 0 && !e->rc)
			e->rc = (int)t->there;
	} else {
		t->first = exist_first;
		t->next = exist_next;
		run(t);
	}
	if (!e->rc && t->there < e->lot->n)
		epd_errand_failed(e, -ENOSPC, "the Mooncake Store has evicted "
		    "%ld of %ld pages already", e->lot->n - t->there,
		    e->lot->n);
}

int
epd_rest_put(struct epd_errand *e, const void *const *page)
{
	struct talk t = { .e = e, .first = put_first, .next = put_next,
	    .in = page };

	t.had = epd_calloc((size_t)e->lot->n, 1);
	t.room = epd_malloc((size_t)e->lot->shape.bytes);
	if (!t.had || !t.room)
		e->rc = -ENOMEM;
	else if (!open_talk(&t))
		run(&t);
	if (!e->rc)
		heal(&t);
	if (!e->rc)
		look_again(&t);
	close_talk(&t);
	epd_free(t.had);
	epd_free(t.room);
	return e->rc;
}

static enum step
drop_first(struct talk *t, struct slot *s)
{
	(void)t;
	(void)s;
	return REMOVE;
}

static enum step
drop_next(struct talk *t, struct slot *s, struct epd_http_done *d)
{
	if (d->status == 200)
		epd_mooncake_bad(t->e->m, s->key, 0);
	return NOTHING;
}

int
epd_rest_drop(struct epd_errand *e)
{
	struct talk t = { .e = e, .first = drop_first, .next = drop_next };

	if (!open_talk(&t))
		run(&t);
	close_talk(&t);
	return e->rc;
}
