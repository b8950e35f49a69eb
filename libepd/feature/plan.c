/* plan.c - which images of a request to encode, and where each one lies. */
#include "feature/plan.h"

static uint64_t
times(uint64_t a, uint64_t b)
{
	return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

static uint64_t
plus(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

static int
equal(const struct epd_plan_image *a, const struct epd_plan_image *b)
{
	return epd_name_equal(&a->fp, &b->fp) && a->grid[0] == b->grid[0] &&
	    a->grid[1] == b->grid[1] && a->grid[2] == b->grid[2];
}

void
epd_feature_plan(struct epd_plan_image *im, int n, uint32_t merge)
{
	uint64_t patch = 0, token = 0;

	if (!merge)
		merge = 1;
	for (int i = 0; i < n; i++) {
		const uint32_t *g = im[i].grid;
		int k = 0;

		while (k < i && !equal(&im[k], &im[i]))
			k++;
		im[i].same = k;
		im[i].encode = k == i && !im[i].hit;
		im[i].patch_at = patch;
		im[i].token_at = token;
		patch = plus(patch, times(times(g[0], g[1]), g[2]));
		token = plus(token, times(times(g[0], g[1] / merge),
		    g[2] / merge));
	}
}
