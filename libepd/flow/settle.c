/*
 * settle.c - a stretch is pages that follow one another in one run's file; each gets
 * a link of its own, so that a release of the version asks nobody.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/names.h"
#include "flow/settle.h"

struct settler {
	struct epd_settled *x;
	struct epd_store *s;
	const struct epd_workflow *to;
	const uint64_t *run;
	uint32_t nruns;
	struct epd_run **table;		/* [nruns], NULL: cannot be read */
	uint32_t came;			/* where the last one was: they come in order */
	long at;
};

/* Where a page is. */
struct spot {
	int came;			/* with the state: index of its run, or -1 */
	char workflow[EPD_WORKFLOW];
	uint64_t run;
	long at;			/* in the file */
	int given;
};

static int
is_page(const struct epd_page_entry *e, const struct epd_page_ref *p)
{
	return epd_name_equal(&e->name, &p->name) && e->sum == p->sum &&
	    e->rows == p->rows;
}

static int
find_came(struct settler *t, const struct epd_page_ref *p, struct spot *out)
{
	for (uint32_t i = 0; i < t->nruns; i++) {
		const uint32_t k = (t->came + i) % t->nruns;
		long at;

		if (!t->table[k])
			continue;
		at = epd_names_place(t->table[k], &p->name, i ? 0 : t->at);
		if (at < 0 || !is_page(epd_run_entries(t->table[k]) + at, p))
			continue;
		t->came = k;
		t->at = at + 1;
		*out = (struct spot){ .came = (int)k, .run = t->run[k],
		    .at = at, .given = epd_run_is_given(t->table[k]) };
		memcpy(out->workflow, t->to->name, sizeof out->workflow);
		return 1;
	}
	return 0;
}

static int
find_here(const struct settler *t, const struct epd_page_ref *p,
    struct spot *out)
{
	struct epd_index *x = epd_store_index(t->s);
	struct epd_index_hit hit;
	struct epd_run_shape shape;
	struct epd_run *table;
	int fd, ok = 0;

	if (epd_index_find(x, &p->name, &hit) <= 0 ||
	    !epd_workflow_name_ok(hit.workflow))
		return 0;
	if ((fd = epd_memory_find(t->s->memory, hit.workflow)) < 0)
		return 0;
	if (epd_run_table(&table, fd, hit.run, &shape, NULL) == 0) {
		const struct epd_page_entry *e = epd_run_entries(table);

		ok = hit.at < (uint64_t)epd_run_count(table) &&
		    !epd_run_is_given(table) && is_page(e + hit.at, p);
		epd_run_close(table);
	}
	close(fd);
	if (!ok)
		return 0;
	*out = (struct spot){ .came = -1, .run = hit.run, .at = hit.at };
	memcpy(out->workflow, hit.workflow, sizeof out->workflow);
	return 1;
}

/* 1 and where page i is, or 0. */
static int
find(struct settler *t, uint32_t i, struct spot *out)
{
	const struct epd_page_ref *p = t->x->pages + i;

	return find_came(t, p, out) || find_here(t, p, out);
}

static int
follows(const struct spot *a, const struct spot *b)
{
	return a->run == b->run && a->at + 1 == b->at &&
	    !strcmp(a->workflow, b->workflow);
}

/* A name of the version's own for the run; whether it leads there. */
static int
link_run(const struct settler *t, const struct spot *p, uint64_t as)
{
	const int own = !strcmp(p->workflow, t->to->name);
	const int fd = own ? t->to->runs :
	    epd_memory_find(t->s->memory, p->workflow);
	int rc = fd < 0 ? fd : epd_run_link(fd, p->run, t->to->runs, as);

	if (!own && fd >= 0)
		close(fd);
	return rc == 0;
}

/* Whoever has a prefix in common finds what came under the name that it has now. */
static void
tell_index(const struct settler *t, const struct epd_run *table, uint64_t run)
{
	struct epd_run_shape shape;

	epd_run_shape_of(table, &shape);
	epd_index_put(epd_store_index(t->s), t->to->name, run, shape.tokens,
	    epd_run_entries(table), epd_run_count(table));
}

/* Pages from `at` on that are in one place, or in none; how many they are. */
static int64_t
settle_stretch(struct settler *t, uint32_t at)
{
	struct epd_settled *x = t->x;
	struct spot first, last, next;
	const int there = find(t, at, &first);
	uint32_t n = 1;
	uint64_t run;
	int rc;

	last = first;
	while (at + n < x->v.npages) {
		const int more = find(t, at + n, &next);

		if (more != there || (there && !follows(&last, &next)))
			break;
		last = next;
		n++;
	}
	if ((rc = epd_links_add(&x->v, n, &run)) < 0)
		return rc;
	if (!there || !link_run(t, &first, run)) {
		x->moved.missing += n;
		return n;
	}
	if (first.came >= 0)
		x->moved.copied += n;
	else
		x->moved.linked += n;
	if (first.came >= 0 && !first.given)
		tell_index(t, t->table[first.came], run);
	/* A file that was linked says nothing of where it came from. */
	x->v.given |= first.given || (first.came >= 0 &&
	    !t->s->config.trust_peers);
	return n;
}

static int
settle_all(struct settler *t)
{
	struct epd_settled *x = t->x;
	int64_t n = 0;

	for (uint32_t at = 0; at < x->v.npages; at += (uint32_t)n)
		if ((n = settle_stretch(t, at)) < 0)
			return (int)n;
	/* They have names of the version's now. */
	for (uint32_t k = 0; k < t->nruns; k++)
		(void)epd_run_free(t->to->runs, t->run[k]);
	return 0;
}

/* ---- what is said of them ---- */

/* They follow one another within the tokens. */
static int
check_images(const struct epd_version *v, uint64_t merge)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < v->nimages; i++) {
		const uint64_t n = epd_names_tokens(v->images + i, merge);

		if (!n || v->images[i].at < end || v->images[i].at > v->nids ||
		    n > v->nids - v->images[i].at)
			return EPD_ECORRUPT;
		end = v->images[i].at + n;
	}
	return 0;
}

/* All but the last are full, and all of them hold less than the tokens. */
static int
check_rows(const struct epd_version *v, uint32_t page_tokens,
    const struct epd_page_ref *pages, uint32_t n)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!pages[i].rows || pages[i].rows > page_tokens ||
		    (i + 1 < n && pages[i].rows != page_tokens))
			return EPD_ECORRUPT;
		rows += pages[i].rows;
	}
	return rows && rows >= v->nids ? EPD_ECORRUPT : 0;
}

/* Their names, by those that rows and images were found good of. */
static int
check_names(const struct epd_version *v, const struct epd_state *traits,
    uint64_t merge, const struct epd_page_ref *pages, uint32_t n)
{
	const struct epd_name *up = &traits->base;
	struct epd_page_image *im = epd_calloc(v->nimages + 1u, sizeof *im);
	uint32_t first = 0;
	int rc = im ? 0 : -ENOMEM;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const uint64_t from = (uint64_t)i * traits->page_tokens;
		const size_t k = epd_names_shown(v, merge, from, pages[i].rows,
		    &first, im);
		struct epd_name want;

		epd_page_name(&want, up, v->ids + from, pages[i].rows, im, k);
		if (!epd_name_equal(&want, &pages[i].name))
			rc = EPD_ECORRUPT;
		up = &pages[i].name;
	}
	epd_free(im);
	return rc;
}

/* The parent's name of page 0 follows from the other traits. */
static int
check_base(const struct epd_state *traits)
{
	const struct epd_run_shape shape = {
		.kind = EPD_OBJECT_KV_PAGE, .type = traits->kv_type,
		.tokens = traits->page_tokens, .bytes = traits->page_bytes,
	};
	struct epd_json *j = NULL;
	struct epd_name base;
	int rc = epd_json_parse(&j, epd_span_str(traits->fingerprint ?
	    traits->fingerprint : ""), "fingerprint", NULL);

	if (rc < 0)
		return rc == -ENOMEM ? rc : EPD_ECORRUPT;
	epd_page_base(&base, (uint32_t)epd_json_int(epd_json_get(j,
	    "arithmetic"), 0), epd_json_str(epd_json_get(j, "numeric"), ""),
	    &traits->model_fp, &shape);
	epd_json_free(j);
	return epd_name_equal(&base, &traits->base) ? 0 : EPD_ECORRUPT;
}

static int
check(const struct epd_version *v, const struct epd_state *traits,
    const struct epd_page_ref *pages, uint32_t n)
{
	const uint64_t merge = epd_names_merge(traits);
	int rc = check_base(traits);

	if (rc == 0)
		rc = check_images(v, merge);
	if (rc == 0)
		rc = check_rows(v, traits->page_tokens, pages, n);
	return rc < 0 ? rc : check_names(v, traits, merge, pages, n);
}

/* ---- all ---- */

int
epd_settle(struct epd_settled *out, struct epd_store *s,
    const struct epd_workflow *to, const struct epd_version *v,
    const struct epd_state *traits, const struct epd_page_ref *pages, uint32_t n,
    const uint64_t *run, uint32_t nruns, struct epd_why *why)
{
	struct epd_settled x = { .v = *v };
	struct settler t = { .x = &x, .s = s, .to = to, .run = run,
	    .nruns = nruns };
	struct epd_run_shape shape;
	int rc = check(v, traits, pages, n);

	if (rc < 0)
		return epd_why(why, rc, rc == -ENOMEM ? "no memory" :
		    "pages or images that do not go with their tokens");
	x.pages = epd_calloc(n + 1u, sizeof *x.pages);
	x.links = epd_calloc(n + 1u, sizeof *x.links);
	t.table = epd_calloc(nruns + 1u, sizeof *t.table);
	if (!x.pages || !x.links || !t.table) {
		rc = -ENOMEM;
	} else {
		memcpy(x.pages, pages, n * sizeof *pages);
		x.v.npages = n;
		x.v.nlinks = 0;
		x.v.pages = x.pages;
		x.v.links = x.links;
		for (uint32_t k = 0; k < nruns; k++)
			(void)epd_run_table(&t.table[k], to->runs, run[k],
			    &shape, NULL);
		rc = settle_all(&t);
	}
	for (uint32_t k = 0; t.table && k < nruns; k++)
		epd_run_close(t.table[k]);
	epd_free(t.table);
	if (rc < 0) {
		epd_settle_undo(&x, to);
		epd_settle_free(&x);
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	}
	*out = x;
	return 0;
}

void
epd_settle_undo(struct epd_settled *x, const struct epd_workflow *to)
{
	epd_links_undo(&x->v, to->runs);
}

void
epd_settle_free(struct epd_settled *x)
{
	epd_free(x->pages);
	epd_free(x->links);
	x->pages = NULL;
	x->links = NULL;
}
