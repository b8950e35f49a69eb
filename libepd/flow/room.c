/*
 * room.c - who makes room in memory, and what becomes of what goes.
 *
 * A run that goes is put in the tier below first, if having it back from there is
 * cheaper than computing it.  That this fails (the tier is full, or away) is counted,
 * told once, and the run goes all the same: its pages are a cache.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/packs.h"
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
put(struct room *x, const struct epd_lot *lot, int dir, struct epd_why *why)
{
	const void **page = epd_calloc((size_t)lot->n, sizeof *page);
	const uint64_t end = epd_store_tier_end(x->s,
	    epd_lower_ops(x->below)->tier, lot->n);
	struct epd_run *run;
	int rc = page ? epd_lot_look(dir, lot, &run, page) : -ENOMEM;

	if (rc == 0) {
		rc = epd_lower_ops(x->below)->put(x->below, lot, page, end,
		    why);
		epd_run_close(run);
	}
	epd_free(page);
	return rc;
}

static int
move_out(struct room *x, const char *workflow, uint64_t run, int dir,
    struct epd_why *why)
{
	struct epd_lot lot = { .workflow = workflow, .run = run };
	struct epd_again again;
	struct epd_run *table;
	char manifest[64];
	int rc = epd_run_table(&table, dir, run, &lot.shape, NULL);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	lot.entry = epd_run_entries(table);
	lot.n = epd_run_count(table);
	lot.given = epd_run_is_given(table);
	snprintf(manifest, sizeof manifest, "{\"reason\": \"evicted\"}");
	lot.manifest = epd_span_str(manifest);
	/* What is computed again sooner than read is not written either. */
	epd_store_again(x->s, (uint64_t)lot.n * lot.shape.bytes,
	    (uint64_t)lot.n * lot.shape.tokens, &again);
	rc = again.restore ? put(x, &lot, dir, why) : 0;
	epd_run_close(table);
	return rc;
}

/* Counted each time, and told once for as long as the store is open. */
static void
not_put(struct epd_store *s, enum epd_tier tier, int rc,
    const struct epd_why *why)
{
	const struct epd_listener *l = &s->listener;
	char text[sizeof why->text + 128];

	epd_count(s->metrics, EPD_M_TIER_ERRORS, 1);
	if (s->told_below || !l->fn)
		return;
	s->told_below = 1;
	snprintf(text, sizeof text, "tier %s: %s; what memory has no room for "
	    "is computed again", epd_tier_name(tier), *why->text ? why->text :
	    epd_strerror(rc));
	l->fn(l->arg, text);
}

static void
going(void *arg, const char *workflow, uint64_t run, const char *first,
    uint64_t first_run)
{
	struct epd_why why = { "" };
	struct room *x = arg;
	const struct epd_lower_ops *ops;
	int dir, rc;

	if (!x->below)
		return;
	ops = epd_lower_ops(x->below);
	dir = epd_memory_find(x->s->memory, workflow);
	if (dir < 0)
		return;
	/* One file of several names is kept once, where names matter at all. */
	if (run == first_run || !ops->alias)
		rc = move_out(x, workflow, run, dir, &why);
	else if ((rc = ops->alias(x->below, first, first_run, workflow,
	    run)) == -ENOENT)
		rc = 0;		/* nor was the first put, as was told then */
	close(dir);
	/* Another pack there may have them already. */
	if (rc == 0 || rc == -EEXIST)
		return;
	not_put(x->s, ops->tier, rc, &why);
	epd_log(&x->s->log, "op=evict workflow=%s run=%016llx error=%s",
	    workflow, (unsigned long long)run, epd_errlabel(rc));
}

static double
cost(void *arg, const char *workflow, uint64_t run, uint64_t bytes)
{
	const struct room *x = arg;
	const int dir = epd_lower_ops(x->below)->tier == EPD_TIER_NVME ?
	    epd_packs_dir(x->s, workflow) : -1;
	/* One that is there already is not written once more. */
	const int below = epd_run_is_in(dir, run);

	if (dir >= 0)
		close(dir);
	return (double)bytes * (below ? 1 : 2);
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

/* NULL: there is none, or (*rc) it cannot be had. */
static struct epd_lower *
below(struct epd_store *s, int *rc, struct epd_why *why)
{
	const enum epd_tier tier = epd_store_below(s);
	struct epd_lower *l = NULL;

	*rc = tier == EPD_TIER_NONE ? 0 : epd_store_tier(s, tier, &l, why);
	return *rc < 0 ? NULL : l;
}

static uint64_t
part_of(uint64_t cap, double part)
{
	return part >= 1 ? cap : (uint64_t)((double)cap * part);
}

static int
evict(struct epd_store *s, uint64_t to, struct epd_lower *below,
    struct epd_memory_fit *out)
{
	struct room x = { .s = s, .below = below };
	const struct epd_memory_ask ask = { .to = to, .going = going,
		.cost = below ? cost : NULL, .arg = &x };

	return epd_memory_evict(s->memory, &ask, out, NULL);
}

/* What went; none_rc: why there was no tier that it might have gone to, if there is one. */
static void
gone(struct epd_store *s, const struct epd_memory_fit *fit, int none_rc,
    const struct epd_why *why)
{
	epd_count(s->metrics, EPD_M_EVICT_RUNS, fit->runs);
	epd_count(s->metrics, EPD_M_EVICT_BYTES, fit->evicted);
	if (none_rc < 0 && fit->runs)
		not_put(s, epd_store_below(s), none_rc, why);
}

int
epd_store_room(struct epd_store *s, uint64_t bytes, struct epd_memory_fit *out,
    struct epd_why *why)
{
	const uint64_t cap = epd_memory_cap(s->memory);
	struct epd_why none = { "" };
	int none_rc, rc;
	struct epd_lower *l = below(s, &none_rc, &none);
	const uint64_t high = l ? part_of(cap, s->config.tier_high_water) : cap;
	uint64_t low = l ? part_of(cap, s->config.tier_low_water) : cap;
	struct epd_memory_fit first = { 0 };
	uint64_t used = 0;

	rc = epd_memory_used(s->memory, &used);
	if (rc < 0)
		return rc;
	low = low < high ? low : high;
	if (l && used <= high && bytes <= high - used) {
		*out = (struct epd_memory_fit){ .used = used };
		return 0;
	}
	/* Down to the lower mark; what does not fit under it, under the cap. */
	if (l)
		rc = evict(s, bytes > cap ? 0 : (bytes < low ? low : cap) -
		    bytes, l, &first);
	if (rc == 0)
		rc = epd_memory_fit(s->memory, bytes, NULL, NULL, out, why);
	if (rc < 0)
		return rc;
	out->runs += first.runs;
	out->evicted += first.evicted;
	gone(s, out, none_rc, &none);
	return 0;
}

int
epd_store_squeeze(struct epd_store *s, uint64_t bytes)
{
	struct epd_memory_fit fit = { 0 };
	struct epd_why none = { "" };
	uint64_t used = 0;
	int none_rc, rc = epd_memory_used(s->memory, &used);
	struct epd_lower *l = below(s, &none_rc, &none);

	if (rc == 0)
		rc = evict(s, used > bytes ? used - bytes : 0, l, &fit);
	if (rc < 0)
		return rc;
	gone(s, &fit, none_rc, &none);
	return fit.runs > 0;
}
