/*
 * tier_lots.h - lots of made-up pages, and a tier on a disk to keep them.  What a
 * page is follows from its seed, so that two lots can share pages and each can be
 * looked at without having been kept.
 */
#ifndef TESTS_TIER_LOTS_H
#define TESTS_TIER_LOTS_H

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/hash.h"
#include "page/page.h"
#include "scratch.h"
#include "tier/nvme.h"
#include "tier/object.h"
#include "tier/pack.h"
#include "tier/tier.h"

static const uint8_t lots_uuid[16] = { 0xab };
#define LOTS_FOLDER "mem/epd-ab000000000000000000000000000000"
enum { LOTS_F32, LOTS_BF16 };
static const struct epd_run_shape lots_small = { EPD_OBJECT_KV_PAGE, LOTS_BF16,
    16, 4096 };

struct lots {
	struct epd_lot lot;
	struct epd_page_entry *entry;
	uint8_t *memory;		/* pages, `stride` apart */
	const void **page;
	void **out;			/* another place for each, aligned alike */
	uint8_t *back, *had;
	size_t stride, bytes;
};

/* Values as those of keys: small floats of either type, so zstd finds something. */
static inline void
lots_fill(uint8_t *p, const struct epd_run_shape *s, uint64_t seed,
    uint32_t rows)
{
	const size_t each = s->type == LOTS_F32 ? 4 : 2;
	const size_t n = (size_t)s->bytes / each * rows / s->tokens;
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

	memset(p, 0, (size_t)s->bytes);
	for (size_t i = 0; i < n; i++) {
		float v;
		uint32_t b;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		v = (float)(int32_t)(x >> 40) * 1e-7f;
		memcpy(&b, &v, 4);
		if (each == 2)
			b >>= 16;
		memcpy(p + i * each, &b, each);
	}
}

/*
 * n pages of seeds first .. first + n - 1, the last of rows rows; askew: a few bytes
 * off where O_DIRECT could take them from.
 */
static inline void
lots_make(struct lots *k, const struct epd_run_shape *s, const char *workflow,
    uint64_t run, uint64_t first, long n, uint32_t rows, size_t askew)
{
	const size_t stride = epd_pack_up(s->bytes) + (askew ? 4096 : 0);
	const size_t bytes = stride * (size_t)n;

	*k = (struct lots){ .stride = stride, .bytes = bytes };
	k->entry = calloc((size_t)n, sizeof *k->entry);
	k->page = calloc((size_t)n, sizeof *k->page);
	k->out = calloc((size_t)n, sizeof *k->out);
	k->had = calloc((size_t)n, 1);
	k->memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!k->entry || !k->page || !k->out || !k->had ||
	    k->memory == MAP_FAILED)
		abort();
	k->back = k->memory + bytes;
	for (long i = 0; i < n; i++) {
		struct epd_page_entry *e = k->entry + i;
		uint8_t *p = k->memory + (size_t)i * stride + askew;
		const uint64_t seed = first + (uint64_t)i;

		e->rows = i == n - 1 ? rows : s->tokens;
		lots_fill(p, s, seed, e->rows);
		e->sum = epd_xxh3_64(p, (size_t)s->bytes);
		memcpy(e->name.b, &seed, sizeof seed);
		memcpy(e->name.b + 8, &e->sum, 8);
		k->page[i] = p;
		k->out[i] = k->back + (size_t)i * stride + askew;
	}
	k->lot = (struct epd_lot){ .workflow = workflow, .run = run, .shape = *s,
		.entry = k->entry, .n = n, .manifest = epd_span_str("{\"a\":1}") };
}

static inline void
lots_free(struct lots *k)
{
	munmap(k->memory, 2 * k->bytes);
	free(k->entry);
	free(k->page);
	free(k->out);
	free(k->had);
}

/* Poison what comes back, forget what was had. */
static inline void
lots_poison(struct lots *k)
{
	memset(k->back, 0xa5, k->bytes);
	memset(k->had, 0, (size_t)k->lot.n);
}

/* Pages said to be had that are not the pages. */
static inline long
lots_lies(const struct lots *k)
{
	long n = 0;

	for (long i = 0; i < k->lot.n; i++)
		n += k->had[i] && (k->had[i] > EPD_HAD_GIVEN || !k->out[i] ||
		    memcmp(k->out[i], k->page[i], (size_t)k->lot.shape.bytes));
	return n;
}

static inline long
lots_had(const struct lots *k)
{
	long n = 0;

	for (long i = 0; i < k->lot.n; i++)
		n += k->had[i] != 0;
	return n;
}

/* ---- the tier ---- */

struct disk {
	int dir;			/* all of it */
	char store[300], mem[300];
	struct epd_memory *m;
	struct epd_metrics *count;
	struct epd_lower *l;
	struct epd_why why;
};

static inline int
disk_reopen(struct disk *d, enum epd_packing packing, uint64_t cap)
{
	struct epd_nvme_options o = { .packing = packing };
	int rc;

	if (d->l)
		epd_lower_ops(d->l)->close(d->l);
	d->l = NULL;
	epd_memory_close(d->m);
	d->m = NULL;
	rc = epd_memory_open(&d->m, d->mem, lots_uuid, d->store, cap, &d->why);
	o.folder = d->m;
	o.metrics = d->count;
	return rc ? rc : epd_nvme_open(&d->l, &o);
}

/* In a folder beneath tmp; NULL: where tests have theirs. */
static inline int
disk_open_in(struct disk *d, const char *tmp, enum epd_packing packing,
    uint64_t cap)
{
	const char *was = getenv("TMPDIR");
	char *keep = was ? strdup(was) : NULL;
	struct epd_span text = epd_span_str(
	    "epd-store 1\nuuid ab000000000000000000000000000000\n");
	int fd;

	*d = (struct disk){ .dir = -1 };
	if (tmp)
		setenv("TMPDIR", tmp, 1);
	d->dir = scratch_open();
	if (tmp && keep)
		setenv("TMPDIR", keep, 1);
	else if (tmp)
		unsetenv("TMPDIR");
	free(keep);
	snprintf(d->store, sizeof d->store, "%s/store", scratch_path);
	snprintf(d->mem, sizeof d->mem, "%s/mem", scratch_path);
	fd = epd_dir_make(d->dir, "store");
	if (fd < 0 || epd_file_replace(fd, "store", &text, 1, 0) ||
	    epd_metrics_open(&d->count, fd))
		return -1;
	close(fd);
	return disk_reopen(d, packing, cap);
}

static inline int
disk_open(struct disk *d, enum epd_packing packing)
{
	return disk_open_in(d, NULL, packing, UINT64_MAX);
}

static inline void
disk_close(struct disk *d)
{
	if (d->l)
		epd_lower_ops(d->l)->close(d->l);
	epd_memory_close(d->m);
	epd_metrics_close(d->count);
	scratch_close(d->dir);
}

static inline int
disk_put(struct disk *d, const struct lots *k)
{
	return epd_lower_ops(d->l)->put(d->l, &k->lot, k->page, UINT64_MAX,
	    &d->why);
}

/* What get gives, out poisoned before; -1000000 if it lied. */
static inline long
disk_get(struct disk *d, struct lots *k)
{
	long n;

	lots_poison(k);
	n = epd_lower_ops(d->l)->get(d->l, &k->lot, k->out, k->had, UINT64_MAX,
	    &d->why);
	if (lots_lies(k) || (n >= 0 ? n : 0) != lots_had(k))
		return -1000000;
	return n;
}

static inline long
disk_has(struct disk *d, const struct lots *k)
{
	return epd_lower_ops(d->l)->has(d->l, &k->lot, UINT64_MAX, &d->why);
}

static inline int
disk_drop(struct disk *d, const struct lots *k)
{
	return epd_lower_ops(d->l)->drop(d->l, &k->lot, UINT64_MAX, &d->why);
}

static inline uint64_t
disk_counted(const struct disk *d, enum epd_metric id)
{
	return epd_metrics_get(d->count, id);
}

/* Where a run's pack lies, from d->dir. */
static inline const char *
disk_path(char out[200], const char *workflow, uint64_t run)
{
	snprintf(out, 200, LOTS_FOLDER "/w/%s/%016" PRIx64, workflow, run);
	return out;
}

/* Bytes allocated to all files in the tier's w/, told by looking. */
static inline uint64_t
disk_sum(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t n = 0;
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISDIR(st.st_mode)) {
			const int sub = openat(dirfd, e->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

			n += disk_sum(sub);
			close(sub);
		} else {
			n += (uint64_t)st.st_blocks * 512;
		}
	}
	if (d)
		closedir(d);
	return n;
}

static inline uint64_t
disk_files(const struct disk *d)
{
	const int w = openat(d->dir, LOTS_FOLDER "/w",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	const uint64_t n = w < 0 ? 0 : disk_sum(w);

	close(w);
	return n;
}

#endif
