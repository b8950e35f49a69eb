/*
 * wire_clone.c - a branch of a peer's state: what comes, what is refused, and that
 * nothing is left but what gc takes where the source, the target or its disk gives out.
 */
#include "tests/check.h"
#include "tests/unit/fault.h"
#include "flow/clone.h"
#include "tests/unit/depot_serve.h"

enum { PAGES = 3, CALLS = 400 };

static struct {
	struct depot far, here;
	struct depot_server s;
	struct depot_health was;
	int fds;
} t;

static void
begin(const char *tenant)
{
	const struct depot_serving how = { .bytes = 64 << 20, .slots = 8,
		.tenant = tenant };

	memset(&t, 0, sizeof t);
	t.fds = scratch_have("fd");
	depot_begin(&t.far);
	group_state(&t.far, "w1", 1, PAGES);
	depot_begin(&t.here);
	if (depot_serve(&t.far, "tcp://127.0.0.1:0", &how, &t.s))
		depot_die("server", "none");
	t.was = depot_health(&t.s);
}

static void
end(void)
{
	struct depot_health h;

	CHECK_INT(depot_settles(&t.s, &t.was, &h), 1);
	CHECK_INT(depot_check(&t.far), 0);
	CHECK_INT(depot_check(&t.here), 0);
	CHECK_INT(depot_temporaries(t.here.dir), 0);
	depot_unserve(&t.s, 0);
	depot_end(&t.here);
	depot_end(&t.far);
	CHECK_INT(scratch_have("fd"), t.fds);
}

static int
clone_of(const char *workflow, uint32_t version, const char *to,
    struct epd_cloned *out)
{
	struct epd_clone_ask a = { .address = t.s.address,
		.from = { .kind = EPD_REF_STATE, .state = 1,
		    .version = version },
		.workflow = to, .timeout_ms = 5000 };

	snprintf(a.from.workflow, sizeof a.from.workflow, "%s", workflow);
	return epd_flow_clone(t.here.s, &a, out, depot_why(&t.here));
}

static int
count_one(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

static int
workflows(struct depot *d)
{
	int n = 0;

	return epd_workflow_each(d->s, count_one, &n) < 0 ? -1 : n;
}

/* The state here has the group's tokens and, by their files, its pages. */
static void
check_whole(const char *workflow, uint32_t state)
{
	const struct group x = group(1, PAGES, NULL);
	struct epd_workflow w;
	struct epd_state st;
	struct epd_version v;

	depot_workflow(&t.here, workflow, &w);
	CHECK_INT(group_whole(&w, state, 1, &x), PAGES);
	CHECK_INT(epd_shard_state(w.shard, state, &st), 0);
	CHECK_INT(st.status, EPD_ACTIVE);
	CHECK_INT(epd_shard_version(w.shard, state, 1, &v), 0);
	CHECK_INT(v.given, 1);
	CHECK_INT(v.nids, x.nids);
	CHECK(!memcmp(v.ids, x.ids, x.nids * sizeof *x.ids));
	epd_workflow_close(&w);
}

TEST(comes_whole_and_the_other_stays)
{
	struct epd_cloned out;

	begin(NULL);
	CHECK_INT(clone_of("w1", 0, "", &out), 0);
	CHECK_STR(out.workflow, "w1");
	CHECK_INT(out.state, 1);
	CHECK_INT(out.version, 1);
	CHECK_INT(out.copied, PAGES);
	check_whole("w1", 1);
	/* To a workflow that has states, of which one is the same. */
	group_state(&t.here, "other", 2, 2);
	CHECK_INT(clone_of("w1", 1, "other", &out), 0);
	CHECK_INT(out.state, 2);
	check_whole("other", 2);
	CHECK_INT(workflows(&t.here), 2);
	end();
}

TEST(what_is_refused_leaves_nothing)
{
	static const struct { const char *workflow; uint32_t version; int rc; }
	refused[] = {
		{ "w7", 0, EPD_ENOTHING }, { "w1", 2, EPD_ENOTHING },
		{ "theirs", 0, EPD_ENOSTATE }, { "..", 0, EPD_ENOTHING },
		{ "empty", 0, EPD_ENOSTATE },
	};
	struct epd_cloned out, was;
	struct epd_workflow w;

	memset(&out, 0x5a, sizeof out);
	was = out;
	begin(NULL);
	depot_workflow(&t.far, "empty", &w);
	epd_workflow_close(&w);
	/* A store may have states of several tenants. */
	t.far.tenant = "another";
	group_state(&t.far, "theirs", 3, 2);
	t.far.tenant = NULL;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		int rc = clone_of(refused[i].workflow, refused[i].version, "",
		    &out);

		if (rc != refused[i].rc)
			printf("# %s@%u: %s\n", refused[i].workflow,
			    refused[i].version, t.here.why.text);
		CHECK_INT(rc, refused[i].rc);
		CHECK(!memcmp(&out, &was, sizeof out));
		CHECK_INT(workflows(&t.here), 0);
	}
	end();
	/* A server of another tenant's. */
	begin("another");
	CHECK_INT(clone_of("w1", 0, "", &out), EPD_EMODEL);
	CHECK_INT(workflows(&t.here), 0);
	end();
}

TEST(its_own_server_is_none)
{
	const struct depot_serving how = { .bytes = 64 << 20, .slots = 8 };
	struct epd_clone_ask a = { .from = { .kind = EPD_REF_STATE,
		.workflow = "w1", .state = 1 } };
	struct depot_server s;
	struct epd_cloned out;

	begin(NULL);
	CHECK_INT(depot_serve(&t.here, "tcp://127.0.0.1:0", &how, &s), 0);
	a.address = s.address;
	CHECK_INT(epd_flow_clone(t.here.s, &a, &out, NULL), EPD_EUSAGE);
	a.from.kind = EPD_REF_WORKFLOW;
	CHECK_INT(epd_flow_clone(t.here.s, &a, &out, NULL), EPD_EUSAGE);
	depot_unserve(&s, 0);
	a.from.kind = EPD_REF_STATE;
	a.timeout_ms = 200;
	CHECK_INT(epd_flow_clone(t.here.s, &a, &out, NULL), EPD_EPEER);
	CHECK_INT(workflows(&t.here), 0);
	end();
}

/* All of it or nothing, whichever call it was that failed. */
TEST(a_disk_that_is_full)
{
	struct epd_cloned out;
	int rc = -1;

	for (int at = 1; rc && at < CALLS; at++) {
		begin(NULL);
		fault_arm(at, ENOSPC, 0);
		rc = clone_of("w1", 0, "", &out);
		(void)fault_calls();
		depot_sweep(&t.here);
		if (rc && rc != EPD_EUNSURE) {
			if (workflows(&t.here))
				printf("# at %d: %d\n", at, rc);
			CHECK_INT(workflows(&t.here), 0);
		} else if (!rc) {
			check_whole(out.workflow, out.state);
		}
		end();
		if (check_failed)
			printf("# at %d: %d %s\n", at, rc, t.here.why.text);
		if (check_failed)
			return;
	}
	CHECK_INT(rc, 0);
}

/* gc leaves alone what is young. */
static void
sweep_all(void)
{
	char c[300];

	snprintf(c, sizeof c, "find %s -name '.tmp.*' -exec touch -h -d "
	    "'1 hour ago' {} +", t.here.path);
	CHECK_INT(system(c), 0);
	depot_sweep(&t.here);
}

static int
killed_at(int at)
{
	struct epd_cloned out;
	pid_t pid;

	depot_close(&t.here);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		depot_open(&t.here);
		fault_arm(at, 0, FAULT_KILL);
		_exit(clone_of("w1", 0, "", &out) != 0);
	}
	at = scratch_wait(pid);
	depot_open(&t.here);
	return at;
}

TEST(a_target_that_is_killed)
{
	int rc = -1;

	for (int at = 1; rc && at < CALLS; at++) {
		begin(NULL);
		rc = killed_at(at);
		sweep_all();
		/* Nothing, or all of it. */
		if (workflows(&t.here)) {
			struct epd_workflow w;
			struct epd_state st;

			depot_workflow(&t.here, "w1", &w);
			if (epd_shard_next(w.shard, 0, &st) == 0) {
				epd_workflow_close(&w);
				check_whole("w1", 1);
				CHECK_INT(depot_runs(&t.here, "w1"), 1);
			} else {
				epd_workflow_close(&w);
				CHECK_INT(depot_runs(&t.here, "w1"), 0);
			}
		}
		end();
		if (check_failed) {
			printf("# at %d: %d\n", at, rc);
			return;
		}
	}
	CHECK_INT(rc, 0);
}

/* At any moment, most often while it is asked. */
TEST(a_source_that_is_killed)
{
	int came = 0, lost = 0;

	for (int i = 0; i < 30; i++) {
		struct epd_clone_ask a = { .from = { .kind = EPD_REF_STATE,
			.workflow = "w1", .state = 1 }, .timeout_ms = 300 };
		struct epd_cloned out;
		pid_t pid;
		int rc;

		begin(NULL);
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			epd_clock_sleep_ns((uint64_t)i * 100000);
			kill(t.s.pid, SIGKILL);
			_exit(0);
		}
		a.address = t.s.address;
		rc = epd_flow_clone(t.here.s, &a, &out, NULL);
		CHECK_INT(scratch_wait(pid), 0);
		came += rc == 0;
		lost += rc < 0;
		depot_unserve(&t.s, SIGKILL);
		if (rc < 0)
			CHECK_INT(workflows(&t.here), 0);
		else
			check_whole(out.workflow, out.state);
		sweep_all();
		CHECK_INT(depot_check(&t.here), 0);
		CHECK_INT(depot_temporaries(t.here.dir), 0);
		depot_end(&t.here);
		depot_sweep(&t.far);
		CHECK_INT(depot_check(&t.far), 0);
		depot_end(&t.far);
		CHECK_INT(scratch_have("fd"), t.fds);
	}
	printf("# %d came, %d did not\n", came, lost);
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	return check_main(argc, argv);
}
