/*
 * shard_threads.c - threads that share a handle, threads with one each and
 * processes, all at one workflow; a reader beside them.  What each was told it
 * did is put down, and in the end the log has just that, each thing once.
 */
#include <sys/mman.h>

#include "base/metrics.h"
#include "tests/unit/shard_gate.h"
#include "tests/unit/shard_hold.h"

enum { CROWD_MOST = 1 << 16, CROWD_OWN = 8, NAP_US = 300 };

/* A record as who made it knows it, and as the log tells it. */
struct mark {
	uint64_t lease;
	uint32_t state, version, first;
	char kind[12];
};
struct crowd {
	unsigned n;			/* of made */
	unsigned late, bad, stop;
	uint32_t at;			/* what s1 may be at */
	struct mark made[CROWD_MOST];
};
struct worker {
	pthread_t thread;
	struct crowd *c;
	struct epd_shard *s;
	int ops, rc;
	uint64_t r;
	uint32_t own[CROWD_OWN], at[CROWD_OWN];	/* its states, at which version */
	int nown;
};

static void
put_down(struct crowd *c, const char *kind, uint32_t state, uint32_t version,
    uint32_t first, uint64_t lease)
{
	unsigned n = __atomic_fetch_add(&c->n, 1, __ATOMIC_RELAXED);
	struct mark *m = &c->made[n % CROWD_MOST];

	*m = (struct mark){ lease, state, version, first, "" };
	snprintf(m->kind, sizeof m->kind, "%s", kind);
}

static uint64_t
die(struct worker *w)
{
	return shard_mix(++w->r);
}

static int
begin_state(struct worker *w)
{
	uint32_t id;
	int rc;

	if (w->nown == CROWD_OWN)
		return 0;
	rc = shard_create(w->s, die(w), 0, &id);
	if (rc)
		return rc;
	put_down(w->c, "create", id, 1, 0, 0);
	w->own[w->nown] = id;
	w->at[w->nown++] = 1;
	return 0;
}

static int
branch(struct worker *w, int i)
{
	struct epd_fork_ask f = { .state = w->own[i], .branches = 2 };
	uint32_t first;
	int rc;

	if (w->nown + 2 > CROWD_OWN)
		return 0;
	rc = epd_shard_fork(w->s, &f, &first, NULL);
	if (rc)
		return rc;
	put_down(w->c, "fork", f.state, w->at[i], first, 0);
	for (uint32_t k = 0; k < 2; k++) {
		w->own[w->nown] = first + k;
		w->at[w->nown++] = 1;
	}
	return 0;
}

static int
end_state(struct worker *w, int i)
{
	int rc = epd_shard_release(w->s, w->own[i], "", NULL, NULL, NULL);

	if (rc)
		return rc;
	put_down(w->c, "release", w->own[i], 0, 0, 0);
	w->own[i] = w->own[--w->nown];
	w->at[i] = w->at[w->nown];
	return 0;
}

static int
hold_and_drop(struct worker *w, int i)
{
	uint64_t id;
	int rc = epd_shard_lease(w->s, w->own[i], 0, EPD_LEASE_TRANSFER, 60000,
	    &id, NULL);

	if (!rc) {
		put_down(w->c, "lease", w->own[i], w->at[i], 0, id);
		rc = epd_shard_renew(w->s, id, 70000, NULL);
	}
	if (!rc) {
		put_down(w->c, "lease", w->own[i], w->at[i], 0, id);
		rc = epd_shard_drop(w->s, id, "", NULL);
	}
	if (!rc)
		put_down(w->c, "drop", 0, 0, 0, id);
	return rc;
}

static int
decode(struct worker *w, int i)
{
	struct shard_made m;
	uint32_t version;
	uint64_t id;
	int rc = epd_shard_lease(w->s, w->own[i], 0, EPD_LEASE_DECODE, 60000,
	    &id, NULL);

	if (rc)
		return rc;
	put_down(w->c, "lease", w->own[i], w->at[i], 0, id);
	rc = epd_shard_advance_leased(w->s, id, w->own[i], w->at[i],
	    shard_make(&m, die(w), 0), &version, NULL);
	if (rc)
		return rc;
	put_down(w->c, "advance", w->own[i], version, 0, 0);
	put_down(w->c, "drop", 0, 0, 0, id);
	w->at[i] = version;
	return 0;
}

static int
advance(struct worker *w, int i)
{
	uint32_t version;
	int rc = shard_advance(w->s, w->own[i], w->at[i], 0, die(w), 0,
	    &version);

	if (rc)
		return rc;
	put_down(w->c, "advance", w->own[i], version, 0, 0);
	w->at[i] = version;
	return 0;
}

/* The state that all share: mostly another was first. */
static int
advance_ours(struct worker *w)
{
	uint32_t at = __atomic_load_n(&w->c->at, __ATOMIC_RELAXED), version;
	int rc = shard_advance(w->s, 1, at, 0, die(w), 0, &version);

	if (rc == EPD_EVERSION) {
		__atomic_fetch_add(&w->c->late, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (rc)
		return rc;
	put_down(w->c, "advance", 1, version, 0, 0);
	__atomic_store_n(&w->c->at, version, __ATOMIC_RELAXED);
	return 0;
}

static void *
work(void *arg)
{
	struct worker *w = arg;

	for (; w->ops > 0 && !w->rc; w->ops--) {
		uint64_t what = die(w) % 11;
		int i = w->nown ? (int)(die(w) % (unsigned)w->nown) : 0;

		if (!w->nown || what < 2)
			w->rc = begin_state(w);
		else if (what < 4)
			w->rc = advance(w, i);
		else if (what == 4)
			w->rc = branch(w, i);
		else if (what < 7)
			w->rc = end_state(w, i);
		else if (what == 7)
			w->rc = hold_and_drop(w, i);
		else if (what == 8)
			w->rc = decode(w, i);
		else
			w->rc = advance_ours(w);
	}
	if (w->rc)
		printf("# a worker was told %d\n", w->rc);
	return NULL;
}

static void *
look_on(void *arg)
{
	struct worker *w = arg;
	uint64_t lsn = 0;
	struct epd_state st;

	while (!w->rc && !__atomic_load_n(&w->c->stop, __ATOMIC_RELAXED)) {
		w->rc = epd_shard_catch_up(w->s, NULL);
		if (!w->rc && epd_shard_lsn(w->s) < lsn)
			w->rc = -ERANGE;
		lsn = epd_shard_lsn(w->s);
		if (!w->rc)
			w->rc = epd_shard_state(w->s, 1, &st);
		usleep(500);
	}
	return NULL;
}

/* ---- what the log has ---- */

struct found {
	struct mark *m;
	unsigned n;
};

static int
find(void *arg, const struct epd_record *r)
{
	struct found *f = arg;
	struct mark *m = &f->m[f->n++ % CROWD_MOST];

	*m = (struct mark){ r->lease, r->state, r->version, r->first, "" };
	snprintf(m->kind, sizeof m->kind, "%s", r->kind);
	return 0;
}

static int
compare(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	int rc = strcmp(x->kind, y->kind);

	if (!rc)
		rc = (x->state > y->state) - (x->state < y->state);
	if (!rc)
		rc = (x->version > y->version) - (x->version < y->version);
	if (!rc)
		rc = (x->first > y->first) - (x->first < y->first);
	return rc ? rc : (x->lease > y->lease) - (x->lease < y->lease);
}

static void
verify(struct crowd *c, int dir)
{
	struct found f = { calloc(CROWD_MOST, sizeof *f.m), 0 };
	struct epd_shard *s;
	int bad = 0;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_walk(s, find, &f, NULL), 0);
	CHECK(c->n < CROWD_MOST);
	qsort(c->made, c->n, sizeof *c->made, compare);
	qsort(f.m, f.n, sizeof *f.m, compare);
	for (unsigned i = 0; i < f.n && i < c->n && !bad; i++) {
		bad = compare(&f.m[i], &c->made[i]);
		if (bad)
			printf("# %u: told of %s s%u@%u, there is %s s%u@%u\n",
			    i, c->made[i].kind, c->made[i].state,
			    c->made[i].version, f.m[i].kind, f.m[i].state,
			    f.m[i].version);
	}
	CHECK(!bad);
	CHECK_INT(f.n, c->n);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	free(f.m);
}

enum { SHARED = 8, APART = 4, PROCESSES = 3, HANDLES = 1 + APART };

static struct {
	int dir, store, counters;
	struct epd_metrics *m;
	struct epd_shard_options o;
} here;

static int
child(struct crowd *c, int ops, uint64_t seed)
{
	struct worker w = { .c = c, .ops = ops, .r = seed << 40 };
	struct epd_shard_options o = here.o;
	int rc = epd_procs_open(&o.procs, here.store);

	if (!rc)
		rc = epd_metrics_open(&o.metrics, here.counters);
	if (!rc)
		rc = epd_shard_open(&w.s, here.dir, &o, NULL);
	if (!rc)
		work(&w);
	return rc || w.rc;
}

static void
crowd_run(int shared, int apart, int processes, int ops)
{
	struct crowd *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct worker w[SHARED + APART + 1] = { { .c = NULL } };
	struct epd_shard *s[HANDLES];
	pid_t pid[PROCESSES];
	uint64_t flushes, appends;
	struct worker *reader = &w[shared + apart];
	int bad = 0, n = shared + apart;

	here.dir = scratch_open();
	here.store = scratch_open();
	here.counters = scratch_open();
	here.o = shard_plain;
	here.o.checkpoint_bytes = 1 << 15;
	here.o.log_keep = -1;
	here.o.lock_timeout_ms = 60000;
	CHECK_INT(shard_open(&s[0], here.dir, 0), 0);
	CHECK_INT(shard_create(s[0], 1, 0, &c->at), 0);
	epd_shard_close(s[0]);
	put_down(c, "create", 1, 1, 0, 0);
	gate.nap_us = NAP_US;
	fflush(stdout);
	for (int i = 0; i < processes; i++)
		if (!(pid[i] = fork()))
			_exit(child(c, ops, (uint64_t)i + 100));
	CHECK_INT(epd_procs_open(&here.o.procs, here.store), 0);
	CHECK_INT(epd_metrics_open(&here.m, here.counters), 0);
	here.o.metrics = here.m;
	for (int i = 0; i < 1 + apart; i++)
		CHECK_INT(epd_shard_open(&s[i], here.dir, &here.o, NULL), 0);
	for (int i = 0; i < n; i++) {
		w[i] = (struct worker){ .c = c, .ops = ops, .s = s[i < shared ?
		    0 : i - shared + 1], .r = (uint64_t)i << 32 };
		CHECK_INT(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	reader->c = c;
	CHECK_INT(shard_open(&reader->s, here.dir, 1), 0);
	CHECK_INT(pthread_create(&reader->thread, NULL, look_on, reader), 0);
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		bad |= w[i].rc;
	}
	for (int i = 0; i < processes; i++)
		bad |= scratch_wait(pid[i]);
	__atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
	pthread_join(reader->thread, NULL);
	CHECK_INT(bad, 0);
	CHECK_INT(reader->rc, 0);
	flushes = epd_metrics_get(here.m, EPD_M_LOG_FLUSHES);
	appends = epd_metrics_get(here.m, EPD_M_LOG_APPENDS);
	printf("# %d threads of one handle, %d apart, %d processes: %u records, "
	    "%llu appended, %llu flushes, %u came late\n", shared, apart,
	    processes, c->n, (unsigned long long)appends,
	    (unsigned long long)flushes, c->late);
	CHECK(flushes < appends);
	epd_shard_close(reader->s);
	for (int i = 0; i < 1 + apart; i++)
		epd_shard_close(s[i]);
	gate.nap_us = 0;
	verify(c, here.dir);
	epd_procs_close(here.o.procs);
	epd_metrics_close(here.m);
	munmap(c, sizeof *c);
	scratch_close(here.counters);
	scratch_close(here.store);
	scratch_close(here.dir);
}

TEST(eight_threads_of_one_handle)
{
	crowd_run(SHARED, 0, 0, 150);
}

TEST(threads_with_a_handle_each)
{
	crowd_run(0, APART, 0, 150);
}

TEST(all_at_once)
{
	crowd_run(SHARED, APART, PROCESSES, 100);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
