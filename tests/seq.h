/*
 * seq.h - a sequence of the golden set for tests: ids, positions, images'
 * features and pages.  Whatever cannot be read ends the program.
 */
#ifndef TESTS_SEQ_H
#define TESTS_SEQ_H

#include "engine/engine.h"
#include "tests/golden.h"

enum { SEQ_TOKENS = 1024, SEQ_IMAGES = 8 };

struct seq {
	const struct epd_model *m;
	struct epd_page_shape shape;
	int32_t ids[SEQ_TOKENS], pos[SEQ_TOKENS][3];
	long n;
	struct epd_anchor anchor[SEQ_IMAGES];
	struct epd_visual visual[SEQ_IMAGES];
	float *rows[SEQ_IMAGES];
	int images;
	void *page[SEQ_TOKENS / 16];	/* NULL: not made yet */
	char shared[SEQ_TOKENS / 16];	/* another's, not to free */
};

static inline struct seq *
seq_new(const struct epd_model *m, enum epd_type type, int tokens)
{
	struct seq *s = epd_calloc(1, sizeof *s);

	if (!s)
		golden_die("sequence", "no memory");
	s->m = m;
	s->shape = (struct epd_page_shape){ type, tokens };
	return s;
}

static inline void
seq_free(struct seq *s)
{
	for (int i = 0; i < SEQ_TOKENS / 16; i++)
		if (!s->shared[i])
			epd_free(s->page[i]);
	for (int i = 0; i < s->images; i++)
		epd_free(s->rows[i]);
	epd_free(s);
}

static inline void
seq_ids(struct seq *s, const struct epd_json *ids)
{
	s->n = (long)epd_json_count(ids);
	if (s->n > SEQ_TOKENS)
		golden_die("input_ids", "too many");
	for (long i = 0; i < s->n; i++)
		s->ids[i] = (int32_t)epd_json_int(epd_json_at(ids, (size_t)i),
		    -1);
}

/* Decode by the rule for a PIL object, and resize as how says. */
static inline struct epd_image
seq_image(const struct epd_model *m, const char *path, enum epd_resampler how,
    int fit)
{
	const struct epd_image_rules rules = { 0, 1, 1 << 26 };
	struct epd_buf file = golden_read(path);
	struct epd_image in, out = { 0, 0, NULL };
	struct epd_why why = { "" };
	long w, h;

	if (epd_image_decode(&in, epd_span(file.p, file.n), &rules, &why) < 0)
		golden_die(path, why.text);
	epd_buf_free(&file);
	if (!fit)
		return in;
	if (epd_image_fit(&epd_model_info(m)->processor, in.w, in.h, &w, &h,
	    &why) < 0 || epd_image_resize(&out, &in, w, h, how) < 0)
		golden_die(path, "cannot be resized");
	epd_image_free(&in);
	return out;
}

/* Give images to the sequence: where they stand is told by place. */
static inline void
seq_encode(struct seq *s, struct epd_engine *e, const struct epd_image *f,
    int n, enum epd_resampler how)
{
	const struct epd_model_info *info = epd_model_info(s->m);
	struct epd_anchor *a = &s->anchor[s->images];
	struct epd_why why = { "" };
	long tokens;
	float *rows;

	a->t = (n + 1) / 2;
	a->h = (int32_t)(f->h / info->processor.patch);
	a->w = (int32_t)(f->w / info->processor.patch);
	tokens = epd_anchor_tokens(s->m, a);
	rows = epd_malloc((size_t)((1 + info->deepstack) * tokens *
	    info->hidden) * sizeof *rows);
	if (s->images == SEQ_IMAGES || !rows ||
	    epd_encode(e, f, n, how, rows, &why) < 0)
		golden_die("image", why.text);
	s->rows[s->images] = rows;
	s->visual[s->images] = (struct epd_visual){ 0, tokens, EPD_F32, rows };
	s->images++;
}

/* Qwen3-VL: a video's one anchor becomes one a pair of frames. */
static inline void
seq_split(struct seq *s)
{
	const struct epd_model_info *info = epd_model_info(s->m);
	const struct epd_anchor a = s->anchor[0];
	const struct epd_visual v = s->visual[0];
	const long n = v.n / a.t, layers = 1 + info->deepstack;
	const size_t size = (size_t)(n * info->hidden) * sizeof(float);
	float *all = s->rows[0];

	for (s->images = 0; s->images < a.t; s->images++) {
		const int i = s->images;
		float *rows = epd_malloc((size_t)layers * size);

		if (!rows)
			golden_die("video", "no memory");
		for (long l = 0; l < layers; l++)
			memcpy(rows + l * n * info->hidden, all + (l * v.n +
			    i * n) * info->hidden, size);
		s->rows[i] = rows;
		s->visual[i] = (struct epd_visual){ 0, n, EPD_F32, rows };
		s->anchor[i] = (struct epd_anchor){ 0, 1, a.h, a.w, 0 };
	}
	epd_free(all);
}

/* Find the placeholders, and all tokens' positions.  Returns rope_delta. */
static inline long
seq_place(struct seq *s)
{
	const struct epd_model_info *info = epd_model_info(s->m);
	long i = 0;

	for (int k = 0; k < s->images; k++) {
		while (i < s->n && s->ids[i] != info->image_id &&
		    s->ids[i] != info->video_id)
			i++;
		s->anchor[k].at = s->visual[k].at = i;
		i += s->visual[k].n;
		if (i > s->n)
			golden_die("input_ids", "too few placeholders");
	}
	return epd_positions(s->m, s->anchor, s->images, 0, s->n, s->pos) -
	    s->n;
}

/* Zeroed pages for the first n tokens. */
static inline void
seq_pages(struct seq *s, long n)
{
	for (long i = 0; i * s->shape.tokens < n; i++)
		if (!s->page[i] && !(s->page[i] = epd_calloc(1,
		    epd_page_bytes(s->m, &s->shape))))
			golden_die("pages", "no memory");
}

/* A chunk of tokens [past, past + n). */
static inline struct epd_chunk
seq_chunk(struct seq *s, long past, long n, float *logits, int all)
{
	seq_pages(s, past + n);
	return (struct epd_chunk){ s->ids + past,
	    (const int32_t (*)[3])(s->pos + past), n, past, s->visual,
	    s->images, s->page, logits, all };
}

/* Append a token, which is text. */
static inline void
seq_push(struct seq *s, int32_t id)
{
	s->ids[s->n] = id;
	epd_positions(s->m, s->anchor, s->images, s->n, 1, s->pos + s->n);
	s->n++;
}

static inline void
seq_forward(struct epd_engine *e, struct seq *s, const struct epd_chunk *c,
    long n)
{
	struct epd_why why = { "" };
	int rc = epd_forward(e, &s->shape, c, n, &why);

	if (rc < 0)
		golden_die("epd_forward", *why.text ? why.text :
		    epd_strerror(rc));
}

/* Tokens [past, past + n) in chunks of step; logits after the last. */
static inline void
seq_run(struct epd_engine *e, struct seq *s, long past, long n, long step,
    float *logits)
{
	for (long i = 0; i < n; i += step) {
		long m = n - i < step ? n - i : step;
		struct epd_chunk c = seq_chunk(s, past + i, m,
		    i + m == n ? logits : NULL, 0);

		seq_forward(e, s, &c, 1);
	}
}

/* Element d of token t's key (or value) in a page kept as floats. */
static inline float
seq_kv(const struct seq *s, long layer, long head, int value, long t, long d)
{
	const struct epd_model_info *i = epd_model_info(s->m);
	const long tokens = s->shape.tokens, in = t % tokens;
	const long plane = tokens * i->head_dim;
	const float *p = s->page[t / tokens];

	p += ((layer * i->kv_heads + head) * 2 + value) * plane;
	return value ? p[in * i->head_dim + d] :
	    p[(in / 16 * i->head_dim + d) * 16 + in % 16];
}

#endif
