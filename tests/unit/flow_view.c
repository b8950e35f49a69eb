/*
 * flow_view.c - views and housekeeping over a store made by hand: two workflows,
 * states with and without pages in memory, no model and no engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "flow/store.h"
#include "flow/view.h"
#include "page/page.h"
#include "shard/shard_in.h"
#include "tests/check.h"

enum { T = 16, PAGE = 4096, TOKENS = 40, PAGES = 3 };

struct fixture {
	char dir[64];
	struct epd_store *s;
	struct epd_name base;
};

static const struct epd_run_shape shape = {
	.kind = EPD_OBJECT_KV_PAGE, .type = EPD_BF16, .tokens = T,
	.bytes = PAGE,
};

/* A run of pages named as their tokens say. */
static int
publish(struct fixture *f, struct epd_workflow *w, const int32_t *ids,
    struct epd_page_ref *ref, uint64_t *run)
{
	struct epd_page_entry e[PAGES];
	struct epd_name up = f->base;
	struct epd_run *r;
	int rc = epd_run_new(&r, w->runs, &shape);

	for (int i = 0; rc == 0 && i < PAGES; i++) {
		uint32_t rows = i < PAGES - 1 ? T : TOKENS - 1 - 2 * T;
		void *page;

		if ((rc = epd_run_add(r, &page)) < 0)
			break;
		memset(page, i + 1, PAGE);
		e[i].rows = rows;
		epd_page_name(&e[i].name, &up, ids + i * T, rows, NULL, 0);
		up = e[i].name;
	}
	if (rc == 0 && (rc = epd_run_id(run)) == 0)
		rc = epd_run_publish(r, *run, e, PAGES);
	for (int i = 0; rc == 0 && i < PAGES; i++)
		ref[i] = (struct epd_page_ref){ e[i].name, e[i].rows,
		    e[i].sum };
	epd_run_close(r);
	return rc;
}

static int
make_state(struct fixture *f, const char *workflow, uint64_t ttl)
{
	struct epd_workflow w;
	char name[EPD_WORKFLOW];
	int32_t ids[TOKENS];
	struct epd_page_ref pages[PAGES];
	struct epd_version v = { .ids = ids, .nids = TOKENS,
	    .pages = pages, .npages = PAGES, .next_pos = TOKENS };
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m",
	    .tenant = "", .fingerprint = "{\"merge\": 2}",
	    .ttl_deadline_ms = ttl };
	uint32_t id;
	int rc = epd_workflow_make(f->s, workflow, name, NULL);

	for (int i = 0; i < TOKENS; i++)
		ids[i] = i;
	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, name, 0, NULL);
	if (rc < 0)
		return rc;
	rc = publish(f, &w, ids, pages, &v.run);
	if (rc == 0)
		rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	if (rc == 0 && !ttl) {
		struct epd_version next = { .ids = ids, .nids = 1,
		    .first_page = PAGES - 1, .next_pos = TOKENS + 1 };
		uint32_t version;

		next.npages = 0;
		rc = epd_shard_advance(w.shard, id, 1, 0, &next, &version,
		    NULL);
	}
	epd_workflow_close(&w);
	return rc;
}

static int
open_store(struct fixture *f, int look)
{
	struct epd_config c;
	struct epd_store_options o = { .config = &c, .create = !look,
	    .look = look };
	char store[128];

	epd_config_default(&c);
	c.log_keep = -1;
	snprintf(c.memory_dir, sizeof c.memory_dir, "%s/memory", f->dir);
	snprintf(store, sizeof store, "%s/store", f->dir);
	c.state_sync = 0;
	o.path = store;
	return epd_store_open(&f->s, &o, NULL);
}

static int
begin(struct fixture *f)
{
	char path[128];
	int fd;

	memset(f, 0, sizeof *f);
	strcpy(f->dir, "/tmp/epd-view-XXXXXX");
	if (!mkdtemp(f->dir))
		return -errno;
	snprintf(path, sizeof path, "%s/memory", f->dir);
	if ((fd = epd_dir_root(path, 1)) < 0)
		return fd;
	close(fd);
	memset(f->base.b, 7, sizeof f->base.b);
	return open_store(f, 0);
}

static void
end(struct fixture *f)
{
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY);

	epd_store_close(f->s);
	epd_file_remove(fd, f->dir + 5);
	close(fd);
}

static int
count(void *arg, const struct epd_state_line *l)
{
	(void)l;
	++*(int *)arg;
	return 0;
}

static void
tally(void *arg, const char *text)
{
	printf("# %s\n", text);
	++*(int *)arg;
}

static int
keep(void *arg, const struct epd_sight *v)
{
	char *text = arg;
	int n = snprintf(text, 256, "%s/s%u@%u of %u %s %llu tokens %llu pages "
	    "%s seed %llu:", v->line.workflow, v->line.state, v->version,
	    v->line.versions, v->line.status,
	    (unsigned long long)v->line.tokens,
	    (unsigned long long)v->line.pages, v->kv_dtype,
	    (unsigned long long)v->head->sampling.seed);

	for (uint32_t i = 0; i < v->line.images; i++)
		n += snprintf(text + n, 256 - (size_t)n, " %u at %llu",
		    v->images[i].fp.b[0], (unsigned long long)v->images[i].at);
	return 7;
}

/* Everything that looks, once. */
static int
look(struct fixture *f, int *states)
{
	struct epd_ref state = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	struct epd_ref workflow = { EPD_REF_WORKFLOW, "w1", 0, 0, {{0}} };
	struct epd_buf b = {0};
	int32_t *ids = NULL;
	uint64_t n;
	char text[256];
	int faults = 0, rc;

	*states = 0;
	rc = epd_view_states(f->s, NULL, count, states, NULL);
	if (rc == 0)
		rc = epd_view_json(f->s, &state, &b, NULL);
	if (rc == 0 && (rc = epd_view_state(f->s, &state, keep, text,
	    NULL)) == 7)
		rc = 0;
	if (rc == 0)
		rc = epd_view_json(f->s, &workflow, &b, NULL);
	if (rc == 0)
		rc = epd_view_tokens(f->s, &state, &ids, &n, NULL);
	epd_free(ids);
	if (rc == 0)
		rc = epd_view_tree(f->s, "w1", &b, NULL);
	if (rc == 0)
		rc = epd_view_metrics(f->s, 0, &b, NULL);
	if (rc == 0)
		rc = epd_view_metrics(f->s, 1, &b, NULL);
	epd_buf_free(&b);
	if (rc == 0)
		rc = epd_flow_check(f->s, "", tally, &faults, NULL);
	return rc == 0 && faults ? -EDOM : rc;
}

TEST(everything_looks)
{
	struct fixture f;
	int states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w2", 0), 0);
	CHECK_INT(look(&f, &states), 0);
	CHECK_INT(states, 3);
	end(&f);
}

TEST(a_state_as_json)
{
	struct epd_ref ref = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	struct epd_json *j;
	struct epd_buf b = {0};
	struct fixture f;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), 0);
	CHECK_INT(epd_json_parse(&j, epd_span(b.p, b.n), "view", NULL), 0);
	CHECK_STR(epd_json_str(epd_json_get(j, "state_id"), ""), "w1/s1");
	CHECK_INT(epd_json_int(epd_json_get(j, "version_id"), 0), 2);
	CHECK_INT(epd_json_int(epd_json_get(j, "tokens"), 0), TOKENS + 1);
	CHECK_INT(epd_json_count(epd_json_get(j, "kv_pages")), PAGES);
	epd_json_free(j);
	epd_buf_free(&b);
	ref.version = 3;
	CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), EPD_ENOTHING);
	ref.version = 0;
	ref.state = 2;
	CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), EPD_ENOSTATE);
	strcpy(ref.workflow, "w3");
	CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), EPD_ENOTHING);
	epd_buf_free(&b);
	end(&f);
}

/* Ten versions, two of them with images, none with pages. */
static int
make_images(struct fixture *f)
{
	struct epd_image_ref im[3] = { { .at = 1, .grid = { 1, 2, 2 } },
	    { .at = 12, .grid = { 1, 2, 2 } }, { .at = 14,
	    .grid = { 1, 2, 2 } } };
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_F32,
	    .page_bytes = PAGE, .model_path = "/m" };
	struct epd_workflow w;
	char name[EPD_WORKFLOW];
	int32_t ids[4] = { 1, 2, 3, 4 };
	struct epd_version v = { .ids = ids, .nids = 4, .images = im,
	    .nimages = 1, .sampling = { .temp = 0.5f } };
	uint32_t id, at;
	int rc = epd_workflow_make(f->s, "w1", name, NULL);

	for (int i = 0; i < 3; i++)
		im[i].fp.b[0] = (uint8_t)(i + 1);
	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, name, 0, NULL);
	if (rc < 0)
		return rc;
	rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	v.images = im + 1;
	for (uint32_t i = 1; rc == 0 && i < 10; i++) {
		v.nimages = i == 3 ? 2 : 0;
		v.sampling.seed = i;
		v.next_pos = i;
		rc = epd_shard_advance(w.shard, id, i, 0, &v, &at, NULL);
	}
	epd_workflow_close(&w);
	return rc;
}

TEST(a_state_as_a_summary)
{
	struct epd_ref ref = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	struct epd_why why = {{0}};
	struct fixture f;
	char text[256];

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_images(&f), 0);
	CHECK_INT(epd_view_state(f.s, &ref, keep, text, NULL), 7);
	CHECK_STR(text, "w1/s1@10 of 10 ACTIVE 40 tokens 0 pages f32 seed 9: "
	    "1 at 1 2 at 12 3 at 14");
	ref.version = 3;
	CHECK_INT(epd_view_state(f.s, &ref, keep, text, NULL), 7);
	CHECK_STR(text, "w1/s1@3 of 10 ACTIVE 12 tokens 0 pages f32 seed 2: "
	    "1 at 1");
	ref.version = 11;
	CHECK_INT(epd_view_state(f.s, &ref, keep, text, &why), EPD_ENOTHING);
	CHECK_STR(why.text, "w1/s1@11: no such version");
	ref.state = 2;
	CHECK_INT(epd_view_state(f.s, &ref, keep, text, NULL), EPD_ENOSTATE);
	end(&f);
}

/* s1 has two versions with a run each, s2 stands on the first of them. */
static int
make_shared(struct fixture *f)
{
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m" };
	struct epd_page_ref pages[PAGES];
	int32_t ids[TOKENS] = { 0 };
	struct epd_version v = { .ids = ids, .nids = TOKENS,
	    .pages = pages, .npages = PAGES, .next_pos = TOKENS };
	struct epd_workflow w;
	struct epd_table *t;
	char name[EPD_WORKFLOW];
	uint32_t id, at;
	int rc = epd_workflow_make(f->s, "w1", name, NULL);

	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, name, 0, NULL);
	if (rc < 0)
		return rc;
	rc = publish(f, &w, ids, pages, &v.run);
	for (int i = 0; rc == 0 && i < 2; i++)
		rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	v.first_page = PAGES;
	if (rc == 0)
		rc = publish(f, &w, ids, pages, &v.run);
	for (int i = 0; i < PAGES; i++)
		pages[i].rows = T;
	v.npages = 1;
	if (rc == 0)
		rc = epd_shard_advance(w.shard, 1, 1, 0, &v, &at, NULL);
	if (rc == 0) {
		/* No verb forks yet. */
		t = w.shard->table;
		rc = epd_tree_hold(t->tree, t->head[0]->v[0].node);
		if (rc == 0)
			rc = epd_tree_drop(t->tree, t->head[1]->v[0].node);
		t->head[1]->v[0].node = t->head[0]->v[0].node;
	}
	if (rc == 0)
		rc = epd_shard_checkpoint(w.shard, NULL);
	epd_workflow_close(&w);
	return rc;
}

struct shares {
	uint64_t private, shared, proportional;
	int states, status;
};

static int
add_share(void *arg, const struct epd_state_line *l)
{
	struct shares *s = arg;

	s->private += l->private_bytes;
	s->shared += l->shared_bytes;
	s->proportional += l->proportional_bytes;
	s->status += !strcmp(l->status, "SHARED");
	s->states++;
	return l->missing ? -EDOM : 0;
}

TEST(what_states_share_is_divided)
{
	struct shares s = {0};
	struct fixture f;
	uint64_t used, run;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_shared(&f), 0);
	CHECK_INT(epd_view_states(f.s, NULL, add_share, &s, NULL), 0);
	CHECK(s.states == 2 && s.status == 2);
	CHECK_INT(epd_memory_used(f.s->memory, &used), 0);
	run = used / 2;
	CHECK_INT(s.proportional, used);
	CHECK_INT(s.private, run);
	CHECK_INT(s.shared, 2 * run);
	end(&f);
}

/* A checkpoint may claim any page; none is made room for that nobody wrote. */
TEST(pages_from_nowhere)
{
	static const struct epd_ref ref = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	static const uint8_t claims[][4] = { { 0xff, 0xff, 0xff, 0xff },
	    { 0, 0, 0, 0x7f }, { 1, 0, 0, 0 } };
	struct epd_workflow w;
	struct epd_buf b = {0};
	struct fixture f;
	char text[256];

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w2", 0), 0);
	for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
		const struct epd_node *n;
		struct epd_span p;
		uint8_t *copy;
		int states = 0, faults = 0;

		CHECK_INT(epd_workflow_open(&w, f.s, "w1", 0, NULL), 0);
		n = epd_tree_get(w.shard->table->tree, 1);
		CHECK_INT(epd_shard_body(w.shard, n, &p), 0);
		copy = epd_arena_add(&w.shard->table->arena, p.n);
		memcpy(copy, p.p, p.n);
		memcpy(copy + 4, claims[i], 4);
		((struct epd_body *)n->body)->p = copy;
		CHECK_INT(epd_shard_checkpoint(w.shard, NULL), 0);
		epd_workflow_close(&w);
		CHECK_INT(epd_view_state(f.s, &ref, keep, text, NULL),
		    EPD_ECORRUPT);
		CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), EPD_ECORRUPT);
		CHECK_INT(epd_view_states(f.s, NULL, count, &states, NULL),
		    EPD_ECORRUPT);
		CHECK_INT(states, 1);
		CHECK(epd_flow_check(f.s, "w1", tally, &faults, NULL) > 1);
	}
	epd_buf_free(&b);
	end(&f);
}

TEST(a_mismatch_is_counted)
{
	struct epd_workflow w;
	struct fixture f;
	int faults = 0;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(epd_flow_check(f.s, "", tally, &faults, NULL), 0);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_REFCOUNT_MISMATCH), 0);
	/* A checkpoint that is not what the log gives. */
	CHECK_INT(epd_workflow_open(&w, f.s, "w1", 0, NULL), 0);
	w.shard->table->head[0]->state.created_ms++;
	CHECK_INT(epd_shard_checkpoint(w.shard, NULL), 0);
	epd_workflow_close(&w);
	CHECK(epd_flow_check(f.s, "", tally, &faults, NULL) > 0);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_REFCOUNT_MISMATCH),
	    faults);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_PAGES_CORRUPT), 0);
	end(&f);
}

TEST(gc_sweeps_what_expired_and_orphans)
{
	struct epd_swept swept;
	struct epd_workflow w;
	struct epd_run *r;
	struct epd_page_entry e = { .rows = 1 };
	struct fixture f;
	uint64_t run, used;
	int states;
	void *page;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w1", 1), 0);
	CHECK_INT(epd_workflow_open(&w, f.s, "w1", 0, NULL), 0);
	CHECK_INT(epd_run_new(&r, w.runs, &shape), 0);
	CHECK_INT(epd_run_add(r, &page), 0);
	CHECK_INT(epd_run_id(&run), 0);
	CHECK_INT(epd_run_publish(r, run, &e, 1), 0);
	epd_run_close(r);
	epd_workflow_close(&w);
	CHECK_INT(epd_flow_gc(f.s, &swept, NULL), 0);
	CHECK_INT(swept.states, 1);
	CHECK_INT(swept.runs, 2);
	CHECK_INT(look(&f, &states), 0);
	CHECK_INT(states, 1);
	CHECK_INT(epd_flow_gc(f.s, &swept, NULL), 0);
	CHECK_INT(swept.states + swept.runs + swept.orphans, 0);
	CHECK_INT(epd_memory_used(f.s->memory, &used), 0);
	CHECK(used > PAGES * PAGE && used < 8 * PAGE);
	end(&f);
}

TEST(release_frees_and_is_idempotent)
{
	struct epd_ref ref = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	struct fixture f;
	uint64_t used;
	int states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(epd_flow_release(f.s, &ref, "done", NULL), 0);
	CHECK_INT(epd_flow_release(f.s, &ref, "done", NULL), 0);
	CHECK_INT(epd_memory_used(f.s->memory, &used), 0);
	CHECK_INT(used, 0);
	states = 0;
	CHECK_INT(epd_view_states(f.s, NULL, count, &states, NULL), 0);
	CHECK_INT(states, 0);
	ref.state = 9;
	CHECK_INT(epd_flow_release(f.s, &ref, "", NULL), EPD_ENOSTATE);
	ref.version = 1;
	CHECK_INT(epd_flow_release(f.s, &ref, "", NULL), EPD_EUSAGE);
	end(&f);
}

TEST(check_tells_a_page_that_is_not_what_the_log_says)
{
	struct fixture f;
	char path[256];
	int faults = 0, fd;
	FILE *p;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	snprintf(path, sizeof path, "find %s/memory -type f -path '*/w/*'",
	    f.dir);
	CHECK((p = popen(path, "r")) != NULL);
	CHECK(fgets(path, sizeof path, p) != NULL);
	pclose(p);
	path[strcspn(path, "\n")] = '\0';
	CHECK_INT(chmod(path, 0600), 0);
	CHECK((fd = open(path, O_WRONLY)) >= 0);
	CHECK_INT(pwrite(fd, "x", 1, 4096 + 10), 1);
	close(fd);
	CHECK(epd_flow_check(f.s, "w1", tally, &faults, NULL) > 0);
	CHECK(faults > 0);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_PAGES_CORRUPT), faults);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_REFCOUNT_MISMATCH), 0);
	end(&f);
}

TEST(looking_makes_nothing)
{
	struct fixture f;
	char path[128];
	int fd, states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	epd_store_close(f.s);
	CHECK_INT(open_store(&f, 1), 0);
	CHECK(!f.s->procs && f.s->cache < 0 && !f.s->read_only);
	CHECK_INT(look(&f, &states), 0);
	CHECK_INT(states, 1);
	epd_store_close(f.s);
	/* No memory tier, and none comes of it. */
	fd = open(f.dir, O_RDONLY | O_DIRECTORY);
	CHECK_INT(epd_file_remove(fd, "memory"), 0);
	CHECK_INT(open_store(&f, 1), 0);
	CHECK_INT(look(&f, &states), 0);
	epd_store_close(f.s);
	CHECK(faccessat(fd, "memory", F_OK, 0) < 0);
	/* What its maker did not get to is made, as ever. */
	CHECK_INT(epd_file_remove(fd, "store/features"), 0);
	CHECK_INT(open_store(&f, 1), 0);
	CHECK_INT(look(&f, &states), 0);
	epd_store_close(f.s);
	CHECK_INT(epd_file_remove(fd, "store"), 0);
	f.s = NULL;
	CHECK_INT(open_store(&f, 1), EPD_ENOTHING);
	snprintf(path, sizeof path, "%s/store", f.dir);
	CHECK(access(path, F_OK) < 0);
	close(fd);
	end(&f);
}

struct nth {
	long left;
};

static int
refuse(void *arg, size_t n)
{
	struct nth *k = arg;

	(void)n;
	return k->left-- == 0;
}

TEST(memory_may_fail_anywhere)
{
	struct fixture f;
	struct nth k;
	int rc = -ENOMEM, states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w2", 0), 0);
	for (long i = 0; rc != 0; i++) {
		k.left = i;
		epd_alloc_hook(refuse, &k);
		rc = look(&f, &states);
		epd_alloc_hook(NULL, NULL);
		if (rc != 0)
			CHECK_INT(rc, -ENOMEM);
		CHECK(i < 100000);
	}
	CHECK_INT(look(&f, &states), 0);
	for (long i = 0; ; i++) {
		epd_store_close(f.s);
		f.s = NULL;
		k.left = i;
		epd_alloc_hook(refuse, &k);
		rc = open_store(&f, 1);
		epd_alloc_hook(NULL, NULL);
		if (rc == 0 && k.left >= 0)
			break;
		CHECK(rc == 0 || rc == -ENOMEM);
		CHECK(i < 10000);
	}
	end(&f);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
