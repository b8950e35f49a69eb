/*
 * pool.c - one job at a time.
 *
 *  1. Items are split into one range per worker; a worker done with its own
 *     takes from the others', so a slow or late thread delays nobody.
 *  2. A job is open from the store to `open` until the caller stores 0 there.
 *     A worker adds itself to `inside` before it looks at `open`, and the
 *     caller waits for inside == 0 after closing; both are sequentially
 *     consistent, so no worker touches a job that has been closed and left.
 *  3. Whoever waits spins for SPIN_NS at most, then sleeps in the kernel: workers
 *     on `seq`, the caller on `inside`.  A pause takes from 10 to 150 cycles by
 *     processor, so spinning goes by the clock.  Nobody spins where there are
 *     more threads than processors to run them.
 *  4. A sleeper says so (`asleep`, `waiting`) before the kernel compares the
 *     word it sleeps on, and a waker changes that word before it looks; so no
 *     wake is lost, and none is paid for when nobody sleeps.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "engine/kern/fp.h"
#include "engine/kern/pool.h"

enum { SPIN_NS = 20000, LOOK = 16, LINE = 64, SMALL_CACHE = 512 << 10 };

struct range {
	_Alignas(LINE) atomic_long next;
	long end;
};

struct worker {
	struct epd_pool *pool;
	pthread_t thread;
	void *scratch;
	size_t size;
	int who;
};

struct epd_pool {
	_Alignas(LINE) atomic_uint seq;
	atomic_uint open;
	_Alignas(LINE) atomic_uint inside;
	atomic_int asleep;	/* workers */
	atomic_int waiting;	/* the caller */
	atomic_int stop;
	int threads, spins;
	long cache;
	epd_pool_fn *fn;
	void *arg;
	struct range *range;
	struct worker *worker;
};

static inline void
pause_cpu(void)
{
#if defined __x86_64__
	__builtin_ia32_pause();
#elif defined __aarch64__
	__asm__ volatile("isb");
#endif
}

static long
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait a little for *word to be v (is 1) or to be anything else (is 0). */
static void
spin(const struct epd_pool *p, atomic_uint *word, unsigned v, int is)
{
	long end = 0;

	for (unsigned i = 0; p->spins; i++) {
		if ((atomic_load(word) == v) == is)
			return;
		if (i % LOOK == LOOK - 1) {
			long t = now_ns();

			if (!end)
				end = t + SPIN_NS;
			else if (t > end)
				return;
		}
		pause_cpu();
	}
}

static void
futex_wait(atomic_uint *word, unsigned v)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, v, NULL);
}

static void
futex_wake(atomic_uint *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
}

static void
work(struct epd_pool *p, int who)
{
	for (int i = 0; i < p->threads; i++) {
		struct range *r = &p->range[(who + i) % p->threads];
		long item;

		while ((item = atomic_fetch_add(&r->next, 1)) < r->end)
			p->fn(p->arg, item, who);
	}
}

static unsigned
wait_job(struct epd_pool *p, unsigned seen)
{
	unsigned seq;

	spin(p, &p->seq, seen, 0);
	if ((seq = atomic_load(&p->seq)) != seen)
		return seq;
	atomic_fetch_add(&p->asleep, 1);
	while ((seq = atomic_load(&p->seq)) == seen)
		futex_wait(&p->seq, seen);
	atomic_fetch_sub(&p->asleep, 1);
	return seq;
}

static void *
loop(void *arg)
{
	struct worker *w = arg;
	struct epd_pool *p = w->pool;
	unsigned seen = 0;

	epd_fp_enter();
	while (!atomic_load(&p->stop)) {
		seen = wait_job(p, seen);
		atomic_fetch_add(&p->inside, 1);
		if (atomic_load(&p->open) == seen)
			work(p, w->who);
		if (atomic_fetch_sub(&p->inside, 1) == 1 &&
		    atomic_load(&p->waiting))
			futex_wake(&p->inside, 1);
	}
	return NULL;
}

static void
announce(struct epd_pool *p, unsigned seq)
{
	atomic_store(&p->seq, seq);
	if (atomic_load(&p->asleep) > 0)
		futex_wake(&p->seq, p->threads);
}

static void
wait_workers(struct epd_pool *p)
{
	unsigned n;

	spin(p, &p->inside, 0, 1);
	if (atomic_load(&p->inside) == 0)
		return;
	atomic_store(&p->waiting, 1);
	while ((n = atomic_load(&p->inside)) > 0)
		futex_wait(&p->inside, n);
	atomic_store(&p->waiting, 0);
}

static void
share(struct epd_pool *p, epd_pool_fn *fn, void *arg, long items)
{
	unsigned seq = atomic_load(&p->seq) + 1;

	if (seq == 0)
		seq = 1;
	p->fn = fn;
	p->arg = arg;
	for (int i = 0; i < p->threads; i++) {
		p->range[i].end = items * (i + 1) / p->threads;
		atomic_store(&p->range[i].next, items * i / p->threads);
	}
	atomic_store(&p->open, seq);
	announce(p, seq);
	work(p, 0);
	atomic_store(&p->open, 0);
	wait_workers(p);
}

void
epd_pool_run(struct epd_pool *p, epd_pool_fn *fn, void *arg, long items)
{
	unsigned long was = epd_fp_enter();

	if (p->threads == 1 || items <= 1)
		for (long i = 0; i < items; i++)
			fn(arg, i, 0);
	else
		share(p, fn, arg, items);
	epd_fp_leave(was);
}

static int
processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

struct epd_pool *
epd_pool_new(int threads)
{
	struct epd_pool *p;

	if (threads < 1 || threads > EPD_POOL_MAX)
		return NULL;
	if (!(p = epd_alloc_aligned(LINE, sizeof *p)))
		return NULL;
	*p = (struct epd_pool){ .threads = 1 };
	p->spins = threads <= processors();
	p->cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
	if (p->cache < SMALL_CACHE / 2)
		p->cache = SMALL_CACHE;
	p->range = epd_alloc_aligned(LINE, (size_t)threads * sizeof *p->range);
	p->worker = epd_calloc((size_t)threads + 1, sizeof *p->worker);
	if (!p->range || !p->worker)
		goto fail;
	/* The count workers see is fixed before the first of them runs. */
	p->threads = threads;
	for (int i = 1; i < threads; i++) {
		p->worker[i] = (struct worker){ .pool = p, .who = i };
		if (epd_thread_begin(&p->worker[i].thread, loop,
		    &p->worker[i])) {
			p->threads = i;
			goto fail;
		}
	}
	return p;
fail:
	epd_pool_free(p);
	return NULL;
}

void
epd_pool_free(struct epd_pool *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, 1);
	announce(p, atomic_load(&p->seq) + 1);
	for (int i = 1; i < p->threads; i++)
		pthread_join(p->worker[i].thread, NULL);
	for (int i = 0; p->worker && i <= p->threads; i++)
		epd_free(p->worker[i].scratch);
	epd_free(p->worker);
	epd_free(p->range);
	epd_free(p);
}

int
epd_pool_threads(const struct epd_pool *p)
{
	return p->threads;
}

long
epd_pool_cache(const struct epd_pool *p)
{
	return p->cache;
}

void *
epd_pool_scratch(struct epd_pool *p, int who, size_t n)
{
	struct worker *w = &p->worker[who];

	if (w->size < n) {
		size_t size = (n + 4095) & ~(size_t)4095;

		epd_free(w->scratch);
		w->scratch = epd_alloc_aligned(4096, size);
		w->size = w->scratch ? size : 0;
	}
	return w->scratch;
}
