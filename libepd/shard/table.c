/* table.c - the memory of a table, and finding things in it. */
#include "shard/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

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
	epd_tree_free(t->tree);
	epd_arena_free(&t->arena);
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

int
epd_table_body(const struct epd_table *t, const struct epd_body *b,
    struct epd_buf *buf, struct epd_span *out)
{
	ssize_t n;

	if (b->p) {
		*out = epd_span(b->p, b->n);
		return 0;
	}
	buf->n = 0;
	buf->failed = 0;
	if (!epd_buf_add(buf, b->n))
		return -ENOMEM;
	n = epd_file_pread(t->fd, buf->p, b->n, b->at);
	if (n < 0)
		return (int)n;
	if ((size_t)n != b->n || epd_crc32c(0, buf->p, b->n) != b->crc)
		return EPD_ECORRUPT;
	*out = epd_span(buf->p, b->n);
	return 0;
}
