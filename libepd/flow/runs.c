/*
 * runs.c - an open-addressing table of mapped runs.  Run ids are random, so the
 * id is the key whatever folder it lies in; the entries are compared all the
 * same.
 *
 * A file that has several names is mapped once where that will do: under the id
 * it was first published under lies whichever of its maps came first, and a
 * name whose pages are among those takes them.  So sequences that share a file
 * by links share its pages' places too.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/seq.h"

struct epd_runs {
	struct slot {
		uint64_t run;
		struct epd_run *map;
		int lent;	/* another slot's map */
	} *slot;
	size_t n, cap;		/* cap is a power of two, at most half full */
	uint64_t stamp;		/* of the last epd_runs_again */
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
		if (!r->slot[i].lent)
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

	/* A get puts two in at most. */
	if (2 * (r->n + 2) <= r->cap)
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

/* Where in the map the n expected pages begin; -1: they are not there. */
static long
where(const struct epd_run *map, const struct epd_page_entry *expect, long n)
{
	const struct epd_page_entry *e = epd_run_entries(map);
	long at = 0, i;

	while (at + n <= epd_run_count(map) &&
	    !epd_name_equal(&e[at].name, &expect->name))
		at++;
	if (at + n > epd_run_count(map))
		return -1;
	for (i = 0; i < n; i++)
		if (e[at + i].rows != expect[i].rows ||
		    e[at + i].sum != expect[i].sum ||
		    !epd_name_equal(&e[at + i].name, &expect[i].name))
			return -1;
	return at;
}

/* Put a map under an id; one that was on loan there makes way. */
static void
enter(struct epd_runs *r, uint64_t run, struct epd_run *map, int lent)
{
	struct slot *s = find(r->slot, r->cap, run);

	r->n += !s->map;
	*s = (struct slot){ run, map, lent };
}

int
epd_runs_put(struct epd_runs *r, uint64_t run, struct epd_run *map)
{
	struct slot *s;
	int rc = grow(r);

	if (rc < 0)
		return rc;
	s = find(r->slot, r->cap, run);
	if (s->map && !s->lent)
		return -EEXIST;
	enter(r, run, map, 0);
	return 0;
}

/* What is asked for: n pages of a run, of which some are to be looked at. */
struct want {
	uint64_t run;
	const struct epd_page_entry *entry;
	long n, from, count;
};

static int
verify(struct epd_run *map, long at, const struct want *w,
    struct epd_why *why)
{
	int rc;

	for (long i = w->from; i < w->from + w->count; i++)
		if ((rc = epd_run_verify(map, at + i)) < 0)
			return epd_why(why, rc, "run %016llx: page %ld: %s",
			    (unsigned long long)w->run, i, epd_strerror(rc));
	return 0;
}

/* A run of this id that was opened before: 1, and where the pages are. */
static int
known(const struct slot *s, const struct want *w, struct epd_run **out,
    long *at, struct epd_why *why)
{
	long i;
	int rc;

	if (!s->map)
		return 0;
	i = where(s->map, w->entry, w->n);
	if (i < 0)
		return s->lent ? 0 : epd_why(why, EPD_ECORRUPT, "run %016llx "
		    "holds other pages", (unsigned long long)s->run);
	/* Of a file that was opened for others, these were not looked at yet. */
	if ((rc = verify(s->map, i, w, s->lent ? NULL : why)) < 0)
		return s->lent ? 0 : rc;
	*out = s->map;
	*at = i;
	return 1;
}

/*
 * All of a file that was opened under another name than its first, so that who
 * comes later for more of it finds the same places.  The part it was opened for
 * will do if the whole cannot be had.
 */
static void
widen(struct epd_run **map, int dirfd, uint64_t run)
{
	struct epd_run *table, *all;
	struct epd_run_shape shape;

	if (epd_run_table(&table, dirfd, run, &shape, NULL) < 0)
		return;
	if (epd_run_count(table) > epd_run_count(*map) &&
	    epd_run_open(&all, dirfd, run, &shape, epd_run_entries(table),
	    epd_run_count(table), NULL) == 0) {
		epd_run_close(*map);
		*map = all;
	}
	epd_run_close(table);
}

static int
get(struct epd_runs *r, int dirfd, const struct epd_run_shape *shape,
    const struct want *w, struct epd_run **out, long *at,
    struct epd_why *why)
{
	struct epd_run *map;
	struct slot *s;
	uint64_t origin;
	long i;
	int rc = grow(r);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	rc = known(find(r->slot, r->cap, w->run), w, out, at, why);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if ((rc = epd_run_open(&map, dirfd, w->run, shape, w->entry, w->n,
	    why)) < 0)
		return rc;
	origin = epd_run_origin_id(map);
	s = find(r->slot, r->cap, origin);
	i = origin != w->run && s->map ? where(s->map, w->entry, w->n) : -1;
	if (i >= 0) {
		epd_run_close(map);
		rc = verify(map = s->map, i, w, why);
		if (rc == 0)
			enter(r, w->run, map, 1);
	} else {
		if (origin != w->run)
			widen(&map, dirfd, w->run);
		i = where(map, w->entry, w->n);
		rc = i < 0 ? EPD_ECORRUPT : verify(map, i, w, why);
		if (rc < 0)
			epd_run_close(map);
		else
			enter(r, w->run, map, 0);
		/* The slot that was free may be this run's now. */
		if (rc == 0 && origin != w->run &&
		    !find(r->slot, r->cap, origin)->map)
			enter(r, origin, map, 1);
	}
	if (rc == 0) {
		*out = map;
		*at = i;
	}
	return rc;
}

int
epd_runs_get(struct epd_runs *r, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_run **out, long *at, struct epd_why *why)
{
	const struct want w = { run, expect, n, 0, n };

	return get(r, dirfd, shape, &w, out, at, why);
}

int
epd_runs_part(struct epd_runs *r, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_run *table, long from,
    long count, struct epd_run **out, long *at, struct epd_why *why)
{
	const struct want w = {
		run, epd_run_entries(table), epd_run_count(table), from, count,
	};
	int rc = get(r, dirfd, shape, &w, out, at, why);

	if (rc == 0)
		*at += from;
	return rc;
}

int
epd_runs_again(struct epd_runs *r, uint64_t stamp, struct epd_why *why)
{
	int rc;

	if (r->stamp == stamp)
		return 0;
	for (size_t i = 0; i < r->cap; i++) {
		const struct slot *s = r->slot + i;

		if (s->map && !s->lent && (rc = epd_run_again(s->map)) < 0)
			return epd_why(why, rc, "run %016llx was changed by "
			    "somebody while it was in use",
			    (unsigned long long)s->run);
	}
	r->stamp = stamp;
	return 0;
}
