/* view.c - lists of states, their tokens, and workflows drawn as trees. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/look.h"
#include "flow/packs.h"

/* A workflow as its states are told; what lies on the disk is listed when one misses it. */
struct telling {
	struct epd_workflow w;
	struct epd_book b;
	struct epd_run_ids packs;
	int listed;
};

static int
below(struct telling *t, struct epd_store *s, uint32_t state, uint64_t *out)
{
	uint64_t node;
	int rc = t->listed ? 0 : epd_packs_list(&t->packs, s, t->w.name);

	t->listed = 1;
	if (rc < 0 || !t->packs.n)
		return rc;
	rc = epd_shard_holds(t->w.shard, state, 0, &node);
	return rc < 0 ? rc : epd_packs_count(t->w.shard, &t->b, &t->packs,
	    node, out);
}

static int
line_of(struct telling *t, struct epd_store *s, const struct epd_state *st,
    struct epd_state_line *l)
{
	struct epd_weight x;
	int rc = epd_book_weigh(&t->b, t->w.shard, st->id, 0, &x);

	if (rc < 0)
		return rc;
	epd_book_line(l, &t->w, st, &x);
	return l->missing ? below(t, s, st->id, &l->below) : 0;
}

struct lister {
	struct epd_store *s;
	struct epd_names names;
	int (*fn)(void *arg, const struct epd_state_line *l);
	void *arg;
	struct epd_why *why;
	int all;		/* of the store: one that is damaged hides no other */
	int failed;		/* rc of the first such */
	uint32_t unreadable;
};

static int
states_of(void *arg, const char *name)
{
	struct lister *l = arg;
	struct telling t = { .listed = 0 };
	struct epd_state st;
	uint32_t after = 0;
	int rc = epd_workflow_open(&t.w, l->s, name, 1, l->why);

	/* One that has been made and not yet written to is no fault in a list. */
	if (rc < 0)
		return rc == EPD_ENOTHING && l->all ? 0 : rc;
	rc = epd_book_open(&t.b, &t.w, &l->names, l->why);
	if (rc == 0)
		rc = epd_book_paths(&t.b, t.w.shard);
	while (rc == 0 && (rc = epd_shard_next(t.w.shard, after, &st)) == 0) {
		struct epd_state_line line;

		after = st.id;
		rc = line_of(&t, l->s, &st, &line);
		if (rc == EPD_ENOSTATE)		/* expired meanwhile */
			rc = 0;
		else if (rc < 0)
			epd_why(l->why, rc, "%s/s%u: %s", name, st.id,
			    epd_strerror(rc));
		else
			rc = l->fn(l->arg, &line);
	}
	epd_run_ids_free(&t.packs);
	epd_book_close(&t.b);
	epd_workflow_close(&t.w);
	return rc == EPD_ENOSTATE ? 0 : rc;
}

/* A nonzero return of fn still ends the walk. */
static int
states_of_each(void *arg, const char *name)
{
	struct lister *l = arg;
	struct epd_why *why = l->why;
	int rc;

	if (l->failed)
		l->why = NULL;
	rc = states_of(l, name);
	l->why = why;
	if (rc >= 0 || rc == -ENOMEM)
		return rc;
	if (!l->failed)
		l->failed = rc;
	l->unreadable++;
	return 0;
}

int
epd_view_all(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_state_line *l), void *arg,
    uint32_t *unreadable, struct epd_why *why)
{
	struct lister l = {
		.s = s, .names.memory = s->memory, .fn = fn, .arg = arg,
		.why = why, .all = 1,
	};
	int rc = epd_workflow_each(s, states_of_each, &l);

	epd_names_free(&l.names);
	*unreadable = l.unreadable;
	return rc ? rc : l.failed;
}

int
epd_view_states(struct epd_store *s, const char *workflow,
    int (*fn)(void *arg, const struct epd_state_line *l), void *arg,
    struct epd_why *why)
{
	struct lister l = {
		.s = s, .names.memory = s->memory, .fn = fn, .arg = arg,
		.why = why,
	};
	uint32_t unreadable;
	int rc;

	if (!workflow)
		return epd_view_all(s, fn, arg, &unreadable, why);
	rc = states_of(&l, workflow);
	epd_names_free(&l.names);
	return rc;
}

int
epd_view_tokens(struct epd_store *s, const struct epd_ref *ref, int32_t **ids,
    uint64_t *n, struct epd_why *why)
{
	struct epd_watch *w;
	int rc = epd_watch_open(&w, s, ref->workflow, why);

	if (rc == 0) {
		rc = epd_watch_tokens(w, ref->state, ref->version, ids, n,
		    why);
		epd_watch_close(w);
	}
	return rc;
}

int
epd_flow_model_of(struct epd_store *s, const struct epd_ref *ref,
    char **path, struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_state st;
	char *copy;
	int rc = epd_workflow_open(&w, s, ref->workflow, 1, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_state(w.shard, ref->state, &st);
	if (rc < 0) {
		epd_look_fail(w.name, ref->state, ref->version, rc, why);
	} else if (!(copy = epd_strdup(st.model_path))) {
		rc = epd_why(why, -ENOMEM, "no memory");
	} else {
		*path = copy;
	}
	epd_workflow_close(&w);
	return rc;
}

/* ---- the tree ---- */

enum { DEEPEST = 64 };		/* levels that are drawn as such */

struct forest {
	struct epd_state_line *v;	/* ascending by state */
	struct branch {
		long parent;		/* index of each one's, or -1 */
		long child, next;	/* the first from it, and beside it */
	} *at;
	long root;
	size_t n, cap;
	struct epd_buf *out;
};

static int
plant(void *arg, const struct epd_state_line *l)
{
	struct forest *f = arg;
	void *p = epd_grow(f->v, f->n, &f->cap, sizeof *f->v);

	if (!p)
		return -ENOMEM;
	f->v = p;
	f->v[f->n] = *l;
	f->v[f->n].tier = f->v[f->n].tool = NULL;
	f->v[f->n++].workflow = NULL;
	return 0;
}

static int
by_state(const void *a, const void *b)
{
	const struct epd_state_line *x = a, *y = b;

	return (x->state > y->state) - (x->state < y->state);
}

/* Who begins from whom; each one's branches ascend. */
static int
find_parents(struct forest *f)
{
	if (!(f->at = epd_calloc(f->n + 1, sizeof *f->at)))
		return -ENOMEM;
	f->root = -1;
	for (size_t i = 0; i < f->n; i++)
		f->at[i].child = -1;
	for (size_t i = f->n; i-- > 0;) {
		struct epd_state_line key = { .state = f->v[i].parent_state };
		const struct epd_state_line *p = key.state ? bsearch(&key, f->v,
		    f->n, sizeof key, by_state) : NULL;
		long *first = p ? &f->at[p - f->v].child : &f->root;

		f->at[i].parent = p ? p - f->v : -1;
		f->at[i].next = *first;
		*first = (long)i;
	}
	return 0;
}

static void
label(struct forest *f, size_t i)
{
	const struct epd_state_line *l = f->v + i;
	struct epd_buf *b = f->out;

	epd_buf_fmt(b, "s%u@%u %s, %llu tokens", l->state, l->versions,
	    l->status, (unsigned long long)l->tokens);
	if (l->images)
		epd_buf_fmt(b, ", %u image%s", l->images,
		    l->images == 1 ? "" : "s");
	if (l->missing)
		epd_buf_fmt(b, ", %llu of %llu pages not in memory",
		    (unsigned long long)l->missing,
		    (unsigned long long)l->pages);
	if (l->below)
		epd_buf_fmt(b, ", %llu of those in nvme",
		    (unsigned long long)l->below);
	if (l->parent_state)
		epd_buf_fmt(b, ", from s%u@%u%s", l->parent_state,
		    l->parent_version, f->at[i].parent < 0 ? " (released)" : "");
	epd_buf_str(b, "\n");
}

/*
 * All, each beneath what leads to it; last says of each level whether its branch
 * was the last one.  Below the deepest that is drawn all stand on that level, and
 * their labels tell what they are from.
 */
static void
branches(struct forest *f)
{
	char last[DEEPEST];
	size_t depth = 0;
	long i = f->root;

	while (i >= 0) {
		const struct branch *b = f->at + i;
		const size_t level = depth < DEEPEST ? depth : DEEPEST - 1;

		for (size_t k = 0; k < level; k++)
			epd_buf_str(f->out, last[k] ? "    " : "|   ");
		last[level] = b->next < 0;
		epd_buf_str(f->out, last[level] ? "`-- " : "|-- ");
		label(f, (size_t)i);
		if (b->child >= 0) {
			i = b->child;
			depth++;
			continue;
		}
		while (i >= 0 && f->at[i].next < 0) {
			i = f->at[i].parent;
			depth--;
		}
		if (i >= 0)
			i = f->at[i].next;
	}
}

int
epd_view_tree(struct epd_store *s, const char *workflow, struct epd_buf *out,
    struct epd_why *why)
{
	struct forest f = { .out = out };
	int rc = epd_view_states(s, workflow, plant, &f, why);

	if (rc == 0 && (rc = find_parents(&f)) == 0) {
		epd_buf_fmt(out, "%s\n", workflow);
		branches(&f);
	}
	epd_free(f.at);
	epd_free(f.v);
	return rc < 0 ? rc : out->failed ? -ENOMEM : 0;
}
