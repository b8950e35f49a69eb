/*
 * mooncake_native.c - the store by its C library.
 *
 * Pages go m->most at a time, from and into a room that is registered once:
 * objects are packed where they are sent from, and opened where they came to.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tier/mooncake_worker.h"

/* Of the library: what it answers for a key that is not there, ... */
enum { NOT_FOUND = -704, TOO_SMALL = -600, NO_ROOM = -200 };

/* Pages of a lot that go together. */
struct batch {
	struct epd_errand *e;
	struct epd_worker *w;
	long page[64];
	int n;
};

struct epd_native {
	struct epd_worker *w;
	size_t slot;			/* bytes of the room, each page */
};

static uint8_t *
room_of(const struct batch *b, int k)
{
	return b->w->room + (size_t)k * b->e->m->native->slot;
}

/*
 * All of a batch's pages failed together, whole: though they had all their
 * time.
 */
static int
failed(struct batch *b, int rc, int whole, const char *what)
{
	struct epd_why why;

	epd_why(&why, rc, "the Mooncake Store's library: %s: %s", what,
	    epd_strerror(rc));
	epd_count(b->e->m->metrics, EPD_M_TIER_ERRORS, (uint64_t)b->n);
	if (rc == EPD_EPEER || (rc == EPD_ETIMEOUT && whole))
		epd_mooncake_failed(b->e->m, &why);
	return epd_errand_failed(b->e, rc, "%s", why.text);
}

static int
call(struct batch *b, enum epd_worker_job job, const char *what)
{
	const uint64_t till = epd_mooncake_page_deadline(b->e);
	const int rc = epd_worker_ask(b->w, job, till);

	return rc ? failed(b, rc, till < b->e->deadline_ns, what) : 0;
}

static int
ask(struct batch *b, enum epd_worker_job job, const char *what)
{
	int rc;

	if ((rc = epd_worker_is_busy(b->w)))
		return failed(b, rc, 1, "a call has not come back yet");
	b->w->n = b->n;
	for (int k = 0; k < b->n; k++)
		epd_mooncake_key(b->e->m, b->e->lot, b->page[k], b->w->key[k]);
	return call(b, job, what);
}

/* The room, for pages of this lot's shape. */
static int
begin(struct batch *b, struct epd_errand *e)
{
	const size_t slot = (epd_base64_bytes(epd_object_bound(
	    &e->lot->shape)) + 63) & ~(size_t)63;
	struct epd_native *n = e->m->native;
	int rc;

	*b = (struct batch){ .e = e, .w = n->w };
	if ((rc = epd_worker_is_busy(b->w)))
		return failed(b, rc, 1, "a call has not come back yet");
	if (slot <= n->slot)
		return 0;
	n->slot = 0;
	b->w->want = slot * (size_t)e->m->most;
	rc = call(b, EPD_WORKER_ROOM, "registering memory");
	if (!rc)
		n->slot = slot;
	return rc;
}

/*
 * The next pages that are asked for; 0: there are no more, or it is too late.
 */
static int
more(struct batch *b, long *next, void *const *out)
{
	struct epd_errand *e = b->e;

	b->n = 0;
	while (out && *next < e->lot->n && !out[*next])
		(*next)++;
	if (*next >= e->lot->n)
		return 0;
	if (epd_clock_boot_ns() >= e->deadline_ns) {
		epd_errand_failed(e, EPD_ETIMEOUT, "the Mooncake Store has "
		    "not answered for all pages in time");
		return 0;
	}
	if (epd_mooncake_away(e->m, NULL))
		return 0;
	for (; *next < e->lot->n && b->n < e->m->most; (*next)++)
		if (!out || out[*next])
			b->page[b->n++] = *next;
	return 1;
}

/*
 * The object that came for the kth: 0, -ENOENT, or EPD_ECORRUPT; else it
 * failed.
 */
static int
take(struct batch *b, int k, void *out)
{
	struct epd_errand *e = b->e;
	const int64_t n = b->w->result[k];
	struct epd_why why = { "larger than a page's object" };
	int rc = EPD_ECORRUPT;

	if (n < 0 && n != NOT_FOUND && n != TOO_SMALL) {
		epd_why(&why, EPD_EPEER, "the Mooncake Store's library "
		    "answers a get with %" PRId64, n);
		epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
		epd_mooncake_failed(e->m, &why);
		return epd_errand_failed(e, EPD_EPEER, "%s", why.text);
	}
	e->answered++;
	epd_mooncake_answered(e->m);
	if (n == NOT_FOUND)
		return -ENOENT;
	if (n >= 0 && (uint64_t)n <= e->m->native->slot)
		rc = epd_mooncake_open_object(e, b->page[k], out,
		    room_of(b, k), (size_t)n, &why);
	if (rc == -ENOMEM)
		return epd_errand_failed(e, rc, "no memory");
	if (rc) {
		epd_errand_corrupt(e, b->w->key[k], &why);
		return EPD_ECORRUPT;
	}
	return 0;
}

static int
get_batch(struct batch *b)
{
	for (int k = 0; k < b->n; k++) {
		b->w->buffer[k] = room_of(b, k);
		b->w->size[k] = b->e->m->native->slot;
	}
	return ask(b, EPD_WORKER_GET, "a get");
}

long
epd_native_get(struct epd_errand *e, void *const *out, uint8_t *had)
{
	struct batch b;
	long next = 0, came = 0;

	if (begin(&b, e))
		return 0;
	while (more(&b, &next, out)) {
		if (get_batch(&b))
			break;
		for (int k = 0; k < b.n; k++)
			if (!take(&b, k, out[b.page[k]])) {
				had[b.page[k]] = epd_mooncake_had(e);
				came++;
			}
	}
	return came;
}

/* What is whole is passed over; what is something else is removed. */
static int
put_looked(struct batch *b, void *scratch)
{
	struct epd_errand *e = b->e;
	long bad[64], absent[64];
	int rc, nbad = 0, n = 0;

	if ((rc = get_batch(b)))
		return rc;
	for (int k = 0; k < b->n; k++) {
		rc = take(b, k, scratch);
		if (rc && rc != -ENOENT && rc != EPD_ECORRUPT)
			return rc;
		if (rc == EPD_ECORRUPT)
			bad[nbad++] = b->page[k];
		if (rc)
			absent[n++] = b->page[k];
	}
	memcpy(b->page, bad, (size_t)nbad * sizeof *bad);
	b->n = nbad;
	if (nbad && (rc = ask(b, EPD_WORKER_REMOVE, "a remove")))
		return rc;
	for (int k = 0; k < nbad; k++) {
		if (b->w->result[k] && b->w->result[k] != NOT_FOUND)
			return epd_errand_failed(e, -EBUSY, "the Mooncake "
			    "Store keeps something else under a page's key");
		epd_mooncake_bad(e->m, b->w->key[k], 0);
	}
	memcpy(b->page, absent, (size_t)n * sizeof *absent);
	b->n = n;
	return 0;
}

static int
put_batch(struct batch *b, const void *const *page)
{
	struct epd_errand *e = b->e;
	const struct epd_span key = epd_span(e->m->key.p, e->m->key.n);
	int rc;

	for (int k = 0; k < b->n; k++) {
		const int64_t n = epd_object_pack(room_of(b, k), e->lot,
		    b->page[k], page[b->page[k]], e->m->level, key);

		if (n < 0)
			return epd_errand_failed(e, (int)n, "no memory");
		b->w->buffer[k] = room_of(b, k);
		b->w->size[k] = (size_t)n;
	}
	if (!b->n || (rc = ask(b, EPD_WORKER_PUT, "a put")))
		return b->n ? rc : 0;
	for (int k = 0; k < b->n; k++) {
		if (!b->w->result[k])
			continue;
		epd_count(e->m->metrics, EPD_M_TIER_ERRORS, 1);
		return epd_errand_failed(e, b->w->result[k] == NO_ROOM ?
		    -ENOSPC : EPD_EPEER, "the Mooncake Store's library answers "
		    "a put with %" PRId64, b->w->result[k]);
	}
	return 0;
}

static void
look_again(struct batch *b)
{
	struct epd_errand *e = b->e;
	long next = 0, there = 0;

	if (e->m->admin_url) {
		there = epd_mooncake_seen(e, NULL);
		if (there < 0 && !e->rc)
			e->rc = (int)there;
	} else {
		while (more(b, &next, NULL) && !ask(b, EPD_WORKER_EXIST,
		    "a look"))
			for (int k = 0; k < b->n; k++)
				there += b->w->result[k] == 1;
	}
	if (!e->rc && there < e->lot->n)
		epd_errand_failed(e, -ENOSPC, "the Mooncake Store has evicted "
		    "%ld of %ld pages already", e->lot->n - there, e->lot->n);
}

int
epd_native_put(struct epd_errand *e, const void *const *page)
{
	void *scratch = epd_malloc((size_t)e->lot->shape.bytes);
	struct batch b;
	long next = 0;

	if (!scratch)
		e->rc = -ENOMEM;
	else
		begin(&b, e);
	while (!e->rc && more(&b, &next, NULL))
		if (!put_looked(&b, scratch))
			put_batch(&b, page);
	epd_free(scratch);
	if (!e->rc && next < e->lot->n)
		epd_errand_failed(e, EPD_EPEER, "the Mooncake Store does not "
		    "answer and is not asked for a while");
	if (!e->rc)
		look_again(&b);
	return e->rc;
}

int
epd_native_drop(struct epd_errand *e)
{
	struct batch b;
	long next = 0;

	if (begin(&b, e))
		return e->rc;
	while (more(&b, &next, NULL) && !ask(&b, EPD_WORKER_DROP, "a remove"))
		;
	return e->rc;
}

int
epd_native_open(struct epd_native **out, struct epd_mooncake *m,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_native *n = epd_calloc(1, sizeof *n);
	int rc;

	if (!n)
		return -ENOMEM;
	rc = epd_worker_open(&n->w, m, deadline_ns, why);
	if (rc) {
		epd_free(n);
		return rc;
	}
	*out = n;
	return 0;
}

void
epd_native_close(struct epd_native *n)
{
	if (!n)
		return;
	epd_worker_close(n->w);
	epd_free(n);
}
