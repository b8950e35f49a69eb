/*
 * view_metrics.c - counters from the store's file, gauges counted now, as
 * Prometheus text or one JSON object.  Sums of nanoseconds are shown in
 * milliseconds, under P's names (first_pass_ms, clone_fork_ms, ...).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/book.h"

struct gauges {
	uint64_t workflows, states, versions, tokens, pages, missing;
	uint64_t by_status[7];
	uint32_t unreadable;
	uint64_t features, feature_bytes, memory_bytes, index_bytes;
	uint64_t below, waiting, at_rest;
	struct epd_tier_sight memory, disk;
	struct epd_store *s;
};

static const char *const statuses[] = {
	"ACTIVE", "SHARED", "OFFLOADING", "OFFLOADED", "RESTORING", "SUSPECT",
	"ABORTED",
};

static int
add_state(void *arg, const struct epd_state_line *l)
{
	struct gauges *g = arg;

	g->states++;
	g->versions += l->versions;
	g->tokens += l->tokens;
	g->pages += l->pages;
	g->missing += l->missing;
	g->below += l->below;
	g->waiting += *l->tool != '\0';
	g->at_rest += !strcmp(l->status, "OFFLOADED");
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		g->by_status[i] += !strcmp(l->status, statuses[i]);
	return 0;
}

static int
add_workflow(void *arg, const char *name)
{
	struct gauges *g = arg;

	(void)name;
	g->workflows++;
	return 0;
}

static int
add_feature(void *arg, const struct epd_name *fp)
{
	struct gauges *g = arg;
	struct epd_feature_meta m;

	if (epd_feature_meta(g->s->features, fp, &m) == 0) {
		g->features++;
		g->feature_bytes += m.bytes;
	}
	return 0;
}

static int
count(struct epd_store *s, struct gauges *g, struct epd_why *why)
{
	int rc;

	g->s = s;
	if ((rc = epd_workflow_each(s, add_workflow, g)) < 0 ||
	    (rc = epd_feature_each(s->features, "", add_feature, g)) < 0 ||
	    (rc = epd_view_tier(s, EPD_TIER_CPU, 1, &g->memory)) < 0 ||
	    ((rc = epd_view_tier(s, EPD_TIER_NVME, 1, &g->disk)) < 0 &&
	    rc != -ENOENT))
		return epd_why(why, rc, "%s: %s", s->path, epd_strerror(rc));
	g->memory_bytes = g->memory.used;
	g->index_bytes = epd_index_bytes(s->memory);
	g->memory_bytes -= g->index_bytes < g->memory_bytes ? g->index_bytes :
	    g->memory_bytes;
	/* What cannot be read is a figure, not the end of all others. */
	rc = epd_view_all(s, add_state, g, &g->unreadable, why);
	return g->unreadable ? 0 : rc;
}

/* One figure to whichever form is wanted. */
struct sheet {
	struct epd_buf *out;
	struct epd_jw w;
	int json;
	const char *group;
};

static void
group(struct sheet *p, const char *name)
{
	if (p->json && p->group)
		epd_jw_end(&p->w, '}');
	if (p->json && name)
		epd_jw_begin(&p->w, name, '{');
	p->group = name;
}

static void
head(struct sheet *p, const char *name, const char *type)
{
	epd_buf_fmt(p->out, "# TYPE epd_%s_%s %s\n", p->group, name, type);
}

static void
whole(struct sheet *p, const char *name, const char *type, uint64_t v)
{
	if (p->json) {
		epd_jw_uint(&p->w, name, v);
		return;
	}
	head(p, name, type);
	epd_buf_fmt(p->out, "epd_%s_%s %llu\n", p->group, name,
	    (unsigned long long)v);
}

static void
real(struct sheet *p, const char *name, const char *type, double v)
{
	if (p->json) {
		epd_jw_real(&p->w, name, v);
		return;
	}
	head(p, name, type);
	epd_buf_fmt(p->out, "epd_%s_%s %.6f\n", p->group, name, v);
}

static void
counter(struct sheet *p, const struct epd_metrics *m, enum epd_metric id)
{
	const char *name = epd_metric_name(id);
	size_t n = strlen(name);
	const char *type = id == EPD_M_ITL_MAX_NS ? "gauge" : "counter";
	char ms[64];

	if (n < 3 || strcmp(name + n - 3, "_ns") != 0) {
		whole(p, name, type, epd_metrics_get(m, id));
		return;
	}
	snprintf(ms, sizeof ms, "%.*s_ms", (int)n - 3, name);
	real(p, ms, type, (double)epd_metrics_get(m, id) / 1e6);
}

/* What is counted now goes at the end of its group. */
static void
gauges(struct sheet *p, const struct epd_store *s, const struct gauges *g)
{
	if (!strcmp(p->group, "feature")) {
		uint64_t hit = epd_metrics_get(s->metrics, EPD_M_MM_HIT);
		uint64_t all = hit + epd_metrics_get(s->metrics,
		    EPD_M_MM_MISS);

		real(p, "mm_hit_rate", "gauge",
		    all ? (double)hit / (double)all : 0);
		whole(p, "bundles", "gauge", g->features);
		whole(p, "bundle_bytes", "gauge", g->feature_bytes);
	} else if (!strcmp(p->group, "state")) {
		char name[32];

		whole(p, "workflows", "gauge", g->workflows);
		whole(p, "workflows_unreadable", "gauge", g->unreadable);
		whole(p, "states", "gauge", g->states);
		for (size_t i = 0; i < sizeof statuses / sizeof *statuses;
		    i++) {
			size_t k = 0;

			memcpy(name, "states_", 7);
			for (; statuses[i][k]; k++)
				name[7 + k] = (char)(statuses[i][k] | 0x20);
			name[7 + k] = '\0';
			whole(p, name, "gauge", g->by_status[i]);
		}
		whole(p, "versions", "gauge", g->versions);
		whole(p, "tokens", "gauge", g->tokens);
		whole(p, "pages", "gauge", g->pages);
		whole(p, "pages_missing", "gauge", g->missing);
		whole(p, "memory_bytes", "gauge", g->memory_bytes);
		whole(p, "memory_index_bytes", "gauge", g->index_bytes);
		whole(p, "memory_cap_bytes", "gauge",
		    epd_memory_cap(s->memory));
	} else if (!strcmp(p->group, "tier")) {
		/* Memory's bytes and cap are state's. */
		whole(p, "memory_runs", "gauge", g->memory.runs);
		whole(p, "nvme_runs", "gauge", g->disk.runs);
		whole(p, "nvme_bytes", "gauge", g->disk.used);
		whole(p, "nvme_cap_bytes", "gauge", g->disk.cap);
		whole(p, "pages_nvme", "gauge", g->below);
		whole(p, "states_waiting", "gauge", g->waiting);
		whole(p, "states_at_rest", "gauge", g->at_rest);
		real(p, "residency", "gauge", g->pages ?
		    (double)(g->pages - g->missing) / (double)g->pages : 1);
	}
}

int
epd_view_metrics(struct epd_store *s, int json, struct epd_buf *out,
    struct epd_why *why)
{
	struct sheet p = { .out = out, .w = { .out = out }, .json = json };
	struct gauges g = {0};
	int rc = count(s, &g, why);

	if (rc < 0)
		return rc;
	if (json) {
		epd_jw_begin(&p.w, NULL, '{');
		epd_jw_int(&p.w, "schema_version", 1);
	}
	for (int i = 0; i < EPD_M_COUNT; i++) {
		const char *name = epd_metric_group((enum epd_metric)i);

		if (!p.group || strcmp(p.group, name) != 0) {
			if (p.group)
				gauges(&p, s, &g);
			group(&p, name);
		}
		counter(&p, s->metrics, (enum epd_metric)i);
	}
	gauges(&p, s, &g);
	group(&p, NULL);
	if (json)
		epd_jw_end(&p.w, '}');
	return out->failed ? -ENOMEM : 0;
}
