/*
 * told.c - what this node told of and which shards it claimed.
 *
 * 1. A thing in the queue is waiting, and in it once.
 * 2. One that is busy is being told by somebody and is not freed; what changed in the
 *    meantime waits again.
 * 3. What is gone stays till etcd knows, where there is one.
 */
#include "dir/memory.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

static struct epd_told *
told_of(const struct epd_dir *d, const char *path)
{
	return (struct epd_told *)(void *)epd_map_get(&d->told, path);
}

void
epd_told_wait(struct epd_dir *d, struct epd_told *t)
{
	if (t->waiting)
		return;
	t->waiting = 1;
	t->next = NULL;
	*d->last = t;
	d->last = &t->next;
}

struct epd_told *
epd_told_next(struct epd_dir *d)
{
	struct epd_told *t = d->first;

	if (!t)
		return NULL;
	d->first = t->next;
	if (!d->first)
		d->last = &d->first;
	t->waiting = 0;
	t->busy = 1;
	return t;
}

void
epd_told_wait_all(struct epd_dir *d)
{
	for (size_t i = 0; i < d->told.buckets; i++)
		for (struct epd_map_node *n = d->told.bucket[i]; n; n = n->next)
			epd_told_wait(d, (struct epd_told *)(void *)n);
}

/* What stands by the node's lease, and is as it was told, needs no telling. */
static int
is_same(const struct epd_told *t, const struct epd_hint *h)
{
	const struct epd_hint *was = &t->hint;

	return !t->gone && !h->lease_ms && !was->lease_ms &&
	    h->version == was->version && h->epoch == was->epoch &&
	    h->checksum == was->checksum && !strcmp(h->name, was->name);
}

int
epd_told_put(struct epd_dir *d, const char *path, const struct epd_hint *h)
{
	struct epd_told *t = told_of(d, path);

	if (t && is_same(t, h))
		return 0;

	if (!t) {
		if (d->told.n >= EPD_DIR_TOLD)
			return EPD_ETOOBIG;
		t = epd_calloc(1, sizeof *t);
		if (!t || epd_map_add(&d->told, &t->at, path)) {
			epd_free(t);
			return -ENOMEM;
		}
	}
	t->hint = *h;
	t->gone = 0;
	t->turn++;
	t->until_ns = h->lease_ms ?
	    epd_clock_boot_ns() + h->lease_ms * 1000000 : 0;
	return 1;
}

int
epd_told_remove(struct epd_dir *d, const char *path)
{
	struct epd_told *t = told_of(d, path);

	if (!t || t->gone)
		return 0;
	t->gone = 1;
	t->turn++;
	return 1;
}

void
epd_told_drop(struct epd_dir *d, struct epd_told *t)
{
	if (t->busy || t->waiting)
		return;
	epd_map_take(&d->told, &t->at);
	epd_free(t);
}

int
epd_told_find(struct epd_dir *d, const char *path, struct epd_hint *out,
    int max)
{
	struct epd_told *t = told_of(d, path);

	if (!t || t->gone || max < 1)
		return 0;
	if (t->until_ns && epd_clock_boot_ns() >= t->until_ns) {
		epd_told_drop(d, t);
		return 0;
	}
	*out = t->hint;
	out->age_ns = 0;
	return 1;
}

struct epd_claim *
epd_claim_of(struct epd_dir *d, const uint8_t workflow[16], int make)
{
	struct epd_claim *c;

	for (size_t i = 0; i < d->nclaims; i++)
		if (!memcmp(d->claims[i].workflow, workflow, 16))
			return &d->claims[i];
	if (!make)
		return NULL;
	c = epd_grow(d->claims, d->nclaims, &d->claims_cap, sizeof *c);
	if (!c)
		return NULL;
	d->claims = c;
	c += d->nclaims++;
	memset(c, 0, sizeof *c);
	memcpy(c->workflow, workflow, 16);
	return c;
}
