/*
 * publish.c - what a version adds goes out: the fresh pages as a run, and those
 * that were taken up as links to theirs, under ids that are this version's alone.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/publish.h"
#include "flow/reuse.h"
#include "flow/room.h"

/* As a copy: the run it was in went meanwhile, or lies elsewhere. */
static int
copy_taken(struct epd_seq *q, const struct epd_taken *t, uint64_t as)
{
	struct epd_run_shape shape;
	struct epd_run *r;
	void *page;
	int rc;

	epd_seq_shape(q->s, &shape);
	if ((rc = epd_run_new(&r, q->w->runs, &shape)) < 0)
		return rc;
	if (t->given)
		epd_run_given(r);
	for (long i = 0; rc == 0 && i < t->n; i++) {
		do
			rc = epd_run_add(r, &page);
		while (rc == -ENOSPC && epd_store_squeeze(q->s->store,
		    q->s->page_bytes) > 0);
		if (rc == 0)
			memcpy(page, epd_run_page(t->map, t->at + i),
			    (size_t)shape.bytes);
	}
	if (rc == 0)
		rc = epd_run_publish(r, as, t->entry, t->n);
	epd_run_close(r);
	return rc;
}

static int
link_taken(struct epd_seq *q, const struct epd_taken *t, struct epd_run_link *out)
{
	struct epd_memory *m = q->s->store->memory;
	struct epd_index *x = epd_store_index(q->s->store);
	const int own = !strcmp(t->workflow, q->w->name);
	int rc = epd_run_id(&out->run), fd;

	if (rc < 0)
		return rc;
	out->pages = (uint32_t)t->n;
	fd = own ? q->w->runs : epd_memory_find(m, t->workflow);
	rc = fd < 0 ? fd : epd_run_link(fd, t->run, q->w->runs, out->run);
	if (!own && fd >= 0)
		close(fd);
	/* Found here too, once the other's name has gone. */
	if (rc == 0 && !t->given && epd_run_first(t->map) == 0)
		epd_index_put(x, q->w->name, out->run,
		    (uint32_t)q->s->shape.tokens,
		    epd_run_entries(t->map), epd_run_count(t->map));
	return rc < 0 ? copy_taken(q, t, out->run) : 0;
}

/* Link all that was taken up, as far as it goes. */
static int
link_all(struct epd_seq *q, struct epd_version *v, struct epd_why *why)
{
	int rc;

	q->link = epd_calloc(q->ntakes, sizeof *q->link);
	if (!q->link)
		return epd_why(why, -ENOMEM, "no memory");
	for (uint32_t i = 0; i < q->ntakes; i++) {
		if ((rc = link_taken(q, q->take + i, q->link + i)) < 0)
			return epd_seq_tier_why(why, rc);
		v->npages += q->link[i].pages;
		v->nlinks++;
	}
	v->first_page = (uint32_t)q->taken_at;
	v->links = q->link;
	return 0;
}

void
epd_seq_unpublish(struct epd_seq *q, const struct epd_version *v)
{
	for (uint32_t i = 0; i < v->nlinks; i++)
		epd_run_free(q->w->runs, q->link[i].run);
	if (v->run)
		epd_run_free(q->w->runs, v->run);
}

static int
add_fresh(struct epd_seq *q, struct epd_version *v,
    struct epd_page_entry **entries, struct epd_why *why)
{
	uint64_t run;
	int rc;

	if ((rc = epd_run_id(&run)) < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if ((rc = epd_seq_name_fresh(q, entries, why)) < 0)
		return rc;
	if ((rc = epd_seq_publish_fresh(q, run, *entries)) < 0) {
		epd_free(*entries);
		*entries = NULL;
		return epd_seq_tier_why(why, rc);
	}
	v->run = run;
	v->npages += (uint32_t)epd_run_count(q->fresh);
	if (!q->ntakes)
		v->first_page = (uint32_t)q->first;
	return 0;
}

/* The entries of all that was taken, then those that are fresh. */
static int
join(const struct epd_seq *q, const struct epd_version *v,
    struct epd_page_entry **entries)
{
	struct epd_page_entry *all, *fresh = *entries;
	uint32_t n = 0;

	if (!q->ntakes)
		return 0;
	all = epd_calloc(v->npages, sizeof *all);
	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < q->ntakes; i++)
		for (long k = 0; k < q->take[i].n; k++)
			all[n++] = q->take[i].entry[k];
	if (fresh)
		memcpy(all + n, fresh, (v->npages - n) * sizeof *all);
	epd_free(fresh);
	*entries = all;
	return 0;
}

int
epd_seq_publish(struct epd_seq *q, struct epd_version *v,
    struct epd_page_entry **entries, struct epd_why *why)
{
	const int fresh = q->fresh && epd_run_count(q->fresh) > 0;
	struct epd_page_entry *e = NULL;
	int rc = 0;

	if ((rc = epd_session_whole(q->s, why)) < 0 ||
	    (rc = epd_runs_again(q->runs, q->s->forwards, why)) < 0)
		return rc;
	if (fresh)
		rc = add_fresh(q, v, &e, why);
	if (rc == 0 && q->ntakes)
		rc = link_all(q, v, why);
	if (rc == 0 && (rc = join(q, v, &e)) < 0)
		epd_why(why, rc, "no memory");
	if (rc < 0) {
		epd_seq_unpublish(q, v);
		v->run = 0;
		v->npages = v->nlinks = 0;
		v->links = NULL;
		epd_free(e);
		return rc;
	}
	*entries = e;
	return 0;
}
