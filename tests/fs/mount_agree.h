/*
 * mount_agree.h - processes that create, advance, fork and release states of a few
 * workflows while others look at them through the mount.  Each look is written
 * down with the log's number before and after it, and at the end held against
 * the log: no file may be of no moment, or of one before it was asked for.
 */
#ifndef TESTS_MOUNT_AGREE_H
#define TESTS_MOUNT_AGREE_H

#include "base/json.h"
#include "tests/fs/mount_fsx.h"

enum {
	AG_WORKFLOWS = 4, AG_STATES = 1 << 15, AG_VERSIONS = 9,
	AG_SEEN = 1 << 20, AG_PAUSE_US = 12000, AG_FIRST = 33, AG_PAGE = 4096,
	AG_STATE = 1, AG_GONE, AG_VERSION, AG_LINKS, AG_LOG,
};

struct ag_seen {
	uint8_t kind, w, shared, asked;	/* asked: the kernel was told to */
	uint32_t state, version, tokens, pages, mark;
	uint64_t before, after, epoch, ms;
	uint64_t sum, json, size;	/* of a version's files; of the log: where */
	uint8_t raw[32];
};
struct ag {
	atomic_uint mark[AG_WORKFLOWS], n;
	atomic_uint created, advanced, forked, released, late, lists, lines;
	/* What a version was made with, by workflow, state and version. */
	uint32_t of[AG_WORKFLOWS][AG_STATES][AG_VERSIONS + 1];
	struct ag_seen seen[AG_SEEN];
};

static inline void
ag_name(int w, char out[EPD_WORKFLOW])
{
	snprintf(out, EPD_WORKFLOW, "c%d", w);
}

/* The ids that go with a mark; the mark is in them. */
static inline void
ag_ids(int w, uint32_t mark, int32_t *ids, uint32_t n)
{
	ids[0] = (int32_t)(mark % MT_VOCAB);
	ids[1] = (int32_t)(mark / MT_VOCAB % MT_VOCAB);
	ids[2] = (int32_t)(mark / MT_VOCAB / MT_VOCAB);
	for (uint32_t i = 3; i < n; i++)
		ids[i] = mt_id(((uint64_t)w << 40) + mark, i);
}

static inline int
ag_store(struct epd_store **out, int look)
{
	struct epd_store_options o = { .path = mt.store, .config = &mt.config,
	    .tenant = "", .look = look };

	return epd_store_open(out, &o, &mt_why);
}

/* ---- writers ---- */

struct ag_writer {
	struct ag *g;
	struct epd_store *s;
	struct epd_workflow f;
	int w;
	uint64_t r;
	const char *model;
};

static inline uint64_t
ag_r(uint64_t *r, uint64_t below)
{
	*r = mt_mix(*r);
	return (*r >> 8) % below;
}

static inline int
ag_put(struct ag_writer *x, struct epd_version *v, const struct epd_name *up,
    const int32_t *first)
{
	static struct epd_page_ref ref[2];
	const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, EPD_BF16,
	    MT_T, AG_PAGE };

	v->pages = ref;
	v->turn = EPD_TURN_IS_RAW;
	return mt_publish(x->f.runs, &shape, up, first, v->npages, ref,
	    &v->run);
}

static inline int
ag_create(struct ag_writer *x)
{
	const uint32_t mark = atomic_fetch_add(&x->g->mark[x->w], 1) + 1;
	int32_t ids[AG_FIRST];
	struct epd_state st = { .page_tokens = MT_T, .kv_type = EPD_BF16,
	    .page_bytes = AG_PAGE, .model_path = x->model, .tenant = "",
	    .fingerprint = "{}" };
	struct epd_version v = { .ids = ids, .nids = AG_FIRST, .npages = 2,
	    .next_pos = AG_FIRST, .sampling = { .seed = mark } };
	uint32_t id;
	int rc;

	st.base.b[0] = (uint8_t)(200 + x->w);
	ag_ids(x->w, mark, ids, AG_FIRST);
	rc = ag_put(x, &v, &st.base, ids);
	if (rc == 0)
		rc = epd_shard_create(x->f.shard, &st, &v, &id, &mt_why);
	if (rc == 0 && id < AG_STATES)
		x->g->of[x->w][id][1] = mark;
	atomic_fetch_add(&x->g->created, rc == 0);
	return rc;
}

static inline int
ag_advance(struct ag_writer *x, const struct epd_state *st)
{
	const uint32_t mark = atomic_fetch_add(&x->g->mark[x->w], 1) + 1;
	int32_t ids[MT_T + 1];
	struct epd_version had, v = { .ids = ids + 1, .nids = MT_T,
	    .npages = 1, .sampling = { .seed = mark } };
	struct epd_name up;
	uint32_t k;
	int rc = epd_shard_version(x->f.shard, st->id, st->versions, &had);

	if (rc < 0)
		return rc;
	ids[0] = had.ids[had.nids - 1];
	ag_ids(x->w, mark, ids + 1, MT_T);
	up = had.pages[had.npages - 1].name;
	v.next_pos = (int64_t)(had.start + had.nids + MT_T);
	v.first_page = (uint32_t)((had.start + had.nids) / MT_T);
	rc = ag_put(x, &v, &up, ids);
	if (rc < 0)
		return rc;
	rc = epd_shard_advance(x->f.shard, st->id, st->versions, 0, &v, &k,
	    &mt_why);
	if (rc < 0)
		epd_run_free(x->f.runs, v.run);
	else if (st->id < AG_STATES)
		x->g->of[x->w][st->id][k] = mark;
	atomic_fetch_add(&x->g->advanced, rc == 0);
	return rc;
}

static inline int
ag_op(struct ag_writer *x)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE };
	struct epd_fork_request f = { .reason = "agent_branch",
	    .branches = 1 + (uint32_t)ag_r(&x->r, 2),
	    .replace = !ag_r(&x->r, 12) };
	struct epd_state st = {0}, one = {0};
	struct epd_forked forked;
	int n = 0, at, rc = epd_shard_catch_up(x->f.shard, &mt_why);

	while (rc == 0 && epd_shard_next(x->f.shard, st.id, &st) == 0)
		n++;
	if (rc < 0 || n < 6)
		return rc < 0 ? rc : ag_create(x);
	for (at = (int)ag_r(&x->r, (uint64_t)n); at >= 0; at--)
		(void)epd_shard_next(x->f.shard, one.id, &one);
	ref.state = one.id;
	ag_name(x->w, ref.workflow);
	f.from = ref;
	switch (n > 24 ? 9 : ag_r(&x->r, 10)) {
	case 0:
		return ag_create(x);
	case 1: case 2: case 3: case 4: case 5:
		if (one.versions < AG_VERSIONS)
			return ag_advance(x, &one);
		/* fall through */
	case 6: case 7:
		rc = epd_flow_fork(x->s, &f, &forked, &mt_why);
		atomic_fetch_add(&x->g->forked, rc == 0);
		return rc;
	default:
		rc = epd_flow_release(x->s, &ref, "done", &mt_why);
		atomic_fetch_add(&x->g->released, rc == 0);
		return rc;
	}
}

static inline int
ag_write(struct ag *g, int w, uint64_t seed)
{
	struct ag_writer x = { .g = g, .w = w, .r = seed };
	char name[EPD_WORKFLOW];
	int rc = ag_store(&x.s, 0);

	x.model = realpath(MT_MODEL, NULL);
	ag_name(w, name);
	if (rc == 0)
		rc = epd_workflow_open(&x.f, x.s, name, 0, &mt_why);
	while (rc == 0 && !atomic_load(&mt.sh->stop)) {
		rc = ag_op(&x);
		if (rc == EPD_ENOSTATE || rc == EPD_EVERSION ||
		    rc == EPD_ENOTHING) {	/* another was first */
			atomic_fetch_add(&g->late, 1);
			rc = 0;
		}
		usleep((useconds_t)ag_r(&x.r, AG_PAUSE_US));
	}
	if (rc < 0) {
		mt_bad("writer: %s: %s", epd_strerror(rc), mt_why.text);
		return 1;
	}
	epd_workflow_close(&x.f);
	epd_store_close(x.s);
	return 0;
}

/* ---- readers ---- */

struct ag_reader {
	struct ag *g;
	struct epd_store *s;
	struct epd_workflow f[AG_WORKFLOWS];
	uint64_t r;
	int w;
	uint32_t state;			/* of this step */
	char dir[96];
};

static inline uint64_t
ag_lsn(struct ag_reader *x)
{
	if (epd_shard_catch_up(x->f[x->w].shard, &mt_why) < 0)
		mt_bad("catch up: %s", mt_why.text);
	return epd_shard_lsn(x->f[x->w].shard);
}

static inline struct ag_seen *
ag_note(struct ag_reader *x, int kind, uint64_t before, uint64_t after)
{
	static struct ag_seen full;
	const unsigned n = atomic_fetch_add(&x->g->n, 1);
	struct ag_seen *o = n < AG_SEEN ? x->g->seen + n : &full;

	*o = (struct ag_seen){ .kind = (uint8_t)kind, .w = (uint8_t)x->w,
	    .state = x->state, .before = before, .after = after,
	    .ms = epd_clock_wall_ms() };
	return o;
}

/* Gone is an answer too; other errors are not.  1: it is there. */
static inline int
ag_there(struct ag_reader *x, int rc, uint64_t before, const char *what)
{
	if (rc == 0)
		return 1;
	if (rc == -ENOENT || rc == -ESTALE)
		ag_note(x, AG_GONE, before, ag_lsn(x));
	else
		mt_bad("%s/%s: %s", x->dir, what, strerror(-rc));
	return 0;
}

static inline struct epd_json *
ag_parse(struct ag_reader *x, const struct epd_buf *b, const char *what)
{
	struct epd_json *j = NULL;

	if (epd_json_parse(&j, epd_span(b->p, b->n), what, &mt_why) < 0)
		mt_bad("%s/%s: %s: %.200s", x->dir, what, mt_why.text,
		    (const char *)b->p);
	return j;
}

static inline void
ag_state(struct ag_reader *x)
{
	const uint64_t before = ag_lsn(x);
	struct epd_buf b = {0};
	struct epd_json *j;
	struct ag_seen *o;
	const char *status;
	int rc = mt_slurp(mt_path("%s/state.json", x->dir), &b);

	if (ag_there(x, rc, before, "state.json") &&
	    (j = ag_parse(x, &b, "state.json"))) {
		o = ag_note(x, AG_STATE, before, ag_lsn(x));
		o->epoch = epd_json_uint(epd_json_get(j, "epoch"), 0);
		o->version = (uint32_t)epd_json_int(epd_json_get(j,
		    "version_id"), 0);
		o->tokens = (uint32_t)epd_json_int(epd_json_get(j, "tokens"),
		    0);
		o->pages = (uint32_t)epd_json_count(epd_json_get(j,
		    "kv_pages"));
		status = epd_json_str(epd_json_get(j, "status"), "");
		o->shared = !strcmp(status, "SHARED");
		if (!o->shared && strcmp(status, "ACTIVE"))
			mt_bad("%s: status %s", x->dir, status);
		if (o->version != (uint32_t)epd_json_int(epd_json_get(j,
		    "versions"), 0) || o->pages != (uint32_t)epd_json_int(
		    epd_json_get(j, "pages"), 0))
			mt_bad("%s: versions, pages: %.300s", x->dir,
			    epd_buf_cstr(&b));
		epd_json_free(j);
	}
	epd_buf_free(&b);
}

static inline void
ag_version(struct ag_reader *x)
{
	const uint32_t k = 1 + (uint32_t)ag_r(&x->r, 3) *
	    (uint32_t)ag_r(&x->r, 4);
	const uint64_t before = ag_lsn(x);
	struct epd_buf t = {0}, v = {0}, text = {0};
	struct epd_json *j = NULL;
	struct ag_seen *o;
	struct stat st = {0};
	char dir[128];
	uint32_t lines = 0;
	int rc;

	snprintf(dir, sizeof dir, "%s/versions/%u", x->dir, k);
	if (access(mt_path("%s", dir), F_OK))
		return;			/* not yet, or gone */
	rc = mt_slurp(mt_path("%s/tokens", dir), &t);
	if (rc == 0)
		rc = mt_slurp(mt_path("%s/version.json", dir), &v);
	if (rc == 0 && stat(mt_path("%s/text", dir), &st) < 0)
		rc = -errno;
	if (rc == 0)
		rc = mt_slurp(mt_path("%s/text", dir), &text);
	if (ag_there(x, rc, before, "versions") &&
	    (j = ag_parse(x, &v, "version.json"))) {
		o = ag_note(x, AG_VERSION, before, ag_lsn(x));
		for (size_t i = 0; i < t.n; i++)
			lines += t.p[i] == '\n';
		o->version = k;
		o->tokens = lines;
		o->mark = (uint32_t)epd_json_int(epd_json_get(epd_json_get(j,
		    "sampling"), "seed"), 0);
		o->sum = epd_xxh3_64(t.p, t.n);
		o->json = epd_xxh3_64(v.p, v.n);
		o->size = text.n;
		if (lines != (uint32_t)epd_json_int(epd_json_get(j, "tokens"),
		    0) || epd_json_count(epd_json_get(j, "kv_pages")) !=
		    (lines - 1) / MT_T || epd_json_int(epd_json_get(j,
		    "version_id"), 0) != k)
			mt_bad("%s: %u tokens: %.300s", dir, lines,
			    epd_buf_cstr(&v));
		if ((size_t)st.st_size != text.n)
			mt_bad("%s/text: size %lld, %zu read", dir,
			    (long long)st.st_size, text.n);
		epd_json_free(j);
	}
	epd_buf_free(&t);
	epd_buf_free(&v);
	epd_buf_free(&text);
}

/* The first page's links, and its bytes. */
static inline void
ag_links(struct ag_reader *x)
{
	const int asked = (int)ag_r(&x->r, 2), read_it = !ag_r(&x->r, 4);
	struct epd_name name;
	struct epd_buf b = {0};
	struct ag_seen *o;
	struct statx st;
	uint8_t want[AG_PAGE];
	char to[256];
	ssize_t n = readlink(mt_path("%s/pages/0000", x->dir), to,
	    sizeof to - 1);
	uint64_t before;
	int rc;

	if (n < 2 * EPD_NAME)
		return;
	to[n] = '\0';
	before = ag_lsn(x);
	rc = statx(AT_FDCWD, mt_path("pages/%s", to + n - 2 * EPD_NAME),
	    asked ? AT_STATX_FORCE_SYNC : 0, STATX_BASIC_STATS, &st) < 0 ?
	    -errno : 0;
	if (rc && rc != -ENOENT)
		mt_bad("pages/%s: %s", to + n - 64, strerror(-rc));
	o = ag_note(x, AG_LINKS, before, ag_lsn(x));
	o->pages = rc ? 0 : st.stx_nlink;
	o->asked = asked && !rc;
	if (!read_it || rc)
		return;
	rc = mt_slurp(mt_path("pages/%s", to + n - 2 * EPD_NAME), &b);
	epd_hex_parse(name.b, EPD_NAME, to + n - 2 * EPD_NAME);
	mt_page(want, sizeof want, &name);
	if (rc == 0 && (b.n != AG_PAGE || memcmp(b.p, want, AG_PAGE)))
		mt_bad("pages/%s: other bytes", to + n - 64);
	/* Its state may have gone meanwhile, its run a moment before. */
	if (rc && rc != -ENOENT && rc != -ENODATA && rc != -ESTALE)
		mt_bad("pages/%s: %s", to + n - 64, strerror(-rc));
	epd_buf_free(&b);
}

static inline int
ag_has(const uint32_t *v, int n, uint32_t id)
{
	for (int i = 0; i < n; i++)
		if (v[i] == id)
			return 1;
	return 0;
}

static inline int
ag_live(struct ag_reader *x, uint32_t *out, int room)
{
	struct epd_state st = {0};
	int n = 0;

	(void)ag_lsn(x);
	while (n < room && epd_shard_next(x->f[x->w].shard, st.id, &st) == 0)
		out[n++] = st.id;
	return n;
}

/* A listing has who was there all the while, and nobody who was not. */
static inline void
ag_list(struct ag_reader *x)
{
	uint32_t a[128], b[128], got[128], most = 0;
	int na = ag_live(x, a, 128), nb, n = 0;
	DIR *d = opendir(mt_path("workflows/c%d/states", x->w));
	struct dirent *e;

	if (!d) {
		mt_bad("workflows/c%d/states: %s", x->w, strerror(errno));
		return;
	}
	while ((e = readdir(d)))
		if (*e->d_name == 's' && n < 128)
			got[n++] = (uint32_t)strtoul(e->d_name + 1, NULL, 10);
	closedir(d);
	nb = ag_live(x, b, 128);
	for (int i = 0; i < na; i++) {
		most = a[i] > most ? a[i] : most;
		if (ag_has(b, nb, a[i]) && !ag_has(got, n, a[i]))
			mt_bad("c%d: s%u is not listed", x->w, a[i]);
	}
	for (int i = 0; i < n; i++)
		if (!ag_has(a, na, got[i]) && got[i] <= most)
			mt_bad("c%d: s%u is listed", x->w, got[i]);
	atomic_fetch_add(&x->g->lists, 1);
}

/* A piece of the log, which only grows. */
static inline void
ag_log(struct ag_reader *x)
{
	int fd = open(mt_path("workflows/c%d/log", x->w), O_RDONLY | O_CLOEXEC);
	struct ag_seen *o;
	struct stat st;
	uint8_t raw[32];
	off_t off;

	if (fd < 0 || fstat(fd, &st) < 0) {
		mt_bad("c%d/log: %s", x->w, strerror(errno));
		return;
	}
	off = (off_t)ag_r(&x->r, (uint64_t)st.st_size + 1);
	if (st.st_size > 400 && ag_r(&x->r, 2))
		off = st.st_size - (off_t)sizeof raw;
	if (pread(fd, raw, sizeof raw, off) == sizeof raw) {
		o = ag_note(x, AG_LOG, 0, 0);
		o->size = (uint64_t)off;
		memcpy(o->raw, raw, sizeof raw);
	}
	close(fd);
}

static inline int
ag_open_all(struct ag_reader *x)
{
	int rc = ag_store(&x->s, 1);
	char name[EPD_WORKFLOW];

	for (int w = 0; rc == 0 && w < AG_WORKFLOWS; w++) {
		ag_name(w, name);
		rc = epd_workflow_open(&x->f[w], x->s, name, 1, &mt_why);
	}
	if (rc < 0)
		mt_bad("reader: %s", mt_why.text);
	return rc;
}

static inline int
ag_read(struct ag *g, uint64_t seed)
{
	struct ag_reader x = { .g = g, .r = seed };
	uint32_t live[128];
	int n;

	if (ag_open_all(&x) < 0)
		return 1;
	while (!atomic_load(&mt.sh->stop)) {
		x.w = (int)ag_r(&x.r, AG_WORKFLOWS);
		n = ag_live(&x, live, 128);
		if (!n)
			continue;
		x.state = live[ag_r(&x.r, (uint64_t)n)];
		snprintf(x.dir, sizeof x.dir, "workflows/c%d/states/s%u", x.w,
		    x.state);
		switch (ag_r(&x.r, 8)) {
		case 0: case 1: case 2: ag_state(&x); break;
		case 3: case 4: ag_version(&x); break;
		case 5: ag_links(&x); break;
		case 6: ag_list(&x); break;
		default: ag_log(&x); break;
		}
	}
	for (int w = 0; w < AG_WORKFLOWS; w++)
		epd_workflow_close(&x.f[w]);
	epd_store_close(x.s);
	return 0;
}

/* Who follows events sees whole lines, each an object. */
static inline int
ag_follow(struct ag *g)
{
	int fd = open(mt_path("workflows/c0/events"), O_RDONLY | O_CLOEXEC);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct ag_reader x = { .g = g, .dir = "workflows/c0" };
	struct epd_buf b = {0};
	char buf[8192];
	ssize_t n;

	while (!atomic_load(&mt.sh->stop)) {
		if (poll(&p, 1, 100) < 1)
			continue;
		while ((n = read(fd, buf, sizeof buf)) > 0)
			epd_buf_put(&b, buf, (size_t)n);
		for (uint8_t *e; b.n && (e = memchr(b.p, '\n', b.n));) {
			struct epd_buf line = { .p = b.p,
			    .n = (size_t)(e - b.p) };
			struct epd_json *j = line.n ? ag_parse(&x, &line,
			    "events") : NULL;

			epd_json_free(j);
			atomic_fetch_add(&g->lines, 1);
			b.n -= line.n + 1;
			memmove(b.p, e + 1, b.n);
		}
	}
	close(fd);
	epd_buf_free(&b);
	return 0;
}

#endif
