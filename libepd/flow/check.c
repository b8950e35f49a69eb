/*
 * check.c - the RFC's invariants, proven of a store that lives or crashed.
 *
 *  1. Sealed pages do not change: a page in memory has the name, rows and
 *     checksum that the log has of it, and its bytes have that checksum; the
 *     name is what tokens, images and the page before make it (names.c).
 *  2. Counts: holders of each node are marked anew from versions and leases,
 *     and the replay of the log gives the same (shard).
 *  3. Nothing is used after it was freed: what a state or a lease holds is
 *     there, each run of it either in memory or to be computed again.
 *  4. Nothing is freed twice: each run begins and ends once in the log (shard).
 *  5. A snapshot is one: the replay gives the tables (shard), and a state's
 *     pages follow one another, whole but the last, within its tokens.
 *  6. A reuse that fails falls back: nothing need be in memory, and a page that
 *     is missing is no fault; nor is it that a lower tier, which is a cache,
 *     has lost or damaged what it had.
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
#include "base/stop.h"
#include "flow/book.h"
#include "flow/litter.h"
#include "flow/names.h"
#include "flow/packs.h"
#include "flow/runs.h"
#include "page/page.h"

struct check {
	struct epd_store *s;
	const struct epd_findings *to;
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
	c->to->fault(c->to->arg, text);
}

/* What lies about; what shuts somebody out is a fault. */
static void
found(void *arg, enum epd_finding what, const char *text)
{
	struct check *c = arg;

	if (what == EPD_FAULT) {
		fault(c, NONE, "%s", text);
		return;
	}
	c->proof.litter += what == EPD_LITTER;
	c->proof.foreign += what == EPD_FOREIGN;
	if (c->to->litter)
		c->to->litter(c->to->arg, what, text);
}

static void
not_named(void *arg, const char *text)
{
	fault(arg, BOOKS, "%s", text);
}

/* The shard counts its own; features are counted when they are next used. */
static void
counted_elsewhere(void *arg, const char *text)
{
	struct check *c = arg;

	fault(c, NONE, "%s: %s", c->about, text);
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
		if (epd_is_stopped()) {
			rc = -EINTR;
		} else if ((rc = epd_run_verify(run, k)) == EPD_ECORRUPT) {
			fault(c, PAGES, "%s: run %016llx: page %u: %s", w->name,
			    (unsigned long long)id, k, epd_strerror(rc));
			rc = 0;
		} else if (rc < 0) {
			epd_why(c->why, rc, "%s: %s", w->name,
			    epd_strerror(rc));
		}
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
	struct epd_run_ids packs;
	uint64_t pages, below;
};

/* Pages that no run in memory has, and those of them that lie in nvme. */
static int
count_missing(void *arg, const struct epd_version *v)
{
	struct missing *m = arg;
	uint32_t done = 0;

	for (uint32_t i = 0; done < v->npages; i++) {
		const uint64_t run = epd_version_run(v, i);
		const uint32_t n = epd_version_pages(v, i);

		if (!epd_book_run(m->b, run)) {
			m->pages += n;
			m->below += epd_run_ids_has(&m->packs, run) ? n : 0;
		}
		done += n;
	}
	return 0;
}

/* Each run once, with the shape of a state that stands on it. */
static int
check_runs(struct check *c, struct epd_workflow *w)
{
	struct epd_book b = {0};
	struct missing m = { .b = &b };
	struct epd_outline o = {0};
	char *seen = NULL;
	int rc = epd_book_open(&b, w, NULL, c->why);

	if (rc == 0)
		rc = epd_packs_list(&m.packs, c->s, w->name);
	if (rc == 0 && !(seen = epd_calloc(b.nruns + 1, 1)))
		rc = -ENOMEM;
	while (rc == 0 && (rc = epd_shard_outline_next(w->shard, o.node,
	    &o)) == 0) {
		const struct epd_book_node *n = epd_book_find(&b, o.node);
		const struct epd_book_run *r = epd_book_run(&b, o.run);
		struct epd_state st;

		/* Some may have expired meanwhile. */
		if (!n || !n->states ||
		    (!o.nlinks && (!r || seen[r - b.run])) ||
		    epd_shard_state(w->shard, n->first, &st) < 0)
			continue;
		rc = check_node(c, w, &st, o.node, &b, seen);
	}
	if (rc == -ENOENT)
		rc = epd_needed_runs(w->shard, count_missing, &m);
	c->proof.missing += m.pages;
	c->proof.below += m.below;
	epd_run_ids_free(&m.packs);
	epd_free(seen);
	epd_book_close(&b);
	return rc;
}

/* What the tier below has of them; that it has less than it should is no fault. */
static int
check_packs(struct check *c, struct epd_workflow *w)
{
	char about[EPD_WORKFLOW + 2];
	const struct epd_teller t = { c->s, found, c, about };
	struct epd_packs_proof p = { .runs = 0 };
	struct epd_why why = {{0}};
	int rc;

	snprintf(about, sizeof about, "%s: ", w->name);
	rc = epd_packs_prove(&t, w, c->to->quick, &p, &why);
	c->proof.packs += p.runs;
	c->proof.packed += p.pages;
	c->proof.lost += p.lost;
	return rc < 0 ? epd_why(c->why, rc, "%s: nvme: %s", w->name,
	    *why.text ? why.text : epd_strerror(rc)) : 0;
}

/* What there is. */
static void
count_all(struct check *c, struct epd_shard *s)
{
	struct epd_state st = {0};
	struct epd_outline o = {0};
	struct epd_lease l = {0};
	struct epd_handoff h = {0};

	c->proof.records += epd_shard_lsn(s);
	for (; epd_shard_next(s, st.id, &st) == 0; c->proof.states++)
		c->proof.versions += st.versions;
	while (epd_shard_outline_next(s, o.node, &o) == 0)
		c->proof.nodes++;
	while (epd_shard_lease_next(s, l.id, &l) == 0)
		c->proof.leases++;
	while (epd_shard_handoff_next(s, h.lsn, &h) == 0)
		c->proof.handoffs++;
}

/* Something else than a file, or a folder, stands under a name of ours. */
static int
is_odd(int rc)
{
	return rc == -EISDIR || rc == -ENOTDIR || rc == -ELOOP ||
	    rc == -ESPIPE || rc == -ENXIO;
}

static int
check_workflow(void *arg, const char *workflow)
{
	struct check *c = arg;
	struct epd_workflow w;
	struct epd_why inner = {{0}};
	int rc;

	if (!c->all && !epd_is_workflow(c->s, workflow))
		return epd_why(c->why, EPD_ENOTHING, "%s: no such workflow",
		    workflow);
	rc = epd_workflow_open(&w, c->s, workflow, 1, &inner);
	c->about = workflow;
	if (rc == EPD_ENOTHING && c->all)
		return 0;
	if (rc == EPD_ECORRUPT || rc == EPD_EKIND || is_odd(rc)) {
		fault(c, BOOKS, "%s", inner.text);
		return 0;
	}
	if (rc < 0)
		return epd_why(c->why, rc, "%s", inner.text);
	rc = epd_shard_check(w.shard, counted_elsewhere, c, c->why);
	if (rc >= 0)
		rc = 0;
	count_all(c, w.shard);
	if (rc == 0)
		rc = epd_names_check(&w, not_named, c);
	if (rc == 0)
		rc = check_runs(c, &w);
	if (rc == 0)
		rc = check_packs(c, &w);
	if (rc == 0 && (rc = epd_litter_of_workflow(c->s, &w, !c->all, found,
	    c)) < 0)
		epd_why(c->why, rc, "%s: %s", workflow, epd_strerror(rc));
	epd_workflow_close(&w);
	return rc;
}

static int
check_rest(struct check *c)
{
	int rc;

	c->about = "features";
	rc = epd_feature_check(c->s->features, counted_elsewhere, c);
	/* A folder of it that is none is told of with what lies about. */
	if (rc < 0 && !is_odd(rc))
		return epd_why(c->why, rc, "features: %s", epd_strerror(rc));
	rc = epd_litter_of_store(c->s, found, c);
	return rc < 0 ? epd_why(c->why, rc, "%s: %s", c->s->path,
	    epd_strerror(rc)) : 0;
}

int
epd_flow_prove(struct epd_store *s, const char *workflow,
    const struct epd_findings *f, struct epd_proof *proof,
    struct epd_why *why)
{
	struct check c = { .s = s, .to = f, .why = why,
	    .about = "features", .all = *workflow == '\0' };
	int rc;

	if (proof)
		c.proof = *proof;
	rc = c.all ? epd_workflow_each(s, check_workflow, &c) :
	    check_workflow(&c, workflow);
	if (rc == 0 && c.all)
		rc = check_rest(&c);
	if (proof)
		*proof = c.proof;
	return rc < 0 ? rc : c.faults;
}

int
epd_flow_check(struct epd_store *s, const char *workflow,
    void (*fn)(void *arg, const char *text), void *arg, struct epd_why *why)
{
	const struct epd_findings f = { .fault = fn, .arg = arg };

	return epd_flow_prove(s, workflow, &f, NULL, why);
}
