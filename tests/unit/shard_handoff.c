/*
 * shard_handoff.c - the halves of a hand-off: every order of calls, what is
 * pinned meanwhile, and crashes between any two records.
 */
#include "shard/shard_in.h"
#include "tests/unit/shard_hold.h"

enum { S, T };		/* source and target */

static struct epd_clock_fake now = { 1000000, 5000000000 };

struct pair {
	int dir[2], store;
	struct epd_procs *procs;
	struct epd_shard *s[2];
	struct epd_handoff half[2];
	uint64_t run;		/* of the next that is ready; it takes three */
};

/* What both halves of hand-off n would be asked with. */
static void
halves(struct pair *p, int n, uint32_t state, uint32_t version)
{
	struct epd_handoff *a = &p->half[S], *b = &p->half[T];

	*a = (struct epd_handoff){
		.state = state, .version = version, .store = "/store/b",
		.workflow = "w2", .deadline_ms = 9000,
		/* A source has none of these, whatever it was asked with. */
		.peer_state = 6, .peer_version = 7, .peer_lsn = 8,
	};
	memset(a->id, 0x40, 16);
	memcpy(a->id, &n, sizeof n);
	memset(a->boot, 3, 16);
	epd_shard_uuid(p->s[T], a->peer);
	*b = *a;
	epd_shard_uuid(p->s[S], b->peer);
	b->store = "/store/a";
	b->workflow = "w1";
	b->peer_state = state;
	b->peer_version = version;
	b->peer_lsn = 77;
}

/* The source has s1@2, the target a state of its own. */
static int
pair_open(struct pair *p)
{
	uint32_t id, version;
	int rc;

	p->store = scratch_open();
	p->run = 30;
	rc = epd_procs_open(&p->procs, p->store);
	for (int k = 0; k < 2 && !rc; k++) {
		p->dir[k] = scratch_open();
		rc = hold_open(&p->s[k], p->dir[k], p->procs);
	}
	if (!rc)
		rc = shard_create(p->s[S], 1, 5, &id);
	if (!rc)
		rc = shard_advance(p->s[S], 1, 1, 0, 2, 6, &version);
	if (!rc)
		rc = shard_create(p->s[T], 3, 7, &id);
	if (!rc)
		halves(p, 1, 1, 2);
	return rc;
}

static void
pair_close(struct pair *p)
{
	for (int k = 0; k < 2; k++) {
		epd_shard_close(p->s[k]);
		scratch_close(p->dir[k]);
	}
	epd_procs_close(p->procs);
	scratch_close(p->store);
}

static int
ready(struct pair *p, uint32_t *state)
{
	struct epd_state traits = shard_traits(1);
	struct shard_made m;
	struct epd_run_link l[2];
	int rc = epd_shard_ready(p->s[T], &p->half[T], &traits,
	    hold_make(&m, l, 4, p->run), state, NULL);

	p->run += rc ? 0 : 3;
	return rc;
}

static int
phase(struct pair *p, int k)
{
	struct epd_handoff h;

	return epd_shard_handoff(p->s[k], p->half[k].id, &h) ? 0 :
	    (int)h.phase;
}

static int
status(struct pair *p, int k, uint32_t id)
{
	struct epd_state st;

	return epd_shard_state(p->s[k], id, &st) ? 0 : (int)st.status;
}

static int
both_same(struct pair *p)
{
	return hold_same(p->s[S], p->dir[S]) && hold_same(p->s[T], p->dir[T]);
}

static int
tell_record(void *arg, const struct epd_record *r)
{
	char *text = arg;
	size_t n = strlen(text);

	snprintf(text + n, 600 - n, "%s s%u@%u %d.%d %llu %s\n", r->kind,
	    r->state, r->version, r->has_handoff, r->handoff[0],
	    (unsigned long long)r->term, r->reason);
	return 0;
}

TEST(the_whole_way)
{
	struct pair p;
	uint8_t told[256] = { 0 };
	char text[600] = "";
	struct epd_handoff h;
	struct epd_version v;
	uint32_t id = 0, version;

	CHECK_INT(pair_open(&p), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	CHECK_INT(epd_shard_handoff(p.s[S], p.half[S].id, &h), 0);
	CHECK(h.phase == EPD_PREPARED && !h.target && h.state == 1 &&
	    h.version == 2 && h.lsn == 3 && !h.peer_state &&
	    !h.peer_version && !h.peer_lsn &&
	    h.deadline_ms == 9000 && !memcmp(h.peer, p.half[S].peer, 16));
	CHECK_STR(h.store, "/store/b");
	CHECK_STR(h.workflow, "w2");
	CHECK_INT(status(&p, S, 1), EPD_ACTIVE);
	CHECK(both_same(&p));
	CHECK_INT(ready(&p, &id), 0);
	CHECK_INT(id, 2);
	CHECK_INT(epd_shard_handoff(p.s[T], p.half[T].id, &h), 0);
	CHECK(h.phase == EPD_READY && h.target && h.state == 2 &&
	    h.version == 1 && h.lsn == 2 && h.peer_state == 1 &&
	    h.peer_version == 2 && h.peer_lsn == 77);
	CHECK_INT(status(&p, T, 2), EPD_RESTORING);
	CHECK_INT(epd_shard_version(p.s[T], 2, 0, &v), 0);
	CHECK(v.nlinks == 2 && v.run == 30 && v.node == 2);
	CHECK(both_same(&p));
	CHECK_INT(epd_shard_commit_at(p.s[S], p.half[S].id, 0, NULL), 0);
	CHECK_INT(status(&p, S, 1), 0);
	CHECK_INT(hold_nodes(p.s[S]), 0);
	epd_shard_tell(p.s[S], hold_freed, told);
	CHECK(told[5] == 1 && told[6] == 1);
	CHECK_INT(phase(&p, S), EPD_COMMITTED);
	CHECK(both_same(&p));
	CHECK_INT(epd_shard_commit_at(p.s[T], p.half[T].id, 0, NULL), 0);
	CHECK_INT(status(&p, T, 2), EPD_ACTIVE);
	CHECK_INT(shard_advance(p.s[T], 2, 1, 0, 8, 9, &version), 0);
	CHECK(both_same(&p));
	CHECK_INT(epd_shard_forget_at(p.s[S], p.half[S].id, 0, NULL), 0);
	CHECK_INT(epd_shard_forget_at(p.s[T], p.half[T].id, 0, NULL), 0);
	CHECK_INT(epd_shard_handoff_next(p.s[S], 0, &h), -ENOENT);
	CHECK_INT(epd_shard_handoff_next(p.s[T], 0, &h), -ENOENT);
	CHECK(both_same(&p));
	pair_close(&p);
	/* Once more for what the logs tell, no checkpoint cutting them. */
	CHECK_INT(pair_open(&p), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	CHECK_INT(ready(&p, &id), 0);
	CHECK_INT(epd_shard_rollback_at(p.s[S], p.half[S].id, 0, "too late",
	    NULL), 0);
	CHECK_INT(epd_shard_adopt(p.s[T], p.half[T].id, "by hand", NULL), 0);
	CHECK_INT(epd_shard_forget_at(p.s[T], p.half[T].id, 0, NULL), 0);
	CHECK_INT(epd_shard_walk(p.s[S], tell_record, text, NULL), 0);
	CHECK_STR(text, "create s1@1 0.0 1 \nadvance s1@2 0.0 1 \n"
	    "prepare s1@2 1.1 1 \nabort s1@0 1.1 1 too late\n");
	*text = '\0';
	CHECK_INT(epd_shard_walk(p.s[T], tell_record, text, NULL), 0);
	CHECK_STR(text, "create s1@1 0.0 1 \nready s2@1 1.1 1 \n"
	    "commit s2@0 1.1 1 by hand\nterm s0@0 0.0 1 by hand\n"
	    "drop s0@0 1.1 2 both halves are decided\n");
	pair_close(&p);
}

/*
 * Every order of calls up to a length, each on a state and an id of its own,
 * against what a table says; lsn stands where nothing is to be done.
 */
enum { BEGIN, COMMIT, ROLLBACK, ADOPT, FORGET, CALLS };

static int
call(struct pair *p, int k, int what, uint32_t *id)
{
	const uint8_t *h = p->half[k].id;

	switch (what) {
	case BEGIN:
		return k == S ? epd_shard_prepare(p->s[S], &p->half[S], NULL) :
		    ready(p, id);
	case COMMIT:
		return epd_shard_commit_at(p->s[k], h, 0, NULL);
	case ROLLBACK:
		return epd_shard_rollback_at(p->s[k], h, 0, "", NULL);
	case ADOPT:
		return epd_shard_adopt(p->s[k], h, "", NULL);
	default:
		return epd_shard_forget_at(p->s[k], h, 0, NULL);
	}
}

/* Where a call leads from a phase (0: no half), and what it returns. */
struct lead { int rc, to; };

static struct lead
expected(int k, int what, int from, int gone)
{
	const int begun = k == S ? EPD_PREPARED : EPD_READY;
	const int done = from && from != begun;

	switch (what) {
	case BEGIN:
		if (!from && gone)
			return (struct lead){ EPD_ENOSTATE, 0 };
		return (struct lead){ 0, from ? from : begun };
	case COMMIT:
		return !from ? (struct lead){ EPD_EABORTED, 0 } :
		    (struct lead){ 0, done ? from : EPD_COMMITTED };
	case ROLLBACK:
		return done ? (struct lead){ EPD_EABORTED, from } :
		    (struct lead){ 0, 0 };
	case ADOPT:
		if (k == S && from == begun)
			return (struct lead){ EPD_ESTATUS, from };
		return !from ? (struct lead){ EPD_EABORTED, 0 } :
		    (struct lead){ 0, done ? from : EPD_ADOPTED };
	default:
		return from == begun ? (struct lead){ EPD_ESTATUS, from } :
		    (struct lead){ 0, 0 };
	}
}

static void
order_of_calls(struct pair *p, int k, int n, int calls)
{
	int at = 0, owned = k == S, code = n;
	uint32_t id = 1, version;
	uint64_t term;

	if (k == S) {
		CHECK_INT(shard_create(p->s[S], (uint64_t)n, 0, &id), 0);
		halves(p, 1000 + n, id, 1);
	} else {
		halves(p, 1000 + n, 1, 2);
	}
	for (int i = 0; i < calls; i++, code /= CALLS) {
		int what = code % CALLS, rc;
		uint64_t lsn = epd_shard_lsn(p->s[k]);
		struct lead l = expected(k, what, at, k == S && !owned);

		term = epd_shard_term(p->s[k]);
		rc = call(p, k, what, &id);
		if (rc != l.rc || phase(p, k) != l.to)
			CHECK_FAIL("half %d, order %d, call %d: %d and phase "
			    "%d, not %d and %d", k, n, i, rc, phase(p, k),
			    l.rc, l.to);
		CHECK((epd_shard_lsn(p->s[k]) == lsn) == (l.to == at));
		CHECK_INT(epd_shard_term(p->s[k]) - term,
		    l.to == EPD_ADOPTED && at == EPD_READY);
		if (k == S && l.to == EPD_COMMITTED)
			owned = 0;
		if (k == T && l.to != at && l.to != 0)
			owned = l.to != EPD_READY;
		if (k == T && at == EPD_READY && !l.to)
			owned = 0;
		at = l.to;
		CHECK_INT(status(p, k, k == S || at || owned ? id : 0),
		    owned ? EPD_ACTIVE : at == EPD_READY ? EPD_RESTORING : 0);
	}
	if (owned && !at)
		CHECK_INT(shard_advance(p->s[k], id, 1, 0, 1, 0, &version), 0);
}

TEST(kind25_every_order_of_calls)
{
	enum { LENGTH = 4, ORDERS = CALLS * CALLS * CALLS * CALLS };
	struct pair p;

	CHECK_INT(pair_open(&p), 0);
	for (int k = 0; k < 2; k++)
		for (int n = 0; n < ORDERS && !check_failed; n++) {
			order_of_calls(&p, k, n, LENGTH);
			if (n % 100 == 99)
				CHECK(hold_same(p.s[k], p.dir[k]));
			if (n % 100 != 49)
				continue;
			epd_shard_close(p.s[k]);
			CHECK_INT(hold_open(&p.s[k], p.dir[k], p.procs), 0);
		}
	CHECK(both_same(&p));
	pair_close(&p);
}

/* What nobody may do to a state that a half has pinned. */
static void
pinned(struct pair *p, int k, uint32_t id, uint32_t at)
{
	struct epd_fork_ask f = { .state = id, .branches = 1 };
	struct epd_handoff other = p->half[S];
	struct epd_why why = { "" };
	uint64_t lease = 0, lsn = epd_shard_lsn(p->s[k]);
	struct epd_shard *s = p->s[k];
	struct shard_made m;
	uint32_t v;

	shard_make(&m, 1, 0);
	CHECK_INT(epd_shard_advance(s, id, at, 0, &m.v, &v, &why),
	    EPD_ESTATUS);
	CHECK(strstr(why.text, k == S ? "mid-hand-off" : "RESTORING"));
	CHECK_INT(epd_shard_fork(s, &f, &v, &why), EPD_ESTATUS);
	f.replace = 1;
	CHECK_INT(epd_shard_fork(s, &f, &v, &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_release(s, id, "", NULL, NULL, &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_lease(s, id, 0, EPD_LEASE_DECODE, 1000, &lease,
	    &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_suspect(s, id, "", &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_clear(s, id, "", &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_abort(s, id, "", &why), EPD_ESTATUS);
	other.id[9] ^= 1;
	other.state = id;
	other.version = at;
	CHECK_INT(epd_shard_prepare(s, &other, &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_lsn(s), lsn);
}

TEST(pins)
{
	struct pair p;
	struct epd_why why = { "" };
	uint32_t id, version;
	uint64_t lease;

	CHECK_INT(pair_open(&p), 0);
	/* A lease of before the pin. */
	CHECK_INT(epd_shard_lease(p.s[S], 1, 0, EPD_LEASE_VALIDATION, 600000,
	    &lease, NULL), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	CHECK_INT(ready(&p, &id), 0);
	for (int i = 0; i < 3; i++) {
		struct shard_made m;

		pinned(&p, S, 1, 2);
		pinned(&p, T, id, 1);
		CHECK_INT(epd_shard_advance_leased(p.s[S], lease, 1, 2,
		    shard_make(&m, 1, 0), &version, &why), EPD_ESTATUS);
		CHECK(!check_failed && both_same(&p));
		for (int k = 0; k < 2; k++) {
			epd_shard_close(p.s[k]);
			CHECK_INT(hold_open(&p.s[k], p.dir[k], p.procs), 0);
		}
	}
	CHECK_INT(epd_shard_rollback_at(p.s[S], p.half[S].id, 0, "", NULL), 0);
	CHECK_INT(epd_shard_commit_at(p.s[T], p.half[T].id, 0, NULL), 0);
	CHECK_INT(shard_advance(p.s[S], 1, 2, 0, 1, 0, &version), 0);
	CHECK_INT(shard_advance(p.s[T], id, 1, 0, 1, 0, &version), 0);
	CHECK_INT(epd_shard_suspect(p.s[S], 1, "", NULL), 0);
	CHECK(both_same(&p));
	pair_close(&p);
}

/* What expired is not reclaimed while it is pinned, and is when it is not. */
TEST(time_to_live)
{
	struct epd_state traits = shard_traits(1);
	struct shard_made m;
	struct pair p;
	uint8_t told[256] = { 0 };
	uint32_t id, at;

	epd_clock_fake(&now);
	CHECK_INT(pair_open(&p), 0);
	traits.ttl_deadline_ms = now.wall_ms + 50;
	CHECK_INT(epd_shard_create(p.s[S], &traits, shard_make(&m, 4, 8), &id,
	    NULL), 0);
	halves(&p, 1, id, 1);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	CHECK_INT(epd_shard_ready(p.s[T], &p.half[T], &traits,
	    shard_make(&m, 4, 8), &at, NULL), 0);
	now.wall_ms += 50;
	for (int k = 0; k < 2; k++) {
		CHECK_INT(epd_shard_expire(p.s[k], hold_freed, told, NULL), 0);
		CHECK_INT(hold_nodes(p.s[k]), k == S ? 3 : 2);
		CHECK_INT(status(&p, k, 2), 0);
	}
	CHECK(!told[8] && both_same(&p));
	/* Over is over for who would begin. */
	p.half[S].id[8] ^= 1;
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), EPD_ENOSTATE);
	p.half[S].id[8] ^= 1;
	CHECK_INT(epd_shard_rollback_at(p.s[S], p.half[S].id, 0, "", NULL), 0);
	CHECK_INT(epd_shard_expire(p.s[S], hold_freed, told, NULL), 1);
	CHECK_INT(told[8], 1);
	CHECK_INT(epd_shard_commit_at(p.s[T], p.half[T].id, 0, NULL), 0);
	CHECK_INT(epd_shard_expire(p.s[T], hold_freed, told, NULL), 1);
	CHECK_INT(told[8], 2);
	CHECK(both_same(&p));
	pair_close(&p);
	epd_clock_fake(NULL);
}

TEST(rolled_back_leaves_nothing)
{
	struct pair p;
	uint64_t a, b;
	uint8_t told[256] = { 0 };
	uint32_t id;

	CHECK_INT(pair_open(&p), 0);
	a = hold_hash(p.s[S]);
	b = hold_hash(p.s[T]);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
		CHECK_INT(ready(&p, &id), 0);
		CHECK_INT(id, 2 + i);
		CHECK(hold_hash(p.s[S]) != a && hold_hash(p.s[T]) != b);
		if (i == 1)
			CHECK(both_same(&p));
		CHECK_INT(epd_shard_rollback_at(p.s[T], p.half[T].id, 0, "",
		    NULL), 0);
		CHECK_INT(epd_shard_rollback_at(p.s[S], p.half[S].id, 0, "",
		    NULL), 0);
		CHECK(hold_hash(p.s[S]) == a && hold_hash(p.s[T]) == b);
		epd_shard_tell(p.s[T], hold_freed, told);
		for (int k = 30; k < 39; k++)
			CHECK_INT(told[k], k < 33 + 3 * i);
	}
	epd_shard_tell(p.s[S], hold_freed, told);
	CHECK(!told[5] && !told[6]);
	CHECK(both_same(&p));
	pair_close(&p);
}

TEST(adopting_raises_the_term)
{
	struct pair p;
	struct epd_shard *r;
	char text[600] = "";
	uint32_t id;

	CHECK_INT(pair_open(&p), 0);
	CHECK_INT(shard_open(&r, p.dir[T], 1), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	CHECK_INT(epd_shard_adopt(p.s[S], p.half[S].id, "", NULL),
	    EPD_ESTATUS);
	CHECK_INT(ready(&p, &id), 0);
	CHECK_INT(epd_shard_term(p.s[T]), 1);
	CHECK_INT(epd_shard_adopt(p.s[T], p.half[T].id, "", NULL), 0);
	CHECK_INT(epd_shard_term(p.s[T]), 2);
	CHECK_INT(phase(&p, T), EPD_ADOPTED);
	CHECK_INT(status(&p, T, id), EPD_ACTIVE);
	CHECK_INT(shard_create(p.s[T], 9, 0, &id), 0);
	CHECK_INT(epd_shard_catch_up(r, NULL), 0);
	CHECK_INT(epd_shard_term(r), 2);
	CHECK_INT(epd_shard_walk(p.s[T], tell_record, text, NULL), 0);
	CHECK(strstr(text, "commit s2@0 1.1 1 \nterm s0@0 0.0 1 \n"
	    "create s3@1 0.0 2 \n"));
	CHECK(both_same(&p));
	/* The source comes back, and commits to it. */
	CHECK_INT(epd_shard_commit_at(p.s[S], p.half[S].id, 0, NULL), 0);
	CHECK_INT(epd_shard_rollback_at(p.s[T], p.half[T].id, 0, "", NULL),
	    EPD_EABORTED);
	epd_shard_close(p.s[T]);
	CHECK_INT(hold_open(&p.s[T], p.dir[T], p.procs), 0);
	CHECK_INT(phase(&p, T), EPD_ADOPTED);
	CHECK_INT(epd_shard_term(p.s[T]), 2);
	halves(&p, 2, 1, 1);
	CHECK_INT(ready(&p, &id), 0);
	CHECK_INT(epd_shard_adopt(p.s[T], p.half[T].id, "", NULL), 0);
	CHECK_INT(epd_shard_term(p.s[T]), 3);
	CHECK_INT(shard_create(p.s[T], 9, 0, &id), 0);
	CHECK_STR(epd_phase_name(EPD_ADOPTED), "ADOPTED");
	CHECK(!epd_phase_name(0) && !epd_phase_name(5));
	CHECK(both_same(&p));
	epd_shard_close(r);
	pair_close(&p);
}

TEST(what_may_not_begin)
{
	struct epd_state traits = shard_traits(1);
	struct epd_why why = { "" };
	struct epd_handoff h;
	struct shard_made m;
	struct pair p;
	char *big = malloc(70000);
	uint32_t id = 77;
	uint64_t lsn, lease;

	memset(big, 'x', 69999);
	big[69999] = '\0';
	CHECK_INT(pair_open(&p), 0);
	h = p.half[S];
	lsn = epd_shard_lsn(p.s[S]);
	h.version = 1;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), EPD_EVERSION);
	CHECK_STR(why.text, "s1: it is at @2, not @1");
	h = p.half[S];
	h.state = 9;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), EPD_ENOSTATE);
	h = p.half[S];
	memset(h.id, 0, 16);
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), -EINVAL);
	CHECK_INT(epd_shard_ready(p.s[T], &h, &traits, shard_make(&m, 1, 0),
	    &id, &why), -EINVAL);
	h = p.half[S];
	h.workflow = big;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), -EINVAL);
	CHECK_INT(epd_shard_ready(p.s[T], &h, &traits, shard_make(&m, 1, 0),
	    &id, &why), EPD_ETOOBIG);
	CHECK_INT(epd_shard_rollback_at(p.s[S], h.id, 0, big, &why),
	    EPD_ETOOBIG);
	CHECK_INT(id, 77);
	CHECK_INT(epd_shard_lsn(p.s[S]), lsn);
	CHECK_INT(epd_shard_lease(p.s[S], 1, 0, EPD_LEASE_DECODE, 600000,
	    &lease, NULL), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], &why), EPD_ELOCKED);
	CHECK_INT(epd_shard_drop(p.s[S], lease, "", NULL), 0);
	CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], &why), 0);
	lsn = epd_shard_lsn(p.s[S]);
	/* Again with another deadline is the same, else it is another. */
	h = p.half[S];
	h.deadline_ms++;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), 0);
	h.version = 1;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), EPD_ESTATUS);
	CHECK_STR(why.text, "another hand-off has this id");
	h = p.half[S];
	h.peer[0] ^= 1;
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), EPD_ESTATUS);
	h = p.half[S];
	h.workflow = "w3";
	CHECK_INT(epd_shard_prepare(p.s[S], &h, &why), EPD_ESTATUS);
	/* Not both halves in one workflow under one id. */
	CHECK_INT(epd_shard_ready(p.s[S], &p.half[T], &traits,
	    shard_make(&m, 1, 0), &id, &why), EPD_ESTATUS);
	CHECK_INT(ready(&p, &id), 0);
	h = p.half[S];
	h.state = 1;
	h.version = 1;
	CHECK_INT(epd_shard_prepare(p.s[T], &h, &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_lsn(p.s[S]), lsn);
	CHECK(both_same(&p));
	free(big);
	pair_close(&p);
}

TEST(halves_in_their_order)
{
	struct epd_handoff h = { .lsn = 0 };
	struct pair p;
	uint32_t id;

	CHECK_INT(pair_open(&p), 0);
	for (int n = 1; n <= 5; n++) {
		CHECK_INT(shard_create(p.s[S], 9, 0, &id), 0);
		halves(&p, n, id, 1);
		CHECK_INT(epd_shard_prepare(p.s[S], &p.half[S], NULL), 0);
	}
	halves(&p, 3, 0, 0);
	CHECK_INT(epd_shard_rollback_at(p.s[S], p.half[S].id, 0, "", NULL), 0);
	halves(&p, 1, 0, 0);
	CHECK_INT(epd_shard_commit_at(p.s[S], p.half[S].id, 0, NULL), 0);
	for (int n = 1; n <= 5; n++) {
		if (n == 3)
			continue;
		CHECK_INT(epd_shard_handoff_next(p.s[S], h.lsn, &h), 0);
		CHECK_INT(h.id[0], n);
		CHECK_INT(h.phase, n == 1 ? EPD_COMMITTED : EPD_PREPARED);
	}
	CHECK_INT(epd_shard_handoff_next(p.s[S], h.lsn, &h), -ENOENT);
	CHECK(both_same(&p));
	pair_close(&p);
}

/* ---- crashes ---- */

enum { STEPS = 7 };

/* The way through: the k-th call, at which half. */
static int
step(struct pair *p, int k, uint32_t *id)
{
	switch (k) {
	case 0: return epd_shard_prepare(p->s[S], &p->half[S], NULL);
	case 1: return ready(p, id);
	case 2: return epd_shard_commit_at(p->s[S], p->half[S].id, 0, NULL);
	case 3: return epd_shard_commit_at(p->s[T], p->half[T].id, 0, NULL);
	case 4: return epd_shard_forget_at(p->s[S], p->half[S].id, 0, NULL);
	default: return epd_shard_forget_at(p->s[T], p->half[T].id, 0, NULL);
	}
}

/*
 * What whoever comes after makes of two halves.  A source alone goes back; on
 * is what one that found the target ready would do.
 */
static int
finish(struct pair *p, int on)
{
	const uint8_t *id = p->half[S].id;
	int a = phase(p, S), b = phase(p, T), rc = 0;

	if (a == EPD_PREPARED && b == EPD_READY && on)
		rc = epd_shard_commit_at(p->s[S], id, 0, NULL);
	else if (a == EPD_PREPARED && (b == EPD_ADOPTED ||
	    b == EPD_COMMITTED))
		rc = epd_shard_commit_at(p->s[S], id, 0, NULL);
	else if (a == EPD_PREPARED)
		rc = epd_shard_rollback_at(p->s[S], id, 0, "", NULL);
	a = phase(p, S);
	if (!rc && b == EPD_READY)
		rc = a == EPD_COMMITTED ?
		    epd_shard_commit_at(p->s[T], id, 0, NULL) :
		    epd_shard_rollback_at(p->s[T], id, 0, "", NULL);
	if (!rc)
		rc = epd_shard_forget_at(p->s[S], id, 0, NULL);
	return rc ? rc : epd_shard_forget_at(p->s[T], id, 0, NULL);
}

/* As a crash may have left both; on: see finish. */
static void
recovered(struct pair *p, struct shard_image im[2], int old_tip[2],
    struct shard_image before[2], int on)
{
	struct pair q = *p;
	int owners;

	for (int k = 0; k < 2; k++) {
		q.dir[k] = scratch_open();
		CHECK_INT(shard_lay(&im[k], q.dir[k]), 0);
		if (old_tip[k]) {
			struct shard_file *f = shard_file(&before[k], "tip");

			CHECK_INT(shard_put(q.dir[k], "tip", f->data.p,
			    f->data.n), 0);
		}
		CHECK_INT(hold_open(&q.s[k], q.dir[k], p->procs), 0);
	}
	CHECK_INT(finish(&q, on), 0);
	owners = (status(&q, S, 1) == EPD_ACTIVE) +
	    (status(&q, T, 2) == EPD_ACTIVE);
	CHECK_INT(owners, 1);
	CHECK_INT(status(&q, S, 1) + status(&q, T, 2), EPD_ACTIVE);
	CHECK(!phase(&q, S) && !phase(&q, T));
	CHECK(both_same(&q));
	for (int k = 0; k < 2; k++) {
		epd_shard_close(q.s[k]);
		scratch_close(q.dir[k]);
	}
}

TEST(a_crash_behind_every_record)
{
	static struct shard_image at[STEPS][2];
	int none[2] = { 0, 0 };
	struct pair p;
	uint32_t id;

	for (int adopts = 0; adopts < 2; adopts++) {
		CHECK_INT(pair_open(&p), 0);
		for (int i = 0; i < STEPS; i++) {
			CHECK_INT(!i ? 0 : i == 3 && adopts ? epd_shard_adopt(
			    p.s[T], p.half[T].id, "", NULL) :
			    step(&p, i - 1, &id), 0);
			CHECK_INT(shard_grab(&at[i][S], p.dir[S]), 0);
			CHECK_INT(shard_grab(&at[i][T], p.dir[T]), 0);
			if (adopts && i > 2)
				break;
		}
		for (int i = 0; i < (adopts ? 4 : STEPS); i++)
			for (int on = 0; on < 2 && !check_failed; on++) {
				int tips[2] = { i > 0 && on, i > 0 && on };

				/* With the tips of before, too. */
				recovered(&p, at[i], none, at[i], on);
				if (i > 0 && !check_failed)
					recovered(&p, at[i], tips, at[i - 1],
					    on);
				if (check_failed)
					printf("# behind record %d, on %d, "
					    "adopts %d\n", i, on, adopts);
			}
		for (int i = 0; i < (adopts ? 4 : STEPS); i++) {
			shard_image_free(&at[i][S]);
			shard_image_free(&at[i][T]);
		}
		pair_close(&p);
	}
}

/* A log cut anywhere in a hand-off: the half is where its last record is. */
TEST(cut_anywhere)
{
	struct shard_image im = { .n = 0 };
	struct shard_file *log;
	struct pair p;
	off_t n[5];
	struct stat st;
	int last = 0, seen[5] = { 0 };

	CHECK_INT(pair_open(&p), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(fstatat(p.dir[S], "log.00000001", &st, 0), 0);
		n[i] = st.st_size;
		CHECK_INT(i == 0 ? epd_shard_prepare(p.s[S], &p.half[S],
		    NULL) : i == 1 ? epd_shard_commit_at(p.s[S],
		    p.half[S].id, 0, NULL) : i == 2 ? epd_shard_forget_at(
		    p.s[S], p.half[S].id, 0, NULL) : 0, 0);
	}
	CHECK_INT(shard_grab(&im, p.dir[S]), 0);
	epd_shard_close(p.s[S]);
	log = shard_file(&im, "log.00000001");
	for (off_t at = n[0]; at <= (off_t)log->data.n; at++) {
		int k = at < n[1] ? 0 : at < n[2] ? 1 : at < n[3] ? 2 : 3;

		CHECK_INT(shard_lay(&im, p.dir[S]), 0);
		CHECK_INT(shard_put(p.dir[S], "log.00000001", log->data.p,
		    (size_t)at), 0);
		CHECK_INT(unlinkat(p.dir[S], "tip", 0), 0);
		CHECK_INT(hold_open(&p.s[S], p.dir[S], p.procs), 0);
		CHECK_INT(phase(&p, S), k == 1 ? EPD_PREPARED : k == 2 ?
		    EPD_COMMITTED : 0);
		CHECK_INT(status(&p, S, 1), k < 2 ? EPD_ACTIVE : 0);
		CHECK_INT(epd_shard_check(p.s[S], shard_fault_print, NULL,
		    NULL), 0);
		epd_shard_close(p.s[S]);
		seen[k]++;
		last = k;
	}
	CHECK(last == 3 && seen[0] && seen[1] && seen[2] && seen[3]);
	CHECK_INT(shard_lay(&im, p.dir[S]), 0);
	CHECK_INT(hold_open(&p.s[S], p.dir[S], p.procs), 0);
	shard_image_free(&im);
	pair_close(&p);
}

/* Payloads that contradict themselves, and payloads cut short. */
static int
taken(const struct epd_buf *b, size_t less, int kind)
{
	struct epd_span p = epd_span(b->p + EPD_RECORD_HEAD,
	    b->n - EPD_RECORD_HEAD - less);
	struct epd_create create;
	struct epd_handoff h;
	struct epd_drop d;
	struct epd_lease l;
	struct epd_move m;

	switch (kind) {
	case EPD_KIND_LEASE: return epd_lease_unpack(p, &l);
	case EPD_KIND_DROP: return epd_drop_unpack(p, &d);
	case EPD_KIND_PREPARE: return epd_prepare_unpack(p, &h);
	case EPD_KIND_READY: return epd_ready_unpack(p, &h, &create);
	default: return epd_move_unpack(p, (enum epd_kind)kind, &m);
	}
}

/* The body behind a payload is whatever is left. */
static void
whole_but(struct epd_buf *b, int kind, int rc, size_t body)
{
	CHECK_INT(taken(b, 0, kind), rc);
	for (size_t less = body + 1; less <= b->n - EPD_RECORD_HEAD; less++)
		CHECK_INT(taken(b, less, kind), EPD_ECORRUPT);
	epd_pack_u8(b, 0);
	if (kind != EPD_KIND_READY)
		CHECK_INT(taken(b, 0, kind), EPD_ECORRUPT);
	b->n = 0;
}

static void
whole(struct epd_buf *b, int kind, int rc)
{
	whole_but(b, kind, rc, 0);
}

TEST(payloads)
{
	struct epd_lease l = { .state = 1, .version = 1, .kind = 5 };
	struct epd_drop d = { .lease = 3, .reason = "" };
	struct epd_move m = { .id = 1, .to = EPD_ACTIVE, .reason = "" };
	struct epd_handoff h = { .id = { 1 }, .phase = EPD_PREPARED };
	struct epd_state st = shard_traits(1);
	struct epd_buf b = { 0 };
	struct shard_made made;

	epd_lease_pack(&b, &l);
	whole(&b, EPD_KIND_LEASE, 0);
	l.kind = 6;
	epd_lease_pack(&b, &l);
	whole(&b, EPD_KIND_LEASE, EPD_ECORRUPT);
	epd_drop_pack(&b, &d);
	whole(&b, EPD_KIND_DROP, 0);
	d.handoff[4] = 1;
	epd_drop_pack(&b, &d);
	whole(&b, EPD_KIND_DROP, EPD_ECORRUPT);
	d.lease = 0;
	epd_drop_pack(&b, &d);
	whole(&b, EPD_KIND_DROP, 0);
	d.handoff[4] = 0;
	epd_drop_pack(&b, &d);
	whole(&b, EPD_KIND_DROP, EPD_ECORRUPT);
	for (int to = 0; to < 9; to++) {
		m.to = (enum epd_status)to;
		epd_move_pack(&b, EPD_KIND_ABORT, &m);
		whole(&b, EPD_KIND_ABORT, to < 1 || to > 7 ? EPD_ECORRUPT : 0);
	}
	m.to = EPD_ACTIVE;
	m.adopted = 2;
	epd_move_pack(&b, EPD_KIND_COMMIT, &m);
	whole(&b, EPD_KIND_COMMIT, EPD_ECORRUPT);
	epd_prepare_pack(&b, &h);
	whole(&b, EPD_KIND_PREPARE, 0);
	for (int phase = 0; phase < 6; phase++) {
		h.phase = (enum epd_phase)phase;
		epd_prepare_pack(&b, &h);
		whole(&b, EPD_KIND_PREPARE, phase == EPD_PREPARED ? 0 :
		    EPD_ECORRUPT);
	}
	h.phase = EPD_PREPARED;
	h.target = 1;
	epd_prepare_pack(&b, &h);
	whole(&b, EPD_KIND_PREPARE, EPD_ECORRUPT);
	h.target = 0;
	h.id[0] = 0;
	epd_prepare_pack(&b, &h);
	whole(&b, EPD_KIND_PREPARE, EPD_ECORRUPT);
	h = (struct epd_handoff){ .id = { 1 }, .phase = EPD_READY,
	    .target = 1, .state = 5, .version = 1 };
	epd_ready_pack(&b, &h, 5, &st, shard_make(&made, 1, 0));
	whole_but(&b, EPD_KIND_READY, 0, epd_body_size(&made.v));
	epd_ready_pack(&b, &h, 6, &st, &made.v);
	whole_but(&b, EPD_KIND_READY, EPD_ECORRUPT, epd_body_size(&made.v));
	h.version = 2;
	epd_ready_pack(&b, &h, 5, &st, &made.v);
	whole_but(&b, EPD_KIND_READY, EPD_ECORRUPT, epd_body_size(&made.v));
	epd_buf_free(&b);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
