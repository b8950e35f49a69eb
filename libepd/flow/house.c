/*
 * house.c - release, check and gc: mark what states need, sweep the rest.
 *
 * A run is published before the record that names it, so a young run that no
 * state names may be somebody's work in progress: gc leaves runs younger than
 * GRACE_MS alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/pages.h"
#include "flow/view.h"
#include "page/page.h"

enum { GRACE_MS = 60000 };

static void
freed(void *arg, uint64_t run)
{
	struct epd_workflow *w = arg;

	if (run)
		(void)epd_run_free(w->runs, run);
}

int
epd_flow_release(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why)
{
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, s, ref->workflow, 0, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_release(w.shard, ref->state, reason, freed, &w, why);
	if (rc == 0)
		epd_count(s->metrics, EPD_M_STATES_RELEASED, 1);
	else if (rc == EPD_ENOSTATE)
		epd_why(why, rc, "%s/s%u: %s", ref->workflow, ref->state,
		    epd_strerror(rc));
	epd_log(&s->log, "op=release state=%s/s%u rc=%d", ref->workflow,
	    ref->state, rc);
	epd_workflow_close(&w);
	return rc;
}

/* Sorted set of run ids. */
struct marks {
	uint64_t *run;
	size_t n, cap;
};

static int
mark(void *arg, const struct epd_version *v)
{
	struct marks *m = arg;

	if (!v->run)
		return 0;
	if (m->n == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 256;
		void *p = epd_realloc(m->run, cap * sizeof *m->run);

		if (!p)
			return -ENOMEM;
		m->run = p;
		m->cap = cap;
	}
	m->run[m->n++] = v->run;
	return 0;
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int
marked(const struct marks *m, uint64_t run)
{
	return m->n && bsearch(&run, m->run, m->n, sizeof run, by_value);
}

static int
mark_all(struct marks *m, struct epd_workflow *w)
{
	int rc = epd_shard_runs(w->shard, mark, m);

	if (m->n)
		qsort(m->run, m->n, sizeof *m->run, by_value);
	return rc;
}

struct sweep {
	struct epd_workflow *w;
	struct marks marks;
	struct epd_swept *out;
};

static int
sweep_run(void *arg, uint64_t run, uint64_t bytes)
{
	struct sweep *s = arg;
	uint64_t now = epd_clock_wall_ms(), changed;
	char name[20];
	struct stat st;

	if (marked(&s->marks, run))
		return 0;
	snprintf(name, sizeof name, "%016llx", (unsigned long long)run);
	if (fstatat(s->w->runs, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	changed = (uint64_t)st.st_ctim.tv_sec * 1000;
	if (changed + GRACE_MS > now && changed <= now)
		return 0;
	if (epd_run_free(s->w->runs, run) == 0) {
		s->out->runs++;
		s->out->run_bytes += bytes;
	}
	return 0;
}

struct house {
	struct epd_store *s;
	struct epd_swept *out;
	struct epd_why *why;
	void (*fault)(void *arg, const char *text);
	void *arg;
	int faults;
	const char *workflow;
};

static int
gc_workflow(void *arg, const char *name)
{
	struct house *h = arg;
	struct epd_workflow w;
	struct sweep s = { .w = &w, .out = h->out };
	int rc = epd_workflow_open(&w, h->s, name, 0, h->why);

	if (rc == EPD_ENOTHING)
		return 0;
	if (rc < 0)
		return rc;
	rc = epd_shard_expire(w.shard, freed, &w, h->why);
	if (rc >= 0) {
		h->out->states += (uint64_t)rc;
		rc = mark_all(&s.marks, &w);
	}
	if (rc == 0)
		rc = epd_run_each(w.runs, sweep_run, &s);
	epd_free(s.marks.run);
	epd_workflow_close(&w);
	return rc;
}

/* Memory folders of workflows that are no more. */
static int
gc_memory(void *arg, const char *name)
{
	struct house *h = arg;
	struct stat st;

	if (fstatat(h->s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT && epd_memory_remove(h->s->memory, name) == 0)
		h->out->memory_folders++;
	return 0;
}

int
epd_flow_gc(struct epd_store *s, struct epd_swept *out, struct epd_why *why)
{
	struct house h = { .s = s, .out = out, .why = why };
	struct epd_feature_swept f = {0};
	uint64_t from = epd_clock_boot_ns();
	int rc;

	*out = (struct epd_swept){0};
	if ((rc = epd_workflow_each(s, gc_workflow, &h)) < 0)
		return rc;
	if ((rc = epd_memory_each(s->memory, gc_memory, &h)) < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	rc = epd_feature_sweep(s->features, GRACE_MS, NULL, NULL, &f);
	if (rc < 0)
		return epd_why(why, rc, "features: %s", epd_strerror(rc));
	if ((rc = epd_memory_sweep(s->config.memory_dir, NULL)) < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	out->memory_folders += (uint64_t)rc;
	out->features = f.expired;
	out->orphans = f.orphans;
	out->feature_bytes = f.bytes;
	out->ns = epd_clock_boot_ns() - from;
	epd_count(s->metrics, EPD_M_GC_COUNT, 1);
	epd_count(s->metrics, EPD_M_GC_NS, out->ns);
	epd_count(s->metrics, EPD_M_ORPHAN_PAGES, out->runs);
	epd_log(&s->log, "op=gc states=%llu runs=%llu features=%llu",
	    (unsigned long long)out->states, (unsigned long long)out->runs,
	    (unsigned long long)out->features);
	return 0;
}

static void
fault_in(void *arg, const char *text)
{
	struct house *h = arg;
	char line[512];

	snprintf(line, sizeof line, "%s: %s", h->workflow, text);
	h->faults++;
	h->fault(h->arg, line);
}

/* A run that is there must be what the log says; one that is lost is no fault. */
static int
check_run(void *arg, const struct epd_version *v)
{
	struct sweep *s = arg;
	struct epd_page_entry *e;
	struct epd_why why = {{0}};
	struct epd_run *run;
	int rc;

	if (!v->run || s->w->runs < 0)
		return 0;
	if (!(e = epd_calloc(v->npages, sizeof *e)))
		return -ENOMEM;
	for (uint32_t i = 0; i < v->npages; i++)
		e[i] = (struct epd_page_entry){ v->pages[i].name,
		    v->pages[i].rows, v->pages[i].sum };
	rc = epd_run_open(&run, s->w->runs, v->run, NULL, e, v->npages, &why);
	for (uint32_t i = 0; rc == 0 && i < v->npages; i++)
		if (epd_run_verify(run, i) < 0) {
			struct house *h = (struct house *)(void *)s->out;
			char text[96];

			snprintf(text, sizeof text, "run %016llx: page %u does "
			    "not match its checksum (it will be computed "
			    "again)", (unsigned long long)v->run, i);
			fault_in(h, text);
		}
	if (rc == 0)
		epd_run_close(run);
	else if (rc != -ENOENT)
		fault_in((struct house *)(void *)s->out, why.text);
	epd_free(e);
	return rc == -ENOMEM ? rc : 0;
}

static int
check_workflow(void *arg, const char *name)
{
	struct house *h = arg;
	struct epd_workflow w;
	struct sweep s = { .w = &w, .out = (struct epd_swept *)(void *)h };
	struct epd_why why = {{0}};
	int rc = epd_workflow_open(&w, h->s, name, 1, &why);

	h->workflow = name;
	if (rc == EPD_ENOTHING)
		return 0;
	if (rc < 0) {
		fault_in(h, why.text);
		return rc == -ENOMEM ? rc : 0;
	}
	rc = epd_shard_check(w.shard, fault_in, h, &why);
	if (rc >= 0)
		rc = epd_shard_runs(w.shard, check_run, &s);
	else
		fault_in(h, *why.text ? why.text : epd_strerror(rc));
	epd_workflow_close(&w);
	return rc == -ENOMEM ? rc : 0;
}

int
epd_flow_check(struct epd_store *s, const char *workflow,
    void (*fault)(void *arg, const char *text), void *arg, struct epd_why *why)
{
	struct house h = {
		.s = s, .why = why, .fault = fault, .arg = arg,
		.workflow = "features",
	};
	int rc = 0;

	if (!*workflow)
		rc = epd_feature_check(s->features, fault_in, &h);
	if (rc >= 0)
		rc = *workflow ? check_workflow(&h, workflow) :
		    epd_workflow_each(s, check_workflow, &h);
	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	return h.faults;
}
