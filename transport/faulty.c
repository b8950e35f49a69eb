/*
 * faulty.c - a link around a link.
 *
 * 1. A move that a fault is for stands in the link's list from submit until it was
 *    told as often as it is to be; its tag there is a number of ours, so that two of
 *    one tag are two.
 * 2. What is told late has been moved long before: the memory may be anyone's by
 *    then, and is not looked at.
 */
#include "transport/faulty.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

struct move {
	const struct epd_fault *fault;	/* NULL: none */
	struct epd_piece piece;		/* as the caller has it */
	void *copy;			/* what is written, with a byte otherwise */
	uint64_t inner;			/* its tag below */
	struct epd_piece_done done;	/* once is_done */
	int is_done, times;		/* to be told */
	uint64_t not_before;
	struct move *next;
};

struct link {
	EPD_LINK_OPS;
	struct epd_faulty *f;
	struct epd_link *inner;
	struct move *first, **last;
	uint64_t next_tag;
	int cut;
};

static struct link *
of(struct epd_link *l)
{
	return (struct link *)(void *)l;
}

static struct epd_faulty *
faulty(const struct epd_transport *t)
{
	return (struct epd_faulty *)(uintptr_t)t;
}

/* The fault of the nth of a kind's occasions; kinds: a bit each. */
static const struct epd_fault *
fault(const struct epd_faulty *f, unsigned kinds, uint32_t n)
{
	for (int i = 0; i < f->nfaults; i++) {
		const struct epd_fault *x = f->fault + i;

		if (kinds & 1u << x->kind && n >= x->at &&
		    (!x->n || n - x->at < x->n))
			return x;
	}
	return NULL;
}

#define BIT(kind) (1u << EPD_FAULT_##kind)
enum {
	OF_MOVES = BIT(SUBMIT) | BIT(MOVE) | BIT(LATE) | BIT(CORRUPT) |
	    BIT(TWICE) | BIT(DROP) | BIT(CUT)
};

static int
probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	const struct epd_transport *inner = faulty(t)->inner;

	return inner->probe(inner, out, why);
}

static int
open_link(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct epd_faulty *f = faulty(t);
	const struct epd_fault *x = fault(f, BIT(OPEN), f->opens++);
	struct link *l;
	int rc;

	if (x)
		return epd_why(why, x->rc, "a fault: open");
	if (!(l = epd_calloc(1, sizeof *l)))
		return -ENOMEM;
	rc = f->inner->open(f->inner, &l->inner, peer, why);
	if (rc) {
		epd_free(l);
		return rc;
	}
	l->ops = t;
	l->f = f;
	l->last = &l->first;
	f->links++;
	*out = (struct epd_link *)(void *)l;
	return 0;
}

static void
drop_move(struct link *l, struct move **at)
{
	struct move *m = *at;

	if (!(*at = m->next))
		l->last = at;
	epd_free(m->copy);
	epd_free(m);
}

static void
close_link(struct epd_link *link)
{
	struct link *l = of(link);

	if (!l)
		return;
	l->f->inner->close(l->inner);
	while (l->first)
		drop_move(l, &l->first);
	l->f->links--;
	epd_free(l);
}

static int
call(struct epd_link *link, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	struct link *l = of(link);
	const struct epd_fault *x = fault(l->f, BIT(CALL), l->f->calls++);

	if (l->cut)
		return epd_why(why, l->cut, "a fault: the link was cut");
	if (x)
		return epd_why(why, x->rc, "a fault: call");
	return l->f->inner->call(l->inner, verb, ask, answer, deadline_ns, why);
}

/* The piece as it goes below. */
static int
begin(struct link *l, struct move *m, struct epd_why *why)
{
	struct epd_piece p = m->piece;
	const struct epd_fault *x = m->fault;

	p.tag = m->inner;
	if (x && x->kind == EPD_FAULT_MOVE && x->bytes < p.bytes)
		p.bytes = x->bytes;
	if (x && x->kind == EPD_FAULT_CORRUPT && p.op == EPD_OP_WRITE &&
	    x->bytes < p.bytes) {
		if (!(m->copy = epd_malloc(p.bytes)))
			return -ENOMEM;
		memcpy(m->copy, p.local, p.bytes);
		((uint8_t *)m->copy)[x->bytes] ^= 0x40;
		p.local = m->copy;
	}
	return l->f->inner->submit(l->inner, &p, why);
}

static int
submit(struct epd_link *link, const struct epd_piece *piece, struct epd_why *why)
{
	struct link *l = of(link);
	const struct epd_fault *x = fault(l->f, OF_MOVES, l->f->moves);
	struct move *m;
	int rc;

	if (!l->cut && x && x->kind == EPD_FAULT_CUT)
		l->cut = x->rc;
	if (l->cut)
		return epd_why(why, l->cut, "a fault: the link was cut");
	if (x && x->kind == EPD_FAULT_SUBMIT) {
		l->f->moves++;
		return epd_why(why, x->rc, "a fault: submit");
	}
	if (!(m = epd_calloc(1, sizeof *m)))
		return -ENOMEM;
	m->fault = x;
	m->piece = *piece;
	m->inner = ++l->next_tag;
	m->times = x && x->kind == EPD_FAULT_TWICE ? 2 : 1;
	if (x && x->kind == EPD_FAULT_DROP)
		m->times = 0;
	if ((rc = begin(l, m, why))) {
		epd_free(m->copy);
		epd_free(m);
		return rc;
	}
	l->f->moves++;
	*l->last = m;
	l->last = &m->next;
	return 0;
}

/* One that was told done below. */
static void
take(struct link *l, const struct epd_piece_done *d)
{
	struct move *m = l->first;
	const struct epd_fault *x;

	while (m && (m->inner != d->tag || m->is_done))
		m = m->next;
	if (!m)
		return;
	x = m->fault;
	m->done = *d;
	m->done.tag = m->piece.tag;
	m->is_done = 1;
	if (!x)
		return;
	if (x->kind == EPD_FAULT_LATE)
		m->not_before = epd_clock_boot_ns() + x->ns;
	else if (x->kind == EPD_FAULT_MOVE && !d->rc)
		m->done.rc = x->rc;
	else if (x->kind == EPD_FAULT_CORRUPT && m->piece.op == EPD_OP_READ &&
	    x->bytes < m->piece.bytes && !d->rc)
		((uint8_t *)m->piece.local)[x->bytes] ^= 0x40;
}

/* Those that may be told now; *next: when another may. */
static int
tell(struct link *l, struct epd_piece_done *done, int max, uint64_t *next)
{
	const uint64_t now = epd_clock_boot_ns();
	struct move **at = &l->first, *m;
	int n = 0;

	*next = UINT64_MAX;
	while ((m = *at) && n < max) {
		if (!m->is_done || m->not_before > now) {
			if (m->is_done && m->not_before < *next)
				*next = m->not_before;
			at = &m->next;
			continue;
		}
		if (m->times) {
			done[n++] = m->done;
			m->times--;
		}
		if (!m->times)
			drop_move(l, at);
	}
	return n;
}

/* Of those not yet told done below. */
static int
is_under_way(const struct link *l)
{
	for (const struct move *m = l->first; m; m = m->next)
		if (!m->is_done)
			return 1;
	return 0;
}

static int
wait_for(struct epd_link *link, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	const struct epd_transport *inner = of(link)->f->inner;
	struct link *l = of(link);
	struct epd_piece_done got[16];
	uint64_t next, until;
	int n;

	for (;;) {
		if ((n = tell(l, done, max, &next)))
			return n;
		if (l->cut)
			return epd_why(why, l->cut, "a fault: the link was cut");
		until = next < deadline_ns ? next : deadline_ns;
		if (is_under_way(l)) {
			n = inner->wait(l->inner, got, 16, until, why);
			for (int i = 0; i < n; i++)
				take(l, got + i);
			if (n < 0 && n != EPD_ETIMEOUT)
				return n;
		} else {
			/* All was told, or never will be: as a peer that is silent. */
			const uint64_t now = epd_clock_boot_ns();

			epd_clock_sleep_ns(now < until ? until - now : 0);
		}
		if (epd_clock_boot_ns() >= deadline_ns) {
			n = tell(l, done, max, &next);
			return n ? n : epd_why(why, EPD_ETIMEOUT,
			    "nothing was done in time");
		}
	}
}

static int
cancel(struct epd_link *link, uint64_t tag)
{
	struct link *l = of(link);

	if (!l->f->inner->cancel)
		return EPD_EUNSUPPORTED;
	for (struct move *m = l->first; m; m = m->next)
		if (m->piece.tag == tag && !m->is_done)
			return l->f->inner->cancel(l->inner, m->inner);
	return EPD_ENOTHING;
}

static int
lend(struct epd_link *l, void *p, size_t n)
{
	return of(l)->f->inner->lend(of(l)->inner, p, n);
}

static void
unlend(struct epd_link *l, void *p)
{
	of(l)->f->inner->unlend(of(l)->inner, p);
}

static int
map(struct epd_link *l, uint64_t window, uint64_t offset, struct epd_stretch *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	return of(l)->f->inner->map(of(l)->inner, window, offset, out, deadline_ns,
	    why);
}

static int
shut(struct epd_link *l, uint64_t window, uint64_t deadline_ns, struct epd_why *why)
{
	return of(l)->f->inner->shut(of(l)->inner, window, deadline_ns, why);
}

void
epd_faulty_init(struct epd_faulty *f, const struct epd_transport *inner,
    const struct epd_fault *faults, int n)
{
	*f = (struct epd_faulty){ .inner = inner, .fault = faults, .nfaults = n,
	    .ops = { .backend = inner->backend, .probe = probe,
	    .open = open_link, .close = close_link, .call = call,
	    .lend = inner->lend ? lend : NULL,
	    .unlend = inner->unlend ? unlend : NULL, .submit = submit,
	    .wait = wait_for, .cancel = inner->cancel ? cancel : NULL,
	    .map = inner->map ? map : NULL, .shut = shut } };
}
