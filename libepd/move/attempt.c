/*
 * attempt.c - one attempt: pieces are submitted as long as the link takes them, and
 * what is done makes room for more.
 *
 * 1. A completion is of this attempt if its tag says so and its piece is under way;
 *    else it is late, counted, and changes nothing.
 * 2. A plan of several stages has one that crosses to the peer.  A piece goes through
 *    those before it when it is submitted, through those behind it when it is done,
 *    and meanwhile lies in a slot of host memory, one of as many as were charged.
 * 3. A piece that broke goes on behind what of it is certain, where the plan has one
 *    stage; through others it goes whole.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/stop.h"
#include "move/attempt.h"

enum { BATCH = 32, TAG_SHIFT = 40 };
#define MS UINT64_C(1000000)

struct run {
	struct epd_attempt *a;
	struct epd_passage way;
	const struct epd_transport *ops;
	int cross;			/* the stage that leads to the peer */
	uint64_t next;			/* piece to look at */
	uint64_t under_way;
	uint64_t came_ns;		/* last that any bytes did */
	/* of a staged plan */
	uint8_t *staging;
	uint64_t *slot;			/* piece in it, + 1; 0: free */
	uint32_t slots;
	int damaged;
};

/* ---- pieces ---- */

int
epd_pieces_cut(struct epd_pieces *out, const struct epd_carry *c)
{
	struct epd_pieces p = {
		.size = c->piece_bytes ? c->piece_bytes : UINT64_C(1) << 20,
	};

	p.first = epd_calloc((size_t)c->n + 1, sizeof *p.first);
	p.moved = epd_calloc((size_t)c->n + 1, 1);
	for (uint32_t i = 0; p.first && i < c->n; i++)
		p.first[i + 1] = p.first[i] + c->item[i].bytes / p.size +
		    (c->item[i].bytes % p.size != 0);
	if (p.first)
		p.n = p.left = p.first[c->n];
	p.state = epd_calloc((size_t)p.n + 1, 1);
	p.certain = epd_calloc((size_t)p.n + 1, sizeof *p.certain);
	if (!p.first || !p.moved || !p.state || !p.certain) {
		epd_pieces_free(&p);
		return -ENOMEM;
	}
	*out = p;
	return 0;
}

void
epd_pieces_free(struct epd_pieces *p)
{
	epd_free(p->first);
	epd_free(p->moved);
	epd_free(p->state);
	epd_free(p->certain);
	*p = (struct epd_pieces){0};
}

/* The item that piece k is of. */
static uint32_t
item_of(const struct epd_pieces *p, uint32_t n, uint64_t k)
{
	uint32_t lo = 0, hi = n;

	while (hi - lo > 1) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (p->first[mid] <= k)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* Where piece k lies in its item, and how long it is. */
static void
extent_of(const struct run *r, uint64_t k, const struct epd_item **item,
    uint64_t *at, uint64_t *bytes)
{
	const struct epd_pieces *p = r->a->pieces;
	const uint32_t i = item_of(p, r->a->c->n, k);

	*item = r->a->c->item + i;
	*at = (k - p->first[i]) * p->size;
	*bytes = (*item)->bytes - *at < p->size ? (*item)->bytes - *at :
	    p->size;
}

/* ---- stages ---- */

static int
is_remote(const struct epd_stage *s)
{
	return s->type == EPD_STAGE_REMOTE_DELEGATE;
}

/* One stage of a piece that is not the crossing one. */
static int
stage(struct run *r, const struct epd_stage *s, uint64_t offset, void *to,
    const void *from, uint64_t n, uint64_t deadline, struct epd_why *why)
{
	const struct epd_carrier *how = r->a->c->how;

	if (is_remote(s))
		return how->delegate ? how->delegate(r->a->c->arg, &r->way, s,
		    offset, n, deadline, why) : EPD_EUNSUPPORTED;
	if (s->type != EPD_STAGE_LOCAL_COPY)
		return 0;
	if (how->copy)
		return how->copy(r->a->c->arg, s, to, from, n);
	if (s->source != EPD_IN_CPU || s->target != EPD_IN_CPU)
		return EPD_EUNSUPPORTED;
	memcpy(to, from, n);
	return 0;
}

/* Stages [from, to) of piece k, which lies in slot memory between them. */
static int
stages(struct run *r, int from, int to, uint64_t k, void *slot,
    uint64_t deadline, struct epd_why *why)
{
	const struct epd_item *item;
	uint64_t at, n;
	int rc = 0;

	extent_of(r, k, &item, &at, &n);
	for (int i = from; rc == 0 && i < to; i++) {
		uint8_t *here = (uint8_t *)item->local + at;
		const int reads = r->a->c->op == EPD_OP_READ;

		rc = stage(r, r->a->plan->stage + i, item->offset + at,
		    reads ? here : slot, reads ? slot : here, n, deadline, why);
	}
	return rc;
}

/* Whether memory here is not what the crossing stage reads or writes. */
static int
is_staged_here(const struct epd_plan *plan)
{
	for (int i = 0; i < plan->nstages; i++)
		if (plan->stage[i].type == EPD_STAGE_LOCAL_COPY)
			return 1;
	return 0;
}

static int
crossing(const struct epd_plan *plan)
{
	for (int i = 0; i < plan->nstages; i++)
		if (plan->stage[i].type == EPD_STAGE_TRANSFER)
			return i;
	return -1;
}

static int
make_slots(struct run *r, struct epd_why *why)
{
	const struct epd_plan *plan = r->a->plan;

	if (!is_staged_here(plan))
		return 0;
	r->slots = plan->charge.staging_slots ? plan->charge.staging_slots : 1;
	if (r->slots > r->a->pieces->left)
		r->slots = (uint32_t)r->a->pieces->left;
	r->slot = epd_calloc(r->slots + 1u, sizeof *r->slot);
	r->staging = epd_alloc_aligned(4096, r->slots * r->a->pieces->size);
	if (!r->slot || !r->staging)
		return epd_why(why, -ENOMEM, "no memory to stage in");
	return 0;
}

static uint8_t *
slot_of(struct run *r, uint64_t held)
{
	for (uint32_t i = 0; i < r->slots; i++)
		if (r->slot[i] == held)
			return r->staging + i * r->a->pieces->size;
	return NULL;
}

static void
set_slot(struct run *r, const uint8_t *memory, uint64_t held)
{
	r->slot[(uint64_t)(memory - r->staging) / r->a->pieces->size] = held;
}

/* ---- moving ---- */

static uint64_t
tag_of(const struct run *r, uint64_t k)
{
	return (uint64_t)r->a->plan->attempt << TAG_SHIFT | k;
}

/* 0, -EAGAIN: not now. */
static int
submit(struct run *r, uint64_t k, uint64_t deadline, struct epd_why *why)
{
	struct epd_piece p = { .tag = tag_of(r, k), .op = r->a->c->op,
	    .window = r->way.window, .deadline_ns = deadline };
	const struct epd_item *item;
	uint8_t *slot = NULL;
	uint64_t at;
	int rc;

	if (r->slots && !(slot = slot_of(r, 0)))
		return -EAGAIN;
	extent_of(r, k, &item, &at, &p.bytes);
	if (r->a->plan->nstages > 1)
		r->a->pieces->certain[k] = 0;
	p.bytes -= r->a->pieces->certain[k];
	at += r->a->pieces->certain[k];
	p.offset = item->offset + at;
	p.local = slot ? slot : (uint8_t *)item->local + at;
	rc = stages(r, 0, r->cross, k, slot, deadline, why);
	if (rc == 0)
		rc = r->ops->submit(r->way.link, &p, why);
	if (rc < 0)
		return rc;
	if (slot)
		set_slot(r, slot, k + 1);
	r->a->pieces->state[k] = EPD_PIECE_UNDER_WAY;
	r->under_way++;
	r->a->submitted = 1;
	return 0;
}

/* As many as the link takes. */
static int
fill(struct run *r, uint64_t deadline, struct epd_why *why)
{
	const struct epd_pieces *p = r->a->pieces;
	int rc = 0;

	for (; rc == 0 && r->next < p->n; r->next++)
		if (p->state[r->next] == EPD_PIECE_TO_DO &&
		    (rc = submit(r, r->next, deadline, why)) < 0)
			break;
	if (rc != -EAGAIN)
		return rc;
	return r->under_way ? 0 : epd_why(why, -EIO, "%s takes nothing",
	    epd_backend_name(r->ops->backend));
}

static void
do_again(struct run *r, uint64_t k)
{
	r->a->pieces->state[k] = EPD_PIECE_TO_DO;
	r->damaged = 1;
	r->a->out->corrupt++;
	epd_count(r->a->c->metrics, EPD_M_CHECKSUM_FAILURES, 1);
}

/* All pieces of an item are done: whether it is what it should be. */
static void
look_at(struct run *r, uint32_t i)
{
	const struct epd_item *item = r->a->c->item + i;
	struct epd_pieces *p = r->a->pieces;

	for (uint64_t k = p->first[i]; k < p->first[i + 1]; k++)
		if (p->state[k] != EPD_PIECE_DONE)
			return;
	if (r->a->c->op == EPD_OP_READ && item->has_sum &&
	    epd_xxh3_64(item->local, item->bytes) != item->sum) {
		for (uint64_t k = p->first[i]; k < p->first[i + 1]; k++) {
			p->state[k] = EPD_PIECE_TO_DO;
			p->certain[k] = 0;
		}
		p->left += p->first[i + 1] - p->first[i];
		r->a->out->again += item->bytes;
		r->damaged = 1;
		r->a->out->corrupt++;
		epd_count(r->a->c->metrics, EPD_M_CHECKSUM_FAILURES, 1);
		return;
	}
	p->moved[i] = 1;
}

/* One completion. */
static int
done(struct run *r, const struct epd_piece_done *d, uint64_t deadline,
    struct epd_why *why)
{
	const uint64_t k = d->tag & ((UINT64_C(1) << TAG_SHIFT) - 1);
	struct epd_pieces *p = r->a->pieces;
	const struct epd_item *item;
	uint64_t at, bytes, left;
	uint8_t *slot;
	int rc = d->rc;

	if (d->tag != tag_of(r, k) || k >= p->n ||
	    p->state[k] != EPD_PIECE_UNDER_WAY) {
		r->a->out->late++;
		epd_count(r->a->c->metrics, EPD_M_TRANSFER_LATE, 1);
		return 0;
	}
	r->under_way--;
	p->state[k] = EPD_PIECE_TO_DO;
	extent_of(r, k, &item, &at, &bytes);
	slot = r->slots ? slot_of(r, k + 1) : NULL;
	left = bytes - p->certain[k];
	if (rc == 0 && d->bytes < left)
		rc = epd_why(why, EPD_EPEER, "%llu of %llu bytes came",
		    (unsigned long long)d->bytes, (unsigned long long)left);
	/* Something is left, so that there is a move to tell that it is done. */
	if (rc < 0 && d->bytes < left && r->a->plan->nstages == 1)
		p->certain[k] += d->bytes;
	if (rc == 0)
		rc = stages(r, r->cross + 1, r->a->plan->nstages, k, slot,
		    deadline, why);
	if (slot)
		set_slot(r, slot, 0);
	if (rc == EPD_ECORRUPT) {
		do_again(r, k);
		return 0;
	}
	if (rc < 0)
		return rc;
	p->state[k] = EPD_PIECE_DONE;
	p->left--;
	r->a->out->bytes += bytes;
	r->came_ns = epd_clock_boot_ns();
	look_at(r, item_of(p, r->a->c->n, k));
	return 0;
}

/* Till when something must have come. */
static uint64_t
patience(const struct run *r)
{
	const uint64_t end = r->a->c->deadline_ns;
	uint64_t half;

	if (r->a->last || end <= r->came_ns)
		return end;
	half = (end - r->came_ns) / 2;
	if (half < 100 * MS)
		half = 100 * MS;
	return r->came_ns + half < end ? r->came_ns + half : end;
}

/* Some completions, or why there are none. */
static int
reap(struct run *r, struct epd_why *why)
{
	struct epd_piece_done d[BATCH];
	const uint64_t till = patience(r), now = epd_clock_boot_ns();
	uint64_t slice = now + 100 * MS;
	int n, rc = 0;

	if (now >= till)
		return epd_why(why, EPD_ETIMEOUT, "nothing has come by %s for "
		    "too long", epd_backend_name(r->ops->backend));
	/* In slices, so that it can be called off. */
	n = r->ops->wait(r->way.link, d, BATCH, slice < till ? slice : till,
	    why);
	if (n == EPD_ETIMEOUT)
		return 0;
	if (n < 0)
		return n;
	/* All are looked at: what has come has come. */
	for (int i = 0; i < n; i++) {
		const int one = done(r, d + i, till, why);

		if (rc == 0)
			rc = one;
	}
	return rc;
}

static int
move_all(struct run *r, struct epd_why *why)
{
	const struct epd_pieces *p = r->a->pieces;
	int rc = 0;

	r->came_ns = epd_clock_boot_ns();
	while (rc == 0 && (r->under_way || r->next < p->n)) {
		if (epd_is_stopped())
			return epd_why(why, -ECANCELED, "called off");
		rc = fill(r, patience(r), why);
		if (rc == 0 && r->under_way)
			rc = reap(r, why);
	}
	if (rc == 0 && r->damaged)
		rc = epd_why(why, EPD_ECORRUPT, "some of what came by %s was "
		    "damaged on the way", epd_backend_name(r->ops->backend));
	return rc;
}

/* What is under way when it fails is to be done again. */
static void
forget_under_way(struct run *r)
{
	struct epd_pieces *p = r->a->pieces;

	for (uint64_t k = 0; r->under_way && k < p->n; k++)
		if (p->state[k] == EPD_PIECE_UNDER_WAY) {
			p->state[k] = EPD_PIECE_TO_DO;
			r->under_way--;
		}
}

/* What an earlier passage took is not where this one leads. */
static void
begin_anew(struct run *r)
{
	struct epd_pieces *p = r->a->pieces;
	const struct epd_item *item;
	uint64_t at, n;

	for (uint64_t k = 0; k < p->n; k++) {
		if (p->state[k] != EPD_PIECE_DONE)
			continue;
		extent_of(r, k, &item, &at, &n);
		r->a->out->again += n;
	}
	memset(p->state, EPD_PIECE_TO_DO, p->n);
	memset(p->certain, 0, p->n * sizeof *p->certain);
	memset(p->moved, 0, r->a->c->n);
	p->left = p->n;
}

static int
go(struct run *r, struct epd_why *why)
{
	const struct epd_carry *c = r->a->c;
	int rc = make_slots(r, why), broken;

	if (rc < 0)
		return rc;
	r->came_ns = epd_clock_boot_ns();
	rc = c->how->open(c->arg, r->a->plan, r->a->pieces->moved, &r->way,
	    patience(r), why);
	if (rc < 0)
		return rc;
	r->ops = epd_link_ops(r->way.link);
	if (r->way.fresh)
		begin_anew(r);
	rc = move_all(r, why);
	if (rc == 0 && c->how->commit) {
		r->a->submitted = 1;
		rc = c->how->commit(c->arg, r->a->plan, &r->way,
		    c->deadline_ns, why);
	}
	if (rc == -ECANCELED)
		epd_count(c->metrics, EPD_M_TRANSFER_CANCELLED, 1);
	/*
	 * Damage leaves a link that may be used again.  One that was called off does not:
	 * its waits have failed, and closing it is what takes back what is under way.
	 */
	broken = rc < 0 && (r->under_way || rc != EPD_ECORRUPT);
	c->how->close(c->arg, &r->way, broken);
	forget_under_way(r);
	return rc;
}

int
epd_attempt_make(struct epd_attempt *a, struct epd_why *why)
{
	struct run r = { .a = a, .cross = crossing(a->plan) };
	int rc;

	if (r.cross < 0)
		return epd_why(why, EPD_EUSAGE, "a plan that leads nowhere");
	rc = go(&r, why);
	epd_free(r.slot);
	epd_free(r.staging);
	return rc;
}
