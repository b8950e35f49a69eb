/*
 * heard.c - what etcd answered, for who asks again within the bound.
 *
 * 1. A thing that was heard is as etcd had it when it was asked, and when the watch
 *    last showed that nothing came since: a change takes it away.
 * 2. An answer that the watch has gone past before it is kept is not: a change of it
 *    may have come and gone.
 */
#include "dir/memory.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

static void
drop(struct epd_dir *d, struct epd_heard *h)
{
	d->nheard -= (size_t)h->n + 1;
	epd_map_take(&d->heard, &h->at);
	epd_free(h);
}

void
epd_heard_drop(struct epd_dir *d, const char *path, uint64_t revision)
{
	struct epd_heard *h =
	    (struct epd_heard *)(void *)epd_map_get(&d->heard, path);

	if (h && h->revision < revision)
		drop(d, h);
}

void
epd_heard_clear(struct epd_dir *d)
{
	epd_map_clear(&d->heard);
	d->nheard = 0;
}

void
epd_heard_keep(struct epd_dir *d, const char *path,
    const struct epd_hint *hint, int n, uint64_t asked_ns, uint64_t revision)
{
	struct epd_heard *h;

	epd_heard_drop(d, path, UINT64_MAX);
	if (!revision || revision < d->arriving)
		return;
	if (d->nheard + (size_t)n + 1 > EPD_DIR_CACHED)
		epd_heard_clear(d);
	h = epd_malloc(sizeof *h + (size_t)n * sizeof *hint);
	if (!h)
		return;
	h->asked_ns = asked_ns;
	h->revision = revision;
	h->n = n;
	if (n)
		memcpy(h->hint, hint, (size_t)n * sizeof *hint);
	if (epd_map_add(&d->heard, &h->at, path))
		epd_free(h);
	else
		d->nheard += (size_t)n + 1;
}

int
epd_heard_find(struct epd_dir *d, const char *path, struct epd_hint *out,
    int max)
{
	const struct epd_heard *h =
	    (struct epd_heard *)(void *)epd_map_get(&d->heard, path);
	const uint64_t now = epd_clock_boot_ns();
	uint64_t since;
	int n;

	if (!h)
		return -1;
	since = h->asked_ns > d->fresh_ns ? h->asked_ns : d->fresh_ns;
	if (now - since > d->bound_ns)
		return -1;
	n = h->n < max ? h->n : max;
	for (int i = 0; i < n; i++) {
		out[i] = h->hint[i];
		out[i].age_ns = now - since;
	}
	return n;
}
