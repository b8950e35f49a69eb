/*
 * reuse.c - taking up pages that other states have.
 *
 * Page by page from where the sequence's own end: this workflow's best match
 * first, then the index.  A run is looked into once and gives as many pages as
 * follow one another in it.  Nothing is linked yet: a mapping keeps what a
 * release or an eviction may take away meanwhile.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/reuse.h"
#include "flow/tiers.h"

struct finder {
	struct epd_seq *q;
	uint64_t upto, t;
	struct epd_match match;		/* in this workflow */
	struct epd_page_row *row;	/* of who has it */
	uint64_t nrows;
};

/* Where a page may be. */
struct place {
	char workflow[EPD_WORKFLOW];
	uint64_t run;
	int given;		/* what is there came from elsewhere */
};

static const struct epd_name *
name_before(const struct finder *f, long page)
{
	return page ? f->q->name + page - 1 : &f->q->base;
}

static int
name_of(const struct finder *f, long page, const struct epd_name *up,
    struct epd_name *out)
{

	if (!up)
		up = name_before(f, page);
	return epd_seq_name(f->q, page, (uint32_t)f->t, up, out);
}

/* How many pages of a run, from its kth on, are the sequence's from page on. */
static long
follow(const struct finder *f, const struct epd_run *table, long k, long page,
    struct epd_name first)
{
	const struct epd_page_entry *e = epd_run_entries(table);
	struct epd_name name = first, next;
	long n = 0;

	while (k + n < epd_run_count(table) && e[k + n].rows == f->t &&
	    epd_name_equal(&e[k + n].name, &name)) {
		n++;
		if ((uint64_t)(page + n + 1) * f->t > f->upto ||
		    name_of(f, page + n, &name, &next) < 0)
			break;
		name = next;
	}
	return n;
}

static struct epd_taken *
room(struct epd_seq *q, long n)
{
	struct epd_taken *t = epd_realloc(q->take,
	    (q->ntakes + 1u) * sizeof *t);

	if (!t)
		return NULL;
	q->take = t;
	t += q->ntakes;
	*t = (struct epd_taken){ .n = n };
	t->entry = epd_calloc((size_t)n, sizeof *t->entry);
	return t->entry ? t : NULL;
}

/* Map a run for n pages of it, from its kth on; they lie at *at of *map. */
static int
map_run(struct finder *f, int fd, uint64_t run, const struct epd_run *table,
    long k, long n, struct epd_run **map, long *at)
{
	struct epd_session *s = f->q->s;
	struct epd_run_shape shape;
	struct epd_why why = {{0}};
	int rc;

	epd_seq_shape(s, &shape);
	rc = epd_runs_part(f->q->runs, fd, run, &shape, table, k, n, map, at,
	    &why);
	if (rc == 0)
		return 0;
	epd_log(&s->store->log, "op=reuse run=%016llx why=\"%s\"",
	    (unsigned long long)run, why.text);
	if (rc == EPD_ECORRUPT || rc == -EIO)
		epd_count(s->store->metrics, EPD_M_PAGES_CORRUPT, 1);
	return rc;
}

/* Enter n pages of a mapped run as the sequence's from page on. */
static int
enter(struct finder *f, const struct place *p, struct epd_run *map, long at,
    long page, long n)
{
	struct epd_seq *q = f->q;
	struct epd_taken *t;

	if (epd_seq_table(q, page + n) < 0 || !(t = room(q, n)))
		return -ENOMEM;
	memcpy(t->workflow, p->workflow, sizeof t->workflow);
	t->run = p->run;
	t->map = map;
	t->at = at;
	t->given = p->given || epd_run_is_given(map);
	for (long i = 0; i < n; i++) {
		t->entry[i] = epd_run_entries(map)[at + i];
		q->page[page + i] = (void *)(uintptr_t)epd_run_page(map,
		    at + i);
		q->name[page + i] = t->entry[i].name;
	}
	if (q->ntakes++ == 0)
		q->taken_at = page;
	q->given |= t->given;
	q->npages = page + n;
	q->borrowed += (uint64_t)(page + n) * f->t - q->rows;
	q->found += (uint64_t)(page + n) * f->t - q->rows;
	q->rows = (uint64_t)(page + n) * f->t;
	return 0;
}

/* The folder of a place; the caller closes it unless it is the sequence's own. */
static int
folder(const struct finder *f, const struct place *p)
{
	const struct epd_workflow *w = f->q->w;

	return !strcmp(p->workflow, w->name) ? w->runs :
	    epd_memory_find(f->q->s->store->memory, p->workflow);
}

/* A run's table, and its folder; one that made way for others comes back first. */
static int
open_run(const struct finder *f, const struct place *p, int *fd,
    struct epd_run **table, struct epd_run_shape *shape)
{
	int rc;

	*fd = folder(f, p);
	rc = *fd < 0 ? *fd : epd_run_table(table, *fd, p->run, shape, NULL);
	if (rc != -ENOENT ||
	    epd_fill_heard(f->q->s->store, p->workflow, p->run) < 0)
		return rc;
	if (*fd < 0)
		*fd = folder(f, p);
	return *fd < 0 ? *fd : epd_run_table(table, *fd, p->run, shape, NULL);
}

/* Take what a place has of the sequence from page on; the pages, or an error. */
static long
take(struct finder *f, const struct place *p, long page,
    const struct epd_name *name)
{
	struct epd_run_shape shape;
	struct epd_run *table = NULL, *map;
	long k = 0, at, n = 0;
	int fd, rc = open_run(f, p, &fd, &table, &shape);

	/* A hint may be wrong: what was given to another is not for us. */
	if (rc == 0 && fd != f->q->w->runs && epd_run_is_given(table))
		rc = -ENOENT;
	if (rc == 0) {
		const struct epd_page_entry *e = epd_run_entries(table);

		while (k < epd_run_count(table) &&
		    !epd_name_equal(&e[k].name, name))
			k++;
		n = follow(f, table, k, page, *name);
	}
	if (n > 0 && (rc = map_run(f, fd, p->run, table, k, n, &map,
	    &at)) == 0)
		rc = enter(f, p, map, at, page, n);
	epd_run_close(table);
	if (fd >= 0 && fd != f->q->w->runs)
		close(fd);
	return rc < 0 ? rc : n;
}

/* Whether the log says so of the version that has a page. */
static int
is_given(const struct finder *f, const struct epd_page_row *r)
{
	struct epd_version v;

	return epd_shard_node(f->q->w->shard, r->node, &v) == 0 && v.given;
}

/* A place was found, and what it is said to have could not be taken. */
static void
fell_back(const struct finder *f)
{
	epd_count(f->q->s->store->metrics, EPD_M_REUSE_FALLBACKS, 1);
}

static int
own(const struct finder *f, long page, const struct epd_name *name,
    struct place *out)
{
	const struct epd_page_row *r;

	if ((uint64_t)page >= f->nrows)
		return 0;
	r = f->row + page;
	if (r->ref.rows != f->t || !r->run || !epd_name_equal(&r->ref.name, name))
		return 0;
	memcpy(out->workflow, f->q->w->name, sizeof out->workflow);
	out->run = r->run;
	out->given = is_given(f, r);
	return 1;
}

/*
 * From whoever the index names; a hint that led nowhere is forgotten, and then
 * the one before it is asked.
 */
static long
elsewhere(struct finder *f, long page, const struct epd_name *name,
    uint64_t tried)
{
	struct epd_index *x = epd_store_index(f->q->s->store);
	struct epd_index_hit hit;
	struct place p = { .given = 0 };
	long n = 0;

	for (int i = 0; i < 2 && epd_index_find(x, name, &hit) > 0; i++) {
		n = 0;
		if (hit.run != tried && epd_workflow_name_ok(hit.workflow)) {
			memcpy(p.workflow, hit.workflow, sizeof p.workflow);
			p.run = hit.run;
			n = take(f, &p, page, name);
			if (n > 0 || n == -ENOMEM)
				return n;
			fell_back(f);
		}
		epd_index_forget(x, name, &hit);
	}
	return n;
}

/* Whole pages, as far as they go.  0 or -ENOMEM. */
static int
whole(struct finder *f)
{
	struct epd_seq *q = f->q;

	for (;;) {
		long page = (long)(q->rows / f->t), n = 0;
		struct place p = { .run = 0 };
		struct epd_name name;

		if ((uint64_t)(page + 1) * f->t > f->upto)
			return 0;
		if (name_of(f, page, NULL, &name) < 0)
			return -ENOMEM;
		if (own(f, page, &name, &p) &&
		    (n = take(f, &p, page, &name)) <= 0 && n != -ENOMEM)
			fell_back(f);
		if (n <= 0 && n != -ENOMEM)
			n = elsewhere(f, page, &name, p.run);
		if (n <= 0)
			return n == -ENOMEM ? -ENOMEM : 0;
	}
}

/* The row of the match's page that has the tokens behind the whole pages. */
static const struct epd_page_row *
tail_row(const struct finder *f, uint64_t rows)
{
	const uint64_t i = rows / f->t;
	const struct epd_page_row *r = f->row + i;

	/* The page before has the name: then all before it is the same. */
	if (!i || i >= f->nrows || rows % f->t > r->ref.rows || !r->run ||
	    !epd_name_equal(&f->row[i - 1].ref.name, f->q->name + i - 1))
		return NULL;
	return r;
}

/* How far the match has pages for the sequence: its last token has none. */
static uint64_t
reach(const struct finder *f)
{
	uint64_t rows = 0, to = f->match.tokens;

	if (f->nrows)
		rows = (f->nrows - 1) * f->t + f->row[f->nrows - 1].ref.rows;
	to = to < rows ? to : rows;
	return to < f->upto ? to : f->upto;
}

/* The first rows of a page of this workflow, as a fresh page's.  0 or -ENOMEM. */
static int
tail(struct finder *f)
{
	struct epd_seq *q = f->q;
	const uint64_t to = reach(f), had = q->rows;
	const long page = (long)(to / f->t), npages = q->npages;
	const struct epd_page_row *r;
	struct epd_run_shape shape;
	struct epd_run *table = NULL, *map;
	void *before = page < npages ? q->page[page] : NULL;
	long k = 0, at;
	int rc;

	if (to <= q->rows || q->rows / f->t != (uint64_t)page ||
	    to % f->t == 0 || !(r = tail_row(f, to)))
		return 0;
	rc = epd_run_table(&table, q->w->runs, r->run, &shape, NULL);
	while (rc == 0 && k < epd_run_count(table) && !epd_name_equal(
	    &epd_run_entries(table)[k].name, &r->ref.name))
		k++;
	if (rc == 0 && k == epd_run_count(table))
		rc = -ENOENT;
	if (rc == 0)
		rc = map_run(f, q->w->runs, r->run, table, k, 1, &map, &at);
	if (rc == 0)
		rc = epd_seq_table(q, page + 1);
	if (rc == 0) {
		q->page[page] = (void *)(uintptr_t)epd_run_page(map, at);
		q->npages = page + 1;
		q->rows = to;
		rc = epd_seq_room(q, to, NULL);
		if (rc < 0) {
			q->rows = had;
			q->page[page] = before;
			q->npages = npages;
		}
	}
	if (rc == 0) {
		q->given |= epd_run_is_given(map) || is_given(f, r);
		epd_page_cut(q->s->model, &q->s->shape, q->page[page],
		    (int)(to % f->t));
		q->found += to - had;
		q->borrowed += to - had;
	}
	if (rc < 0 && rc != -ENOMEM)
		fell_back(f);
	epd_run_close(table);
	return rc == -ENOMEM ? rc : 0;
}

int
epd_seq_reuse(struct epd_seq *q, uint64_t upto, struct epd_why *why)
{
	struct epd_metrics *m = q->s->store->metrics;
	struct finder f = {
		.q = q, .upto = upto, .t = (uint64_t)q->s->shape.tokens,
	};
	int rc;

	if (upto <= q->rows || q->w->runs < 0)
		return 0;
	epd_count(m, EPD_M_EXACT_ATTEMPTS, 1);
	rc = epd_match_find(q, &f.match);
	if (rc == 0 && f.match.tokens > q->rows)
		rc = epd_book_pages(q->w->shard, f.match.node, &f.row,
		    &f.nrows);
	/* Who cannot be read has nothing to give. */
	if (rc < 0 && rc != -ENOMEM) {
		f.nrows = f.match.tokens = 0;
		rc = 0;
	}
	if (rc == 0)
		rc = whole(&f);
	if (rc == 0)
		rc = tail(&f);
	epd_free(f.row);
	if (rc < 0)
		return epd_why(why, rc, "no memory");
	if (q->borrowed) {
		epd_count(m, EPD_M_EXACT_HITS, 1);
		epd_count(m, EPD_M_EXACT_TOKENS, q->borrowed);
	}
	return 0;
}
