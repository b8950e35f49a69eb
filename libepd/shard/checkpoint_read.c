/* checkpoint_read.c - a file of checkpoint.c's layout back to a table. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "shard/checkpoint.h"
#include "shard/life.h"

enum {
	HEAD = EPD_CHECKPOINT_HEAD, NODE = EPD_CHECKPOINT_NODE,
	NODES = EPD_CHECKPOINT_NODES, STATES = EPD_CHECKPOINT_STATES,
};

struct head {
	uint32_t segment, sections, index_crc;
	uint64_t index, bodies;
};

/* What t has of it is filled in too. */
static int
load_head(const uint8_t *p, uint64_t size, struct epd_table *t,
    struct head *h)
{
	struct epd_cur c = epd_cur(epd_span(p, HEAD));
	struct epd_cur end = epd_cur(epd_span(p + HEAD - 4, 4));
	uint32_t version;
	uint64_t zero;

	if (memcmp(epd_unpack_bytes(&c, 8).p, EPD_CHECKPOINT_MAGIC, 8) ||
	    epd_crc32c(0, p, HEAD - 4) != epd_unpack_u32(&end))
		return EPD_ECORRUPT;
	version = epd_unpack_u32(&c);
	h->segment = epd_unpack_u32(&c);
	memcpy(t->uuid, epd_unpack_bytes(&c, 16).p, 16);
	t->lsn = epd_unpack_u64(&c);
	t->term = epd_unpack_u64(&c);
	t->next_state = epd_unpack_u32(&c);
	h->sections = epd_unpack_u32(&c);
	h->index = epd_unpack_u64(&c);
	h->bodies = epd_unpack_u64(&c);
	zero = epd_unpack_u64(&c);
	zero |= epd_unpack_u64(&c);
	h->index_crc = epd_unpack_u32(&c);
	if (version != EPD_CHECKPOINT_VERSION || zero)
		return EPD_EKIND;
	if (h->index > size - HEAD || h->bodies != size - HEAD - h->index)
		return EPD_ECORRUPT;
	return 0;
}

static int
load_nodes(struct epd_table *t, struct epd_cur *c, uint32_t count,
    const struct head *h)
{
	uint64_t at = HEAD + h->index, end = at + h->bodies;
	struct epd_body *b;
	int rc;

	if (count > epd_cur_left(c) / NODE)
		return EPD_ECORRUPT;
	b = epd_arena_add(&t->arena, count * sizeof *b);
	if (!b || epd_tree_reserve(t->tree, count))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++, b++) {
		uint64_t id = epd_unpack_u64(c), parent = epd_unpack_u64(c);
		uint32_t tokens = epd_unpack_u32(c);

		*b = (struct epd_body){ .at = at };
		b->n = epd_unpack_u32(c);
		b->crc = epd_unpack_u32(c);
		if (epd_unpack_u32(c))
			return EPD_EKIND;
		b->run = epd_unpack_u64(c);
		b->wall_ms = epd_unpack_u64(c);
		if (id > t->lsn || b->n > end - at)
			return EPD_ECORRUPT;
		at += b->n;
		rc = epd_tree_add(t->tree, id, parent, tokens, b);
		if (rc)
			return rc == -ENOMEM ? rc : EPD_ECORRUPT;
	}
	return at == end ? 0 : EPD_ECORRUPT;
}

static const char *
keep_str(struct epd_table *t, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = epd_arena_add(&t->arena, n);

	return p ? memcpy(p, s, n) : NULL;
}

static int
load_state(struct epd_table *t, struct epd_cur *c)
{
	uint32_t id = epd_unpack_u32(c), versions = epd_unpack_u32(c);
	uint32_t status = epd_unpack_u32(c);
	struct epd_head *h;
	struct epd_state *s;
	int rc;

	if (id >= t->next_state || !versions ||
	    (t->n && id <= t->head[t->n - 1]->state.id) || !id ||
	    versions > epd_cur_left(c) / 16 ||
	    epd_life_of(status) == EPD_STATE_NONE || status == EPD_FREE)
		return EPD_ECORRUPT;
	rc = epd_table_reserve(t, 1);
	if (!rc)
		rc = epd_head_new(&h, versions);
	if (rc)
		return rc;
	s = &h->state;
	s->id = id;
	epd_table_add(t, h);
	s->status = status;
	if (epd_unpack_u32(c))
		return EPD_EKIND;
	s->epoch = epd_unpack_u64(c);
	s->created_ms = epd_unpack_u64(c);
	h->salt = epd_unpack_u64(c);
	epd_traits_unpack(c, s);
	s->model_path = keep_str(t, s->model_path);
	s->tenant = keep_str(t, s->tenant);
	s->fingerprint = keep_str(t, s->fingerprint);
	if (!s->model_path || !s->tenant || !s->fingerprint)
		return -ENOMEM;
	if (s->ttl_deadline_ms && s->ttl_deadline_ms < t->soonest)
		t->soonest = s->ttl_deadline_ms;
	for (; s->versions < versions; s->versions++) {
		struct epd_head_version *v = &h->v[s->versions];

		v->node = epd_unpack_u64(c);
		v->key = epd_unpack_u64(c);
		if (epd_tree_hold(t->tree, v->node))
			return EPD_ECORRUPT;
	}
	return c->failed ? EPD_ECORRUPT : 0;
}

static int
load_index(struct epd_table *t, struct epd_span index, const struct head *h,
    struct epd_why *why)
{
	struct epd_cur c = epd_cur(index);
	const struct epd_node *n = NULL;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < h->sections; i++) {
		uint32_t kind = epd_unpack_u32(&c), count = epd_unpack_u32(&c);
		uint64_t bytes = epd_unpack_u64(&c);
		struct epd_cur in;

		if (c.failed || bytes > epd_cur_left(&c))
			return EPD_ECORRUPT;
		in = epd_cur(epd_unpack_bytes(&c, (size_t)bytes));
		if (kind == NODES)
			rc = load_nodes(t, &in, count, h);
		else if (kind != STATES)
			rc = epd_why(why, EPD_EKIND, "checkpoint: section kind "
			    "%u: unknown", kind);
		else
			while (!rc && count-- > 0)
				rc = load_state(t, &in);
		if (!rc && (in.failed || epd_cur_left(&in)))
			rc = EPD_ECORRUPT;
	}
	if (!rc && (c.failed || epd_cur_left(&c)))
		rc = EPD_ECORRUPT;
	while (!rc && (n = epd_tree_next(t->tree, n ? n->id : 0)))
		if (!n->heads && !n->children)
			rc = EPD_ECORRUPT;
	return rc;
}

/* Fill t from its file. */
static int
load(struct epd_table *t, uint32_t *segment, uint64_t *size,
    struct epd_why *why)
{
	struct epd_buf index = { 0 };
	uint8_t p[HEAD];
	struct stat st;
	struct head h;
	ssize_t n;
	int rc;

	if (fstat(t->fd, &st) < 0)
		return -errno;
	n = epd_file_pread(t->fd, p, HEAD, 0);
	if (n != HEAD)
		return n < 0 ? (int)n : EPD_ECORRUPT;
	rc = load_head(p, (uint64_t)st.st_size, t, &h);
	if (rc)
		return rc;
	if (!epd_buf_add(&index, (size_t)h.index))
		return -ENOMEM;
	n = epd_file_pread(t->fd, index.p, index.n, HEAD);
	if (n < 0)
		rc = (int)n;
	else if ((size_t)n != index.n ||
	    epd_crc32c(0, index.p, index.n) != h.index_crc)
		rc = EPD_ECORRUPT;
	else
		rc = load_index(t, epd_span(index.p, index.n), &h, why);
	epd_buf_free(&index);
	*segment = h.segment;
	*size = (uint64_t)st.st_size;
	return rc;
}

int
epd_checkpoint_load(int fd, struct epd_table **out, uint32_t *segment,
    uint64_t *size, struct epd_why *why)
{
	struct epd_why what = { "" };
	struct epd_table *t;
	int rc = epd_table_new(&t);

	if (rc) {
		close(fd);
		return rc;
	}
	t->fd = fd;
	rc = load(t, segment, size, &what);
	if (rc) {
		epd_table_free(t);
		return epd_why(why, rc, "%s%s", *what.text ? what.text :
		    "checkpoint: ", *what.text ? "" : epd_strerror(rc));
	}
	*out = t;
	return 0;
}

int
epd_checkpoint_read(int dirfd, struct epd_table **out, uint32_t *segment,
    uint64_t *size, struct epd_why *why)
{
	int fd = epd_file_open(dirfd, EPD_CHECKPOINT, O_RDONLY | O_NONBLOCK,
	    0);

	return fd < 0 ? fd : epd_checkpoint_load(fd, out, segment, size, why);
}

int
epd_checkpoint_peek(int dirfd, uint32_t *segment, uint64_t *size)
{
	struct epd_table t;
	uint8_t p[HEAD];
	struct head h;
	struct stat st;
	int fd, rc;

	fd = epd_file_open(dirfd, EPD_CHECKPOINT, O_RDONLY | O_NONBLOCK,
	    0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (epd_file_pread(fd, p, HEAD, 0) != HEAD)
		rc = EPD_ECORRUPT;
	else
		rc = load_head(p, (uint64_t)st.st_size, &t, &h);
	close(fd);
	if (rc)
		return rc;
	*segment = h.segment;
	*size = (uint64_t)st.st_size;
	return 0;
}
