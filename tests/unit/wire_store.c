/*
 * wire_store.c - two stores, one of them behind a data server, and either side killed
 * at random: what was to go either way is there at the end, byte by byte, and nothing
 * else is.
 *
 * A mover is this program again, "PROGRAM move PATH ADDRESS SECONDS".  It does what is
 * left to be done, and whoever comes after it does the rest.  EPD_WIRE_ITEMS and
 * EPD_WIRE_KILLS make it longer, as tests/torture/wire_store does.
 */
#include "tests/check.h"
#include "tests/unit/depot_serve.h"

#ifndef WIRE_ITEMS
#define WIRE_ITEMS 1000
#define WIRE_KILLS 60
#endif
enum { GROUP = 5 };			/* pages of a group */

static int
setting(const char *name, int usual)
{
	const char *p = getenv(name);

	return p && atoi(p) > 0 ? atoi(p) : usual;
}

/* Half of them features, half pages; of each half go there, half come here. */
struct work {
	int features, groups;		/* each way */
};

static struct work
work(void)
{
	const int items = setting("EPD_WIRE_ITEMS", WIRE_ITEMS);

	return (struct work){ items / 4, items / 4 / GROUP };
}

/* Numbers of what is there first, and what is here first. */
static int
number(int i, enum epd_op op)
{
	return op == EPD_OP_READ ? i : i + 1000000;
}

/* ---- a mover ---- */

struct mover {
	struct depot d;
	struct epd_node *n;
	struct epd_transfer_policy policy;
	struct epd_workflow w;		/* here: what came */
	struct epd_half_ask half;	/* of a question about what is there */
	uint64_t end;
};

/* A feature, either way. */
static int
move_feature(struct mover *m, int i, enum epd_op op)
{
	const struct epd_feature f = numbered(number(i, op));
	struct epd_transferred out;

	return epd_feature_move(m->n, op, &f.fp, &m->policy, m->end, &out,
	    depot_why(&m->d));
}

/* Pages from there become a state here. */
static int
fetch_group(struct mover *m, int i)
{
	const uint32_t g = (uint32_t)number(i, EPD_OP_READ);
	const struct group x = group(g, GROUP, NULL);
	struct epd_version v = { .ids = x.ids, .nids = x.nids,
	    .next_pos = x.nids };
	struct epd_transferred out;
	struct epd_pages_ask a;
	struct epd_settled got;
	uint64_t *run = NULL;
	uint32_t nruns = 0, state;
	int rc;

	if (group_find(&m->w, &x))
		return 0;
	group_ask(&x, &a);
	snprintf(a.workflow, sizeof a.workflow, "w%u", g % 7);
	a.state = g / 7 + 1;
	rc = epd_pages_fetch(m->n, &m->w, &a, &m->policy, m->end, &run, &nruns,
	    &out, depot_why(&m->d));
	epd_free(a.page);
	/* Some were to be computed, as nothing could come: they come later. */
	if (rc == 0 && out.missing)
		rc = EPD_EPEER;
	if (rc == 0)
		rc = epd_settle(&got, m->d.s, &m->w, &v, &x.traits, x.page, x.n,
		    run, nruns, &m->d.why);
	else
		for (uint32_t k = 0; k < nruns; k++)
			(void)epd_run_free(m->w.runs, run[k]);
	epd_free(run);
	if (rc < 0)
		return rc;
	if (got.moved.missing)
		depot_die("settled", "a page that came is not there");
	rc = epd_shard_create(m->w.shard, &x.traits, &got.v, &state,
	    &m->d.why);
	if (rc < 0)
		epd_settle_undo(&got, &m->w);
	epd_settle_free(&got);
	return rc;
}

static int
tell(struct mover *m, enum epd_ask verb, struct epd_half_ask *a,
    const struct epd_buf *more)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	int rc;

	epd_half_ask_pack(&b, a);
	if (more)
		epd_buf_put(&b, more->p, more->n);
	rc = b.failed ? -ENOMEM : epd_node_ask(m->n, verb, epd_span(b.p, b.n),
	    &answer, m->end, depot_why(&m->d));
	if (rc == 0 && verb == EPD_ASK_HAD) {
		c = epd_cur(epd_span(answer.p, answer.n));
		rc = epd_half_ask_unpack(&c, a);
		rc = rc < 0 ? rc : a->had != 0;
	}
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

/* READY, and the commit of what it made. */
static int
name_there(struct mover *m, const struct group *x, const uint64_t *run,
    uint32_t nruns)
{
	const struct epd_version v = { .ids = x->ids, .nids = x->nids,
	    .next_pos = x->nids };
	struct epd_buf parcel = {0}, b = {0};
	struct epd_half_ask a = m->half;
	int rc;

	epd_parcel_pack(&parcel, &x->traits, &v);
	epd_pack_span(&b, epd_span(parcel.p, parcel.n));
	epd_pack_u8(&b, 0);
	epd_ask_refs_pack(&b, x->page, x->n);
	epd_pack_u32(&b, nruns);
	for (uint32_t i = 0; i < nruns; i++)
		epd_pack_u64(&b, run[i]);
	a.h.target = 1;
	snprintf(a.store, sizeof a.store, "away:");
	snprintf(a.peer, sizeof a.peer, "w1");
	memset(a.h.peer, 1, 16);
	memset(a.h.home, 2, 16);
	rc = tell(m, EPD_ASK_READY, &a, &b);
	epd_buf_free(&parcel);
	epd_buf_free(&b);
	a = m->half;
	return rc < 0 ? rc : tell(m, EPD_ASK_COMMIT, &a, NULL);
}

/* A workflow there, and what is to be asked of it. */
static int
there(struct mover *m, const char *workflow)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_span uuid;
	struct epd_cur c;
	int rc;

	m->half = (struct epd_half_ask){ .lsn = 0 };
	epd_ask_str(&b, workflow);
	rc = epd_node_ask(m->n, EPD_ASK_MAKE, epd_span(b.p, b.n), &answer,
	    m->end, depot_why(&m->d));
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0)
		rc = epd_ask_take_str(&c, m->half.workflow,
		    sizeof m->half.workflow);
	uuid = epd_unpack_bytes(&c, 16);
	if (rc == 0)
		memcpy(m->half.uuid, uuid.p, 16);
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

/* Pages from here become a state there. */
static int
send_group(struct mover *m, int i)
{
	const uint32_t g = (uint32_t)number(i, EPD_OP_WRITE);
	const struct group x = group(g, GROUP, NULL);
	struct epd_pages_ask of = { .state = (uint32_t)i + 1 }, a;
	struct epd_transferred out;
	struct epd_half_ask had;
	uint64_t *run = NULL;
	uint32_t nruns = 0;
	int rc = there(m, "sent");

	if (rc < 0)
		return rc;
	memcpy(m->half.id, &g, sizeof g);
	had = m->half;
	if ((rc = tell(m, EPD_ASK_HAD, &had, NULL)) != 0)
		return rc < 0 ? rc : 0;
	snprintf(of.workflow, sizeof of.workflow, "mine");
	group_ask(&x, &a);
	memcpy(a.workflow, m->half.workflow, sizeof a.workflow);
	memcpy(a.uuid, m->half.uuid, 16);
	rc = epd_pages_send(m->n, &of, &a, &m->policy, m->end, &run, &nruns,
	    &out, depot_why(&m->d));
	epd_free(a.page);
	if (rc == 0 && out.missing)
		depot_die("sent", "a page that is here did not go");
	if (rc == 0)
		rc = name_there(m, &x, run, nruns);
	epd_free(run);
	return rc;
}

static int
move_one(struct mover *m, int i, const struct work *k)
{
	if (i < 2 * k->features)
		return move_feature(m, i / 2, i % 2 ? EPD_OP_WRITE :
		    EPD_OP_READ);
	i -= 2 * k->features;
	return i % 2 ? send_group(m, i / 2) : fetch_group(m, i / 2);
}

/* What the other side's death may look like. */
static int
may_pass(int rc)
{
	return rc == EPD_EPEER || rc == EPD_ETIMEOUT || rc == EPD_ESTALE ||
	    rc == -EPIPE || rc == -ECONNRESET || rc == -ECONNREFUSED ||
	    rc == -ENOENT || rc == EPD_ECREDIT;
}

static int
move_all(struct mover *m, const char *address)
{
	const struct work k = work();
	const int n = 2 * (k.features + k.groups);
	/* Not all movers begin with the same. */
	const int first = (int)(epd_clock_boot_ns() % (uint64_t)n);
	int rc = 0;

	for (int i = 0; i < n; i++)
		do {
			rc = m->n ? 0 : epd_node_open(&m->n, m->d.s, address,
			    m->end, depot_why(&m->d));
			if (rc == 0)
				rc = move_one(m, (first + i) % n, &k);
			if (rc == 0)
				break;
			if (!may_pass(rc)) {
				printf("# item %d: %d %s\n", i, rc,
				    m->d.why.text);
				return 1;
			}
			epd_node_close(m->n);
			m->n = NULL;
			epd_clock_sleep_ns(5 * MS);
		} while (epd_clock_boot_ns() < m->end);
	if (rc < 0)
		printf("# out of time: %d %s\n", rc, m->d.why.text);
	return rc < 0;
}

static int
move_main(char **arg)
{
	struct mover m = { .end = in_ms(1000 * strtoull(arg[4], NULL, 10)) };
	int rc;

	depot_at(&m.d, arg[2]);
	m.d.config.trust_peers = 1;	/* so that rows come too */
	depot_open(&m.d);
	depot_workflow(&m.d, "came", &m.w);
	epd_transfer_policy_default(&m.policy, &m.d.config);
	m.policy.timeout_ms = 3000;
	/* So that it comes, whatever it would cost to compute. */
	m.policy.transport = EPD_VIA_NONE;
	rc = move_all(&m, arg[3]);
	epd_node_close(m.n);
	epd_workflow_close(&m.w);
	depot_close(&m.d);
	return rc;
}

static pid_t
mover(const struct depot *d, const char *address)
{
	pid_t pid;

	fflush(stdout);
	if ((pid = fork()) == 0) {
		execl("/proc/self/exe", "move", "move", d->path, address, "900",
		    (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* ---- both ---- */

static void
fill(struct depot *here, struct depot *far)
{
	const struct work k = work();

	for (int i = 0; i < k.features; i++) {
		depot_feature(far, number(i, EPD_OP_READ));
		depot_feature(here, number(i, EPD_OP_WRITE));
	}
	for (int i = 0; i < k.groups; i++) {
		const uint32_t g = (uint32_t)number(i, EPD_OP_READ);
		char name[16];

		snprintf(name, sizeof name, "w%u", g % 7);
		if (group_state(far, name, g, GROUP) != g / 7 + 1 ||
		    group_state(here, "mine", (uint32_t)number(i,
		    EPD_OP_WRITE), GROUP) != (uint32_t)i + 1)
			depot_die("states", "other numbers than thought");
	}
}

/* How many of what was to go are not there, or not as they were. */
static int
lacking(struct depot *d, const char *workflow, enum epd_op op)
{
	const struct work k = work();
	struct epd_workflow w;
	int n = 0;

	depot_workflow(d, workflow, &w);
	for (int i = 0; i < k.features; i++) {
		if (depot_has_feature(d, number(i, op)))
			continue;
		printf("# no feature %d\n", number(i, op));
		n++;
	}
	for (int i = 0; i < k.groups; i++) {
		const uint32_t g = (uint32_t)number(i, op);
		const struct group x = group(g, GROUP, NULL);
		const uint32_t state = group_find(&w, &x);
		const uint32_t whole = state ? group_whole(&w, state, g, &x) :
		    0;

		if (whole != GROUP)
			printf("# group %u, state %u: %u pages of %d\n", g,
			    state, whole, GROUP);
		n += whole != GROUP;
	}
	epd_workflow_close(&w);
	return n;
}

struct deaths { int servers, movers; };

/* Kill either, at random, and put another in its place, until a mover is done. */
static int
kill_and_go_on(struct depot *here, const struct depot *far,
    struct depot_server *s, const struct depot_serving *how,
    struct deaths *out)
{
	const int kills = setting("EPD_WIRE_KILLS", WIRE_KILLS);
	const uint64_t end = in_ms(600000);
	unsigned seed = (unsigned)epd_clock_boot_ns();
	char address[256];
	pid_t pid = mover(here, s->address);
	int st;

	memcpy(address, s->address, sizeof address);
	printf("# seed %u\n", seed);
	while (epd_clock_boot_ns() < end) {
		const int which = rand_r(&seed) % 2;

		epd_clock_sleep_ns((uint64_t)(rand_r(&seed) % 40000 + 500) *
		    1000);
		if (waitpid(pid, &st, WNOHANG) == pid)
			return WIFEXITED(st) ? WEXITSTATUS(st) : 1000;
		if (out->servers + out->movers >= kills)
			continue;
		if (which) {
			depot_unserve(s, SIGKILL);
			out->servers++;
			if (depot_serve(far, address, how, s))
				return 1001;
		} else {
			kill(pid, SIGKILL);
			scratch_wait(pid);
			out->movers++;
			pid = mover(here, address);
		}
	}
	kill(pid, SIGKILL);
	scratch_wait(pid);
	return 1002;
}

static int
has_shm(const struct depot *d)
{
	char path[80] = "/dev/shm/epd-";

	epd_hex_format(path + strlen(path), d->s->uuid, 16);
	return access(path, F_OK) == 0;
}

/* What a store has when all who used it are gone. */
static int
is_tidy(struct depot *d, const char *workflow, uint32_t runs)
{
	const struct epd_swept s = depot_sweep(d), again = depot_sweep(d);
	const int left = depot_temporaries(d->dir), faults = depot_check(d);
	const int have = depot_runs(d, workflow);

	printf("# %s: %llu runs and %llu temporaries that nobody named were "
	    "swept\n", workflow, (unsigned long long)s.runs,
	    (unsigned long long)s.temporaries);
	if (left || faults || again.runs || again.temporaries ||
	    have != (int)runs || has_shm(d))
		printf("# %d temporaries, %d faults, %d runs, not %u\n", left,
		    faults, have, runs);
	return !left && !faults && !again.runs && !again.temporaries &&
	    have == (int)runs && !has_shm(d);
}

static void
there_and_back(const char *scheme)
{
	const uint64_t from = epd_clock_boot_ns();
	const struct work k = work();
	struct depot_serving how = { .bytes = 64 << 20, .slots = 32,
	    .trust = 1 };
	struct deaths dead = { 0, 0 };
	struct depot_health was, now;
	struct depot here, far;
	struct depot_server s;
	char at[300];
	int fds = scratch_have("fd"), rc;

	depot_begin(&far);
	depot_begin(&here);
	fill(&here, &far);
	depot_close(&far);
	depot_close(&here);
	snprintf(at, sizeof at, !strcmp(scheme, "tcp") ? "tcp://127.0.0.1:0" :
	    "unix://%s/serve", far.path);
	CHECK_INT(depot_serve(&far, at, &how, &s), 0);
	rc = kill_and_go_on(&here, &far, &s, &how, &dead);
	CHECK_INT(rc, 0);
	/* Of the last server nothing is held, by whomever it was left. */
	was = depot_health(&s);
	CHECK_INT(depot_unserve(&s, 0), 0);
	CHECK_INT(depot_serve(&far, s.address, &how, &s), 0);
	now = depot_health(&s);
	was.credits = now.credits;
	CHECK_INT(scratch_wait(mover(&here, s.address)), 0);
	CHECK(depot_settles(&s, &now, &was));
	CHECK_INT(was.n.moves, 0);	/* all was there */
	CHECK_INT(depot_unserve(&s, 0), 0);
	depot_open(&here);
	depot_open(&far);
	CHECK_INT(lacking(&here, "came", EPD_OP_READ), 0);
	CHECK_INT(lacking(&far, "sent", EPD_OP_WRITE), 0);
	CHECK(is_tidy(&here, "came", (uint32_t)k.groups));
	CHECK(is_tidy(&far, "sent", (uint32_t)k.groups));
	CHECK_INT(lacking(&here, "came", EPD_OP_READ), 0);
	CHECK_INT(lacking(&far, "sent", EPD_OP_WRITE), 0);
	printf("# row 16: %s: %d features and %d pages each way, %d servers and "
	    "%d movers killed: all there, nothing left; %llu ms\n", scheme, k.features, k.groups * GROUP,
	    dead.servers, dead.movers, (unsigned long long)
	    ((epd_clock_boot_ns() - from) / MS));
	depot_end(&here);
	depot_end(&far);
	CHECK_INT(scratch_have("fd"), fds);
}

TEST(both_ways_by_tcp_while_either_is_killed)
{
	there_and_back("tcp");
}

TEST(both_ways_by_shm_while_either_is_killed)
{
	there_and_back("shm");
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	if (argc == 5 && !strcmp(argv[1], "move"))
		return move_main(argv);
	return check_main(argc, argv);
}
