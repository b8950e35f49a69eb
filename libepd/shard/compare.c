/* compare.c - two tables against each other, and one against itself. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "shard/check.h"

#define LLU(x) ((unsigned long long)(x))

static int
same_state(const struct epd_state *a, const struct epd_state *b)
{
	return a->id == b->id && a->versions == b->versions &&
	    a->status == b->status && a->epoch == b->epoch &&
	    a->created_ms == b->created_ms &&
	    a->parent_state == b->parent_state &&
	    a->parent_version == b->parent_version &&
	    a->ttl_deadline_ms == b->ttl_deadline_ms &&
	    a->page_tokens == b->page_tokens && a->kv_type == b->kv_type &&
	    a->page_bytes == b->page_bytes &&
	    epd_name_equal(&a->model_fp, &b->model_fp) &&
	    epd_name_equal(&a->base, &b->base) &&
	    !strcmp(a->model_path, b->model_path) &&
	    !strcmp(a->tenant, b->tenant) &&
	    !strcmp(a->fingerprint, b->fingerprint) &&
	    a->wait_deadline_ms == b->wait_deadline_ms &&
	    !strcmp(a->tier, b->tier) && !strcmp(a->tool, b->tool);
}

/* A guess is what a checkpoint had that does not say. */
static int
same_time(const struct epd_head *a, const struct epd_head *b)
{
	return a->guessed || b->guessed ||
	    a->state.changed_ms == b->state.changed_ms;
}

static void
compare_states(const struct epd_table *a, const struct epd_table *b,
    const char *what, struct epd_faults *f)
{
	if (a->n != b->n)
		epd_fault(f, "%zu live states; the %s has %zu", a->n, what,
		    b->n);
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		const struct epd_head *x = a->head[i], *y = b->head[i];

		if (!same_state(&x->state, &y->state) || x->salt != y->salt ||
		    x->pinned != y->pinned || !same_time(x, y) ||
		    memcmp(x->v, y->v, x->state.versions * sizeof *x->v)) {
			epd_fault(f, "s%u: is not what the %s gives",
			    x->state.id, what);
			return;
		}
	}
}

static int
same_node(const struct epd_node *a, const struct epd_node *b)
{
	const struct epd_body *x = a->body, *y = b->body;

	return a->id == b->id && a->parent == b->parent &&
	    a->start == b->start && a->tokens == b->tokens &&
	    a->heads == b->heads && a->children == b->children &&
	    x->n == y->n && epd_body_crc(x) == epd_body_crc(y) &&
	    x->run == y->run && x->wall_ms == y->wall_ms &&
	    x->states == y->states && x->which == y->which;
}

static int
same_half(const struct epd_handoff *a, const struct epd_handoff *b)
{
	return !memcmp(a->id, b->id, 16) && a->target == b->target &&
	    a->phase == b->phase && a->state == b->state &&
	    a->version == b->version && a->lsn == b->lsn &&
	    !memcmp(a->peer, b->peer, 16) &&
	    !memcmp(a->home, b->home, 16) &&
	    a->peer_state == b->peer_state &&
	    a->peer_version == b->peer_version &&
	    a->peer_lsn == b->peer_lsn && !strcmp(a->store, b->store) &&
	    !strcmp(a->workflow, b->workflow) &&
	    !memcmp(a->boot, b->boot, 16) && a->deadline_ms == b->deadline_ms;
}

static int
same_lease(const struct epd_lease *a, const struct epd_lease *b)
{
	return a->id == b->id && a->state == b->state &&
	    a->version == b->version && a->node == b->node &&
	    a->kind == b->kind && a->holder.pid == b->holder.pid &&
	    a->holder.start == b->holder.start &&
	    !memcmp(a->holder.boot, b->holder.boot, 16) &&
	    a->deadline_ms == b->deadline_ms;
}

static void
compare_holds(const struct epd_table *a, const struct epd_table *b,
    const char *what, struct epd_faults *f)
{
	size_t i = 0;

	while (i < a->nleases && i < b->nleases &&
	    same_lease(&a->lease[i], &b->lease[i]))
		i++;
	if (i < a->nleases || i < b->nleases)
		epd_fault(f, "leases: are not what the %s gives", what);
	for (i = 0; i < a->nhandoffs && i < b->nhandoffs; i++)
		if (!same_half(&a->handoff[i], &b->handoff[i]))
			break;
	if (i < a->nhandoffs || i < b->nhandoffs)
		epd_fault(f, "hand-offs: are not what the %s gives", what);
}

int
epd_table_compare(const struct epd_table *a, const struct epd_table *b,
    const char *what, struct epd_faults *f)
{
	const struct epd_node *x = NULL, *y = NULL;

	if (a->lsn != b->lsn || a->term != b->term || strcmp(a->owner, b->owner) ||
	    a->next_state != b->next_state)
		epd_fault(f, "record %llu, term %llu, next s%u; the %s has "
		    "%llu, %llu, s%u", LLU(a->lsn), LLU(a->term),
		    a->next_state, what, LLU(b->lsn), LLU(b->term),
		    b->next_state);
	compare_states(a, b, what, f);
	compare_holds(a, b, what, f);
	if (epd_tree_count(a->tree) != epd_tree_count(b->tree))
		epd_fault(f, "%zu nodes; the %s has %zu",
		    epd_tree_count(a->tree), what, epd_tree_count(b->tree));
	while ((x = epd_tree_next(a->tree, x ? x->id : 0)) &&
	    (y = epd_tree_next(b->tree, y ? y->id : 0)))
		if (!same_node(x, y)) {
			epd_fault(f, "node %llu: is not what the %s gives",
			    LLU(x->id), what);
			break;
		}
	return 0;
}

/* Add one to the node's count; 0 if there is no such node. */
static int
count_node(uint64_t node, const uint64_t *ids, uint32_t *heads, size_t n)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ids[mid] < node)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == n || ids[lo] != node)
		return 0;
	heads[lo]++;
	return 1;
}

/* Of each node that a state's versions hold. */
static void
count_head(const struct epd_head *h, const uint64_t *ids, uint32_t *heads,
    size_t n, struct epd_faults *f)
{
	for (uint32_t i = 0; i < h->state.versions; i++)
		if (!count_node(h->v[i].node, ids, heads, n))
			epd_fault(f, "s%u@%u: its node %llu is gone",
			    h->state.id, i + 1, LLU(h->v[i].node));
}

/* An undecided half has its state, pinned; nothing else is pinned. */
static void
check_halves(const struct epd_table *t, struct epd_faults *f)
{
	size_t pinned = 0, halves = 0;

	for (size_t i = 0; i < t->n; i++)
		pinned += t->head[i]->pinned != 0;
	for (size_t i = 0; i < t->nhandoffs; i++) {
		const struct epd_handoff *h = &t->handoff[i];
		const struct epd_head *s = epd_table_find(t, h->state);

		if (h->phase != EPD_PREPARED && h->phase != EPD_READY)
			continue;
		halves++;
		if (!s || !s->pinned || (s->state.status == EPD_RESTORING) !=
		    (h->target != 0))
			epd_fault(f, "s%u: its hand-off is not decided, but "
			    "it is %s", h->state, s ? "not kept for it" :
			    "gone");
	}
	if (pinned != halves)
		epd_fault(f, "%zu states are mid-hand-off, of %zu hand-offs",
		    pinned, halves);
}

int
epd_recount(const struct epd_table *t, struct epd_faults *f)
{
	size_t n = epd_tree_count(t->tree), i = 0;
	uint64_t *ids = epd_calloc(n ? n : 1, sizeof *ids);
	uint32_t *heads = epd_calloc(n ? n : 1, sizeof *heads);
	const struct epd_node *node = NULL;
	int rc = ids && heads ? 0 : -ENOMEM;

	check_halves(t, f);

	while (!rc && i < n &&
	    (node = epd_tree_next(t->tree, node ? node->id : 0)))
		ids[i++] = node->id;
	for (i = 0; !rc && i < t->n; i++)
		count_head(t->head[i], ids, heads, n, f);
	for (i = 0; !rc && i < t->nleases; i++)
		if (!count_node(t->lease[i].node, ids, heads, n))
			epd_fault(f, "lease %llu: its node %llu is gone",
			    LLU(t->lease[i].id), LLU(t->lease[i].node));
	for (i = 0; !rc && i < n; i++) {
		node = epd_tree_get(t->tree, ids[i]);
		if (node->heads != heads[i])
			epd_fault(f, "node %llu: counts %u holders, has %u",
			    LLU(node->id), node->heads, heads[i]);
		else if (!heads[i] && !node->children)
			epd_fault(f, "node %llu: nobody needs it",
			    LLU(node->id));
	}
	epd_free(ids);
	epd_free(heads);
	return rc;
}
