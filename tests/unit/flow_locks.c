/*
 * flow_locks.c - what others do while a verb is on its way to the lock, or to
 * removing what it made: at each such call somebody else acts, and what he was
 * told stands.  And how long a lock is waited for that nobody lets go.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/lock.h"
#include "tests/unit/flow_hand.h"

/* Before the nth call that takes a lock or unlinks: act, once. */
static struct {
	int at, count;
	void (*act)(void);
} here;

static void
call(void)
{
	void (*act)(void) = here.act;

	if (!act || ++here.count != here.at)
		return;
	here.act = NULL;
	act();
}

int
fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (cmd == F_OFD_SETLK && ((struct flock *)arg)->l_type == F_WRLCK)
		call();
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

int
unlinkat(int dirfd, const char *path, int flags)
{
	call();
	return (int)syscall(SYS_unlinkat, dirfd, path, flags);
}

/* Another process's store, and what it was told. */
static struct {
	struct kit k;
	int rc, acted;
	struct epd_prefilled p;
} by;

static void
both_begin(struct kit *k)
{
	kit_begin(k, QWEN2);
	k->config.lock_timeout_ms = 20;
	kit_open(k);
	by.k = *k;
	by.k.config.lock_timeout_ms = 1;
	kit_open(&by.k);
}

static void
both_end(struct kit *k)
{
	kit_close(&by.k);
	kit_end(k);
}

static void
arm(int at, void (*act)(void))
{
	by.acted = 0;
	by.rc = 1;
	here.count = 0;
	here.at = at;
	here.act = act;
}

static int
disarm(void)
{
	here.act = NULL;
	return by.acted;
}

static int
count(void *arg, const struct epd_state_line *l)
{
	(void)l;
	++*(int *)arg;
	return 0;
}

/* States of a workflow; 0 too if it is not there. */
static int
states(struct kit *k, const char *workflow)
{
	int n = 0, rc = epd_view_states(k->s, workflow, count, &n, kit_why(k));

	return rc < 0 && rc != EPD_ENOTHING ? -1 : n;
}

static int
there(struct kit *k, const char *workflow)
{
	return !faccessat(k->s->workflows, workflow, F_OK, 0);
}

static int
release(struct kit *k, const char *workflow, uint32_t state)
{
	struct epd_ref ref = hand_ref(workflow, state);

	return epd_flow_release(k->s, &ref, "test", kit_why(k));
}

/* ---- what was made for nothing is removed, and no more than that ---- */

static uint32_t meant;	/* the state of w1 that it is about */

/* Somebody finds the new workflow. */
static void
settles_in(void)
{
	by.acted = 1;
	by.k.workflow = "w2";
	if (there(&by.k, "w2"))
		by.rc = kit_say(&by.k, 0, "mine", NULL, &by.p);
}

/* The same, and the offer will be refused. */
static void
settles_in_and_releases(void)
{
	settles_in();
	(void)release(&by.k, "w1", meant);
}

static int
lock_of(struct kit *k, const char *workflow)
{
	char path[80];
	int fd;

	snprintf(path, sizeof path, "%s/lock", workflow);
	fd = openat(k->s->workflows, path, O_RDWR | O_CLOEXEC);
	return fd >= 0 && epd_lock_try(fd) == 0 ? fd : -1;
}

/* Refused, or because the source's lock is not to be had. */
static void
hand_off_fails(int held)
{
	struct epd_prefilled p;
	struct kit k;
	int stayed = 0, went = 0;

	both_begin(&k);
	for (int at = 1, acted = 1; acted; at++) {
		struct epd_offer o = { .workflow = "" };
		struct epd_handed out;
		int rc, now, lock = -1;

		CHECK_INT(kit_say(&k, 0, "one", NULL, &p), 0);
		o.state = hand_ref("w1", p.state);
		meant = p.state;
		if (held)
			lock = lock_of(&k, "w1");
		arm(at, held ? settles_in : settles_in_and_releases);
		rc = epd_flow_handoff_prepare(k.s, &o, &out, kit_why(&k));
		acted = disarm();
		close(lock);
		now = states(&k, "w2");
		/* Whoever was told of a state has it. */
		CHECK(by.rc ? now == 0 : now == 1);
		stayed += rc < 0 && !by.rc;
		went += rc < 0 && by.rc && !there(&k, "w2");
		CHECK(!held || rc == EPD_ELOCKED);
		if (rc == 0)
			CHECK_INT(epd_flow_handoff_abort(k.s, out.id, "", &out,
			    kit_why(&k)), 0);
		CHECK_INT(epd_file_remove(k.s->workflows, "w2"), 0);
		CHECK_INT(epd_memory_remove(k.s->memory, "w2"), 0);
		(void)release(&k, "w1", p.state);
	}
	printf("# stayed %d times, went %d times\n", stayed, went);
	CHECK(stayed > 1 && went >= held);
	both_end(&k);
}

TEST(a_hand_off_that_is_refused) { hand_off_fails(0); }
TEST(a_hand_off_that_waits_in_vain) { hand_off_fails(1); }

/* Given up before its first chunk, a prefill takes away what it made. */
TEST(a_prefill_that_is_given_up)
{
	static const volatile sig_atomic_t stop = 1;
	struct epd_request_image im = { .path = NULL };
	struct epd_prefilled p;
	struct kit k;
	int stayed = 0, went = 0;

	both_begin(&k);
	CHECK_INT(kit_say(&k, 0, "one", NULL, &p), 0);
	for (int at = 1, acted = 1; acted; at++) {
		const struct epd_prefill ask = {
			.kind = EPD_PROMPT_RAW, .text = epd_span_str("one two"),
			.workflow = "", .images = &im, .stop = &stop,
			.reuse = EPD_REUSE_NONE,
		};
		int now;

		arm(at, settles_in);
		CHECK_INT(epd_flow_prefill(k.se, &ask, &p, kit_why(&k)),
		    -EINTR);
		acted = disarm();
		now = states(&k, "w2");
		CHECK(by.rc ? now == 0 : now == 1);
		stayed += !by.rc;
		went += !there(&k, "w2");
		CHECK_INT(epd_file_remove(k.s->workflows, "w2"), 0);
		CHECK_INT(epd_memory_remove(k.s->memory, "w2"), 0);
	}
	printf("# stayed %d times, went %d times\n", stayed, went);
	CHECK(stayed > 1 && went > 0);
	both_end(&k);
}

/* One that was made long ago, and its maker comes to write after all. */
TEST(an_old_one_that_gc_finds_empty)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct epd_state traits = { .page_tokens = 16, .kv_type = EPD_F32 };
	const struct epd_version v = { .nids = 0 };
	struct epd_swept swept;
	struct kit k;
	int stayed = 0, went = 0;

	both_begin(&k);
	traits.page_bytes = (uint32_t)k.se->page_bytes;
	for (int at = 1, acted = 1; acted; at++) {
		struct epd_workflow late;
		char name[EPD_WORKFLOW];
		uint32_t id;
		int now;

		CHECK_INT(epd_workflow_make(k.s, "w2", name, kit_why(&k)), 0);
		CHECK_INT(epd_workflow_open(&late, by.k.s, "w2", 0, &k.why), 0);
		CHECK_INT(utimensat(k.s->workflows, "w2", old, 0), 0);
		arm(at, settles_in);
		CHECK_INT(epd_flow_gc(k.s, &swept, kit_why(&k)), 0);
		acted = disarm();
		now = states(&k, "w2");
		CHECK(by.rc ? now == 0 : now == 1);
		stayed += !by.rc;
		if (by.rc) {
			went++;
			CHECK(!there(&k, "w2"));
			CHECK_INT(epd_shard_create(late.shard, &traits, &v, &id,
			    kit_why(&k)), EPD_ESTALE);
			CHECK(!there(&k, "w2"));
		}
		epd_workflow_close(&late);
		CHECK_INT(epd_file_remove(k.s->workflows, "w2"), 0);
		CHECK_INT(epd_memory_remove(k.s->memory, "w2"), 0);
	}
	printf("# stayed %d times, went %d times\n", stayed, went);
	CHECK(stayed > 1 && went > 0);
	both_end(&k);
}

/* ---- branches that share nothing ---- */

/* A turn is added, and acknowledged. */
static void
goes_on(void)
{
	by.acted = 1;
	by.k.workflow = "w1";
	by.rc = kit_say(&by.k, meant, "and then?", NULL, &by.p);
}

static int
versions(struct kit *k, uint32_t state)
{
	struct epd_workflow w;
	struct epd_state st;
	int rc = epd_workflow_open(&w, k->s, "w1", 1, kit_why(k));

	if (rc < 0)
		return rc;
	rc = epd_shard_state(w.shard, state, &st);
	epd_workflow_close(&w);
	return rc < 0 ? 0 : (int)st.versions;
}

static void
replaced(int expect)
{
	struct epd_prefilled p;
	struct kit k;
	int before = 0, refused = 0;

	both_begin(&k);
	k.s->config.enable_cow = 0;
	for (int at = 1, acted = 1; acted; at++) {
		struct epd_fork_request f = {
			.branches = 3, .replace = 1, .reason = "test",
			.expect = expect ? 1 : 0,
		};
		struct epd_forked out;
		int rc, went_on, left;

		CHECK_INT(kit_say(&k, 0, "one", NULL, &p), 0);
		f.from = hand_ref("w1", p.state);
		meant = p.state;
		arm(at, goes_on);
		rc = epd_flow_fork(k.s, &f, &out, kit_why(&k));
		acted = disarm();
		went_on = acted && by.rc == 0;
		left = versions(&k, p.state);
		/* A turn that was acknowledged is the parent's, or its branches'. */
		if (rc == 0) {
			CHECK_INT(left, 0);
			CHECK_INT(out.version, went_on ? 2 : 1);
			CHECK(!went_on || !expect);
			before += went_on;
		} else {
			CHECK(rc == EPD_EVERSION && expect && went_on);
			CHECK_INT(left, 2);
			refused++;
		}
		CHECK_INT(states(&k, "w1"), rc == 0 ? 3 : 1);
		CHECK_INT(kit_check(&k), 0);
		if (rc == 0)
			for (uint32_t i = 0; i < 3; i++)
				CHECK_INT(release(&k, "w1", out.first + i), 0);
		else
			CHECK_INT(release(&k, "w1", p.state), 0);
	}
	CHECK(expect ? refused > 0 : before > 0);
	both_end(&k);
}

TEST(replaced_if_it_is_as_expected) { replaced(1); }
TEST(replaced_as_it_is) { replaced(0); }

/* ---- waiting ---- */

static void *
let_go(void *arg)
{
	const int *fd = arg;

	usleep(40000);
	close(*fd);
	return NULL;
}

enum { OPERANDS = 12, LOCK_MS = 400 };

/* Who never lets go is waited for little more than once; who does, always. */
TEST(many_operands_of_one_workflow)
{
	struct epd_prefilled p[OPERANDS];
	uint64_t from, ms;
	pthread_t thread;
	struct kit k;
	int lock;

	kit_begin(&k, QWEN2);
	k.config.lock_timeout_ms = LOCK_MS;
	kit_open(&k);
	for (int i = 0; i < OPERANDS; i++)
		CHECK_INT(kit_say(&k, 0, "one", NULL, p + i), 0);
	lock = lock_of(&k, "w1");
	CHECK(lock >= 0);
	from = epd_clock_boot_ns();
	for (int i = 0; i < OPERANDS; i++)
		CHECK_INT(release(&k, "w1", p[i].state), EPD_ELOCKED);
	ms = (epd_clock_boot_ns() - from) / 1000000;
	CHECK(ms >= LOCK_MS && ms < 3 * LOCK_MS);
	close(lock);
	/* After one that was in vain it is waited for still, */
	CHECK_INT(release(&k, "w1", p[0].state), 0);
	lock = lock_of(&k, "w1");
	CHECK_INT(release(&k, "w1", p[1].state), EPD_ELOCKED);
	CHECK_INT(pthread_create(&thread, NULL, let_go, &lock), 0);
	CHECK_INT(release(&k, "w1", p[1].state), 0);
	pthread_join(thread, NULL);
	/* and once it was had as long as ever. */
	lock = lock_of(&k, "w1");
	from = epd_clock_boot_ns();
	CHECK_INT(release(&k, "w1", p[2].state), EPD_ELOCKED);
	CHECK((epd_clock_boot_ns() - from) / 1000000 >= LOCK_MS);
	close(lock);
	kit_end(&k);
}

/* Of two lanes that end together the first does not get the lock. */
static struct lanes {
	struct kit *k;
	int lock;
	pthread_t thread;
	int rc[2];
	uint64_t fresh[2];
} lanes;

static int
lane_token(void *arg, const struct epd_token_event *e)
{
	(void)arg;
	(void)e;
	if (lanes.lock < 0)
		lanes.lock = lock_of(lanes.k, "w1");
	return lanes.lock < 0;
}

static void
lane_end(void *arg, const struct epd_decode_end *e)
{
	(void)arg;
	lanes.rc[e->which] = e->rc;
	lanes.fresh[e->which] = e->fresh;
	if (e->which == 0)
		pthread_create(&lanes.thread, NULL, let_go, &lanes.lock);
}

TEST(lanes_of_one_workflow)
{
	struct kit_said said[2];
	uint32_t state[2];
	struct epd_prefilled p;
	struct epd_ref ref[2];
	const struct epd_decode d = {
		.states = ref, .n = 2, .most = 1, .ignore_eos = 1,
		.token = lane_token, .end = lane_end,
	};
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.lock_timeout_ms = LOCK_MS;
	kit_open(&k);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(kit_say(&k, 0, "one", NULL, &p), 0);
		state[i] = p.state;
		ref[i] = hand_ref("w1", p.state);
	}
	lanes = (struct lanes){ .k = &k, .lock = -1 };
	CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), EPD_ELOCKED);
	pthread_join(lanes.thread, NULL);
	CHECK_INT(lanes.rc[0], EPD_ELOCKED);
	CHECK_INT(lanes.rc[1], 0);
	CHECK_INT(lanes.fresh[1], 1);
	/* What the first could not give back is given back. */
	CHECK_INT(kit_decode(&k, state, 2, 1, said), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
