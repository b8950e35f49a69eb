/*
 * flow_expiry.c - a state whose time is over while others are walked through.
 * The clock jumps past its end at the nth reading, for every n there is: s2 is
 * told of or it is not, and all is well with s1 and s3.
 */
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "shard/shard_in.h"
#include "tests/unit/view.h"

enum { END_MS = 100000, LATER_MS = 200000 };

static struct {
	int armed;
	long left;		/* readings before the jump */
	uint64_t now_ms;
} turn;

int
clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t ms;

	if (!turn.armed || id != CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, id, t);
	ms = turn.now_ms + (turn.left-- > 0 ? 0 : LATER_MS);
	t->tv_sec = (time_t)(ms / 1000);
	t->tv_nsec = (long)(ms % 1000 * 1000000);
	return 0;
}

static void
jump_at(long n)
{
	turn.armed = 1;
	turn.left = n;
}

/* 1 if the clock did jump; from then on it goes by itself. */
static int
jumped(void)
{
	turn.armed = 0;
	return turn.left < 0;
}

static uint64_t
soon(void)
{
	turn.now_ms = epd_clock_wall_ms();
	return turn.now_ms + END_MS;
}

struct told {
	int states, shared;
	uint32_t last;
};

static int
tell(void *arg, const struct epd_state_line *l)
{
	struct told *t = arg;

	t->states++;
	t->shared += l->state != 2 && !strcmp(l->status, "SHARED");
	t->last = l->state;
	return 0;
}

/* s3 stands on the root of s1, which has gone on from there. */
static int
make_branch(struct fixture *f)
{
	struct epd_workflow w;
	struct epd_table *t;
	int rc = make_state(f, "w1", 0);

	if (rc == 0)
		rc = make_state(f, "w1", soon());
	if (rc == 0)
		rc = make_state(f, "w1", UINT64_MAX);
	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, "w1", 0, NULL);
	if (rc < 0)
		return rc;
	/* No verb forks yet. */
	t = w.shard->table;
	rc = epd_tree_hold(t->tree, t->head[0]->v[0].node);
	if (rc == 0)
		rc = epd_tree_drop(t->tree, t->head[2]->v[0].node);
	t->head[2]->v[0].node = t->head[0]->v[0].node;
	if (rc == 0)
		rc = epd_shard_checkpoint(w.shard, NULL);
	epd_workflow_close(&w);
	return rc;
}

TEST(the_rest_is_listed)
{
	struct fixture f;
	long n = 0;
	int more, both = 0;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_branch(&f), 0);
	do {
		struct told t = {0};
		int rc;

		jump_at(n++);
		rc = epd_view_states(f.s, "w1", tell, &t, NULL);
		more = jumped();
		CHECK_INT(rc, 0);
		CHECK_INT(t.last, 3);
		CHECK_INT(t.shared, 2);
		both |= 1 << t.states;
	} while (more);
	CHECK(n > 4);
	CHECK_INT(both, 1 << 2 | 1 << 3);
	end(&f);
}

/* A state that is named wrong and whose run is damaged: two faults. */
static int
make_faulty(struct fixture *f)
{
	struct epd_page_ref pages[PAGES];
	int32_t ids[TOKENS] = { 1 };
	struct epd_version v = { .ids = ids, .nids = TOKENS,
	    .pages = pages, .npages = PAGES, .next_pos = TOKENS };
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m" };
	struct epd_workflow w;
	char name[EPD_RUN_NAME];
	uint32_t id;
	int fd = -1, rc = epd_workflow_open(&w, f->s, "w1", 0, NULL);

	if (rc < 0)
		return rc;
	rc = publish(f, &w, ids, pages, &v.run);
	ids[0] = 2;
	if (rc == 0)
		rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	epd_run_format(name, v.run);
	if (rc == 0 && (fchmodat(w.runs, name, 0600, 0) < 0 ||
	    (fd = openat(w.runs, name, O_WRONLY)) < 0))
		rc = -errno;
	if (rc == 0) {
		rc = epd_file_pwrite(fd, "x", 1, 4096 + 10);
		close(fd);
	}
	epd_workflow_close(&w);
	return rc;
}

TEST(the_rest_is_checked)
{
	struct fixture f;
	long n = 0;
	int more;

	CHECK_INT(begin(&f), 0);
	CHECK_INT(make_state(&f, "w1", 0), 0);
	CHECK_INT(make_state(&f, "w1", soon()), 0);
	CHECK_INT(make_faulty(&f), 0);
	do {
		int faults = 0, rc;

		jump_at(n++);
		rc = epd_flow_check(f.s, "w1", tally, &faults, NULL);
		more = jumped();
		CHECK_INT(rc, 2);
		CHECK_INT(faults, 2);
	} while (more);
	CHECK(n > 6);
	end(&f);
}

TEST(gc_goes_on)
{
	struct fixture f;
	long n = 0;
	int more;

	do {
		struct epd_swept swept;
		int rc;

		CHECK_INT(begin(&f), 0);
		CHECK_INT(make_state(&f, "w1", 0), 0);
		CHECK_INT(make_state(&f, "w1", soon()), 0);
		CHECK_INT(make_state(&f, "w1", 0), 0);
		jump_at(n++);
		rc = epd_flow_gc(f.s, &swept, NULL);
		more = jumped();
		end(&f);
		CHECK_INT(rc, 0);
	} while (more);
	CHECK(n > 4);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
