/*
 * room.c - who makes room in memory, and what becomes of what goes.
 *
 * A run that goes is put in the tier below first, if having it back from there is
 * cheaper than computing it.  That this fails (the tier is full, or away) is counted,
 * and the run goes all the same: its pages are a cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/room.h"
#include "flow/tiers.h"
#include "page/page.h"

void
epd_store_again(const struct epd_store *s, uint64_t bytes, uint64_t tokens,
    struct epd_again *out)
{
	const struct epd_metrics *m = s->metrics;
	const struct epd_again_measured seen = {
		.restored_runs = epd_metrics_get(m, EPD_M_RESTORE_RUNS),
		.restored_bytes = epd_metrics_get(m, EPD_M_RESTORE_BYTES),
		.restored_ns = epd_metrics_get(m, EPD_M_RESTORE_NS),
		.computed_tokens = epd_metrics_get(m, EPD_M_PREFILL_TOKENS),
		.computed_ns = epd_metrics_get(m, EPD_M_PREFILL_NS),
	};

	epd_again_decide(&seen, 1, bytes, tokens, out);
}

struct room {
	struct epd_store *s;
	struct epd_lower *below;	/* NULL: none */
};

/* Its pages, if they are such as may be put. */
static int
put(struct room *x, const struct epd_lot *lot, int dir)
{
	const void **page = epd_calloc((size_t)lot->n, sizeof *page);
	const uint64_t end = epd_store_tier_end(x->s,
	    epd_lower_ops(x->below)->tier, lot->n);
	struct epd_run *run = NULL;
	int rc = page ? epd_run_look(&run, dir, lot->run, &lot->shape,
	    lot->entry, lot->n, NULL) : -ENOMEM;

	for (long i = 0; rc == 0 && i < lot->n; i++) {
		rc = epd_run_verify(run, i);
		page[i] = epd_run_page(run, i);
	}
	if (rc == 0)
		rc = epd_lower_ops(x->below)->put(x->below, lot, page, end,
		    NULL);
	epd_run_close(run);
	epd_free(page);
	return rc;
}

static int
move_out(struct room *x, const char *workflow, uint64_t run, int dir)
{
	struct epd_lot lot = { .workflow = workflow, .run = run };
	struct epd_again again;
	struct epd_run *table;
	char manifest[64];
	int rc = epd_run_table(&table, dir, run, &lot.shape, NULL);

	if (rc < 0)
		return rc;
	lot.entry = epd_run_entries(table);
	lot.n = epd_run_count(table);
	lot.given = epd_run_is_given(table);
	snprintf(manifest, sizeof manifest, "{\"reason\": \"evicted\"}");
	lot.manifest = epd_span_str(manifest);
	/* What is computed again sooner than read is not written either. */
	epd_store_again(x->s, (uint64_t)lot.n * lot.shape.bytes,
	    (uint64_t)lot.n * lot.shape.tokens, &again);
	rc = again.restore ? put(x, &lot, dir) : 0;
	epd_run_close(table);
	return rc;
}

static void
going(void *arg, const char *workflow, uint64_t run, const char *first,
    uint64_t first_run)
{
	struct room *x = arg;
	int dir, rc;

	if (!x->below)
		return;
	dir = epd_memory_find(x->s->memory, workflow);
	if (dir < 0)
		return;
	/* One file of several names is kept once, where names matter at all. */
	rc = run != first_run && epd_lower_ops(x->below)->alias ?
	    epd_lower_ops(x->below)->alias(x->below, first, first_run, workflow,
	    run) : move_out(x, workflow, run, dir);
	close(dir);
	/* Another pack there may have them already. */
	if (rc == 0 || rc == -EEXIST)
		return;
	epd_count(x->s->metrics, EPD_M_TIER_ERRORS, 1);
	epd_log(&x->s->log, "op=evict workflow=%s run=%016llx error=%s",
	    workflow, (unsigned long long)run, epd_errlabel(rc));
}

static double
cost(void *arg, const char *workflow, uint64_t run, uint64_t bytes)
{
	const struct room *x = arg;
	struct epd_memory *disk = epd_store_disk(x->s, 0);
	const int dir = disk ? epd_memory_find(disk, workflow) : -1;
	char name[EPD_RUN_NAME];
	int below;

	/* One that is there already is not written once more. */
	epd_run_format(name, run);
	below = dir >= 0 && !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
	if (dir >= 0)
		close(dir);
	return (double)bytes * (below ? 1 : 2);
}

static int
evict(struct epd_store *s, uint64_t to, struct epd_lower *below,
    struct epd_memory_fit *out, struct epd_why *why)
{
	struct room x = { .s = s, .below = below };
	const struct epd_memory_ask ask = { .to = to, .going = going,
		.cost = below ? cost : NULL, .arg = &x };
	struct epd_memory_fit fit = { 0 };
	int rc = epd_memory_evict(s->memory, &ask, &fit, why);

	epd_count(s->metrics, EPD_M_EVICT_RUNS, fit.runs);
	epd_count(s->metrics, EPD_M_EVICT_BYTES, fit.evicted);
	*out = fit;
	return rc;
}

enum epd_tier
epd_store_below(const struct epd_store *s)
{
	const struct epd_config *c = &s->config;
	const enum epd_tier tier = epd_tier_parse(c->tier_evict_to);

	if (!c->enable_offload)
		return EPD_TIER_NONE;
	/* In the store's own folder nothing is put but by command. */
	if (tier == EPD_TIER_NVME)
		return *c->tier_nvme_dir ? tier : EPD_TIER_NONE;
	return *c->tier_mooncake_url || *c->tier_mooncake_master ? tier :
	    EPD_TIER_NONE;
}

static struct epd_lower *
below(struct epd_store *s)
{
	const enum epd_tier tier = epd_store_below(s);
	struct epd_lower *l = NULL;

	if (tier != EPD_TIER_NONE)
		(void)epd_store_tier(s, tier, &l, NULL);
	return l;
}

static uint64_t
part_of(uint64_t cap, double part)
{
	return part >= 1 ? cap : (uint64_t)((double)cap * part);
}

int
epd_store_room(struct epd_store *s, uint64_t bytes, struct epd_memory_fit *out,
    struct epd_why *why)
{
	const uint64_t cap = epd_memory_cap(s->memory);
	struct epd_lower *l = below(s);
	const uint64_t high = l ? part_of(cap, s->config.tier_high_water) : cap;
	uint64_t low = l ? part_of(cap, s->config.tier_low_water) : cap;
	struct epd_memory_fit gone = { 0 };
	uint64_t used = 0;
	int rc = epd_memory_used(s->memory, &used);

	if (rc < 0)
		return rc;
	low = low < high ? low : high;
	if (l && used <= high && bytes <= high - used) {
		*out = (struct epd_memory_fit){ .used = used };
		return 0;
	}
	/* Down to the lower mark; what does not fit under it, under the cap. */
	if (l && bytes <= cap)
		rc = evict(s, (bytes < low ? low : cap) - bytes, l, &gone, NULL);
	if (rc == 0)
		rc = epd_memory_fit(s->memory, bytes, NULL, NULL, out, why);
	if (rc < 0)
		return rc;
	epd_count(s->metrics, EPD_M_EVICT_RUNS, out->runs);
	epd_count(s->metrics, EPD_M_EVICT_BYTES, out->evicted);
	out->runs += gone.runs;
	out->evicted += gone.evicted;
	return 0;
}

int
epd_store_squeeze(struct epd_store *s, uint64_t bytes)
{
	struct epd_memory_fit fit = { 0 };
	uint64_t used = 0;
	int rc = epd_memory_used(s->memory, &used);

	if (rc == 0)
		rc = evict(s, used > bytes ? used - bytes : 0, below(s), &fit,
		    NULL);
	return rc < 0 ? rc : fit.runs > 0;
}
