/*
 * whole.c - tokens are copied, pages linked.  A path that has pages in many runs
 * gets a link of its own to each; one that cannot be linked (another file
 * system, too many links) is copied.  What is lost, damaged, or has no room there
 * has a link that leads to no file, as if it had been evicted: it is computed
 * again when the state is next used, and compared with the record.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/names.h"
#include "flow/room.h"
#include "flow/whole.h"

static int
keep_strings(struct epd_whole *f)
{
	struct epd_state *st = &f->traits;
	const char **s[] = { &st->model_path, &st->tenant, &st->fingerprint };
	size_t n = 0;
	char *p;

	for (int i = 0; i < 3; i++)
		n += strlen(*s[i]) + 1;
	if (!(p = f->strings = epd_malloc(n)))
		return -ENOMEM;
	for (int i = 0; i < 3; i++) {
		n = strlen(*s[i]) + 1;
		*s[i] = memcpy(p, *s[i], n);
		p += n;
	}
	return 0;
}

/* Tokens and images of the path, in order. */
static int
gather(struct epd_whole *f, struct epd_shard *s, const struct epd_chain *c)
{
	struct epd_version v;
	uint64_t tokens = 0, images = 0;
	struct epd_image_ref *im;
	int32_t *ids;
	int rc;

	for (size_t i = 0; i < c->n; i++) {
		if ((rc = epd_shard_node(s, c->node[i], &v)) < 0)
			return rc;
		tokens = v.start + v.nids;
		images += v.nimages;
	}
	if (tokens > UINT32_MAX || images > UINT32_MAX)
		return EPD_ETOOBIG;
	f->v.ids = ids = epd_calloc(tokens + 1, sizeof *ids);
	f->v.images = im = epd_calloc(images + 1, sizeof *im);
	if (!ids || !im)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		if ((rc = epd_shard_node(s, c->node[i], &v)) < 0)
			return rc;
		if (v.start + v.nids > tokens)
			return EPD_ECORRUPT;
		memcpy(ids + v.start, v.ids, v.nids * sizeof *ids);
		memcpy(im + f->v.nimages, v.images, v.nimages * sizeof *im);
		f->v.nimages += v.nimages;
	}
	f->v.nids = (uint32_t)tokens;
	return 0;
}

static int
make(struct epd_whole *f, struct epd_workflow *from, uint32_t state,
    uint32_t version)
{
	struct epd_chain c = {0};
	struct epd_version head;
	int rc = epd_shard_state(from->shard, state, &f->traits);

	if (rc == 0)
		rc = keep_strings(f);
	if (rc == 0)
		rc = epd_shard_version(from->shard, state, version, &head);
	if (rc < 0)
		return rc;
	f->v.next_pos = head.next_pos;
	f->v.turn = head.turn;
	f->v.finish = head.finish;
	f->v.sampling = head.sampling;
	f->v.has_lengths = head.has_lengths;
	f->v.text_bytes = head.text_bytes;
	f->v.messages_bytes = head.messages_bytes;
	f->given = head.given;
	f->traits.parent_state = f->traits.parent_version = 0;
	rc = epd_chain_of(&c, from->shard, state, version);
	if (rc == 0)
		rc = gather(f, from->shard, &c);
	if (rc == 0)
		rc = epd_book_pages(from->shard, c.node[c.n - 1], &f->row,
		    &f->rows);
	epd_chain_free(&c);
	return rc;
}

int
epd_whole_make(struct epd_whole *out, struct epd_workflow *from, uint32_t state,
    uint32_t version, struct epd_why *why)
{
	struct epd_whole f = {0};
	int rc = make(&f, from, state, version);

	if (rc < 0) {
		epd_whole_free(&f);
		return epd_why(why, rc, "%s/s%u: %s", from->name, state,
		    epd_strerror(rc));
	}
	*out = f;
	return 0;
}

void
epd_whole_free(struct epd_whole *f)
{
	epd_free((void *)(uintptr_t)f->v.ids);
	epd_free((void *)(uintptr_t)f->v.images);
	epd_free((void *)(uintptr_t)f->v.pages);
	epd_free((void *)(uintptr_t)f->v.links);
	epd_free(f->row);
	epd_free(f->strings);
	epd_free(f->fingerprint);
	*f = (struct epd_whole){0};
}

/* Pages [at, at + n) of it, which lie in one run. */
struct stretch {
	uint64_t at, n, run;
	struct epd_page_entry *entry;
};

static void
next_stretch(const struct epd_whole *f, uint64_t at, struct stretch *out)
{
	*out = (struct stretch){ .at = at, .run = f->row[at].run };
	while (at + out->n < f->rows && f->row[at + out->n].run == out->run)
		out->n++;
}

static int
entries(const struct epd_whole *f, struct stretch *s)
{
	if (!(s->entry = epd_calloc(s->n, sizeof *s->entry)))
		return -ENOMEM;
	for (uint64_t i = 0; i < s->n; i++) {
		const struct epd_page_ref *r = &f->row[s->at + i].ref;

		s->entry[i] = (struct epd_page_entry){
			.name = r->name, .rows = r->rows, .sum = r->sum,
		};
	}
	return 0;
}

/* The run mapped whole, and where in it the stretch is. */
static int
find(const struct epd_whole *f, const struct stretch *s, int from,
    struct epd_run **out, long *at)
{
	const struct epd_page_entry *e;
	struct epd_run_shape shape;
	struct epd_run *table, *map;
	long k;
	int rc = epd_run_table(&table, from, s->run, &shape, NULL);

	if (rc < 0)
		return rc;
	if (shape.type != f->traits.kv_type ||
	    shape.tokens != f->traits.page_tokens ||
	    shape.bytes != f->traits.page_bytes)
		rc = EPD_ECORRUPT;
	if (rc == 0)
		rc = epd_run_open(&map, from, s->run, &shape,
		    epd_run_entries(table), epd_run_count(table), NULL);
	epd_run_close(table);
	if (rc < 0)
		return rc;
	e = epd_run_entries(map);
	k = epd_names_place(map, &s->entry->name, 0);
	if (k < 0 || k + (long)s->n > epd_run_count(map))
		rc = EPD_ECORRUPT;
	for (long i = 0; rc == 0 && i < (long)s->n; i++)
		if (e[k + i].rows != s->entry[i].rows ||
		    e[k + i].sum != s->entry[i].sum ||
		    !epd_name_equal(&e[k + i].name, &s->entry[i].name))
			rc = EPD_ECORRUPT;
	if (rc < 0) {
		epd_run_close(map);
		return rc;
	}
	*out = map;
	*at = k;
	return 0;
}

static int
room(struct epd_store *store, uint64_t bytes)
{
	struct epd_memory_fit fit;
	int rc = epd_store_room(store, bytes, &fit, NULL);

	return rc == 0 && fit.over ? -ENOSPC : rc;
}

static int
copy(const struct epd_whole *f, const struct stretch *s, int from,
    struct epd_store *store, int to, uint64_t as)
{
	const struct epd_run_shape shape = {
		.kind = EPD_OBJECT_KV_PAGE, .type = f->traits.kv_type,
		.tokens = f->traits.page_tokens, .bytes = f->traits.page_bytes,
	};
	struct epd_run *map = NULL, *r = NULL;
	void *page;
	long k = 0;
	int rc = find(f, s, from, &map, &k);

	if (rc == 0)
		rc = room(store, s->n * shape.bytes);
	if (rc == 0)
		rc = epd_run_new(&r, to, &shape);
	if (rc == 0 && (f->given || f->foreign || epd_run_is_given(map)))
		epd_run_given(r);
	for (long i = 0; rc == 0 && i < (long)s->n; i++)
		if ((rc = epd_run_verify(map, k + i)) == 0 &&
		    (rc = epd_run_add(r, &page)) == 0)
			memcpy(page, epd_run_page(map, k + i),
			    (size_t)shape.bytes);
	if (rc == 0)
		rc = epd_run_publish(r, as, s->entry, (long)s->n);
	epd_run_close(r);
	epd_run_close(map);
	return rc;
}

/*
 * Found by name there too, once the name they had at home has gone; but another
 * store's word for what is in them is good for the state that came with them,
 * no other.
 */
static void
put_in_index(const struct epd_whole *f, struct epd_store *store,
    const struct epd_workflow *to, uint64_t run)
{
	struct epd_run_shape shape;
	struct epd_run *table;

	if (f->given || f->foreign ||
	    epd_run_table(&table, to->runs, run, &shape, NULL) < 0)
		return;
	if (!epd_run_is_given(table))
		epd_index_put(epd_store_index(store), to->name, run,
		    f->traits.page_tokens, epd_run_entries(table),
		    epd_run_count(table));
	epd_run_close(table);
}

/* The pages of a stretch under the link's id: 1, 0 if not to be had, -ENOMEM. */
static int
move_stretch(struct epd_whole *f, struct stretch *s, uint64_t as, int from,
    struct epd_store *store, const struct epd_workflow *to,
    struct epd_moved *moved)
{
	int rc;

	if (from < 0 || to->runs < 0 || !s->run)
		return 0;
	if ((rc = entries(f, s)) < 0)
		return rc;
	if (epd_run_link(from, s->run, to->runs, as) == 0) {
		moved->linked += s->n;
		epd_count(store->metrics, EPD_M_VIA_LINK_BYTES, s->n *
		    f->traits.page_bytes);
		epd_count(store->metrics, EPD_M_VIA_LINK_COUNT, 1);
		rc = 1;
	} else if ((rc = copy(f, s, from, store, to->runs, as)) == 0) {
		moved->copied += s->n;
		moved->bytes += s->n * f->traits.page_bytes;
		rc = 1;
	} else if (rc != -ENOMEM) {
		rc = 0;
	}
	if (rc > 0)
		put_in_index(f, store, to, as);
	epd_free(s->entry);
	return rc;
}

int
epd_links_add(struct epd_version *v, uint32_t pages, uint64_t *run)
{
	struct epd_run_link *link = (struct epd_run_link *)(uintptr_t)v->links +
	    v->nlinks;
	int rc = epd_run_id(run);

	if (rc < 0)
		return rc;
	*link = (struct epd_run_link){ .run = *run, .pages = pages };
	v->nlinks++;
	return 0;
}

void
epd_links_undo(struct epd_version *v, int runs)
{
	for (uint32_t i = 0; runs >= 0 && i < v->nlinks; i++)
		(void)epd_run_free(runs, v->links[i].run);
	v->nlinks = 0;
}

int
epd_links_are_late(struct epd_shard *s, uint32_t state,
    const struct epd_version *v)
{
	struct epd_version first;

	return epd_shard_version(s, state, 1, &first) == 0 &&
	    epd_version_run(&first, 0) != epd_version_run(v, 0);
}

/* Record the pages from `at` on that lie in one run, and have them if they are. */
static int
add_stretch(struct epd_whole *f, struct stretch *s, uint64_t at, int from,
    struct epd_store *store, const struct epd_workflow *to,
    struct epd_moved *moved)
{
	uint64_t run;
	int rc;

	next_stretch(f, at, s);
	if ((rc = epd_links_add(&f->v, (uint32_t)s->n, &run)) < 0)
		return rc;
	f->v.npages += (uint32_t)s->n;
	rc = move_stretch(f, s, run, from, store, to, moved);
	if (rc == 0)
		moved->missing += s->n;
	return rc;
}

int
epd_whole_pages(struct epd_whole *f, int from, struct epd_store *store,
    const struct epd_workflow *to, struct epd_moved *moved,
    struct epd_why *why)
{
	struct epd_page_ref *pages = epd_calloc(f->rows + 1, sizeof *pages);
	struct stretch s;
	int rc = 0, had = 0;

	f->v.pages = pages;
	f->v.links = epd_calloc(f->rows + 1, sizeof *f->v.links);
	if (!pages || !f->v.links)
		return epd_why(why, -ENOMEM, "no memory");
	for (uint64_t i = 0; i < f->rows; i++)
		pages[i] = f->row[i].ref;
	for (uint64_t at = 0; rc >= 0 && at < f->rows; at += s.n) {
		rc = add_stretch(f, &s, at, from, store, to, moved);
		had |= rc > 0;
	}
	if (rc < 0) {
		epd_whole_undo(f, to->runs);
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	}
	/*
	 * What is computed behind them stays where they do.  Where none of
	 * another store's are here all that will be is computed here.
	 */
	f->v.given = f->v.npages && (f->given || (f->foreign && had));
	return 0;
}

void
epd_whole_undo(struct epd_whole *f, int to)
{
	epd_links_undo(&f->v, to);
	f->v.npages = 0;
}

/* ---- features ---- */

int
epd_whole_features(const struct epd_whole *f, struct epd_store *from,
    struct epd_store *to, struct epd_moved *moved, struct epd_why *why)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && from != to && i < f->v.nimages; i++)
		rc = epd_feature_copy(from->features, &f->v.images[i].fp,
		    to->features, &moved->bytes);
	return rc < 0 ? epd_why(why, rc, "features: %s", epd_strerror(rc)) : 0;
}
