/*
 * flow_view.c - views and housekeeping over a store made by hand: two workflows,
 * states with and without pages in memory, no model and no engine.
 */
#include <sys/stat.h>

#include "base/json.h"
#include "shard/shard_in.h"
#include "tests/unit/view.h"

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

enum { SALT = 77 };

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
		t->head[1]->salt = SALT;
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

static int
salt(void *arg, const struct epd_sight *v)
{
	*(uint64_t *)arg = v->head->sampling.salt;
	return 0;
}

TEST(a_branch_draws_by_itself)
{
	struct epd_ref ref = { EPD_REF_STATE, "w1", 1, 0, {{0}} };
	struct epd_buf b = {0};
	struct fixture f;
	uint64_t n;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_shared(&f), 0);
	CHECK_INT(epd_view_state(f.s, &ref, salt, &n, NULL), 0);
	CHECK_INT(n, 0);
	ref.state = 2;
	CHECK_INT(epd_view_state(f.s, &ref, salt, &n, NULL), 0);
	CHECK_INT(n, SALT);
	CHECK_INT(epd_view_json(f.s, &ref, &b, NULL), 0);
	CHECK(strstr(epd_buf_cstr(&b), "\"salt\": \"77\""));
	epd_buf_free(&b);
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

/* What cannot even be opened is one fault, and counted. */
TEST(a_damaged_log_is_counted)
{
	struct epd_workflow w;
	struct fixture f;
	int faults = 0, fd;

	CHECK_INT(begin(&f), 0);
	/* What was not flushed may be missing. */
	f.s->config.state_sync = 1;
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(epd_workflow_open(&w, f.s, "w1", 1, NULL), 0);
	fd = openat(w.dirfd, "log.00000001", O_RDWR);
	CHECK(fd >= 0);
	CHECK_INT(pwrite(fd, "damaged", 7, 150), 7);
	close(fd);
	epd_workflow_close(&w);
	CHECK_INT(epd_flow_check(f.s, "w1", tally, &faults, NULL), 1);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_REFCOUNT_MISMATCH), 1);
	end(&f);
}

/* A state whose pages no run can hold. */
TEST(a_shape_that_no_page_has)
{
	struct epd_workflow w;
	struct fixture f;
	int faults = 0;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	for (uint64_t bytes = 0; ; bytes = UINT64_MAX) {
		CHECK_INT(epd_workflow_open(&w, f.s, "w1", 0, NULL), 0);
		w.shard->table->head[0]->state.page_bytes = bytes;
		CHECK_INT(epd_shard_checkpoint(w.shard, NULL), 0);
		epd_workflow_close(&w);
		CHECK(epd_flow_check(f.s, "w1", tally, &faults, NULL) > 0);
		if (bytes)
			break;
	}
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_PAGES_CORRUPT), 2);
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

/* The path of the one run there is. */
static int
find_run(const struct fixture *f, char path[256])
{
	FILE *p;

	snprintf(path, 256, "find %s/memory -type f -path '*/w/*'", f->dir);
	if (!(p = popen(path, "r")))
		return -errno;
	if (!fgets(path, 256, p))
		*path = '\0';
	pclose(p);
	path[strcspn(path, "\n")] = '\0';
	return *path ? 0 : -ENOENT;
}

static int
damage(const char *run)
{
	int fd, rc;

	if (chmod(run, 0600) < 0 || (fd = open(run, O_WRONLY)) < 0)
		return -errno;
	rc = epd_file_pwrite(fd, "x", 1, 4096 + 10);
	close(fd);
	return rc;
}

TEST(check_tells_a_page_that_is_not_what_the_log_says)
{
	struct fixture f;
	char path[256];
	int faults = 0;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(find_run(&f, path), 0);
	CHECK_INT(damage(path), 0);
	CHECK(epd_flow_check(f.s, "w1", tally, &faults, NULL) > 0);
	CHECK(faults > 0);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_PAGES_CORRUPT), faults);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_REFCOUNT_MISMATCH), 0);
	end(&f);
}

/* What check says of a run, and of a folder of runs, that are shut to it. */
static int
shut(struct fixture *f, int got[2], int *faults)
{
	char path[256];
	int rc = begin(f);

	if (rc == 0)
		rc = make_state(f, "w1", 0);
	if (rc == 0)
		rc = find_run(f, path);
	if (rc == 0 && chmod(path, 0) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	got[0] = epd_flow_check(f->s, "w1", tally, faults, NULL);
	*strrchr(path, '/') = '\0';
	if (chmod(path, 0) < 0)
		return -errno;
	got[1] = epd_flow_check(f->s, "w1", tally, faults, NULL);
	return chmod(path, 0700) < 0 ? -errno : 0;
}

TEST(what_cannot_be_looked_at_is_neither_whole_nor_damaged)
{
	const int root = !geteuid();
	struct fixture f;
	int got[2] = {0}, faults = 0, rc;

	if (root)
		CHECK_INT(seteuid(65534), 0);
	rc = shut(&f, got, &faults);
	if (root)
		CHECK_INT(seteuid(0), 0);
	CHECK_INT(rc, 0);
	CHECK_INT(got[0], -EACCES);
	CHECK_INT(got[1], -EACCES);
	CHECK_INT(faults, 0);
	CHECK_INT(epd_metrics_get(f.s->metrics, EPD_M_PAGES_CORRUPT), 0);
	end(&f);
}

/* By its times the memory tier evicts. */
TEST(looking_is_no_use_of_a_run)
{
	const struct timespec past[2] = { { .tv_sec = 1000 },
	    { .tv_sec = 2000 } };
	struct stat was, is;
	struct fixture f;
	char path[256];
	int states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(find_run(&f, path), 0);
	CHECK_INT(utimensat(AT_FDCWD, path, past, 0), 0);
	CHECK_INT(stat(path, &was), 0);
	CHECK_INT(look(&f, &states), 0);
	CHECK_INT(stat(path, &is), 0);
	CHECK_INT(is.st_atim.tv_sec, 1000);
	CHECK(is.st_ctim.tv_sec == was.st_ctim.tv_sec &&
	    is.st_ctim.tv_nsec == was.st_ctim.tv_nsec);
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
	int rc, states;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w2", 0), 0);
	for (long i = 0; ; i++) {
		k.left = i;
		epd_alloc_hook(refuse, &k);
		rc = look(&f, &states);
		epd_alloc_hook(NULL, NULL);
		if (rc == 0 && k.left >= 0)
			break;
		CHECK(rc == 0 || rc == -ENOMEM);
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
