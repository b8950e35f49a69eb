/*
 * load.c - taking up a state: walk its nodes from the root, open the run each
 * one added, and compute again what is not there.
 *
 *  1. A page that a later version has filled on is not needed, nor is a run of
 *     such pages.
 *  2. A page computed again must have the checksum the log has of it: the same
 *     tokens give the same bits, so anything else is damage, and nothing is
 *     published.  Of given pages nothing is known but that checksum; what is
 *     computed in their stead is used, and not published either.  What a codec
 *     brought is made by it again (lossy.c), or refused: others in its stead would
 *     go on otherwise.
 *  3. A log may be of a state that came from a stranger: what its tokens and images
 *     are is looked at before anything goes by it.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/lossy.h"
#include "flow/publish.h"
#include "flow/room.h"
#include "flow/tiers.h"

struct link {
	uint64_t node;
	uint32_t first, npages;
	int needed;		/* some of its pages are */
};

struct chain {
	struct link *link;	/* newest first */
	size_t n, cap;
	uint64_t pages_ns;	/* spent on pages */
};

static int
push(struct chain *c, const struct epd_version *v)
{
	void *p = epd_grow(c->link, c->n, &c->cap, sizeof *c->link);

	if (!p)
		return -ENOMEM;
	c->link = p;
	c->link[c->n++] = (struct link){
		.node = v->node, .first = v->first_page, .npages = v->npages,
	};
	return 0;
}

static void
mark_needed(struct chain *c)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < c->n; i++) {
		struct link *l = c->link + i;

		l->needed = l->npages && l->first < least;
		if (l->needed)
			least = l->first;
	}
}

/* Nodes of a version, newest first. */
static int
walk(struct epd_seq *q, uint32_t state, uint32_t version, struct chain *c,
    struct epd_why *why)
{
	struct epd_version v;
	int rc = epd_shard_version(q->w->shard, state, version, &v);

	if (rc < 0) {
		char ref[EPD_REF_TEXT];

		epd_ref_format(ref, q->w->name, state, version);
		return epd_why(why, rc, "%s: %s", ref, epd_strerror(rc));
	}
	q->head = v;
	for (;;) {
		if (push(c, &v) < 0)
			return epd_why(why, -ENOMEM, "no memory");
		if (!v.parent)
			break;
		if ((rc = epd_shard_node(q->w->shard, v.parent, &v)) < 0)
			return epd_why(why, rc, "%s: node: %s", q->w->name,
			    epd_strerror(rc));
	}
	mark_needed(c);
	/* What came goes on from its own last page, whoever filled that since. */
	if (q->lossy)
		c->link[c->n - 1].needed = c->link[c->n - 1].npages > 0;
	return 0;
}

/* Of the numeric family that the state says it is of, if that is one of ours. */
static void
base_of(struct epd_seq *q, const struct epd_state *st, struct epd_name *out)
{
	const struct epd_session *s = q->s;
	char numeric[EPD_NUMERIC_MAX];
	struct epd_run_shape shape;

	/* Nearly all are not, and need no parser for that. */
	if (!st->fingerprint || !strstr(st->fingerprint, EPD_NUMERIC "+") ||
	    epd_lossy_numeric(st, numeric) < 0 || !epd_lossy_is(numeric)) {
		epd_session_base(s, out);
		return;
	}
	q->lossy = 1;
	epd_lossy_codec(numeric, q->codec);
	epd_seq_shape(s, &shape);
	epd_page_base(out, EPD_ARITHMETIC, numeric, &s->model_fp, &shape);
}

static int
check_model(struct epd_seq *q, uint32_t state, struct epd_why *why)
{
	struct epd_name base;
	struct epd_state st;
	int rc = epd_shard_state(q->w->shard, state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", q->w->name, state,
		    epd_strerror(rc));
	base_of(q, &st, &base);
	if (epd_name_equal(&st.model_fp, &q->s->model_fp) &&
	    epd_name_equal(&st.base, &base)) {
		q->base = base;
		return 0;
	}
	if (strcmp(st.tenant, q->s->store->tenant))
		return epd_why(why, EPD_EMODEL, "%s/s%u: it belongs to "
		    "another tenant", q->w->name, state);
	if (epd_name_equal(&st.model_fp, &q->s->model_fp))
		return epd_why(why, EPD_EMODEL, "%s/s%u: it has other "
		    "pages: of %u tokens in %s (%s)", q->w->name, state, st.page_tokens,
		    st.kv_type == EPD_F32 ? "f32" : "bf16", st.model_path);
	return epd_why(why, EPD_EMODEL, "%s/s%u: it was made with another "
	    "model (%s)", q->w->name, state, st.model_path);
}

/* Put the fresh run among the kept, so that the next one can begin. */
static int
keep_fresh(struct epd_seq *q)
{
	struct epd_run **p = epd_realloc(q->kept,
	    (size_t)(q->nkept + 1) * sizeof *p);

	if (!p)
		return -ENOMEM;
	q->kept = p;
	q->kept[q->nkept++] = q->fresh;
	q->fresh = NULL;
	return 0;
}

/* Pages of one run: n of them from first on, that hold tokens to `rows`. */
struct pages {
	uint64_t run, rows;
	long first, n;
	const struct epd_page_entry *want;
	int came;		/* by a codec */
	int given;
};

/* Enter a mapped run's pages, from its page at on, in the table. */
static int
enter(struct epd_seq *q, const struct epd_run *run, long at,
    const struct pages *p)
{
	if (epd_seq_table(q, p->first + p->n) < 0)
		return -ENOMEM;
	for (long i = 0; i < p->n; i++) {
		q->page[p->first + i] =
		    (void *)(uintptr_t)epd_run_page(run, at + i);
		q->name[p->first + i] = p->want[i].name;
	}
	q->npages = p->first + p->n;
	q->given |= epd_run_is_given(run);
	if (p->rows > q->rows)
		q->found += p->rows - q->rows;
	q->rows = p->rows;
	/* What stands on others goes before them. */
	epd_run_used(q->w->runs, p->run, q->used_ns - (uint64_t)p->first);
	return 0;
}

/* Compute the pages of a node whose run is gone, and publish them anew. */
static int
mend(struct epd_seq *q, const struct pages *p, struct epd_why *why)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens;
	struct epd_metrics *m = q->s->store->metrics;
	struct epd_why differs = {{0}};
	int rc;

	epd_count(m, EPD_M_PAGES_LOST, (uint64_t)p->n);
	/* If the parent has as much of these pages, they begin anew. */
	if (q->rows / t > (uint64_t)p->first || q->rows >= p->rows) {
		uint64_t cut = q->rows - (uint64_t)p->first * t;

		q->found -= cut < q->found ? cut : q->found;
		q->rows -= cut;
		q->npages = p->first;
	}
	rc = p->came ? epd_lossy_again(q, p->rows, p->want, why) :
	    epd_seq_compute(q, p->rows, NULL, why);
	if (rc < 0)
		return rc;
	rc = epd_seq_republish(q, p->run, p->first, p->n, p->want, &differs);
	if (rc > 0 && q->lossy)
		return epd_lossy_lost(q, p->n, why);
	if (rc > 0 && !q->given)
		rc = EPD_ECORRUPT;
	/* Another process mended it meanwhile, or it cannot be kept: no matter. */
	if (rc < 0 && rc != -EEXIST && rc != -ENOSPC && rc != -ENOENT)
		return epd_why(why, rc, "%s", differs.text);
	epd_count(m, EPD_M_PAGES_RECOMPUTED, (uint64_t)p->n);
	q->lost += (uint64_t)p->n;
	if (rc == 0 && epd_runs_put(q->runs, p->run, q->fresh) == 0) {
		q->fresh = NULL;
		return 0;
	}
	return keep_fresh(q);
}

/* From a lower tier, where there is one that has them. */
static int
fetch(struct epd_seq *q, const struct epd_run_shape *shape,
    const struct pages *p)
{
	const struct epd_lot lot = { .workflow = q->w->name, .run = p->run,
		.shape = *shape, .entry = p->want, .n = p->n,
		.given = p->given };
	const uint64_t tokens = p->rows - (uint64_t)p->first * shape->tokens;
	struct epd_fill f = { .needed = 1 };
	struct epd_again again;

	/* What came by a codec cannot be computed as cheaply, if at all. */
	epd_store_again(q->s->store, (uint64_t)p->n * shape->bytes, tokens,
	    &again);
	if (!again.restore && !p->came && !p->given &&
	    !strcmp(q->s->store->config.tier_restore, "cheaper")) {
		epd_count(q->s->store->metrics, EPD_M_RESTORE_PASSED, 1);
		return EPD_ENOTHING;
	}
	return epd_fill_run(q->s->store, q->w, &lot, &f, NULL);
}

/* Have the pages of one run in the table, computed again if they must be. */
static int
take_run(struct epd_seq *q, const struct pages *p, struct epd_why *why)
{
	struct epd_why lost = {{0}};
	struct epd_run_shape shape;
	struct epd_run *run;
	long at;
	int rc;

	if (!p->run || p->rows > q->n ||
	    q->rows / (uint64_t)q->s->shape.tokens < (uint64_t)p->first)
		return epd_why(why, EPD_ECORRUPT, "%s: the pages of a version "
		    "are not where its tokens are", q->w->name);
	epd_seq_shape(q->s, &shape);
	rc = epd_runs_get(q->runs, q->w->runs, p->run, &shape, p->want, p->n,
	    &run, &at, &lost);
	if (rc == EPD_ECORRUPT || rc == EPD_EKIND || rc == -EIO) {
		epd_count(q->s->store->metrics, EPD_M_PAGES_CORRUPT,
		    (uint64_t)p->n);
		epd_run_free(q->w->runs, p->run);
		rc = -ENOENT;
	}
	if (rc == -ENOENT && fetch(q, &shape, p) == 0)
		rc = epd_runs_get(q->runs, q->w->runs, p->run, &shape, p->want,
		    p->n, &run, &at, &lost);
	if (rc == 0)
		return enter(q, run, at, p);
	return rc == -ENOENT ? mend(q, p, why) :
	    epd_why(why, rc, "%s", lost.text);
}

/* The version's pages, run by run; it and e are the caller's own. */
static int
take_pages(struct epd_seq *q, const struct epd_version *v,
    const struct epd_page_entry *e, struct epd_why *why)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens;
	uint32_t done = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && done < v->npages; i++) {
		const uint32_t n = epd_version_pages(v, i), last = done + n - 1;
		struct pages p = {
			.run = epd_version_run(v, i),
			.first = (long)v->first_page + done, .n = n,
			.want = e + done, .came = q->lossy && !v->parent,
			.given = v->given,
			.rows = (v->first_page + (uint64_t)last) * t +
			    e[last].rows,
		};

		rc = e[last].rows > t ? epd_why(why, EPD_ECORRUPT, "%s: a page "
		    "of %u rows", q->w->name, e[last].rows) :
		    take_run(q, &p, why);
		done += n;
	}
	return rc;
}

/* Its tokens are the model's, and its images lie among them. */
static int
take_tokens(struct epd_seq *q, const struct epd_version *v, struct epd_why *why)
{
	int rc;

	for (uint32_t i = 0; i < v->nids; i++)
		if (v->ids[i] < 0 || v->ids[i] >= q->s->info->vocab)
			return epd_why(why, EPD_ECORRUPT, "%s: token %llu: id "
			    "%d is not in the vocabulary of %ld", q->w->name,
			    (unsigned long long)(q->n + i), (int)v->ids[i],
			    q->s->info->vocab);
	rc = epd_seq_extend(q, v->ids, v->nids, v->images, NULL, v->nimages,
	    why);
	return rc == EPD_EFORMAT ? EPD_ECORRUPT : rc;
}

/* Take in one node: its tokens always, its pages as they are found. */
static int
take(struct epd_seq *q, struct chain *c, const struct link *l,
    struct epd_why *why)
{
	struct epd_page_entry *e = NULL;
	struct epd_run_link *links = NULL;
	struct epd_version v;
	uint64_t from;
	int rc = epd_shard_node(q->w->shard, l->node, &v);

	if (rc < 0)
		return epd_why(why, rc, "%s: node: %s", q->w->name,
		    epd_strerror(rc));
	q->given |= v.given;
	rc = take_tokens(q, &v, why);
	if (rc < 0 || !l->needed)
		return rc;
	from = epd_clock_boot_ns();
	/* A beat may write to the log, and what the shard lent is void then. */
	if ((e = epd_version_entries(&v)) &&
	    (links = epd_calloc(v.nlinks + 1u, sizeof *links))) {
		for (uint32_t i = 0; i < v.nlinks; i++)
			links[i] = v.links[i];
		v.links = links;
		rc = take_pages(q, &v, e, why);
	} else {
		rc = epd_why(why, -ENOMEM, "no memory");
	}
	epd_free(links);
	epd_free(e);
	c->pages_ns += epd_clock_boot_ns() - from;
	return rc;
}

/* The first use of a branch is what its fork left to be done. */
static int
is_new_branch(const struct epd_seq *q, uint32_t state)
{
	struct epd_state st;

	return epd_shard_state(q->w->shard, state, &st) == 0 &&
	    st.parent_state && st.versions == 1;
}

int
epd_seq_load(struct epd_seq *q, uint32_t state, uint32_t version,
    struct epd_why *why)
{
	struct epd_metrics *m = q->s->store->metrics;
	uint64_t from = epd_clock_boot_ns();
	struct chain c = {0};
	int rc = check_model(q, state, why);

	if (rc == 0)
		rc = walk(q, state, version, &c, why);
	while (rc == 0 && c.n) {
		const struct link l = c.link[--c.n];

		rc = take(q, &c, &l, why);
	}
	epd_free(c.link);
	if (rc == 0 && is_new_branch(q, state))
		epd_count(m, EPD_M_CLONE_STATE_NS, epd_clock_boot_ns() - from -
		    c.pages_ns);
	return rc;
}
