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
#include "tests/scratch.h"

static const double tol = 1e-3;		/* of a logit */

enum { MOST = 96, IMAGES = 16, TOP = 20, ABILITIES = 64 };

struct answer {
	int32_t ids[MOST], second[MOST];
	double margin[MOST];
	struct epd_sampled first[TOP];	/* before the first token */
	int n, stopped;
	struct epd_buf text;
};

struct ability {
	const char *name;
	int all, ours, theirs;
};

static struct run {
	const char *dir, *set;		/* set: "samples" or "eval" */
	struct epd_store *store;
	struct epd_session *session;
	struct epd_json *row;
	const char *id;
	char label[96];
	int lines, bad, wrong;
	int same, ties;
	double most_png, most_jpeg;	/* differences of first logits */
	struct ability ability[ABILITIES];
	int abilities;
	struct epd_json *rows[4096];	/* own the names of abilities */
	int nrows;
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

	a->stopped = e->rc == 0 && e->finish == EPD_FINISH_EOS;
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

/* Distances of the first token's best logits, which need no offset. */
static void
check_first(const struct answer *a)
{
	const struct epd_json *top = epd_json_get(R.row, "hf_first_top5");
	const char *jpeg = strstr(str(epd_json_get(R.row, "messages"), ""), "");
	const struct epd_json *best = epd_json_at(top, 0);
	struct epd_buf text = { 0 };
	double most = 0;

	if (!top || a->n == 0)
		return;
	for (size_t i = 1; i < epd_json_count(top); i++) {
		const struct epd_json *t = epd_json_at(top, i);
		double theirs = epd_json_real(epd_json_at(best, 1), 0) -
		    epd_json_real(epd_json_at(t, 1), 0);
		double ours = NAN, first = NAN;

		for (int k = 0; k < TOP; k++) {
			if (a->first[k].id ==
			    epd_json_int(epd_json_at(best, 0), -1))
				first = (double)a->first[k].logprob;
			if (a->first[k].id ==
			    epd_json_int(epd_json_at(t, 0), -1))
				ours = (double)a->first[k].logprob;
		}
		/* A NaN, a token not among the best, stays. */
		if (!(fabs(first - ours - theirs) <= most))
			most = fabs(first - ours - theirs);
	}
	(void)jpeg;
	epd_buf_free(&text);
	R.most_png = most > R.most_png ? most : R.most_png;
}

/* 1 if the answer is the reference's, or parts from it at a tie. */
static int
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
		return 1;
	}
	if (i == n || i == a->n) {
		fault("ids", "ended elsewhere");
		return 0;
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
		return 0;
	}
	R.ties++;
	return 1;
}
