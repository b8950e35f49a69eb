/* model_run.c - positions, towers and forward passes at their edges. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include "tests/check.h"
#include "tests/seq.h"
#include "tests/unit/model_dir.h"

static struct epd_model *
golden(const char *name)
{
	struct epd_model *m = NULL;
	struct epd_why why = { "" };
	char path[200];

	snprintf(path, sizeof path, GOLDEN "checkpoints/%s", name);
	if (epd_model_open(&m, path, &why) < 0)
		golden_die(name, why.text);
	return m;
}

static struct epd_engine *
engine(const struct epd_model *m, int threads)
{
	struct epd_engine *e = NULL;
	struct epd_why why = { "" };

	if (epd_engine_new(&e, m, threads, NULL, &why) < 0)
		golden_die("engine", why.text);
	return e;
}

static const char *const tiny[] = { "qwen2vl-tiny", "qwen25vl-tiny",
    "qwen3vl-tiny" };

/* Any part of the positions is that part of all of them. */
TEST(positions_in_parts)
{
	static const struct epd_anchor a[] = {
		{ 3, 1, 4, 6, 0 }, { 9, 1, 2, 2, 0 }, { 14, 3, 2, 4, 1.25f },
	};
	struct epd_model *m = golden("qwen25vl-tiny");
	int32_t all[30][3], part[30][3];
	/* 3 text, image of 6, image of 1, 4 text, video of 6, 10 text. */
	long next = epd_positions(m, a, 3, 0, 30, all);

	CHECK_INT(all[3][0], 3);
	CHECK_INT(all[8][1], 4);
	CHECK_INT(all[8][2], 5);
	CHECK_INT(all[9][0], 6);
	CHECK_INT(all[10][0], 7);
	CHECK_INT(all[14][0], 11);
	/* 2 a second, 1.25 seconds a step: 0, 2.5, 5. */
	CHECK_INT(all[16][0], 13);
	CHECK_INT(all[19][0], 16);
	CHECK_INT(all[20][0], 13);
	CHECK_INT(next, 23);
	for (long from = 0; from < 30; from++)
		for (long n = 0; n <= 30 - from; n++) {
			memset(part, 99, sizeof part);
			next = epd_positions(m, a, 3, from, n, part);
			CHECK(!memcmp(part, all + from,
			    (size_t)n * sizeof *part));
			if (from + n < 30 && (from + n < 3 ||
			    from + n == 10 || from + n >= 20))
				CHECK_INT(next, all[from + n][0]);
		}
	CHECK_INT(epd_positions(m, a, 1, 0, 5, part), 6);
	CHECK_INT(epd_positions(m, NULL, 0, 7, 0, part), 7);
	epd_model_close(m);
}

static int
image(struct epd_image *im, long w, long h, unsigned seed)
{
	im->w = w;
	im->h = h;
	im->rgb = epd_malloc((size_t)(w * h * 3));
	for (long i = 0; im->rgb && i < w * h * 3; i++) {
		seed = seed * 1664525 + 1013904223;
		im->rgb[i] = (uint8_t)(seed >> 24);
	}
	return im->rgb != NULL;
}

/*
 * A still picture stands for both halves of a pair of frames, so a video of
 * pairs of equal frames has the features of its pictures; here across slabs.
 */
TEST(videos_of_stills)
{
	for (int k = 0; k < 3; k++) {
		struct epd_model *m = golden(tiny[k]);
		struct epd_engine *e = engine(m, 2);
		const struct epd_model_info *i = epd_model_info(m);
		const long p = i->processor.patch, w = 22 * p, h = 18 * p;
		const long tokens = 22 * 18 / 4, size = tokens * i->hidden;
		const long layers = 1 + i->deepstack;
		float *all = epd_malloc((size_t)(3 * layers * size) * 4);
		float *one = epd_malloc((size_t)(layers * size) * 4);
		struct epd_image f[6];

		CHECK(all && one && image(&f[0], w, h, 1) &&
		    image(&f[2], w, h, 2) && image(&f[4], w, h, 3));
		for (int j = 0; j < 6; j += 2)
			f[j + 1] = f[j];
		CHECK_INT(epd_encode(e, f, 5, EPD_FAST, all, NULL), 0);
		for (int j = 0; j < 3; j++) {
			CHECK_INT(epd_encode(e, &f[2 * j], 1, EPD_FAST, one,
			    NULL), 0);
			for (long l = 0; l < layers; l++)
				CHECK(!memcmp(one + l * size, all + (l * 3 +
				    j) * size, (size_t)size * 4));
		}
		for (int j = 0; j < 6; j += 2)
			epd_image_free(&f[j]);
		epd_free(all);
		epd_free(one);
		epd_engine_free(e);
		epd_model_close(m);
	}
}

TEST(frames_refused)
{
	struct epd_model *m = golden("qwen2vl-tiny");
	struct epd_engine *e = engine(m, 1);
	struct epd_image f[2];
	struct epd_why why = { "" };
	float row[64];

	CHECK(image(&f[0], 28, 28, 1) && image(&f[1], 56, 28, 1));
	CHECK_INT(epd_encode(e, f, 1, EPD_FAST, row, NULL), 0);
	CHECK_INT(epd_encode(e, f, 0, EPD_FAST, row, &why), EPD_EFORMAT);
	CHECK_INT(epd_encode(e, f, 2, EPD_FAST, row, &why), EPD_EFORMAT);
	CHECK(strstr(why.text, "different sizes"));
	f[0].w = 14;
	CHECK_INT(epd_encode(e, f, 1, EPD_FAST, row, &why), EPD_EFORMAT);
	CHECK(strstr(why.text, "multiples of 28"));
	f[0].w = f[0].h = 28L << 40;
	CHECK_INT(epd_encode(e, f, 1, EPD_FAST, row, &why), EPD_ETOOBIG);
	epd_image_free(&f[0]);
	epd_image_free(&f[1]);
	epd_engine_free(e);
	epd_model_close(m);
}

/* More rows than a slab holds: as ever, the same bits in any pieces. */
TEST(long_chunks)
{
	struct epd_model *m = golden("qwen3vl-tiny");
	struct epd_engine *e = engine(m, 2);
	const long vocab = epd_model_info(m)->vocab;
	struct seq *s = seq_new(m, EPD_BF16, 32), *t = seq_new(m, EPD_BF16,
	    32);
	float *x = epd_malloc((size_t)(2 * vocab) * 4);

	CHECK(x);
	s->n = t->n = 777;
	for (long i = 0; i < s->n; i++)
		s->ids[i] = t->ids[i] = (int32_t)(i * i % 512);
	seq_place(s);
	seq_place(t);
	seq_run(e, s, 0, s->n, s->n, x);
	seq_run(e, t, 0, t->n, 100, x + vocab);
	CHECK(!memcmp(x, x + vocab, (size_t)vocab * 4));
	for (long p = 0; p * 32 < s->n; p++)
		CHECK(!memcmp(s->page[p], t->page[p],
		    epd_page_bytes(m, &s->shape)));
	epd_free(x);
	seq_free(s);
	seq_free(t);
	epd_engine_free(e);
	epd_model_close(m);
}

/*
 * Visual rows take the place of ids, in either type; what is not of this chunk
 * is not looked at.
 */
TEST(visual_rows)
{
	struct epd_model *m = golden("qwen3vl-tiny");
	struct epd_engine *e = engine(m, 1);
	const struct epd_model_info *i = epd_model_info(m);
	const long n = 6, size = (1 + i->deepstack) * n * i->hidden;
	struct seq *s = seq_new(m, EPD_F32, 16), *t = seq_new(m, EPD_F32, 16);
	float *rows = epd_malloc((size_t)size * 4), *x;
	uint16_t *half = epd_malloc((size_t)size * 2);

	x = epd_malloc((size_t)(2 * i->vocab) * 4);
	CHECK(rows && half && x);
	for (long k = 0; k < size; k++) {
		rows[k] = (float)(k % 17 - 8) / 8;	/* exact in bf16 */
		epd_bf16_from_f32(half + k, rows + k, 1);
	}
	s->n = t->n = 20;
	for (long k = 0; k < 20; k++)
		s->ids[k] = t->ids[k] = (int32_t)k;
	s->images = t->images = 2;
	s->anchor[0] = t->anchor[0] = (struct epd_anchor){ 0, 1, 4, 6, 0 };
	s->anchor[1] = t->anchor[1] = (struct epd_anchor){ 0, 1, 4, 6, 0 };
	for (int k = 0; k < 2; k++) {
		s->visual[k] = (struct epd_visual){ 0, n, EPD_F32, rows };
		t->visual[k] = (struct epd_visual){ 0, n, EPD_BF16, half };
	}
	for (int k = 0; k < 12; k++) {
		s->ids[2 + k + k / 6] = i->image_id;
		t->ids[2 + k + k / 6] = i->image_id;
	}
	seq_place(s);
	seq_place(t);
	for (int k = 0; k < 12; k++)
		t->ids[2 + k + k / 6] = -5;
	seq_run(e, s, 0, 20, 20, x);
	seq_run(e, t, 0, 20, 5, x + i->vocab);
	CHECK(!memcmp(x, x + i->vocab, (size_t)i->vocab * 4));
	/* And they matter, deepstack's too. */
	rows[size - 1] += 1;
	seq_run(e, s, 0, 20, 20, x);
	CHECK(memcmp(x, x + i->vocab, (size_t)i->vocab * 4));
	s->images = t->images = 0;
	epd_free(rows);
	epd_free(half);
	epd_free(x);
	seq_free(s);
	seq_free(t);
	epd_engine_free(e);
	epd_model_close(m);
}

TEST(calls_refused)
{
	struct epd_model *m = golden("qwen2vl-tiny");
	struct epd_engine *e = engine(m, 0);
	struct seq *s = seq_new(m, EPD_F32, 16);
	struct epd_page_shape shape = { EPD_F32, 16 };
	struct epd_why why = { "" };
	struct epd_chunk c;
	struct epd_engine *none = NULL;

	s->n = 4;
	seq_place(s);
	c = seq_chunk(s, 0, 4, NULL, 0);
	CHECK_INT(epd_forward(e, &shape, &c, 0, &why), 0);
	CHECK_INT(epd_forward(e, &shape, &c, 1, &why), 0);
	s->ids[2] = 560;
	CHECK_INT(epd_forward(e, &shape, &c, 1, &why), EPD_EFORMAT);
	CHECK(strstr(why.text, "token 2: id 560"));
	s->ids[2] = -1;
	CHECK_INT(epd_forward(e, &shape, &c, 1, &why), EPD_EFORMAT);
	s->ids[2] = 0;
	shape.tokens = 48;
	CHECK_INT(epd_forward(e, &shape, &c, 1, &why), EPD_EUSAGE);
	shape = (struct epd_page_shape){ EPD_F16, 16 };
	CHECK_INT(epd_forward(e, &shape, &c, 1, &why), EPD_EUSAGE);
	CHECK_INT(epd_engine_new(&none, m, 1, "vax", &why), EPD_EUSAGE);
	CHECK(strstr(why.text, "vax"));
	CHECK_INT(epd_engine_new(&none, m, -1, NULL, &why), EPD_EUSAGE);
	CHECK_INT(epd_engine_new(&none, m, 257, NULL, &why), EPD_EUSAGE);
	CHECK(!none);
	shape = (struct epd_page_shape){ EPD_BF16, 64 };
	CHECK_INT(epd_page_bytes(m, &shape), 3 * 2 * 2 * 64 * 16 * 2);
	seq_free(s);
	epd_engine_free(e);
	epd_engine_free(NULL);
	epd_model_close(m);
}

/*
 * The checkpoint with a value in one tensor, or in all whose name begins so if
 * that ends in a dot; or all widened to F32.
 */
static void
rewrite(struct dir *d, const char *checkpoint, const char *tensor,
    uint32_t value, int widen)
{
	const size_t len = strlen(tensor);
	const int all = len > 0 && tensor[len - 1] == '.';
	char path[200];
	struct epd_buf head = { 0 }, data = { 0 }, file = { 0 };
	struct epd_json_iter it;
	struct golden g;

	snprintf(path, sizeof path, GOLDEN "checkpoints/%s/model.safetensors",
	    checkpoint);
	g = golden_open(path);
	epd_buf_str(&head, "{");
	for (it = epd_json_begin(g.head); epd_json_next(&it);) {
		struct epd_json *shape = epd_json_get(it.value, "shape");
		const uint8_t *p;
		size_t from = data.n;
		long n;

		if (!(p = golden_tensor(&g, it.key, "BF16", &n)))
			continue;
		for (long i = 0; i < n * 2; i++) {
			uint32_t u = (uint32_t)(p[2 * i] | p[2 * i + 1] << 8);

			if (all ? !strncmp(it.key, tensor, len) :
			    i == 3 && !strcmp(it.key, tensor))
				u = value;
			if (widen)
				epd_pack_u32(&data, u << 16);
			else
				epd_pack_u16(&data, (uint16_t)u);
		}
		epd_buf_fmt(&head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":",
		    from ? "," : "", it.key, widen ? "F32" : "BF16");
		epd_json_dump(&head, shape);
		epd_buf_fmt(&head, ",\"data_offsets\":[%zu,%zu]}", from,
		    data.n);
	}
	/* An odd length, so that nothing is aligned. */
	epd_buf_str(&head, head.n % 2 ? "}  " : "} ");
	epd_buf_str(&head, head.n % 2 ? "" : " ");
	epd_pack_u64(&file, head.n);
	epd_buf_put(&file, head.p, head.n);
	epd_buf_put(&file, data.p, data.n);
	dir_put(d, "model.safetensors", file.p, file.n);
	dir_config(d, checkpoint, "{", "{");
	dir_link(d, checkpoint, "preprocessor_config.json");
	epd_buf_free(&head);
	epd_buf_free(&data);
	epd_buf_free(&file);
	golden_close(&g);
}

static int
run_once(const struct epd_model *m, float *logits, float *rows,
    struct epd_why *why)
{
	struct epd_engine *e = engine(m, 1);
	struct seq *s = seq_new(m, EPD_F32, 16);
	struct epd_chunk c;
	struct epd_image im;
	int rc;

	s->n = 20;
	for (long i = 0; i < s->n; i++)
		s->ids[i] = (int32_t)i;
	seq_place(s);
	c = seq_chunk(s, 0, s->n, logits, 0);
	rc = epd_forward(e, &s->shape, &c, 1, why);
	if (rc == 0 && rows && image(&im, 84, 56, 1)) {
		rc = epd_encode(e, &im, 1, EPD_FAST, rows, why);
		epd_image_free(&im);
	}
	seq_free(s);
	epd_engine_free(e);
	return rc;
}

/* bf16 weights widened in the file give the same bits, at odd addresses too. */
TEST(weights_of_other_types)
{
	struct epd_model *m = golden("qwen2vl-tiny"), *f32 = NULL;
	const struct epd_model_info *i = epd_model_info(m);
	struct dir d = dir_new();
	float *x = epd_malloc((size_t)(2 * i->vocab) * 4);
	float rows[2][6 * 64];

	CHECK(x);
	CHECK_INT(run_once(m, x, rows[0], NULL), 0);
	for (int widen = 0; widen < 2; widen++) {
		rewrite(&d, "qwen2vl-tiny", "", 0, widen);
		CHECK_INT(epd_model_open(&f32, d.path, NULL), 0);
		CHECK_INT(run_once(f32, x + i->vocab, rows[1], NULL), 0);
		CHECK(!memcmp(x, x + i->vocab, (size_t)i->vocab * 4));
		CHECK(!memcmp(rows[0], rows[1], sizeof rows[0]));
		epd_model_close(f32);
	}
	epd_free(x);
	dir_free(&d);
	epd_model_close(m);
}

TEST(numbers_that_are_not_finite)
{
	static const struct {
		const char *tensor;
		int vision;
		const char *says;
	} bad[] = {
		{ "model.norm.weight", 0, "logits" },
		{ "model.layers.1.mlp.down_proj.weight", 0, "keys" },
		{ "model.layers.2.self_attn.v_proj.bias", 0, "values" },
		{ "visual.blocks.1.mlp.fc1.bias", 1, "vision tower" },
	};
	struct dir d = dir_new();
	float *x, rows[6 * 64];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct epd_model *m = NULL;
		struct epd_why why = { "" };
		uint32_t value = i % 2 ? 0x7fc0 : 0x7f80;	/* NaN, inf */

		rewrite(&d, "qwen2vl-tiny", bad[i].tensor, value, 0);
		CHECK_INT(epd_model_open(&m, d.path, NULL), 0);
		x = epd_malloc((size_t)epd_model_info(m)->vocab * 4);
		CHECK(x);
		CHECK_INT(run_once(m, x, bad[i].vision ? rows : NULL, &why),
		    EPD_ENUMERIC);
		if (!strstr(why.text, bad[i].says))
			CHECK_FAIL("%s: %s", bad[i].tensor, why.text);
		/* Nobody asked for logits, but the pages would be bad. */
		if (i == 1 || i == 2)
			CHECK_INT(run_once(m, NULL, NULL, &why),
			    EPD_ENUMERIC);
		epd_free(x);
		epd_model_close(m);
	}
	dir_free(&d);
}

/* Values too small for normal numbers, and a caller that flushes such. */
TEST(denormals_stay)
{
#if defined __x86_64__
	const unsigned was = __builtin_ia32_stmxcsr();
	struct dir d = dir_new();
	struct epd_model *m = NULL;
	struct seq *s[2];
	struct epd_engine *e;
	float v;

	rewrite(&d, "qwen2vl-tiny", "model.layers.0.self_attn.v_proj.", 1, 0);
	CHECK_INT(epd_model_open(&m, d.path, NULL), 0);
	for (int threads = 1; threads <= 2; threads++) {
		e = engine(m, threads);
		for (int k = 0; k < 2; k++) {
			struct epd_chunk c;
			int rc;

			s[k] = seq_new(m, EPD_F32, 16);
			s[k]->n = 5;
			seq_place(s[k]);
			c = seq_chunk(s[k], 0, 5, NULL, 0);
			__builtin_ia32_ldmxcsr(k ? was | 0x8040 : was);
			rc = epd_forward(e, &s[k]->shape, &c, 1, NULL);
			__builtin_ia32_ldmxcsr(was);
			CHECK_INT(rc, 0);
		}
		v = seq_kv(s[0], 0, 0, 1, 0, 0);
		CHECK(v != 0 && !isnormal(v));
		CHECK(!memcmp(s[0]->page[0], s[1]->page[0],
		    epd_page_bytes(m, &s[0]->shape)));
		seq_free(s[0]);
		seq_free(s[1]);
		epd_engine_free(e);
	}
	epd_model_close(m);
	dir_free(&d);
#else
	SKIP("no flush-to-zero flag is known here");
#endif
}

static atomic_long left;	/* threads allocate too */

static int
refuse(void *arg, size_t n)
{
	(void)arg, (void)n;
	return atomic_fetch_sub(&left, 1) == 0;
}

/* Open, encode and forward with each allocation failing in turn. */
TEST(without_memory)
{
	struct seq *s;
	struct epd_image im;
	int done = 0, tries = 0;

	CHECK(image(&im, 84, 56, 1));
	for (long nth = 0; !done; nth++) {
		struct epd_model *m = NULL;
		struct epd_engine *e = NULL;
		struct epd_chunk c;
		float rows[3 * 6 * 64], x[560];
		int rc;

		atomic_store(&left, nth);
		epd_alloc_hook(refuse, NULL);
		rc = epd_model_open(&m, GOLDEN "checkpoints/qwen2vl-tiny",
		    NULL);
		if (rc == 0)
			rc = epd_engine_new(&e, m, 2, NULL, NULL);
		if (rc == 0)
			rc = epd_encode(e, &im, 1, EPD_FAST, rows, NULL);
		epd_alloc_hook(NULL, NULL);
		if (rc == 0) {
			s = seq_new(m, EPD_F32, 16);
			s->n = 20;
			seq_place(s);
			c = seq_chunk(s, 0, 20, x, 0);
			epd_alloc_hook(refuse, NULL);
			rc = epd_forward(e, &s->shape, &c, 1, NULL);
			epd_alloc_hook(NULL, NULL);
			/* An engine that failed once is whole. */
			if (rc < 0)
				CHECK_INT(epd_forward(e, &s->shape, &c, 1,
				    NULL), 0);
			seq_free(s);
		}
		done = rc == 0;
		if (!done)
			CHECK_INT(rc, -ENOMEM);
		epd_engine_free(e);
		epd_model_close(m);
		tries++;
	}
	CHECK(tries > 20);
	printf("# %d allocations\n", tries - 1);
	epd_image_free(&im);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
