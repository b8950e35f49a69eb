/*
 * flow_frozen.c - a process stands still where it is: one that reads, while what
 * it reads is released and swept; one that sweeps, while others make what it has
 * not seen; one that is about to flush, while others look.  Woken, each ends
 * well or fails, and nobody has lost what is alive.
 */
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/unit/flow_stop.h"
#include "tests/unit/flow_hand.h"

/* What a frozen process says, seen by all. */
static struct told {
	struct stop_seen seen;
	int rc;
	uint32_t state;
	uint64_t before, after;
	struct kit_said said;
} *told;

static void
share(void)
{
	if (!told)
		told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		golden_die("results", "no memory");
	memset(told, 0, sizeof *told);
	told->rc = 1;
}

/* Stopped, 1; or ended, 0. */
static int
stands(pid_t pid)
{
	int st = 0;

	while (waitpid(pid, &st, WUNTRACED) < 0 && errno == EINTR)
		;
	return WIFSTOPPED(st);
}

/* A process on a store that it opens itself; it stops, or ends. */
static pid_t
begin(const struct kit *k, void (*act)(struct kit *k, int at), int at)
{
	struct kit mine = *k;
	pid_t pid;

	share();
	fflush(stdout);
	if ((pid = fork()) == 0) {
		mine.s = NULL;
		mine.se = NULL;
		if (kit_try_open(&mine) < 0)
			_exit(1);
		stop.seen = &told->seen;
		act(&mine, at);
		stop_arm(0, STOP_NOT);
		kit_close(&mine);
		_exit(0);
	}
	return pid;
}

/* Woken it ends by itself, whatever it was told. */
static int
wakes(pid_t pid)
{
	kill(pid, SIGCONT);
	return scratch_wait(pid) == 0 && told->rc <= 0;
}

static void
later(int on)
{
	static struct epd_clock_fake t;

	t.wall_ms = epd_clock_wall_ms() + 7200000;
	t.boot_ns = epd_clock_boot_ns() + UINT64_C(7200000000000);
	epd_clock_fake(on ? &t : NULL);
	stop.hasty = on;
}

static int
release(struct kit *k, const char *workflow, uint32_t state)
{
	struct epd_ref ref = hand_ref(workflow, state);

	if (!state)
		ref.kind = EPD_REF_WORKFLOW;
	return epd_flow_release(k->s, &ref, "test", kit_why(k));
}

static int
gc(struct kit *k)
{
	struct epd_swept swept;

	return epd_flow_gc(k->s, &swept, kit_why(k));
}

/* ---- a reader ---- */

static int
pause_at_second(void *arg, const struct epd_record *r)
{
	int *n = arg;

	(void)r;
	if (++*n == 2)
		raise(SIGSTOP);
	return 0;
}

static void
walks(struct kit *k, int at)
{
	struct epd_workflow w;
	int n = 0;

	(void)at;
	told->rc = epd_workflow_open(&w, k->s, "w1", 1, kit_why(k));
	if (told->rc < 0)
		return;
	told->rc = epd_shard_walk(w.shard, pause_at_second, &n, &k->why);
	epd_workflow_close(&w);
}

static int
pause_at_first(void *arg, const struct epd_state_line *l)
{
	int *n = arg;

	if (!(*n)++)
		raise(SIGSTOP);
	told->before += strlen(l->workflow) + l->tokens;
	return 0;
}

static void
lists(struct kit *k, int at)
{
	int n = 0;

	(void)at;
	told->rc = epd_view_states(k->s, NULL, pause_at_first, &n, kit_why(k));
}

/* With its first run mapped; the others are opened after that. */
static void
maps(struct kit *k, int at)
{
	struct kit_log l = kit_read(k, 1, 0);
	const struct epd_page_entry e = { .name = l.page[0].name };
	struct epd_run_shape shape;
	struct epd_workflow w;
	struct epd_run *run;
	long i;

	(void)at;
	epd_seq_shape(k->se, &shape);
	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0)
		_exit(1);
	if (kit_run(k, &w, l.run[0], &e, &run, &i) < 0)
		_exit(1);
	told->before = epd_xxh3_64(epd_run_page(run, i), shape.bytes);
	raise(SIGSTOP);
	told->after = epd_xxh3_64(epd_run_page(run, i), shape.bytes);
	if (told->before != l.page[0].sum || epd_run_verify(run, i) < 0)
		told->after = 0;
	epd_run_close(run);
	told->rc = kit_run(k, &w, l.run[0], &e, &run, &i);
	if (told->rc == 0)
		epd_run_close(run);
	epd_workflow_close(&w);
	kit_log_free(&l);
}

/* States 1 to 3, the first of several versions. */
static void
populate(struct kit *k)
{
	struct kit_said said[3];
	struct epd_prefilled p;

	for (uint32_t s = 1; s <= 3; s++)
		if (kit_say(k, 0, s == 1 ? "One way to say it, long enough "
		    "for a page of tokens and more." : "Another.", NULL,
		    &p) < 0 || p.state != s)
			golden_die("states", k->why.text);
	if (kit_decode(k, (const uint32_t[]){ 1 }, 1, 4, said) < 0)
		golden_die("tokens", k->why.text);
}

/* All that it reads goes, the log's segments too. */
static int
read_frozen(void (*act)(struct kit *k, int at))
{
	struct epd_workflow w;
	struct kit k;
	pid_t pid;
	int ok;

	kit_begin(&k, QWEN2);
	k.config.log_keep = 0;
	kit_open(&k);
	populate(&k);
	pid = begin(&k, act, 0);
	ok = stands(pid) && release(&k, "w1", 0) == 0 &&
	    epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)) == 0;
	if (ok) {
		ok = epd_shard_checkpoint(w.shard, &k.why) == 0;
		epd_workflow_close(&w);
	}
	later(1);
	ok &= gc(&k) == 0;
	later(0);
	ok &= kit_runs(&k) == 0;
	ok &= wakes(pid) && kit_check(&k) == 0;
	kit_end(&k);
	return ok;
}

TEST(frozen_reader)
{
	CHECK(read_frozen(walks));
	CHECK(read_frozen(lists));
	CHECK(told->before > 0);
	/* What is mapped stays as it was; what is not any more there is no more. */
	CHECK(read_frozen(maps));
	CHECK(told->before && told->before == told->after);
	CHECK(told->rc < 0);
}

static int
pause_at_token(void *arg, const struct epd_token_event *e)
{
	struct kit_said *s = arg;

	if (s->n == 1)
		raise(SIGSTOP);
	return kit_token(arg, e);
}

static void
decodes(struct kit *k, int at)
{
	const struct epd_ref ref = hand_ref("w1", 1);
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = 6, .has_temp = 1,
		.has_top_p = 1, .has_penalty = 1,
		.sampler = { .top_p = 1, .penalty = 1 }, .ignore_eos = 1,
		.token = at ? pause_at_token : kit_token, .end = kit_ended,
		.arg = &told->said,
	};

	told->rc = epd_flow_decode(k->se, &d, kit_why(k));
}

/*
 * Its lease stands, and what it reads stays; or its time is over, and then it is
 * told so, having drawn from pages that were as they had been.
 */
static void
decoder_frozen(int late)
{
	struct kit_said want;
	struct kit k;
	pid_t pid;
	int rc;

	kit_start(&k, QWEN2);
	populate(&k);
	CHECK(!stands(begin(&k, decodes, 0)));
	CHECK_INT(told->rc, 0);
	want = told->said;
	kit_end(&k);
	kit_start(&k, QWEN2);
	populate(&k);
	pid = begin(&k, decodes, 1);
	CHECK(stands(pid));
	later(late);
	rc = release(&k, "w1", 1);
	CHECK_INT(gc(&k), 0);
	later(0);
	CHECK(wakes(pid));
	printf("# release %d, decode %d\n", rc, told->rc);
	CHECK(rc == 0 ? told->rc < 0 : told->rc == 0);
	CHECK(told->said.n >= 2);
	for (int i = 0; i < told->said.n; i++)
		CHECK_INT(told->said.id[i], want.id[i]);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

TEST(frozen_reader_that_decodes) { decoder_frozen(0); }
TEST(frozen_reader_past_its_lease) { decoder_frozen(1); }

static const char donated[] = "What is long enough for several pages of tokens "
    "is taken up by others that begin so, a page after the other, and what is "
    "not there any more is computed.";

static void
takes_up(struct kit *k, int at)
{
	struct epd_prefilled p = { .state = 0 };

	stop_arm(at, STOP_FREEZE);
	told->rc = kit_say(k, 0, donated, NULL, &p);
	told->state = p.state;
	told->before = p.reused;
}

/* Wherever it stands, who had the pages lets them go. */
TEST(frozen_reader_that_takes_up)
{
	struct epd_prefilled p;
	struct kit k;
	int at = 1, took = 0, hit = 1;

	kit_begin(&k, QWEN2);
	k.config.lock_timeout_ms = 20;
	kit_open(&k);
	for (; hit; at++) {
		struct kit_log l;
		pid_t pid;

		k.workflow = "w2";
		CHECK_INT(kit_say(&k, 0, donated, NULL, &p), 0);
		k.workflow = "w1";
		pid = begin(&k, takes_up, at);
		hit = stands(pid);
		if (hit) {
			CHECK_INT(release(&k, "w2", p.state), 0);
			later(1);
			(void)gc(&k);
			later(0);
			CHECK(wakes(pid));
		}
		CHECK_INT(told->rc, 0);
		took += told->before > 0;
		l = kit_read(&k, told->state, 0);
		CHECK(kit_replay(&k, &l));
		CHECK_INT(kit_check(&k), 0);
		kit_log_free(&l);
		CHECK_INT(release(&k, "w1", told->state), 0);
		if (!hit)
			CHECK_INT(release(&k, "w2", p.state), 0);
	}
	printf("# frozen at %d calls, %d took pages up\n", at - 2, took);
	CHECK(at > 4 && took > 0);
	later(1);
	CHECK_INT(gc(&k), 0);
	later(0);
	CHECK_INT(kit_runs(&k), 0);
	kit_end(&k);
}

/* ---- a sweep ---- */

static void
sweeps(struct kit *k, int at)
{
	stop.naps = 1;
	stop_arm(at, STOP_FREEZE);
	told->rc = gc(k);
}

static int
one_run(void *arg, uint64_t run, uint64_t bytes)
{
	(void)bytes;
	*(uint64_t *)arg = run;
	return 0;
}

/* A run that no record names. */
static void
orphan(struct kit *k)
{
	int fd = epd_memory_dir(k->s->memory, "w1");
	uint64_t run = 0, id;

	if (fd < 0 || epd_run_each(fd, one_run, &run) < 0 || !run ||
	    epd_run_id(&id) < 0 || epd_run_link(fd, run, fd, id) < 0)
		golden_die("orphan", "cannot be made");
	close(fd);
}

/* What others do meanwhile: a state, a branch of it that draws, one that goes. */
static int
live(struct kit *k, uint32_t old, uint32_t made[2])
{
	struct kit_said said;
	struct epd_prefilled p;
	int rc = kit_say(k, 0, donated, NULL, &p);

	if (rc < 0)
		return rc;
	made[0] = p.state;
	made[1] = hand_fork(k, p.state, 5);
	if ((rc = kit_decode(k, made + 1, 1, 3, &said)) < 0)
		return rc;
	return release(k, "w1", old);
}

/* Between its listing and its unlinking, and anywhere else. */
TEST(frozen_gc)
{
	uint32_t made[2] = { 0, 0 };
	struct kit_said said[2];
	struct epd_prefilled p;
	struct kit k;
	int at = 1, lived = 0, hit = 1, runs;

	kit_begin(&k, QWEN2);
	k.config.lock_timeout_ms = 20;
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, donated, NULL, &p), 0);
	for (; hit; at++) {
		pid_t pid;
		int rc;

		orphan(&k);
		pid = begin(&k, sweeps, at);
		if (!(hit = stands(pid)))
			break;
		rc = live(&k, p.state, made);
		CHECK(rc == 0 || rc == EPD_ELOCKED);
		CHECK(wakes(pid));
		CHECK_INT(told->rc, 0);
		if (rc < 0)
			continue;
		lived++;
		for (int i = 0; i < 2; i++) {
			struct kit_log l = kit_read(&k, made[i], 0);

			CHECK(kit_recount(&k, &l));
			kit_log_free(&l);
		}
		CHECK_INT(kit_decode(&k, made, 2, 2, said), 0);
		CHECK(said[0].end.lost == 0 && said[1].end.lost == 0);
		CHECK_INT(kit_check(&k), 0);
		CHECK_INT(release(&k, "w1", made[1]), 0);
		p.state = made[0];
	}
	printf("# frozen at %d calls, others went on at %d\n", at - 1, lived);
	CHECK(at > 2 && lived > 1);
	runs = kit_runs(&k);
	CHECK_INT(gc(&k), 0);
	CHECK_INT(kit_runs(&k), runs);
	CHECK_INT(release(&k, "w1", 0), 0);
	CHECK_INT(kit_runs(&k), 0);
	kit_end(&k);
}

/* ---- one about to flush ---- */

static void
branches(struct kit *k, int at)
{
	const struct epd_fork_request f = {
		.from = hand_ref("w1", 1), .branches = 1, .reason = "test",
	};
	struct epd_forked out;

	stop_arm(at, STOP_FREEZE);
	told->rc = epd_flow_fork(k->s, &f, &out, kit_why(k));
}

static int
states(struct kit *k, int *calls)
{
	struct epd_workflow w;
	struct epd_state st = { .id = 0 };
	int n = 0;

	stop_arm(0, STOP_KILL);
	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0)
		return -1;
	*calls = stop.count;
	stop_arm(0, STOP_NOT);
	while (epd_shard_next(w.shard, st.id, &st) == 0)
		n++;
	epd_workflow_close(&w);
	return n;
}

/* Who only looks leaves flushing to it, unless it has left it for good. */
static void
about_to_flush(int dies)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct stop_seen seen;
	struct epd_prefilled p;
	struct kit k;
	int at = 1, calls = 0;
	pid_t pid;

	kit_begin(&k, QWEN2);
	k.config.state_sync = 1;
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, "One.", NULL, &p), 0);
	CHECK(!stands(begin(&k, branches, 0)));
	CHECK_INT(told->rc, 0);
	seen = told->seen;
	while (at <= seen.count && seen.kind[at - 1] != STOP_FLUSH)
		at++;
	CHECK(at <= seen.count);
	pid = begin(&k, branches, at);
	CHECK(stands(pid));
	for (int i = 0; i < 3; i++) {
		CHECK_INT(states(&k, &calls), 2);
		CHECK_INT(calls, 0);
	}
	/* It died, or stood still for long: a reader settles what it left. */
	if (dies) {
		kill(pid, SIGKILL);
		CHECK_INT(scratch_wait(pid), -SIGKILL);
	} else {
		CHECK_INT(utimensat(k.s->workflows, "w1/log.00000001", old,
		    0), 0);
	}
	CHECK_INT(states(&k, &calls), 3);
	CHECK(calls > 0);
	if (!dies) {
		CHECK(wakes(pid));
		CHECK_INT(told->rc, 0);
	}
	CHECK_INT(states(&k, &calls), 3);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

TEST(readers_do_not_flush_for_a_writer) { about_to_flush(0); }
TEST(readers_flush_for_one_that_died) { about_to_flush(1); }

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
