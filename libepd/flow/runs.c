/*
 * runs.c - an open-addressing table of mapped runs.  Run ids are random, so the
 * id is the key whatever folder it lies in; the entries are compared all the
 * same.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/seq.h"

struct epd_runs {
	struct slot {
		uint64_t run;
		struct epd_run *map;
	} *slot;
	size_t n, cap;		/* cap is a power of two, at most half full */
};

int
epd_runs_new(struct epd_runs **out)
{
	struct epd_runs *r = epd_calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->cap = 64;
	if (!(r->slot = epd_calloc(r->cap, sizeof *r->slot))) {
		epd_free(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

void
epd_runs_free(struct epd_runs *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->cap; i++)
		epd_run_close(r->slot[i].map);
	epd_free(r->slot);
	epd_free(r);
}

static struct slot *
find(struct slot *slot, size_t cap, uint64_t run)
{
	size_t i = run & (cap - 1);

	while (slot[i].map && slot[i].run != run)
		i = (i + 1) & (cap - 1);
	return slot + i;
}

static int
grow(struct epd_runs *r)
{
	size_t cap = 2 * r->cap;
	struct slot *slot;

	if (2 * (r->n + 1) <= r->cap)
		return 0;
	if (!(slot = epd_calloc(cap, sizeof *slot)))
		return -ENOMEM;
	for (size_t i = 0; i < r->cap; i++)
		if (r->slot[i].map)
			*find(slot, cap, r->slot[i].run) = r->slot[i];
	epd_free(r->slot);
	r->slot = slot;
	r->cap = cap;
	return 0;
}

static int
same(const struct epd_run *map, const struct epd_page_entry *expect, long n)
{
	const struct epd_page_entry *e = epd_run_entries(map);

	if (epd_run_count(map) != n)
		return 0;
	for (long i = 0; i < n; i++)
		if (e[i].rows != expect[i].rows || e[i].sum != expect[i].sum ||
		    !epd_name_equal(&e[i].name, &expect[i].name))
			return 0;
	return 1;
}

static void
enter(struct epd_runs *r, struct slot *s, uint64_t run, struct epd_run *map)
{
	*s = (struct slot){ run, map };
	r->n++;
}

int
epd_runs_put(struct epd_runs *r, uint64_t run, struct epd_run *map)
{
	struct slot *s;
	int rc = grow(r);

	if (rc < 0)
		return rc;
	s = find(r->slot, r->cap, run);
	if (s->map)
		return -EEXIST;
	enter(r, s, run, map);
	return 0;
}

int
epd_runs_get(struct epd_runs *r, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_run **out, struct epd_why *why)
{
	struct slot *s;
	struct epd_run *map;
	int rc = grow(r);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	s = find(r->slot, r->cap, run);
	if (s->map) {
		if (!same(s->map, expect, n))
			return epd_why(why, EPD_ECORRUPT, "run %016llx holds "
			    "other pages", (unsigned long long)run);
		*out = s->map;
		return 0;
	}
	if ((rc = epd_run_open(&map, dirfd, run, shape, expect, n, why)) < 0)
		return rc;
	for (long i = 0; i < n; i++)
		if ((rc = epd_run_verify(map, i)) < 0) {
			epd_run_close(map);
			return epd_why(why, rc, "run %016llx: page %ld: %s",
			    (unsigned long long)run, i, epd_strerror(rc));
		}
	enter(r, s, run, map);
	*out = map;
	return 0;
}
