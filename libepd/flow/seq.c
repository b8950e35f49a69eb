/* seq.c - growing a sequence: tokens, images, fresh pages. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/seq.h"

enum { FIT = 64 };	/* pages the memory tier is asked to have room for at once */

void
epd_seq_begin(struct epd_seq *q, struct epd_session *s,
    struct epd_workflow *w, struct epd_runs *runs)
{
	*q = (struct epd_seq){ .s = s, .w = w, .runs = runs };
}

void
epd_seq_free(struct epd_seq *q)
{
	for (int i = 0; i < q->nown; i++)
		epd_free(q->own[i]);
	epd_free(q->own);
	for (int i = 0; i < q->nkept; i++)
		epd_run_close(q->kept[i]);
	epd_run_close(q->fresh);
	epd_free(q->kept);
	epd_free(q->visual);
	epd_free(q->anchors);
	epd_free(q->images);
	epd_free(q->ids);
	epd_free(q->page);
	epd_free(q->name);
	epd_free(q->pos);
	*q = (struct epd_seq){0};
}

/* Grow three arrays that run in parallel; each keeps what it holds on failure. */
static int
room_images(struct epd_seq *q, size_t n)
{
	void *p;

	if (!(p = epd_realloc(q->images, n * sizeof *q->images)))
		return -ENOMEM;
	q->images = p;
	if (!(p = epd_realloc(q->anchors, n * sizeof *q->anchors)))
		return -ENOMEM;
	q->anchors = p;
	if (!(p = epd_realloc(q->visual, n * sizeof *q->visual)))
		return -ENOMEM;
	q->visual = p;
	return 0;
}

int
epd_seq_extend(struct epd_seq *q, const int32_t *ids, size_t n,
    const struct epd_image_ref *images, void *const *rows, size_t nimages,
    struct epd_why *why)
{
	uint64_t most = (uint64_t)q->s->info->max_position;

	if (n > most || q->n + n > most)
		return epd_why(why, EPD_ETOOBIG, "%llu tokens are more than "
		    "the model's %llu positions",
		    (unsigned long long)(q->n + n), (unsigned long long)most);
	if (q->n + n > q->cap) {
		uint64_t cap = q->n + n + q->n / 2 + 64;
		void *p = epd_realloc(q->ids, cap * sizeof *q->ids);

		if (!p)
			return epd_why(why, -ENOMEM, "no memory");
		q->ids = p;
		q->cap = cap;
	}
	if (nimages && room_images(q, q->nimages + nimages) < 0)
		return epd_why(why, -ENOMEM, "no memory");
	memcpy(q->ids + q->n, ids, n * sizeof *ids);
	q->n += n;
	for (size_t i = 0; i < nimages; i++) {
		const struct epd_image_ref *r = images + i;
		struct epd_anchor a = {
			.at = (long)r->at,
			.t = (int32_t)r->grid[0],
			.h = (int32_t)r->grid[1],
			.w = (int32_t)r->grid[2],
		};

		q->images[q->nimages] = *r;
		q->anchors[q->nimages] = a;
		q->visual[q->nimages++] = (struct epd_visual){
			.at = a.at,
			.n = epd_anchor_tokens(q->s->model, &a),
			.type = q->s->feature_type,
			.rows = rows ? rows[i] : NULL,
		};
	}
	return 0;
}

/* Have the rows of each image that reaches into tokens [from, to). */
static int
visual(struct epd_seq *q, uint64_t from, uint64_t to, struct epd_why *why)
{
	for (uint32_t i = 0; i < q->nimages; i++) {
		struct epd_visual *v = q->visual + i;
		struct epd_feature f;
		void *buf, **own;
		size_t n;
		int rc;

		if (v->rows || (uint64_t)v->at >= to ||
		    (uint64_t)(v->at + v->n) <= from)
			continue;
		epd_session_feature(q->s, &q->images[i].fp, q->images[i].grid,
		    &f);
		n = epd_feature_bytes(&f);
		own = epd_realloc(q->own, (size_t)(q->nown + 1) * sizeof *own);
		if (!own)
			return epd_why(why, -ENOMEM, "no memory");
		q->own = own;
		if (!n || !(buf = epd_alloc_aligned(64, n)))
			return epd_why(why, -ENOMEM, "no memory");
		q->own[q->nown++] = buf;
		if ((rc = epd_flow_rows(q->s, &f, buf, n, why)) < 0)
			return rc;
		v->rows = buf;
	}
	return 0;
}

void
epd_seq_shape(const struct epd_session *s, struct epd_run_shape *out)
{
	*out = (struct epd_run_shape){
		.kind = EPD_OBJECT_KV_PAGE,
		.type = (uint32_t)s->shape.type,
		.tokens = (uint32_t)s->shape.tokens,
		.bytes = s->page_bytes,
	};
}

static int
begin_fresh(struct epd_seq *q, struct epd_why *why)
{
	struct epd_run_shape shape;
	int rc;

	epd_seq_shape(q->s, &shape);
	rc = epd_run_new(&q->fresh, q->w->runs, &shape);
	if (rc < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	q->first = (long)(q->rows / (uint64_t)shape.tokens);
	return 0;
}

int
epd_seq_table(struct epd_seq *q, long n)
{
	long cap = n + q->pcap / 2 + 16;
	void *p;

	if (n <= q->pcap)
		return 0;
	if (!(p = epd_realloc(q->page, (size_t)cap * sizeof *q->page)))
		return -ENOMEM;
	q->page = p;
	if (!(p = epd_realloc(q->name, (size_t)cap * sizeof *q->name)))
		return -ENOMEM;
	q->name = p;
	q->pcap = cap;
	return 0;
}

/* One more fresh page at index i; a partial page of the parent is copied in. */
static int
add_page(struct epd_seq *q, long i, struct epd_why *why)
{
	const size_t bytes = q->s->page_bytes;
	const void *old = i < q->npages ? q->page[i] : NULL;
	uint64_t from = epd_clock_boot_ns();
	void *page;
	int rc;

	if (epd_seq_table(q, i + 1) < 0)
		return epd_why(why, -ENOMEM, "no memory");
	if ((i - q->first) % FIT == 0 &&
	    (rc = epd_memory_fit(q->s->store->memory, FIT * bytes, NULL, NULL,
	    NULL, why)) < 0)
		return rc;
	if ((rc = epd_run_add(q->fresh, &page)) < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	if (old) {
		memcpy(page, old, bytes);
		epd_count(q->s->store->metrics, EPD_M_TAIL_PAGE_COPIES, 1);
		epd_count(q->s->store->metrics, EPD_M_TAIL_PAGE_COPY_NS,
		    epd_clock_boot_ns() - from);
	}
	q->page[i] = page;
	if (i >= q->npages)
		q->npages = i + 1;
	return 0;
}

int
epd_seq_chunk(struct epd_seq *q, uint64_t upto, struct epd_chunk *out,
    struct epd_why *why)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens, n = upto - q->rows;
	int rc;

	if (!q->fresh && (rc = begin_fresh(q, why)) < 0)
		return rc;
	for (long i = q->first + epd_run_count(q->fresh);
	    (uint64_t)i * t < upto; i++)
		if ((rc = add_page(q, i, why)) < 0)
			return rc;
	if ((rc = visual(q, q->rows, upto, why)) < 0)
		return rc;
	if ((long)n > q->npos) {
		void *p = epd_realloc(q->pos, n * sizeof *q->pos);

		if (!p)
			return epd_why(why, -ENOMEM, "no memory");
		q->pos = p;
		q->npos = (long)n;
	}
	epd_positions(q->s->model, q->anchors, (int)q->nimages, (long)q->rows,
	    (long)n, q->pos);
	*out = (struct epd_chunk){
		.ids = q->ids + q->rows,
		.pos = q->pos,
		.n = (long)n,
		.past = (long)q->rows,
		.visual = q->visual,
		.nvisual = (int)q->nimages,
		.pages = q->page,
	};
	return 0;
}

int
epd_seq_compute(struct epd_seq *q, uint64_t upto,
    const struct epd_prefill *p, struct epd_why *why)
{
	const uint64_t most = (uint64_t)q->s->store->config.chunk;
	struct epd_session *s = q->s;
	const uint64_t start = q->rows;
	uint64_t from = epd_clock_boot_ns();
	int rc;

	if (q->rows >= upto)
		return 0;
	if ((rc = epd_session_engine(s, why)) < 0)
		return rc;
	while (q->rows < upto) {
		uint64_t to = upto - q->rows > most ? q->rows + most : upto;
		struct epd_chunk c;

		if (p && p->stop && *p->stop)
			return epd_why(why, -EINTR, "interrupted");
		if ((rc = epd_seq_chunk(q, to, &c, why)) < 0 ||
		    (rc = epd_forward(s->engine, &s->shape, &c, 1, why)) < 0)
			return rc;
		q->computed += to - q->rows;
		q->rows = to;
		if (p && p->progress)
			p->progress(p->arg, to - start, upto - start);
	}
	epd_count(s->store->metrics, EPD_M_PREFILL_COUNT, 1);
	epd_count(s->store->metrics, EPD_M_PREFILL_TOKENS, upto - start);
	epd_count(s->store->metrics, EPD_M_PREFILL_NS,
	    epd_clock_boot_ns() - from);
	return 0;
}

/* Name page i by its tokens and the images that reach into it. */
static int
name_page(struct epd_seq *q, long i, struct epd_page_entry *e)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens, at = (uint64_t)i * t;
	struct epd_page_image small[8], *im = small;
	struct epd_name base;
	size_t n = 0, most = 0;

	e->rows = (uint32_t)(q->rows - at < t ? q->rows - at : t);
	for (uint32_t k = 0; k < q->nimages; k++)
		most += (uint64_t)q->visual[k].at < at + e->rows &&
		    (uint64_t)(q->visual[k].at + q->visual[k].n) > at;
	if (most > 8 && !(im = epd_malloc(most * sizeof *im)))
		return -ENOMEM;
	for (uint32_t k = 0; k < q->nimages; k++)
		if ((uint64_t)q->visual[k].at < at + e->rows &&
		    (uint64_t)(q->visual[k].at + q->visual[k].n) > at)
			im[n++] = (struct epd_page_image){
				.at = q->visual[k].at - (int64_t)at,
				.fp = q->images[k].fp,
			};
	if (i == 0)
		epd_session_base(q->s, &base);
	epd_page_name(&e->name, i ? q->name + i - 1 : &base, q->ids + at,
	    e->rows, im, n);
	q->name[i] = e->name;
	if (im != small)
		epd_free(im);
	return 0;
}

int
epd_seq_publish(struct epd_seq *q, uint64_t run, struct epd_version *v,
    struct epd_page_entry **entries, struct epd_why *why)
{
	long n = q->fresh ? epd_run_count(q->fresh) : 0;
	uint64_t from = epd_clock_boot_ns();
	struct epd_page_entry *e;
	int rc = 0;

	if (n == 0)
		return 0;
	if (!run && (rc = epd_run_id(&run)) < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (!(e = epd_calloc((size_t)n, sizeof *e)))
		return epd_why(why, -ENOMEM, "no memory");
	for (long i = 0; rc == 0 && i < n; i++)
		rc = name_page(q, q->first + i, e + i);
	if (rc == 0)
		rc = epd_run_publish(q->fresh, run, e, n);
	if (rc < 0) {
		epd_free(e);
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	}
	epd_count(q->s->store->metrics, EPD_M_PREFILL_PAGES, (uint64_t)n);
	epd_count(q->s->store->metrics, EPD_M_PD_TRANSFER_COUNT, 1);
	epd_count(q->s->store->metrics, EPD_M_PD_TRANSFER_NS,
	    epd_clock_boot_ns() - from);
	v->run = run;
	v->first_page = (uint32_t)q->first;
	v->npages = (uint32_t)n;
	*entries = e;
	return 0;
}
