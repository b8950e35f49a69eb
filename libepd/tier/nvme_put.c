/*
 * nvme_put.c - a lot into a pack: objects are packed into one buffer while those
 * before are on their way to the disk.
 *
 * The front goes last and the name after it, so a pack that has a name is whole.
 * Until then the file is a temporary with a lock on it; who finds one without its
 * writer takes it away (epd_run_sweep).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "page/page.h"
#include "tier/nvme_in.h"

#define MIB ((uint64_t)1 << 20)
enum { LEVEL = 1, SLOTS = 4 };

struct put {
	struct epd_nvme *v;
	const struct epd_lot *lot;
	struct epd_pack pack;
	int dir, fd;
	char tmp[EPD_TEMP];
	int slot;
	size_t used;			/* of the slot's buffer */
	uint64_t at;			/* in the file, where that begins */
};

/* A rate that follows what is seen, of 1 MiB. */
static void
learn(uint64_t *rate, uint64_t ns, uint64_t bytes)
{
	const uint64_t now = bytes ? ns * MIB / bytes : 0;

	if (bytes)
		*rate = *rate ? (3 * *rate + now) / 4 : now;
}

/*
 * Whether to pack: always, never, or (auto) when the processor is done with a page
 * before the disk would be.  One page in 64 is tried anew either way.
 */
static int
level_of(const struct epd_nvme *v, long i)
{
	if (v->o.packing != EPD_PACKING_AUTO)
		return v->o.packing == EPD_PACKING_ZSTD ? LEVEL : 0;
	if (!v->zstd_ns || i % 64 == 63)
		return LEVEL;
	return v->disk_ns && v->zstd_ns <= v->disk_ns ? LEVEL : 0;
}

static int
moved(struct put *u, int slot)
{
	uint64_t ns;
	int64_t n = epd_ring_done(u->v->ring, slot, &ns);

	if (n > 0)
		learn(&u->v->disk_ns, ns / SLOTS, (uint64_t)n);
	return n < 0 ? (int)n : 0;
}

/* Hand the full blocks of the buffer over; what is left begins the next one. */
static int
flush(struct put *u, int last)
{
	struct epd_ring *r = u->v->ring;
	uint8_t *p = epd_ring_buffer(r, u->slot);
	size_t whole, left;
	int next = (u->slot + 1) % SLOTS, rc;

	if (last && u->used % EPD_RING_ALIGN) {
		left = EPD_RING_ALIGN - u->used % EPD_RING_ALIGN;
		memset(p + u->used, 0, left);
		u->used += left;
	}
	whole = u->used - u->used % EPD_RING_ALIGN;
	left = u->used - whole;
	rc = whole ? epd_ring_start(r, u->slot, u->fd, 1, whole, u->at) : 0;
	if (!rc)
		rc = moved(u, next);
	if (rc)
		return rc;
	memcpy(epd_ring_buffer(r, next), p + whole, left);
	u->at += whole;
	u->used = left;
	u->slot = next;
	return 0;
}

static int
put_page(struct put *u, long i, const void *page)
{
	const size_t most = epd_object_bound(&u->lot->shape) + EPD_PACK_STEP;
	const int level = level_of(u->v, i);
	const uint64_t from = epd_clock_boot_ns();
	uint8_t *p;
	int64_t n;
	size_t pad;
	int rc = 0;

	if (epd_ring_bytes(u->v->ring) - u->used < most)
		rc = flush(u, 0);
	if (rc)
		return rc;
	p = epd_ring_buffer(u->v->ring, u->slot);
	n = epd_object_pack(p + u->used, u->lot, i, page, level, epd_span("", 0));
	if (n < 0)
		return (int)n;
	if (level)
		learn(&u->v->zstd_ns, epd_clock_boot_ns() - from,
		    u->lot->shape.bytes);
	u->pack.entry[i] = (struct epd_pack_entry){ u->lot->entry[i],
		u->at + u->used, (uint32_t)n };
	u->used += (size_t)n;
	pad = (EPD_PACK_STEP - u->used % EPD_PACK_STEP) % EPD_PACK_STEP;
	memset(p + u->used, 0, pad);
	u->used += pad;
	return 0;
}

static int
put_front(struct put *u)
{
	const size_t n = (size_t)u->pack.first;
	uint8_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (p == MAP_FAILED)
		return -ENOMEM;
	epd_pack_front(p, &u->pack);
	rc = epd_file_pwrite(u->fd, p, n, 0);
	munmap(p, n);
	return rc;
}

static int
put_all(struct put *u, const void *const *page, uint64_t deadline_ns)
{
	int rc = 0;

	for (long i = 0; rc == 0 && i < u->lot->n; i++)
		rc = epd_clock_boot_ns() < deadline_ns ?
		    put_page(u, i, page[i]) : EPD_ETIMEOUT;
	if (rc == 0)
		rc = flush(u, 1);
	for (int i = 0; i < SLOTS; i++) {
		const int late = moved(u, i);

		rc = rc ? rc : late;
	}
	u->pack.bytes = u->at;
	if (rc == 0)
		rc = put_front(u);
	return rc ? rc : epd_file_datasync(u->fd);
}

/* A temporary of ours, with the lock that tells that we live. */
static int
begin(struct put *u)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const struct epd_lot *lot = u->lot;
	size_t manifest = lot->manifest.n > EPD_PACK_MANIFEST ? 0 :
	    lot->manifest.n;

	u->pack = (struct epd_pack){ .shape = lot->shape, .run = lot->run,
		.given = lot->given, .n = (uint32_t)lot->n,
		.manifest = (char *)(uintptr_t)lot->manifest.p,
		.manifest_bytes = (uint32_t)manifest,
		.first = epd_pack_first((uint32_t)lot->n, manifest) };
	snprintf(u->pack.workflow, sizeof u->pack.workflow, "%s",
	    lot->workflow);
	u->at = u->pack.first;
	u->pack.entry = epd_calloc((size_t)lot->n, sizeof *u->pack.entry);
	if (!u->pack.entry)
		return -ENOMEM;
	u->fd = epd_file_temp(u->dir, u->tmp);
	if (u->fd < 0)
		return u->fd;
	(void)fcntl(u->fd, F_OFD_SETLK, &lock);
	(void)fchmod(u->fd, 0400);
	epd_nvme_direct(u->fd);
	return epd_nvme_ring(u->v, &lot->shape);
}

/* Make room for it beneath the cap. */
static int
room(struct put *u, struct epd_why *why)
{
	const struct epd_lot *lot = u->lot;
	struct epd_memory_fit fit;
	const uint64_t n = (uint64_t)lot->n, bytes = epd_pack_first(
	    (uint32_t)n, lot->manifest.n) + n * (lot->shape.bytes +
	    EPD_OBJECT_HEAD + EPD_PACK_STEP);
	int rc;

	if (lot->n < 1 || lot->n > EPD_PACK_PAGES || lot->shape.bytes >
	    INT64_MAX / EPD_PACK_PAGES)
		return epd_why(why, EPD_EUSAGE, "a lot of %ld pages", lot->n);
	rc = epd_memory_fit(u->v->o.folder, bytes, NULL, NULL, &fit, NULL);
	if (rc == 0 && fit.runs) {
		epd_count(u->v->o.metrics, EPD_M_EVICT_RUNS, fit.runs);
		epd_count(u->v->o.metrics, EPD_M_EVICT_BYTES, fit.evicted);
	}
	return rc == 0 && fit.over ? epd_why(why, -ENOSPC, "tier nvme: %llu "
	    "bytes do not go in its cap of %llu", (unsigned long long)bytes,
	    (unsigned long long)epd_memory_cap(u->v->o.folder)) : rc;
}

/* Where the disk is full below the cap others make way, a lot at a time. */
static int
squeeze(struct put *u)
{
	struct epd_memory *m = u->v->o.folder;
	const uint64_t cap = epd_memory_cap(m), want =
	    (uint64_t)u->lot->n * u->lot->shape.bytes;
	struct epd_memory_fit fit = { 0 };
	uint64_t used = 0;

	if (epd_memory_used(m, &used) || epd_memory_fit(m,
	    (cap > used ? cap - used : 0) + want, NULL, NULL, &fit, NULL))
		return 0;
	epd_count(u->v->o.metrics, EPD_M_EVICT_RUNS, fit.runs);
	epd_count(u->v->o.metrics, EPD_M_EVICT_BYTES, fit.evicted);
	return fit.runs > 0;
}

static int
write_pack(struct put *u, const void *const *page, uint64_t deadline_ns)
{
	char name[EPD_RUN_NAME];
	int rc;

	u->slot = 0;
	u->used = 0;
	u->fd = -1;
	rc = begin(u);
	if (rc == 0)
		rc = put_all(u, page, deadline_ns);
	epd_run_format(name, u->lot->run);
	if (rc == 0 && renameat(u->dir, u->tmp, u->dir, name))
		rc = -errno;
	if (rc && u->fd >= 0)
		unlinkat(u->dir, u->tmp, 0);
	if (u->fd >= 0)
		close(u->fd);
	epd_free(u->pack.entry);
	return rc;
}

int
epd_nvme_put(struct epd_lower *l, const struct epd_lot *lot,
    const void *const *page, uint64_t deadline_ns, struct epd_why *why)
{
	struct put u = { .v = (struct epd_nvme *)(void *)l, .lot = lot };
	int rc;

	if (epd_lower_ops(l)->has(l, lot, deadline_ns, NULL) == lot->n)
		return 0;
	rc = room(&u, why);
	if (rc)
		return rc;
	u.dir = epd_memory_dir(u.v->o.folder, lot->workflow);
	if (u.dir < 0)
		return epd_why(why, u.dir, "tier nvme: %s", epd_strerror(u.dir));
	do
		rc = write_pack(&u, page, deadline_ns);
	while (rc == -ENOSPC && squeeze(&u));
	close(u.dir);
	return rc ? epd_why(why, rc, "tier nvme: %s", epd_strerror(rc)) : 0;
}
