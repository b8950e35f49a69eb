/*
 * state.c - what keeping a state costs.
 *
 *	state fill STORE
 *		1,000 workflows, and one state of 10,000 versions: big/s1
 *	state save STORE TOKENS
 *		a state of so many tokens is made durable in this process and
 *		mapped, every checksum looked at, in another
 *	state lookup STORE MODEL IMAGE
 *		a feature that is there is read back, checked
 *	state match
 *		of 100,000 sequences behind one system prompt, half of them turns
 *		of long conversations, the one that shares most with 8,192 tokens
 *
 * One JSON line; times in seconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "epd.h"
#include "flow/inner.h"
#include "page/page.h"
#include "tree/tree.h"

#include "tests/bench/measure.h"

/* The pages of mid: bf16, sixteen tokens of 24 layers and two heads of 64. */
enum { TOKENS = 16, PAGE = 24 * 2 * 2 * 64 * 2 * TOKENS };

static struct epd_config config;

static struct epd_store *
store(const char *path)
{
	struct epd_store_options o = { .path = path, .config = &config,
	    .tenant = "", .create = 1 };
	struct epd_store *s;

	must(epd_store_open(&s, &o, &why), path);
	return s;
}

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, EPD_BF16,
    TOKENS, PAGE };

static struct epd_state
state(void)
{
	return (struct epd_state){ .page_tokens = TOKENS, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .model_path = "/models/mid", .tenant = "",
	    .fingerprint = "{}" };
}

static void
ids_of(int32_t *ids, long from, long n)
{
	for (long i = 0; i < n; i++)
		ids[i] = (int32_t)(1000 + (from + i) * 7919 % 100000);
}

/* ---- fill ---- */

static uint32_t
create(struct epd_workflow *w, const struct epd_version *v)
{
	struct epd_state st = state();
	uint32_t id;

	must(epd_shard_create(w->shard, &st, v, &id, &why), "create");
	return id;
}

/* A version a token, as a long answer taken in small steps leaves it. */
static void
version(struct epd_version *v, struct epd_page_ref *page, int32_t *ids, long i)
{
	ids_of(ids, i, 1);
	*page = (struct epd_page_ref){ .rows = (uint32_t)(i % TOKENS + 1),
	    .sum = (uint64_t)i };
	memcpy(page->name.b, &i, sizeof i);
	*v = (struct epd_version){ .ids = ids, .nids = 1, .pages = page,
	    .npages = 1, .first_page = (uint32_t)(i / TOKENS),
	    .run = (uint64_t)i + 1, .next_pos = i + 1 };
}

static void
fill(const char *path)
{
	struct epd_store *s;
	struct epd_workflow w;
	struct epd_version v;
	struct epd_page_ref page;
	char name[EPD_WORKFLOW];
	int32_t ids[1];
	uint32_t id = 0, at;

	config.state_sync = 0;
	s = store(path);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, i ? "w%d" : "big", i);
		must(epd_workflow_make(s, name, name, &why), name);
		must(epd_workflow_open(&w, s, name, 0, &why), name);
		version(&v, &page, ids, 0);
		id = create(&w, &v);
		for (uint32_t k = 1; i == 0 && k < 10000; k++) {
			version(&v, &page, ids, (long)k);
			must(epd_shard_advance(w.shard, id, k, 0, &v, &at,
			    &why), "advance");
		}
		epd_workflow_close(&w);
	}
	epd_store_close(s);
}

/* ---- save ---- */

/* The other process: its first argument is "map". */
static void
map(char **argv)
{
	double t = now();
	struct epd_store *s = store(argv[0]);
	struct epd_workflow w;
	struct epd_version v;
	struct epd_page_entry *e;
	struct epd_run *r;
	const char *p;

	must(epd_workflow_open(&w, s, argv[1], 1, &why), argv[1]);
	must(epd_shard_version(w.shard, 1, 0, &v), argv[1]);
	if (!(e = calloc(v.npages, sizeof *e)))
		exit(1);
	for (uint32_t i = 0; i < v.npages; i++)
		e[i] = (struct epd_page_entry){ v.pages[i].name,
		    v.pages[i].rows, v.pages[i].sum };
	must(epd_run_open(&r, w.runs, v.run, &shape, e, v.npages, &why), "run");
	for (uint32_t i = 0; i < v.npages; i++)
		must(epd_run_verify(r, i), "page");
	p = epd_run_page(r, 0);
	printf("%.6f %d\n", now() - t, p[0]);
	fflush(stdout);
	_exit(0);
}

static double
map_elsewhere(const char *path, const char *workflow)
{
	int fd[2], status, first;
	char buf[64] = "";
	double t;
	pid_t pid;

	if (pipe(fd) < 0 || (pid = fork()) < 0)
		exit(1);
	if (pid == 0) {
		dup2(fd[1], 1);
		execl("/proc/self/exe", "state", "map", path, workflow,
		    (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	if (read(fd[0], buf, sizeof buf - 1) < 0 ||
	    waitpid(pid, &status, 0) < 0 || status ||
	    sscanf(buf, "%lf %d", &t, &first) != 2)
		exit(1);
	close(fd[0]);
	return t;
}

static void
save(const char *path, long tokens)
{
	const long n = tokens / TOKENS;
	struct epd_store *s = store(path);
	struct epd_workflow w;
	struct epd_page_entry *e = calloc((size_t)n, sizeof *e);
	struct epd_page_ref *ref = calloc((size_t)n, sizeof *ref);
	int32_t *ids = calloc((size_t)tokens, sizeof *ids);
	struct epd_name parent = {{0}};
	struct epd_version v = {0};
	struct epd_run *r;
	char name[EPD_WORKFLOW];
	uint8_t *p;
	double t, saved;

	if (!e || !ref || !ids || n < 1)
		exit(1);
	ids_of(ids, 0, tokens);
	must(epd_workflow_make(s, "", name, &why), "workflow");
	must(epd_workflow_open(&w, s, name, 0, &why), name);
	must(epd_run_new(&r, w.runs, &shape), "run");
	for (long i = 0; i < n; i++) {
		must(epd_run_add(r, (void **)&p), "page");
		for (size_t k = 0; k < PAGE; k++)
			p[k] = (uint8_t)((size_t)i * 31 + k * 7);
	}
	t = now();
	for (long i = 0; i < n; i++) {
		epd_page_name(&e[i].name, i ? &e[i - 1].name : &parent,
		    ids + i * TOKENS, TOKENS, NULL, 0);
		e[i].rows = TOKENS;
	}
	must(epd_run_id(&v.run), "run id");
	must(epd_run_publish(r, v.run, e, n), "publish");
	for (long i = 0; i < n; i++)
		ref[i] = (struct epd_page_ref){ e[i].name, e[i].rows,
		    e[i].sum };
	v.ids = ids;
	v.nids = (uint32_t)tokens;
	v.pages = ref;
	v.npages = (uint32_t)n;
	v.next_pos = tokens;
	create(&w, &v);
	saved = now() - t;
	printf("{\"save\":%.6f,\"map\":%.6f,\"bytes\":%ld}\n", saved,
	    map_elsewhere(path, name), n * PAGE);
	epd_run_close(r);
	must(epd_run_free(w.runs, v.run), "free");
	epd_workflow_close(&w);
	epd_store_close(s);
}

/* ---- lookup ---- */

static void
lookup(const char *path, const char *model, const char *image)
{
	struct epd_session_options o = { .model = model };
	struct epd_store *s = store(path);
	struct epd_session *ses;
	struct epd_encoded e;
	struct epd_feature f;
	size_t n;
	void *buf;
	double t;

	must(epd_session_open(&ses, s, &o, &why), model);
	must(epd_flow_encode(ses, image, &e, &why), image);
	epd_session_feature(ses, &e.fp, e.grid, &f);
	n = epd_feature_bytes(&f);
	if (!(buf = calloc(1, n)) || !e.hit)
		exit(1);
	for (int i = 0; i < 7; i++) {
		t = now();
		if (epd_feature_lookup(s->features, &f, 0, buf, n, &why) != 1)
			exit(1);
		printf("%s%.6f%s", i ? "," : "{\"lookup\":[", now() - t,
		    i < 6 ? "" : "]");
	}
	printf(",\"bytes\":%zu}\n", n);
	free(buf);
	epd_session_close(ses);
	epd_store_close(s);
}

/* ---- match ---- */

enum { SYSTEM = 2048, KEY = 8192, STATES = 100000, TURNS = 100, KEYS = 201 };

/* State 0 is the system prompt; what each has of its own can be told again. */
static struct { uint32_t parent, n; } made[STATES];

static uint32_t
mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

static void
own_ids(int32_t *ids, uint32_t state)
{
	for (uint32_t i = 0; i < made[state].n; i++)
		ids[i] = (int32_t)(mix(state * 4099 + i) % 150000);
}

/* A turn goes on from the one before, or from an earlier one. */
static void
make_state(uint32_t i)
{
	uint32_t turn = i % TURNS;

	made[i].n = i ? 16 + mix(i) % 225 : SYSTEM;
	if (i < STATES / 2 || !turn)
		made[i].parent = 0;
	else
		made[i].parent = i - (mix(i + 1) % 32 ? 1 :
		    1 + mix(i + 2) % turn);
}

/* The first KEY tokens of a state's sequence and then none that is known. */
static size_t
key_of(int32_t *key, uint32_t state)
{
	static int32_t ids[SYSTEM];
	size_t n = 0, end;

	for (uint32_t i = state; i; i = made[i].parent)
		n += made[i].n;
	n = end = n + SYSTEM;
	for (uint32_t i = state; ; i = made[i].parent) {
		own_ids(ids, i);
		for (uint32_t k = made[i].n; k-- > 0; )
			if (--end < KEY)
				key[end] = ids[k];
		if (!i)
			break;
	}
	for (size_t i = n; i < KEY; i++)
		key[i] = -1;
	return n < KEY ? n : KEY;
}

static void
match(void)
{
	static int32_t ids[SYSTEM], key[KEY];
	const struct epd_radix_key whole = { key, KEY, NULL, 0 };
	struct epd_radix *r;
	double shared = 0;

	must(epd_radix_new(&r), "radix");
	for (uint32_t i = 0; i < STATES; i++) {
		struct epd_radix_key k = { ids, 0, NULL, 0 };

		make_state(i);
		own_ids(ids, i);
		k.n = made[i].n;
		must(epd_radix_add(r, i ? made[i].parent + 1 : 0, i + 1, &k),
		    "add");
	}
	for (int i = 0; i < KEYS; i++) {
		/* Any of those whose conversation is old. */
		uint32_t state = STATES / 2 + mix((uint32_t)i) %
		    (STATES / 2 / TURNS) * TURNS + TURNS - 1;
		size_t n = key_of(key, state), got;
		uint64_t value;
		double t = now();

		got = epd_radix_match(r, &whole, &value);
		t = now() - t;
		if (got != n)
			exit(1);
		shared += (double)n / KEYS;
		printf("%s%.9f", i ? "," : "{\"match\":[", t);
	}
	printf("],\"states\":%zu,\"tokens\":%zu,\"shared\":%.0f}\n",
	    epd_radix_count(r), epd_radix_tokens(r), shared);
	epd_radix_free(r);
}

int
main(int argc, char **argv)
{
	epd_config_default(&config);
	if (argc == 3 && !strcmp(argv[1], "fill"))
		fill(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "save"))
		save(argv[2], atol(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "map"))
		map(argv + 2);
	else if (argc == 5 && !strcmp(argv[1], "lookup"))
		lookup(argv[2], argv[3], argv[4]);
	else if (argc == 2 && !strcmp(argv[1], "match"))
		match();
	else
		return 2;
	return 0;
}
