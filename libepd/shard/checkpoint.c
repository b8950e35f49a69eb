/*
 * checkpoint.c - a table as a file:
 *
 *	head	magic 8, version u32, segment u32, uuid 16, lsn u64, term u64,
 *		next_state u32, sections u32, index bytes u64, body bytes u64,
 *		zero 16, index crc u32, head crc u32
 *	index	sections, each: kind u32, count u32, bytes u64, entries
 *	  nodes	id u64, parent u64, tokens u32, body bytes u32, body crc u32,
 *		zero u32, run u64, wall_ms u64; ascending
 *	  states id u32, versions u32, status u32, zero u32, epoch u64,
 *		created_ms u64, salt u64, traits, then per version: node u64,
 *		key u64; ascending
 *	bodies	in the order of the nodes
 *
 * Only the index is read at the start, and no node is an allocation: a body is
 * read when it is asked for, under its own CRC.  Counts of holders and children
 * are not in the file: they come of what is.
 */
#include "shard/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "shard/life.h"

static const char magic[8] = "epd-chk\n";
enum { VERSION = 1, HEAD = 96, NODE = 48, NODES = 1, STATES = 2 };

struct head {
	uint32_t segment, sections, index_crc;
	uint64_t index, bodies;
};

static size_t
begin_section(struct epd_buf *b, uint32_t kind, size_t count)
{
	epd_pack_u32(b, kind);
	epd_pack_u32(b, (uint32_t)count);
	epd_pack_u64(b, 0);
	return b->n;
}

static void
end_section(struct epd_buf *b, size_t at)
{
	struct epd_buf n = { 0 };

	epd_pack_u64(&n, b->n - at);
	if (!b->failed && !n.failed)
		memcpy(b->p + at - 8, n.p, 8);
	b->failed |= n.failed;
	epd_buf_free(&n);
}

static int
pack_nodes(const struct epd_table *t, epd_body_fn *body, void *arg,
    struct epd_buf *index, struct epd_buf *bodies)
{
	size_t at = begin_section(index, NODES, epd_tree_count(t->tree));
	const struct epd_node *n = NULL;
	struct epd_span s;
	int rc;

	while ((n = epd_tree_next(t->tree, n ? n->id : 0))) {
		const struct epd_body *b = n->body;

		rc = body(arg, n, &s);
		if (rc)
			return rc;
		epd_pack_u64(index, n->id);
		epd_pack_u64(index, n->parent);
		epd_pack_u32(index, n->tokens);
		epd_pack_u32(index, b->n);
		epd_pack_u32(index, b->crc);
		epd_pack_u32(index, 0);
		epd_pack_u64(index, b->run);
		epd_pack_u64(index, b->wall_ms);
		epd_buf_put(bodies, s.p, s.n);
	}
	end_section(index, at);
	return 0;
}

static void
pack_states(const struct epd_table *t, struct epd_buf *index)
{
	size_t at = begin_section(index, STATES, t->n);

	for (size_t i = 0; i < t->n; i++) {
		const struct epd_head *h = t->head[i];

		epd_pack_u32(index, h->state.id);
		epd_pack_u32(index, h->state.versions);
		epd_pack_u32(index, h->state.status);
		epd_pack_u32(index, 0);
		epd_pack_u64(index, h->state.epoch);
		epd_pack_u64(index, h->state.created_ms);
		epd_pack_u64(index, h->salt);
		epd_traits_pack(index, &h->state);
		for (uint32_t k = 0; k < h->state.versions; k++) {
			epd_pack_u64(index, h->v[k].node);
			epd_pack_u64(index, h->v[k].key);
		}
	}
	end_section(index, at);
}

int
epd_checkpoint_pack(const struct epd_table *t, uint32_t segment,
    epd_body_fn *body, void *arg, struct epd_buf *index,
    struct epd_buf *bodies)
{
	struct epd_buf b = { 0 };
	int rc;

	if (!epd_buf_add(index, HEAD))
		return -ENOMEM;
	rc = pack_nodes(t, body, arg, index, bodies);
	if (rc)
		return rc;
	pack_states(t, index);
	if (index->failed || bodies->failed)
		return -ENOMEM;
	epd_buf_put(&b, magic, sizeof magic);
	epd_pack_u32(&b, VERSION);
	epd_pack_u32(&b, segment);
	epd_buf_put(&b, t->uuid, 16);
	epd_pack_u64(&b, t->lsn);
	epd_pack_u64(&b, t->term);
	epd_pack_u32(&b, t->next_state);
	epd_pack_u32(&b, 2);
	epd_pack_u64(&b, index->n - HEAD);
	epd_pack_u64(&b, bodies->n);
	epd_pack_u64(&b, 0);
	epd_pack_u64(&b, 0);
	epd_pack_u32(&b, epd_crc32c(0, index->p + HEAD, index->n - HEAD));
	epd_pack_u32(&b, b.failed ? 0 : epd_crc32c(0, b.p, b.n));
	if (!b.failed)
		memcpy(index->p, b.p, HEAD);
	rc = b.failed ? -ENOMEM : 0;
	epd_buf_free(&b);
	return rc;
}

int
epd_checkpoint_write(int dirfd, const struct epd_table *t,
    uint32_t segment, epd_body_fn *body, void *arg, uint64_t *size)
{
	struct epd_buf index = { 0 }, bodies = { 0 };
	struct epd_span parts[2];
	int rc;

	rc = epd_checkpoint_pack(t, segment, body, arg, &index, &bodies);
	if (!rc) {
		parts[0] = epd_span(index.p, index.n);
		parts[1] = epd_span(bodies.p, bodies.n);
		rc = epd_file_replace(dirfd, EPD_CHECKPOINT, parts, 2, 1);
	}
	if (!rc)
		*size = index.n + bodies.n;
	epd_buf_free(&index);
	epd_buf_free(&bodies);
	return rc;
}

static int
load_head(const uint8_t *p, uint64_t size, struct epd_table *t,
    struct head *h)
{
	struct epd_cur c = epd_cur(epd_span(p, HEAD));
	struct epd_cur end = epd_cur(epd_span(p + HEAD - 4, 4));
	uint32_t version;
	uint64_t zero;

	if (memcmp(epd_unpack_bytes(&c, 8).p, magic, 8) ||
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
	if (version != VERSION || zero)
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
	epd_table_add(t, h);
	s = &h->state;
	s->id = id;
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
	int fd = epd_file_open(dirfd, EPD_CHECKPOINT, O_RDONLY, 0);

	return fd < 0 ? fd : epd_checkpoint_load(fd, out, segment, size, why);
}
