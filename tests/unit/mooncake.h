/* mooncake.h - pages to put, and a tier to put them to. */
#ifndef TESTS_MOONCAKE_H
#define TESTS_MOONCAKE_H

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "tier/mooncake_in.h"

#define MS UINT64_C(1000000)
enum { MOON_PAGES = 64 };

static struct epd_why why;

/* Pages of a run, the last of them not full. */
struct moon_lot {
	struct epd_lot lot;
	struct epd_page_entry entry[MOON_PAGES];
	void *page[MOON_PAGES], *out[MOON_PAGES];
	uint8_t had[MOON_PAGES];
};

static inline uint64_t
moon_mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

/* What the pages are goes by seed alone. */
static inline void
moon_lot_make(struct moon_lot *l, uint64_t seed, long n, size_t bytes)
{
	memset(l, 0, sizeof *l);
	l->lot = (struct epd_lot){ .workflow = "w1", .run = seed,
	    .shape = { EPD_OBJECT_KV_PAGE, 1, 16, bytes },
	    .entry = l->entry, .n = n };
	for (long i = 0; i < n; i++) {
		uint64_t *p = calloc(1, bytes), x = seed * 1000 + (uint64_t)i;
		const size_t full = bytes / 8, rows = i == n - 1 ? 5 : 16;

		/* Half of it packs well. */
		for (size_t k = 0; k < full * rows / 16; k++)
			p[k] = k % 2 ? x : (x = moon_mix(x + k));
		l->page[i] = p;
		l->out[i] = malloc(bytes);
		l->entry[i].rows = (uint32_t)rows;
		l->entry[i].sum = epd_xxh3_64(p, bytes);
		for (size_t k = 0; k < EPD_NAME; k++)
			l->entry[i].name.b[k] = (uint8_t)moon_mix(seed + k +
			    77 * (uint64_t)i);
	}
}

static inline void
moon_lot_free(struct moon_lot *l)
{
	for (long i = 0; i < l->lot.n; i++) {
		free(l->page[i]);
		free(l->out[i]);
	}
}

static inline uint64_t
moon_in(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * MS;
}

static inline int
moon_put(struct epd_lower *t, struct moon_lot *l, uint64_t ms)
{
	const void *page[MOON_PAGES];

	memcpy(page, l->page, sizeof page);
	why.text[0] = '\0';
	return epd_lower_ops(t)->put(t, &l->lot, page, moon_in(ms), &why);
}

/* How many came; -1: one came that is not what was put. */
static inline long
moon_get(struct epd_lower *t, struct moon_lot *l, uint64_t ms)
{
	const size_t bytes = (size_t)l->lot.shape.bytes;
	long n, had = 0;

	for (long i = 0; i < l->lot.n; i++)
		memset(l->out[i], 0xa5, bytes);
	memset(l->had, 0, sizeof l->had);
	why.text[0] = '\0';
	n = epd_lower_ops(t)->get(t, &l->lot, l->out, l->had, moon_in(ms),
	    &why);
	for (long i = 0; i < l->lot.n && n >= 0; i++) {
		had += l->had[i] != 0;
		if (l->had[i] && memcmp(l->out[i], l->page[i], bytes))
			return -1;
	}
	return n < 0 || had == n ? n : -1;
}

static inline long
moon_has(struct epd_lower *t, struct moon_lot *l, uint64_t ms)
{
	return epd_lower_ops(t)->has(t, &l->lot, moon_in(ms), &why);
}

static inline int
moon_drop(struct epd_lower *t, struct moon_lot *l, uint64_t ms)
{
	return epd_lower_ops(t)->drop(t, &l->lot, moon_in(ms), &why);
}

static inline const char *
moon_key(struct epd_lower *t, struct moon_lot *l, long i)
{
	static char key[EPD_MOONCAKE_KEY];

	epd_mooncake_key((struct epd_mooncake *)(void *)t, &l->lot, i, key);
	return key;
}

static inline void
moon_close(struct epd_lower *t)
{
	if (t)
		epd_lower_ops(t)->close(t);
}

/*
 * What options have unless a test says else; counters in a file of scratch's.
 */
static struct epd_metrics *moon_metrics;
static int moon_dir = -1;
static char moon_said[1 << 16];		/* of the debug log */

static inline void
moon_log(void *arg, const char *line)
{
	const size_t n = strlen(moon_said);

	(void)arg;
	snprintf(moon_said + n, sizeof moon_said - n, "%s\n", line);
}

static inline struct epd_mooncake_options
moon_options(const char *url)
{
	struct epd_mooncake_options o = { .url = url, .most = 4,
	    .page_ns = 2000 * MS, .metrics = moon_metrics,
	    .log = { moon_log, NULL } };

	memset(o.store, 0x5a, sizeof o.store);
	return o;
}

static inline void
moon_begin(void)
{
	moon_said[0] = '\0';
	moon_dir = scratch_open();
	if (epd_metrics_open(&moon_metrics, moon_dir))
		abort();
}

static inline void
moon_end(void)
{
	epd_metrics_close(moon_metrics);
	moon_metrics = NULL;
	if (moon_dir >= 0)
		scratch_close(moon_dir);
	moon_dir = -1;
}

/*
 * A failed check ends a test by way of its `out`, and tells what the tier said.
 */
#undef CHECK_FAIL
#define CHECK_FAIL(...) do { \
	printf("# %s:%d: ", __FILE__, __LINE__); printf(__VA_ARGS__); \
	printf(" (%s)\n", why.text); check_failed = 1; goto out; } while (0)

#define COUNTED(id) ((long)epd_metrics_get(moon_metrics, EPD_M_TIER_##id))

#endif
