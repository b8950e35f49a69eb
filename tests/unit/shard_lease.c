/* shard_lease.c - leases: what they keep, who is refused, and how they end. */
#include "base/metrics.h"
#include "shard/shard_in.h"
#include "tests/unit/shard_hold.h"

enum { LONG = 600000, SHORT = 60 };	/* ms */

/* A workflow and the store that its procs file is in. */
struct place {
	int dir, store;
	struct epd_procs *procs;
	struct epd_shard *s;
};

static int
place_open(struct place *p)
{
	uint32_t id;
	int rc;

	p->dir = scratch_open();
	p->store = scratch_open();
	rc = epd_procs_open(&p->procs, p->store);
	if (!rc)
		rc = hold_open(&p->s, p->dir, p->procs);
	return rc ? rc : shard_create(p->s, 1, 5, &id);
}

static int
place_again(struct place *p)
{
	epd_shard_close(p->s);
	return hold_open(&p->s, p->dir, p->procs);
}

static void
place_close(struct place *p)
{
	epd_shard_close(p->s);
	epd_procs_close(p->procs);
	scratch_close(p->store);
	scratch_close(p->dir);
}

static int
leased(struct epd_shard *s, uint64_t lease, uint32_t id, uint32_t expect,
    uint64_t seed, uint64_t run, uint32_t *version, struct epd_why *why)
{
	struct shard_made m;

	return epd_shard_advance_leased(s, lease, id, expect,
	    shard_make(&m, seed, run), version, why);
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

/* What a child does: takes a lease, says so, and then acts. */
struct job {
	struct place *p;
	enum epd_lease_kind kind;
	uint64_t ttl;
	int away;		/* between the two it closes its procs */
	uint64_t *id;		/* shared */
	int renews;		/* it, and says so before it advances */
};

static void
work(int said, int go, void *arg)
{
	struct job *j = arg;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint32_t version;
	int rc = epd_procs_open(&procs, j->p->store);

	if (!rc)
		rc = hold_open(&s, j->p->dir, procs);
	if (!rc)
		rc = epd_shard_lease(s, 1, 0, j->kind, j->ttl, j->id, NULL);
	if (j->away) {
		epd_shard_close(s);
		epd_procs_close(procs);
	}
	hold_say(said, rc);
	if (hold_hear(go) != 1)
		return;
	if (j->away) {
		rc = epd_procs_open(&procs, j->p->store);
		if (!rc)
			rc = hold_open(&s, j->p->dir, procs);
	}
	if (!rc && j->renews) {
		hold_say(said, epd_shard_renew(s, *j->id, LONG, NULL));
		if (hold_hear(go) != 1)
			return;
	}
	if (!rc)
		rc = leased(s, *j->id, 1, 1, 66, 66, &version, NULL);
	hold_say(said, rc);
	hold_hear(go);
}

static uint64_t *
shared(void)
{
	static uint64_t *p;

	if (!p)
		p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*p = 0;
	return p;
}

TEST(taken_renewed_dropped)
{
	struct epd_lease l = { .id = 0 };
	struct place p;
	uint64_t a = 0, b = 0, lsn, until;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_TRANSFER, LONG, &a,
	    NULL), 0);
	CHECK_INT(a, 2);
	CHECK_INT(epd_shard_lease(p.s, 1, 1, EPD_LEASE_TRANSFER, LONG, &b,
	    NULL), 0);
	CHECK_INT(hold_heads(p.s, 1), 3);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	CHECK(l.id == a && l.state == 1 && l.version == 1 && l.node == 1 &&
	    l.kind == EPD_LEASE_TRANSFER && l.holder.pid == getpid());
	CHECK_INT(epd_shard_lease_stands(p.s, &l), 1);
	until = l.deadline_ms;
	CHECK_INT(epd_shard_renew(p.s, a, 2 * LONG, NULL), 0);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	CHECK(l.id == a && l.deadline_ms >= until + LONG);
	CHECK_INT(hold_heads(p.s, 1), 3);
	/* Without end is no time that is over. */
	CHECK_INT(epd_shard_renew(p.s, a, UINT64_MAX, NULL), 0);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	CHECK_INT(epd_shard_lease_stands(p.s, &l), 1);
	CHECK_INT(epd_shard_expire(p.s, NULL, NULL, NULL), 0);
	CHECK_INT(leases(p.s), 2);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(place_again(&p), 0);
	CHECK_INT(leases(p.s), 2);
	CHECK_INT(epd_shard_renew(p.s, b, LONG, NULL), 0);
	CHECK_INT(epd_shard_drop(p.s, a, "done", NULL), 0);
	lsn = epd_shard_lsn(p.s);
	/* Kinds 12 and 25: again is nothing, in the log too. */
	CHECK_INT(epd_shard_drop(p.s, a, "done", NULL), 0);
	CHECK_INT(epd_shard_drop(p.s, 12345, "", NULL), 0);
	CHECK_INT(epd_shard_drop(p.s, 0, "", NULL), 0);
	CHECK_INT(epd_shard_lsn(p.s), lsn);
	CHECK_INT(hold_heads(p.s, 1), 2);
	CHECK_INT(epd_shard_renew(p.s, a, LONG, NULL), EPD_ELEASE);
	CHECK_INT(epd_shard_drop(p.s, b, NULL, NULL), 0);
	CHECK_INT(hold_heads(p.s, 1), 1);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), -ENOENT);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(what_may_not_be_leased)
{
	struct epd_shard_options o = shard_plain;
	struct epd_handoff half = { .id = { 1 }, .state = 1, .version = 1 };
	struct epd_why why = { "" };
	struct epd_shard *r;
	struct place p;
	uint64_t id = 77, lsn;

	CHECK_INT(place_open(&p), 0);
	lsn = epd_shard_lsn(p.s);
	CHECK_INT(epd_shard_lease(p.s, 2, 0, EPD_LEASE_DECODE, LONG, &id,
	    &why), EPD_ENOSTATE);
	CHECK_STR(why.text, "s2: no such state");
	CHECK_INT(epd_shard_lease(p.s, 1, 2, EPD_LEASE_DECODE, LONG, &id,
	    &why), EPD_ENOTHING);
	CHECK_STR(why.text, "s1: it has no version @2");
	CHECK_INT(epd_shard_lease(p.s, 1, 0, 0, LONG, &id, &why), -EINVAL);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, 6, LONG, &id, &why), -EINVAL);
	CHECK_INT(epd_shard_open(&r, p.dir, &o, NULL), 0);
	CHECK_INT(epd_shard_lease(r, 1, 0, EPD_LEASE_DECODE, LONG, &id, &why),
	    -EINVAL);
	epd_shard_close(r);
	o.read_only = 1;
	o.procs = p.procs;
	CHECK_INT(epd_shard_open(&r, p.dir, &o, NULL), 0);
	CHECK_INT(epd_shard_lease(r, 1, 0, EPD_LEASE_DECODE, LONG, &id, &why),
	    -EROFS);
	epd_shard_close(r);
	CHECK_INT(epd_shard_lsn(p.s), lsn);
	CHECK_INT(epd_shard_prepare(p.s, &half, NULL), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    &why), EPD_ESTATUS);
	CHECK_STR(why.text, "s1: mid-hand-off, until that is decided");
	CHECK_INT(id, 77);
	/* Its pages may be on their way. */
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_TRANSFER, LONG, &id,
	    &why), 0);
	CHECK_STR(epd_lease_name(EPD_LEASE_DECODE), "decode");
	CHECK(!epd_lease_name(0) && !epd_lease_name(6));
	place_close(&p);
}

TEST(one_decodes)
{
	struct epd_why why = { "" };
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_DECODE, LONG, 0, shared(), 0 };
	struct epd_state st;
	uint64_t id = 77;
	uint32_t version = 0;
	char text[80];
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	snprintf(text, sizeof text, "s1: process %d is decoding it",
	    (int)c.pid);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    &why), EPD_ELOCKED);
	CHECK_STR(why.text, text);
	CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), EPD_ELOCKED);
	/* Nor by another lease, nor by that of the other. */
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_VALIDATION, LONG, &id,
	    NULL), 0);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, &why), EPD_ELOCKED);
	CHECK_STR(why.text, text);
	CHECK_INT(leased(p.s, *j.id, 1, 1, 2, 6, &version, &why), EPD_ELEASE);
	CHECK_INT(epd_shard_renew(p.s, *j.id, LONG, NULL), EPD_ELEASE);
	CHECK_INT(leased(p.s, 999, 1, 1, 2, 6, &version, &why), EPD_ELEASE);
	CHECK_STR(why.text, "lease 999 was over, others have come since, and nothing is kept");
	CHECK_INT(version, 0);
	/* The holder's own advance ends its lease, in one frame. */
	hold_say(c.go, 1);
	CHECK_INT(hold_hear(c.said), 0);
	CHECK_INT(epd_shard_catch_up(p.s, NULL), 0);
	CHECK_INT(epd_shard_state(p.s, 1, &st), 0);
	CHECK_INT(st.versions, 2);
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(leased(p.s, id, 1, 2, 2, 6, &version, &why), 0);
	CHECK_INT(version, 3);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(hold_end(&c, 0), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(advance_and_drop_are_one)
{
	struct place p;
	uint64_t id;
	uint32_t version = 0;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	/* One's own lease is no leave to go round it. */
	CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), EPD_ELOCKED);
	CHECK_INT(leased(p.s, id, 1, 2, 2, 6, &version, NULL), EPD_EVERSION);
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, NULL), 0);
	CHECK_INT(version, 2);
	CHECK_INT(epd_shard_lsn(p.s), 4);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(leased(p.s, id, 1, 2, 2, 7, &version, NULL), EPD_ELEASE);
	CHECK_INT(shard_create(p.s, 3, 0, &version), 0);
	CHECK_INT(epd_shard_lease(p.s, 2, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(leased(p.s, id, 1, 2, 2, 7, &version, NULL), EPD_ELEASE);
	CHECK_INT(hold_heads(p.s, 1), 1);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Kind 13: the state is released, a dead holder's lease ends, the node goes. */
TEST(kind13_killed_holder)
{
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_TRANSFER, LONG, 0, shared(), 0 };
	uint8_t told[256] = { 0 };
	struct epd_lease l;
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	CHECK_INT(epd_shard_release(p.s, 1, "", hold_freed, told, NULL), 0);
	CHECK_INT(hold_heads(p.s, 1), 1);
	CHECK_INT(epd_shard_expire(p.s, hold_freed, told, NULL), 0);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	CHECK_INT(epd_shard_lease_stands(p.s, &l), 1);
	CHECK(hold_same(p.s, p.dir));
	CHECK(!told[5]);
	CHECK_INT(hold_end(&c, SIGKILL), -SIGKILL);
	CHECK_INT(epd_shard_lease_stands(p.s, &l), 0);
	CHECK_INT(epd_shard_expire(p.s, hold_freed, told, NULL), 0);
	CHECK_INT(told[5], 1);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(hold_nodes(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(a_dead_holder_stops_nobody)
{
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_DECODE, LONG, 0, shared(), 0 };
	struct epd_fork_ask f = { .state = 1, .branches = 1 };
	uint32_t version, first;
	uint64_t id;
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	CHECK_INT(epd_shard_fork(p.s, &f, &first, NULL), EPD_ELOCKED);
	CHECK_INT(hold_end(&c, SIGKILL), -SIGKILL);
	CHECK_INT(epd_shard_fork(p.s, &f, &first, NULL), 0);
	CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	/* The dead one went as the new one came. */
	CHECK_INT(leases(p.s), 1);
	CHECK_INT(hold_heads(p.s, 1), 2);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(released_under_a_lease)
{
	uint8_t told[256] = { 0 };
	struct place p;
	uint32_t version;
	uint64_t a, b;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 1, EPD_LEASE_RESTORE, LONG, &a,
	    NULL), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 2, EPD_LEASE_VALIDATION, LONG, &b,
	    NULL), 0);
	CHECK_INT(epd_shard_release(p.s, 1, "", hold_freed, told, NULL), 0);
	CHECK_INT(hold_nodes(p.s), 2);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(place_again(&p), 0);
	CHECK_INT(epd_shard_drop(p.s, a, "", NULL), 0);
	CHECK_INT(hold_nodes(p.s), 2);
	CHECK_INT(epd_shard_drop(p.s, b, "", NULL), 0);
	epd_shard_tell(p.s, hold_freed, told);
	CHECK(told[5] == 1 && told[6] == 1);
	CHECK_INT(hold_nodes(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Kind 14: a result that comes when the state is gone leaks nothing. */
TEST(kind14_late_advance)
{
	uint8_t told[256] = { 0 };
	struct place p;
	uint32_t version = 0;
	uint64_t id, lsn, then;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(epd_shard_release(p.s, 1, "aborted", hold_freed, told, NULL),
	    0);
	lsn = epd_shard_lsn(p.s);
	then = hold_hash(p.s);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, NULL), EPD_ENOSTATE);
	CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), EPD_ENOSTATE);
	CHECK(epd_shard_lsn(p.s) == lsn && hold_hash(p.s) == then);
	CHECK_INT(epd_shard_drop(p.s, id, "late", NULL), 0);
	epd_shard_tell(p.s, hold_freed, told);
	CHECK_INT(told[5], 1);
	CHECK_INT(hold_nodes(p.s), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Sleep till the first lease stands no more. */
static void
outsleep(struct epd_shard *s)
{
	struct epd_lease l;

	while (!epd_shard_catch_up(s, NULL) &&
	    !epd_shard_lease_next(s, 0, &l) && epd_shard_lease_stands(s, &l))
		usleep(5000);
}

/*
 * Kind 27: a holder that is frozen beyond its lease.  meanwhile says what
 * others do; when it wakes it goes on if that was nothing, and else is refused
 * and what they made stands.
 */
enum meanwhile {
	NOTHING, ADVANCED, LEASED, EXPIRED, REPLACED, RELEASED, FORKED, OFFERED
};

static void
frozen(enum meanwhile what, int renewed, int expected)
{
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_DECODE, SHORT, 0, shared(), renewed < 1 };
	struct epd_handoff half = { .id = { 1 }, .state = 1, .version = 1 };
	struct epd_fork_ask f = { .state = 1, .branches = 2,
	    .replace = what == REPLACED };
	uint64_t mine, then;
	uint32_t version, first;
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	kill(c.pid, SIGSTOP);
	outsleep(p.s);
	switch (what) {
	case ADVANCED:
		CHECK_INT(shard_advance(p.s, 1, 1, 0, 2, 6, &version), 0);
		break;
	case LEASED:
		CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG,
		    &mine, NULL), 0);
		break;
	case EXPIRED:
		CHECK_INT(epd_shard_expire(p.s, NULL, NULL, NULL), 0);
		CHECK_INT(leases(p.s), 0);
		break;
	case REPLACED:
	case FORKED:
		CHECK_INT(epd_shard_fork(p.s, &f, &first, NULL), 0);
		break;
	case OFFERED:
		CHECK_INT(epd_shard_prepare(p.s, &half, NULL), 0);
		break;
	case RELEASED:
		CHECK_INT(epd_shard_release(p.s, 1, "", NULL, NULL, NULL), 0);
		break;
	default:
		break;
	}
	then = hold_hash(p.s);
	kill(c.pid, SIGCONT);
	hold_say(c.go, 1);
	if (j.renews) {
		CHECK_INT(hold_hear(c.said), renewed);
		/* Renewed it keeps others off as before. */
		rc = shard_advance(p.s, 1, 1, 0, 2, 6, &version);
		CHECK(rc < 0 || what == EXPIRED);
		CHECK(renewed || expected || rc == EPD_ELOCKED);
		if (what == EXPIRED)
			then = hold_hash(p.s);
		hold_say(c.go, 1);
	}
	CHECK_INT(hold_hear(c.said), expected);
	CHECK_INT(epd_shard_catch_up(p.s, NULL), 0);
	/* What it may spoil is nothing. */
	if (!expected)
		CHECK_INT(leases(p.s), 0);
	else if (renewed)
		CHECK(then && hold_hash(p.s) == then);
	if (what == LEASED)
		CHECK_INT(leased(p.s, mine, 1, 1, 9, 9, &version, NULL), 0);
	CHECK_INT(hold_end(&c, 0), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(kind27_frozen_beyond_its_lease)
{
	frozen(NOTHING, 1, 0);
	frozen(ADVANCED, 1, EPD_EVERSION);
	frozen(LEASED, 1, EPD_ELEASE);
	frozen(EXPIRED, 1, EPD_ELEASE);
	frozen(REPLACED, 1, EPD_ENOSTATE);
	frozen(RELEASED, 1, EPD_ENOSTATE);
	frozen(FORKED, 1, 0);
	frozen(OFFERED, 1, EPD_ESTATUS);
}

/* The same by one that renews first, as a decoder does. */
TEST(renewed_when_it_was_over)
{
	frozen(NOTHING, 0, 0);
	frozen(ADVANCED, 0, EPD_EVERSION);
	frozen(LEASED, EPD_ELEASE, EPD_ELEASE);
	frozen(EXPIRED, EPD_ELEASE, EPD_ELEASE);
	frozen(REPLACED, 0, EPD_ENOSTATE);
	frozen(RELEASED, 0, EPD_ENOSTATE);
	frozen(FORKED, 0, 0);
	frozen(OFFERED, EPD_ESTATUS, EPD_ESTATUS);
}

/* One that left the store and comes back is not the holder it was. */
TEST(gone_and_back_again)
{
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_DECODE, LONG, 1, shared(), 0 };
	uint64_t mine;
	uint32_t version;
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &mine,
	    NULL), 0);
	hold_say(c.go, 1);
	CHECK_INT(hold_hear(c.said), EPD_ELEASE);
	CHECK_INT(leased(p.s, mine, 1, 1, 2, 6, &version, NULL), 0);
	CHECK_INT(hold_end(&c, 0), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* A lease by somebody who is not here to take it. */
static int
forge(struct epd_shard *s, const struct epd_proc *holder, uint64_t *id)
{
	struct epd_lease l = {
		.state = 1, .version = 1, .kind = EPD_LEASE_DECODE,
		.holder = *holder, .deadline_ms = UINT64_MAX,
	};
	int rc = epd_shard_begin(s, NULL);

	if (rc)
		return rc;
	epd_frame_begin(&s->frame);
	epd_lease_pack(&s->frame, &l);
	rc = epd_shard_append(s, NULL);
	*id = epd_shard_lsn(s);
	return epd_shard_end(s, rc, NULL);
}

TEST(another_boot_and_another_process_of_the_pid)
{
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_TRANSFER, LONG, 0, shared(), 0 };
	struct epd_lease l = { .id = 0 };
	struct epd_proc who;
	struct epd_shard *r;
	uint64_t id;
	int rc;

	CHECK_INT(place_open(&p), 0);
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	CHECK_INT(epd_shard_catch_up(p.s, NULL), 0);
	CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	CHECK_INT(epd_shard_lease_stands(p.s, &l), 1);
	for (int k = 0; k < 4; k++) {
		/* The child's pid, which lives; then this process's own. */
		who = k < 2 ? l.holder : *epd_procs_self(p.procs);
		if (k % 2)
			who.start++;
		else
			who.boot[3] ^= 1;
		CHECK_INT(forge(p.s, &who, &id), 0);
		CHECK_INT(epd_shard_lease_next(p.s, id - 1, &l), 0);
		CHECK_INT(epd_shard_lease_stands(p.s, &l), 0);
		/* Who only looks tells a boot, but not who is alive. */
		CHECK_INT(shard_open(&r, p.dir, 1), 0);
		CHECK_INT(epd_shard_lease_stands(r, &l), k % 2);
		epd_shard_close(r);
		CHECK_INT(epd_shard_renew(p.s, id, LONG, NULL), EPD_ELEASE);
		CHECK_INT(epd_shard_free_to(p.s, 1, NULL), 0);
		CHECK_INT(epd_shard_expire(p.s, NULL, NULL, NULL), 0);
		CHECK_INT(leases(p.s), 1);
		CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
	}
	CHECK_INT(hold_end(&c, SIGKILL), -SIGKILL);
	CHECK_INT(epd_shard_expire(p.s, NULL, NULL, NULL), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

TEST(more_dead_than_a_frame_takes)
{
	struct place p;
	struct epd_proc who;
	uint8_t told[256] = { 0 };
	uint64_t id, lsn;

	CHECK_INT(place_open(&p), 0);
	who = *epd_procs_self(p.procs);
	who.boot[0] ^= 1;
	for (int i = 0; i < 150; i++)
		CHECK_INT(forge(p.s, &who, &id), 0);
	CHECK_INT(hold_heads(p.s, 1), 151);
	CHECK(hold_same(p.s, p.dir));
	CHECK_INT(epd_shard_release(p.s, 1, "", hold_freed, told, NULL), 0);
	CHECK(!told[5]);
	lsn = epd_shard_lsn(p.s);
	CHECK_INT(epd_shard_expire(p.s, hold_freed, told, NULL), 0);
	CHECK_INT(epd_shard_lsn(p.s), lsn + 150);
	CHECK_INT(told[5], 1);
	CHECK_INT(leases(p.s), 0);
	CHECK(hold_same(p.s, p.dir));
	place_close(&p);
}

/* Kind 24: who looks whether there are leases takes none and renews none. */
TEST(kind24_looking_takes_no_lease)
{
	struct shard_image before = { .n = 0 }, after = { .n = 0 };
	struct epd_lease l = { .id = 0 };
	struct place p;
	uint64_t id, then;
	struct epd_state st;
	struct epd_version v;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_TRANSFER, LONG, &id,
	    NULL), 0);
	then = hold_hash(p.s);
	CHECK_INT(shard_grab(&before, p.dir), 0);
	for (int i = 0; i < 100; i++) {
		l.id = 0;
		CHECK_INT(epd_shard_lease_next(p.s, 0, &l), 0);
		CHECK_INT(epd_shard_lease_stands(p.s, &l), 1);
		CHECK_INT(epd_shard_lease_next(p.s, l.id, &l), -ENOENT);
		CHECK_INT(l.id, id);
		CHECK_INT(epd_shard_state(p.s, 1, &st), 0);
		CHECK_INT(epd_shard_version(p.s, 1, 0, &v), 0);
		CHECK_INT(epd_shard_catch_up(p.s, NULL), 0);
	}
	CHECK_INT(shard_grab(&after, p.dir), 0);
	CHECK(hold_hash(p.s) == then);
	CHECK_INT(before.n, after.n);
	for (int i = 0; i < before.n; i++) {
		struct shard_file *f = shard_file(&after, before.file[i].name);

		CHECK(f && f->data.n == before.file[i].data.n &&
		    !memcmp(f->data.p, before.file[i].data.p, f->data.n));
	}
	CHECK_INT(hold_heads(p.s, 1), 2);
	shard_image_free(&before);
	shard_image_free(&after);
	place_close(&p);
}

/* No flush of their own; the next one takes them along. */
TEST(not_flushed)
{
	struct epd_shard_options o = shard_plain;
	struct epd_metrics *m;
	struct place p;
	uint64_t id, flushes;
	uint32_t version;
	int counters = scratch_open();

	CHECK_INT(place_open(&p), 0);
	epd_shard_close(p.s);
	CHECK_INT(epd_metrics_open(&m, counters), 0);
	o.metrics = m;
	o.procs = p.procs;
	CHECK_INT(epd_shard_open(&p.s, p.dir, &o, NULL), 0);
	flushes = epd_metrics_get(m, EPD_M_LOG_FLUSHES);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(epd_shard_renew(p.s, id, LONG, NULL), 0);
	CHECK_INT(epd_shard_drop(p.s, id, "", NULL), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK(epd_metrics_get(m, EPD_M_LOG_FLUSHES) == flushes);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, NULL), 0);
	CHECK(epd_metrics_get(m, EPD_M_LOG_FLUSHES) == flushes + 1);
	CHECK_INT(epd_metrics_get(m, EPD_M_LEASES), 2);
	epd_metrics_close(m);
	scratch_close(counters);
	place_close(&p);
}

static int
log_size(int dir, off_t *n)
{
	struct stat st;

	*n = fstatat(dir, "log.00000001", &st, 0) ? -1 : st.st_size;
	return *n < 0 ? -errno : 0;
}

static int
log_cut(int dir, off_t n)
{
	int fd = openat(dir, "log.00000001", O_RDWR), rc;

	rc = fd < 0 || ftruncate(fd, n) ? -errno : 0;
	close(fd);
	return rc;
}

/* Power goes: a lease that was not flushed is not there, what was is. */
TEST(power_loss)
{
	struct place p;
	struct epd_state st;
	uint64_t id;
	uint32_t s2;
	off_t n;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(log_size(p.dir, &n), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	epd_shard_close(p.s);
	/* The tip may be younger than the frames. */
	CHECK_INT(log_cut(p.dir, n + 20), 0);
	CHECK_INT(shard_open(&p.s, p.dir, 1), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(epd_shard_state(p.s, 1, &st), 0);
	epd_shard_close(p.s);
	CHECK_INT(hold_open(&p.s, p.dir, p.procs), 0);
	CHECK_INT(leases(p.s), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(shard_create(p.s, 2, 0, &s2), 0);
	CHECK_INT(log_size(p.dir, &n), 0);
	epd_shard_close(p.s);
	/* Flushed with what came behind it: now its loss is damage. */
	CHECK_INT(log_cut(p.dir, n - 1), 0);
	CHECK_INT(shard_open(&p.s, p.dir, 1), EPD_ECORRUPT);
	p.s = NULL;
	place_close(&p);
}

/*
 * A flush fails and the disk has not got a lease that living handles know of:
 * others go on without it, and those handles must see what the others made.
 */
TEST(a_failed_flush_takes_a_lease_back)
{
	struct epd_shard *other, *reader;
	struct hold_child c;
	struct place p;
	struct job j = { &p, EPD_LEASE_DECODE, LONG, 0, shared(), 0 };
	struct epd_state st;
	uint64_t id;
	uint32_t s2 = 0, s3 = 0, version;
	off_t n;
	int rc, fd;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(log_size(p.dir, &n), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(id, 2);
	CHECK_INT(shard_open(&reader, p.dir, 1), 0);
	CHECK_INT(leases(reader), 1);
	CHECK_INT(log_cut(p.dir, n), 0);
	fd = openat(p.dir, "unsure", O_WRONLY | O_CREAT, 0600);
	close(fd);
	/* Another process takes the state, by the same number as it happens. */
	hold_fork(&c, &rc, work, &j);
	CHECK_INT(rc, 0);
	CHECK_INT(*j.id, 2);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, NULL), EPD_ELEASE);
	CHECK_INT(hold_open(&other, p.dir, p.procs), 0);
	CHECK_INT(shard_create(other, 4, 90, &s2), 0);
	CHECK_INT(s2, 2);
	CHECK_INT(shard_create(p.s, 5, 91, &s3), 0);
	CHECK_INT(s3, 3);
	CHECK_INT(epd_shard_state(p.s, 2, &st), 0);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_catch_up(other, NULL), 0);
	CHECK(hold_hash(reader) == hold_hash(p.s));
	CHECK(hold_hash(other) == hold_hash(p.s));
	CHECK_INT(hold_end(&c, SIGKILL), -SIGKILL);
	CHECK(hold_same(p.s, p.dir));
	epd_shard_close(reader);
	epd_shard_close(other);
	place_close(&p);
}

/* The same where an acknowledged record took the lost lease's place. */
TEST(a_failed_flush_and_a_create_in_its_place)
{
	struct epd_shard *other, *reader;
	struct place p;
	struct epd_state st;
	uint64_t id;
	uint32_t s2 = 0, s3 = 0;
	off_t n;
	int fd;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(log_size(p.dir, &n), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(shard_open(&reader, p.dir, 1), 0);
	CHECK_INT(log_cut(p.dir, n), 0);
	fd = openat(p.dir, "unsure", O_WRONLY | O_CREAT, 0600);
	close(fd);
	CHECK_INT(hold_open(&other, p.dir, p.procs), 0);
	CHECK_INT(shard_create(other, 4, 90, &s2), 0);
	CHECK_INT(epd_shard_lsn(other), 2);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_state(reader, 2, &st), 0);
	CHECK_INT(leases(reader), 0);
	CHECK_INT(shard_create(p.s, 5, 91, &s3), 0);
	CHECK_INT(s3, 3);
	CHECK_INT(epd_shard_state(p.s, 2, &st), 0);
	CHECK_INT(epd_shard_catch_up(other, NULL), 0);
	CHECK(hold_hash(other) == hold_hash(p.s));
	CHECK(hold_same(p.s, p.dir));
	epd_shard_close(reader);
	epd_shard_close(other);
	place_close(&p);
}

/* The nth allocation of a handle that must load anew fails; 1 if none did. */
static int
loaded_anew(int n)
{
	struct epd_shard *other, *reader;
	struct place p;
	uint64_t id;
	uint32_t s2;
	off_t size;
	int rc, fd, ended;

	if (place_open(&p) || log_size(p.dir, &size) || epd_shard_lease(p.s, 1,
	    0, EPD_LEASE_DECODE, LONG, &id, NULL) ||
	    shard_open(&reader, p.dir, 1) || log_cut(p.dir, size))
		return -1;
	fd = openat(p.dir, "unsure", O_WRONLY | O_CREAT, 0600);
	close(fd);
	if (hold_open(&other, p.dir, p.procs) ||
	    shard_create(other, 4, 90, &s2))
		return -1;
	scratch_starve(n, 0);
	rc = epd_shard_catch_up(reader, NULL);
	ended = scratch_mem.count < n;
	scratch_starve(0, 0);
	if (rc && rc != -ENOMEM)
		return -1;
	scratch_starve(n, 0);
	rc = shard_create(p.s, 5, 0, &s2);
	ended &= scratch_mem.count < n;
	scratch_starve(0, 0);
	if (rc && rc != -ENOMEM)
		return -1;
	if (epd_shard_catch_up(other, NULL) ||
	    epd_shard_catch_up(reader, NULL) || epd_shard_catch_up(p.s, NULL) ||
	    leases(reader) || hold_hash(reader) != hold_hash(other) ||
	    hold_hash(p.s) != hold_hash(other) || !hold_same(p.s, p.dir))
		return -1;
	epd_shard_close(reader);
	epd_shard_close(other);
	place_close(&p);
	return ended;
}

TEST(without_memory_it_is_loaded_later)
{
	int rc = 0, n;

	for (n = 1; !rc; n++)
		rc = loaded_anew(n);
	if (rc < 0)
		CHECK_FAIL("allocation %d", n - 1);
	CHECK(n > 8);
}

static int
tell_record(void *arg, const struct epd_record *r)
{
	char *text = arg;
	size_t n = strlen(text);

	snprintf(text + n, 600 - n, "%llu %s s%u@%u %llu %s\n",
	    (unsigned long long)r->lsn, r->kind, r->state, r->version,
	    (unsigned long long)r->lease, r->reason);
	return 0;
}

TEST(the_log_tells_of_them)
{
	struct place p;
	char text[600] = "";
	uint32_t version;
	uint64_t id;

	CHECK_INT(place_open(&p), 0);
	CHECK_INT(epd_shard_lease(p.s, 1, 0, EPD_LEASE_DECODE, LONG, &id,
	    NULL), 0);
	CHECK_INT(epd_shard_renew(p.s, id, LONG, NULL), 0);
	CHECK_INT(leased(p.s, id, 1, 1, 2, 6, &version, NULL), 0);
	CHECK_INT(epd_shard_walk(p.s, tell_record, text, NULL), 0);
	CHECK_STR(text, "1 create s1@1 0 \n2 lease s1@1 2 decode\n"
	    "3 lease s1@1 2 decode\n4 advance s1@2 0 \n5 drop s0@0 2 done\n");
	place_close(&p);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
