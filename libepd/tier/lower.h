/*
 * lower.h - tiers below memory, where pages rest while nobody computes on them.
 * Outside this room include tier/tier.h.
 *
 * A tier is a table of functions.  What it has is found by asking it, never by a
 * note kept elsewhere, so nothing can drift; and it may forget: pages are a cache,
 * one that cannot be had is computed again.  Nothing it gives is taken before its
 * bytes have the sum that the log has of the page.
 */
#ifndef EPD_TIER_LOWER_H
#define EPD_TIER_LOWER_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/words.h"
#include "page/page.h"

/*         id        name */
#define EPD_TIERS(X) \
	X(GPU,      "gpu") \
	X(CPU,      "cpu") \
	X(NVME,     "nvme") \
	X(MOONCAKE, "mooncake_store")

enum epd_tier {
	EPD_TIER_NONE,
#define X(id, name) EPD_TIER_##id,
	EPD_TIERS(X)
#undef X
	EPD_TIER_COUNT
};
extern const struct epd_words epd_tiers;
const char *epd_tier_name(enum epd_tier t);	/* "none" if it is none */
enum epd_tier epd_tier_parse(const char *name);	/* EPD_TIER_NONE */

/* Pages of one run that go and come together; all is lent. */
struct epd_lot {
	const char *workflow;
	uint64_t run;			/* under the id it has in that workflow */
	struct epd_run_shape shape;
	/* An EPD_OBJECT_FEATURE_META's sum is 0: whatever is whole by itself is meant. */
	const struct epd_page_entry *entry;
	long n;
	int given;			/* not computed here: they serve this workflow alone */
	struct epd_span manifest;	/* JSON: whose pages, when and why, for who finds them */
};

enum { EPD_HAD = 1, EPD_HAD_GIVEN };

struct epd_lower;		/* each tier's own begins with its ops */

struct epd_lower_ops {
	enum epd_tier tier;
	void (*close)(struct epd_lower *l);
	/*
	 * Keep a lot, page[i] being its ith page; when it returns 0 all of them are as safe
	 * as the tier can make them.  Put before is 0, and costs little.  On failure
	 * nothing of a half-done lot is ever given out as more than the pages it has.
	 * Fails: -ENOSPC (full, or over the cap), -EIO, EPD_EPEER, EPD_ETIMEOUT, -errno.
	 */
	int (*put)(struct epd_lower *l, const struct epd_lot *lot,
	    const void *const *page, uint64_t deadline_ns, struct epd_why *why);
	/*
	 * Pages into out[i], where that is not NULL (shape.bytes of room each); had[i] is
	 * set for those that came, whole and of the entry's sum: EPD_HAD, or EPD_HAD_GIVEN
	 * of those that were put as given.  lot->given says what the log knows, and hides
	 * neither.  What is in out[i] of others means nothing.  How many came.
	 * Fails, where none could even be asked for: EPD_EPEER, EPD_ETIMEOUT, -ENOMEM.
	 */
	long (*get)(struct epd_lower *l, const struct epd_lot *lot,
	    void *const *out, uint8_t *had, uint64_t deadline_ns,
	    struct epd_why *why);
	/* How many are said to be there.  No lease is renewed by it, no time touched. */
	long (*has)(struct epd_lower *l, const struct epd_lot *lot,
	    uint64_t deadline_ns, struct epd_why *why);
	/*
	 * What is kept as a run of one workflow is to be had as another's too.  NULL: pages
	 * are found by what they are, whatever the run.  -ENOENT, -errno.
	 */
	int (*alias)(struct epd_lower *l, const char *workflow, uint64_t run,
	    const char *as, uint64_t as_run);
	/* They are needed no more; absent is fine.  A shared tier may keep them. */
	int (*drop)(struct epd_lower *l, const struct epd_lot *lot,
	    uint64_t deadline_ns, struct epd_why *why);
};
#define EPD_LOWER_OPS const struct epd_lower_ops *ops
static inline const struct epd_lower_ops *
epd_lower_ops(const struct epd_lower *l)
{
	return *(const struct epd_lower_ops *const *)(const void *)l;
}

#endif
