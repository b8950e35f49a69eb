/*
 * flow_races.c - several processes at one state, one store, one key: one wins,
 * the others change nothing and leave nothing.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

enum { MOST = 6 };

/* What the children share. */
static struct shared {
	atomic_int here;
	int rc[MOST];
	uint32_t version[MOST];
	int pid[MOST];
	char why[MOST][sizeof (struct epd_why)];
	char name[MOST][EPD_WORKFLOW];
} *shared;

static int all;	/* who must be here before anyone goes on */

static void
share(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		golden_die("shared memory", "none");
}

/* Wait for the others, ten seconds at most. */
static void
meet(void)
{
	atomic_fetch_add(&shared->here, 1);
	for (int i = 0; i < 10000 && atomic_load(&shared->here) < all; i++)
		epd_clock_sleep_ns(1000000);
}

static int
meet_at_token(void *arg, const struct epd_token_event *e)
{
	int *met = arg;

	(void)e;
	if (!(*met)++)
		meet();
	return 0;
}

static void
meet_at_progress(void *arg, uint64_t done, uint64_t total)
{
	int *met = arg;

	(void)done;
	(void)total;
	if (!(*met)++)
		meet();
}

/* Wait until so many are here, without being one of them. */
static void
wait_for(int n)
{
	for (int i = 0; i < 10000 && atomic_load(&shared->here) < n; i++)
		epd_clock_sleep_ns(1000000);
}

/* The first draws a token and waits; the others come meanwhile, one by one. */
static void
decode_child(struct kit *k, int i)
{
	int met = 0;
	const struct epd_ref ref = kit_ref(1);
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = 4, .has_temp = 1,
		.sampler = { .top_p = 1, .penalty = 1 }, .ignore_eos = 1,
		.token = meet_at_token, .arg = &met,
	};

	shared->pid[i] = (int)getpid();
	wait_for(i);
	shared->rc[i] = epd_flow_decode(k->se, &d, kit_why(k));
	memcpy(shared->why[i], k->why.text, sizeof k->why.text);
	if (!met)
		meet();
}

static uint64_t key;

static void
prefill_child(struct kit *k, int i)
{
	struct epd_json *j = kit_json("\"And now?\"");
	struct epd_prefilled out = { .version = 0 };
	int met = 0;
	struct epd_prefill p = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = "w1", .state = 1, .expect = 1, .key = key,
		.progress = meet_at_progress, .arg = &met,
	};

	shared->rc[i] = epd_flow_prefill(k->se, &p, &out, kit_why(k));
	shared->version[i] = out.version;
	epd_json_free(j);
}

/* A store nobody has made, a workflow nobody has named. */
static void
first_child(struct kit *k, int i)
{
	struct epd_json *j = kit_json("\"Hello.\"");
	struct epd_prefilled out = { .version = 0 };
	struct epd_prefill p = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = "",
	};

	shared->rc[i] = epd_flow_prefill(k->se, &p, &out, kit_why(k));
	if (shared->rc[i] < 0)
		printf("# %s\n", k->why.text);
	memcpy(shared->name[i], out.workflow, EPD_WORKFLOW);
	epd_json_free(j);
}

/* Run so many children on stores of their own opening; 1 if none died. */
static int
children(struct kit *k, int n, void (*child)(struct kit *, int))
{
	pid_t pid[MOST];
	int ok = 1;

	all = n;
	memset(shared, 0, sizeof *shared);
	for (int i = 0; i < n; i++) {
		fflush(stdout);
		if ((pid[i] = fork()) != 0)
			continue;
		if (kit_try_open(k) < 0) {
			printf("# child %d: %s\n", i, k->why.text);
			_exit(1);
		}
		child(k, i);
		fflush(stdout);
		kit_close(k);
		_exit(0);
	}
	for (int i = 0; i < n; i++)
		ok &= scratch_wait(pid[i]) == 0;
	return ok;
}

/*
 * Of two advances at once one stands, and the other is told so; 1 if that is how
 * it was.
 */
static int
contest(void (*child)(struct kit *, int), int loses, int lost)
{
	struct epd_prefilled p;
	struct kit_log l;
	struct kit k;
	int runs, won, ok;

	kit_start(&k, QWEN2);
	if (kit_say(&k, 0, "A state that two go on with.", NULL, &p) < 0)
		golden_die("state", k.why.text);
	if (lost)
		kit_lose(&k, 1);
	runs = lost ? 1 : kit_runs(&k);
	kit_close(&k);
	ok = children(&k, 2, child);
	won = shared->rc[0] < 0;
	kit_open(&k);
	l = kit_read(&k, 1, 0);
	ok = ok && shared->rc[won] == 0 && shared->rc[!won] == loses &&
	    l.head.parent == 1 && kit_runs(&k) == runs + 1 &&
	    kit_recount(&k, &l) && kit_replay(&k, &l) && kit_check(&k) == 0 &&
	    kit_count(&k, EPD_M_STATES_ADVANCED) == 1;
	if (!ok)
		printf("# %d and %d, %d runs of %d\n", shared->rc[0],
		    shared->rc[1], kit_runs(&k), runs + 1);
	kit_log_free(&l);
	kit_end(&k);
	return ok;
}

/* Who comes while it is decoded is refused before anything is computed. */
static int
refused(int lost)
{
	char pid[32];

	if (!contest(decode_child, EPD_ELOCKED, lost))
		return 0;
	snprintf(pid, sizeof pid, "process %d", shared->pid[0]);
	printf("# %s\n", shared->why[1]);
	return shared->rc[0] == 0 && strstr(shared->why[1], pid) != NULL;
}

TEST(two_decode_one_state) { CHECK(refused(0)); }
TEST(two_decode_one_state_that_is_lost) { CHECK(refused(1)); }
TEST(two_prefill_one_state)
{
	key = 0;
	CHECK(contest(prefill_child, EPD_EVERSION, 0));
}

/* One decodes; the other's turn is ready before that ends, and comes to naught. */
static void
decode_or_prefill(struct kit *k, int i)
{
	struct epd_json *j = kit_json("\"And now?\"");
	struct epd_prefilled out;
	struct epd_prefill p = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = "w1", .state = 1,
	};

	if (i == 0) {
		decode_child(k, 0);
	} else {
		wait_for(1);
		shared->rc[1] = epd_flow_prefill(k->se, &p, &out, kit_why(k));
		meet();
	}
	epd_json_free(j);
}

TEST(a_turn_does_not_break_into_an_answer)
{
	CHECK(contest(decode_or_prefill, EPD_ELOCKED, 0));
	CHECK_INT(shared->rc[0], 0);
}

/* As many as come draw one after another, or are refused. */
static void
hurried_child(struct kit *k, int i)
{
	struct kit_said said;

	meet();
	shared->rc[i] = kit_decode(k, &(uint32_t){ 1 }, 1, 2, &said);
}

TEST(many_decode_one_state)
{
	struct epd_prefilled p;
	struct kit_said said[2];
	struct kit_log l;
	uint64_t done = 0;
	struct kit k;

	kit_start(&k, QWEN2);
	for (k.alone = 0; k.alone < 2; k.alone++)
		CHECK_INT(kit_say(&k, 0, "A state that many go on with.", NULL,
		    &p), 0);
	kit_close(&k);
	CHECK(children(&k, MOST, hurried_child));
	kit_open(&k);
	for (int i = 0; i < MOST; i++) {
		done += shared->rc[i] == 0;
		CHECK(shared->rc[i] == 0 || shared->rc[i] == EPD_ELOCKED);
	}
	CHECK(done > 0);
	printf("# %llu of %d drew\n", (unsigned long long)done, MOST);
	l = kit_read(&k, 1, 0);
	CHECK_INT(l.n, p.tokens + 2 * done);
	CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
	kit_log_free(&l);
	CHECK_INT(kit_decode(&k, &(uint32_t){ 1 }, 1, 2, said), 0);
	CHECK_INT(kit_decode(&k, &(uint32_t){ 2 }, 1, 2 + 2 * (int)done,
	    said + 1), 0);
	for (int i = 0; i < 2; i++)
		CHECK(said[0].logprob[i] == said[1].logprob[2 * done +
		    (uint64_t)i]);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

TEST(two_with_one_key_are_one)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit_log l;
	struct kit k;
	int runs;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "A state that two go on with.", NULL, &p), 0);
	runs = kit_runs(&k);
	kit_close(&k);
	key = 77;
	CHECK(children(&k, 3, prefill_child));
	for (int i = 0; i < 3; i++) {
		CHECK_INT(shared->rc[i], 0);
		CHECK_INT(shared->version[i], 2);
	}
	kit_open(&k);
	CHECK_INT(kit_runs(&k), runs + 1);
	/* Later too, and when the state has gone on. */
	all = 0;
	prefill_child(&k, 0);
	CHECK_INT(shared->rc[0], 0);
	CHECK_INT(shared->version[0], 2);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	prefill_child(&k, 0);
	CHECK_INT(shared->rc[0], 0);
	CHECK_INT(shared->version[0], 2);
	CHECK_INT(kit_runs(&k), runs + 2);
	/* Another key is another request, and it comes too late. */
	key = 78;
	prefill_child(&k, 0);
	CHECK_INT(shared->rc[0], EPD_EVERSION);
	l = kit_read(&k, p.state, 0);
	CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
	kit_log_free(&l);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* A key stands for one request, its pictures and their numbers with it. */
TEST(a_key_is_of_one_request)
{
	struct epd_json *j = kit_json("[{\"type\":\"image\"}]");
	struct epd_request_image im = { .path = NULL };
	struct epd_prefilled p, q;
	struct epd_prefill r = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = "w1", .key = 5, .images = &im, .nimages = 1,
		.vision_id = 1,
	};
	const char *paths[2] = { NULL };
	struct kit k;

	kit_start(&k, QWEN2);
	k.vision_id = 1;
	paths[0] = kit_picture(&k, "a.ppm", 84, 56, 1);
	CHECK_INT(kit_say(&k, 0, "Look.", paths, &p), 0);
	r.state = p.state;
	im.path = kit_picture(&k, "b.ppm", 84, 56, 2);
	for (uint32_t i = 0; i < 2; i++) {
		r.expect = i;
		CHECK_INT(epd_flow_prefill(k.se, &r, &q, kit_why(&k)), 0);
		CHECK_INT(q.version, 2);
	}
	im.path = kit_picture(&k, "c.ppm", 84, 56, 3);
	CHECK_INT(epd_flow_prefill(k.se, &r, &q, kit_why(&k)), EPD_EUSAGE);
	CHECK_INT(kit_runs(&k), 2);
	CHECK_INT(kit_check(&k), 0);
	epd_json_free(j);
	kit_end(&k);
}

/* The pipe of the first example: both ends make the store. */
TEST(many_make_one_store)
{
	struct kit k;

	for (int round = 0; round < 5; round++) {
		kit_begin(&k, QWEN2);
		CHECK(children(&k, MOST, first_child));
		for (int i = 0; i < MOST; i++) {
			CHECK_INT(shared->rc[i], 0);
			for (int j = 0; j < i; j++)
				CHECK(strcmp(shared->name[i], shared->name[j]));
		}
		kit_open(&k);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

/* The memory tier is taken away while a state is decoded. */
static int
wipe_at_third(void *arg, const struct epd_token_event *e)
{
	struct kit *k = arg;

	if (e->index % 8 == 3)
		kit_lose(k, all);
	return 0;
}

TEST(memory_goes_while_decoding)
{
	const struct epd_ref ref = kit_ref(1);
	struct epd_prefilled p;
	struct kit_said said, whole;
	struct kit_log l;
	struct kit k;

	for (all = 0; all < 2; all++) {
		const struct epd_decode d = {
			.states = &ref, .n = 1, .most = 20, .has_temp = 1,
			.sampler = { .top_p = 1, .penalty = 1 },
			.ignore_eos = 1, .token = wipe_at_third, .arg = &k,
		};

		kit_start(&k, QWEN2);
		CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
		CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 24, &whole), 0);
		CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), 0);
		CHECK_INT(kit_decode(&k, &(uint32_t){ 1 }, 1, 4, &said), 0);
		CHECK(said.end.lost > 0 || said.end.tokens == p.tokens + 24);
		for (int i = 0; i < 4; i++) {
			CHECK_INT(said.id[i], whole.id[20 + i]);
			CHECK(said.logprob[i] == whole.logprob[20 + i]);
		}
		l = kit_read(&k, 1, 0);
		CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
		kit_log_free(&l);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

int
main(int argc, char **argv)
{
	share();
	return check_main(argc, argv);
}
