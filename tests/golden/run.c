/*
 * run.c - a golden set against the engine.
 *
 *	run DIR [-v]
 *
 * One TAP line for each checkpoint, case and group of tensors, with the largest
 * difference; -v adds each tensor's.  The tolerances are those of the set's
 * README.  Every tensor of the set is either compared or named as another
 * test's; one that is neither fails.
 */
#include "tests/golden/compare.h"

/* Rows of layer l of all images, in order. */
static void
compare_rows(const struct seq *s, const char *name, long l)
{
	const long hidden = R.info->hidden;
	long n = 0;
	float *all;

	for (int i = 0; i < s->images; i++)
		n += s->visual[i].n;
	if (!(all = epd_malloc((size_t)(n * hidden) * sizeof *all)))
		golden_die(name, "no memory");
	n = 0;
	for (int i = 0; i < s->images; i++) {
		const long k = s->visual[i].n * hidden;

		memcpy(all + n, s->rows[i] + l * k, (size_t)k * 4);
		n += k;
	}
	near(name, all, n, tol_features);
	epd_free(all);
}

static void
check_grid(const struct seq *s, const char *key)
{
	const struct epd_json *grid = epd_json_get(R.c, key);

	if (!grid)
		return;
	expect(epd_json_count(grid) == (size_t)s->images, key);
	for (int i = 0; i < s->images && i < (int)epd_json_count(grid); i++) {
		const struct epd_json *g = epd_json_at(grid, (size_t)i);
		const struct epd_anchor *a = &s->anchor[i];

		expect(epd_json_int(epd_json_at(g, 0), 0) == a->t &&
		    epd_json_int(epd_json_at(g, 1), 0) == a->h &&
		    epd_json_int(epd_json_at(g, 2), 0) == a->w, key);
	}
}

static void
encode_frames(struct seq *s, const struct epd_json *frames)
{
	struct epd_image f[16];
	const struct epd_json *spg = epd_json_get(R.c, "second_per_grid_t");
	int n = (int)epd_json_count(frames);
	char path[300];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", R.dir, epd_json_str(
		    epd_json_at(frames, (size_t)i), ""));
		f[i] = seq_image(R.m, path, EPD_FAST, 0);
	}
	s->anchor[0].seconds = (float)epd_json_real(epd_json_at(spg, 0), 0);
	seq_encode(s, R.e, f, n, EPD_FAST);
	for (int i = 0; i < n; i++)
		epd_image_free(&f[i]);
}

/* The sequence of a case with its images encoded. */
static struct seq *
load(struct epd_json *c, enum epd_resampler how)
{
	struct seq *s = seq_new(R.m, EPD_F32, 16);
	const struct epd_json *images = epd_json_get(c, "images");
	char path[300];

	seq_ids(s, epd_json_get(c, "input_ids"));
	for (size_t i = 0; i < epd_json_count(images); i++) {
		struct epd_image im;

		snprintf(path, sizeof path, "%s/%s", R.dir,
		    epd_json_str(epd_json_at(images, i), ""));
		im = seq_image(R.m, path, how, 1);
		seq_encode(s, R.e, &im, 1, how);
		epd_image_free(&im);
	}
	if (epd_json_get(c, "frames"))
		encode_frames(s, epd_json_get(c, "frames"));
	return s;
}

static void
check_vision(struct seq *s)
{
	char name[32];

	begin_group();
	check_grid(s, "image_grid_thw");
	check_grid(s, "video_grid_thw");
	compare_tapes("pixel_values", tol_pixels);
	compare_tapes("vision_patch_embed", tol_features);
	compare_tapes("vision_block", tol_hidden);
	compare_tapes("vision_window_index", 0);
	compare_tapes("vision_cu_window_seqlens", 0);
	if (s->images > 0)
		compare_rows(s, "vision_features", 0);
	for (long l = 0; l < R.info->deepstack && s->images > 0; l++) {
		snprintf(name, sizeof name, "deepstack%ld", l);
		compare_rows(s, name, l + 1);
	}
	end_group("vision");
}

static void
check_positions(struct seq *s)
{
	int32_t turned[3 * SEQ_TOKENS];
	long delta;

	if (s->images > 0 && s->anchor[0].t > 1 &&
	    R.info->family == EPD_QWEN3_VL)
		seq_split(s);
	delta = seq_place(s);
	begin_group();
	for (int x = 0; x < 3; x++)
		for (long i = 0; i < s->n; i++)
			turned[x * s->n + i] = s->pos[i][x];
	equal("position_ids", turned, 3 * s->n);
	expect(delta == epd_json_int(epd_json_get(R.c, "rope_delta"), -999),
	    "rope_delta");
	end_group("positions");
}

static void
check_kv(const struct seq *s)
{
	const struct epd_model_info *i = R.info;
	const long size = i->kv_heads * s->n * i->head_dim;
	float *x = epd_malloc((size_t)size * sizeof *x);
	char name[40];

	if (!x)
		golden_die("kv", "no memory");
	begin_group();
	for (long l = 0; l < i->layers; l++)
		for (int value = 0; value < 2; value++) {
			float *p = x;

			for (long h = 0; h < i->kv_heads; h++)
				for (long t = 0; t < s->n; t++)
					for (long d = 0; d < i->head_dim; d++)
						*p++ = seq_kv(s, l, h, value,
						    t, d);
			snprintf(name, sizeof name, "%s_cache_layer%ld",
			    value ? "value" : "key", l);
			near(name, x, size, tol_hidden);
		}
	end_group("kv");
	epd_free(x);
}

static float *
floats(long n)
{
	float *p = epd_malloc((size_t)n * sizeof *p);

	if (!p)
		golden_die("logits", "no memory");
	return p;
}

static int
same_bits(const float *a, const float *b, long n)
{
	return !memcmp(a, b, (size_t)n * sizeof *a);
}

/* The prompt at once, probed; then again unprobed, all logits, in sevens. */
static void
check_prompt(struct seq *s, float *last)
{
	const long vocab = R.info->vocab;
	float *all = floats(s->n * vocab), *again = floats(vocab);
	struct epd_chunk c = seq_chunk(s, 0, s->n, last, 0);

	epd_engine_probe(R.e, record, NULL);
	seq_forward(R.e, s, &c, 1);
	epd_engine_probe(R.e, NULL, NULL);
	begin_group();
	compare_tapes("hidden_", tol_hidden);
	end_group("hidden");
	check_kv(s);

	c = seq_chunk(s, 0, s->n, all, 1);
	seq_forward(R.e, s, &c, 1);
	seq_run(R.e, s, 0, s->n, 7, again);
	begin_group();
	near("logits_last", last, vocab, tol_logits);
	near("logits_all", all, s->n * vocab, tol_logits);
	expect(same_bits(last, all + (s->n - 1) * vocab, vocab),
	    "logits of all rows have other bits");
	expect(same_bits(last, again, vocab), "chunks of 7 have other bits");
	end_group("logits");
	epd_free(again);
	epd_free(all);
}

static long
best(const float *x)
{
	long i;
	float v;

	i = epd_engine_kern(R.e)->top(R.info->vocab, x, &v);
	return i;
}

/*
 * Draw n tokens greedily onto s, whose last logits are in x; *after gets the
 * logits that chose the last of them.
 */
static void
greedy(struct seq *s, float *x, const struct epd_json *want, const char *what)
{
	long n = (long)epd_json_count(want), same = 0;

	for (long i = 0; i < n; i++) {
		int32_t id = (int32_t)best(x);

		same += id == epd_json_int(epd_json_at(want, (size_t)i), -1);
		seq_push(s, id);
		if (i < n - 1)
			seq_run(R.e, s, s->n - 1, 1, 1, x);
	}
	expect(same == n, what);
}

static void
check_greedy(struct seq *s, float *x)
{
	const struct epd_json *want = epd_json_get(R.c, "greedy");
	const long prompt = s->n;

	if (!want)
		return;
	begin_group();
	greedy(s, x, want, "greedy");
	equal("greedy_ids", s->ids + prompt, s->n - prompt);
	near("logits_after_greedy", x, R.info->vocab, tol_logits);
	end_group("greedy");
}

static void
check_pil(void)
{
	const struct epd_json *want = epd_json_get(R.c, "greedy_pil");
	struct seq *s;
	float *x;

	if (!want)
		return;
	s = load(R.c, EPD_PIL);
	x = floats(R.info->vocab);
	seq_place(s);
	seq_run(R.e, s, 0, s->n, s->n, x);
	begin_group();
	near("logits_last.pil", x, R.info->vocab, tol_logits);
	greedy(s, x, want, "greedy_pil");
	end_group("pil");
	epd_free(x);
	seq_free(s);
}

/* Positions as first releases gave them, taken from the set. */
static void
check_max_rule(struct seq *s)
{
	const int32_t *pos;
	float *x;
	long n;

	pos = tensor("position_ids.max_rule", "I32", &n);
	if (!pos || n != 3 * s->n)
		return;
	for (long i = 0; i < n; i++)
		s->pos[i % s->n][i / s->n] = pos[i];
	x = floats(R.info->vocab);
	seq_run(R.e, s, 0, s->n, s->n, x);
	begin_group();
	near("logits_last.max_rule", x, R.info->vocab, tol_logits);
	end_group("max_rule");
	epd_free(x);
	seq_place(s);
}

/* A second turn onto the first one's pages, drawn token by token. */
static void
check_turn(struct seq *s, const float *full)
{
	const struct epd_json *first = epd_json_get(epd_json_get(epd_json_get(
	    R.ck, "cases"), epd_json_str(epd_json_get(R.c, "continues"),
	    "")), "input_ids");
	const long prompt = (long)epd_json_count(first);
	const long cached = epd_json_int(epd_json_get(R.c, "cached_tokens"),
	    0);
	float *x;

	if (!first)
		return;
	x = floats(R.info->vocab);
	seq_run(R.e, s, 0, prompt, prompt, NULL);
	seq_run(R.e, s, prompt, cached - prompt, 1, NULL);
	seq_run(R.e, s, cached, s->n - cached, s->n, x);
	begin_group();
	near("logits_last_from_cache", x, R.info->vocab, tol_logits);
	expect(same_bits(x, full, R.info->vocab),
	    "from the cache: other bits than at once");
	end_group("from_cache");
	epd_free(x);
}

static void
run_case(const char *name, struct epd_json *c)
{
	struct seq *s;
	float *last, *x;

	R.name = name;
	R.c = c;
	epd_engine_probe(R.e, record, NULL);
	s = load(c, EPD_FAST);
	epd_engine_probe(R.e, NULL, NULL);
	check_vision(s);
	check_positions(s);
	last = floats(R.info->vocab);
	x = floats(R.info->vocab);
	check_prompt(s, last);
	check_turn(s, last);
	check_max_rule(s);
	seq_run(R.e, s, 0, s->n, s->n, x);
	check_greedy(s, x);
	check_pil();
	epd_free(x);
	epd_free(last);
	seq_free(s);
	forget();
}

/* fork0..2: one prefix, whole pages shared, branches in one call. */
static void
check_forks(struct epd_json *cases)
{
	const long vocab = R.info->vocab;
	struct seq *s[3], *whole;
	struct epd_chunk chunk[3];
	float *x = floats(4 * vocab);
	long common = 0;
	char name[16];

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "fork%d", i);
		if (!(R.c = epd_json_get(cases, name)))
			goto out;
		s[i] = load(R.c, EPD_FAST);
		seq_place(s[i]);
		common = epd_json_int(epd_json_get(R.c, "prefix_tokens"), 0);
		if (i == 0)
			seq_run(R.e, s[0], 0, common, common, NULL);
		for (long p = 0; i > 0 && p * 16 < common; p++) {
			s[i]->shared[p] = (p + 1) * 16 <= common;
			s[i]->page[p] = s[0]->page[p];
			if (s[i]->shared[p])
				continue;
			s[i]->page[p] = NULL;
			seq_pages(s[i], common);
			memcpy(s[i]->page[p], s[0]->page[p],
			    epd_page_bytes(R.m, &s[i]->shape));
		}
	}
	for (int i = 0; i < 3; i++)
		chunk[i] = seq_chunk(s[i], common, s[i]->n - common,
		    x + (2 - i) * vocab, 0);
	seq_forward(R.e, s[0], chunk, 3);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "fork%d", i);
		R.name = name;
		R.c = epd_json_get(cases, name);
		whole = load(R.c, EPD_FAST);
		seq_place(whole);
		seq_run(R.e, whole, 0, whole->n, whole->n, x + 3 * vocab);
		begin_group();
		near("logits_last", x + (2 - i) * vocab, vocab, tol_logits);
		expect(same_bits(x + (2 - i) * vocab, x + 3 * vocab, vocab),
		    "a branch has other bits than its sequence alone");
		end_group("forked");
		seq_free(whole);
	}
	for (int i = 2; i >= 0; i--)
		seq_free(s[i]);
out:
	epd_free(x);
}

/* batch0..2 prefilled in one call and drawn in step, against each alone. */
static void
check_batch(struct epd_json *cases)
{
	const long vocab = R.info->vocab;
	struct seq *s[3], *alone[3];
	struct epd_chunk chunk[3];
	float *x = floats(5 * vocab), *one = floats(3 * vocab);
	int same = 1;
	char name[16];

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "batch%d", i);
		if (!(R.c = epd_json_get(cases, name)))
			goto out;
		s[i] = load(R.c, EPD_FAST);
		alone[i] = load(R.c, EPD_FAST);
		seq_place(s[i]);
		seq_place(alone[i]);
		seq_run(R.e, alone[i], 0, alone[i]->n, alone[i]->n,
		    one + i * vocab);
		/* Apart in memory, so that rows are copied to their places. */
		chunk[i] = seq_chunk(s[i], 0, s[i]->n, x + i * 2 * vocab, 0);
	}
	seq_forward(R.e, s[0], chunk, 3);
	for (int step = 0; step < 16; step++) {
		for (int i = 0; i < 3; i++) {
			int32_t id = (int32_t)best(one + i * vocab);

			same &= same_bits(one + i * vocab,
			    x + i * 2 * vocab, vocab);
			seq_push(alone[i], id);
			seq_push(s[i], id);
			seq_run(R.e, alone[i], alone[i]->n - 1, 1, 1,
			    one + i * vocab);
			chunk[i] = seq_chunk(s[i], s[i]->n - 1, 1,
			    x + i * 2 * vocab, 0);
		}
		seq_forward(R.e, s[0], chunk, 3);
	}
	R.name = "batch";
	begin_group();
	expect(same, "drawn together: other bits than alone");
	end_group("together");
	for (int i = 0; i < 3; i++) {
		seq_free(s[i]);
		seq_free(alone[i]);
	}
out:
	epd_free(x);
	epd_free(one);
}

/* Nothing in the set may go unlooked at by mistake. */
static void
check_done(void)
{
	struct epd_json_iter it = epd_json_begin(R.g.head);

	R.name = "all";
	begin_group();
	for (size_t i = 0; epd_json_next(&it); i++)
		if (!R.done[i] && strcmp(it.key, "__metadata__") &&
		    !strstr(it.key, "/sampling_"))
			fail(it.key);
	R.compared = 1;
	end_group("every tensor looked at");
}

static void
run_checkpoint(const char *name, struct epd_json *ck)
{
	struct epd_json *cases = epd_json_get(ck, "cases");
	struct epd_json_iter it = epd_json_begin(cases);
	struct epd_why why = { "" };
	char path[300];

	R.checkpoint = name;
	R.ck = ck;
	snprintf(path, sizeof path, "%s/%s", R.dir,
	    epd_json_str(epd_json_get(ck, "goldens"), ""));
	R.g = golden_open(path);
	R.done = epd_calloc(epd_json_count(R.g.head) + 1, 1);
	snprintf(path, sizeof path, "%s/%s", R.dir,
	    epd_json_str(epd_json_get(ck, "path"), ""));
	if (!R.done || epd_model_open(&R.m, path, &why) < 0 ||
	    epd_engine_new(&R.e, R.m, 2, NULL, &why) < 0)
		golden_die(path, why.text);
	R.info = epd_model_info(R.m);
	while (epd_json_next(&it))
		run_case(it.key, it.value);
	check_forks(cases);
	check_batch(cases);
	check_done();
	epd_engine_free(R.e);
	epd_model_close(R.m);
	epd_free(R.done);
	golden_close(&R.g);
}

int
main(int argc, char **argv)
{
	struct epd_json *manifest;
	struct epd_json_iter it;
	char path[300];

	if (argc < 2) {
		fprintf(stderr, "usage: run DIR [-v]\n");
		return 2;
	}
	R.dir = argv[1];
	R.verbose = argc > 2 && !strcmp(argv[2], "-v");
	snprintf(path, sizeof path, "%s/manifest.json", R.dir);
	manifest = golden_json(path);
	it = epd_json_begin(epd_json_get(manifest, "checkpoints"));
	while (epd_json_next(&it))
		run_checkpoint(it.key, it.value);
	epd_json_free(manifest);
	printf("1..%d\n", R.lines);
	return R.bad;
}
