/*
 * tier.c - pages of a run to the tier on a disk and back.
 *
 *	tier nvme DIR MIB THREADS	made-up pages of the mid shape, by lots of 64
 *	tier pages DIR RUNS PACKING	those of the run files in the folder RUNS
 *
 * DIR lies on the disk.  Each thread has a handle of its own and takes the next lot.
 * One line of JSON: GB/s each way, bytes of the pages and on the disk, seconds of a
 * core for all.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "page/page.h"
#include "tier/nvme.h"
#include "tier/tier.h"

#include "tests/bench/measure.h"

enum { LOT = 64, PAGE = 196608, MOST = 4096, THREADS = 8 };

/* What goes: pages in memory, and what is known of them. */
static struct lot_of {
	struct epd_lot lot;
	struct epd_run *back;
	const void **page;
} all[MOST];
static long lots;
static uint64_t bytes;

static struct epd_memory *disk;
static char shm[] = "/dev/shm/epd-bench.XXXXXX";
static int shm_fd;

static double
cpu(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	    1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* A run that is there, as one lot. */
static void
add(struct epd_run *r, const struct epd_run_shape *shape, uint64_t id)
{
	struct lot_of *x = all + lots++;
	const long n = epd_run_count(r);

	must(lots == MOST ? -E2BIG : 0, "so many runs");
	*x = (struct lot_of){ .page = calloc((size_t)n,
	    sizeof *x->page), .lot = { .workflow = "w1", .run = id,
	    .shape = *shape, .entry = epd_run_entries(r), .n = n,
	    .given = epd_run_is_given(r), .manifest = epd_span_str("{}") } };
	must(x->page ? 0 : -ENOMEM, "memory");
	for (long i = 0; i < n; i++)
		x->page[i] = epd_run_page(r, i);
	bytes += (uint64_t)n * shape->bytes;
}

static void
make(uint64_t mib)
{
	const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, PAGE };
	struct epd_page_entry e[LOT];
	uint64_t x = 88172645463325252u;
	struct epd_run *r;
	void *p;

	for (uint64_t id = 1; bytes < mib << 20; id++) {
		must(epd_run_new(&r, shm_fd, &shape), "run");
		for (long i = 0; i < LOT; i++) {
			must(epd_run_add(r, &p), "page");
			for (uint64_t *q = p, *end = q + PAGE / 8; q < end; q++) {
				x ^= x << 13;
				x ^= x >> 7;
				*q = x ^= x << 17;
			}
			e[i] = (struct epd_page_entry){ .rows = 16 };
			memcpy(e[i].name.b, p, EPD_NAME);
		}
		must(epd_run_publish(r, id, e, LOT), "publish");
		epd_run_close(r);
		must(epd_run_look(&r, shm_fd, id, &shape, NULL, 0, &why), "look");
		add(r, &shape, id);
	}
}

static int
take(void *arg, uint64_t id, uint64_t size)
{
	const int dir = *(int *)arg;
	struct epd_run_shape shape;
	struct epd_run *r;

	(void)size;
	must(epd_run_table(&r, dir, id, &shape, &why), "table");
	epd_run_close(r);
	if (!epd_run_look(&r, dir, id, &shape, NULL, 0, NULL))
		add(r, &shape, id);
	return 0;
}

static atomic_long next;
static struct epd_lower *tier[THREADS];

static void *
put(void *arg)
{
	struct epd_lower *l = arg;

	for (long i; (i = atomic_fetch_add(&next, 1)) < lots; )
		must(epd_lower_ops(l)->put(l, &all[i].lot, all[i].page,
		    UINT64_MAX, NULL), "put");
	return NULL;
}

/* Each lot into a run of its own in memory. */
static void *
get(void *arg)
{
	struct epd_lower *l = arg;

	for (long i; (i = atomic_fetch_add(&next, 1)) < lots; ) {
		const struct epd_lot *lot = &all[i].lot;
		uint8_t *had = calloc((size_t)lot->n, 1);
		void **out = calloc((size_t)lot->n, sizeof *out);

		must(had && out ? 0 : -ENOMEM, "memory");
		must(epd_run_new(&all[i].back, shm_fd, &lot->shape), "run");
		for (long k = 0; k < lot->n; k++)
			must(epd_run_add(all[i].back, &out[k]), "page");
		must(epd_lower_ops(l)->get(l, lot, out, had, UINT64_MAX,
		    NULL) == lot->n ? 0 : -EIO, "get");
		free(had);
		free(out);
	}
	return NULL;
}

/* Seconds that so many threads take for all lots. */
static double
each(int threads, void *(*fn)(void *))
{
	const double from = now();
	pthread_t t[THREADS];

	next = 0;
	for (int i = 1; i < threads; i++)
		must(-pthread_create(&t[i], NULL, fn, tier[i]), "thread");
	fn(tier[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(t[i], NULL);
	return now() - from;
}

static void
open_all(const char *dir)
{
	static const uint8_t uuid[16] = { 0xbe };
	char store[64];

	must(mkdtemp(shm) ? 0 : -errno, shm);
	shm_fd = open(shm, O_RDONLY | O_DIRECTORY);
	snprintf(store, sizeof store, "%s/store", shm);
	must(epd_memory_open(&disk, dir, uuid, store, UINT64_MAX / 2, &why), dir);
}

static void
close_all(void)
{
	const int root = open("/", O_RDONLY | O_DIRECTORY);

	must(epd_memory_remove(disk, "w1"), "remove");
	epd_memory_close(disk);
	epd_file_remove(root, shm + 1);
}

static void
rates(int threads, enum epd_packing packing)
{
	const struct epd_nvme_options o = { .folder = disk, .packing = packing };
	double put_s, get_s, core;
	uint64_t on_disk;

	must(threads < 1 || threads > THREADS ? -EINVAL : 0, "threads");
	for (int i = 0; i < threads; i++)
		must(epd_nvme_open(&tier[i], &o), "nvme");
	core = cpu();
	put_s = each(threads, put);
	must(epd_memory_used(disk, &on_disk), "used");
	/* Memory that was never touched is slow to come by on a virtual machine. */
	(void)each(threads, get);
	for (long i = 0; i < lots; i++)
		epd_run_close(all[i].back);
	get_s = each(threads, get);
	core = cpu() - core;
	for (int i = 0; i < threads; i++)
		epd_lower_ops(tier[i])->close(tier[i]);
	printf("{\"write\":%.4f,\"read\":%.4f,\"bytes\":%" PRIu64 ",\"disk\":%"
	    PRIu64 ",\"cpu\":%.3f,\"type\":%u}\n", (double)bytes / put_s / 1e9,
	    (double)bytes / get_s / 1e9, bytes, on_disk, core,
	    (unsigned)all[0].lot.shape.type);
}

int
main(int argc, char **argv)
{
	enum epd_packing packing = EPD_PACKING_NONE;
	int dir, as, threads = 1;

	if (argc < 5)
		return 2;
	open_all(argv[2]);
	if (!strcmp(argv[1], "nvme")) {
		make(strtoull(argv[3], NULL, 10));
		threads = atoi(argv[4]);
	} else {
		dir = open(argv[3], O_RDONLY | O_DIRECTORY);
		must(dir < 0 ? -errno : epd_run_each(dir, take, &dir), argv[3]);
		as = epd_word_parse(&epd_packings, argv[4]);
		must(as < 0 ? -EINVAL : 0, "packing");
		packing = (enum epd_packing)as;
	}
	must(lots ? 0 : -ENOENT, "pages");
	rates(threads, packing);
	close_all();
	return 0;
}
