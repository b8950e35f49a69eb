/*
 * loop.h - a transport that is no farther than a call: its links ask a host in this
 * process, its moves copy to and from the host's extents.  What a test wants otherwise it
 * says in struct loop.
 */
#ifndef TESTS_LOOP_H
#define TESTS_LOOP_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "base/transport.h"

enum { LOOP_WINDOWS = 64, LOOP_MOVES = 8 };

struct loop {
	struct epd_transport ops;
	const struct epd_host *host;
	int links, windows, calls, moves;	/* the first two: now */
	int near;
	/* Instead of the host, or behind it; arg is theirs. */
	int (*call)(struct loop *l, struct epd_guest *g, uint16_t verb,
	    struct epd_span ask, struct epd_buf *answer,
	    struct epd_opened *opened, struct epd_why *why);
	int (*move)(struct loop *l, const struct epd_piece *p);	/* its rc */
	void *arg;
};

struct loop_link {
	EPD_LINK_OPS;
	struct loop *of;
	struct epd_guest *g;
	struct epd_opened window[LOOP_WINDOWS];
	int nwindows;
	struct epd_piece_done done[LOOP_MOVES];
	int ndone;
};

static inline struct loop_link *
loop_link(struct epd_link *l)
{
	return (struct loop_link *)(void *)l;
}

static int
loop_probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)t;
	(void)why;
	*out = (struct epd_transport_facts){ .alignment = 1,
	    .max_bytes = UINT64_MAX, .max_inflight = LOOP_MOVES, .max_sge = 1 };
	return 0;
}

static int
loop_open(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct loop *of = (struct loop *)(uintptr_t)t;
	/* Not one of the allocations that fail. */
	struct loop_link *l = calloc(1, sizeof *l);
	int rc = 0;

	(void)peer;
	if (!l)
		return -ENOMEM;
	l->ops = t;
	l->of = of;
	if (of->host)
		rc = of->host->begin(of->host->arg, of->near, &l->g, why);
	if (rc < 0) {
		free(l);
		return rc;
	}
	of->links++;
	*out = (struct epd_link *)(void *)l;
	return 0;
}

static inline void
loop_gone(struct loop_link *l, int i)
{
	const uint64_t id = l->window[i].id;

	l->window[i] = l->window[--l->nwindows];
	l->of->windows--;
	if (l->of->host)
		l->of->host->gone(l->g, id);
}

static void
loop_close(struct epd_link *link)
{
	struct loop_link *l = loop_link(link);

	while (l->nwindows)
		loop_gone(l, 0);
	if (l->of->host)
		l->of->host->end(l->g);
	l->of->links--;
	free(l);
}

static int
loop_call(struct epd_link *link, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	struct loop_link *l = loop_link(link);
	struct epd_opened opened = { .id = 0 };
	const size_t had = answer->n;
	int rc;

	(void)deadline_ns;
	l->of->calls++;
	rc = l->of->call ? l->of->call(l->of, l->g, verb, ask, answer, &opened,
	    why) : l->of->host->call(l->g, verb, ask, answer, &opened, why);
	if (opened.id && l->nwindows == LOOP_WINDOWS) {
		l->of->host->gone(l->g, opened.id);
		rc = EPD_ECREDIT;
	} else if (opened.id) {
		l->window[l->nwindows++] = opened;
		l->of->windows++;
	}
	if (rc >= 0 && answer->failed)
		rc = -ENOMEM;
	if (rc < 0)
		answer->n = had;
	return rc < 0 ? rc : 0;
}

/* n bytes at offset of the window; 0, or why not. */
static inline int
loop_copy(const struct epd_opened *w, const struct epd_piece *p)
{
	uint64_t at = 0, done = 0;

	if (p->op == EPD_OP_WRITE && !w->writable)
		return -EACCES;
	for (uint32_t i = 0; i < w->n && done < p->bytes; i++) {
		const struct epd_extent *e = w->extent + i;
		uint64_t into, k;

		if (p->offset + done < at + e->bytes) {
			into = p->offset + done - at;
			k = e->bytes - into;
			if (k > p->bytes - done)
				k = p->bytes - done;
			if (!e->p && (e->fd < 0 || p->op == EPD_OP_WRITE ||
			    epd_file_pread(e->fd, (uint8_t *)p->local + done,
			    k, e->at + into) != (ssize_t)k))
				return -EIO;
			if (e->p && p->op == EPD_OP_READ)
				memcpy((uint8_t *)p->local + done,
				    (uint8_t *)e->p + into, k);
			else if (e->p)
				memcpy((uint8_t *)e->p + into,
				    (uint8_t *)p->local + done, k);
			done += k;
		}
		at += e->bytes;
	}
	return done == p->bytes ? 0 : EPD_EUSAGE;
}

static int
loop_submit(struct epd_link *link, const struct epd_piece *p,
    struct epd_why *why)
{
	struct loop_link *l = loop_link(link);
	int rc = EPD_ENOTHING;

	(void)why;
	if (l->ndone == LOOP_MOVES)
		return -EAGAIN;
	l->of->moves++;
	if (l->of->move)
		rc = l->of->move(l->of, p);
	for (int i = 0; !l->of->move && i < l->nwindows; i++)
		if (l->window[i].id == p->window)
			rc = loop_copy(l->window + i, p);
	l->done[l->ndone++] = (struct epd_piece_done){ p->tag, rc,
	    rc ? 0 : p->bytes };
	return 0;
}

static int
loop_wait(struct epd_link *link, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct loop_link *l = loop_link(link);
	int n = 0;

	(void)deadline_ns;
	if (!l->ndone)
		return epd_why(why, EPD_EUSAGE, "nothing is under way");
	while (l->ndone && n < max)
		done[n++] = l->done[--l->ndone];
	return n;
}

static int
loop_shut(struct epd_link *link, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct loop_link *l = loop_link(link);

	(void)deadline_ns;
	(void)why;
	for (int i = 0; i < l->nwindows; i++)
		if (l->window[i].id == window) {
			loop_gone(l, i);
			return 0;
		}
	return EPD_ENOTHING;
}

/* host may be NULL if call is set then. */
static inline void
loop_init(struct loop *l, enum epd_backend b, const struct epd_host *host)
{
	*l = (struct loop){ .host = host, .ops = { .backend = b,
	    .probe = loop_probe, .open = loop_open, .close = loop_close,
	    .call = loop_call, .submit = loop_submit, .wait = loop_wait,
	    .shut = loop_shut } };
}

#endif
