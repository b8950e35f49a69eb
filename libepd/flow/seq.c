/* seq.c - growing a sequence: its tokens and images, and computing them. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/reuse.h"

void
epd_seq_begin(struct epd_seq *q, struct epd_session *s,
    struct epd_workflow *w, struct epd_runs *runs)
{
	*q = (struct epd_seq){ .s = s, .w = w, .runs = runs,
		.used_ns = epd_clock_wall_ms() * 1000000 + 999999 };
	epd_session_base(s, &q->base);
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
	for (uint32_t i = 0; i < q->ntakes; i++)
		epd_free(q->take[i].entry);
	epd_free(q->take);
	epd_free(q->link);
	epd_free(q->kept);
	epd_free(q->visual);
	epd_free(q->anchors);
	epd_free(q->images);
	epd_free(q->ids);
	epd_free(q->page);
	epd_free(q->name);
	epd_free(q->pos);
	if (q->exact)
		epd_seq_free(q->exact);
	epd_free(q->exact);
	*q = (struct epd_seq){0};
}

/* Patches to a side, and pictures one behind another; what has more is none. */
enum { PATCHES_MOST = 1 << 16 };

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

/* Each in its place behind the one before, within the tokens. */
static int
check_images(const struct epd_seq *q, uint64_t tokens,
    const struct epd_image_ref *r, size_t n, struct epd_why *why)
{
	const struct epd_visual *last = q->nimages ? q->visual + q->nimages - 1 :
	    NULL;
	uint64_t end = last ? (uint64_t)(last->at + last->n) : 0;

	for (size_t i = 0; i < n; i++) {
		const struct epd_anchor a = { .at = 0, .t = (int32_t)r[i].grid[0],
		    .h = (int32_t)r[i].grid[1], .w = (int32_t)r[i].grid[2] };
		const uint64_t most = PATCHES_MOST;
		const int can_be = r[i].grid[0] <= most &&
		    r[i].grid[1] <= most && r[i].grid[2] <= most;
		const long takes = can_be ?
		    epd_anchor_tokens(q->s->model, &a) : 0;

		if (takes <= 0 || r[i].at < end || r[i].at > tokens ||
		    (uint64_t)takes > tokens - r[i].at)
			return epd_why(why, EPD_EFORMAT, "image %zu lies outside "
			    "the tokens, or on another", q->nimages + i);
		end = r[i].at + (uint64_t)takes;
	}
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
	if (check_images(q, q->n + n, images, nimages, why) < 0)
		return EPD_EFORMAT;
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

enum { BEAT = 256 };	/* tokens computed between two beats, at most */

static int
beat(struct epd_seq *q, struct epd_why *why)
{
	return q->beat ? q->beat(q->beat_arg, why) : 0;
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
		if ((rc = beat(q, why)) < 0 ||
		    (rc = epd_flow_rows(q->s, &f, buf, n, why)) < 0)
			return rc;
		v->rows = buf;
	}
	return 0;
}

int
epd_seq_chunk(struct epd_seq *q, uint64_t upto, struct epd_chunk *out,
    struct epd_why *why)
{
	const uint64_t n = upto - q->rows;
	int rc;

	if ((rc = epd_seq_room(q, upto, why)) < 0 ||
	    (rc = visual(q, q->rows, upto, why)) < 0)
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
	const uint64_t chunk = (uint64_t)q->s->store->config.chunk,
	    most = q->beat && chunk > BEAT ? BEAT : chunk;
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

		if (q->stop && *q->stop)
			return epd_why(why, -EINTR, "interrupted");
		if ((rc = beat(q, why)) < 0 ||
		    (rc = epd_seq_chunk(q, to, &c, why)) < 0 ||
		    (rc = epd_session_forward(s, &c, 1, why)) < 0)
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
