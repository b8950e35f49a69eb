/*
 * flow.h - for tests of flow: a store of its own with its memory tier inside it,
 * pictures, and short ways to encode, prefill and decode.  What a test takes for
 * granted ends the program if it fails.
 */
#ifndef TESTS_FLOW_H
#define TESTS_FLOW_H

#include <errno.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "flow/publish.h"
#include "flow/flow.h"
#include "flow/reuse.h"
#include "tests/golden.h"
#include "tests/unit/scratch.h"

enum { KIT_IDS = 64, KIT_STATES = 16, KIT_TOP = 3 };

#define QWEN2 GOLDEN "checkpoints/qwen2vl-tiny"
#define QWEN25 GOLDEN "checkpoints/qwen25vl-tiny"
#define QWEN3 GOLDEN "checkpoints/qwen3vl-tiny"

struct kit {
	struct epd_config config;
	int dir;
	char path[200], store[240];
	const char *model, *isa, *tenant;
	int threads, vision_id;
	int alone;		/* prefill takes nothing up from other states */
	const char *workflow;	/* w1 */
	char other[260];	/* kit_model's */
	struct epd_store *s;
	struct epd_session *se;
	struct epd_why why;
};

static char kit_left[8][200];	/* folders that are not removed yet */

static inline void
kit_sweep(void)
{
	for (int i = 0; i < 8; i++)
		if (*kit_left[i]) {
			char memory[300];

			/* It may be a mount of its own. */
			snprintf(memory, sizeof memory, "%.199s/memory",
			    kit_left[i]);
			umount2(memory, MNT_DETACH);
			memcpy(scratch_path, kit_left[i], sizeof kit_left[i]);
			scratch_close(-1);
			*kit_left[i] = '\0';
		}
}

/* A test that ended early leaves its folder to the end of the program. */
static inline void
kit_remember(const struct kit *k, int done)
{
	static int begun;

	if (!begun++)
		atexit(kit_sweep);
	for (int i = 0; i < 8; i++)
		if (done ? !strcmp(kit_left[i], k->path) : !*kit_left[i]) {
			memcpy(kit_left[i], k->path, sizeof kit_left[i]);
			if (done)
				*kit_left[i] = '\0';
			return;
		}
}

/* A folder, and the configuration of a store in it; nothing is open yet. */
static inline void
kit_begin(struct kit *k, const char *model)
{
	*k = (struct kit){ .model = model, .threads = 1, .workflow = "w1" };
	epd_config_default(&k->config);
	k->dir = scratch_open();
	if (k->dir < 0)
		golden_die("scratch folder", strerror(errno));
	snprintf(k->path, sizeof k->path, "%.199s", scratch_path);
	kit_remember(k, 0);
	snprintf(k->store, sizeof k->store, "%s/store", k->path);
	snprintf(k->config.memory_dir, sizeof k->config.memory_dir, "%s/memory",
	    k->path);
	k->config.state_sync = 0;
}

static inline int
kit_try_open(struct kit *k)
{
	const struct epd_store_options so = {
		.path = k->store, .config = &k->config, .create = 1,
		.tenant = k->tenant,
	};
	const struct epd_session_options o = {
		.model = k->model, .isa = k->isa, .threads = k->threads,
	};
	int rc = epd_store_open(&k->s, &so, &k->why);

	if (rc == 0 && (rc = epd_session_open(&k->se, k->s, &o, &k->why)) < 0) {
		epd_store_close(k->s);
		k->s = NULL;
	}
	return rc;
}

static inline void
kit_open(struct kit *k)
{
	if (kit_try_open(k) < 0)
		golden_die("store", k->why.text);
}

static inline void
kit_close(struct kit *k)
{
	epd_session_close(k->se);
	epd_store_close(k->s);
	k->se = NULL;
	k->s = NULL;
}

static inline void
kit_reopen(struct kit *k)
{
	kit_close(k);
	kit_open(k);
}

static inline void
kit_end(struct kit *k)
{
	kit_close(k);
	kit_remember(k, 1);
	snprintf(scratch_path, sizeof scratch_path, "%s", k->path);
	scratch_close(k->dir);
}

/* As begin and open, with a model. */
static inline void
kit_start(struct kit *k, const char *model)
{
	kit_begin(k, model);
	kit_open(k);
}

/* The why of the last call, none by now. */
static inline struct epd_why *
kit_why(struct kit *k)
{
	k->why = (struct epd_why){{0}};
	return &k->why;
}

/*
 * A picture NAME of w x h pixels, other for other seeds, in the kit's folder;
 * its path lasts until the tenth from now.
 */
static inline const char *
kit_picture(struct kit *k, const char *name, int w, int h, uint32_t seed)
{
	static char path[10][300];
	static int at;
	char *p = path[at++ % 10];
	FILE *f;

	snprintf(p, sizeof *path, "%s/%s", k->path, name);
	if (!(f = fopen(p, "wb")))
		golden_die(p, "cannot be written");
	fprintf(f, "P6\n%d %d\n255\n", w, h);
	for (int i = 0; i < 3 * w * h; i++) {
		seed = seed * 1664525u + 1013904223u;
		fputc((int)(seed >> 24) / 2 + (i / 3 % w * 127 / w), f);
	}
	fclose(f);
	return p;
}

/*
 * A model as `from`, but for one file: of it every `old` is `new`, or it is left
 * out (old NULL), or another file stands for it (old NULL, new its path).
 */
static inline const char *
kit_model(struct kit *k, const char *from, const char *file, const char *old,
    const char *new)
{
	char path[600], real[400];
	struct dirent *e;
	DIR *d = opendir(from);

	snprintf(k->other, sizeof k->other, "%s/model", k->path);
	if (!d || (mkdir(k->other, 0700) && errno != EEXIST))
		golden_die(from, "cannot be copied");
	while ((e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", from, e->d_name);
		if (*e->d_name == '.' || !realpath(path, real))
			continue;
		snprintf(path, sizeof path, "%s/%s", k->other, e->d_name);
		unlink(path);
		if (strcmp(e->d_name, file) && symlink(real, path))
			golden_die(path, "cannot be linked");
	}
	closedir(d);
	snprintf(path, sizeof path, "%s/%s", k->other, file);
	unlink(path);
	if (!old && new && (!realpath(new, real) || symlink(real, path)))
		golden_die(path, "cannot be linked");
	if (old) {
		struct epd_buf b;
		const char *p, *q;
		FILE *f = fopen(path, "wb");

		snprintf(real, sizeof real, "%s/%s", from, file);
		b = golden_read(real);
		p = epd_buf_cstr(&b);
		if (!f || !strstr(p, old))
			golden_die(path, "cannot be changed");
		for (; (q = strstr(p, old)); p = q + strlen(old))
			fprintf(f, "%.*s%s", (int)(q - p), p, new);
		fputs(p, f);
		fclose(f);
		epd_buf_free(&b);
	}
	return k->other;
}

static inline struct epd_json *
kit_json(const char *text)
{
	struct epd_json *j = NULL;
	struct epd_why why = {{0}};

	if (epd_json_parse(&j, epd_span_str(text), "test", &why) < 0)
		golden_die(text, why.text);
	return j;
}

/* Paths up to the first NULL. */
static inline int
kit_images(struct epd_request_image out[KIT_STATES], const char *const *paths)
{
	int n = 0;

	for (; paths && paths[n]; n++)
		out[n] = (struct epd_request_image){ .path = paths[n] };
	return n;
}

/* An independent computation is one that k->alone is set for. */
static inline enum epd_reuse_policy
kit_reuse(const struct kit *k)
{
	return k->alone ? EPD_REUSE_NONE : EPD_REUSE_CONFIGURED;
}

/*
 * Messages (chat JSON) with pictures onto a state of the kit's workflow, or a new
 * one (0).
 * The result is epd_flow_prefill's.
 */
static inline int
kit_messages(struct kit *k, uint32_t state, const char *json,
    const char *const *paths, int no_generation, struct epd_prefilled *out)
{
	struct epd_json *j = kit_json(json);
	struct epd_request_image im[KIT_STATES];
	struct epd_prefill p = {
		.kind = EPD_PROMPT_MESSAGES, .messages = j, .role = "user",
		.images = im, .nimages = kit_images(im, paths),
		.no_generation = no_generation, .vision_id = k->vision_id,
		.workflow = k->workflow, .state = state, .reuse = kit_reuse(k),
	};
	int rc = epd_flow_prefill(k->se, &p, out, kit_why(k));

	epd_json_free(j);
	return rc;
}

/* One turn of text, pictures first. */
static inline int
kit_say(struct kit *k, uint32_t state, const char *text,
    const char *const *paths, struct epd_prefilled *out)
{
	struct epd_request_image im[KIT_STATES];
	struct epd_buf b = {0};
	int n = kit_images(im, paths), rc;

	epd_buf_str(&b, "[{\"role\":\"user\",\"content\":[");
	for (int i = 0; i < n; i++)
		epd_buf_str(&b, "{\"type\":\"image\"},");
	epd_buf_str(&b, "{\"type\":\"text\",\"text\":");
	epd_json_quote(&b, epd_span_str(text));
	epd_buf_str(&b, "}]}]");
	rc = kit_messages(k, state, epd_buf_cstr(&b), paths, 0, out);
	epd_buf_free(&b);
	return rc;
}

static inline struct epd_ref
kit_ref(uint32_t state)
{
	return (struct epd_ref){
		.kind = EPD_REF_STATE, .workflow = "w1", .state = state,
	};
}

/* What decoding said of each state. */
struct kit_said {
	int32_t id[KIT_IDS];
	float logprob[KIT_IDS];
	struct epd_sampled top[KIT_IDS][KIT_TOP];
	int n, ended;
	struct epd_decode_end end;
	char text[512];
};

static inline int
kit_token(void *arg, const struct epd_token_event *e)
{
	struct kit_said *s = (struct kit_said *)arg + e->which;
	size_t n = strlen(s->text);

	if (s->n == KIT_IDS)
		return 1;
	s->id[s->n] = e->id;
	s->logprob[s->n] = e->logprob;
	for (int i = 0; i < e->ntop && i < KIT_TOP; i++)
		s->top[s->n][i] = e->top[i];
	s->n++;
	snprintf(s->text + n, sizeof s->text - n, "%.*s", (int)e->text.n,
	    (const char *)e->text.p);
	return 0;
}

static inline void
kit_ended(void *arg, const struct epd_decode_end *e)
{
	struct kit_said *s = (struct kit_said *)arg + e->which;
	size_t n = strlen(s->text);

	s->end = *e;
	s->ended++;
	snprintf(s->text + n, sizeof s->text - n, "%.*s", (int)e->text.n,
	    (const char *)e->text.p);
}

/* Greedy, whatever eos, so many tokens of each of n states. */
static inline int
kit_decode(struct kit *k, const uint32_t *states, int n, int most,
    struct kit_said *said)
{
	struct epd_ref ref[KIT_STATES];
	const struct epd_decode d = {
		.states = ref, .n = n, .most = most, .has_temp = 1,
		.has_top_k = 1, .has_top_p = 1, .has_penalty = 1,
		.sampler = { .top_p = 1, .penalty = 1 }, .logprobs = KIT_TOP,
		.ignore_eos = 1, .token = kit_token, .end = kit_ended,
		.arg = said,
	};

	memset(said, 0, (size_t)n * sizeof *said);
	for (int i = 0; i < n; i++) {
		ref[i] = kit_ref(states[i]);
		snprintf(ref[i].workflow, sizeof ref[i].workflow, "%s",
		    k->workflow);
	}
	return epd_flow_decode(k->se, &d, kit_why(k));
}

static inline uint64_t
kit_count(const struct kit *k, enum epd_metric id)
{
	return epd_metrics_get(k->s->metrics, id);
}

/* Remove all run files of the workflow, or with wipe the store's whole memory folder. */
static inline void
kit_lose(struct kit *k, int wipe)
{
	char name[64] = "memory/epd-";

	if (wipe) {
		epd_hex_format(name + strlen(name), k->s->uuid, 16);
		epd_file_remove(k->dir, name);
		return;
	}
	if (epd_memory_remove(k->s->memory, k->workflow) < 0)
		golden_die("memory", "cannot be removed");
}

/* Files beneath the memory folder, but for its signature and the index. */
static inline int
kit_runs(struct kit *k)
{
	int fd = epd_file_open(k->dir, "memory", O_RDONLY | O_DIRECTORY, 0), n;

	if (fd < 0)
		return 0;
	n = scratch_count(fd, "store") + scratch_count(fd, "pages") -
	    scratch_count(fd, NULL);
	close(fd);
	return n;
}

/* ---- what the log has ---- */

/* A state from its log: all tokens, images, and pages as last written. */
struct kit_log {
	int32_t *ids;
	uint64_t n;
	struct epd_image_ref image[KIT_STATES];
	uint32_t nimages;
	struct epd_page_ref page[64];
	uint64_t run[64];		/* that page i is in */
	long npages;
	struct epd_version head;	/* arrays void */
};

static inline void
kit_log_free(struct kit_log *l)
{
	free(l->ids);
}

static inline void
kit_log_node(struct kit_log *l, const struct epd_version *v)
{
	if (v->start != l->n || l->nimages + v->nimages > KIT_STATES ||
	    v->first_page + v->npages > 64 || !(l->ids = realloc(l->ids,
	    (l->n + v->nids) * sizeof *l->ids)))
		golden_die("log", "versions do not follow");
	memcpy(l->ids + l->n, v->ids, v->nids * sizeof *l->ids);
	l->n += v->nids;
	for (uint32_t i = 0; i < v->nimages; i++)
		l->image[l->nimages++] = v->images[i];
	for (uint32_t i = 0; i < v->npages; i++) {
		l->page[v->first_page + i] = v->pages[i];
		l->run[v->first_page + i] = epd_version_where(v, i);
	}
	if (v->npages)
		l->npages = v->first_page + v->npages;
}

/* Version 0 is the newest. */
static inline struct kit_log
kit_read(struct kit *k, uint32_t state, uint32_t version)
{
	struct kit_log l = {0};
	struct epd_workflow w;
	struct epd_version v = {0};
	uint64_t node[64];
	int n = 0;

	if (epd_workflow_open(&w, k->s, k->workflow, 1, kit_why(k)) < 0 ||
	    epd_shard_version(w.shard, state, version, &v) < 0)
		golden_die("log", k->why.text);
	l.head = v;
	for (;; n++) {
		if (n == 64)
			golden_die("log", "too long");
		node[n] = v.node;
		if (!v.parent)
			break;
		if (epd_shard_node(w.shard, v.parent, &v) < 0)
			golden_die("log", "a node is missing");
	}
	for (; n >= 0; n--) {
		if (epd_shard_node(w.shard, node[n], &v) < 0)
			golden_die("log", "a node is missing");
		kit_log_node(&l, &v);
	}
	epd_workflow_close(&w);
	return l;
}

/* A run's file whole, whatever name it has here, and where a page is in it. */
static inline int
kit_run(struct kit *k, struct epd_workflow *w, uint64_t run,
    const struct epd_page_entry *page, struct epd_run **out, long *at)
{
	struct epd_run_shape shape;
	struct epd_run *table;
	int rc = epd_run_table(&table, w->runs, run, &shape, kit_why(k));
	long i = 0;

	if (rc < 0)
		return rc;
	rc = epd_run_open(out, w->runs, run, &shape, epd_run_entries(table),
	    epd_run_count(table), kit_why(k));
	while (i < epd_run_count(table) &&
	    !epd_name_equal(&epd_run_entries(table)[i].name, &page->name))
		i++;
	if (rc == 0 && i == epd_run_count(table)) {
		epd_run_close(*out);
		rc = epd_why(&k->why, -ENOENT, "no such page in it");
	}
	epd_run_close(table);
	*at = i;
	return rc;
}

/* Whether the file of each page has the bytes the log says, counted anew. */
static inline int
kit_recount(struct kit *k, const struct kit_log *l)
{
	struct epd_run_shape shape;
	struct epd_workflow w;
	int good = 1;

	epd_seq_shape(k->se, &shape);
	if (epd_workflow_open(&w, k->s, k->workflow, 1, kit_why(k)) < 0)
		golden_die("log", k->why.text);
	for (long i = 0; i < l->npages; i++) {
		const struct epd_page_entry e = {
			.name = l->page[i].name, .rows = l->page[i].rows,
			.sum = l->page[i].sum,
		};
		struct epd_run *run;
		long at;

		if (kit_run(k, &w, l->run[i], &e, &run, &at) < 0) {
			printf("# page %ld: %s\n", i, k->why.text);
			good = 0;
			continue;
		}
		good &= epd_xxh3_64(epd_run_page(run, at), shape.bytes) ==
		    l->page[i].sum;
		epd_run_close(run);
	}
	epd_workflow_close(&w);
	return good;
}

/*
 * Whether the pages are those of all tokens computed at once, and so many as
 * there are tokens but the last.
 */
static inline int
kit_replay(struct kit *k, const struct kit_log *l)
{
	const uint64_t t = (uint64_t)k->se->shape.tokens;
	struct epd_page_entry *e = NULL;
	struct epd_version v = {0};
	struct epd_index *index = k->s->index;
	const int indexed = k->s->indexed;
	struct epd_runs *runs = NULL;
	struct epd_workflow w;
	struct epd_seq q;
	uint64_t rows = l->npages ? (uint64_t)(l->npages - 1) * t +
	    l->page[l->npages - 1].rows : 0;
	int good;

	if (epd_workflow_open(&w, k->s, k->workflow, 0, kit_why(k)) < 0 ||
	    epd_runs_new(&runs) < 0)
		golden_die("replay", k->why.text);
	/* What is here for a moment is told nobody. */
	k->s->index = NULL;
	k->s->indexed = 1;
	epd_seq_begin(&q, k->se, &w, runs);
	if (epd_seq_extend(&q, l->ids, l->n, l->image, NULL, l->nimages,
	    &k->why) < 0 || epd_seq_compute(&q, rows, NULL, &k->why) < 0 ||
	    epd_seq_publish(&q, &v, &e, &k->why) < 0)
		golden_die("replay", k->why.text);
	good = v.first_page == 0 && v.npages == (uint64_t)l->npages &&
	    (rows == l->n || rows + 1 == l->n);
	for (long i = 0; good && i < l->npages; i++) {
		good = e[i].rows == l->page[i].rows &&
		    e[i].sum == l->page[i].sum &&
		    epd_name_equal(&e[i].name, &l->page[i].name);
		if (!good)
			printf("# page %ld differs\n", i);
	}
	if (v.run)
		epd_run_free(w.runs, v.run);
	epd_free(e);
	epd_seq_free(&q);
	epd_runs_free(runs);
	epd_workflow_close(&w);
	k->s->index = index;
	k->s->indexed = indexed;
	return good;
}

/* Tokens, images and where they stand, next position. */
static inline uint64_t
kit_hash_tokens(const struct kit_log *l)
{
	struct epd_namer n;
	struct epd_name name;
	uint64_t h;

	epd_namer_begin(&n, "tokens");
	epd_namer_add(&n, l->ids, l->n * sizeof *l->ids);
	for (uint32_t i = 0; i < l->nimages; i++) {
		epd_namer_u64(&n, l->image[i].at);
		epd_namer_add(&n, l->image[i].grid, sizeof l->image[i].grid);
		epd_namer_add(&n, l->image[i].fp.b, EPD_NAME);
	}
	epd_namer_u64(&n, (uint64_t)l->head.next_pos);
	epd_namer_end(&n, &name);
	memcpy(&h, name.b, sizeof h);
	return h;
}

static inline uint64_t
kit_hash_pages(const struct kit_log *l)
{
	uint64_t h = 0;

	for (long i = 0; i < l->npages; i++) {
		h = h * 31 + epd_xxh3_64(l->page[i].name.b, EPD_NAME);
		h = h * 31 + l->page[i].rows;
		h = h * 31 + l->page[i].sum;
	}
	return h;
}

static inline uint64_t
kit_hash_said(const struct kit_said *s)
{
	return epd_xxh3_64(s->id, (size_t)s->n * sizeof *s->id) * 31 +
	    epd_xxh3_64(s->logprob, (size_t)s->n * sizeof *s->logprob) * 37 +
	    epd_xxh3_64(s->top, (size_t)s->n * sizeof *s->top);
}

static inline void
kit_fault(void *arg, const char *text)
{
	(void)arg;
	printf("# fault: %s\n", text);
}

/* Faults of the whole store. */
static inline int
kit_check(struct kit *k)
{
	return epd_flow_check(k->s, "", kit_fault, NULL, kit_why(k));
}

#endif
