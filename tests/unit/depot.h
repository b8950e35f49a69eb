/*
 * depot.h - stores without a model, and data servers of them in processes of their own.
 *
 * What is in one is known by number: feature i (feature.h), and group g, a state of a few
 * pages whose tokens, names and bytes anybody can make anew.  A server is this program
 * again, "PROGRAM serve ...": main asks depot_main first.
 */
#ifndef TESTS_DEPOT_H
#define TESTS_DEPOT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "flow/book.h"
#include "flow/flow.h"
#include "flow/node.h"
#include "flow/settle.h"
#include "flow/transfer.h"
#include "serve/guest.h"
#include "tests/unit/feature.h"
#include "transport/transport.h"

#define MS UINT64_C(1000000)
enum { DEPOT_T = 16, DEPOT_PAGE = 8192, DEPOT_MOST = 64 };

struct depot {
	struct epd_config config;
	const char *tenant;
	int dir;
	char path[200], store[240];
	struct epd_store *s;
	struct epd_why why;
};

static inline void
depot_die(const char *what, const char *why)
{
	printf("# %s: %s\nBail out!\n", what, why);
	fflush(stdout);
	abort();
}

static inline uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * MS;
}

static inline struct epd_why *
depot_why(struct depot *d)
{
	d->why = (struct epd_why){{0}};
	return &d->why;
}

/* A store's options, as all who open it here have them. */
static inline struct epd_store_options
depot_options(const struct depot *d)
{
	return (struct epd_store_options){ .path = d->store,
	    .config = &d->config, .tenant = d->tenant,
	    .transports = epd_transports(), .create = 1 };
}

static inline void
depot_set(struct depot *d)
{
	epd_config_default(&d->config);
	d->config.state_sync = 0;
	snprintf(d->store, sizeof d->store, "%s/store", d->path);
	snprintf(d->config.memory_dir, sizeof d->config.memory_dir,
	    "%s/memory", d->path);
}

static inline void
depot_open(struct depot *d)
{
	const struct epd_store_options o = depot_options(d);

	if (epd_store_open(&d->s, &o, depot_why(d)) < 0)
		depot_die(d->store, d->why.text);
}

static inline void
depot_close(struct depot *d)
{
	epd_store_close(d->s);
	d->s = NULL;
}

/* Another process's; dir is not open. */
static inline void
depot_at(struct depot *d, const char *path)
{
	*d = (struct depot){ .dir = -1 };
	snprintf(d->path, sizeof d->path, "%s", path);
	depot_set(d);
}

static inline void
depot_begin(struct depot *d)
{
	*d = (struct depot){ .dir = scratch_open() };
	if (d->dir < 0)
		depot_die("scratch folder", strerror(errno));
	snprintf(d->path, sizeof d->path, "%.199s", scratch_path);
	depot_set(d);
	depot_open(d);
}

static inline void
depot_end(struct depot *d)
{
	depot_close(d);
	scratch_close(d->dir);
}

/* ---- groups ---- */

struct group {
	uint32_t n, nids;
	int32_t ids[DEPOT_MOST * DEPOT_T + 1];
	struct epd_page_ref page[DEPOT_MOST];
	struct epd_state traits;
};

static const struct epd_run_shape depot_shape = { EPD_OBJECT_KV_PAGE, 1,
	DEPOT_T, DEPOT_PAGE };

/* Bytes that no other group's page has. */
static inline void
group_bytes(void *out, uint32_t g, uint32_t i)
{
	uint64_t x = (g + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * 7919 + 1;
	uint64_t *p = out;

	for (size_t k = 0; k < DEPOT_PAGE / 8; k++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[k] = x;
	}
}

static inline struct group
group(uint32_t g, uint32_t n, const char *tenant)
{
	static uint64_t bytes[DEPOT_PAGE / 8];
	struct group out = { .n = n, .nids = n * DEPOT_T + 1, .traits = {
		.page_tokens = DEPOT_T, .kv_type = 1,
		.page_bytes = DEPOT_PAGE, .model_path = "/no/model",
		.tenant = tenant ? tenant : "", .fingerprint = "{\"arithmetic\": 1, "
		    "\"numeric\": \"lanes16-f32\", \"merge\": 2}",
	} };
	const struct epd_name *up = &out.traits.base;

	memset(out.traits.model_fp.b, 7, EPD_NAME);
	epd_page_base(&out.traits.base, 1, "lanes16-f32", &out.traits.model_fp,
	    &depot_shape);
	for (uint32_t k = 0; k < out.nids; k++)
		out.ids[k] = (int32_t)((g * 100003u + k) & 0xfffffff);
	for (uint32_t i = 0; i < n; i++) {
		struct epd_page_ref *p = out.page + i;

		epd_page_name(&p->name, up, out.ids + i * DEPOT_T, DEPOT_T,
		    NULL, 0);
		group_bytes(bytes, g, i);
		p->rows = DEPOT_T;
		p->sum = epd_xxh3_64(bytes, DEPOT_PAGE);
		up = &p->name;
	}
	return out;
}

static inline void
depot_workflow(struct depot *d, const char *name, struct epd_workflow *w)
{
	char out[EPD_WORKFLOW];

	if (epd_workflow_make(d->s, name, out, depot_why(d)) < 0 ||
	    epd_workflow_open(w, d->s, name, 0, &d->why) < 0)
		depot_die(name, d->why.text);
}

/* The group's pages as a run of the workflow's, told to the index. */
static inline uint64_t
group_run(struct depot *d, struct epd_workflow *w, uint32_t g,
    const struct group *x)
{
	struct epd_page_entry e[DEPOT_MOST];
	struct epd_run *r;
	uint64_t run = 0;
	void *p;
	int rc = epd_run_new(&r, w->runs, &depot_shape);

	for (uint32_t i = 0; rc == 0 && i < x->n; i++) {
		e[i] = (struct epd_page_entry){ x->page[i].name, DEPOT_T, 0 };
		if ((rc = epd_run_add(r, &p)) == 0)
			group_bytes(p, g, i);
	}
	if (rc == 0)
		rc = epd_run_id(&run);
	if (rc == 0)
		rc = epd_run_publish(r, run, e, (long)x->n);
	if (rc < 0)
		depot_die("run", epd_strerror(rc));
	epd_run_close(r);
	epd_index_put(epd_store_index(d->s), w->name, run, DEPOT_T, e,
	    (long)x->n);
	return run;
}

/* A state of it; its number. */
static inline uint32_t
group_state(struct depot *d, const char *workflow, uint32_t g, uint32_t n)
{
	const struct group x = group(g, n, d->tenant);
	struct epd_workflow w;
	uint32_t state = 0;

	depot_workflow(d, workflow, &w);
	{
		const struct epd_version v = { .ids = x.ids, .nids = x.nids,
			.pages = x.page, .npages = x.n,
			.run = group_run(d, &w, g, &x), .next_pos = x.nids };

		if (epd_shard_create(w.shard, &x.traits, &v, &state,
		    depot_why(d)) < 0)
			depot_die("state", d->why.text);
	}
	epd_workflow_close(&w);
	return state;
}

/* A question about its pages; the caller frees a->page. */
static inline void
group_ask(const struct group *x, struct epd_pages_ask *a)
{
	*a = (struct epd_pages_ask){ .n = x->n, .shape = depot_shape,
	    .codec = "none" };
	if (!(a->page = epd_calloc(x->n + 1u, sizeof *a->page)))
		depot_die("question", "no memory");
	for (uint32_t i = 0; i < x->n; i++)
		a->page[i] = (struct epd_page_ask){ .entry = { x->page[i].name,
		    x->page[i].rows, x->page[i].sum } };
}

/* Which state of a workflow has the group's tokens; 0: none. */
static inline uint32_t
group_find(struct epd_workflow *w, const struct group *x)
{
	struct epd_state st = { .id = 0 };
	struct epd_version v;

	while (epd_shard_next(w->shard, st.id, &st) == 0)
		if (st.status != EPD_FREE && epd_shard_version(w->shard, st.id,
		    0, &v) == 0 && v.nids == x->nids &&
		    !memcmp(v.ids, x->ids, x->nids * sizeof *x->ids))
			return st.id;
	return 0;
}

/* Pages of the state whose bytes are there, and right: each is looked at in its file. */
static inline uint32_t
group_whole(struct epd_workflow *w, uint32_t state, uint32_t g,
    const struct group *x)
{
	static uint64_t want[DEPOT_PAGE / 8];
	struct epd_version v;
	uint32_t good = 0;

	if (epd_shard_version(w->shard, state, 0, &v) < 0 || v.npages != x->n)
		return 0;
	for (uint32_t i = 0; i < v.npages; i++) {
		const uint64_t run = epd_version_where(&v, i);
		struct epd_run_shape shape;
		struct epd_run *t, *r;
		long k;

		if (epd_run_table(&t, w->runs, run, &shape, NULL) < 0)
			continue;
		if (epd_run_open(&r, w->runs, run, &shape, epd_run_entries(t),
		    epd_run_count(t), NULL) < 0)
			r = NULL;
		group_bytes(want, g, i);
		for (k = 0; r && k < epd_run_count(r); k++)
			if (epd_name_equal(&epd_run_entries(r)[k].name,
			    &x->page[i].name)) {
				good += !memcmp(epd_run_page(r, k), want,
				    DEPOT_PAGE);
				break;
			}
		epd_run_close(r);
		epd_run_close(t);
	}
	return good;
}

/* ---- features ---- */

/* Feature i: no two have one picture. */
static inline struct epd_feature
numbered(int i)
{
	struct epd_feature f = feature(i);

	memcpy(pixels, &i, sizeof i);
	epd_image_fingerprint(&f.fp, &f.model, f.grid, PIX_H, PIX_W, pixels);
	return f;
}

static inline struct epd_name
depot_feature(struct depot *d, int i)
{
	const struct epd_feature f = numbered(i);
	int rc = epd_feature_commit(d->s->features, &f, rows, pixels, PIX_H,
	    PIX_W);

	if (rc < 0)
		depot_die("feature", epd_strerror(rc));
	return f.fp;
}

static inline int
depot_has_feature(struct depot *d, int i)
{
	const struct epd_feature f = numbered(i);
	float got[ROWS];
	uint8_t *rgb = NULL;
	long h, w;
	int ok;

	memset(got, 0xa5, sizeof got);
	ok = epd_feature_lookup(d->s->features, &f, 0, got, sizeof got,
	    NULL) == 1 && !memcmp(got, rows, sizeof got) &&
	    epd_feature_pixels(d->s->features, &f.fp, &rgb, &h, &w) == 0 &&
	    h == PIX_H && w == PIX_W && !memcmp(rgb, pixels, sizeof pixels);
	epd_free(rgb);
	return ok;
}

/* ---- what there is ---- */

static inline int
depot_count_one(void *arg, uint64_t run, uint64_t bytes)
{
	(void)run;
	(void)bytes;
	++*(int *)arg;
	return 0;
}

/* Run files of a workflow. */
static inline int
depot_runs(struct depot *d, const char *workflow)
{
	const int fd = epd_memory_find(d->s->memory, workflow);
	int n = 0;

	if (fd < 0)
		return 0;
	epd_run_each(fd, depot_count_one, &n);
	close(fd);
	return n;
}

/* Files beneath the folder whose names begin as temporaries do. */
static inline int
depot_temporaries(int dirfd)
{
	DIR *d = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC));
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		n += !strncmp(e->d_name, EPD_TEMP_PREFIX,
		    strlen(EPD_TEMP_PREFIX));
		if (e->d_type == DT_DIR) {
			const int sub = openat(dirfd, e->d_name, O_RDONLY |
			    O_DIRECTORY | O_CLOEXEC);

			n += depot_temporaries(sub);
			close(sub);
		}
	}
	if (d)
		closedir(d);
	return n;
}

static inline void
depot_fault(void *arg, const char *text)
{
	(void)arg;
	printf("# fault: %s\n", text);
}

/* Faults of the whole store. */
static inline int
depot_check(struct depot *d)
{
	return epd_flow_check(d->s, "", depot_fault, NULL, depot_why(d));
}

/* Swept until nothing more goes: runs that nobody named, temporaries. */
static inline struct epd_swept
depot_sweep(struct depot *d)
{
	struct epd_swept all = { .runs = 0 };

	for (int i = 0; i < 3; i++) {
		struct epd_swept s = { .runs = 0 };

		if (epd_flow_gc(d->s, &s, depot_why(d)) < 0)
			depot_die("gc", d->why.text);
		all.runs += s.runs;
		all.temporaries += s.temporaries;
		all.states += s.states;
		all.orphans += s.orphans;
	}
	return all;
}

#endif
