/*
 * watch.c - a workflow held open.
 *
 *  1. The book is counted when first asked for, and again once the log has gone on or
 *     the folder of runs has changed.
 *  2. That folder's time of change tells, but for what changes within a tick of
 *     the kernel's clock: a book counted so soon after the last change is not kept.
 *  3. The run looked at last stays mapped while nothing changes: its pages are
 *     asked for one after another, and each time anew its whole table was read.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/look.h"
#include "flow/packs.h"
#include "flow/runs.h"

enum { TICK_MS = 50 };		/* more than any kernel's */

/* A run that is mapped, for the pages from `from` on of a node. */
struct mapped {
	struct epd_run *run;
	uint64_t node, bytes;		/* a page's */
	uint32_t from, n;
	unsigned uses;			/* pins, and the watch; atomic: pins go anywhere */
};

struct epd_pin {
	struct mapped *in;
	struct epd_span page;
};

struct epd_watch {
	struct epd_store *s;
	struct epd_workflow w;
	struct epd_book book;
	int booked;
	int paths;		/* of the book, found: many are looked at */
	uint32_t weighed;	/* states looked at since it was counted */
	struct timespec changed; /* the folder of runs, when it was counted */
	struct mapped *last;	/* or NULL */
	struct epd_run_ids packs;	/* as they were listed last */
};

int
epd_watch_open(struct epd_watch **out, struct epd_store *s,
    const char *workflow, struct epd_why *why)
{
	struct epd_watch *w = epd_calloc(1, sizeof *w);
	int rc;

	if (!w)
		return epd_why(why, -ENOMEM, "no memory");
	w->s = s;
	if ((rc = epd_workflow_open(&w->w, s, workflow, 1, why)) < 0) {
		epd_free(w);
		return rc;
	}
	*out = w;
	return 0;
}

static void
let_go(struct mapped *m)
{
	if (!m || __atomic_sub_fetch(&m->uses, 1, __ATOMIC_ACQ_REL))
		return;
	epd_run_close(m->run);
	epd_free(m);
}

static void
forget(struct epd_watch *w)
{
	let_go(w->last);
	w->last = NULL;
	epd_book_close(&w->book);
	w->booked = w->paths = 0;
	w->weighed = 0;
}

void
epd_watch_close(struct epd_watch *w)
{
	if (!w)
		return;
	forget(w);
	epd_run_ids_free(&w->packs);
	epd_workflow_close(&w->w);
	epd_free(w);
}

/* Whether what changed then may have changed again since, unseen. */
static int
is_fresh(const struct timespec *t)
{
	return (int64_t)epd_clock_wall_ms() - (int64_t)t->tv_sec * 1000 -
	    t->tv_nsec / 1000000 < TICK_MS;
}

/* When the folder of runs changed last; zero if there is none. */
static struct timespec
runs_changed(struct epd_watch *w)
{
	struct timespec none = {0};
	struct stat st;

	if (w->w.runs >= 0 && fstat(w->w.runs, &st) == 0 && st.st_nlink)
		return st.st_mtim;
	if (w->w.runs >= 0)
		close(w->w.runs);
	if ((w->w.runs = epd_memory_find(w->s->memory, w->w.name)) < 0)
		w->w.runs = -1;
	return w->w.runs >= 0 && fstat(w->w.runs, &st) == 0 ? st.st_mtim :
	    none;
}

int
epd_watch_on(struct epd_watch *w, struct epd_why *why)
{
	const uint64_t had = epd_shard_lsn(w->w.shard);
	struct timespec t;
	struct stat st;
	int rc, news;

	if (fstat(w->w.dirfd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return epd_why(why, EPD_ENOTHING, "%s: no such workflow",
		    w->w.name);
	if ((rc = epd_shard_catch_up(w->w.shard, why)) < 0)
		return rc;
	news = epd_shard_lsn(w->w.shard) != had;
	t = runs_changed(w);
	if (w->booked && (t.tv_sec != w->changed.tv_sec ||
	    t.tv_nsec != w->changed.tv_nsec))
		news = 1;
	if (news || is_fresh(&w->changed))
		forget(w);
	return news;
}

struct epd_shard *
epd_watch_shard(struct epd_watch *w)
{
	return w->w.shard;
}

int
epd_watch_runs(const struct epd_watch *w)
{
	return w->w.runs;
}

struct epd_store *
epd_watch_store(const struct epd_watch *w)
{
	return w->s;
}

const struct epd_workflow *
epd_watch_workflow(const struct epd_watch *w)
{
	return &w->w;
}

int
epd_watch_book(struct epd_watch *w, const struct epd_book **out,
    struct epd_why *why)
{
	struct epd_names names = { .memory = w->s->memory };
	int rc = 0;

	if (!w->booked) {
		w->changed = runs_changed(w);
		rc = epd_book_open(&w->book, &w->w, &names, why);
		epd_names_free(&names);
		w->booked = rc == 0;
	}
	if (rc == 0 && w->weighed++ == 1 && !w->paths) {
		rc = epd_book_paths(&w->book, w->w.shard);
		w->paths = rc == 0;
	}
	if (rc == 0)
		*out = &w->book;
	return rc;
}

/* Nobody tells when that changes, so it is listed each time. */
int
epd_watch_packs(struct epd_watch *w, const struct epd_run_ids **out)
{
	int rc;

	epd_run_ids_free(&w->packs);
	rc = epd_packs_list(&w->packs, w->s, w->w.name);
	if (rc == 0)
		*out = &w->packs;
	return rc;
}

int
epd_watch_tokens(struct epd_watch *w, uint32_t state, uint32_t version,
    int32_t **ids, uint64_t *n, struct epd_why *why)
{
	struct epd_shard *s = w->w.shard;
	struct epd_chain c = {0};
	struct epd_version v = {0};
	struct epd_glance g;
	int32_t *out = NULL;
	uint64_t count = 0, most = 0;
	int rc = epd_chain_of(&c, s, state, version);

	/* Summed from the bodies: the index's counts are not yet proven. */
	for (size_t i = 0; rc == 0 && i < c.n; i++)
		if ((rc = epd_shard_glance(s, c.node[i], &g)) == 0)
			most += g.nids;
	if (rc == 0 && !(out = epd_calloc(most + 1, sizeof *out)))
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < c.n; i++)
		if ((rc = epd_shard_node(s, c.node[i], &v)) == 0) {
			memcpy(out + count, v.ids, v.nids * sizeof *out);
			count += v.nids;
		}
	epd_chain_free(&c);
	if (rc < 0) {
		epd_free(out);
		return epd_look_fail(w->w.name, state, version, rc, why);
	}
	*ids = out;
	*n = count;
	return 0;
}

/* ---- pages ---- */

struct teller {
	const struct epd_book *book;
	int (*fn)(void *arg, const struct epd_page_sight *p);
	void *arg;
};

static int
tell(const struct teller *t, const struct epd_state *st,
    const struct epd_version *v, uint32_t k, uint64_t run)
{
	const struct epd_book_node *b = epd_book_find(t->book, v->node);
	const struct epd_page_sight p = {
		.ref = v->pages + k, .node = v->node, .run = run,
		.bytes = st->page_bytes, .wall_ms = v->wall_ms, .k = k,
		.page_tokens = st->page_tokens,
		.kv_dtype = epd_look_dtype(st),
		.states = b ? b->states : 0, .leases = b ? b->leases : 0,
		.in_memory = epd_book_run(t->book, run) != NULL,
	};

	return t->fn(t->arg, &p);
}

int
epd_watch_table(struct epd_watch *w, uint32_t state, uint32_t version,
    int (*fn)(void *arg, const struct epd_page_sight *p), void *arg,
    struct epd_why *why)
{
	struct teller t = { .fn = fn, .arg = arg };
	struct epd_page_row *row = NULL;
	struct epd_state st;
	struct epd_version v = {0};
	uint64_t n = 0, head;
	int rc = epd_shard_state(w->w.shard, state, &st);

	if (rc == 0)
		rc = epd_watch_book(w, &t.book, why);
	if (rc == 0)
		rc = epd_shard_holds(w->w.shard, state, version, &head);
	if (rc == 0)
		rc = epd_book_pages(w->w.shard, head, &row, &n);
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		if (v.node != row[i].node)
			rc = epd_shard_node(w->w.shard, row[i].node, &v);
		if (rc == 0)
			rc = tell(&t, &st, &v, (uint32_t)(i - v.first_page),
			    row[i].run);
	}
	epd_free(row);
	return rc < 0 ? epd_look_fail(w->w.name, state, version, rc, why) : rc;
}

/* Whom a node belongs to tells the shape of its pages. */
static int
state_on(struct epd_watch *w, uint64_t node, struct epd_state *st,
    struct epd_why *why)
{
	const struct epd_book *book;
	const struct epd_book_node *b;
	int rc = epd_watch_book(w, &book, why);

	if (rc < 0)
		return rc;
	b = epd_book_find(book, node);
	return b && b->states ? epd_shard_state(w->w.shard, b->first, st) :
	    EPD_ENOSTATE;
}

int
epd_watch_pages(struct epd_watch *w,
    int (*fn)(void *arg, const struct epd_page_sight *p), void *arg,
    struct epd_why *why)
{
	struct teller t = { .fn = fn, .arg = arg };
	struct epd_outline o = {0};
	int rc = epd_watch_book(w, &t.book, why);

	while (rc == 0 &&
	    (rc = epd_shard_outline_next(w->w.shard, o.node, &o)) == 0) {
		struct epd_version v;
		struct epd_state st;

		if (!o.run && !o.nlinks)
			continue;
		rc = state_on(w, o.node, &st, why);
		if (rc == EPD_ENOSTATE) {	/* only held, or over by now */
			rc = 0;
			continue;
		}
		if (rc == 0)
			rc = epd_shard_node(w->w.shard, o.node, &v);
		for (uint32_t k = 0; rc == 0 && k < v.npages; k++)
			rc = tell(&t, &st, &v, k, epd_version_where(&v, k));
	}
	return rc == -ENOENT ? 0 : rc;
}

/* Map the run that has the kth page of v, as v lists it. */
static int
map(struct epd_watch *w, const struct epd_state *st,
    const struct epd_version *v, uint32_t k, struct mapped *m,
    struct epd_why *why)
{
	const struct epd_run_shape shape = {
		.kind = EPD_OBJECT_KV_PAGE, .type = st->kv_type,
		.tokens = st->page_tokens, .bytes = st->page_bytes,
	};
	struct epd_page_entry *e = epd_version_entries(v);
	uint32_t i = 0;
	int rc;

	if (!e)
		return -ENOMEM;
	while (k >= m->from + epd_version_pages(v, i))
		m->from += epd_version_pages(v, i++);
	m->n = epd_version_pages(v, i);
	m->node = v->node;
	m->bytes = st->page_bytes;
	rc = w->w.runs < 0 ? -ENOENT : epd_run_look(&m->run, w->w.runs,
	    epd_version_run(v, i), &shape, e + m->from, m->n, why);
	epd_free(e);
	return rc;
}

/* w->last becomes what has the node's kth page. */
static int
find(struct epd_watch *w, uint64_t node, uint32_t k, struct epd_why *why)
{
	struct mapped *m = w->last;
	struct epd_version v;
	struct epd_state st;
	int rc;

	if (m && m->node == node && k >= m->from && k - m->from < m->n)
		return 0;
	if ((rc = state_on(w, node, &st, why)) == 0)
		rc = epd_shard_node(w->w.shard, node, &v);
	if (rc == EPD_ENOSTATE || rc == -ENOENT || (rc == 0 && k >= v.npages))
		return epd_why(why, EPD_ENOTHING, "%s: no such page",
		    w->w.name);
	if (rc < 0 || !(m = epd_calloc(1, sizeof *m)))
		return rc < 0 ? rc : -ENOMEM;
	m->uses = 1;
	if ((rc = map(w, &st, &v, k, m, why)) < 0) {
		let_go(m);
		return rc == -ENOENT ? epd_why(why, -ENODATA, "the page is in "
		    "no tier; what computes on its state makes it again") : rc;
	}
	let_go(w->last);
	w->last = m;
	return 0;
}

int
epd_watch_pin(struct epd_watch *w, uint64_t node, uint32_t k,
    struct epd_pin **out, struct epd_why *why)
{
	struct epd_pin *p;
	int rc = find(w, node, k, why);

	if (rc == 0)
		rc = epd_run_verify(w->last->run, k - w->last->from);
	if (rc < 0)
		return rc;
	if (!(p = epd_calloc(1, sizeof *p)))
		return -ENOMEM;
	p->in = w->last;
	__atomic_add_fetch(&p->in->uses, 1, __ATOMIC_RELAXED);
	p->page = epd_span(epd_run_page(p->in->run, k - p->in->from),
	    p->in->bytes);
	*out = p;
	return 0;
}

struct epd_span
epd_pin_bytes(const struct epd_pin *p)
{
	return p->page;
}

void
epd_pin_free(struct epd_pin *p)
{
	if (!p)
		return;
	let_go(p->in);
	epd_free(p);
}
