/*
 * eval.c - a model's questions, answered through a store.
 *
 *	eval [DIR]	(default examples/tiny-vlm)
 *
 * Every question of DIR/samples/samples.jsonl and eval.jsonl goes through
 * encode, prefill and decode, greedily, with KV and features in float, as the
 * reference computed its answers.  One TAP line a question; then accuracy by
 * ability beside the reference's.
 *
 * An answer must be the reference's, token by token.  Only where the two most
 * probable tokens lie within the tolerance of a logit may they part, and each
 * such place is listed: margin is the reference's own at the first token,
 * which the files tell, and ours after that.
 */
#include <math.h>

#include "flow/flow.h"
#include "tests/golden.h"
#include "tests/unit/scratch.h"

static const double tol = 1e-3;		/* of a logit */

enum { MOST = 96, IMAGES = 16, TOP = 20, ABILITIES = 64 };

struct answer {
	int32_t ids[MOST], second[MOST];
	double margin[MOST];
	struct epd_sampled first[TOP];	/* before the first token */
	int n;
	struct epd_buf text;
};

struct ability {
	char name[40];
	int all, ours, theirs;
};

static struct run {
	const char *dir, *set;		/* set: "samples" or "eval" */
	struct epd_store *store;
	struct epd_session *session;
	struct epd_json *row;
	char label[96];
	int jpeg;			/* among its pictures */
	int lines, bad, wrong;
	int same, ties;
	double most_jpeg, most_other;	/* differences of first logits */
	struct ability ability[ABILITIES];
	int abilities;
} R;

static void
fault(const char *what, const char *detail)
{
	printf("# %s: %s%s%s\n", R.label, what, *detail ? ": " : "", detail);
	R.wrong = 1;
}

static const char *
str(const struct epd_json *j, const char *key)
{
	return epd_json_str(epd_json_get(j, key), "");
}

/* ---- one question through the store ---- */

static int
on_token(void *arg, const struct epd_token_event *e)
{
	struct answer *a = arg;

	if (a->n == 0)
		memcpy(a->first, e->top, sizeof a->first);
	if (a->n < MOST) {
		a->ids[a->n] = e->id;
		a->second[a->n] = e->top[1].id;
		a->margin[a->n] = (double)e->top[0].logprob -
		    (double)e->top[1].logprob;
		a->n++;
	}
	epd_buf_put(&a->text, e->text.p, e->text.n);
	return 0;
}

static void
on_end(void *arg, const struct epd_decode_end *e)
{
	struct answer *a = arg;

	epd_buf_put(&a->text, e->text.p, e->text.n);
}

/* The pictures of the messages in order, as paths; their number. */
static int
pictures(const struct epd_json *messages, struct epd_request_image *out,
    char path[][512])
{
	int n = 0;

	for (size_t i = 0; i < epd_json_count(messages); i++) {
		const struct epd_json *c = epd_json_get(epd_json_at(messages,
		    i), "content");

		for (size_t k = 0; k < epd_json_count(c); k++) {
			const struct epd_json *part = epd_json_at(c, k);

			if (!epd_json_has(part, "image"))
				continue;
			if (n == IMAGES)
				golden_die(R.label, "too many images");
			snprintf(path[n], sizeof path[n], "%s/samples/%s",
			    R.dir, str(part, "image"));
			out[n] = (struct epd_request_image){ .path = path[n] };
			R.jpeg |= strstr(path[n], ".jp") != NULL;
			n++;
		}
	}
	return n;
}

static void
check_grids(const struct epd_request_image *image, int n)
{
	const struct epd_json *grids = epd_json_get(R.row, "image_grid_thw");
	struct epd_why why = { "" };

	if (!grids)
		return;
	if (epd_json_count(grids) != (size_t)n)
		fault("image_grid_thw", "has another number of images");
	for (int i = 0; i < n; i++) {
		const struct epd_json *g = epd_json_at(grids, (size_t)i);
		struct epd_encoded e;

		if (epd_flow_encode(R.session, image[i].path, &e, &why) < 0) {
			fault(image[i].path, why.text);
			return;
		}
		for (size_t k = 0; k < 3; k++)
			if (epd_json_int(epd_json_at(g, k), -1) != e.grid[k])
				fault(image[i].path, "has another grid");
	}
}

static void
ask(struct answer *a)
{
	char path[IMAGES][512];
	struct epd_request_image image[IMAGES];
	struct epd_prefill p = {
		.kind = EPD_PROMPT_MESSAGES,
		.messages = epd_json_get(R.row, "messages"),
		.tools = epd_json_get(R.row, "tools"),
		.images = image,
		.workflow = "",
	};
	struct epd_prefilled made;
	struct epd_ref ref = { .kind = EPD_REF_STATE };
	struct epd_decode d = {
		.states = &ref, .n = 1, .most = MOST,
		.has_temp = 1, .has_top_k = 1, .has_top_p = 1,
		.has_penalty = 1,
		.sampler = { .temp = 0, .top_p = 1, .penalty = 1 },
		.logprobs = TOP,
		.token = on_token, .end = on_end, .arg = a,
	};
	struct epd_why why = { "" };
	int64_t want = epd_json_int(epd_json_get(R.row, "prompt_tokens"), -1);

	p.nimages = pictures(p.messages, image, path);
	check_grids(image, p.nimages);
	if (epd_flow_prefill(R.session, &p, &made, &why) < 0) {
		fault("prefill", why.text);
		return;
	}
	if (want >= 0 && (uint64_t)want != made.tokens)
		fault("the prompt", "has another number of tokens");
	snprintf(ref.workflow, sizeof ref.workflow, "%s", made.workflow);
	ref.state = made.state;
	if (epd_flow_decode(R.session, &d, &why) < 0)
		fault("decode", why.text);
}

/* ---- against the reference ---- */

static double
logprob_of(const struct answer *a, int64_t id)
{
	for (int i = 0; i < TOP; i++)
		if (a->first[i].id == id)
			return (double)a->first[i].logprob;
	return NAN;
}

/*
 * How far the best logits of the first token lie below the highest, against
 * the reference.  Each may be off by a tolerance.  JPEG decoders are not all
 * alike, so pictures of that kind are only measured.
 */
static void
check_first(const struct answer *a)
{
	const struct epd_json *top = epd_json_get(R.row, "hf_first_top5");
	double *most = R.jpeg ? &R.most_jpeg : &R.most_other;
	int64_t id[2];
	double logit[2];

	for (size_t i = 0; a->n > 0 && i < epd_json_count(top); i++) {
		const struct epd_json *t = epd_json_at(top, i);
		double d;

		id[i > 0] = epd_json_int(epd_json_at(t, 0), -1);
		logit[i > 0] = epd_json_real(epd_json_at(t, 1), NAN);
		if (i == 0)
			continue;
		d = fabs(logprob_of(a, id[0]) - logprob_of(a, id[1]) -
		    (logit[0] - logit[1]));
		if (!R.jpeg && !(d <= 2 * tol))
			fault("first logits", "differ");
		if (!(d <= *most))
			*most = d;
	}
}

enum verdict { OTHER, SAME, TIE };

static enum verdict
check_ids(const struct answer *a)
{
	const struct epd_json *want = epd_json_get(R.row, "hf_ids");
	const struct epd_json *top = epd_json_get(R.row, "hf_first_top5");
	const int n = (int)epd_json_count(want);
	double margin;
	int32_t theirs;
	int i = 0;

	while (i < n && i < a->n && a->ids[i] ==
	    epd_json_int(epd_json_at(want, (size_t)i), -1))
		i++;
	if (i == n && i == a->n) {
		R.same++;
		return SAME;
	}
	if (i == n || i == a->n) {
		fault("ids", "ended elsewhere");
		return OTHER;
	}
	theirs = (int32_t)epd_json_int(epd_json_at(want, (size_t)i), -1);
	margin = i > 0 || !top ? a->margin[i] :
	    epd_json_real(epd_json_at(epd_json_at(top, 0), 1), 0) -
	    epd_json_real(epd_json_at(epd_json_at(top, 1), 1), 0);
	printf("# %s: token %d is %d, the reference's %d; margin %.2e (%s)\n",
	    R.label, i, a->ids[i], theirs, margin,
	    i > 0 ? "ours" : "the reference's");
	if (!(margin <= tol) || a->second[i] != theirs) {
		fault("ids", "differ where there is no tie");
		return OTHER;
	}
	R.ties++;
	return TIE;
}

static void
check_text(const struct answer *a)
{
	struct epd_span want = epd_json_bytes(epd_json_get(R.row,
	    "hf_float32"));

	if (want.n != a->text.n ||
	    (want.n && memcmp(want.p, a->text.p, want.n))) {
		fault("the reference's text", str(R.row, "hf_float32"));
		printf("# %s: ours: %.*s\n", R.label, (int)a->text.n,
		    a->text.n ? (const char *)a->text.p : "");
	}
}

/* ---- accuracy ---- */

static struct epd_span
trim(const char *p, size_t n, const char *ends)
{
	while (n > 0 && strchr(ends, p[n - 1]))
		n--;
	return epd_span(p, n);
}

/* The answer, or what stands behind "Answer:", but for a last full stop. */
static int
right(const struct answer *a)
{
	const char *all = a->text.n ? (const char *)a->text.p : "";
	const char *p = all, *end = all + a->text.n;
	const char *answer = str(R.row, "answer"), *mark = "Answer:";
	struct epd_span want = trim(answer, strlen(answer), "."), got;

	if (strcmp(str(R.row, "match"), "exact"))
		for (const char *q = all; (q = memmem(q, (size_t)(end - q),
		    mark, strlen(mark))); )
			p = q += strlen(mark);
	while (p < end && strchr(" \t\n", *p))
		p++;
	got = trim(p, (size_t)(end - p), " \t\n");
	got = trim(got.p, got.n, ".");
	return got.n == want.n && !memcmp(got.p, want.p, want.n);
}

static void
count(int ours, int theirs)
{
	const char *name = str(R.row, "ability");
	struct ability *a = R.ability;

	while (a < R.ability + R.abilities && strcmp(a->name, name))
		a++;
	if (a == R.ability + R.abilities) {
		if (R.abilities == ABILITIES)
			golden_die(name, "too many abilities");
		snprintf(a->name, sizeof a->name, "%s", name);
		R.abilities++;
	}
	a->all++;
	a->ours += ours;
	a->theirs += theirs;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct ability *)a)->name,
	    ((const struct ability *)b)->name);
}

static void
print_table(void)
{
	struct ability sum = { "all", 0, 0, 0 };

	if (R.abilities == 0)
		return;
	qsort(R.ability, (size_t)R.abilities, sizeof *R.ability, by_name);
	printf("# %-18s %9s %6s %9s\n", R.set, "questions", "right",
	    "reference");
	for (int i = 0; i <= R.abilities; i++) {
		const struct ability *a = i < R.abilities ? &R.ability[i] :
		    &sum;

		printf("# %-18s %9d %6d %9d\n", a->name, a->all, a->ours,
		    a->theirs);
		sum.all += a->all;
		sum.ours += a->ours;
		sum.theirs += a->theirs;
	}
	memset(R.ability, 0, sizeof R.ability);
	R.abilities = 0;
}

/* ---- all questions ---- */

static void
question(struct epd_span line, int number)
{
	struct answer a = { .n = 0 };
	struct epd_why why = { "" };

	R.wrong = R.jpeg = 0;
	snprintf(R.label, sizeof R.label, "%s.jsonl line %d", R.set, number);
	if (epd_json_parse(&R.row, line, R.label, &why) < 0)
		golden_die(R.label, why.text);
	snprintf(R.label, sizeof R.label, "%s/%s", R.set, str(R.row, "id"));
	ask(&a);
	if (!R.wrong) {
		check_first(&a);
		/* Behind a tie the texts are two. */
		if (check_ids(&a) == SAME)
			check_text(&a);
		count(right(&a), epd_json_bool(epd_json_get(R.row,
		    "hf_ok_float32"), 0));
	}
	printf("%sok %d - %s %s\n", R.wrong ? "not " : "", ++R.lines, R.label,
	    str(R.row, "ability"));
	R.bad |= R.wrong;
	epd_buf_free(&a.text);
	epd_json_free(R.row);
}

static void
questions(const char *set)
{
	struct epd_buf file;
	char path[512];
	const char *p, *end;
	int number = 0;

	snprintf(path, sizeof path, "%s/samples/%s.jsonl", R.dir, set);
	if (access(path, F_OK))
		return;
	R.set = set;
	file = golden_read(path);
	p = (const char *)file.p;
	end = p + file.n;
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));

		stop = stop ? stop : end;
		number++;
		if (stop > p)
			question(epd_span(p, (size_t)(stop - p)), number);
		p = stop + 1;
	}
	epd_buf_free(&file);
	print_table();
}

/* As the reference was run: RGB as decoded, the "fast" resampler, float. */
static void
open_all(struct epd_config *c, int fd)
{
	char model[512], memory[sizeof scratch_path + 8];
	char store[sizeof scratch_path + 8];
	struct epd_store_options so = {
		.path = store, .config = c, .tenant = "", .create = 1,
	};
	struct epd_session_options o = { 0 };
	struct epd_why why = { "" };

	epd_config_default(c);
	c->exif = 0;
	strcpy(c->alpha, "drop");
	strcpy(c->resampler, "fast");
	strcpy(c->kv_dtype, "f32");
	strcpy(c->feature_dtype, "f32");
	c->state_sync = 0;
	snprintf(memory, sizeof memory, "%s/memory", scratch_path);
	snprintf(c->memory_dir, sizeof c->memory_dir, "%.250s", memory);
	snprintf(model, sizeof model, "%s/model", R.dir);
	o.model = model;
	snprintf(store, sizeof store, "%s/store", scratch_path);
	if (epd_store_open(&R.store, &so, &why) == 0 &&
	    epd_session_open(&R.session, R.store, &o, &why) == 0)
		return;
	printf("Bail out! %s\n", why.text);
	epd_store_close(R.store);
	scratch_close(fd);
	exit(1);
}

int
main(int argc, char **argv)
{
	static struct epd_config config;
	int fd = scratch_open();

	setvbuf(stdout, NULL, _IOLBF, 0);
	R.dir = argc > 1 ? argv[1] : "examples/tiny-vlm";
	if (fd < 0)
		golden_die("a folder for the store", "cannot be made");
	open_all(&config, fd);
	questions("samples");
	questions("eval");
	if (R.lines == 0) {
		printf("not ok %d - %s/samples has no questions\n", ++R.lines,
		    R.dir);
		R.bad = 1;
	}
	printf("# %d answers as the reference's, %d that part at a tie; first "
	    "logits differ by at most %.1e (JPEG: %.1e)\n", R.same, R.ties,
	    R.most_other, R.most_jpeg);
	printf("1..%d\n", R.lines);
	epd_session_close(R.session);
	epd_store_close(R.store);
	scratch_close(fd);
	return R.bad;
}
