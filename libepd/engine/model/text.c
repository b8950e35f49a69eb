/*
 * text.c - chunks of sequences into slabs of rows.  A slab goes through all
 * layers before the next begins, so a long chunk is a row of shorter ones.
 */
#include <errno.h>

#include "base/alloc.h"
#include "engine/model/pass.h"

size_t
epd_page_bytes(const struct epd_model *m, const struct epd_page_shape *s)
{
	const struct epd_kv kv = { s->type, (int)m->info.kv_heads,
	    (int)m->info.head_dim, s->tokens };

	return (size_t)m->info.layers * epd_kv_bytes(&kv);
}

void
epd_page_cut(const struct epd_model *m, const struct epd_page_shape *s,
    void *page, int rows)
{
	const struct epd_kv kv = { s->type, (int)m->info.kv_heads,
	    (int)m->info.head_dim, s->tokens };
	static const float zero[256];
	uint8_t *part = page;

	for (long layer = 0; layer < m->info.layers; layer++) {
		for (int head = 0; head < kv.heads; head++)
			for (int t = rows; t < kv.page; t++)
				epd_kv_put(&kv, part, head, t, zero, zero);
		part += epd_kv_bytes(&kv);
	}
}

/* The visual that covers token at, sought from *v on. */
static const struct epd_visual *
seen(const struct epd_chunk *c, int *v, long at)
{
	while (*v < c->nvisual && c->visual[*v].at + c->visual[*v].n <= at)
		++*v;
	return *v < c->nvisual && c->visual[*v].at <= at ? &c->visual[*v] :
	    NULL;
}

static int
check_chunk(const struct epd_model *m, const struct epd_chunk *c,
    struct epd_why *why)
{
	int v = 0;

	if (c->n < 0 || c->past < 0)
		return epd_why(why, EPD_EFORMAT, "a chunk of %ld tokens after "
		    "%ld", c->n, c->past);
	for (long i = 0; i < c->n; i++)
		if (!seen(c, &v, c->past + i) && (c->ids[i] < 0 ||
		    c->ids[i] >= m->info.vocab))
			return epd_why(why, EPD_EFORMAT, "token %ld: id %d is "
			    "not in the vocabulary of %ld", c->past + i,
			    (int)c->ids[i], m->info.vocab);
	return 0;
}

static long
pages_of(const struct epd_chunk *c, long end, int tokens)
{
	return (c->past + end + tokens - 1) / tokens;
}

/* Where the next row comes from. */
struct place {
	long chunk, in;
};

/*
 * Rows [0, most) from *at on; with row NULL only counted.  Each chunk begins
 * its own table of pages.
 */
static void
gather(struct epd_pass *p, const struct epd_chunk *chunk, long n,
    struct place *at, long most)
{
	p->n = p->entries = 0;
	while (at->chunk < n && p->n < most) {
		const struct epd_chunk *c = &chunk[at->chunk];
		long end = c->n - at->in < most - p->n ? c->n :
		    at->in + most - p->n;
		long pages = pages_of(c, end, p->kv.page);
		void **table = p->row ? p->table + p->entries : NULL;
		int v = 0;

		for (long i = 0; p->row && i < pages; i++)
			table[i] = c->pages[i];
		for (; at->in < end; at->in++, p->n++) {
			if (!p->row)
				continue;
			p->row[p->n] = (struct epd_row){ c, at->in,
			    seen(c, &v, c->past + at->in), table,
			    !c->logits ? NULL : c->all ? c->logits + at->in *
			    p->t->vocab : at->in == c->n - 1 ? c->logits :
			    NULL };
		}
		p->entries += pages;
		if (at->in == c->n)
			*at = (struct place){ at->chunk + 1, 0 };
	}
}

static void
carve(struct epd_pass *p, struct epd_carve *c, size_t rows, size_t entries,
    size_t apart)
{
	const struct epd_text_arch *t = p->t;
	const size_t hidden = (size_t)t->hidden, inner = (size_t)t->inner;
	const size_t q = (size_t)(t->heads * t->dim);
	const size_t kv = (size_t)(t->kv_heads * t->dim);
	const size_t half = (size_t)t->dim / 2;

	p->row = epd_carve(c, rows, sizeof *p->row);
	p->at = epd_carve(c, rows, sizeof *p->at);
	p->table = epd_carve(c, entries, sizeof *p->table);
	p->x = epd_carve(c, rows * hidden, sizeof *p->x);
	p->h = epd_carve(c, rows * hidden, sizeof *p->h);
	p->q = epd_carve(c, rows * q, sizeof *p->q);
	p->a = epd_carve(c, rows * q, sizeof *p->a);
	p->k = epd_carve(c, rows * kv, sizeof *p->k);
	p->v = epd_carve(c, rows * kv, sizeof *p->v);
	p->g = epd_carve(c, rows * inner, sizeof *p->g);
	p->u = epd_carve(c, rows * inner, sizeof *p->u);
	p->cs = epd_carve(c, rows * half, sizeof *p->cs);
	p->sn = epd_carve(c, rows * half, sizeof *p->sn);
	p->logits = epd_carve(c, apart * (size_t)t->vocab,
	    sizeof *p->logits);
}

/* Memory for the largest slab, kept by the engine for the next call. */
static int
make_room(struct epd_pass *p, const struct epd_chunk *chunk, long n)
{
	struct epd_engine *e = p->e;
	struct epd_carve c = { 0 };
	struct place at = { 0, 0 };
	long rows = 0, entries = 0, wanted = 0, apart;

	while (at.chunk < n) {
		gather(p, chunk, n, &at, EPD_SLAB);
		rows = p->n > rows ? p->n : rows;
		entries = p->entries > entries ? p->entries : entries;
	}
	for (long i = 0; i < n; i++)
		wanted += chunk[i].logits ? 1 : 0;
	apart = wanted < 2 ? 0 : EPD_APART;
	carve(p, &c, (size_t)rows, (size_t)entries, (size_t)apart);
	if (c.n > e->room_size) {
		epd_free(e->room);
		e->room_size = 0;
		if (!(e->room = epd_alloc_aligned(64, c.n)))
			return -ENOMEM;
		e->room_size = c.n;
	}
	c = (struct epd_carve){ e->room, 0 };
	carve(p, &c, (size_t)rows, (size_t)entries, (size_t)apart);
	return 0;
}

static int
run_slab(struct epd_pass *p, struct epd_why *why)
{
	int rc = 0;

	epd_pass_begin(p);
	for (long i = 0; rc == 0 && i < p->t->layers; i++)
		rc = epd_pass_layer(p, i, why);
	return rc == 0 ? epd_pass_logits(p, why) : rc;
}

int
epd_text_run(struct epd_engine *e, const struct epd_page_shape *s,
    const struct epd_chunk *chunk, long n, struct epd_why *why)
{
	const struct epd_model *m = e->m;
	struct epd_pass p = { .e = e, .t = &m->arch.text, .w = &m->weights };
	struct place at = { 0, 0 };
	int rc = 0;

	if ((s->type != EPD_F32 && s->type != EPD_BF16) ||
	    (s->tokens != 16 && s->tokens != 32 && s->tokens != 64))
		return epd_why(why, EPD_EUSAGE, "no such shape of page");
	for (long i = 0; rc == 0 && i < n; i++)
		rc = check_chunk(m, &chunk[i], why);
	if (rc < 0)
		return rc;
	p.kv = (struct epd_kv){ s->type, (int)p.t->kv_heads, (int)p.t->dim,
	    s->tokens };
	if ((rc = make_room(&p, chunk, n)) < 0)
		return rc;
	while (rc == 0 && at.chunk < n) {
		gather(&p, chunk, n, &at, EPD_SLAB);
		if (p.n > 0)
			rc = run_slab(&p, why);
	}
	return rc;
}
