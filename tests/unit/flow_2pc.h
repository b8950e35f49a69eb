/*
 * flow_2pc.h - the matrix of a hand-off: every call of a driver that changes a
 * file, times what may befall drivers and stores there.  Whatever it is, there is
 * one owner in the end, who has all of the state, and nothing else is left.
 *
 * A cell is a branch with a run of its own, offered to a workflow of another
 * store (or the same one).  A driver, which is a process, carries it through, is
 * struck at its nth call, and meanwhile or afterwards others do what the column
 * says.  Then somebody recovers, in one of several ways by turns.
 */
#ifndef TESTS_FLOW_2PC_H
#define TESTS_FLOW_2PC_H

#include <sys/mman.h>

#include "base/clock.h"
#include "tests/unit/flow_stop.h"
#include "tests/unit/flow_hand.h"

enum { CELL_LOCK_MS = 2, CELL_SHORT_MS = 12, CELL_LONG_MS = 600000 };

enum cell_fault {
	KILLED,			/* instead of the call */
	TORN,			/* behind it, half done */
	BOTH_KILLED,		/* frozen, another is killed, then it */
	FROZEN,			/* until its time is over and that was settled */
	WOKEN_LATE,		/* and until another has committed all the same */
	OTHER_ABORTS,		/* frozen while another aborts */
	OTHER_COMMITS,		/* or carries it through */
	FULL_DISK, FAILED_FLUSH,
	FULL_FOR_GOOD, FLUSH_FAILS_FOR_GOOD,
	SOURCE_AWAY, TARGET_AWAY,	/* frozen meanwhile */
	ADOPTED,		/* killed, its source away, a person adopts */
	SHUFFLED,		/* no driver: calls again and in any order */
	CELL_FAULTS,
};
static const char *const cell_names[CELL_FAULTS] = {
	"killed", "killed behind it", "both killed", "frozen past its time",
	"frozen, another commits late", "frozen, another aborts",
	"frozen, another commits", "full disk", "failed flush",
	"disk full for good", "flushes fail for good", "source away",
	"target away", "adopted", "shuffled",
};

/* What a driver says, seen by all. */
struct cell_told {
	struct stop_seen seen;
	int prepared, rc;	/* 1 once begun; of the commit, 1: none yet */
	uint8_t id[16];
	char why[240];
};

/* Who is told what became of it binds all others. */
enum owner { ANYONE, SOURCE_OWNS, TARGET_OWNS };

struct cell {
	struct hand h;
	uint32_t base, state;		/* the branch's */
	int32_t next;			/* what it says next */
	struct epd_name picture;
	int source_states, source_runs, target_runs;
	struct cell_told *told;
	enum owner owner;
	int adopted;		/* that holds, whatever others were told */
	int side;			/* of the driver: 0 the source's store */
	int turn;
	/* the score */
	int cells, good, hits[CELL_FAULTS][2];
};

static int cell_shuffles = 100;
static struct epd_clock_fake cell_future;

static inline void
cell_later(int on)
{
	cell_future.wall_ms = epd_clock_wall_ms() + 3600000;
	cell_future.boot_ns = epd_clock_boot_ns() + UINT64_C(3600000000000);
	epd_clock_fake(on ? &cell_future : NULL);
	stop.hasty = on;
}

static inline void
cell_says(struct cell *c, enum owner o, const char *who, int rc)
{
	if (c->adopted)
		return;
	if (c->owner && c->owner != o) {
		printf("# %s was told %d against what another was\n", who, rc);
		check_failed = 1;
	}
	c->owner = o;
}

static inline void
cell_committed(struct cell *c, const char *who, int rc)
{
	if (rc == 0)
		cell_says(c, TARGET_OWNS, who, rc);
	if (rc == EPD_EABORTED)
		cell_says(c, SOURCE_OWNS, who, rc);
}

static inline void
cell_aborted(struct cell *c, const char *who, int rc)
{
	if (rc == 0)
		cell_says(c, SOURCE_OWNS, who, rc);
	if (rc == EPD_ESTATUS)
		cell_says(c, TARGET_OWNS, who, rc);
}

/* ---- the driver ---- */

/* In a process of its own, on stores that it opens itself. */
static inline void
cell_drive(struct cell *c, int side, int at, enum stop_how how)
{
	const struct kit *k = hand_kit(&c->h, side);
	const struct epd_store_options o = {
		.path = k->store, .config = &k->config,
	};
	const struct epd_offer offer = {
		.state = hand_ref("w1", c->state), .workflow = c->h.to,
		.store = c->h.two ? c->h.t.store : NULL,
		.timeout_ms = c->h.timeout_ms,
	};
	struct epd_why why = {{0}};
	struct epd_handed out;
	struct epd_store *s;

	int rc = epd_store_open(&s, &o, &why);

	if (rc < 0)
		_exit(1);
	stop.seen = &c->told->seen;
	stop_arm(at, how);
	if (!c->told->prepared) {
		rc = epd_flow_handoff_prepare(s, &offer, &out, &why);
		if (rc == 0) {
			memcpy(c->told->id, out.id, 16);
			c->told->prepared = 1;
		}
	}
	if (c->told->prepared)
		rc = epd_flow_handoff_commit(s, c->told->id, &out, &why);
	c->told->rc = rc;
	memcpy(c->told->why, why.text, sizeof why.text);
	stop.how = STOP_NOT;
	epd_store_close(s);
	_exit(0);
}

static inline pid_t
cell_start(struct cell *c, int side, int at, enum stop_how how)
{
	pid_t pid;

	fflush(stdout);
	memset(&c->told->seen, 0, sizeof c->told->seen);
	c->told->rc = 1;
	if ((pid = fork()) == 0)
		cell_drive(c, side, at, how);
	if (pid < 0)
		golden_die("fork", strerror(errno));
	return pid;
}

/* 1 if it stands still, else it has ended. */
static inline int
cell_stands(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WUNTRACED) != pid)
		golden_die("wait", strerror(errno));
	return WIFSTOPPED(status);
}

/* ---- a cell ---- */

/* A branch that has drawn a token into a run of its own. */
static inline void
cell_begin(struct cell *c)
{
	struct kit_said said;

	memset(c->told, 0, sizeof *c->told);
	c->told->rc = 1;
	c->owner = ANYONE;
	c->adopted = 0;
	if (c->h.two && epd_feature_remove(c->h.t.s->features, &c->picture))
		golden_die("feature", "cannot be removed");
	c->state = hand_fork(&c->h.k, c->base, 3);
	if (hand_decode(&c->h.k, "w1", c->state, 1, NULL, &said) < 0)
		golden_die("branch", c->h.k.why.text);
}

/* Pulled, whether or not that was done before. */
static inline int
cell_pull(struct cell *c)
{
	struct epd_handoff half;
	struct epd_workflow w;
	struct epd_pair p;
	int rc = epd_workflow_open(&w, c->h.k.s, "w1", 0, kit_why(&c->h.k));

	if (rc < 0)
		return rc;
	rc = epd_shard_handoff(w.shard, c->told->id, &half);
	if (rc == 0 && (rc = epd_pair_open(&p, c->h.k.s, &w, &half,
	    &c->h.k.why)) == 0) {
		rc = epd_pair_look(&p, &c->h.k.why);
		if (rc == 0 && p.dst.s && p.src.h.phase == EPD_PREPARED)
			rc = epd_pair_pull(&p, &c->h.k.why);
		epd_pair_close(&p);
	}
	epd_workflow_close(&w);
	return rc;
}

static inline void
cell_prepare(struct cell *c)
{
	struct epd_handed out;

	if (hand_prepare(&c->h, c->state, &out) < 0)
		golden_die("prepare", c->h.k.why.text);
	memcpy(c->told->id, out.id, 16);
	c->told->prepared = 1;
}

/* For a driver of the target's: the target is ready, nothing is decided. */
static inline void
cell_ready(struct cell *c)
{
	cell_prepare(c);
	if (cell_pull(c) < 0)
		golden_die("ready", c->h.k.why.text);
}

static int
cell_found(void *arg, const struct epd_handed *h)
{
	struct cell *c = arg;

	memcpy(c->told->id, h->id, 16);
	c->told->prepared = 1;
	return 0;
}

/* The id of one whose driver died before it could say it. */
static inline int
cell_id(struct cell *c)
{
	if (!c->told->prepared)
		(void)epd_flow_handoff_each(c->h.k.s, cell_found, c,
		    kit_why(&c->h.k));
	return c->told->prepared;
}

static inline int
cell_commit(struct cell *c, int side)
{
	struct epd_handed out;
	int rc;

	if (!cell_id(c))
		return 1;
	rc = hand_commit(&c->h, side, c->told->id, &out);
	cell_committed(c, side ? "commit there" : "commit here", rc);
	return rc;
}

static inline int
cell_abort(struct cell *c, int side)
{
	int rc;

	if (!cell_id(c))
		return 1;
	rc = hand_abort(&c->h, side, c->told->id);
	cell_aborted(c, side ? "abort there" : "abort here", rc);
	return rc;
}

/* By turns, who comes first after it and what for. */
static inline void
cell_recover(struct cell *c)
{
	const int side = c->turn / 5 % 2;

	switch (c->turn++ % 5) {
	case 0: cell_commit(c, side); break;
	case 1: cell_abort(c, side); break;
	case 2:
		cell_commit(c, side);
		cell_commit(c, !side);
		cell_abort(c, side);
		break;
	case 3: hand_settle(&c->h, side); break;
	default: break;
	}
	cell_later(1);
	hand_settle(&c->h, side);
	hand_settle(&c->h, !side);
	hand_settle(&c->h, side);
	cell_later(0);
}

static int
cell_temporary(void *arg, const char *name)
{
	*(int *)arg += !strncmp(name, EPD_TEMP_PREFIX,
	    strlen(EPD_TEMP_PREFIX));
	return 0;
}

/* What a sweep ought to have taken. */
static inline int
cell_leftovers(struct cell *c, int target)
{
	struct kit *k = hand_kit(&c->h, target);
	char path[40];
	int n = 0, fd;

	snprintf(path, sizeof path, "w/%s", hand_workflow(&c->h, target));
	fd = epd_file_open(k->s->dirfd, path, O_RDONLY | O_DIRECTORY, 0);
	epd_dir_each(k->s->dirfd, cell_temporary, &n);
	epd_dir_each(k->s->workflows, cell_temporary, &n);
	if (fd >= 0) {
		epd_dir_each(fd, cell_temporary, &n);
		close(fd);
	}
	return n;
}

static inline int
cell_books(struct cell *c, const struct hand_log *s, const struct hand_log *t)
{
	const int owners = s->active - c->source_states + t->active;
	int ok = 1;

	ok &= owners == 1;
	ok &= s->states + t->states == c->source_states + 1;
	ok &= c->owner == ANYONE || (c->owner == TARGET_OWNS) == t->active;
	ok &= !s->handoffs && !t->handoffs && !s->leases && !t->leases;
	ok &= !s->faults && !t->faults;
	if (!ok)
		printf("# %d here, %d there (%d), %d and %d halves, told %d, "
		    "driver %d (%s)\n", s->active - c->source_states,
		    t->active, t->states, s->handoffs, t->handoffs,
		    (int)c->owner, c->told->rc, c->told->why);
	return ok;
}

/* The owner goes on as if nothing had been, and is let go. */
static inline int
cell_goes_on(struct cell *c, int target, uint32_t state)
{
	struct kit *k = hand_kit(&c->h, target);
	const struct epd_ref ref = hand_ref(hand_workflow(&c->h, target),
	    state);
	struct kit_said said;
	int rc = hand_decode(k, ref.workflow, state, 1, NULL, &said);

	if (rc == 0 && said.id[0] != c->next)
		printf("# it says %d, not %d\n", said.id[0], c->next);
	if (rc < 0)
		printf("# the owner: %s\n", k->why.text);
	return rc == 0 && said.id[0] == c->next &&
	    epd_flow_release(k->s, &ref, "test", kit_why(k)) == 0;
}

static inline int
cell_swept(struct cell *c)
{
	struct epd_swept swept;
	int ok;

	cell_later(1);
	ok = epd_flow_gc(c->h.k.s, &swept, kit_why(&c->h.k)) == 0 &&
	    (!c->h.two || epd_flow_gc(c->h.t.s, &swept,
	    kit_why(&c->h.t)) == 0);
	cell_later(0);
	if (!ok)
		printf("# gc: %s %s\n", c->h.k.why.text, c->h.t.why.text);
	if (hand_runs(&c->h, 0) != c->source_runs ||
	    hand_runs(&c->h, 1) != c->target_runs ||
	    cell_leftovers(c, 0) + cell_leftovers(c, 1)) {
		printf("# %d runs of %d here, %d there, %d leftovers\n",
		    hand_runs(&c->h, 0), c->source_runs, hand_runs(&c->h, 1),
		    cell_leftovers(c, 0) + cell_leftovers(c, 1));
		ok = 0;
	}
	return ok;
}

static inline int
cell_end(struct cell *c)
{
	struct hand_log s, t;
	int ok = hand_check(&c->h) == 0;

	s = hand_look(&c->h, 0, 1);
	t = hand_look(&c->h, 1, 1);
	ok &= cell_books(c, &s, &t);
	if (ok)
		ok = cell_goes_on(c, t.active > 0, t.active ? t.newest :
		    c->state);
	return cell_swept(c) && ok && !check_failed;
}

/* ---- what befalls it ---- */

/* The driver stands still; what others do meanwhile. */
static inline void
cell_meanwhile(struct cell *c, enum cell_fault f, int at)
{
	const int side = at % 2;

	switch (f) {
	case FROZEN:
	case WOKEN_LATE:
		epd_clock_sleep_ns((CELL_SHORT_MS + 2) * UINT64_C(1000000));
		if (f == WOKEN_LATE)
			cell_commit(c, side);
		hand_settle(&c->h, side);
		hand_settle(&c->h, !side);
		break;
	case OTHER_ABORTS:
		cell_abort(c, side);
		cell_abort(c, !side);
		break;
	case OTHER_COMMITS:
		cell_commit(c, side);
		cell_commit(c, side);
		cell_commit(c, !side);
		break;
	case SOURCE_AWAY:
	case TARGET_AWAY:
		hand_away(&c->h, f == TARGET_AWAY, 1);
		cell_commit(c, f == SOURCE_AWAY);
		if (side)
			cell_abort(c, f == SOURCE_AWAY);
		hand_settle(&c->h, f == SOURCE_AWAY);
		hand_away(&c->h, f == TARGET_AWAY, 0);
		break;
	default:
		break;
	}
}

/* The driver is frozen and later woken, or killed.  1: it came to that. */
static inline int
cell_freeze(struct cell *c, enum cell_fault f, int at)
{
	struct cell_told *own = c->told, other = *own;
	pid_t pid = cell_start(c, c->side, at, STOP_FREEZE);

	if (!cell_stands(pid)) {
		cell_committed(c, "the driver", c->told->rc);
		return 0;
	}
	if (f == BOTH_KILLED) {
		/* The other one's words are its own. */
		other = *own;
		if (cell_id(c) && !cell_stands(cell_start(c, !c->side,
		    1 + at * 7 % 40, at % 4 ? STOP_KILL : STOP_TORN)))
			cell_committed(c, "the other driver", own->rc);
		own->rc = other.rc;
		kill(pid, SIGKILL);
	} else {
		cell_meanwhile(c, f, at);
		kill(pid, SIGCONT);
	}
	scratch_wait(pid);
	cell_committed(c, "the driver", own->rc);
	return 1;
}

/* While the source is away a person at the target has it. */
static inline void
cell_adopt(struct cell *c)
{
	if (!c->h.two)
		return;
	hand_away(&c->h, 0, 1);
	if (hand_adopt(&c->h, c->told->id) == 0) {
		c->owner = TARGET_OWNS;
		c->adopted = 1;
	}
	hand_away(&c->h, 0, 0);
}

static inline int
cell_strike(struct cell *c, enum cell_fault f, int at)
{
	const enum stop_how how = f == TORN ? STOP_TORN : f == FULL_DISK ?
	    STOP_FAIL : f == FULL_FOR_GOOD ? STOP_FAILS : STOP_KILL;

	if (f == BOTH_KILLED || (f >= FROZEN && f <= OTHER_COMMITS) ||
	    f == SOURCE_AWAY || f == TARGET_AWAY)
		return cell_freeze(c, f, at);
	scratch_wait(cell_start(c, c->side, at, how));
	cell_committed(c, "the driver", c->told->rc);
	if (f == ADOPTED && cell_id(c))
		cell_adopt(c);
	return c->told->seen.hit;
}

/* ---- calls in any order ---- */

static inline unsigned
cell_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (unsigned)(*seed >> 33);
}

/* While one store is away, if there are two. */
static inline void
cell_without(struct cell *c, int away, unsigned what)
{
	if (!c->h.two)
		return;
	hand_away(&c->h, away, 1);
	if (what % 3 == 0)
		cell_commit(c, !away);
	else if (what % 3 == 1)
		cell_abort(c, !away);
	else
		hand_settle(&c->h, !away);
	hand_away(&c->h, away, 0);
}

static inline void
cell_shuffle(struct cell *c, uint64_t seed)
{
	cell_prepare(c);
	for (int i = 0; i < 8; i++) {
		const unsigned r = cell_random(&seed);
		const int side = r / 64 % 2;

		switch (r % 16) {
		case 0: case 1: case 2: cell_pull(c); break;
		case 3: case 4: cell_commit(c, side); break;
		case 5: cell_abort(c, side); break;
		case 6: case 7: hand_settle(&c->h, side); break;
		case 8:
			cell_later(1);
			hand_settle(&c->h, side);
			cell_later(0);
			break;
		case 9: cell_adopt(c); break;
		case 10: case 11: case 12:
			cell_without(c, side, r / 128);
			break;
		case 13: {
			struct epd_handed out;

			if (!c->adopted &&
			    hand_prepare(&c->h, c->state, &out) == 0) {
				memcpy(c->told->id, out.id, 16);
				c->owner = ANYONE;
			}
			break;
		}
		default:
			hand_close(&c->h);
			hand_open(&c->h);
			break;
		}
	}
}

/* One cell; 0: the driver was done before. */
static inline int
cell_try(struct cell *c, enum cell_fault f, int at)
{
	int hit, good;

	cell_begin(c);
	c->h.timeout_ms = f == FROZEN || f == WOKEN_LATE ? CELL_SHORT_MS :
	    CELL_LONG_MS;
	if (c->side)
		cell_ready(c);
	hit = 1;
	if (f == SHUFFLED)
		cell_shuffle(c, (uint64_t)at * UINT64_C(0x9e3779b97f4a7c15));
	else
		hit = cell_strike(c, f, at);
	if (hit && (f == FULL_DISK || f == FULL_FOR_GOOD))
		f += c->told->seen.kind[at - 1] == STOP_FLUSH;
	cell_recover(c);
	good = cell_end(c);
	if (!good)
		printf("# ^ %s, %s driver, call %d, recovered by %d\n",
		    cell_names[f], c->side ? "target's" : "source's", at,
		    (c->turn - 1) % 10);
	c->cells += hit;
	c->good += hit && good;
	c->hits[f][c->side] += hit;
	check_failed |= !good;
	return hit;
}

/* How many calls a driver makes that is left alone. */
static inline int
cell_calls(struct cell *c, int side)
{
	c->side = side;
	c->h.timeout_ms = CELL_LONG_MS;
	cell_begin(c);
	if (side)
		cell_ready(c);
	scratch_wait(cell_start(c, side, 0, STOP_KILL));
	cell_committed(c, "the driver", c->told->rc);
	if (c->told->rc)
		golden_die("driver", c->told->why);
	if (!cell_end(c))
		check_failed = 1;
	return c->told->seen.count;
}

/* Two stores, a base with a picture, what its branches say next. */
static inline void
cells_begin(struct cell *c, const char *model, int two)
{
	const char *one[] = { NULL, NULL };
	struct epd_prefilled p;
	struct kit_said said;
	struct epd_whole f;

	*c = (struct cell){ .turn = 0 };
	c->told = mmap(NULL, sizeof *c->told, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c->told == MAP_FAILED)
		golden_die("shared memory", "none");
	hand_begin(&c->h, model, two, 1);
	hand_close(&c->h);
	c->h.k.config.lock_timeout_ms = CELL_LOCK_MS;
	c->h.k.config.checkpoint_bytes = 32768;
	c->h.t.config = c->h.k.config;
	hand_open(&c->h);
	one[0] = kit_picture(&c->h.k, "a.ppm", 56, 56, 1);
	if (kit_say(&c->h.k, 0, "What is it?", one, &p) < 0)
		golden_die("base", c->h.k.why.text);
	f = hand_whole(&c->h, 0, p.state);
	c->picture = f.v.images[0].fp;
	epd_whole_free(&f);
	c->base = p.state;
	c->source_states = 1;
	cell_begin(c);
	if (hand_decode(&c->h.k, "w1", c->state, 1, NULL, &said) < 0)
		golden_die("branch", c->h.k.why.text);
	c->next = said.id[0];
	if (epd_flow_release(c->h.k.s, &(struct epd_ref){ .kind =
	    EPD_REF_STATE, .workflow = "w1", .state = c->state }, "", NULL))
		golden_die("branch", "stays");
	c->source_runs = hand_runs(&c->h, 0);
	c->target_runs = hand_runs(&c->h, 1);
}

static inline void
cells_end(struct cell *c)
{
	hand_end(&c->h);
	munmap(c->told, sizeof *c->told);
}

/* Every stride'th call of a driver times a fault, or so many of so many shuffles. */
static inline void
cells_row(struct cell *c, enum cell_fault f, int side, int stride)
{
	const int calls = f == SHUFFLED ? cell_shuffles : cell_calls(c, side);

	c->side = side;
	for (int at = 1 + (int)f % stride; at <= calls && !check_failed;
	    at += stride)
		cell_try(c, f, at);
}

static inline void
cells_tell(const struct cell *c)
{
	for (int f = 0; f < CELL_FAULTS; f++)
		printf("# %-28s %5d source's %5d target's\n", cell_names[f],
		    c->hits[f][0], c->hits[f][1]);
}

#endif
