/*
 * wire_kinds.c - kinds of fault that users of systems like this reported, where they
 * concern transfers (tests/README.md): between two stores, one of them behind a real
 * server unless a test needs to put itself between.
 */
#include "tests/check.h"
#include "tests/unit/depot_guest.h"
#include "tests/unit/depot_serve.h"
#include "tests/unit/loop.h"

enum { WAIT_MS = 250 };

/* ---- two stores, one that is served ---- */

struct two {
	struct depot here, far;
	struct depot_server s;
	struct depot_serving how;
	struct depot_health was;
	struct epd_node *n;
	struct epd_workflow w;		/* here: "came" */
	struct epd_transfer_policy policy;
	uint8_t uuid[16];		/* far: "sent" */
	int fds;
};

static int
reach(struct two *t, uint64_t deadline_ns)
{
	return epd_node_open(&t->n, t->here.s, t->s.address, deadline_ns,
	    depot_why(&t->here));
}

static int they_trust;			/* each other; what is not said is not */

/* State w1/s1 of either store is group 1 or 2, six pages; features 1 far, 2 here. */
static void
up(struct two *t, const char *scheme)
{
	struct epd_workflow w;
	char at[300];

	memset(t, 0, sizeof *t);
	t->fds = scratch_have("fd");
	t->how = (struct depot_serving){ .bytes = 64 << 20, .slots = 8,
	    .trust = they_trust };
	depot_begin(&t->here);
	t->here.s->config.trust_peers = they_trust;
	depot_begin(&t->far);
	group_state(&t->far, "w1", 1, 6);
	group_state(&t->here, "w1", 2, 6);
	depot_feature(&t->far, 1);
	depot_feature(&t->here, 2);
	depot_workflow(&t->here, "came", &t->w);
	depot_workflow(&t->far, "sent", &w);
	epd_shard_uuid(w.shard, t->uuid);
	epd_workflow_close(&w);
	snprintf(at, sizeof at, !strcmp(scheme, "tcp") ? "tcp://127.0.0.1:0" :
	    "unix://%s/serve", t->far.path);
	if (depot_serve(&t->far, at, &t->how, &t->s))
		depot_die("server", "none");
	t->was = depot_health(&t->s);
	epd_transfer_policy_default(&t->policy, &t->here.config);
	if (reach(t, in_ms(5000)) < 0)
		depot_die("node", t->here.why.text);
}

static int
down(struct two *t)
{
	struct depot_health now;
	int good;

	epd_node_close(t->n);
	good = !t->s.pid || depot_settles(&t->s, &t->was, &now);
	depot_unserve(&t->s, 0);
	epd_workflow_close(&t->w);
	good = good && !depot_temporaries(t->here.dir) &&
	    !depot_temporaries(t->far.dir);
	if (depot_check(&t->here) || depot_check(&t->far))
		good = 0;
	depot_end(&t->here);
	depot_end(&t->far);
	if (scratch_have("fd") != t->fds)
		printf("# %d files, not %d\n", scratch_have("fd"), t->fds);
	return good && scratch_have("fd") == t->fds;
}

struct moved {
	struct epd_transferred out;
	uint64_t *run;
	uint32_t nruns;
	struct epd_pages_ask a;
};

static void
moved_free(struct moved *m)
{
	epd_free(m->run);
	epd_free(m->a.page);
	*m = (struct moved){ .nruns = 0 };
}

/* Group 1 from there, of its state. */
static int
fetch(struct two *t, struct moved *m, uint64_t deadline_ns)
{
	const struct group x = group(1, 6, NULL);

	*m = (struct moved){ .nruns = 0 };
	group_ask(&x, &m->a);
	memcpy(m->a.workflow, "w1", 3);
	m->a.state = 1;
	return epd_pages_fetch(t->n, &t->w, &m->a, &t->policy, deadline_ns,
	    &m->run, &m->nruns, &m->out, depot_why(&t->here));
}

/* Group 2 from here. */
static int
give(struct two *t, struct moved *m, uint64_t deadline_ns)
{
	const struct epd_pages_ask of = { .workflow = "w1", .state = 1 };
	const struct group x = group(2, 6, NULL);

	*m = (struct moved){ .nruns = 0 };
	group_ask(&x, &m->a);
	memcpy(m->a.workflow, "sent", 5);
	memcpy(m->a.uuid, t->uuid, 16);
	return epd_pages_send(t->n, &of, &m->a, &t->policy, deadline_ns,
	    &m->run, &m->nruns, &m->out, depot_why(&t->here));
}

static int
feature_move(struct two *t, enum epd_op op, struct epd_transferred *out,
    uint64_t deadline_ns)
{
	const struct epd_feature f = numbered(op == EPD_OP_READ ? 1 : 2);

	return epd_feature_move(t->n, op, &f.fp, &t->policy, deadline_ns, out,
	    depot_why(&t->here));
}

/* It is stopped when this returns. */
static void
stop(struct two *t)
{
	int st;

	kill(t->s.pid, SIGSTOP);
	if (waitpid(t->s.pid, &st, WUNTRACED) != t->s.pid || !WIFSTOPPED(st))
		depot_die("server", "does not stop");
}

/* Another in the place of one that was killed. */
static void
succeed(struct two *t)
{
	char address[256];

	memcpy(address, t->s.address, sizeof address);
	depot_unserve(&t->s, SIGKILL);
	if (depot_serve(&t->far, address, &t->how, &t->s))
		depot_die("successor", "none");
	t->was = depot_health(&t->s);
}

/* ---- 9: mirrors that drift ---- */

/* What was told is there, and went: a typed miss, and it heals; whatever the order. */
TEST(kind09_what_was_told_is_gone)
{
	const struct group x = group(1, 3, NULL);
	unsigned seed = 5;
	struct manor m;
	struct guest g;

	manor_begin(&m);
	guest_begin(&g, &m, 0);
	for (int round = 0; round < 24; round++) {
		uint32_t order[3] = { 0, 1, 2 };
		const int gone = round % 2;
		struct epd_pages_ask a;
		struct epd_buf q = {0};
		struct epd_cur c;

		for (int i = 2; i > 0; i--) {
			const int k = rand_r(&seed) % (i + 1);
			const uint32_t was = order[i];

			order[i] = order[k];
			order[k] = was;
		}
		if (gone)
			CHECK_INT(epd_memory_remove(m.d.s->memory, "w1"), 0);
		group_ask(&x, &a);
		for (uint32_t i = 0; i < 3; i++)
			a.page[i].entry.name = x.page[order[i]].name;
		epd_pages_ask_pack(&q, &a);
		epd_pages_ask_free(&a);
		CHECK_INT(guest_ask(&g, EPD_ASK_READ_PAGES, epd_span(q.p,
		    q.n)), 0);
		epd_buf_free(&q);
		c = epd_cur(epd_span(g.answer.p, g.answer.n));
		CHECK_INT(epd_pages_ask_unpack(&c, &a), 0);
		for (uint32_t i = 0; i < 3; i++) {
			static uint64_t want[DEPOT_PAGE / 8];

			CHECK_INT(a.page[i].there, !gone);
			if (gone)
				continue;
			group_bytes(want, 1, order[i]);
			CHECK(!memcmp(g.opened.extent[i].p, want, DEPOT_PAGE));
		}
		CHECK((a.window != 0) == !gone);
		epd_pages_ask_free(&a);
		if (gone) {
			struct epd_workflow w;
			const struct group y = group(1, 3, NULL);

			/* Made again it is had again. */
			depot_workflow(&m.d, "w1", &w);
			group_run(&m.d, &w, 1, &y);
			epd_workflow_close(&w);
		} else {
			guest_gone(&g, g.opened.id);
		}
	}
	guest_end(&g);
	CHECK(manor_is_even(&m));
	manor_end(&m);
}

/* The peer has half of what it was asked for: the rest is told missing. */
TEST(kind09_half_of_it_is_there)
{
	struct moved got;
	struct two t;

	up(&t, "tcp");
	{
		/* Four pages that no store has, behind six that one has. */
		const struct group x = group(1, 6, NULL), y = group(77, 4, NULL);
		struct epd_pages_ask a;

		group_ask(&x, &a);
		a.page = epd_realloc(a.page, 10 * sizeof *a.page);
		for (uint32_t i = 0; i < 4; i++)
			a.page[6 + i] = (struct epd_page_ask){ .entry = {
			    y.page[i].name, DEPOT_T, y.page[i].sum } };
		a.n = 10;
		got = (struct moved){ .a = a };
		CHECK_INT(epd_pages_fetch(t.n, &t.w, &got.a, &t.policy,
		    in_ms(5000), &got.run, &got.nruns, &got.out,
		    depot_why(&t.here)), 0);
	}
	CHECK_INT(got.out.wanted, 10);
	CHECK_INT(got.out.moved, 6);
	CHECK_INT(got.out.missing, 4);
	for (uint32_t i = 0; i < got.nruns; i++)
		epd_run_free(t.w.runs, got.run[i]);
	moved_free(&got);
	CHECK(down(&t));
}

/* ---- 13: what a dead peer began ---- */

TEST(kind13_a_peer_killed_mid_window)
{
	struct epd_transfer_policy policy;
	struct depot_health now;
	struct two t;

	up(&t, "tcp");
	policy = t.policy;
	for (int i = 0; i < 6; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			/* All that a peer may hold, and then it is gone. */
			struct epd_pages_ask a;
			struct epd_buf q = {0}, answer = {0};
			const struct group x = group(i % 2 ? 2 : 1, 6, NULL);
			struct epd_node *n;

			if (epd_node_open(&n, t.here.s, t.s.address, in_ms(5000),
			    NULL) < 0)
				_exit(1);
			group_ask(&x, &a);
			memcpy(a.workflow, i % 2 ? "sent" : "w1", i % 2 ? 5 : 3);
			memcpy(a.uuid, t.uuid, 16);
			a.state = 1;
			for (uint32_t k = 0; k < 6; k++)
				a.page[k].there = 1;
			for (uint32_t k = 0; k < 6; k++)
				a.page[k].bytes = DEPOT_PAGE;
			epd_pages_ask_pack(&q, &a);
			if (epd_node_ask(n, i % 2 ? EPD_ASK_WRITE_PAGES :
			    EPD_ASK_READ_PAGES, epd_span(q.p, q.n), &answer,
			    in_ms(5000), NULL) < 0)
				_exit(2);
			kill(getpid(), SIGKILL);
		}
		CHECK_INT(scratch_wait(pid), -SIGKILL);
	}
	(void)policy;
	epd_node_close(t.n);
	t.n = NULL;
	CHECK(depot_settles(&t.s, &t.was, &now));
	/* The state that it read is held by no lease: it can be released. */
	{
		struct epd_lease l = { .id = 0 };
		struct epd_workflow w;

		depot_workflow(&t.far, "w1", &w);
		CHECK_INT(epd_shard_lease_next(w.shard, 0, &l), -ENOENT);
		epd_workflow_close(&w);
	}
	CHECK_INT(depot_sweep(&t.far).runs, 0);
	CHECK(down(&t));
}

/* A server that is killed holds nothing for longer than its lease says. */
TEST(kind13_a_server_killed_that_had_a_lease)
{
	const struct epd_ref ref = { .kind = EPD_REF_STATE, .workflow = "w1",
	    .state = 1 };
	const struct group x = group(1, 6, NULL);
	struct epd_buf q = {0}, answer = {0};
	struct epd_workflow w;
	struct epd_lease l = { .id = 0 };
	struct epd_pages_ask a;
	struct two t;

	up(&t, "tcp");
	group_ask(&x, &a);
	memcpy(a.workflow, "w1", 3);
	a.state = 1;
	epd_pages_ask_pack(&q, &a);
	epd_pages_ask_free(&a);
	CHECK_INT(epd_node_ask(t.n, EPD_ASK_READ_PAGES, epd_span(q.p, q.n),
	    &answer, in_ms(5000), NULL), 0);
	depot_workflow(&t.far, "w1", &w);
	CHECK_INT(epd_shard_lease_next(w.shard, 0, &l), 0);
	CHECK(epd_shard_lease_stands(w.shard, &l));
	depot_unserve(&t.s, SIGKILL);
	CHECK(!epd_shard_lease_stands(w.shard, &l));
	epd_workflow_close(&w);
	CHECK_INT(epd_flow_release(t.far.s, &ref, "test", depot_why(&t.far)), 0);
	depot_sweep(&t.far);
	CHECK_INT(depot_runs(&t.far, "w1"), 0);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	CHECK(down(&t));
}

/* ---- 14: late ---- */

/* What comes after the end: a keep, a write, a ready of what went with its guest. */
TEST(kind14_late_words_change_nothing)
{
	const struct group x = group(2, 6, NULL);
	struct moved gone;
	uint8_t page[DEPOT_PAGE];
	struct epd_link *l;
	struct epd_buf q = {0}, answer = {0};
	struct epd_piece p;
	struct epd_piece_done d;
	uint64_t id;
	struct epd_pages_ask a;
	struct epd_cur c;
	struct two t;

	up(&t, "tcp");
	CHECK_INT(epd_node_link(t.n, EPD_VIA_TCP, &l, in_ms(5000), NULL), 0);
	group_ask(&x, &a);
	memcpy(a.workflow, "sent", 5);
	memcpy(a.uuid, t.uuid, 16);
	for (uint32_t k = 0; k < 6; k++) {
		a.page[k].there = 1;
		a.page[k].bytes = DEPOT_PAGE;
	}
	epd_pages_ask_pack(&q, &a);
	epd_pages_ask_free(&a);
	CHECK_INT(epd_link_ops(l)->call(l, EPD_ASK_WRITE_PAGES, epd_span(q.p,
	    q.n), &answer, in_ms(5000), NULL), 0);
	c = epd_cur(epd_span(answer.p, answer.n));
	id = epd_unpack_u64(&c);
	for (uint32_t k = 0; k < 6; k++) {
		group_bytes(page, 2, k);
		p = (struct epd_piece){ k, EPD_OP_WRITE, id, k * DEPOT_PAGE,
		    DEPOT_PAGE, page, 0 };
		CHECK_INT(epd_link_ops(l)->submit(l, &p, NULL), 0);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, in_ms(5000), NULL),
		    1);
		CHECK_INT(d.rc, 0);
	}
	q.n = answer.n = 0;
	epd_pack_u64(&q, id);
	CHECK_INT(epd_link_ops(l)->call(l, EPD_ASK_KEEP_PAGES, epd_span(q.p,
	    q.n), &answer, in_ms(5000), NULL), 0);
	/* Kept, it is written no more; nor is the server the worse for it. */
	for (int i = 0; i < 2; i++) {
		p = (struct epd_piece){ 9, i ? EPD_OP_READ : EPD_OP_WRITE, id,
		    0, DEPOT_PAGE, page, 0 };
		memset(page, 0x5a, sizeof page);
		if (epd_link_ops(l)->submit(l, &p, NULL) == 0 &&
		    epd_link_ops(l)->wait(l, &d, 1, in_ms(5000), NULL) == 1)
			CHECK(d.rc < 0);
	}
	CHECK(kill(t.s.pid, 0) == 0 && depot_health(&t.s).fds > 0);
	epd_node_close(t.n);
	CHECK_INT(reach(&t, in_ms(5000)), 0);
	/* By another guest it can neither be kept nor named. */
	answer.n = 0;
	CHECK_INT(epd_node_ask(t.n, EPD_ASK_KEEP_PAGES, epd_span(q.p, q.n),
	    &answer, in_ms(5000), NULL), EPD_EFORMAT);
	CHECK_INT(give(&t, &gone, in_ms(5000)), 0);
	CHECK_INT(gone.nruns, 1);
	moved_free(&gone);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	epd_node_close(t.n);
	t.n = NULL;
	CHECK(depot_settles(&t.s, &t.was, &(struct depot_health){ .fds = 0 }));
	CHECK_INT(depot_runs(&t.far, "sent"), 0);
	CHECK(down(&t));
}

/* ---- 15: what is read goes ---- */

TEST(kind15_evicted_while_it_is_read)
{
	const struct epd_ref ref = { .kind = EPD_REF_STATE, .workflow = "w1",
	    .state = 1 };
	const struct group x = group(1, 3, NULL);
	static uint64_t want[DEPOT_PAGE / 8];
	struct epd_buf q = {0};
	struct epd_pages_ask a;
	struct manor m;
	struct guest g;

	manor_begin(&m);
	guest_begin(&g, &m, 0);
	group_ask(&x, &a);
	epd_pages_ask_pack(&q, &a);
	epd_pages_ask_free(&a);
	CHECK_INT(guest_ask(&g, EPD_ASK_READ_PAGES, epd_span(q.p, q.n)), 0);
	CHECK_INT(g.opened.n, 3);
	CHECK_INT(epd_flow_release(m.d.s, &ref, "test", depot_why(&m.d)), 0);
	depot_sweep(&m.d);
	CHECK_INT(epd_memory_remove(m.d.s->memory, "w1"), 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct epd_extent *e = g.opened.extent + i;
		static uint64_t got[DEPOT_PAGE / 8];

		group_bytes(want, 1, i);
		CHECK(!memcmp(e->p, want, DEPOT_PAGE));
		CHECK(epd_file_pread(e->fd, got, DEPOT_PAGE, e->at) ==
		    DEPOT_PAGE);
		CHECK(!memcmp(got, want, DEPOT_PAGE));
	}
	guest_end(&g);
	epd_buf_free(&q);
	manor_end(&m);
}

/* ---- 17, 20: what is not what it is said to be ---- */

/* Between the two: what answers and moves become on their way. */
struct between {
	struct manor m;			/* there */
	struct depot here;
	struct loop loop;
	struct epd_transports all;
	const struct epd_transport *table[1];
	struct epd_node *n;
	struct epd_workflow w;
	struct epd_transfer_policy policy;
};

static void
stand(struct between *b)
{
	struct epd_store_options o;

	memset(b, 0, sizeof *b);
	manor_begin(&b->m);
	depot_begin(&b->here);
	depot_close(&b->here);
	loop_init(&b->loop, EPD_VIA_TCP, &b->m.host);
	b->table[0] = &b->loop.ops;
	b->all = (struct epd_transports){ b->table, 1 };
	o = depot_options(&b->here);
	o.transports = &b->all;
	if (epd_store_open(&b->here.s, &o, depot_why(&b->here)) < 0 ||
	    epd_node_open(&b->n, b->here.s, "tcp://loop:1", in_ms(5000),
	    &b->here.why) < 0)
		depot_die("between", b->here.why.text);
	depot_workflow(&b->here, "came", &b->w);
	epd_transfer_policy_default(&b->policy, &b->here.config);
	b->policy.timeout_ms = 2000;
}

static int
step_away(struct between *b)
{
	int good;

	epd_node_close(b->n);
	epd_workflow_close(&b->w);
	good = !b->loop.links && !b->loop.windows && manor_is_even(&b->m) &&
	    !depot_temporaries(b->here.dir) && !depot_runs(&b->here, "came");
	depot_end(&b->here);
	manor_end(&b->m);
	return good;
}

static int
fetch_between(struct between *b, struct moved *m)
{
	const struct group x = group(1, 3, NULL);

	*m = (struct moved){ .nruns = 0 };
	group_ask(&x, &m->a);
	memcpy(m->a.workflow, "w1", 3);
	m->a.state = 1;
	return epd_pages_fetch(b->n, &b->w, &m->a, &b->policy, in_ms(600),
	    &m->run, &m->nruns, &m->out, depot_why(&b->here));
}

enum lie { OTHER_BYTES, OTHER_SUM, OTHER_NAME, OTHER_BOTH, FEWER, MORE, NO_SHAPE,
	MANY, LIES };
static enum lie lie;

/* A peer that answers with another page's bytes, in as many ways as there are. */
static int
answer_otherwise(struct loop *l, struct epd_guest *g, uint16_t verb,
    struct epd_span ask, struct epd_buf *answer, struct epd_opened *opened,
    struct epd_why *why)
{
	const int rc = l->host->call(g, verb, ask, answer, opened, why);
	struct epd_pages_ask a;
	struct epd_cur c;

	if (rc < 0 || verb != EPD_ASK_READ_PAGES)
		return rc;
	c = epd_cur(epd_span(answer->p, answer->n));
	if (epd_pages_ask_unpack(&c, &a) < 0)
		return EPD_EFORMAT;
	switch (lie) {
	case OTHER_SUM:
		a.page[1].packed_sum = ++a.page[1].entry.sum;
		break;
	case OTHER_NAME: a.page[1].entry.name = a.page[0].entry.name; break;
	case OTHER_BOTH:
		/* Page 0 under the name of page 1, all of it in order. */
		a.page[1].entry.sum = a.page[0].entry.sum;
		a.page[1].packed_sum = a.page[0].packed_sum;
		break;
	case FEWER: a.n--; break;
	case MORE:
		a.page = epd_realloc(a.page, (a.n + 1) * sizeof *a.page);
		a.page[a.n] = a.page[0];
		a.n++;
		break;
	case NO_SHAPE: a.shape.bytes = 0; break;
	case MANY: a.shape.bytes = UINT64_C(1) << 62; break;
	default: break;
	}
	answer->n = 0;
	epd_pages_ask_pack(answer, &a);
	epd_pages_ask_free(&a);
	return 0;
}

/* Whatever is asked for, page 0's bytes. */
static int
move_otherwise(struct loop *l, const struct epd_piece *p)
{
	(void)l;
	group_bytes(p->local, 1, 0);
	return 0;
}

TEST(kind17_another_pages_bytes_under_a_name)
{
	struct between b;

	stand(&b);
	b.loop.call = answer_otherwise;
	for (lie = OTHER_BYTES; lie < LIES; lie++) {
		struct moved m;
		int rc;

		b.loop.move = lie == OTHER_BYTES || lie == OTHER_BOTH ?
		    move_otherwise : NULL;
		rc = fetch_between(&b, &m);
		/* Refused, or told missing, to be computed: not one is had. */
		if (rc == 0) {
			CHECK_INT(m.out.moved + m.out.mapped, 0);
			CHECK_INT(m.nruns, 0);
			CHECK_INT(m.out.missing, 3);
		}
		CHECK_INT(depot_runs(&b.here, "came"), 0);
		CHECK_INT(b.loop.windows, 0);
		moved_free(&m);
	}
	/* And what is as it should be comes. */
	{
		struct moved m;

		b.loop.call = NULL;
		b.loop.move = NULL;
		CHECK_INT(fetch_between(&b, &m), 0);
		CHECK_INT(m.out.moved, 3);
		CHECK_INT(m.nruns, 1);
		epd_run_free(b.w.runs, m.run[0]);
		moved_free(&m);
	}
	CHECK(step_away(&b));
}

/* A file that cannot be read, or is damaged, is not counted as come. */
TEST(kind20_what_the_peer_cannot_read_is_missing)
{
	struct epd_run_shape shape;
	struct between b;
	struct epd_run *r;
	char name[EPD_RUN_NAME];
	struct moved m;
	int dir, fd;

	stand(&b);
	dir = epd_memory_find(b.m.d.s->memory, "w1");
	CHECK(dir >= 0);
	CHECK_INT(epd_run_table(&r, dir, b.m.run, &shape, NULL), 0);
	epd_run_close(r);
	epd_run_format(name, b.m.run);
	CHECK(!fchmodat(dir, name, 0600, 0));
	CHECK((fd = openat(dir, name, O_RDWR | O_CLOEXEC)) >= 0);
	/* A byte of page 1. */
	{
		struct stat st;

		CHECK(!fstat(fd, &st));
		CHECK(pwrite(fd, "\x55\xaa", 2, 4096 + DEPOT_PAGE + 17) == 2);
	}
	CHECK(!fchmodat(dir, name, 0400, 0));
	close(fd);
	close(dir);
	CHECK_INT(fetch_between(&b, &m), 0);
	CHECK_INT(m.out.moved, 2);
	CHECK_INT(m.out.missing, 1);
	CHECK_INT(m.nruns, 1);
	epd_run_free(b.w.runs, m.run[0]);
	moved_free(&m);
	CHECK_INT(depot_runs(&b.here, "came"), 0);
	CHECK(step_away(&b));
}

/* ---- 21: success with nothing moved ---- */

TEST(kind21_the_counts_tell)
{
	struct epd_transferred f;
	struct moved m;
	struct two t;

	they_trust = 1;
	up(&t, "tcp");
	they_trust = 0;
	for (int i = 0; i < 2; i++) {
		CHECK_INT(feature_move(&t, EPD_OP_READ, &f, in_ms(5000)), 0);
		CHECK_INT(f.moved, i == 0);
		CHECK_INT(f.had, i == 1);
		CHECK((f.bytes > 0) == (i == 0));
		CHECK_INT(feature_move(&t, EPD_OP_WRITE, &f, in_ms(5000)), 0);
		CHECK_INT(f.moved, i == 0);
		CHECK_INT(f.had, i == 1);
	}
	CHECK(depot_has_feature(&t.here, 1));
	CHECK(depot_has_feature(&t.far, 2));
	CHECK_INT(fetch(&t, &m, in_ms(5000)), 0);
	CHECK_INT(m.out.moved, 6);
	CHECK_INT(m.out.bytes, 6 * DEPOT_PAGE);
	CHECK_INT(m.out.missing + m.out.mapped + m.out.had, 0);
	for (uint32_t i = 0; i < m.nruns; i++)
		epd_run_free(t.w.runs, m.run[i]);
	moved_free(&m);
	CHECK_INT(give(&t, &m, in_ms(5000)), 0);
	CHECK_INT(m.out.moved, 6);
	CHECK_INT(m.out.bytes, 6 * DEPOT_PAGE);
	moved_free(&m);
	CHECK(down(&t));
	/* By shm nothing is copied, and that is told too. */
	up(&t, "shm");
	CHECK_INT(fetch(&t, &m, in_ms(5000)), 0);
	CHECK_INT(m.out.mapped, 6);
	CHECK_INT(m.out.moved + m.out.bytes, 0);
	for (uint32_t i = 0; i < m.nruns; i++)
		epd_run_free(t.w.runs, m.run[i]);
	moved_free(&m);
	CHECK_INT(give(&t, &m, in_ms(5000)), 0);
	CHECK_INT(m.out.mapped, 6);
	CHECK_INT(m.out.moved + m.out.bytes, 0);
	moved_free(&m);
	CHECK(down(&t));
}

/* ---- 22: half of a commit ---- */

/* Who died between the picture and the rest left a picture; the rest comes all the same. */
TEST(kind22_a_picture_alone_is_not_the_feature)
{
	char path[EPD_FEATURE_PATH];
	struct epd_transferred f;
	struct two t;

	they_trust = 1;
	up(&t, "tcp");
	they_trust = 0;
	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		struct depot *to = op == EPD_OP_READ ? &t.here : &t.far;
		struct depot *from = op == EPD_OP_READ ? &t.far : &t.here;
		const int i = op == EPD_OP_READ ? 1 : 2;
		const struct epd_name fp = numbered(i).fp;

		depot_feature(to, i);
		for (int bit = EPD_HAS_META; bit <= EPD_HAS_BLOB; bit <<= 1) {
			epd_feature_path(path, &fp, bit);
			CHECK(!unlinkat(to->s->features->dirfd, path, 0));
		}
		CHECK_INT(epd_feature_is_there(to->s->features, &fp), 1);
		CHECK_INT(feature_move(&t, (enum epd_op)op, &f, in_ms(5000)), 0);
		CHECK_INT(f.moved, 1);
		CHECK(depot_has_feature(to, i));
		/* Where nobody has more, there is no more to be had. */
		CHECK_INT(epd_feature_evict(from->s->features, &fp), 0);
		CHECK_INT(epd_feature_evict(to->s->features, &fp), 0);
		CHECK_INT(feature_move(&t, (enum epd_op)op, &f, in_ms(5000)), 0);
		CHECK_INT(f.had, 1);
		CHECK_INT(f.moved, 0);
		CHECK_INT(epd_feature_remove(from->s->features, &fp), 0);
		CHECK_INT(feature_move(&t, (enum epd_op)op, &f, in_ms(5000)), 0);
		CHECK_INT(f.had, 1);
	}
	CHECK(down(&t));
}

/* ---- 17: what another one says is the feature ---- */

/* Rows that nothing shows to be the encoder's are not kept; the picture, which is, is. */
TEST(kind17_rows_of_who_is_not_trusted)
{
	uint64_t moved[2][2];
	struct epd_transferred f;
	struct two t;

	for (int trust = 0; trust < 2; trust++)
		for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
			struct depot *to;
			const int i = op == EPD_OP_READ ? 1 : 2;
			const struct epd_name fp = numbered(i).fp;
			uint64_t calls;

			they_trust = trust;
			up(&t, "tcp");
			they_trust = 0;
			to = op == EPD_OP_READ ? &t.here : &t.far;
			calls = depot_health(&t.s).n.calls;
			CHECK_INT(feature_move(&t, (enum epd_op)op, &f,
			    in_ms(5000)), 0);
			CHECK_INT(f.moved, 1);
			moved[trust][op - EPD_OP_READ] = f.bytes;
			/* One question tells its sums and is read from. */
			if (op == EPD_OP_READ)
				CHECK_INT(depot_health(&t.s).n.calls, calls + 1);
			CHECK_INT(epd_feature_is_there(to->s->features, &fp),
			    1 + trust);
			CHECK_INT(depot_has_feature(to, i), trust);
			CHECK_INT(feature_move(&t, (enum epd_op)op, &f,
			    in_ms(5000)), 0);
			CHECK_INT(f.had, 1);
			CHECK_INT(f.bytes, 0);
			CHECK(down(&t));
		}
	/* Nor do they go where they would not be kept. */
	for (int op = 0; op < 2; op++)
		CHECK(moved[1][op] >= moved[0][op] + sizeof rows);
}

/* They come all the same, whatever they were told; and without a picture nothing does. */
TEST(kind17_rows_that_nobody_asked_for)
{
	struct epd_feature_files files;
	struct epd_span part[EPD_PARTS];
	struct depot from, to;
	struct epd_name fp;
	struct epd_why why;
	uint8_t *own[EPD_PARTS];

	depot_begin(&from);
	depot_begin(&to);
	fp = depot_feature(&from, 7);
	CHECK_INT(epd_feature_open_parts(from.s->features, &fp, &files), 0);
	for (int i = 0; i < EPD_PARTS; i++) {
		own[i] = malloc(files.bytes[i]);
		CHECK(pread(files.fd[i], own[i], files.bytes[i], 0) ==
		    (ssize_t)files.bytes[i]);
		part[i] = epd_span(own[i], files.bytes[i]);
	}
	epd_feature_close_parts(&files);
	CHECK_INT(epd_feature_take_parts(to.s->features, &fp, part, 0, NULL), 0);
	CHECK_INT(epd_feature_is_there(to.s->features, &fp), 1);
	CHECK(!depot_has_feature(&to, 7));
	CHECK_INT(epd_feature_remove(to.s->features, &fp), 0);
	part[EPD_PART_PIX].n = 0;
	CHECK_INT(epd_feature_take_parts(to.s->features, &fp, part, 0, &why),
	    EPD_ENOTHING);
	CHECK(strstr(why.text, "not trusted") != NULL);
	CHECK_INT(epd_feature_is_there(to.s->features, &fp), 0);
	CHECK_INT(epd_feature_take_parts(to.s->features, &fp, part, 1, NULL), 0);
	CHECK_INT(epd_feature_is_there(to.s->features, &fp), 2);
	for (int i = 0; i < EPD_PARTS; i++)
		free(own[i]);
	depot_end(&from);
	depot_end(&to);
}

/* ---- 24: a probe ---- */

static struct timespec
used_at(struct manor *m)
{
	const int dir = epd_memory_find(m->d.s->memory, "w1");
	char name[EPD_RUN_NAME];
	struct stat st = { .st_size = 0 };

	epd_run_format(name, m->run);
	fstatat(dir, name, &st, 0);
	close(dir);
	return st.st_atim.tv_sec > st.st_mtim.tv_sec ||
	    (st.st_atim.tv_sec == st.st_mtim.tv_sec &&
	    st.st_atim.tv_nsec > st.st_mtim.tv_nsec) ? st.st_atim : st.st_mtim;
}

TEST(kind24_a_probe_takes_no_lease_and_renews_nothing)
{
	const struct group x = group(1, 3, NULL);
	const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	char name[EPD_RUN_NAME];
	struct epd_buf q = {0};
	struct epd_pages_ask a;
	struct manor m;
	struct guest g;
	uint64_t was;
	int dir;

	manor_begin(&m);
	guest_begin(&g, &m, 0);
	dir = epd_memory_find(m.d.s->memory, "w1");
	epd_run_format(name, m.run);
	CHECK(!utimensat(dir, name, old, 0));
	close(dir);
	was = manor_print(&m);
	group_ask(&x, &a);
	epd_ask_pages_pack(&q, a.page, a.n);
	epd_pages_ask_free(&a);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(guest_ask(&g, EPD_ASK_HAVE, epd_span(q.p, q.n)), 0);
		CHECK_INT(g.answer.n, 3);
		for (int k = 0; k < 3; k++)
			CHECK_INT(((uint8_t *)g.answer.p)[k], 1);
		CHECK_INT(used_at(&m).tv_sec, 1000);
	}
	/* Nor is anything written: no lease in the log, no window. */
	CHECK(manor_print(&m) == was);
	CHECK_INT(manor_leases(&m), 0);
	CHECK_INT(g.nwindows, 0);
	guest_end(&g);
	epd_buf_free(&q);
	CHECK(manor_is_even(&m));
	manor_end(&m);
}

/* ---- 29: many that fail ---- */

TEST(kind29_transfers_that_fail_leave_nothing)
{
	enum { MANY_TIMES = 120 };
	struct depot_health now;
	struct two t;

	up(&t, "tcp");
	for (int i = 0; i < MANY_TIMES; i++) {
		struct epd_transferred f;
		struct moved m;
		int rc;

		/* A deadline that is over, a state that is not, a workflow. */
		switch (i % 4) {
		case 0:
			rc = fetch(&t, &m, epd_clock_boot_ns());
			moved_free(&m);
			break;
		case 1:
			rc = give(&t, &m, epd_clock_boot_ns() + 20000);
			moved_free(&m);
			break;
		case 2: {
			uint8_t was[16];

			memcpy(was, t.uuid, 16);
			t.uuid[0] ^= 1;
			rc = give(&t, &m, in_ms(3000));
			memcpy(t.uuid, was, 16);
			moved_free(&m);
			CHECK_INT(rc, EPD_ENOTHING);
			break;
		}
		default: {
			const struct epd_name fp = numbered(4000 + i).fp;

			rc = epd_feature_move(t.n, EPD_OP_READ, &fp, &t.policy,
			    in_ms(3000), &f, depot_why(&t.here));
			CHECK_INT(rc, EPD_ENOTHING);
			break;
		}
		}
		CHECK(rc < 0);
	}
	CHECK_INT(depot_runs(&t.here, "came"), 0);
	now = depot_health(&t.s);
	CHECK_INT(now.n.windows, 0);
	CHECK_INT(now.credits.slots, t.was.credits.slots);
	CHECK_INT(now.credits.bytes, t.was.credits.bytes);
	CHECK(now.fds < t.was.fds + 30);
	printf("# %d transfers failed, %llu windows open\n", MANY_TIMES,
	    (unsigned long long)now.n.windows);
	CHECK(down(&t));
}

/* ---- 30: a peer that says nothing ---- */

/* Till when it may take what should have taken WAIT_MS. */
#define IN_TIME(from) CHECK(epd_clock_boot_ns() - (from) < (WAIT_MS + 1500) * MS)

TEST(kind30_a_server_that_is_stopped)
{
	struct epd_transferred f;
	struct moved m;
	uint64_t from;
	struct two t;

	for (int k = 0; k < 2; k++) {
		up(&t, k ? "shm" : "tcp");
		t.policy.timeout_ms = WAIT_MS;
		stop(&t);
		/* open */
		{
			struct epd_node *n;

			from = epd_clock_boot_ns();
			CHECK_INT(epd_node_open(&n, t.here.s, t.s.address,
			    in_ms(WAIT_MS), NULL), EPD_ETIMEOUT);
			IN_TIME(from);
		}
		/* call, move and keep, of whatever asks */
		from = epd_clock_boot_ns();
		CHECK(fetch(&t, &m, in_ms(WAIT_MS)) < 0);
		moved_free(&m);
		IN_TIME(from);
		from = epd_clock_boot_ns();
		CHECK(give(&t, &m, in_ms(WAIT_MS)) < 0);
		moved_free(&m);
		IN_TIME(from);
		for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
			from = epd_clock_boot_ns();
			CHECK(feature_move(&t, (enum epd_op)op, &f,
			    in_ms(WAIT_MS)) < 0);
			IN_TIME(from);
		}
		CHECK_INT(depot_runs(&t.here, "came"), 0);
		kill(t.s.pid, SIGCONT);
		/* And it goes on where it stood. */
		t.policy.timeout_ms = 5000;
		CHECK_INT(feature_move(&t, EPD_OP_READ, &f, in_ms(5000)), 0);
		CHECK(down(&t));
	}
}

/* The same with the link open and a window too: each verb for itself. */
TEST(kind30_stopped_between_two_words)
{
	static const enum epd_ask verb[] = { EPD_ASK_NODE, EPD_ASK_KEEP_PAGES,
		EPD_ASK_READY, EPD_ASK_COMMIT, EPD_ASK_HAVE };
	struct epd_buf q = {0}, answer = {0};
	struct two t;

	up(&t, "tcp");
	epd_pack_u64(&q, 1);
	for (size_t i = 0; i < sizeof verb / sizeof *verb; i++) {
		const uint64_t from = epd_clock_boot_ns();

		stop(&t);
		CHECK_INT(epd_node_ask(t.n, verb[i], epd_span(q.p, q.n),
		    &answer, in_ms(WAIT_MS / 2), NULL), EPD_ETIMEOUT);
		IN_TIME(from);
		kill(t.s.pid, SIGCONT);
		answer.n = 0;
	}
	/* A move, on a link that has a window. */
	{
		const struct epd_name fp = numbered(1).fp;
		struct epd_piece_done d;
		struct epd_link *l;
		uint8_t bytes[64], ask[EPD_NAME + 1] = { 0 };
		struct epd_piece p = { 1, EPD_OP_READ, 0, 0, sizeof bytes,
		    bytes, 0 };
		struct epd_cur c;
		uint64_t from;

		CHECK_INT(epd_node_link(t.n, EPD_VIA_TCP, &l, in_ms(5000),
		    NULL), 0);
		memcpy(ask, fp.b, EPD_NAME);
		CHECK_INT(epd_link_ops(l)->call(l, EPD_ASK_READ_FEATURE,
		    epd_span(ask, sizeof ask), &answer, in_ms(5000), NULL), 0);
		c = epd_cur(epd_span(answer.p, answer.n));
		p.window = epd_unpack_u64(&c);
		stop(&t);
		from = epd_clock_boot_ns();
		CHECK_INT(epd_link_ops(l)->submit(l, &p, NULL), 0);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, in_ms(WAIT_MS),
		    NULL), EPD_ETIMEOUT);
		IN_TIME(from);
		kill(t.s.pid, SIGCONT);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, in_ms(5000), NULL),
		    1);
		CHECK_INT(d.rc, 0);
	}
	epd_buf_free(&q);
	epd_buf_free(&answer);
	CHECK(down(&t));
}

/* ---- what the kinds have in common ---- */

/* A link that broke while nobody used it is opened anew, whoever comes first. */
TEST(a_successor_is_gone_to)
{
	struct epd_transferred f;
	struct moved m;
	struct two t;

	for (int k = 0; k < 2; k++) {
		up(&t, k ? "shm" : "tcp");
		for (int i = 0; i < 4; i++) {
			succeed(&t);
			switch (i) {
			case 0:
				CHECK_INT(give(&t, &m, in_ms(5000)), 0);
				CHECK_INT(m.out.moved + m.out.mapped, 6);
				break;
			case 1:
				CHECK_INT(fetch(&t, &m, in_ms(5000)), 0);
				CHECK_INT(m.out.moved + m.out.mapped, 6);
				for (uint32_t r = 0; r < m.nruns; r++)
					epd_run_free(t.w.runs, m.run[r]);
				break;
			default:
				m = (struct moved){ .nruns = 0 };
				CHECK_INT(feature_move(&t, i == 2 ?
				    EPD_OP_READ : EPD_OP_WRITE, &f,
				    in_ms(5000)), 0);
				CHECK_INT(f.moved, 1);
			}
			moved_free(&m);
		}
		CHECK(down(&t));
	}
}

static void *
succeed_later(void *arg)
{
	struct two *t = arg;
	char address[256];

	memcpy(address, t->s.address, sizeof address);
	epd_clock_sleep_ns(2200 * MS);
	return depot_serve(&t->far, address, &t->how, &t->s) ? arg : NULL;
}

static void
hear(void *arg, const char *text)
{
	int *heard = arg;

	*heard += strstr(text, "tried again for") != NULL;
}

/* For longer than it takes to try a few times: what has time is done all the same. */
TEST(a_server_that_is_away_for_a_while)
{
	static const char *const mode[] = { "disabled", "enforced" };
	struct epd_transferred f;
	struct moved m;
	struct two t;
	pthread_t later;
	void *bad;

	for (int k = 0; k < 4; k++) {
		int heard = 0;

		up(&t, "tcp");
		t.here.s->listener = (struct epd_listener){ hear, &heard };
		snprintf(t.here.s->config.transfer_mode,
		    sizeof t.here.s->config.transfer_mode, "%s", mode[k % 2]);
		depot_unserve(&t.s, SIGKILL);
		CHECK(!pthread_create(&later, NULL, succeed_later, &t));
		if (k < 2) {
			CHECK_INT(give(&t, &m, in_ms(8000)), 0);
			CHECK_INT(m.out.moved, 6);
			CHECK(m.out.retries > 3 && m.out.retries < 20);
			moved_free(&m);
		} else {
			CHECK_INT(feature_move(&t, EPD_OP_WRITE, &f,
			    in_ms(8000)), 0);
			CHECK_INT(f.moved, 1);
		}
		/* Who waits hears of it, once. */
		CHECK_INT(heard, 1);
		t.here.s->listener = (struct epd_listener){ 0 };
		pthread_join(later, &bad);
		CHECK(!bad);
		CHECK(down(&t));
	}
}

/* What another guest has is waited for, and had as soon as it is given back. */
TEST(credit_is_waited_for)
{
	const struct group x = group(2, 6, NULL);
	struct epd_buf q = {0}, answer = {0};
	struct epd_pages_ask a;
	struct epd_link *l;
	struct epd_node *other;
	struct epd_cur c;
	struct moved m;
	uint64_t from, id;
	struct two t;
	pid_t pid;

	up(&t, "tcp");
	epd_node_close(t.n);
	depot_unserve(&t.s, 0);
	/* Room for one such batch, and no more. */
	t.how.bytes = 7 * DEPOT_PAGE;
	CHECK_INT(depot_serve(&t.far, "tcp://127.0.0.1:0", &t.how, &t.s), 0);
	t.was = depot_health(&t.s);
	CHECK_INT(epd_node_open(&other, t.here.s, t.s.address, in_ms(5000),
	    NULL), 0);
	group_ask(&x, &a);
	memcpy(a.workflow, "sent", 5);
	memcpy(a.uuid, t.uuid, 16);
	for (uint32_t k = 0; k < 6; k++) {
		a.page[k].there = 1;
		a.page[k].bytes = DEPOT_PAGE;
	}
	epd_pages_ask_pack(&q, &a);
	epd_pages_ask_free(&a);
	for (int late = 0; late < 2; late++) {
		/* Taken before the other one looks, or after. */
		if (late)
			CHECK_INT(reach(&t, in_ms(5000)), 0);
		CHECK_INT(epd_node_link(other, EPD_VIA_TCP, &l, in_ms(5000),
		    NULL), 0);
		CHECK_INT(epd_link_ops(l)->call(l, EPD_ASK_WRITE_PAGES,
		    epd_span(q.p, q.n), &answer, in_ms(5000), NULL), 0);
		c = epd_cur(epd_span(answer.p, answer.n));
		id = epd_unpack_u64(&c);
		answer.n = 0;
		if (!late)
			CHECK_INT(reach(&t, in_ms(5000)), 0);
		from = epd_clock_boot_ns();
		CHECK_INT(give(&t, &m, in_ms(300)), EPD_ECREDIT);
		moved_free(&m);
		IN_TIME(from);
		CHECK_INT(depot_health(&t.s).n.windows, 1);
		if ((pid = fork()) == 0) {
			/* Its socket is this one's too: shut by hand. */
			epd_clock_sleep_ns(300 * MS);
			(void)epd_link_ops(l)->shut(l, id, in_ms(5000), NULL);
			_exit(0);
		}
		from = epd_clock_boot_ns();
		CHECK_INT(give(&t, &m, in_ms(8000)), 0);
		CHECK_INT(m.out.moved, 6);
		moved_free(&m);
		from = epd_clock_boot_ns() - from;
		CHECK(from >= 200 * MS && from < 3000 * MS);
		CHECK_INT(scratch_wait(pid), 0);
		epd_node_close(other);
		CHECK_INT(epd_node_open(&other, t.here.s, t.s.address,
		    in_ms(5000), NULL), 0);
		epd_node_close(t.n);
		t.n = NULL;
	}
	epd_node_close(other);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	CHECK(down(&t));
}

/* Nobody waits for what will never be; pages go by as many as there is room for. */
TEST(what_is_never_granted_is_told_at_once)
{
	struct epd_transferred f;
	struct moved m;
	uint64_t from;
	struct two t;

	up(&t, "tcp");
	for (int k = 0; k < 3; k++) {
		epd_node_close(t.n);
		depot_unserve(&t.s, 0);
		t.how.bytes = k == 0 ? 100 : k == 1 ? DEPOT_PAGE - 1 :
		    2 * DEPOT_PAGE + 1;
		CHECK_INT(depot_serve(&t.far, "tcp://127.0.0.1:0", &t.how,
		    &t.s), 0);
		t.was = depot_health(&t.s);
		snprintf(t.here.s->config.transfer_mode,
		    sizeof t.here.s->config.transfer_mode, "%s",
		    k ? "enforced" : "disabled");
		CHECK_INT(reach(&t, in_ms(5000)), 0);
		from = epd_clock_boot_ns();
		CHECK_INT(give(&t, &m, in_ms(8000)), k == 2 ? 0 : EPD_ETOOBIG);
		if (k == 2) {
			CHECK_INT(m.out.moved, 6);
			CHECK_INT(m.out.carries, 3);
		} else {
			CHECK(strstr(t.here.why.text,
			    "never grants more than") != NULL);
		}
		CHECK(epd_clock_boot_ns() - from < 1500 * MS);
		moved_free(&m);
		if (k)
			continue;
		CHECK_INT(feature_move(&t, EPD_OP_WRITE, &f, in_ms(8000)),
		    EPD_ETOOBIG);
		CHECK(epd_clock_boot_ns() - from < 1500 * MS);
	}
	CHECK(down(&t));
}

/* A peer that says no says it by a way that is good: the way is not given up. */
TEST(a_no_is_no_fault_of_the_way)
{
	const struct epd_operational *o;
	struct moved m;
	struct two t;
	uint8_t was[16];

	up(&t, "tcp");
	snprintf(t.here.s->config.transfer_mode,
	    sizeof t.here.s->config.transfer_mode, "enforced");
	o = epd_node_operations(t.n)->of + EPD_VIA_TCP;
	memcpy(was, t.uuid, 16);
	t.uuid[2] ^= 1;
	for (int i = 0; i < 5; i++) {
		CHECK_INT(give(&t, &m, in_ms(3000)), EPD_ENOTHING);
		moved_free(&m);
	}
	CHECK(o->health != EPD_DOWN && o->health != EPD_DEGRADED);
	memcpy(t.uuid, was, 16);
	CHECK_INT(give(&t, &m, in_ms(3000)), 0);
	CHECK_INT(m.out.moved, 6);
	moved_free(&m);
	CHECK(down(&t));
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	return check_main(argc, argv);
}
