/*
 * names.c - the tree of nodes is walked once, children behind their parents, with
 * the sequence of where the walk stands in hand: entering a node adds what it
 * has, leaving it takes that back.  A node that a thousand states stand on is
 * looked at once, told by the first of them.
 *
 * States of one tree may differ in what decides a name only if somebody wrote
 * that into their file; each kind has a walk of its own, over its paths.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/names.h"
#include "page/page.h"

enum { NOBODY = UINT32_MAX };

/* 1 + an index of node, 0: none. */
struct node {
	uint64_t id;
	uint32_t up, child, next;
	uint32_t kind;		/* of the walk it was last marked for */
	uint32_t who;		/* the first state of that kind on it */
	int head;		/* one of them ends on it */
};

struct picture {
	uint64_t at, n;
	struct epd_name fp;
};

struct row {
	struct epd_name name;
	uint32_t rows;
};

/* A row that a node wrote over. */
struct undo {
	size_t at;
	struct row row;
};

/* What was there when the walk came to a node, and which child is next. */
struct frame {
	uint32_t down;
	size_t ids, pictures, rows, undos;
};

/* An array that grows. */
struct list {
	void *v;
	size_t n, cap;
};

struct walk {
	struct epd_workflow *w;
	void (*fn)(void *arg, const char *fault);
	void *arg;
	struct list nodes, stack;
	struct list ids, pictures, rows, undos;	/* of where it stands */
	struct epd_state st;		/* of the kind */
	uint64_t merge;
};

/* Room for `more`, and where they go. */
static void *
grow(struct list *l, size_t more, size_t size)
{
	size_t cap = l->cap;
	void *p = l->v;

	if (more > cap - l->n) {
		cap = l->n + more > 2 * cap ? l->n + more : 2 * cap;
		if (!(p = epd_realloc(p, cap * size)))
			return NULL;
		l->v = p;
		l->cap = cap;
	}
	return (char *)p + l->n * size;
}

static struct node *
at(const struct walk *k, uint32_t i)
{
	return (struct node *)k->nodes.v + i - 1;
}

static void fault(const struct walk *k, const struct node *n, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

static void
fault(const struct walk *k, const struct node *n, const char *fmt, ...)
{
	char text[160], line[256], ref[EPD_REF_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(line, sizeof line, "%s: %s", epd_ref_format(ref, k->w->name,
	    n->who, 0), text);
	k->fn(k->arg, line);
}

/* ---- the tree ---- */

static int
by_id(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* 0: there is none. */
static uint32_t
find(const struct walk *k, uint64_t id)
{
	const struct node key = { .id = id }, *n = k->nodes.n ? bsearch(&key,
	    k->nodes.v, k->nodes.n, sizeof key, by_id) : NULL;

	return n ? (uint32_t)(n - (struct node *)k->nodes.v) + 1 : 0;
}

static int
gather(struct walk *k)
{
	struct epd_outline o = {0};
	int rc;

	while ((rc = epd_shard_outline_next(k->w->shard, o.node, &o)) == 0) {
		struct node *n = grow(&k->nodes, 1, sizeof *n);

		if (!n || k->nodes.n == NOBODY)
			return -ENOMEM;
		/* Parents have the lower ids. */
		*n = (struct node){ .id = o.node, .up = find(k, o.parent) };
		k->nodes.n++;
	}
	/* From the last, so that children ascend. */
	for (uint32_t i = (uint32_t)k->nodes.n; i > 0; i--)
		if (at(k, i)->up) {
			at(k, i)->next = at(k, at(k, i)->up)->child;
			at(k, at(k, i)->up)->child = i;
		}
	return rc == -ENOENT ? 0 : rc;
}

/* ---- kinds ---- */

uint64_t
epd_names_merge(const struct epd_state *st)
{
	struct epd_json *j = NULL;
	int64_t merge = 2;

	if (st->fingerprint && epd_json_parse(&j,
	    epd_span_str(st->fingerprint), "fingerprint", NULL) == 0)
		merge = epd_json_int(epd_json_get(j, "merge"), 2);
	epd_json_free(j);
	return merge < 1 || merge > 64 ? 2 : (uint64_t)merge;
}

uint64_t
epd_names_tokens(const struct epd_image_ref *r, uint64_t merge)
{
	enum { SIDE = 1 << 16 };

	return r->grid[0] > SIDE || r->grid[1] > SIDE || r->grid[2] > SIDE ? 0 :
	    (uint64_t)r->grid[0] * (r->grid[1] / merge) * (r->grid[2] / merge);
}

size_t
epd_names_shown(const struct epd_version *v, uint64_t merge, uint64_t from,
    uint32_t rows, uint32_t *first, struct epd_page_image *out)
{
	const struct epd_image_ref *r = v->images;
	size_t n = 0;

	while (*first < v->nimages && r[*first].at +
	    epd_names_tokens(r + *first, merge) <= from)
		++*first;
	for (uint32_t i = *first; i < v->nimages && r[i].at < from + rows; i++)
		out[n++] = (struct epd_page_image){
			.at = (int64_t)(r[i].at - from), .fp = r[i].fp,
		};
	return n;
}

long
epd_names_place(const struct epd_run *run, const struct epd_name *name,
    long hint)
{
	const struct epd_page_entry *e = epd_run_entries(run);
	const long n = epd_run_count(run);
	const long from = hint > 0 && hint < n ? hint : 0;

	for (long i = 0; i < n; i++)
		if (epd_name_equal(&e[(from + i) % n].name, name))
			return (from + i) % n;
	return -ENOENT;
}

static int
is_alike(const struct epd_state *a, const struct epd_state *b)
{
	return a->page_tokens == b->page_tokens &&
	    epd_name_equal(&a->base, &b->base) &&
	    !strcmp(a->fingerprint ? a->fingerprint : "",
	    b->fingerprint ? b->fingerprint : "");
}

/* Its path, as far as no other of the kind has it. */
static void
mark(struct walk *k, uint32_t node, uint32_t kind, uint32_t state)
{
	struct node *n = at(k, node);

	n->head = n->kind == kind ? n->head | 1 : 1;
	for (int head = n->head; node; node = n->up, head = 0) {
		n = at(k, node);
		if (n->kind == kind)
			return;
		n->kind = kind;
		n->who = state;
		n->head = head;
	}
}

/* ---- where the walk stands ---- */

static void
leave(struct walk *k)
{
	const struct frame *f = (struct frame *)k->stack.v + --k->stack.n;
	const struct undo *u;

	k->ids.n = f->ids;
	k->pictures.n = f->pictures;
	while (k->undos.n > f->undos) {
		u = (struct undo *)k->undos.v + --k->undos.n;
		((struct row *)k->rows.v)[u->at] = u->row;
	}
	k->rows.n = f->rows;
}

static int
add_ids(struct walk *k, const struct epd_version *v)
{
	int32_t *p;

	if (v->start != k->ids.n)
		return EPD_ECORRUPT;
	if (!(p = grow(&k->ids, v->nids, sizeof *p)))
		return v->nids ? -ENOMEM : 0;
	memcpy(p, v->ids, v->nids * sizeof *p);
	k->ids.n += v->nids;
	return 0;
}

static int
add_pictures(struct walk *k, const struct node *n, const struct epd_version *v)
{
	struct picture *p, *all;

	for (uint32_t i = 0; i < v->nimages; i++) {
		const struct epd_image_ref *r = v->images + i;
		const size_t nth = k->pictures.n;

		if (!(p = grow(&k->pictures, 1, sizeof *p)))
			return -ENOMEM;
		all = k->pictures.v;
		*p = (struct picture){
			.at = r->at, .fp = r->fp, .n = (uint64_t)r->grid[0] *
			    (r->grid[1] / k->merge) * (r->grid[2] / k->merge),
		};
		k->pictures.n++;
		if (!p->n || p->n > INT64_MAX || p->at > INT64_MAX ||
		    (nth && p->at < all[nth - 1].at + all[nth - 1].n))
			fault(k, n, "image %zu lies outside its place", nth);
	}
	return 0;
}

static int
add_rows(struct walk *k, const struct epd_version *v)
{
	struct row *all;
	struct undo *u;

	if (!v->npages)
		return 0;
	if (v->first_page > k->rows.n)
		return EPD_ECORRUPT;
	if (!grow(&k->rows, v->npages, sizeof *all) ||
	    !grow(&k->undos, v->npages, sizeof *u))
		return -ENOMEM;
	all = k->rows.v;
	for (uint32_t i = 0; i < v->npages; i++) {
		const size_t to = (size_t)v->first_page + i;

		if (to < k->rows.n)
			((struct undo *)k->undos.v)[k->undos.n++] =
			    (struct undo){ to, all[to] };
		else
			k->rows.n++;
		all[to] = (struct row){ v->pages[i].name, v->pages[i].rows };
	}
	return 0;
}

/* ---- what is looked at ---- */

/* The name page i ought to have. */
static int
name(const struct walk *k, size_t i, struct epd_name *out)
{
	const struct row *row = k->rows.v;
	const uint64_t from = i * k->st.page_tokens;
	const struct picture *p = k->pictures.v;
	struct epd_page_image *im;
	size_t first = k->pictures.n, n = 0;

	/* They ascend, or that has been told. */
	while (first && p[first - 1].at + p[first - 1].n > from)
		first--;
	if (!(im = epd_calloc(k->pictures.n - first + 1, sizeof *im)))
		return -ENOMEM;
	for (; first < k->pictures.n && p[first].at < from + row[i].rows;
	    first++)
		im[n++] = (struct epd_page_image){
			.at = (int64_t)(p[first].at - from),
			.fp = p[first].fp,
		};
	epd_page_name(out, i ? &row[i - 1].name : &k->st.base,
	    (int32_t *)k->ids.v + from, row[i].rows, im, n);
	epd_free(im);
	return 0;
}

/* What the node wrote, and what is chained to that. */
static int
check_rows(const struct walk *k, const struct node *n,
    const struct epd_version *v)
{
	const struct row *row = k->rows.v;
	const uint64_t t = k->st.page_tokens;
	struct epd_name want;
	int rc;

	if (!v->npages)
		return 0;
	for (size_t i = v->first_page ? v->first_page - 1 : 0; i < k->rows.n;
	    i++) {
		if (row[i].rows == 0 || row[i].rows > t ||
		    (i + 1 < k->rows.n && row[i].rows != t) ||
		    i * t + row[i].rows > k->ids.n) {
			fault(k, n, "page %zu has %u rows", i, row[i].rows);
			return 0;
		}
		if (i < v->first_page)
			continue;
		if ((rc = name(k, i, &want)) < 0)
			return rc;
		if (!epd_name_equal(&want, &row[i].name)) {
			fault(k, n, "page %zu is not named by its tokens", i);
			return 0;
		}
	}
	return 0;
}

/* Where a state ends nothing may reach further. */
static void
check_end(const struct walk *k, const struct node *n)
{
	const struct picture *p = k->pictures.n ? (struct picture *)
	    k->pictures.v + k->pictures.n - 1 : NULL;

	if (p && (p->n > k->ids.n || p->at > k->ids.n - p->n))
		fault(k, n, "image %zu lies outside its place",
		    k->pictures.n - 1);
}

static int
add(struct walk *k, const struct node *n, struct epd_version *v)
{
	int rc = epd_shard_node(k->w->shard, n->id, v);

	if (rc == 0)
		rc = add_ids(k, v);
	if (rc == 0)
		rc = add_pictures(k, n, v);
	return rc ? rc : add_rows(k, v);
}

static int
enter(struct walk *k, uint32_t node)
{
	const struct node *n = at(k, node);
	struct frame *f = grow(&k->stack, 1, sizeof *f);
	struct epd_version v;
	int rc;

	if (!f)
		return -ENOMEM;
	*f = (struct frame){
		n->child, k->ids.n, k->pictures.n, k->rows.n, k->undos.n,
	};
	k->stack.n++;
	rc = add(k, n, &v);
	if (rc == EPD_ECORRUPT) {
		fault(k, n, "its versions do not follow one another");
		f->down = 0;
		return 0;
	}
	if (rc == 0)
		rc = check_rows(k, n, &v);
	if (rc == 0 && n->head)
		check_end(k, n);
	return rc;
}

/* A root, and what of the kind is below it. */
static int
go(struct walk *k, uint32_t root, uint32_t kind)
{
	int rc = enter(k, root);

	while (rc == 0 && k->stack.n) {
		struct frame *f = (struct frame *)k->stack.v + k->stack.n - 1;
		uint32_t down = f->down;

		while (down && at(k, down)->kind != kind)
			down = at(k, down)->next;
		if (!down) {
			leave(k);
			continue;
		}
		f->down = at(k, down)->next;
		rc = enter(k, down);
	}
	while (k->stack.n)
		leave(k);
	return rc;
}

/* All states like one, from it on. */
static int
go_kind(struct walk *k, uint32_t first, uint32_t kind)
{
	struct epd_state st;
	uint32_t after = first - 1, i;
	uint64_t node;
	int rc;

	while ((rc = epd_shard_next(k->w->shard, after, &st)) == 0) {
		after = st.id;
		if (!is_alike(&st, &k->st) || epd_shard_holds(k->w->shard,
		    st.id, 0, &node) < 0)
			continue;
		if ((i = find(k, node)) != 0)
			mark(k, i, kind, st.id);
	}
	rc = rc == EPD_ENOSTATE ? 0 : rc;
	for (i = 1; rc == 0 && i <= k->nodes.n; i++)
		if (at(k, i)->kind == kind && !at(k, i)->up)
			rc = go(k, i, kind);
	return rc;
}

int
epd_names_check(struct epd_workflow *w,
    void (*fn)(void *arg, const char *fault), void *arg)
{
	struct walk k = { .w = w, .fn = fn, .arg = arg };
	struct list seen = {0};		/* one state of each kind */
	struct epd_state st, *kinds;
	uint32_t after = 0;
	int rc = gather(&k);

	while (rc == 0 && (rc = epd_shard_next(w->shard, after, &st)) == 0) {
		size_t i = 0;

		after = st.id;
		for (kinds = seen.v; i < seen.n && !is_alike(&kinds[i], &st);)
			i++;
		if (i < seen.n)
			continue;
		if (!(kinds = grow(&seen, 1, sizeof *kinds))) {
			rc = -ENOMEM;
			break;
		}
		*kinds = k.st = st;
		k.merge = epd_names_merge(&st);
		rc = go_kind(&k, st.id, (uint32_t)++seen.n);
	}
	epd_free(seen.v);
	epd_free(k.nodes.v);
	epd_free(k.stack.v);
	epd_free(k.ids.v);
	epd_free(k.pictures.v);
	epd_free(k.rows.v);
	epd_free(k.undos.v);
	return rc == EPD_ENOSTATE ? 0 : rc;
}
