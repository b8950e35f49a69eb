/*
 * wire_halves.c - a hand-off to a peer that has no way to reach its source: READY before
 * and behind what rolls it back, carries it through or takes it over.  In each order one
 * store has the state in the end, and no half is left that nobody can end.
 */
#include "tests/check.h"
#include "flow/standing.h"
#include "tests/unit/depot_serve.h"

enum { TIME_MS = 60000, SHORT_MS = 100 };

/* Its source is here, w1/s1; its target is served: "to". */
struct way {
	struct depot here, far;
	struct depot_server s;
	uint8_t id[16];
	struct epd_workflow w;		/* here, w1 */
	struct epd_pair p;		/* as a driver has it that is slow */
	int fds;
};

static void
up(struct way *x, uint64_t ms)
{
	const struct depot_serving how = { .bytes = 64 << 20, .slots = 8 };
	struct epd_offer o = { .state = { .kind = EPD_REF_STATE,
	    .workflow = "w1", .state = 1 }, .workflow = "to",
	    .timeout_ms = ms };
	struct epd_handoff h;
	struct epd_handed told;

	memset(x, 0, sizeof *x);
	x->fds = scratch_have("fd");
	depot_begin(&x->far);
	depot_begin(&x->here);
	group_state(&x->here, "w1", 1, 3);
	if (depot_serve(&x->far, "tcp://127.0.0.1:0", &how, &x->s))
		depot_die("server", "none");
	o.store = x->s.address;
	if (epd_flow_handoff_prepare(x->here.s, &o, &told,
	    depot_why(&x->here)) < 0)
		depot_die("prepare", x->here.why.text);
	memcpy(x->id, told.id, 16);
	depot_workflow(&x->here, "w1", &x->w);
	if (epd_shard_handoff(x->w.shard, x->id, &h) < 0 ||
	    epd_pair_open(&x->p, x->here.s, &x->w, &h, NULL) < 0 ||
	    epd_pair_look(&x->p, NULL) < 0)
		depot_die("pair", "none");
}

/* The slow driver's READY. */
static int
ready(struct way *x)
{
	const int rc = epd_pair_pull(&x->p, depot_why(&x->here));

	if (rc < 0)
		printf("# ready: %d %s\n", rc, x->here.why.text);
	return rc;
}

static unsigned
phase(struct depot *d, const char *workflow, const uint8_t id[16])
{
	struct epd_handoff h = { .target = 0 };
	struct epd_workflow w;

	depot_workflow(d, workflow, &w);
	if (epd_shard_handoff(w.shard, id, &h) < 0)
		h.phase = 0;
	epd_workflow_close(&w);
	return (unsigned)h.phase;
}

/* Whether a state of a workflow's is there to be used. */
static int
has(struct depot *d, const char *workflow)
{
	struct epd_state st = { .id = 0 };
	struct epd_workflow w;
	int n = 0;

	depot_workflow(d, workflow, &w);
	while (epd_shard_next(w.shard, st.id, &st) == 0)
		n += st.status == EPD_ACTIVE;
	epd_workflow_close(&w);
	return n;
}

static int
settle(struct depot *d, const char *workflow)
{
	struct epd_workflow w;
	int n;

	depot_workflow(d, workflow, &w);
	n = epd_flow_handoff_settle(d->s, &w);
	epd_workflow_close(&w);
	return n;
}

/* All is over: who has it, and nothing is left. */
static void
down(struct way *x, int here)
{
	epd_pair_close(&x->p);
	epd_workflow_close(&x->w);
	CHECK_INT(phase(&x->here, "w1", x->id), 0);
	CHECK_INT(phase(&x->far, "to", x->id), 0);
	CHECK_INT(has(&x->here, "w1"), here);
	CHECK_INT(has(&x->far, "to"), !here);
	CHECK_INT(depot_check(&x->here), 0);
	CHECK_INT(depot_check(&x->far), 0);
	depot_unserve(&x->s, 0);
	depot_end(&x->here);
	depot_end(&x->far);
	CHECK_INT(scratch_have("fd"), x->fds);
}

struct seen { int n; unsigned source, target; };

static int
see(void *arg, const struct epd_handed *h)
{
	struct seen *s = arg;

	s->n++;
	s->source = h->source;
	s->target = h->target;
	return 0;
}

/* READY came behind the end of it here: only from here it can be told so. */
static void
late(struct way *x, int by_commit)
{
	struct epd_handed told;
	struct seen seen = { .n = 0 };

	/* What was on its way when the time was over. */
	x->p.src.h.deadline_ms += TIME_MS;
	CHECK_INT(ready(x), 0);
	CHECK_INT(phase(&x->here, "w1", x->id), 0);
	CHECK_INT(phase(&x->far, "to", x->id), EPD_READY);
	CHECK_INT(settle(&x->far, "to"), 0);
	/* There nobody knows what became of it, and is told who does. */
	CHECK_INT(epd_flow_handoff_abort(x->far.s, x->id, "", &told,
	    depot_why(&x->far)), EPD_ETIMEOUT);
	CHECK(strstr(x->far.why.text, "--at"));
	CHECK_INT(phase(&x->far, "to", x->id), EPD_READY);
	CHECK_INT(epd_flow_handoff_each_at(x->here.s, x->s.address, see, &seen,
	    NULL), 0);
	CHECK_INT(seen.n, 1);
	CHECK_INT(seen.source, 0);
	CHECK_INT(seen.target, EPD_READY);
	CHECK_INT(by_commit ? epd_flow_handoff_commit_at(x->here.s,
	    x->s.address, x->id, &told, NULL) : epd_flow_handoff_abort_at(
	    x->here.s, x->s.address, x->id, "", &told, NULL),
	    by_commit ? EPD_EABORTED : 0);
	CHECK_INT(epd_flow_handoff_abort_at(x->here.s, x->s.address, x->id, "",
	    &told, NULL), EPD_ENOTHING);
	down(x, 1);
}

TEST(ready_behind_an_abort)
{
	struct epd_handed told;
	struct way x;

	for (int by_commit = 0; by_commit < 2; by_commit++) {
		up(&x, TIME_MS);
		CHECK_INT(epd_flow_handoff_abort(x.here.s, x.id, "", &told,
		    NULL), 0);
		late(&x, by_commit);
	}
}

TEST(ready_when_its_time_is_over_and_that_was_settled)
{
	struct way x;

	up(&x, SHORT_MS);
	epd_clock_sleep_ns(2 * SHORT_MS * MS);
	CHECK_INT(settle(&x.here, "w1"), 1);
	late(&x, 0);
}

TEST(an_abort_behind_ready)
{
	struct epd_handed told;
	struct way x;

	up(&x, TIME_MS);
	CHECK_INT(ready(&x), 0);
	CHECK_INT(epd_flow_handoff_abort(x.here.s, x.id, "", &told, NULL), 0);
	down(&x, 1);
}

TEST(its_time_over_behind_ready)
{
	struct way x;

	up(&x, 1000);
	CHECK_INT(ready(&x), 0);
	epd_clock_sleep_ns(1100 * MS);
	CHECK_INT(settle(&x.far, "to"), 0);
	CHECK_INT(settle(&x.here, "w1"), 1);
	down(&x, 1);
}

/* A person there was wrong: nobody has gone on here, so it is theirs. */
TEST(adopted_when_ready_came_late)
{
	struct epd_handed told;
	struct way x;

	up(&x, TIME_MS);
	CHECK_INT(epd_flow_handoff_abort(x.here.s, x.id, "", &told, NULL), 0);
	CHECK_INT(ready(&x), 0);
	CHECK_INT(epd_flow_handoff_adopt(x.far.s, x.id, "test", &told, NULL),
	    0);
	CHECK_INT(epd_flow_handoff_commit_at(x.here.s, x.s.address, x.id,
	    &told, depot_why(&x.here)), 0);
	down(&x, 0);
}

TEST(an_abort_behind_the_decision)
{
	struct epd_handed told;
	struct way x;

	up(&x, TIME_MS);
	CHECK_INT(ready(&x), 0);
	CHECK_INT(epd_shard_commit_at(x.w.shard, x.id, 0, NULL), 0);
	CHECK_INT(phase(&x.far, "to", x.id), EPD_READY);
	CHECK_INT(epd_flow_handoff_abort_at(x.here.s, x.s.address, x.id, "",
	    &told, NULL), EPD_ESTATUS);
	down(&x, 0);
}

/* Its source has forgotten, and died before it could say so there. */
TEST(committed_and_left_by_its_source)
{
	const uint64_t ms = 1000;
	struct way x;

	up(&x, ms);
	CHECK_INT(ready(&x), 0);
	CHECK_INT(epd_shard_commit_at(x.w.shard, x.id, 0, NULL), 0);
	CHECK_INT(epd_pair_look(&x.p, NULL), 0);
	CHECK_INT(epd_half_commit(&x.p.dst, x.id, NULL), 0);
	CHECK_INT(epd_shard_forget_at(x.w.shard, x.id, 0, NULL), 0);
	CHECK_INT(settle(&x.far, "to"), 0);
	CHECK_INT(phase(&x.far, "to", x.id), EPD_COMMITTED);
	epd_clock_sleep_ns((ms + 100) * MS);
	CHECK_INT(settle(&x.far, "to"), 1);
	down(&x, 0);
}

/* The other way about: the target forgot by its clock, and the source finds that. */
TEST(committed_and_forgotten_there_first)
{
	const uint64_t ms = 1000;
	struct way x;

	up(&x, ms);
	CHECK_INT(ready(&x), 0);
	CHECK_INT(epd_shard_commit_at(x.w.shard, x.id, 0, NULL), 0);
	CHECK_INT(epd_pair_look(&x.p, NULL), 0);
	CHECK_INT(epd_half_commit(&x.p.dst, x.id, NULL), 0);
	epd_clock_sleep_ns((ms + 100) * MS);
	CHECK_INT(settle(&x.far, "to"), 1);
	CHECK_INT(phase(&x.here, "w1", x.id), EPD_COMMITTED);
	CHECK_INT(settle(&x.here, "w1"), 1);
	down(&x, 0);
}

/* ---- who waits ---- */

struct heard { int n; uint64_t first_ns; char text[400]; };

static void
hear(void *arg, const char *text)
{
	struct heard *h = arg;

	if (!h->n++)
		h->first_ns = epd_clock_boot_ns();
	snprintf(h->text, sizeof h->text, "%s", text);
}

TEST(a_peer_that_went_is_waited_for_aloud)
{
	struct heard heard = { .n = 0 };
	struct epd_standing none;
	struct epd_node *n;
	uint64_t from;
	struct way x;

	up(&x, TIME_MS);
	x.here.s->listener = (struct epd_listener){ hear, &heard };
	CHECK_INT(epd_node_open(&n, x.here.s, x.s.address, in_ms(5000), NULL),
	    0);
	CHECK_INT(epd_standing_ask(&none, n, "", in_ms(5000), NULL), 0);
	epd_standing_free(&none);
	CHECK_INT(heard.n, 0);
	depot_unserve(&x.s, SIGKILL);
	from = epd_clock_boot_ns();
	CHECK_INT(epd_standing_ask(&none, n, "", in_ms(2000), NULL), EPD_EPEER);
	CHECK_INT(heard.n, 1);
	CHECK(heard.first_ns >= from + 1000 * MS);
	CHECK(heard.first_ns < from + 1900 * MS);
	CHECK(strstr(heard.text, x.s.address));
	CHECK(strstr(heard.text, "refused"));
	epd_node_close(n);
	/* One that was never there is not. */
	from = epd_clock_boot_ns();
	CHECK_INT(epd_node_open(&n, x.here.s, x.s.address, in_ms(5000), NULL),
	    EPD_EPEER);
	CHECK_INT(epd_node_open(&n, x.here.s, "tcp://127.0.0.1:77777",
	    in_ms(5000), NULL), EPD_EUSAGE);
	CHECK(epd_clock_boot_ns() < from + 1000 * MS);
	{
		struct epd_handed told;

		/* Rolled back unseen. */
		CHECK_INT(epd_flow_handoff_abort(x.here.s, x.id, "", &told,
		    NULL), 0);
	}
	down(&x, 1);
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	return check_main(argc, argv);
}
