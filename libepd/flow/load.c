/*
 * load.c - taking up a state: walk its nodes from the root, open the run each
 * one added, and compute again what is not there.
 *
 * A recomputed page must have the checksum the log has of it: the same tokens
 * give the same bits, so anything else is damage, and nothing is published.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/seq.h"

struct chain {
	uint64_t *node;
	size_t n, cap;
};

static int
push(struct chain *c, uint64_t node)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 64;
		void *p = epd_realloc(c->node, cap * sizeof *c->node);

		if (!p)
			return -ENOMEM;
		c->node = p;
		c->cap = cap;
	}
	c->node[c->n++] = node;
	return 0;
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
		if (push(c, v.node) < 0)
			return epd_why(why, -ENOMEM, "no memory");
		if (!v.parent)
			return 0;
		if ((rc = epd_shard_node(q->w->shard, v.parent, &v)) < 0)
			return epd_why(why, rc, "%s: node: %s", q->w->name,
			    epd_strerror(rc));
	}
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
	epd_session_base(q->s, &base);
	if (!epd_name_equal(&st.model_fp, &q->s->model_fp) ||
	    !epd_name_equal(&st.base, &base))
		return epd_why(why, EPD_EMODEL, "%s/s%u was made with another "
		    "model or other page settings (%s)", q->w->name, state,
		    st.model_path);
	return 0;
}

static struct epd_page_entry *
entries_of(const struct epd_version *v)
{
	struct epd_page_entry *e = epd_calloc(v->npages + 1u, sizeof *e);

	for (uint32_t i = 0; e && i < v->npages; i++)
		e[i] = (struct epd_page_entry){
			.name = v->pages[i].name,
			.rows = v->pages[i].rows,
			.sum = v->pages[i].sum,
		};
	return e;
}

/* Put the fresh run among the kept, so that the next one can begin. */
static int
keep_fresh(struct epd_seq *q)
{
	struct epd_run **p;

	if (!q->fresh)
		return 0;
	p = epd_realloc(q->kept, (size_t)(q->nkept + 1) * sizeof *p);
	if (!p)
		return -ENOMEM;
	q->kept = p;
	q->kept[q->nkept++] = q->fresh;
	q->fresh = NULL;
	return 0;
}

/* Enter a mapped run's pages in the table. */
static int
enter(struct epd_seq *q, const struct epd_run *run,
    const struct epd_page_entry *e, uint32_t first, uint32_t n, uint64_t rows)
{
	if (epd_seq_table(q, (long)first + n) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		q->page[first + i] = (void *)(uintptr_t)epd_run_page(run, i);
		q->name[first + i] = e[i].name;
	}
	q->npages = (long)first + n;
	q->rows = rows;
	return 0;
}

/* Compute the pages of a node whose run is gone, and publish them anew. */
static int
mend(struct epd_seq *q, uint64_t run, uint32_t first, uint32_t n,
    const struct epd_page_entry *want, uint64_t rows, struct epd_why *why)
{
	struct epd_metrics *m = q->s->store->metrics;
	struct epd_page_entry *got = NULL;
	struct epd_version v = {0};
	int rc;

	epd_count(m, EPD_M_PAGES_LOST, n);
	if ((rc = epd_seq_compute(q, rows, NULL, why)) < 0)
		return rc;
	if (q->first != (long)first)
		return keep_fresh(q);
	rc = epd_seq_publish(q, run, &v, &got, why);
	if (rc == -EEXIST)
		/* Another process mended it meanwhile; ours is as good. */
		rc = 0;
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; got && i < n; i++)
		if (got[i].sum != want[i].sum || got[i].rows != want[i].rows ||
		    !epd_name_equal(&got[i].name, &want[i].name)) {
			epd_run_free(q->w->runs, run);
			epd_free(got);
			return epd_why(why, EPD_ECORRUPT, "%s: page %u computed "
			    "again differs from the record of it", q->w->name,
			    first + i);
		}
	epd_free(got);
	epd_count(m, EPD_M_PAGES_RECOMPUTED, n);
	q->lost += n;
	return keep_fresh(q);
}

/* Take in one node: its tokens always, its pages as they are found. */
static int
take(struct epd_seq *q, uint64_t node, struct epd_why *why)
{
	struct epd_page_entry *want;
	struct epd_run_shape shape;
	struct epd_version v;
	struct epd_run *run;
	uint32_t first, n;
	uint64_t id, rows;
	int rc = epd_shard_node(q->w->shard, node, &v);

	if (rc < 0)
		return epd_why(why, rc, "%s: node: %s", q->w->name,
		    epd_strerror(rc));
	rc = epd_seq_extend(q, v.ids, v.nids, v.images, NULL, v.nimages,
	    why);
	if (rc < 0 || !v.npages)
		return rc;
	if (!(want = entries_of(&v)))
		return epd_why(why, -ENOMEM, "no memory");
	id = v.run;
	first = v.first_page;
	n = v.npages;
	rows = q->n - 1;
	epd_seq_shape(q->s, &shape);
	rc = epd_runs_get(q->runs, q->w->runs, id, &shape, want, n, &run, why);
	if (rc == 0) {
		rc = enter(q, run, want, first, n, rows);
	} else if (rc == -ENOENT || rc == EPD_ECORRUPT || rc == EPD_EKIND) {
		if (rc != -ENOENT) {
			epd_count(q->s->store->metrics, EPD_M_PAGES_CORRUPT, n);
			epd_run_free(q->w->runs, id);
		}
		rc = mend(q, id, first, n, want, rows, why);
	}
	epd_free(want);
	return rc;
}

int
epd_seq_load(struct epd_seq *q, uint32_t state, uint32_t version,
    struct epd_why *why)
{
	struct chain c = {0};
	int rc = check_model(q, state, why);

	if (rc == 0)
		rc = walk(q, state, version, &c, why);
	while (rc == 0 && c.n)
		rc = take(q, c.node[--c.n], why);
	epd_free(c.node);
	return rc;
}
