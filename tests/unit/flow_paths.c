/*
 * flow_paths.c - workflows with many states: weighed in one pass they come to what
 * each does by itself, whatever their versions have of each other; and what looks
 * at all of them takes time that grows with the states, not with their square.
 */
#include <time.h>

#include "flow/book.h"
#include "shard/shard.h"
#include "tests/unit/view.h"

static uint64_t seed;

static uint32_t
any(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

enum { MOST = 6, STATES = 40, OPS = 400 };

/* A file that is there under a run's id, or is not. */
static uint64_t
a_run(struct epd_workflow *w)
{
	char name[EPD_RUN_NAME];
	uint64_t run = 0;
	int fd;

	if (epd_run_id(&run) < 0 || any(3) == 0)
		return run;
	epd_run_format(name, run);
	fd = openat(w->runs, name, O_CREAT | O_WRONLY, 0400);
	if (fd >= 0 && (epd_file_pwrite(fd, "x", 1, 4096 * any(7)) < 0 ||
	    close(fd) < 0))
		return 0;
	return run;
}

/* A version of some pages on a path that has so many tokens and pages. */
struct made {
	struct epd_version v;
	struct epd_page_ref page[MOST];
	struct epd_run_link link[MOST];
	struct epd_image_ref image;
	int32_t ids[(MOST + 2) * T];
};

static void
make(struct made *m, struct epd_workflow *w, uint64_t tokens, uint64_t pages)
{
	struct epd_version *v = &m->v;
	uint32_t left;

	memset(m, 0, sizeof *m);
	v->ids = m->ids;
	v->nids = 1 + any(T);
	v->npages = any(4) ? any(MOST) : 0;
	/* Mostly behind or on the last; or far before it, or past the end. */
	v->first_page = (uint32_t)pages;
	if (pages && any(3))
		v->first_page -= any(8) ? 1 : 1 + any((uint32_t)pages);
	else if (any(40) == 0)
		v->first_page += 1;
	if (tokens + v->nids < (uint64_t)(v->first_page + v->npages) * T)
		v->nids = (uint32_t)((v->first_page + v->npages) * T - tokens);
	if (v->nids > sizeof m->ids / sizeof *m->ids) {
		v->nids = 1;
		v->npages = 0;
	}
	v->pages = m->page;
	for (uint32_t i = 0; i < v->npages; i++) {
		m->page[i].rows = T;
		m->page[i].name.b[0] = (uint8_t)any(256);
	}
	left = v->npages;
	v->links = m->link;
	while (left && any(4) == 0) {
		uint32_t n = 1 + any(left);

		m->link[v->nlinks++] = (struct epd_run_link){ a_run(w), n };
		left -= n;
	}
	v->run = left ? a_run(w) : 0;
	if (!v->npages)
		v->first_page = 0;
	v->images = &m->image;
	v->nimages = any(5) == 0;
	m->image.grid[0] = m->image.grid[1] = m->image.grid[2] = 2;
}

/* What a version has so far, by the slow way; 0 if it has holes. */
static int
at(struct epd_workflow *w, uint32_t state, uint64_t *tokens, uint64_t *pages)
{
	struct epd_weight x;
	struct epd_book b;
	int rc = epd_book_open(&b, w, NULL, NULL);

	if (rc < 0)
		return rc;
	rc = epd_book_weigh(&b, w->shard, state, 0, &x);
	epd_book_close(&b);
	*tokens = x.tokens;
	*pages = x.pages;
	return rc;
}

/* Some state that lives, or 0. */
static uint32_t
some(struct epd_workflow *w)
{
	struct epd_state st;

	if (epd_shard_next(w->shard, any(STATES), &st) == 0 ||
	    epd_shard_next(w->shard, 0, &st) == 0)
		return st.id;
	return 0;
}

static int
create(struct fixture *f, struct epd_workflow *w)
{
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m" };
	struct made m;
	uint32_t id;

	make(&m, w, 0, 0);
	return epd_shard_create(w->shard, &st, &m.v, &id, NULL);
}

static int
advance(struct epd_workflow *w, uint32_t state)
{
	struct epd_state st;
	uint64_t tokens, pages;
	struct made m;
	uint32_t to;

	/* What has holes goes no further. */
	if (at(w, state, &tokens, &pages) < 0 ||
	    epd_shard_state(w->shard, state, &st) < 0)
		return 0;
	make(&m, w, tokens, pages);
	return epd_shard_advance(w->shard, state, st.versions, 0, &m.v, &to,
	    NULL);
}

static int
op(struct fixture *f, struct epd_workflow *w)
{
	const uint32_t state = some(w), what = any(10);
	const struct epd_fork_ask ask = {
		.state = state, .branches = 1 + any(3), .replace = any(9) == 0,
		.reason = "test",
	};
	uint32_t first;
	uint64_t id;

	if (!state || what == 0)
		return create(f, w);
	if (what < 6)
		return advance(w, state);
	if (what < 8)
		return epd_shard_fork(w->shard, &ask, &first, NULL);
	if (what == 8)
		return epd_shard_release(w->shard, state, "", NULL, NULL,
		    NULL);
	return epd_shard_lease(w->shard, state, 0, EPD_LEASE_VALIDATION, 600000,
	    &id, NULL);
}

static int
is_same(const struct epd_weight *a, const struct epd_weight *b)
{
	return a->tokens == b->tokens && a->pages == b->pages &&
	    a->missing == b->missing && a->images == b->images &&
	    a->private_bytes == b->private_bytes &&
	    a->shared_bytes == b->shared_bytes &&
	    a->proportional_bytes == b->proportional_bytes &&
	    a->shared == b->shared && a->head.node == b->head.node;
}

/* Of states weighed: those with holes, and those that one pass was enough for. */
struct tally {
	int weighed, odd, once;
};

/* States that the two ways weigh unlike. */
static int
unlike(struct epd_workflow *w, struct tally *t)
{
	struct epd_book slow, fast;
	struct epd_state st = { .id = 0 };
	int n = 0;

	if (epd_book_open(&slow, w, NULL, NULL) < 0)
		return -1;
	if (epd_book_open(&fast, w, NULL, NULL) < 0 ||
	    epd_book_paths(&fast, w->shard) < 0) {
		epd_book_close(&slow);
		return -1;
	}
	while (epd_shard_next(w->shard, st.id, &st) == 0) {
		struct epd_weight a = { .tokens = 0 }, b = { .tokens = 0 };
		int x = epd_book_weigh(&slow, w->shard, st.id, 0, &a);
		int y = epd_book_weigh(&fast, w->shard, st.id, 0, &b);

		n += x != y || (x == 0 && !is_same(&a, &b));
		t->weighed++;
		t->odd += x == EPD_ECORRUPT;
		t->once += x == 0 && epd_book_path(&fast, a.head.node, st.id,
		    &b);
	}
	epd_book_close(&slow);
	epd_book_close(&fast);
	return n;
}

TEST(in_one_pass_or_one_by_one)
{
	struct tally t = {0};

	for (uint64_t run = 0; run < 12; run++) {
		struct epd_workflow w;
		struct fixture f;
		char name[EPD_WORKFLOW];

		seed = run;
		CHECK_INT(begin(&f), 0);
		CHECK_INT(epd_workflow_make(f.s, "w1", name, NULL), 0);
		CHECK_INT(epd_workflow_open(&w, f.s, name, 0, NULL), 0);
		for (int i = 0; i < OPS; i++) {
			int rc = op(&f, &w);

			CHECK(rc >= 0 || rc == EPD_ESTATUS ||
			    rc == EPD_ENOSTATE);
			if (i % 50 == 49)
				CHECK_INT(unlike(&w, &t), 0);
		}
		CHECK_INT(epd_shard_checkpoint(w.shard, NULL), 0);
		CHECK_INT(unlike(&w, &t), 0);
		epd_workflow_close(&w);
		end(&f);
	}
	printf("# %d states, %d of them with holes, %d weighed at once\n",
	    t.weighed, t.odd, t.once);
	CHECK(t.weighed > 1000 && t.odd > 0 && t.odd < t.weighed / 4);
	CHECK(t.once > (t.weighed - t.odd) / 10 * 9);
}

/* ---- names ---- */

enum { TOKENS_MOST = 600, PATHS = 24 };

/* A state's sequence as it ought to be. */
struct path {
	uint32_t state, versions;
	int32_t ids[TOKENS_MOST];
	uint32_t n, nimages;
	struct epd_image_ref image[TOKENS_MOST / 4];
	struct epd_page_ref page[TOKENS_MOST / T + 1];
	uint32_t npages;
};

/* An image of 4 merged tokens. */
static const struct epd_image_ref four = { .grid = { 1, 4, 4 } };

static void
name_page(const struct fixture *f, struct path *p, uint32_t i)
{
	const uint32_t from = i * T;
	struct epd_page_image im[TOKENS_MOST / 4];
	uint32_t n = 0, rows = p->n - 1 - from;

	rows = rows > T ? T : rows;
	for (uint32_t k = 0; k < p->nimages; k++)
		if (p->image[k].at < from + rows && p->image[k].at + 4 > from)
			im[n++] = (struct epd_page_image){
				.at = (int64_t)p->image[k].at - (int64_t)from,
				.fp = p->image[k].fp,
			};
	epd_page_name(&p->page[i].name, i ? &p->page[i - 1].name : &f->base,
	    p->ids + from, rows, im, n);
	p->page[i].rows = rows;
}

/* What comes next: tokens, an image now and then, and the pages they make. */
static struct epd_version
grow(const struct fixture *f, struct path *p)
{
	const uint32_t had = p->n, images = p->nimages;
	uint32_t more = 1 + any(40), first;
	struct epd_version v = { .ids = p->ids + had };

	if (p->n + more + 8 > TOKENS_MOST)
		more = 0;
	for (; more; more--)
		p->ids[p->n++] = (int32_t)any(1000);
	while (any(3) == 0 && p->n + 5 < TOKENS_MOST) {
		struct epd_image_ref *r = p->image + p->nimages++;

		*r = four;
		r->at = p->n;
		r->fp.b[0] = (uint8_t)any(256);
		for (int i = 0; i < 5; i++)
			p->ids[p->n++] = i;
	}
	v.nids = p->n - had;
	v.images = p->image + images;
	v.nimages = p->nimages - images;
	if (!v.nids)
		return v;
	/* Pages hold all but the last; the part-full one is written anew. */
	first = p->npages && p->page[p->npages - 1].rows < T ? p->npages - 1 :
	    p->npages;
	if (any(6) == 0 && first)
		first--;
	p->npages = (p->n - 1 + T - 1) / T;
	for (uint32_t i = first; i < p->npages; i++)
		name_page(f, p, i);
	v.first_page = first;
	v.npages = p->npages > first ? p->npages - first : 0;
	v.pages = p->page + first;
	v.run = v.npages ? 1 + ((uint64_t)any(1 << 30) << 20) + any(1 << 20) : 0;
	if (!v.npages)
		v.first_page = 0;
	return v;
}

/* A forest whose every name is right, but for one page of version `wrong`. */
static int
plant(struct fixture *f, struct epd_workflow *w, int wrong, int *made)
{
	static struct path p[PATHS];
	uint32_t n = 0, to;
	int rc = 0;

	memset(p, 0, sizeof p);
	for (int i = 0; rc == 0 && i < 60; i++) {
		struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
		    .page_bytes = PAGE, .base = f->base, .model_path = "/m",
		    .fingerprint = "{\"merge\": 2}" };
		struct path *q = p + (n ? any(n) : 0);
		struct epd_page_ref off[TOKENS_MOST / T + 1];
		struct epd_version v;
		int is_new = n < PATHS && (!n || any(6) == 0);

		if (!is_new && n < PATHS && any(3) == 0) {
			p[n] = *q;
			p[n].versions = 1;
			rc = epd_shard_fork(w->shard, &(struct epd_fork_ask){
			    .state = q->state, .branches = 1, .reason = "" },
			    &p[n].state, NULL);
			n++;
			continue;
		}
		q = is_new ? p + n++ : q;
		v = grow(f, q);
		if (!v.nids)
			continue;
		if (v.npages && wrong-- == 0) {
			memcpy(off, v.pages, v.npages * sizeof *off);
			off[any(v.npages)].name.b[any(EPD_NAME)] ^= 4;
			v.pages = off;
		}
		*made += v.npages != 0;
		rc = is_new ? epd_shard_create(w->shard, &st, &v, &q->state,
		    NULL) : epd_shard_advance(w->shard, q->state, q->versions,
		    0, &v, &to, NULL);
		q->versions++;
	}
	return rc;
}

/* Faults of a forest of which one page is named wrong, or none (-1). */
static int
faults_of(uint64_t which, int wrong, int *made)
{
	struct epd_workflow w;
	struct fixture f;
	char name[EPD_WORKFLOW];
	int n = 0, rc = begin(&f);

	seed = which;
	*made = 0;
	if (rc == 0 && (rc = epd_workflow_make(f.s, "w1", name, NULL)) == 0 &&
	    (rc = epd_workflow_open(&w, f.s, name, 0, NULL)) == 0) {
		rc = plant(&f, &w, wrong, made);
		epd_workflow_close(&w);
	}
	if (rc == 0)
		rc = epd_flow_check(f.s, "", tally, &n, NULL);
	end(&f);
	return rc < 0 ? rc : n;
}

TEST(every_page_of_a_forest_is_named_by_its_tokens)
{
	int made, ignored;

	for (uint64_t i = 0; i < 20; i++)
		CHECK_INT(faults_of(i, -1, &made), 0);
	CHECK(made > 20);
	/* Each version's in turn. */
	for (int wrong = 0; wrong < made; wrong++)
		CHECK(faults_of(19, wrong, &ignored) > 0);
}

/* ---- growth ---- */

static double
cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* States, each begun from the one before (deep), or all from the first. */
static int
many(struct fixture *f, uint32_t n, int deep)
{
	int32_t ids[2] = { 1, 2 };
	struct epd_version v = { .ids = ids, .nids = 1 };
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m" };
	struct epd_workflow w;
	char name[EPD_WORKFLOW];
	uint32_t id = 0, to;
	int rc = epd_workflow_make(f->s, "w1", name, NULL);

	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, name, 0, NULL);
	if (rc < 0)
		return rc;
	rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	for (uint32_t i = 1; rc == 0 && i < n; i++) {
		rc = epd_shard_fork(w.shard, &(struct epd_fork_ask){
		    .state = deep ? id : 1, .branches = 1, .reason = "" },
		    &id, NULL);
		if (rc == 0 && deep)
			rc = epd_shard_advance(w.shard, id, 1, 0, &v, &to,
			    NULL);
	}
	if (rc == 0)
		rc = epd_shard_checkpoint(w.shard, NULL);
	epd_workflow_close(&w);
	return rc;
}

enum { LIST, TREE, PROVE, SWEEP, LOOKS };

static int
look(struct fixture *f, int how)
{
	struct epd_swept swept;
	struct epd_buf b = {0};
	int n = 0, rc;

	switch (how) {
	case LIST:
		return epd_view_states(f->s, NULL, count, &n, NULL);
	case TREE:
		rc = epd_view_tree(f->s, "w1", &b, NULL);
		epd_buf_free(&b);
		return rc;
	case PROVE:
		return epd_flow_check(f->s, "", tally, &n, NULL);
	default:
		return epd_flow_gc(f->s, &swept, NULL);
	}
}

/* The least time that each takes of three tries; a millisecond at least. */
static int
times(uint32_t n, int deep, double ms[LOOKS])
{
	struct fixture f;
	int rc = begin(&f);

	if (rc == 0)
		rc = many(&f, n, deep);
	for (int how = 0; rc == 0 && how < LOOKS; how++)
		for (int i = 0; rc == 0 && i < 3; i++) {
			double from = cpu_ms(), took;

			rc = look(&f, how);
			took = cpu_ms() - from;
			took = took > 1 ? took : 1;
			ms[how] = i == 0 || took < ms[how] ? took : ms[how];
		}
	end(&f);
	return rc;
}

enum { FEW = 500, FACTOR = 8, SLACK = 3 };

TEST(eight_times_the_states_take_eight_times_as_long)
{
	static const char *const what[] = { "ls", "tree", "check", "gc" };

	for (int deep = 0; deep < 2; deep++) {
		double few[LOOKS], more[LOOKS];

		CHECK_INT(times(FEW, deep, few), 0);
		CHECK_INT(times(FEW * FACTOR, deep, more), 0);
		for (int i = 0; i < LOOKS; i++) {
			printf("# %s of %s: %.1f ms, %.1f ms\n", what[i],
			    deep ? "a chain" : "one parent", few[i], more[i]);
			CHECK(more[i] < few[i] * FACTOR * SLACK);
		}
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
