/* shard_life.c - the life cycles: the table, what obeys it, what breaks it. */
#include "shard/shard_in.h"
#include "shard/wal_in.h"
#include "tests/unit/shard_life.h"

#define R_STATE(from, to) { EPD_STATE_##from, EPD_STATE_##to }
#define R_PAGE(from, to) { EPD_PAGE_##from, EPD_PAGE_##to }

/* The diagrams of the RFC, edge by edge. */
static const int r_state[][2] = {
	R_STATE(NONE, ACTIVE), R_STATE(ACTIVE, SHARED),
	R_STATE(ACTIVE, OFFLOADING), R_STATE(OFFLOADING, RESTORING),
	R_STATE(RESTORING, ACTIVE), R_STATE(ACTIVE, FREE),
	R_STATE(SHARED, FREE), R_STATE(ACTIVE, ABORTED), R_STATE(ABORTED, FREE),
};
static const int r_page[][2] = {
	R_PAGE(ALLOCATED, SEALED), R_PAGE(SEALED, REFERENCED),
	R_PAGE(REFERENCED, COW_PRIVATE), R_PAGE(REFERENCED, EVICTING),
	R_PAGE(EVICTING, EVICTED), R_PAGE(EVICTED, RESTORED),
	R_PAGE(RESTORED, REFERENCED), R_PAGE(REFERENCED, FREED),
};

TEST(the_table_has_the_diagrams)
{
	int found = 0;

	for (size_t k = 0; k < sizeof r_state / sizeof *r_state; k++)
		for (int i = 0; i < epd_state_nmoves; i++)
			found += (int)epd_state_moves[i].from == r_state[k][0] &&
			    (int)epd_state_moves[i].to == r_state[k][1] &&
			    !epd_state_moves[i].ours;
	CHECK_INT(found, sizeof r_state / sizeof *r_state);
	found = 0;
	for (int i = 0; i < epd_state_nmoves; i++)
		found += !epd_state_moves[i].ours;
	CHECK_INT(found, sizeof r_state / sizeof *r_state);
	for (size_t k = 0; k < sizeof r_page / sizeof *r_page; k++)
		CHECK(epd_life_page((enum epd_page_life)r_page[k][0],
		    (enum epd_page_life)r_page[k][1]) &&
		    !epd_life_page((enum epd_page_life)r_page[k][0],
		    (enum epd_page_life)r_page[k][1])->ours);
	for (int i = 0; i < epd_page_nmoves; i++)
		found -= !epd_page_moves[i].ours;
	CHECK_INT(found, 1);
}

/* ACTIVE stands for SHARED in the tables: the same verbs lead out of both. */
TEST(shared_leaves_as_active_does)
{
	for (int i = 0; i < epd_state_nmoves; i++) {
		const struct epd_state_move *m = &epd_state_moves[i];
		enum epd_state_life to = m->to;

		CHECK(strlen(m->reason) > 4);
		/* All but a fork leave each what it was. */
		if (m->from == EPD_STATE_SHARED && to == EPD_STATE_SHARED &&
		    m->verb != EPD_KIND_FORK)
			to = EPD_STATE_ACTIVE;
		if (m->from == EPD_STATE_SHARED && m->to != EPD_STATE_ACTIVE)
			CHECK(epd_life_state(EPD_STATE_ACTIVE, to, m->verb));
		if (m->from == EPD_STATE_ACTIVE)
			CHECK(epd_life_state(EPD_STATE_SHARED,
			    to == EPD_STATE_ACTIVE ? EPD_STATE_SHARED : to,
			    m->verb));
		/* No move twice. */
		CHECK(epd_life_state(m->from, m->to, m->verb) == m);
	}
}

/*
 * The moves once more, by verb; who changes life.h says so here too.  None,
 * Active, Shared, Moving out, Out, Restoring, Doubtful, aBorted, Free.
 */
static const char letters[] = "NASMORDBF";
static const struct { enum epd_kind verb; const char *moves; } by_verb[] = {
	{ EPD_KIND_CREATE, "NA" },
	{ EPD_KIND_ADVANCE, "AA SS" },
	{ EPD_KIND_FORK, "NS AS SS AF SF" },
	{ EPD_KIND_RELEASE, "SA AF SF MF OF RF BF" },
	{ EPD_KIND_WAIT, "AA SS MM OO" },
	{ EPD_KIND_OFFLOAD, "AM SM MO" },
	{ EPD_KIND_RESTORE, "MR OR RR RA DA" },
	{ EPD_KIND_SUSPECT, "AD SD" },
	{ EPD_KIND_ABORT, "AB SB MB OB DB AA SS RF" },
	{ EPD_KIND_PREPARE, "AA SS" },
	{ EPD_KIND_READY, "NR" },
	{ EPD_KIND_COMMIT, "AF SF RA" },
};

TEST(each_verb_has_its_moves)
{
	int n = 0;

	for (size_t k = 0; k < sizeof by_verb / sizeof *by_verb; k++)
		for (const char *m = by_verb[k].moves; *m; m += m[2] ? 3 : 2) {
			const char *from = strchr(letters, m[0]);
			const char *to = strchr(letters, m[1]);

			if (!epd_life_state((enum epd_state_life)(from -
			    letters), (enum epd_state_life)(to - letters),
			    by_verb[k].verb))
				CHECK_FAIL("%s: no move %.2s",
				    epd_kind_name(by_verb[k].verb), m);
			n++;
		}
	CHECK_INT(epd_state_nmoves, n);
}

/* Each life is led to from NONE, and leads to FREE, which is the end. */
TEST(every_life_begins_and_ends)
{
	unsigned begun = 1u << EPD_STATE_NONE, ends = 1u << EPD_STATE_FREE;

	for (int round = 0; round < EPD_STATE_FREE; round++)
		for (int i = 0; i < epd_state_nmoves; i++) {
			const struct epd_state_move *m = &epd_state_moves[i];

			if (begun >> m->from & 1)
				begun |= 1u << m->to;
			if (ends >> m->to & 1)
				ends |= 1u << m->from;
			CHECK(m->from != EPD_STATE_FREE);
			CHECK(m->to != EPD_STATE_NONE);
		}
	CHECK_INT(begun, (1u << (EPD_STATE_FREE + 1)) - 1);
	CHECK_INT(ends, begun);
}

TEST(names)
{
	CHECK_STR(epd_status_name(EPD_OFFLOADED), "OFFLOADED");
	CHECK_STR(epd_status_name(EPD_FREE), "FREE");
	CHECK_STR(epd_status_name(0), "?");
	CHECK_STR(epd_state_life_name(EPD_STATE_SHARED), "SHARED");
	CHECK_STR(epd_page_life_name(EPD_PAGE_COW_PRIVATE), "COW_PRIVATE");
}

TEST(sequences)
{
	const unsigned n = SHARD_SLOW ? 60 : 1000;

	for (uint64_t seed = 1; seed <= n && !check_failed; seed++)
		life_play(seed, seed > 60 ? 60 : 80);
	CHECK_INT(life_all.sequences, n);
	/*
	 * All but what a branch or a branch's end brings along, and a restore that
	 * goes on for one who died, which is tried on one who lives.
	 */
	CHECK_INT(life_made(), 40);
	life_tell();
}

/* Append a record past all validation, as a faulty program would. */
static int
forge(int dir, uint16_t kind, const void *p, size_t n)
{
	struct epd_buf b = { 0 };
	struct epd_wal *w;
	int rc = epd_wal_open(&w, dir, 0, NULL);

	if (rc)
		return rc;
	rc = epd_wal_seek(w, 1, 0, NULL);
	if (!rc)
		rc = epd_wal_adopt(w, epd_wal_pass, NULL, NULL);
	epd_frame_begin(&b);
	epd_pack_u16(&b, kind);
	epd_pack_u16(&b, 0);
	epd_pack_span(&b, epd_span(p, n));
	if (!rc)
		rc = epd_wal_append(w, &b, 1, 1, 1, NULL);
	epd_wal_close(w);
	epd_buf_free(&b);
	return rc;
}

/* A folder with one state, a forged record, and how it opens. */
static int
forged(uint16_t kind, const void *p, size_t n, struct epd_why *why)
{
	struct epd_shard_options o = shard_plain;
	int dir = scratch_open(), rc;
	struct epd_shard *s;
	uint32_t id;

	rc = shard_open(&s, dir, 0) || shard_create(s, 1, 0, &id);
	epd_shard_close(s);
	if (!rc)
		rc = forge(dir, kind, p, n);
	if (rc)
		return rc;
	rc = epd_shard_open(&s, dir, &o, why);
	if (!rc)
		epd_shard_close(s);
	scratch_close(dir);
	return rc;
}

TEST(every_kind_has_a_verb_and_others_are_refused_by_number)
{
	struct epd_why why;

	for (uint16_t k = EPD_KIND_CREATE; k <= EPD_KIND_TERM; k++)
		CHECK_INT(forged(k, "", 0, &why), EPD_ECORRUPT);
	CHECK_INT(forged(99, "", 0, &why), EPD_EKIND);
	CHECK_STR(why.text, "record kind 99: record 2: unknown");
}

TEST(records_that_break_the_rules_are_refused)
{
	static const uint8_t gone[] = { 7, 0, 0, 0, 1, 0, 0, 0, 0 };
	static const uint8_t here[] = { 1, 0, 0, 0, 1, 0, 0, 0, 0 };
	static const uint8_t unended[] = { 1, 0, 0, 0, 1, 0, 0, 0, 'x' };
	static const uint8_t term[] = { 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 };
	static const uint8_t above[] = { 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 };
	struct epd_why why;

	CHECK_INT(forged(EPD_KIND_RELEASE, here, sizeof here, &why), 0);
	CHECK_INT(forged(EPD_KIND_RELEASE, gone, sizeof gone, &why),
	    EPD_ECORRUPT);
	CHECK_STR(why.text, "record 2: release: s7: no such state");
	CHECK_INT(forged(EPD_KIND_RELEASE, unended, sizeof unended, &why),
	    EPD_ECORRUPT);
	CHECK_INT(forged(EPD_KIND_RELEASE, here, 8, &why), EPD_ECORRUPT);
	CHECK_INT(forged(EPD_KIND_CREATE, here, sizeof here, &why),
	    EPD_ECORRUPT);
	CHECK_INT(forged(EPD_KIND_TERM, term, sizeof term, &why), EPD_ECORRUPT);
	CHECK_INT(forged(EPD_KIND_TERM, above, sizeof above, &why), 0);
}

static void
keep_fault(void *arg, const char *text)
{
	snprintf(arg, 240, "%s", text);
}

TEST(check_finds_what_is_wrong)
{
	int dir = scratch_open();
	struct epd_shard *s;
	char text[240] = "";
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(shard_create(s, 2, 6, &id), 0);
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 0);
	/* A holder too many, then one too few. */
	CHECK_INT(epd_tree_hold(s->table->tree, 1), 0);
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 2);
	CHECK_STR(text, "node 1: counts 2 holders, has 1");
	epd_tree_drop(s->table->tree, 1);
	s->table->head[1]->state.status = EPD_SUSPECT;
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 1);
	CHECK_STR(text, "s2: is not what the replay gives");
	s->table->head[1]->state.status = EPD_ACTIVE;
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 0);
	/* Two nodes with one run, and the same run again when both are gone. */
	CHECK_INT(shard_create(s, 3, 6, &id), 0);
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 1);
	CHECK(strstr(text, "run 0000000000000006: no move from REFERENCED to "
	    "REFERENCED"));
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(epd_shard_release(s, 1, "", NULL, NULL, NULL), 0);
	CHECK_INT(shard_create(s, 3, 5, &id), 0);
	CHECK_INT(epd_shard_check(s, keep_fault, text, NULL), 2);
	epd_shard_close(s);
	scratch_close(dir);
}

/* ---- what may be done to a state in each status ---- */

static int
try_advance(struct epd_shard *s, struct epd_why *why)
{
	struct shard_made m;
	uint32_t version;

	return epd_shard_advance(s, 1, 1, 0, shard_make(&m, 1, 0), &version,
	    why);
}

static int
try_fork(struct epd_shard *s, struct epd_why *why)
{
	struct epd_fork_ask f = { .state = 1, .branches = 2 };
	uint32_t first;

	return epd_shard_fork(s, &f, &first, why);
}

static int
try_replace(struct epd_shard *s, struct epd_why *why)
{
	struct epd_fork_ask f = { .state = 1, .branches = 2, .replace = 1 };
	uint32_t first;

	return epd_shard_fork(s, &f, &first, why);
}

static int
try_release(struct epd_shard *s, struct epd_why *why)
{
	return epd_shard_release(s, 1, "", NULL, NULL, why);
}

static int
try_prepare(struct epd_shard *s, struct epd_why *why)
{
	struct epd_handoff h = { .id = "an id", .state = 1, .version = 1 };

	return epd_shard_prepare(s, &h, why);
}

static int
try_suspect(struct epd_shard *s, struct epd_why *why)
{
	return epd_shard_suspect(s, 1, "", why);
}

static int
try_clear(struct epd_shard *s, struct epd_why *why)
{
	return epd_shard_clear(s, 1, "", why);
}

static int
try_abort(struct epd_shard *s, struct epd_why *why)
{
	return epd_shard_abort(s, 1, "", why);
}

static int
try_wait(struct epd_shard *s, struct epd_why *why)
{
	return epd_shard_wait(s, 1, "search", 0, "", why);
}

/* In which statuses each may be tried: 1 for each of them, in their order. */
static const struct {
	int (*verb)(struct epd_shard *s, struct epd_why *why);
	const char *name, *may;
} tries[] = {
	{ try_advance, "advance", "100000" },
	{ try_fork, "fork", "100000" },
	{ try_replace, "fork", "100000" },
	{ try_release, "release", "111101" },
	{ try_prepare, "prepare", "100000" },
	{ try_suspect, "suspect", "100000" },
	{ try_clear, "restore", "000110" },
	{ try_abort, "abort", "111010" },
	{ try_wait, "wait", "111000" },
};

TEST(a_status_refuses_and_allows)
{
	for (size_t k = 0; k < sizeof tries / sizeof *tries; k++)
		for (int status = EPD_ACTIVE; status < EPD_FREE; status++) {
			int dir = scratch_open(), rc;
			struct epd_why why = { "" };
			struct epd_shard *s;
			char text[80];
			uint32_t id;

			CHECK_INT(shard_open(&s, dir, 0), 0);
			CHECK_INT(shard_create(s, 1, 5, &id), 0);
			s->table->head[0]->state.status =
			    (enum epd_status)status;
			rc = tries[k].verb(s, &why);
			if ((rc == 0) != (tries[k].may[status - 1] == '1'))
				CHECK_FAIL("%s of a %s state is %d: %s",
				    tries[k].name, epd_status_name(
				    (enum epd_status)status), rc, why.text);
			snprintf(text, sizeof text, "s1: no %s of what "
			    "is %s", tries[k].name, epd_status_name(
			    (enum epd_status)status));
			CHECK_INT(rc, rc ? EPD_ESTATUS : 0);
			CHECK_STR(why.text, rc ? text : "");
			CHECK_INT(epd_shard_lsn(s), rc ? 1 : 2);
			epd_shard_close(s);
			scratch_close(dir);
		}
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
