/*
 * check.c - the RFC's invariants, proven of a store that lives or crashed.
 *
 *  1. Sealed pages do not change: a page in memory has the name, rows and
 *     checksum that the log has of it, and its bytes have that checksum; the
 *     name is what tokens, images and the page before make it.
 *  2. Counts: holders of each node are marked anew from versions and leases,
 *     and the replay of the log gives the same (shard).
 *  3. Nothing is used after it was freed: what a state or a lease holds is
 *     there, each run of it either in memory or to be computed again.
 *  4. Nothing is freed twice: each run begins and ends once in the log (shard).
 *  5. A snapshot is one: the replay gives the tables (shard), and a state's
 *     pages follow one another, whole but the last, within its tokens.
 *  6. A reuse that fails falls back: nothing need be in memory, and a page that
 *     is missing is no fault.
 *  7. A source keeps what it hands over until that is decided: its state is
 *     there and pinned, as is what a target is ready to have (shard).
 *
 * And a feature's two keys agree, and its bytes with their checksum (feature).
 * What cannot be looked at, for want of memory or of leave, is no fault: it ends
 * the check.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/book.h"
#include "flow/runs.h"
#include "page/page.h"

struct check {
	struct epd_store *s;
	void (*fault)(void *arg, const char *text);
	void *arg;
	struct epd_why *why;
	const char *about;	/* the workflow's name */
	int faults, all;
	struct epd_proof proof;
};

/* The counter that a fault adds one to. */
enum {
	BOOKS = EPD_M_REFCOUNT_MISMATCH, PAGES = EPD_M_PAGES_CORRUPT,
	NONE = EPD_M_COUNT,
};

static void fault(struct check *c, int counter, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
fault(struct check *c, int counter, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->faults++;
	epd_count(c->s->metrics, (enum epd_metric)counter, 1);
	c->fault(c->arg, text);
}

/* The shard counts its own; features are counted when they are next used. */
static void
counted_elsewhere(void *arg, const char *text)
{
	struct check *c = arg;

	fault(c, NONE, "%s: %s", c->about, text);
}

/* ---- names ---- */

struct picture {
	uint64_t at, n;
	struct epd_name fp;
};

/* A state's sequence laid out to be named. */
struct sequence {
	int32_t *ids;
	uint64_t n;
	struct picture *im;
	size_t nim;
};

static void
sequence_free(struct sequence *q)
{
	epd_free(q->ids);
	epd_free(q->im);
	*q = (struct sequence){0};
}

/* Patches to a side of a merged token, from the parts the state carries. */
static uint64_t
merge_of(const struct epd_state *st)
{
	struct epd_json *j = NULL;
	int64_t merge = 2;

	if (st->fingerprint && epd_json_parse(&j,
	    epd_span_str(st->fingerprint), "fingerprint", NULL) == 0)
		merge = epd_json_int(epd_json_get(j, "merge"), 2);
	epd_json_free(j);
	return merge < 1 || merge > 64 ? 2 : (uint64_t)merge;
}

static int
lay_out(struct sequence *q, struct epd_shard *s, const struct epd_chain *c,
    uint64_t merge)
{
	struct epd_version v;
	size_t images = 0;
	int rc = 0;

	for (size_t i = 0; i < c->n; i++) {
		if ((rc = epd_shard_node(s, c->node[i], &v)) < 0)
			return rc;
		images += v.nimages;
		q->n = v.start + v.nids;
	}
	q->ids = epd_calloc(q->n + 1, sizeof *q->ids);
	q->im = epd_calloc(images + 1, sizeof *q->im);
	if (!q->ids || !q->im)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		if ((rc = epd_shard_node(s, c->node[i], &v)) < 0)
			return rc;
		if (v.start + v.nids > q->n)
			return EPD_ECORRUPT;
		memcpy(q->ids + v.start, v.ids, v.nids * sizeof *v.ids);
		for (uint32_t k = 0; k < v.nimages; k++) {
			const struct epd_image_ref *r = v.images + k;

			q->im[q->nim++] = (struct picture){
				.at = r->at, .fp = r->fp,
				.n = (uint64_t)r->grid[0] *
				    (r->grid[1] / merge) * (r->grid[2] / merge),
			};
		}
	}
	return 0;
}

/* The name page i ought to have. */
static int
name(struct epd_name *out, const struct sequence *q, const struct epd_name *up,
    uint64_t at, uint32_t rows)
{
	struct epd_page_image *im = epd_calloc(q->nim + 1, sizeof *im);
	size_t n = 0;

	if (!im)
		return -ENOMEM;
	for (size_t k = 0; k < q->nim; k++)
		if (q->im[k].at < at + rows && q->im[k].at + q->im[k].n > at)
			im[n++] = (struct epd_page_image){
				.at = (int64_t)(q->im[k].at - at),
				.fp = q->im[k].fp,
			};
	epd_page_name(out, up, q->ids + at, rows, im, n);
	epd_free(im);
	return 0;
}

static void
check_images(struct check *c, const char *ref, const struct sequence *q)
{
	uint64_t end = 0;

	for (size_t k = 0; k < q->nim; k++) {
		const struct picture *p = q->im + k;

		if (p->at < end || p->n == 0 || p->n > q->n ||
		    p->at > q->n - p->n)
			fault(c, BOOKS, "%s: image %zu lies outside its place",
			    ref, k);
		end = p->at + p->n;
	}
}

static int
check_pages(struct check *c, const char *ref, const struct epd_state *st,
    const struct sequence *q, const struct epd_page_row *row, uint64_t n)
{
	const uint64_t t = st->page_tokens;
	struct epd_name up = st->base, want;

	for (uint64_t i = 0; i < n; i++) {
		const struct epd_page_ref *p = &row[i].ref;
		int rc;

		if (p->rows == 0 || p->rows > t ||
		    (i + 1 < n && p->rows != t) || i * t + p->rows > q->n) {
			fault(c, BOOKS, "%s: page %llu has %u rows", ref,
			    (unsigned long long)i, p->rows);
			return 0;
		}
		rc = name(&want, q, &up, i * t, p->rows);
		if (rc < 0)
			return rc;
		if (!epd_name_equal(&want, &p->name)) {
			fault(c, BOOKS, "%s: page %llu is not named by its "
			    "tokens", ref, (unsigned long long)i);
			return 0;
		}
		up = p->name;
	}
	return 0;
}

static int
check_state(struct check *c, struct epd_workflow *w,
    const struct epd_state *st)
{
	struct epd_chain chain = {0};
	struct sequence q = {0};
	struct epd_page_row *row = NULL;
	char ref[EPD_REF_TEXT];
	uint64_t n;
	int rc = epd_chain_of(&chain, w->shard, st->id, 0);

	epd_ref_format(ref, w->name, st->id, 0);
	if (rc == 0)
		rc = lay_out(&q, w->shard, &chain, merge_of(st));
	if (rc == 0) {
		check_images(c, ref, &q);
		rc = epd_book_pages(w->shard, chain.node[chain.n - 1], &row,
		    &n);
	}
	if (rc == 0)
		rc = check_pages(c, ref, st, &q, row, n);
	c->proof.states++;
	c->proof.versions += st->versions;
	if (rc == EPD_ECORRUPT) {
		fault(c, BOOKS, "%s: its versions do not follow one another",
		    ref);
		rc = 0;
	}
	epd_free(row);
	sequence_free(&q);
	epd_chain_free(&chain);
	return rc;
}

/* ---- runs in memory ---- */

/* -EINVAL and EPD_ETOOBIG: the state tells of a shape that no page has. */
static int
is_damage(int rc)
{
	return rc == EPD_ECORRUPT || rc == EPD_EKIND || rc == -EINVAL ||
	    rc == EPD_ETOOBIG;
}

/* The pages of a version in its ith run, n of them behind the first `done`. */
static int
check_run(struct check *c, struct epd_workflow *w,
    const struct epd_state *shape_of, const struct epd_version *v, uint32_t i,
    uint32_t done)
{
	const uint64_t id = epd_version_run(v, i);
	const uint32_t n = epd_version_pages(v, i);
	struct epd_run_shape shape = {
		.kind = EPD_OBJECT_KV_PAGE,
		.type = shape_of->kv_type,
		.tokens = shape_of->page_tokens,
		.bytes = shape_of->page_bytes,
	};
	struct epd_page_entry *e = epd_version_entries(v);
	struct epd_run *run = NULL;
	struct epd_why why = {{0}};
	int rc = e ? epd_run_look(&run, w->runs, id, &shape, e + done, n,
	    &why) : -ENOMEM;

	if (rc < 0 && !why.text[0])
		epd_why(&why, rc, "run %016llx: %s", (unsigned long long)id,
		    epd_strerror(rc));
	if (is_damage(rc))
		fault(c, PAGES, "%s: %s", w->name, why.text);
	else if (rc < 0 && rc != -ENOENT)
		epd_why(c->why, rc, "%s: %s", w->name, why.text);
	c->proof.runs += rc == 0;
	c->proof.pages += rc == 0 ? n : 0;
	for (uint32_t k = 0; rc == 0 && k < n; k++)
		if (epd_run_verify(run, k) < 0)
			fault(c, PAGES, "%s: run %016llx: page %u: %s", w->name,
			    (unsigned long long)id, k,
			    epd_strerror(EPD_ECORRUPT));
	epd_run_close(run);
	epd_free(e);
	return is_damage(rc) || rc == -ENOENT ? 0 : rc;
}

/* A node's runs that are in memory and were not looked at yet. */
static int
check_node(struct check *c, struct epd_workflow *w,
    const struct epd_state *shape_of, uint64_t node, const struct epd_book *b,
    char *seen)
{
	struct epd_version v;
	uint32_t done = 0;
	int rc = epd_shard_node(w->shard, node, &v);

	for (uint32_t i = 0; rc == 0 && done < v.npages; i++) {
		const struct epd_book_run *r = epd_book_run(b,
		    epd_version_run(&v, i));

		if (r && !seen[r - b->run]) {
			seen[r - b->run] = 1;
			rc = check_run(c, w, shape_of, &v, i, done);
		}
		done += epd_version_pages(&v, i);
	}
	return rc;
}

struct missing {
	const struct epd_book *b;
	uint64_t pages;
};

/* Pages that no run in memory has. */
static int
count_missing(void *arg, const struct epd_version *v)
{
	struct missing *m = arg;
	uint32_t done = 0;

	for (uint32_t i = 0; done < v->npages; i++) {
		if (!epd_book_run(m->b, epd_version_run(v, i)))
			m->pages += epd_version_pages(v, i);
		done += epd_version_pages(v, i);
	}
	return 0;
}

/* Each run once, with the shape of a state that stands on it. */
static int
check_runs(struct check *c, struct epd_workflow *w)
{
	struct epd_book b = {0};
	struct missing m = { .b = &b };
	struct epd_state st;
	uint32_t after = 0;
	char *seen = NULL;
	int rc = epd_book_open(&b, w, NULL, c->why);

	if (rc == 0 && !(seen = epd_calloc(b.nruns + 1, 1)))
		rc = -ENOMEM;
	while (rc == 0 && (rc = epd_shard_next(w->shard, after, &st)) == 0) {
		struct epd_chain chain = {0};

		after = st.id;
		rc = epd_chain_of(&chain, w->shard, st.id, 0);
		if (rc == EPD_ENOSTATE)		/* expired meanwhile */
			rc = 0;
		for (size_t i = 0; rc == 0 && i < chain.n; i++) {
			const struct epd_book_run *r;
			struct epd_outline o;

			rc = epd_shard_outline(w->shard, chain.node[i], &o);
			if (rc < 0 || (!o.nlinks &&
			    (!(r = epd_book_run(&b, o.run)) ||
			    seen[r - b.run])))
				continue;
			rc = check_node(c, w, &st, o.node, &b, seen);
		}
		epd_chain_free(&chain);
	}
	if (rc == EPD_ENOSTATE)
		rc = epd_needed_runs(w->shard, count_missing, &m);
	c->proof.missing += m.pages;
	epd_free(seen);
	epd_book_close(&b);
	return rc;
}

/* What there is beside states and pages. */
static void
count_rest(struct check *c, struct epd_shard *s)
{
	struct epd_outline o = {0};
	struct epd_lease l = {0};
	struct epd_handoff h = {0};

	c->proof.records += epd_shard_lsn(s);
	while (epd_shard_outline_next(s, o.node, &o) == 0)
		c->proof.nodes++;
	while (epd_shard_lease_next(s, l.id, &l) == 0)
		c->proof.leases++;
	while (epd_shard_handoff_next(s, h.lsn, &h) == 0)
		c->proof.handoffs++;
}

static int
check_workflow(void *arg, const char *workflow)
{
	struct check *c = arg;
	struct epd_workflow w;
	struct epd_state st;
	struct epd_why inner = {{0}};
	uint32_t after = 0;
	int rc = epd_workflow_open(&w, c->s, workflow, 1, &inner);

	c->about = workflow;
	if (rc == EPD_ENOTHING && c->all)
		return 0;
	if (rc == EPD_ECORRUPT || rc == EPD_EKIND) {
		fault(c, BOOKS, "%s", inner.text);
		return 0;
	}
	if (rc < 0)
		return epd_why(c->why, rc, "%s", inner.text);
	rc = epd_shard_check(w.shard, counted_elsewhere, c, c->why);
	if (rc >= 0)
		rc = 0;
	count_rest(c, w.shard);
	while (rc == 0 && (rc = epd_shard_next(w.shard, after, &st)) == 0) {
		after = st.id;
		rc = check_state(c, &w, &st);
		if (rc == EPD_ENOSTATE)		/* expired meanwhile */
			rc = 0;
	}
	rc = rc == EPD_ENOSTATE ? 0 : rc;
	if (rc == 0)
		rc = check_runs(c, &w);
	epd_workflow_close(&w);
	return rc;
}

static int
check_features(struct check *c)
{
	int rc;

	c->about = "features";
	rc = epd_feature_check(c->s->features, counted_elsewhere, c);
	return rc < 0 ? epd_why(c->why, rc, "features: %s", epd_strerror(rc)) :
	    0;
}

int
epd_flow_prove(struct epd_store *s, const char *workflow,
    void (*fn)(void *arg, const char *text), void *arg,
    struct epd_proof *proof, struct epd_why *why)
{
	struct check c = { .s = s, .fault = fn, .arg = arg, .why = why,
	    .about = "features", .all = *workflow == '\0' };
	int rc;

	if (proof)
		c.proof = *proof;
	rc = c.all ? epd_workflow_each(s, check_workflow, &c) :
	    check_workflow(&c, workflow);
	if (rc == 0 && c.all)
		rc = check_features(&c);
	if (proof)
		*proof = c.proof;
	return rc < 0 ? rc : c.faults;
}

int
epd_flow_check(struct epd_store *s, const char *workflow,
    void (*fn)(void *arg, const char *text), void *arg, struct epd_why *why)
{
	return epd_flow_prove(s, workflow, fn, arg, NULL, why);
}
