/* shard_rest.c - a state that is offloaded, restored, and waits: who may, and after whom. */
#include <sys/wait.h>

#include "base/clock.h"
#include "shard/shard_in.h"
#include "tests/unit/shard_hold.h"

enum { LONG = 600000 };	/* ms */

struct place {
	int dir, store;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint32_t id;
};

static int
place_open(struct place *p)
{
	int rc;

	p->dir = scratch_open();
	p->store = scratch_open();
	rc = epd_procs_open(&p->procs, p->store);
	if (!rc)
		rc = hold_open(&p->s, p->dir, p->procs);
	return rc ? rc : shard_create(p->s, 1, 5, &p->id);
}

static void
place_close(struct place *p)
{
	epd_shard_close(p->s);
	epd_procs_close(p->procs);
	scratch_close(p->store);
	scratch_close(p->dir);
}

static struct epd_state
state_of(struct place *p)
{
	struct epd_state st = { 0 };

	epd_shard_state(p->s, p->id, &st);
	return st;
}

static int
leases(struct epd_shard *s)
{
	struct epd_lease l = { .id = 0 };
	int n = 0;

	while (!epd_shard_lease_next(s, l.id, &l))
		n++;
	return n;
}

static int
offload(struct place *p, const char *tier, struct epd_rest *r)
{
	return epd_shard_offload(p->s, p->id, tier, LONG, "test", r, NULL);
}

static int
restore(struct place *p, struct epd_rest *r)
{
	return epd_shard_restore(p->s, p->id, LONG, "test", r, NULL);
}

TEST(out_and_back)
{
	struct epd_rest out, in;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(out.was, EPD_ACTIVE);
	CHECK_INT(state_of(&p).status, EPD_OFFLOADING);
	CHECK_STR(state_of(&p).tier, "nvme");
	CHECK_INT(leases(p.s), 1);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_INT(state_of(&p).status, EPD_OFFLOADED);
	CHECK_STR(state_of(&p).tier, "nvme");
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	/* Once more is nothing; elsewhere is by way of here. */
	CHECK_INT(offload(&p, "nvme", &out), 1);
	CHECK_INT(offload(&p, "mooncake_store", &out), 0);
	CHECK_INT(out.was, EPD_OFFLOADED);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_STR(state_of(&p).tier, "mooncake_store");
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(in.was, EPD_OFFLOADED);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(state_of(&p).status, EPD_ACTIVE);
	CHECK_STR(state_of(&p).tier, "");
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(restore(&p, &in), 1);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* The tool's result is back while the state is on its way out. */
TEST(who_resumes_calls_off_who_moves_out)
{
	struct epd_rest out, in;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(in.was, EPD_OFFLOADING);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	/* Nor does it end what the other began. */
	CHECK_INT(epd_shard_restored(p.s, p.id, out.lease, "", NULL),
	    EPD_ELEASE);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(epd_shard_drop(p.s, out.lease, "late", NULL), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(state_of(&p).status, EPD_ACTIVE);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* It was called off, the state went on, and another moves it elsewhere: his alone. */
TEST(who_was_called_off_ends_nothing_of_the_next)
{
	struct epd_rest first, second, in, out;
	uint64_t given;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	/* A transfer of its pages goes on whatever becomes of the state. */
	CHECK_INT(epd_shard_lease(p.s, p.id, 0, EPD_LEASE_TRANSFER, LONG, &given,
	    NULL), 0);
	CHECK_INT(offload(&p, "nvme", &first), 0);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(offload(&p, "mooncake_store", &second), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, first.lease, "", NULL),
	    EPD_ELEASE);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, given, "", NULL), EPD_ELEASE);
	CHECK(epd_shard_restored(p.s, p.id, first.lease, "", NULL) < 0);
	CHECK_INT(epd_shard_renew(p.s, first.lease, LONG, NULL), EPD_ELEASE);
	CHECK_INT(state_of(&p).status, EPD_OFFLOADING);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_offloaded(p.s, p.id, second.lease, "", NULL), 0);
	CHECK_STR(state_of(&p).tier, "mooncake_store");
	/* Of two that restore likewise. */
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(offload(&p, "nvme", &first), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, first.lease, "", NULL), 0);
	CHECK_INT(restore(&p, &out), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), EPD_ELEASE);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	CHECK_INT(epd_shard_restored(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_INT(epd_shard_drop(p.s, given, "given", NULL), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Whoever is told nothing says done once more. */
TEST(kind25_done_said_twice_is_done_once)
{
	struct epd_rest out, in;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(state_of(&p).status, EPD_ACTIVE);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* He was stopped past his lease, and somebody has ended what he began. */
TEST(kind27_who_was_stopped_past_his_lease_moves_nothing)
{
	struct epd_rest out, in;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_offload(p.s, p.id, "nvme", 1, "", &out, NULL), 0);
	epd_clock_sleep_ns(3000000);
	CHECK_INT(epd_shard_unfinished_end(p.s, p.id, "late", NULL), 1);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(epd_shard_renew(p.s, out.lease, LONG, NULL), EPD_ELEASE);
	CHECK_INT(state_of(&p).status, EPD_ACTIVE);
	/* The next one's move is not his either, of either way. */
	CHECK_INT(offload(&p, "nvme", &in), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ELEASE);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(epd_shard_restore(p.s, p.id, 1, "", &out, NULL), 0);
	epd_clock_sleep_ns(3000000);
	CHECK_INT(epd_shard_restore(p.s, p.id, LONG, "", &in, NULL), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, out.lease, "", NULL),
	    EPD_ELEASE);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(an_offload_that_fails_leaves_it_active)
{
	struct epd_rest out;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, out.lease, "full", NULL), 0);
	CHECK_INT(state_of(&p).status, EPD_ACTIVE);
	CHECK_STR(state_of(&p).tier, "");
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(two_that_restore_are_one)
{
	struct epd_rest out, in, other;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	/* The same move by two is one, and another one waits. */
	CHECK_INT(offload(&p, "nvme", &other), 1);
	CHECK_INT(offload(&p, "mooncake_store", &other), EPD_ELOCKED);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(restore(&p, &other), EPD_ELOCKED);
	CHECK_INT(offload(&p, "nvme", &other), EPD_ELOCKED);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	/* Who was told done by another is done. */
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	place_close(&p);
}

/* A child begins and dies; what it began is gone on with by whoever comes next. */
static void
begun_by_the_dead(struct place *p, int restoring)
{
	int st;
	pid_t pid = fork();

	if (!pid) {
		struct epd_procs *procs;
		struct epd_shard *s;
		struct epd_rest r;

		if (epd_procs_open(&procs, p->store) ||
		    hold_open(&s, p->dir, procs))
			_exit(1);
		_exit((restoring ? epd_shard_restore(s, p->id, LONG, "", &r,
		    NULL) : epd_shard_offload(s, p->id, "nvme", LONG, "", &r,
		    NULL)) ? 2 : 0);
	}
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK_INT(st, 0);
	CHECK_INT(epd_shard_catch_up(p->s, NULL), 0);
}

TEST(what_the_dead_began_is_gone_on_with)
{
	struct epd_rest out, in;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	begun_by_the_dead(&p, 0);
	CHECK_INT(state_of(&p).status, EPD_OFFLOADING);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(out.was, EPD_OFFLOADING);
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	begun_by_the_dead(&p, 1);
	CHECK_INT(state_of(&p).status, EPD_RESTORING);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(in.was, EPD_RESTORING);
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	begun_by_the_dead(&p, 0);
	CHECK_INT(restore(&p, &in), 0);
	CHECK_INT(in.was, EPD_OFFLOADING);
	CHECK_INT(epd_shard_restored(p.s, p.id, in.lease, "", NULL), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Nobody comes next: it is put right all the same, and whose it was is known. */
TEST(what_the_dead_left_is_found_and_ended)
{
	struct epd_lease left;
	struct epd_state st;
	struct epd_rest r;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_unfinished(p.s, 0, &st, &left), EPD_ENOSTATE);
	for (int restoring = 0; restoring < 2; restoring++) {
		begun_by_the_dead(&p, restoring);
		CHECK_INT(epd_shard_unfinished(p.s, 0, &st, &left), 0);
		CHECK_INT(st.id, p.id);
		CHECK_INT(left.kind, restoring ? EPD_LEASE_RESTORE :
		    EPD_LEASE_OFFLOAD);
		CHECK(left.holder.pid > 0 && left.holder.pid != getpid());
		CHECK_INT(epd_shard_unfinished_end(p.s, p.id, "dead", NULL), 1);
		CHECK_INT(state_of(&p).status, EPD_ACTIVE);
		CHECK_STR(state_of(&p).tier, "");
		CHECK_INT(leases(p.s), 0);
		CHECK(hold_same(p.s, p.dir));
		CHECK_INT(epd_shard_unfinished_end(p.s, p.id, "", NULL), 0);
		CHECK_INT(offload(&p, "nvme", &r), 0);
		/* Who lives is let be. */
		CHECK_INT(epd_shard_unfinished(p.s, 0, &st, &left),
		    EPD_ENOSTATE);
		CHECK_INT(epd_shard_unfinished_end(p.s, p.id, "", NULL), 0);
		CHECK_INT(epd_shard_offloaded(p.s, p.id, r.lease, "", NULL), 0);
	}
	/* A lease that was dropped since names nobody. */
	begun_by_the_dead(&p, 1);
	CHECK_INT(epd_shard_expire(p.s, NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_unfinished(p.s, 0, &st, &left), 0);
	CHECK_INT(left.id, 0);
	CHECK_INT(epd_shard_unfinished_end(p.s, p.id, "dead", NULL), 1);
	CHECK_INT(epd_shard_unfinished_end(p.s, 99, "dead", NULL), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(who_decodes_or_hands_over_is_let_be)
{
	struct epd_rest r;
	struct epd_handoff h = { .store = "/b", .workflow = "w2",
		.peer_state = 1, .peer_version = 1, .deadline_ms = 9000,
		.id = { 1 } };
	uint64_t lease;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, p.id, 0, EPD_LEASE_DECODE, LONG, &lease,
	    NULL), 0);
	CHECK_INT(offload(&p, "nvme", &r), EPD_ELOCKED);
	CHECK_INT(epd_shard_drop(p.s, lease, "", NULL), 0);
	h.state = p.id;
	h.version = 1;
	CHECK_INT(epd_shard_prepare(p.s, &h, NULL), 0);
	CHECK_INT(offload(&p, "nvme", &r), EPD_ESTATUS);
	CHECK_INT(restore(&p, &r), 1);
	CHECK_INT(epd_shard_wait(p.s, p.id, "x", 0, "", NULL), EPD_ESTATUS);
	place_close(&p);
}

TEST(released_while_it_moves)
{
	struct epd_rest out;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(epd_shard_release(p.s, p.id, "", NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL),
	    EPD_ENOSTATE);
	CHECK_INT(epd_shard_drop(p.s, out.lease, "", NULL), 0);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(shard_create(p.s, 2, 7, &p.id), 0);
	CHECK_INT(offload(&p, "nvme", &out), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, out.lease, "", NULL), 0);
	CHECK_INT(restore(&p, &out), 0);
	CHECK_INT(epd_shard_release(p.s, p.id, "", NULL, NULL, NULL), 0);
	CHECK_INT(epd_shard_restored(p.s, p.id, out.lease, "", NULL),
	    EPD_ENOSTATE);
	place_close(&p);
}

static void
note(void *arg)
{
	++*(int *)arg;
}

TEST(what_is_not_at_rest_is_let_be)
{
	struct epd_rest r;
	struct place p;
	int told = 0;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_at_rest(p.s, p.id, note, &told, NULL), 0);
	CHECK_INT(offload(&p, "nvme", &r), 0);
	CHECK_INT(epd_shard_at_rest(p.s, p.id, note, &told, NULL), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, r.lease, "", NULL), 0);
	CHECK_INT(epd_shard_at_rest(p.s, p.id, note, &told, NULL), 1);
	CHECK_INT(epd_shard_at_rest(p.s, 99, note, &told, NULL), 0);
	CHECK_INT(told, 1);
	place_close(&p);
}

TEST(waiting_ends_by_word_or_by_the_next_version)
{
	struct shard_made m;
	struct epd_rest r;
	uint32_t version;
	struct place p;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_wait(p.s, p.id, "", 0, "", NULL), 0);
	CHECK_INT(epd_shard_lsn(p.s), 1);
	CHECK_INT(epd_shard_wait(p.s, p.id, "search", 77, "asked", NULL), 0);
	CHECK_STR(state_of(&p).tool, "search");
	CHECK_INT(state_of(&p).wait_deadline_ms, 77);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_wait(p.s, p.id, "", 0, "", NULL), 0);
	CHECK_STR(state_of(&p).tool, "");
	CHECK_INT(epd_shard_wait(p.s, p.id, "search", 0, "", NULL), 0);
	CHECK_INT(epd_shard_advance(p.s, p.id, 1, 0, shard_make(&m, 9, 8),
	    &version, NULL), 0);
	CHECK_STR(state_of(&p).tool, "");
	/* At rest too, and a branch does not wait. */
	CHECK_INT(epd_shard_wait(p.s, p.id, "search", 0, "", NULL), 0);
	CHECK_INT(offload(&p, "nvme", &r), 0);
	CHECK_INT(epd_shard_offloaded(p.s, p.id, r.lease, "", NULL), 0);
	CHECK_STR(state_of(&p).tool, "search");
	CHECK_INT(epd_shard_wait(p.s, p.id, "other", 5, "", NULL), 0);
	CHECK_STR(state_of(&p).tier, "nvme");
	CHECK_STR(state_of(&p).tool, "other");
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}


/* Another node has taken over while this one was away. */
TEST(what_is_another_nodes_is_not_written)
{
	struct epd_shard_options o = shard_plain;
	struct epd_shard *a, *b, *any;
	struct epd_why why = { "" };
	struct epd_rest r;
	struct place p;
	uint32_t id;
	uint64_t lsn;

	CHECK_INT(place_open(&p), 0);
	o.procs = p.procs;
	o.owner = "a";
	CHECK_INT(epd_shard_open(&a, p.dir, &o, NULL), 0);
	o.owner = "b";
	CHECK_INT(epd_shard_open(&b, p.dir, &o, NULL), 0);
	CHECK_INT(epd_shard_own(a, "a", 5, NULL), 0);
	CHECK_STR(epd_shard_owner(a), "a");
	CHECK_INT(epd_shard_term(a), 5);
	CHECK_INT(shard_create(a, 1, 20, &id), 0);
	CHECK_INT(shard_create(b, 1, 21, &id), EPD_ELEASE);
	CHECK_INT(epd_shard_own(b, "b", 5, NULL), EPD_ESTALE);
	CHECK_INT(epd_shard_own(b, "b", 7, NULL), 0);
	CHECK_INT(shard_create(b, 1, 22, &id), 0);
	lsn = epd_shard_lsn(b);
	CHECK_INT(shard_create(a, 1, 23, &id), EPD_ELEASE);
	CHECK_INT(epd_shard_offload(a, p.id, "nvme", LONG, "", &r, &why),
	    EPD_ELEASE);
	CHECK(strstr(why.text, "node b's since term 7, and this is node a"));
	CHECK_INT(epd_shard_lsn(b), lsn);
	/* Who says no name goes by the locks alone; the name outlives checkpoints. */
	CHECK_INT(epd_shard_catch_up(p.s, NULL), 0);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_checkpoint(b, NULL), 0);
	CHECK_INT(hold_open(&any, p.dir, p.procs), 0);
	CHECK_STR(epd_shard_owner(any), "b");
	CHECK_INT(shard_create(any, 1, 24, &id), 0);
	CHECK_INT(shard_create(a, 1, 25, &id), EPD_ELEASE);
	epd_shard_close(a);
	epd_shard_close(b);
	epd_shard_close(any);
	place_close(&p);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
