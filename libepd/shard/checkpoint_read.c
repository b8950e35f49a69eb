/*
 * checkpoint_read.c - a file of checkpoint.c's layout back to a table.
 *
 * The index goes by in a window, so that ten thousand nodes take no more memory
 * than the table of them.  Its CRC is known when all of it has gone by: till
 * then nothing of it is believed that could do harm, and if it is wrong, that is
 * what was wrong, whatever damage or unknown kind was met before.  An -errno
 * (no memory, a failed read) ends the reading at once, the CRC not known.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "shard/checkpoint.h"
#include "shard/hold.h"
#include "shard/life.h"
#include "shard/word.h"

enum {
	HEAD = EPD_CHECKPOINT_HEAD, NODE = EPD_CHECKPOINT_NODE,
	NODES = EPD_CHECKPOINT_NODES, STATES = EPD_CHECKPOINT_STATES,
	LEASES = EPD_CHECKPOINT_LEASES, HANDOFFS = EPD_CHECKPOINT_HANDOFFS,
	CHANGED = EPD_CHECKPOINT_CHANGED, RESTS = EPD_CHECKPOINT_RESTS,
	WAITS = EPD_CHECKPOINT_WAITS,
	SECTION = 16, VERSION = 16,	/* bytes */
	WINDOW = 65536,
	/* A state without its versions: mostly, and at most. */
	STATE = 1024, STATE_MOST = 256 + 5 * (4 + EPD_STRING_MAX),
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

/* The part of the index not yet taken: in the window, and behind it. */
struct index {
	struct epd_table *t;		/* its block is the window */
	const uint8_t *p;
	size_t n;			/* bytes at p */
	uint64_t at, left;		/* in the file, behind the window */
	uint32_t crc;			/* of all up to there */
};

/* Have n bytes at p, or all that are left of the index. */
static int
look(struct index *x, size_t n)
{
	struct epd_buf *b = &x->t->block;
	size_t want = n < WINDOW ? WINDOW : n;
	ssize_t got;

	if (n <= x->n || !x->left)
		return 0;
	if (want - x->n > x->left)
		want = x->n + (size_t)x->left;
	if (x->n)
		memmove(b->p, x->p, x->n);
	b->n = x->n;
	if (!epd_buf_add(b, want - x->n))
		return -ENOMEM;
	got = epd_file_pread(x->t->fd, b->p + x->n, want - x->n, x->at);
	if (got < 0)
		return (int)got;
	if ((size_t)got != want - x->n)
		return EPD_ECORRUPT;
	x->crc = epd_crc32c(x->crc, b->p + x->n, (size_t)got);
	x->p = b->p;
	x->n = want;
	x->at += (uint64_t)got;
	x->left -= (uint64_t)got;
	return 0;
}

/* The next n bytes, on loan until more is looked at. */
static inline int
take(struct index *x, size_t n, const uint8_t **p)
{
	int rc = n <= x->n ? 0 : look(x, n);

	if (!rc && n > x->n)
		rc = EPD_ECORRUPT;
	if (rc)
		return rc;
	*p = x->p;
	x->p += n;
	x->n -= n;
	return 0;
}

static uint64_t
untaken(const struct index *x)
{
	return x->n + x->left;
}

static int
load_nodes(struct index *x, uint32_t count, const struct head *h)
{
	uint64_t at = HEAD + h->index, end = at + h->bodies;
	struct epd_table *t = x->t;
	struct epd_body *b;
	const uint8_t *p;
	int rc;

	if (count > untaken(x) / NODE)
		return EPD_ECORRUPT;
	b = epd_arena_add(&t->arena, count * sizeof *b);
	if (!b || epd_tree_reserve(t->tree, count))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++, b++) {
		uint64_t id;

		rc = take(x, NODE, &p);
		if (rc)
			return rc;
		id = epd_word64(p);
		*b = (struct epd_body){
			.at = at,
			.n = epd_word32(p + 20), .crc = epd_word32(p + 24),
			.nlinks = epd_word32(p + 28),
			.run = epd_word64(p + 32), .wall_ms = epd_word64(p + 40),
		};
		if (id > t->lsn || b->n > end - at)
			return EPD_ECORRUPT;
		at += b->n;
		rc = epd_tree_add(t->tree, id, epd_word64(p + 8),
		    epd_word32(p + 16), b);
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

/* Unpack a state but for its versions; its strings lie in the window. */
static int
take_state(struct index *x, struct epd_head *h)
{
	struct epd_state *s = &h->state;
	uint32_t flags;
	int rc = 0;

	for (size_t most = STATE; ; most = STATE_MOST) {
		struct epd_cur c;

		rc = look(x, most);
		if (rc)
			return rc;
		c = epd_cur(epd_span(x->p, x->n));
		s->id = epd_unpack_u32(&c);
		s->versions = epd_unpack_u32(&c);
		s->status = epd_unpack_u32(&c);
		flags = epd_unpack_u32(&c);
		s->epoch = epd_unpack_u64(&c);
		s->created_ms = epd_unpack_u64(&c);
		h->guessed = !(flags & CHANGED);
		s->changed_ms = h->guessed ? 0 : epd_unpack_u64(&c);
		h->salt = epd_unpack_u64(&c);
		epd_traits_unpack(&c, s);
		s->tier = flags & RESTS ? epd_record_take_str(&c) : "";
		s->wait_deadline_ms = flags & WAITS ? epd_unpack_u64(&c) : 0;
		s->tool = flags & WAITS ? epd_record_take_str(&c) : "";
		if (c.failed && most == STATE)
			continue;
		if (c.failed)
			return EPD_ECORRUPT;
		x->n -= (size_t)(c.p - x->p);
		x->p = c.p;
		return flags & ~(uint32_t)(CHANGED | RESTS | WAITS) ?
		    EPD_EKIND : 0;
	}
}

/* It changed no sooner than it, and its newest version, was made. */
static void
guess(const struct epd_table *t, struct epd_head *h)
{
	struct epd_state *s = &h->state;
	const struct epd_body *b = epd_tree_get(t->tree,
	    h->v[s->versions - 1].node)->body;

	s->changed_ms = b->wall_ms > s->created_ms ? b->wall_ms :
	    s->created_ms;
}

static int
load_state(struct index *x)
{
	struct epd_head in = { .cap = 0 }, *h;
	struct epd_table *t = x->t;
	struct epd_state *s = &in.state;
	const uint8_t *p;
	uint32_t versions;
	int rc = take_state(x, &in);

	if (rc)
		return rc;
	versions = s->versions;
	s->versions = 0;
	if (s->id >= t->next_state || !versions ||
	    (t->n && s->id <= t->head[t->n - 1]->state.id) || !s->id ||
	    versions > untaken(x) / VERSION ||
	    epd_life_of(s->status) == EPD_STATE_NONE || s->status == EPD_FREE)
		return EPD_ECORRUPT;
	s->model_path = keep_str(t, s->model_path);
	s->tenant = keep_str(t, s->tenant);
	s->fingerprint = keep_str(t, s->fingerprint);
	s->tier = *s->tier ? keep_str(t, s->tier) : "";
	s->tool = *s->tool ? keep_str(t, s->tool) : "";
	if (!s->model_path || !s->tenant || !s->fingerprint || !s->tier ||
	    !s->tool)
		return -ENOMEM;
	rc = epd_table_reserve(t, 1);
	if (!rc)
		rc = epd_head_new(&h, versions);
	if (rc)
		return rc;
	h->state = *s;
	h->salt = in.salt;
	h->guessed = in.guessed;
	epd_table_add(t, h);
	for (s = &h->state; s->versions < versions; s->versions++) {
		struct epd_head_version *v = &h->v[s->versions];

		rc = take(x, VERSION, &p);
		if (rc)
			return rc;
		v->node = epd_word64(p);
		v->key = epd_word64(p + 8);
		if (epd_tree_hold(t->tree, v->node))
			return EPD_ECORRUPT;
	}
	epd_table_join(t, h);
	if (h->guessed)
		guess(t, h);
	return 0;
}

static int
load_lease(struct index *x)
{
	struct epd_table *t = x->t;
	struct epd_lease l = { 0 };
	struct epd_cur c;
	int rc = look(x, STATE);

	if (rc)
		return rc;
	c = epd_cur(epd_span(x->p, x->n));
	epd_lease_take(&c, &l);
	l.node = epd_unpack_u64(&c);
	if (c.failed || !l.id || l.id > t->lsn ||
	    (t->nleases && l.id <= t->lease[t->nleases - 1].id))
		return EPD_ECORRUPT;
	x->n -= (size_t)(c.p - x->p);
	x->p = c.p;
	rc = epd_table_reserve_lease(t);
	if (!rc && epd_tree_hold(t->tree, l.node))
		rc = EPD_ECORRUPT;
	if (!rc)
		t->lease[t->nleases++] = l;
	return rc;
}

static int
load_handoff(struct index *x)
{
	struct epd_table *t = x->t;
	struct epd_handoff h;
	struct epd_head *head;
	struct epd_cur c;
	int rc = look(x, STATE_MOST);

	if (rc)
		return rc;
	c = epd_cur(epd_span(x->p, x->n));
	epd_handoff_take(&c, &h);
	h.lsn = epd_unpack_u64(&c);
	if (c.failed || !h.lsn || h.lsn > t->lsn ||
	    (t->nhandoffs && h.lsn <= t->handoff[t->nhandoffs - 1].lsn))
		return EPD_ECORRUPT;
	h.store = keep_str(t, h.store);
	h.workflow = keep_str(t, h.workflow);
	x->n -= (size_t)(c.p - x->p);
	x->p = c.p;
	rc = !h.store || !h.workflow ? -ENOMEM : epd_table_reserve_handoff(t);
	if (rc)
		return rc;
	head = epd_table_find(t, h.state);
	if (h.phase == EPD_PREPARED || h.phase == EPD_READY) {
		/* One state is kept for one of them, as apply() has it. */
		if (!head || head->pinned || (head->state.status ==
		    EPD_RESTORING) != (h.target != 0))
			return EPD_ECORRUPT;
		head->pinned = 1;
	}
	t->handoff[t->nhandoffs++] = h;
	return 0;
}

static int
load_owner(struct index *x)
{
	const char *owner;
	struct epd_cur c;
	int rc = look(x, STATE_MOST);

	if (rc)
		return rc;
	c = epd_cur(epd_span(x->p, x->n));
	owner = epd_record_take_str(&c);
	if (c.failed || !*owner)
		return EPD_ECORRUPT;
	x->t->owner = keep_str(x->t, owner);
	x->n -= (size_t)(c.p - x->p);
	x->p = c.p;
	return x->t->owner ? 0 : -ENOMEM;
}

static int
load_section(struct index *x, const struct head *h, struct epd_why *why)
{
	uint32_t kind, count;
	uint64_t bytes, from;
	const uint8_t *p;
	int rc = take(x, SECTION, &p);

	if (rc)
		return rc;
	kind = epd_word32(p);
	count = epd_word32(p + 4);
	bytes = epd_word64(p + 8);
	from = untaken(x);
	if (bytes > from)
		return EPD_ECORRUPT;
	if (kind == NODES)
		rc = load_nodes(x, count, h);
	else if (kind < STATES || kind > EPD_CHECKPOINT_OWNER)
		rc = epd_why(why, EPD_EKIND, "checkpoint: section kind "
		    "%u: unknown", kind);
	else
		while (!rc && count-- > 0)
			rc = kind == STATES ? load_state(x) :
			    kind == LEASES ? load_lease(x) :
			    kind == HANDOFFS ? load_handoff(x) : load_owner(x);
	return !rc && from - untaken(x) != bytes ? EPD_ECORRUPT : rc;
}

static int
load_index(struct index *x, const struct head *h, struct epd_why *why)
{
	const struct epd_node *n = NULL;
	struct epd_tree *tree = x->t->tree;
	struct epd_why what = { "" };
	int rc = 0;

	for (uint32_t i = 0; !rc && i < h->sections; i++)
		rc = load_section(x, h, &what);
	if (!rc && untaken(x))
		rc = EPD_ECORRUPT;
	if (rc && rc != EPD_ECORRUPT && rc != EPD_EKIND)
		return rc;
	while (x->left) {
		int err;

		x->n = 0;
		err = look(x, 1);
		if (err)
			return err;
	}
	if (x->crc != h->index_crc)
		return EPD_ECORRUPT;
	while (!rc && (n = epd_tree_next(tree, n ? n->id : 0)))
		if (!n->heads && !n->children)
			rc = EPD_ECORRUPT;
	return rc == EPD_EKIND && *what.text ? epd_why(why, rc, "%s",
	    what.text) : rc;
}

/* Fill t from its file. */
static int
load(struct epd_table *t, uint32_t *segment, uint64_t *size,
    struct epd_why *why)
{
	struct index x = { .t = t, .at = HEAD };
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
	x.left = h.index;
	rc = load_index(&x, &h, why);
	t->block.n = 0;
	if (rc)
		return rc;
	*segment = h.segment;
	*size = (uint64_t)st.st_size;
	return 0;
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
