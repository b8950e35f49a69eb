/*
 * give.c - finding pages by name.  Where a name is said to be, in a state's record
 * or in the index, the run's own table decides.
 *
 * A run is opened once a gift, its file too, since who is on this machine is handed
 * the file and not the bytes: but only of as many as he is handed at once.  The map
 * keeps what it shows though the name goes.  Of folders the last one is open.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/give.h"
#include "flow/names.h"
#include "flow/rest.h"

/* What a question may make us hold. */
static const uint64_t PACKED_MAX = UINT64_C(256) << 20;

struct held {				/* a run */
	uint64_t run;
	int dir;			/* index in dirs */
	int fd;				/* -1: the map alone */
	struct epd_run *map;
};

struct found {				/* a page; held < 0: not there */
	int held;
	long at;
	uint64_t bytes;			/* as it travels */
	uint8_t *packed;
};

struct epd_gift {
	struct epd_store *s;
	struct epd_workflow w;		/* of the state, if one was named */
	uint64_t lease;
	int probe;			/* nothing is read: no run counts as used */
	struct held *held;
	size_t nheld, held_room;
	char (*dir)[EPD_WORKFLOW];
	size_t ndirs, dir_room;
	int dirfd, open_dir;		/* the folder that is open, -1: none */
	struct found *page;
	struct epd_pages_ask *a;
	uint32_t n;
	uint8_t *packed;
};

/* ---- runs ---- */

/* A workflow's folder by number, which stays its. */
static int
dir_of(struct epd_gift *g, const char *workflow)
{
	void *p;

	for (size_t i = g->ndirs; i > 0; i--)
		if (!strcmp(g->dir[i - 1], workflow))
			return (int)i - 1;
	if (!(p = epd_grow(g->dir, g->ndirs, &g->dir_room, sizeof *g->dir)))
		return -ENOMEM;
	g->dir = p;
	memcpy(g->dir[g->ndirs], workflow, strlen(workflow) + 1);
	return (int)g->ndirs++;
}

/* The folder, opened, till another one is. */
static int
open_dir(struct epd_gift *g, int dir)
{
	if (g->open_dir == dir)
		return g->dirfd;
	if (g->dirfd >= 0)
		close(g->dirfd);
	g->dirfd = epd_memory_find(g->s->memory, g->dir[dir]);
	g->open_dir = g->dirfd < 0 ? -1 : dir;
	return g->dirfd;
}

static int
open_run(const struct epd_gift *g, int dirfd, uint64_t run, struct held *out)
{
	struct epd_run_shape shape;
	struct epd_run *table;
	int rc = epd_run_table(&table, dirfd, run, &shape, NULL);

	if (rc < 0)
		return rc;
	rc = (g->probe ? epd_run_look : epd_run_open)(&out->map, dirfd, run,
	    &shape, epd_run_entries(table), epd_run_count(table), NULL);
	epd_run_close(table);
	if (rc < 0 || g->probe || g->nheld >= EPD_ASK_FILES)
		return rc < 0 ? rc : 0;
	out->fd = epd_run_file(dirfd, run);
	if (out->fd < 0)
		epd_run_close(out->map);
	return out->fd < 0 ? out->fd : 0;
}

/* The run, opened once. */
static int
hold(struct epd_gift *g, const char *workflow, uint64_t run)
{
	const int dir = dir_of(g, workflow);
	struct held h = { .run = run, .dir = dir, .fd = -1 };
	void *p;
	int rc;

	if (dir < 0)
		return dir;
	/* Pages come in order: it is most often the last one. */
	for (size_t i = g->nheld; i > 0; i--)
		if (g->held[i - 1].run == run && g->held[i - 1].dir == dir)
			return (int)i - 1;
	if (!(p = epd_grow(g->held, g->nheld, &g->held_room, sizeof *g->held)))
		return -ENOMEM;
	g->held = p;
	rc = open_dir(g, dir);
	if (rc < 0 || (rc = open_run(g, rc, run, &h)) < 0)
		return rc;
	g->held[g->nheld] = h;
	return (int)g->nheld++;
}

/* ---- finding ---- */

static int
same_shape(const struct epd_run_shape *a, const struct epd_run_shape *b)
{
	return a->type == b->type && a->tokens == b->tokens &&
	    a->bytes == b->bytes;
}

/* Page i lies in a run that is held. */
static int
enter(struct epd_gift *g, uint32_t i, int held, const struct epd_page_ref *ref)
{
	struct epd_page_ask *ask = g->a->page + i;
	const struct epd_run *map = g->held[held].map;
	const long hint = i && g->page[i - 1].held == held ?
	    g->page[i - 1].at + 1 : 0;
	const long at = epd_names_place(map, &ask->entry.name, hint);
	const struct epd_page_entry *e;
	struct epd_run_shape shape;

	if (at < 0)
		return (int)at;
	e = epd_run_entries(map) + at;
	if (ref && (e->rows != ref->rows || e->sum != ref->sum))
		return EPD_ECORRUPT;
	epd_run_shape_of(map, &shape);
	if (!g->a->shape.bytes)
		g->a->shape = shape;
	if (!same_shape(&g->a->shape, &shape))
		return EPD_ECORRUPT;
	ask->entry = *e;
	ask->there = 1;
	ask->bytes = shape.bytes;
	ask->packed_sum = e->sum;
	g->page[i] = (struct found){ .held = held, .at = at,
	    .bytes = shape.bytes };
	return 0;
}

static int
find_by_index(struct epd_gift *g, uint32_t i)
{
	struct epd_index_hit hit;
	int held;

	if (epd_index_find(epd_store_index(g->s), &g->a->page[i].entry.name,
	    &hit) <= 0 || !epd_workflow_name_ok(hit.workflow))
		return -ENOENT;
	held = hold(g, hit.workflow, hit.run);
	if (held < 0)
		return held;
	if (epd_run_is_given(g->held[held].map))
		return -ENOENT;
	return enter(g, i, held, NULL);
}

/* The index has whole pages alone: one that is not full lies behind the last of them. */
static int
find_behind(struct epd_gift *g, uint32_t i)
{
	const int held = i ? g->page[i - 1].held : -1;

	return held < 0 || epd_run_is_given(g->held[held].map) ? -ENOENT :
	    enter(g, i, held, NULL);
}

struct rows {
	struct epd_page_row *row;
	uint64_t n;
};

static int
find_in_state(struct epd_gift *g, uint32_t i, const struct rows *r,
    uint64_t *next)
{
	const struct epd_name *name = &g->a->page[i].entry.name;

	/* They are asked for in order, most often. */
	for (uint64_t k = 0; k < r->n; k++) {
		const uint64_t at = (*next + k) % r->n;
		const struct epd_page_row *row = r->row + at;
		int held;

		if (!epd_name_equal(&row->ref.name, name))
			continue;
		*next = at + 1;
		if (!row->run)
			return -ENOENT;
		held = hold(g, g->w.name, row->run);
		return held < 0 ? held : enter(g, i, held, &row->ref);
	}
	return -ENOENT;
}

/* It says nothing of the page: who is told that it is not there computes it again. */
static int
is_untold(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EIO;
}

static int
find_all(struct epd_gift *g, const struct rows *r)
{
	uint64_t next = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		int rc = -ENOENT;

		g->page[i].held = -1;
		g->a->page[i].there = 0;
		if (r->n)
			rc = find_in_state(g, i, r, &next);
		if (rc < 0 && !is_untold(rc))
			rc = find_by_index(g, i);
		if (rc == -ENOENT)
			rc = find_behind(g, i);
		if (is_untold(rc))
			return rc;
	}
	return 0;
}

static int
open_state(struct epd_gift *g, struct rows *r, struct epd_why *why)
{
	const struct epd_pages_ask *a = g->a;
	uint64_t node;
	int rc;

	if (!*a->workflow)
		return 0;
	rc = epd_workflow_open(&g->w, g->s, a->workflow, !g->s->procs, why);
	if (rc < 0)
		return rc;
	rc = epd_shard_holds(g->w.shard, a->state, a->version, &node);
	if (rc == 0)
		rc = epd_book_pages(g->w.shard, node, &r->row, &r->n);
	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", a->workflow, a->state,
		    epd_strerror(rc));
	/* Of one mid-hand-off the hand-off is the lease. */
	if (g->s->procs &&
	    epd_shard_lease(g->w.shard, a->state, a->version,
	    EPD_LEASE_TRANSFER, (uint64_t)g->s->config.lease_ms, &g->lease,
	    NULL) < 0)
		g->lease = 0;
	/* What rests comes to be given; what cannot is not there. */
	if (g->s->procs && !g->probe)
		(void)epd_rest_fill(&g->w, a->state, a->version);
	return 0;
}

/* ---- packing ---- */

/* Page i in the codec's form, behind at; it is not there if it cannot be. */
static int
pack_page(struct epd_gift *g, uint32_t i, const struct epd_codec *c,
    uint8_t *at, void *scratch)
{
	struct epd_page_ask *ask = g->a->page + i;
	const struct found *f = g->page + i;
	const struct epd_run_shape *shape = &g->a->shape;
	const uint64_t n = shape->bytes / (shape->type ? 2 : 4);
	struct epd_run *map = g->held[f->held].map;
	int64_t bytes;

	if (epd_run_verify(map, f->at) < 0)
		return 0;
	bytes = c->pack(at, epd_run_page(map, f->at), shape->type, n);
	if (bytes < 0 || (uint64_t)bytes > c->bound(shape->type, n) ||
	    c->unpack(scratch, shape->type, n, at, (uint64_t)bytes) < 0)
		return 0;
	ask->bytes = (uint64_t)bytes;
	ask->packed_sum = epd_xxh3_64(at, (size_t)bytes);
	ask->entry.sum = epd_xxh3_64(scratch, (size_t)shape->bytes);
	g->page[i].packed = at;
	g->page[i].bytes = (uint64_t)bytes;
	return 1;
}

static int
pack_all(struct epd_gift *g, const struct epd_codec *c, struct epd_why *why)
{
	const struct epd_run_shape *shape = &g->a->shape;
	const uint64_t n = shape->bytes / (shape->type ? 2 : 4);
	uint64_t each, at = 0;
	void *scratch;

	if (!shape->bytes)
		return 0;
	each = n % EPD_CODEC_ROW ? 0 : c->bound(shape->type, n);
	if (each && g->n > PACKED_MAX / each)
		return epd_why(why, EPD_ETOOBIG, "%u pages are more than are "
		    "packed at a time", g->n);
	if (!each)
		return epd_why(why, EPD_EUNSUPPORTED, "pages of %llu bytes do "
		    "not go into %s", (unsigned long long)shape->bytes,
		    c->name);
	g->packed = epd_calloc(g->n + 1u, (size_t)each);
	scratch = epd_malloc((size_t)shape->bytes);
	for (uint32_t i = 0; g->packed && scratch && i < g->n; i++) {
		if (g->page[i].held < 0)
			continue;
		if (pack_page(g, i, c, g->packed + at, scratch)) {
			at += g->a->page[i].bytes;
			continue;
		}
		g->page[i].held = -1;
		g->a->page[i].there = 0;
	}
	epd_free(scratch);
	return g->packed && scratch ? 0 : epd_why(why, -ENOMEM, "no memory");
}

/* ---- gifts ---- */

static int
find(struct epd_gift *g, const struct epd_codecs *codecs, struct epd_why *why)
{
	const struct epd_codec *c = epd_codec_of(codecs, g->a->codec);
	struct rows r = { .n = 0 };
	int rc;

	if (!c && *g->a->codec && strcmp(g->a->codec, "none"))
		return epd_why(why, EPD_EUNSUPPORTED, "%.15s: no such codec "
		    "here", g->a->codec);
	g->a->shape = (struct epd_run_shape){ .kind = EPD_OBJECT_KV_PAGE };
	if ((rc = open_state(g, &r, why)) == 0)
		rc = find_all(g, &r);
	epd_free(r.row);
	if (rc == 0 && c)
		rc = pack_all(g, c, why);
	return rc;
}

static int
find_gift(struct epd_gift **out, struct epd_store *s, int probe,
    const struct epd_codecs *codecs, struct epd_pages_ask *a,
    struct epd_why *why)
{
	struct epd_gift *g = epd_calloc(1, sizeof *g);
	int rc;

	if (!g)
		return epd_why(why, -ENOMEM, "no memory");
	g->s = s;
	g->probe = probe;
	g->a = a;
	g->n = a->n;
	g->dirfd = g->open_dir = -1;
	g->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
	g->page = epd_calloc(a->n + 1u, sizeof *g->page);
	rc = g->page ? find(g, codecs, why) : -ENOMEM;
	if (rc < 0) {
		epd_gift_free(g);
		return rc == -ENOMEM ? epd_why(why, rc, "no memory") : rc;
	}
	/* The question may go; what is there stays. */
	g->a = NULL;
	*out = g;
	return 0;
}

int
epd_gift_find(struct epd_gift **out, struct epd_store *s,
    const struct epd_codecs *codecs, struct epd_pages_ask *a,
    struct epd_why *why)
{
	return find_gift(out, s, 0, codecs, a, why);
}

void
epd_gift_free(struct epd_gift *g)
{
	if (!g)
		return;
	if (g->lease)
		(void)epd_shard_drop(g->w.shard, g->lease, "given", NULL);
	for (size_t i = 0; i < g->nheld; i++) {
		epd_run_close(g->held[i].map);
		if (g->held[i].fd >= 0)
			close(g->held[i].fd);
	}
	if (g->dirfd >= 0)
		close(g->dirfd);
	if (g->w.shard)
		epd_workflow_close(&g->w);
	epd_free(g->held);
	epd_free(g->dir);
	epd_free(g->page);
	epd_free(g->packed);
	epd_free(g);
}

uint32_t
epd_gift_files(const struct epd_gift *g)
{
	enum { FOLDER = 1, WORKFLOW = 6 };	/* its folders, its log and locks */
	const size_t files = g->nheld < EPD_ASK_FILES ? g->nheld :
	    EPD_ASK_FILES;

	return (uint32_t)files + FOLDER + (g->w.shard ? WORKFLOW : 0);
}

void
epd_gift_page(const struct epd_gift *g, uint32_t i, struct epd_extent *out)
{
	const struct found *f = g->page + i;
	const struct held *h = g->held + f->held;

	*out = (struct epd_extent){ .fd = -1, .p = f->packed,
	    .bytes = f->bytes };
	if (f->packed)
		return;
	out->fd = h->fd;
	out->at = epd_run_at(h->map, f->at);
	out->p = (void *)(uintptr_t)epd_run_page(h->map, f->at);
}

void
epd_gift_look(struct epd_gift *g, struct epd_pages_ask *a)
{
	for (uint32_t i = 0; i < a->n; i++) {
		struct found *f = g->page + i;

		if (!a->page[i].there || f->packed ||
		    epd_run_verify(g->held[f->held].map, f->at) == 0)
			continue;
		a->page[i].there = 0;
		f->held = -1;
		epd_count(g->s->metrics, EPD_M_PAGES_CORRUPT, 1);
	}
}

int
epd_gift_have(struct epd_store *s, const struct epd_page_ask *page, uint32_t n,
    uint8_t *have)
{
	struct epd_pages_ask a = { .n = n, .codec = "none" };
	struct epd_gift *g = NULL;
	int rc;

	if (!(a.page = epd_calloc(n + 1u, sizeof *a.page)))
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		a.page[i].entry.name = page[i].entry.name;
	rc = find_gift(&g, s, 1, NULL, &a, NULL);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		have[i] = a.page[i].there &&
		    a.page[i].entry.sum == page[i].entry.sum &&
		    a.page[i].entry.rows == page[i].entry.rows;
	epd_gift_free(g);
	epd_free(a.page);
	return rc;
}
