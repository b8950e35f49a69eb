/*
 * kept.c - runs that guests wrote and no record names yet.
 *
 * They are the serving's, not one guest's: who writes pages over one link may have
 * them named over another of the same party.  They go with the guest that wrote them.
 * Room for one is taken before a byte of it comes, so that nobody sends in vain.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/guest.h"

/* Runs of all guests together, and of one party's. */
enum { KEPT = 4096, KEPT_PARTY = 3072 };

uint64_t
epd_kept_share(const struct epd_kept_list *l)
{
	return l->most - l->most / 4;
}

static int
is_it(const struct epd_kept *k, const char *workflow, uint64_t run)
{
	return run && k->run == run && !strcmp(k->workflow, workflow);
}

static int
has_room(const struct epd_kept_list *l, const struct epd_guest *g,
    uint64_t bytes, struct epd_why *why)
{
	uint64_t all = 0, own = 0;
	size_t nown = 0;

	for (size_t i = 0; i < l->n; i++) {
		all += l->v[i].bytes;
		if (memcmp(l->v[i].party, g->party, sizeof g->party))
			continue;
		own += l->v[i].bytes;
		nown++;
	}
	if (nown >= KEPT_PARTY || bytes > epd_kept_share(l) ||
	    own > epd_kept_share(l) - bytes)
		return epd_why(why, EPD_ETOOBIG, "%zu runs of %llu bytes that no "
		    "hand-off names yet are this peer's: with %llu more it "
		    "has too many", nown, (unsigned long long)own,
		    (unsigned long long)bytes);
	if (l->n >= KEPT || bytes > l->most || all > l->most - bytes)
		return epd_why(why, EPD_ECREDIT, "peers have written as much "
		    "that no hand-off names yet as they may together");
	return 0;
}

int
epd_kept_take(struct epd_kept_list *l, const struct epd_guest *g,
    uint64_t bytes, struct epd_why *why)
{
	struct epd_kept k = { .bytes = bytes, .by = g };
	void *p;
	int rc;

	memcpy(k.party, g->party, sizeof k.party);
	pthread_mutex_lock(&l->lock);
	rc = has_room(l, g, bytes, why);
	if (rc == 0 && !(p = epd_grow(l->v, l->n, &l->room, sizeof *l->v)))
		rc = epd_why(why, -ENOMEM, "no memory");
	if (rc == 0) {
		l->v = p;
		l->v[l->n++] = k;
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* Where room was taken for it: any of as many bytes will do.  Under the lock. */
static size_t
taken(const struct epd_kept_list *l, const struct epd_guest *g, uint64_t bytes)
{
	size_t i = 0;

	while (i < l->n && (l->v[i].run || l->v[i].by != g ||
	    l->v[i].bytes != bytes))
		i++;
	return i;
}

void
epd_kept_give(struct epd_kept_list *l, const struct epd_guest *g,
    uint64_t bytes)
{
	size_t i;

	pthread_mutex_lock(&l->lock);
	if ((i = taken(l, g, bytes)) < l->n)
		l->v[i] = l->v[--l->n];
	pthread_mutex_unlock(&l->lock);
}

void
epd_kept_add(struct epd_kept_list *l, const struct epd_kept *kept)
{
	size_t i;

	pthread_mutex_lock(&l->lock);
	if ((i = taken(l, kept->by, kept->bytes)) < l->n) {
		memcpy(l->v[i].workflow, kept->workflow, sizeof kept->workflow);
		l->v[i].run = kept->run;
		l->v[i].arrival = kept->arrival;
	}
	pthread_mutex_unlock(&l->lock);
}

int
epd_kept_has(struct epd_kept_list *l, const struct epd_guest *g,
    const char *workflow, uint64_t run)
{
	int has = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; !has && i < l->n; i++)
		has = is_it(l->v + i, workflow, run) && !memcmp(l->v[i].party,
		    g->party, sizeof g->party);
	pthread_mutex_unlock(&l->lock);
	return has;
}

/* Take one out, by its id or its writer; 0: none is left. */
static int
take(struct epd_kept_list *l, const char *workflow, uint64_t run,
    const struct epd_guest *by, struct epd_kept *out)
{
	int found = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; !found && i < l->n; i++) {
		if (by ? l->v[i].by != by : !is_it(l->v + i, workflow, run))
			continue;
		*out = l->v[i];
		l->v[i] = l->v[--l->n];
		found = 1;
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}

/* A record names it by a name of its own now, or it is of no use. */
static void
drop(struct epd_store *s, const struct epd_kept *k)
{
	if (k->run)
		epd_arrival_undo(s, k->workflow, k->run);
	epd_arrival_free(k->arrival);
}

void
epd_kept_let_go(struct epd_kept_list *l, struct epd_store *s,
    const char *workflow, const uint64_t *run, size_t n)
{
	struct epd_kept k;

	for (size_t i = 0; i < n; i++)
		if (take(l, workflow, run[i], NULL, &k))
			drop(s, &k);
}

void
epd_kept_end(struct epd_kept_list *l, struct epd_guest *g)
{
	struct epd_kept k;

	while (take(l, NULL, 0, g, &k))
		drop(g->s, &k);
	for (size_t i = 0; i < g->nmarks; i++)
		close(g->mark[i].fd);
	epd_free(g->mark);
	g->mark = NULL;
	g->nmarks = 0;
}

int
epd_guest_mark(struct epd_guest *g, const char *workflow)
{
	enum { BUSY_MS = 2000 };
	void *p;
	int fd, rc;

	for (size_t i = 0; i < g->nmarks; i++)
		if (!strcmp(g->mark[i].workflow, workflow))
			return g->mark[i].fd;
	if ((rc = epd_guest_room(g, NULL)) < 0)
		return rc;
	if (!(p = epd_grow(g->mark, g->nmarks, &g->mark_room, sizeof *g->mark)))
		return -ENOMEM;
	g->mark = p;
	if ((fd = epd_memory_dir(g->s->memory, workflow)) < 0)
		return fd;
	if ((rc = epd_lock_share(fd, BUSY_MS)) < 0) {
		close(fd);
		return rc;
	}
	memcpy(g->mark[g->nmarks].workflow, workflow, strlen(workflow) + 1);
	g->mark[g->nmarks].fd = fd;
	return g->mark[g->nmarks++].fd;
}
