/*
 * compare.h - what tests/golden/run.c is at, and tensors of the set against
 * those the engine made: groups, each one TAP line.
 */
#ifndef TESTS_GOLDEN_COMPARE_H
#define TESTS_GOLDEN_COMPARE_H

#include <math.h>

#include "tests/seq.h"

static const float tol_pixels = 2e-6f, tol_features = 5e-5f,
    tol_hidden = 5e-4f, tol_logits = 1e-3f;

struct tape {
	char name[64];
	float *x;
	long n;
};

static struct run {
	const char *dir;
	int verbose, lines, bad;
	const char *checkpoint, *name;	/* and case */
	struct epd_json *ck, *c;
	struct epd_model *m;
	struct epd_engine *e;
	const struct epd_model_info *info;
	struct golden g;
	char *done;		/* by position in g: compared */
	struct tape tape[96];
	int tapes;
	/* the group */
	int wrong, compared;
	double most;
} R;

static void
begin_group(void)
{
	R.wrong = R.compared = 0;
	R.most = 0;
}

static void
end_group(const char *group)
{
	if (!R.compared && !R.wrong)
		return;
	R.bad |= R.wrong;
	printf("%sok %d - %s/%s/%s: %d compared, most %.2e\n",
	    R.wrong ? "not " : "", ++R.lines, R.checkpoint, R.name, group,
	    R.compared, R.most);
}

static void
fail(const char *what)
{
	printf("# %s/%s: %s\n", R.checkpoint, R.name, what);
	R.wrong = 1;
}

static void
expect(int ok, const char *what)
{
	R.compared++;
	if (!ok)
		fail(what);
}

/* A tensor of this case, which is then done; NULL if the set has none. */
static const void *
tensor(const char *name, const char *type, long *n)
{
	struct epd_json_iter it = epd_json_begin(R.g.head);
	char full[160];

	snprintf(full, sizeof full, "%s/%s", R.name, name);
	for (size_t i = 0; epd_json_next(&it); i++)
		if (!strcmp(it.key, full))
			R.done[i] = 1;
	return golden_tensor(&R.g, full, type, n);
}

static void
near(const char *name, const float *x, long n, float tol)
{
	const float *want;
	double most = 0;
	char text[120];
	long count;

	if (!(want = tensor(name, "F32", &count)))
		return;
	for (long i = 0; i < n && i < count; i++) {
		double d = fabs((double)x[i] - (double)want[i]);

		/* A NaN stays. */
		most = most != most || d <= most ? most : d;
	}
	R.compared++;
	R.most = R.most != R.most || most <= R.most ? R.most : most;
	snprintf(text, sizeof text, "%s: %ld of %ld values, most %.3e", name,
	    n, count, most);
	if (n != count || !(most <= tol))
		fail(text);
	else if (R.verbose)
		printf("#   %s\n", text);
}

static void
equal(const char *name, const int32_t *x, long n)
{
	const int32_t *want;
	long count;

	if (!(want = tensor(name, "I32", &count)))
		return;
	expect(n == count && !memcmp(x, want, (size_t)n * 4), name);
}

/* What the engine tells of a name, one call after another. */
static void
record(void *arg, const char *name, int index, const float *x, long rows,
    long cols)
{
	struct tape *t = NULL;
	float *p, base = 0;
	long n = rows * cols, skip = 0;

	(void)arg, (void)index;
	for (int i = 0; i < R.tapes; i++)
		if (!strcmp(R.tape[i].name, name))
			t = &R.tape[i];
	if (!t) {
		t = &R.tape[R.tapes++];
		*t = (struct tape){ 0 };
		snprintf(t->name, sizeof t->name, "%s", name);
	}
	/* The reference numbers windows over all images of the case. */
	if (t->n > 0 && !strcmp(name, "vision_window_index"))
		base = (float)t->n;
	if (t->n > 0 && !strcmp(name, "vision_cu_window_seqlens")) {
		base = t->x[t->n - 1];
		skip = 1;
	}
	if (!(p = epd_realloc(t->x, (size_t)(t->n + n) * sizeof *p)))
		golden_die(name, "no memory");
	t->x = p;
	for (long i = skip; i < n; i++)
		p[t->n++] = x[i] + base;
}

static void
forget(void)
{
	while (R.tapes > 0)
		epd_free(R.tape[--R.tapes].x);
}

static void
compare_tapes(const char *begins, float tol)
{
	for (int i = 0; i < R.tapes; i++) {
		const struct tape *t = &R.tape[i];
		int32_t whole[SEQ_TOKENS];

		if (strncmp(t->name, begins, strlen(begins)))
			continue;
		near(t->name, t->x, t->n, tol);
		for (long k = 0; k < t->n && k < SEQ_TOKENS; k++)
			whole[k] = (int32_t)t->x[k];
		if (t->n <= SEQ_TOKENS)
			equal(t->name, whole, t->n);
	}
}

#endif
