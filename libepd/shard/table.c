/* table.c - the memory of a table, and finding things in it. */
#include "shard/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

enum {
	BLOCK = 65536,
	FRAME = 128	/* more than the records of one frame of ours */
};

static void
dropped(void *arg, const struct epd_node *n)
{
	struct epd_table *t = arg;
	struct epd_body *b = n->body;

	b->next = t->freed;
	t->freed = b;
}

int
epd_table_new(struct epd_table **out)
{
	struct epd_table *t = epd_calloc(1, sizeof *t);
	int rc;

	if (!t)
		return -ENOMEM;
	t->fd = -1;
	t->term = 1;
	t->owner = "";
	t->next_state = 1;
	t->soonest = UINT64_MAX;
	rc = epd_tree_new(&t->tree, dropped, t);
	if (rc) {
		epd_free(t);
		return rc;
	}
	*out = t;
	return 0;
}

void
epd_table_free(struct epd_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		epd_head_free(t->head[i]);
	epd_free(t->head);
	epd_free(t->lease);
	epd_free(t->handoff);
	epd_tree_free(t->tree);
	epd_arena_free(&t->arena);
	epd_buf_free(&t->block);
	if (t->fd >= 0)
		close(t->fd);
	epd_free(t);
}

/* Index of the first head whose id is at least id. */
static size_t
lower(const struct epd_table *t, uint32_t id)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->head[mid]->state.id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct epd_head *
epd_table_find(const struct epd_table *t, uint32_t id)
{
	size_t i = lower(t, id);

	return i < t->n && t->head[i]->state.id == id ? t->head[i] : NULL;
}

struct epd_head *
epd_table_above(const struct epd_table *t, uint32_t after)
{
	size_t i = after == UINT32_MAX ? t->n : lower(t, after + 1);

	return i < t->n ? t->head[i] : NULL;
}

int
epd_table_reserve(struct epd_table *t, size_t more)
{
	size_t cap = t->cap < 8 ? 8 : t->cap;
	struct epd_head **head;

	if (more <= t->cap - t->n)
		return 0;
	while (cap - t->n < more) {
		if (cap > SIZE_MAX / 4 / sizeof *head)
			return -ENOMEM;
		cap *= 2;
	}
	head = epd_realloc(t->head, cap * sizeof *head);
	if (!head)
		return -ENOMEM;
	t->head = head;
	t->cap = cap;
	return 0;
}

void
epd_table_add(struct epd_table *t, struct epd_head *h)
{
	uint64_t ttl = h->state.ttl_deadline_ms;

	t->head[t->n++] = h;
	if (ttl && ttl < t->soonest)
		t->soonest = ttl;
}

void
epd_table_remove(struct epd_table *t, struct epd_head *h)
{
	size_t i = lower(t, h->state.id);

	t->n--;
	memmove(t->head + i, t->head + i + 1, (t->n - i) * sizeof *t->head);
	epd_head_free(h);
}

static struct epd_body *
root(const struct epd_table *t, const struct epd_head *h)
{
	const struct epd_node *n = epd_tree_get(t->tree, h->v[0].node);

	return epd_tree_get(t->tree, n->root)->body;
}

void
epd_table_join(struct epd_table *t, const struct epd_head *h)
{
	struct epd_body *b = root(t, h);

	b->states++;
	b->which ^= h->state.id;
}

struct epd_head *
epd_table_leave(struct epd_table *t, const struct epd_head *h)
{
	struct epd_body *b = root(t, h);

	b->states--;
	b->which ^= h->state.id;
	return b->states == 1 ? epd_table_find(t, b->which) : NULL;
}

/* Room for FRAME more of size bytes behind n. */
static int
room(void **v, size_t n, size_t *cap, size_t size)
{
	size_t want = n + FRAME;
	void *p;

	if (want <= *cap)
		return 0;
	want += n;
	p = epd_realloc(*v, want * size);
	if (!p)
		return -ENOMEM;
	*v = p;
	*cap = want;
	return 0;
}

int
epd_table_reserve_lease(struct epd_table *t)
{
	void *v = t->lease;
	int rc = room(&v, t->nleases, &t->leases, sizeof *t->lease);

	t->lease = v;
	return rc;
}

int
epd_table_reserve_handoff(struct epd_table *t)
{
	void *v = t->handoff;
	int rc = room(&v, t->nhandoffs, &t->handoffs, sizeof *t->handoff);

	t->handoff = v;
	return rc;
}

struct epd_lease *
epd_table_lease(const struct epd_table *t, uint64_t id)
{
	for (size_t i = 0; i < t->nleases; i++)
		if (t->lease[i].id == id)
			return &t->lease[i];
	return NULL;
}

struct epd_handoff *
epd_table_handoff(const struct epd_table *t, const uint8_t id[16])
{
	for (size_t i = 0; i < t->nhandoffs; i++)
		if (!memcmp(t->handoff[i].id, id, 16))
			return &t->handoff[i];
	return NULL;
}

void
epd_table_unlease(struct epd_table *t, struct epd_lease *l)
{
	size_t i = (size_t)(l - t->lease);

	t->nleases--;
	memmove(l, l + 1, (t->nleases - i) * sizeof *l);
}

void
epd_table_forget(struct epd_table *t, struct epd_handoff *h)
{
	size_t i = (size_t)(h - t->handoff);

	t->nhandoffs--;
	memmove(h, h + 1, (t->nhandoffs - i) * sizeof *h);
}

int
epd_head_new(struct epd_head **out, uint32_t versions)
{
	struct epd_head *h = epd_calloc(1, sizeof *h);
	int rc;

	if (!h)
		return -ENOMEM;
	rc = epd_head_reserve(h, versions);
	if (rc) {
		epd_free(h);
		return rc;
	}
	*out = h;
	return 0;
}

void
epd_head_free(struct epd_head *h)
{
	if (!h)
		return;
	epd_free(h->v);
	epd_free(h);
}

int
epd_head_reserve(struct epd_head *h, uint32_t more)
{
	uint64_t cap = h->cap ? h->cap : 2;
	struct epd_head_version *v;

	if (more <= h->cap - h->state.versions)
		return 0;
	while (cap - h->state.versions < more)
		cap *= 2;
	if (cap > UINT32_MAX)
		return -EOVERFLOW;
	v = epd_realloc(h->v, (size_t)cap * sizeof *v);
	if (!v)
		return -ENOMEM;
	h->v = v;
	h->cap = (uint32_t)cap;
	return 0;
}

/*
 * Have the n bytes at `at` in the block.  Walks go both ways through bodies of
 * a hundred bytes, so it is read in aligned pieces, not one by one.
 */
static int
read_block(struct epd_table *t, uint64_t at, size_t n)
{
	uint64_t from = at - at % BLOCK;
	size_t want = (size_t)(at - from) + n;
	ssize_t got;

	if (want < BLOCK)
		want = BLOCK;
	t->block.n = 0;
	t->block.failed = 0;
	if (!epd_buf_add(&t->block, want))
		return -ENOMEM;
	got = epd_file_pread(t->fd, t->block.p, want, from);
	t->block.n = got < 0 ? 0 : (size_t)got;
	t->block_at = from;
	return got < 0 ? (int)got : 0;
}

uint32_t
epd_body_crc(const struct epd_body *b)
{
	return b->p ? epd_crc32c(0, b->p, b->n) : b->crc;
}

int
epd_table_body(struct epd_table *t, const struct epd_body *b,
    struct epd_span *out)
{
	const uint8_t *p;
	uint64_t skip;
	int rc;

	if (b->p) {
		*out = epd_span(b->p, b->n);
		return 0;
	}
	if (b->at < t->block_at || b->n > t->block.n ||
	    b->at - t->block_at > t->block.n - b->n) {
		rc = read_block(t, b->at, b->n);
		if (rc)
			return rc;
	}
	skip = b->at - t->block_at;
	if (skip > t->block.n || b->n > t->block.n - skip)
		return EPD_ECORRUPT;
	p = t->block.p + skip;
	if (epd_crc32c(0, p, b->n) != b->crc)
		return EPD_ECORRUPT;
	*out = epd_span(p, b->n);
	return 0;
}
