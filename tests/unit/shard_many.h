/*
 * shard_many.h - processes that append to one workflow at once, readers beside
 * them, and kills among them.  Each process marks what it appends with numbers
 * of its own and counts in shared memory what was acknowledged.
 */
#ifndef TESTS_SHARD_MANY_H
#define TESTS_SHARD_MANY_H

#include <signal.h>
#include <sys/mman.h>

#include "tests/unit/shard.h"

enum { MANY_MOST = 16, MANY_MARKS = 1 << 20, MANY_KILLS = 1 << 15 };

struct many {
	volatile uint32_t advanced[MANY_MOST];	/* acknowledged advances of s1 */
	volatile uint32_t created[MANY_MOST];
	volatile uint32_t trying[MANY_MOST];	/* the mark it may die with */
	volatile int stop;
	volatile int bad;
	/* How long each new one took from its start to its first append, in us. */
	volatile uint32_t took[MANY_KILLS];
	volatile uint32_t ntook;
};

static inline struct many *
many_new(void)
{
	return mmap(NULL, sizeof(struct many), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline uint64_t
many_mark(int who, uint32_t n)
{
	return (uint64_t)who * MANY_MARKS + n;
}

/* One writer: it advances the state all share, and makes its own now and then. */
static inline int
many_write(struct many *m, int dir, int who, int ops, uint64_t checkpoint)
{
	const uint64_t from = epd_clock_boot_ns();
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	uint32_t n = m->trying[who], version, id, begun = 0;
	struct epd_state st;
	int rc;

	o.checkpoint_bytes = checkpoint;
	o.lock_timeout_ms = 60000;
	rc = epd_shard_open(&s, dir, &o, NULL);
	while (!rc && ops > 0) {
		rc = epd_shard_state(s, 1, &st);
		if (rc)
			break;
		m->trying[who] = ++n;
		rc = shard_advance(s, 1, st.versions, many_mark(who, n),
		    many_mark(who, n), 0, &version);
		if (rc == EPD_EVERSION) {
			/* Another was first; the append caught up. */
			rc = 0;
			continue;
		}
		if (!rc)
			m->advanced[who]++;
		if (!rc && !begun++)
			m->took[__atomic_fetch_add(&m->ntook, 1,
			    __ATOMIC_RELAXED) % MANY_KILLS] = (uint32_t)
			    ((epd_clock_boot_ns() - from) / 1000);
		if (!rc && n % 4 == 0) {
			rc = shard_create(s, many_mark(who, n), 0, &id);
			if (!rc)
				m->created[who]++;
			if (!rc && n % 8 == 0)
				rc = epd_shard_release(s, id, "", NULL, NULL,
				    NULL);
		}
		ops--;
	}
	if (rc)
		printf("# writer %d: %d\n", who, rc);
	if (!rc)
		epd_shard_close(s);
	return rc != 0;
}

/* A reader sees lsns that never fall, and s1 whole at each of them. */
static inline int
many_read(struct many *m, int dir)
{
	struct epd_version v, w;
	struct epd_state st;
	struct epd_shard *s;
	struct epd_why why = { "" };
	uint64_t lsn = 0;
	int rc = shard_open(&s, dir, 1);

	while (!rc && !m->stop) {
		rc = epd_shard_catch_up(s, &why);
		if (!rc && epd_shard_lsn(s) < lsn)
			rc = -ERANGE;
		lsn = epd_shard_lsn(s);
		if (!rc)
			rc = epd_shard_state(s, 1, &st);
		if (!rc)
			rc = epd_shard_version(s, 1, 0, &v);
		if (!rc && st.versions > 1)
			rc = epd_shard_version(s, 1, st.versions - 1, &w);
		if (!rc && st.versions > 1 && (v.parent != w.node ||
		    v.start != w.start + w.nids || v.node > lsn))
			rc = -EDOM;
		usleep(500);
	}
	if (rc)
		printf("# reader: %d %s\n", rc, why.text);
	if (!rc)
		epd_shard_close(s);
	return rc != 0;
}

/* No record lost, none twice: `lost` may be missing or there for each process. */
static inline void
many_verify(struct many *m, int dir, int writers, int killed)
{
	uint32_t *seen = calloc(MANY_MOST, sizeof *seen);
	static uint8_t once[MANY_MOST][1 << 16];
	struct epd_why why = { "" };
	struct epd_shard *s;
	struct epd_version v;
	struct epd_state st;

	memset(once, 0, sizeof once);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	for (uint32_t n = 2; n <= st.versions; n++) {
		uint32_t mark;
		int who;

		CHECK_INT(epd_shard_version(s, 1, n, &v), 0);
		who = (int)(v.sampling.salt / MANY_MARKS);
		mark = (uint32_t)(v.sampling.salt % MANY_MARKS);
		CHECK(who < writers && mark < 1 << 16 && !once[who][mark]);
		once[who][mark] = 1;
		seen[who]++;
	}
	for (int i = 0; i < writers; i++)
		if (seen[i] < m->advanced[i] ||
		    seen[i] > m->advanced[i] + (uint32_t)killed)
			CHECK_FAIL("writer %d: %u acknowledged, %u there", i,
			    m->advanced[i], seen[i]);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, &why), 0);
	epd_shard_close(s);
	free(seen);
}

static inline void
many_run(int writers, int readers, int ops, uint64_t checkpoint)
{
	int dir = scratch_open(), bad = 0;
	struct many *m = many_new();
	pid_t pid[2 * MANY_MOST];
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	epd_shard_close(s);
	fflush(stdout);
	for (int i = 0; i < writers + readers; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			_exit(i < writers ?
			    many_write(m, dir, i, ops, checkpoint) :
			    many_read(m, dir));
		}
	}
	for (int i = 0; i < writers; i++)
		bad |= scratch_wait(pid[i]);
	m->stop = 1;
	for (int i = writers; i < writers + readers; i++)
		bad |= scratch_wait(pid[i]);
	CHECK_INT(bad, 0);
	many_verify(m, dir, writers, 0);
	for (int i = 0; i < writers; i++)
		CHECK_INT(m->advanced[i], ops);
	munmap(m, sizeof *m);
	scratch_close(dir);
}

/* Writers killed at random and replaced; what each then took goes into all. */
static inline void
many_kill(struct many *all, int writers, int kills, uint64_t checkpoint,
    uint64_t r)
{
	int dir = scratch_open(), times[MANY_MOST] = { 0 }, most = 0;
	struct many *m = many_new();
	pid_t pid[MANY_MOST];
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	epd_shard_close(s);
	fflush(stdout);
	for (int i = 0; i < writers; i++)
		pid[i] = 0;
	for (int k = 0; k < kills + writers; k++) {
		int who = k % writers, rc;

		usleep((useconds_t)(shard_mix(++r) % 3000));
		if (pid[who] > 0) {
			kill(pid[who], SIGKILL);
			rc = scratch_wait(pid[who]);
			CHECK_INT(rc, -SIGKILL);
			times[who]++;
			most = times[who] > most ? times[who] : most;
		}
		pid[who] = 0;
		if (k >= kills)
			continue;
		pid[who] = fork();
		if (!pid[who])
			_exit(many_write(m, dir, who, 1 << 30, checkpoint));
	}
	many_verify(m, dir, writers, most);
	for (uint32_t i = 0; i < m->ntook && all->ntook < MANY_KILLS; i++)
		all->took[all->ntook++] = m->took[i];
	for (int i = 0; i < writers; i++)
		all->advanced[i] += m->advanced[i];
	munmap(m, sizeof *m);
	scratch_close(dir);
}

static inline int
many_less(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Rounds of many_kill; nobody is stuck, and who comes next is quick. */
static inline void
many_kills(int writers, int kills, int each, uint64_t r)
{
	struct many *all = many_new();
	unsigned long long acked = 0;
	uint32_t p99;

	for (int k = 0; k < kills && !check_failed; k += each)
		many_kill(all, writers, each, k / each % 2 ? 8192 : 4096,
		    r + (uint64_t)k * 1000);
	CHECK(!check_failed);
	for (int i = 0; i < writers; i++)
		acked += all->advanced[i];
	CHECK(all->ntook > (uint32_t)kills / 10);
	qsort((void *)(uintptr_t)all->took, all->ntook, sizeof *all->took,
	    many_less);
	p99 = all->took[all->ntook - 1 - all->ntook / 100];
	printf("# row 2: %s kills of %d processes, 0 stuck, 0 of %s acknowledged "
	    "lost, recovery p99 %u.%u ms\n", row_n((unsigned)kills), writers,
	    row_n(acked), p99 / 1000, p99 / 100 % 10);
	CHECK(p99 <= 100000 || SHARD_SLOW);
	munmap(all, sizeof *all);
}

#endif
