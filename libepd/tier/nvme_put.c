/*
 * nvme_put.c - a lot into a pack: pages go to the disk from where they lie, or by
 * way of a slot's buffer where they are packed or lie askew, some at once.
 *
 * The name comes after the flush, so a pack that has a name is whole.  Until then the
 * file is a temporary with a lock on it; who finds one without its writer takes it
 * away (epd_run_sweep).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "page/page.h"
#include "tier/nvme_in.h"

#define MIB ((uint64_t)1 << 20)
enum { LEVEL = 1, TRY = 16384, CREDIT = 64, SECOND = 1000000000 };

struct put {
	struct epd_nvme *v;
	const struct epd_lot *lot;
	struct epd_pack pack;
	int dir, fd;
	char tmp[EPD_TEMP];
	uint8_t *front;
	/* What goes next, from at on. */
	int slot, parts;
	struct iovec part[EPD_RING_PARTS];
	uint64_t at, bytes;
	size_t used;			/* of the slot's buffer */
};

/* What is seen of n bytes, in a figure of 1 MiB that follows it. */
static void
learn(uint64_t *figure, uint64_t seen, uint64_t n)
{
	const uint64_t now = n ? seen * MIB / n : 0;

	if (n)
		*figure = *figure ? (3 * *figure + now) / 4 : now;
}

/* What zstd makes of n bytes, in how long; 0: nothing. */
static size_t
squash(struct epd_nvme *v, uint8_t *out, size_t room, const void *p, size_t n)
{
	uint64_t from;
	size_t got;

	if (!v->zip && !(v->zip = ZSTD_createCCtx()))
		return 0;
	from = epd_clock_boot_ns();
	got = ZSTD_compressCCtx(v->zip, out, room, p, n, LEVEL);
	if (ZSTD_isError(got))
		return 0;
	learn(&v->zstd_ns, epd_clock_boot_ns() - from, n);
	learn(&v->zstd_bytes, got, n);
	epd_ring_look(v->ring);
	return got;
}

/*
 * Whether to pack: always, never, or (auto) where the processor is done with a page
 * well before the disk would be, and it gets smaller.  A bit of one page in 64 is
 * tried, so that trying costs next to nothing where the disk is fast.
 */
static int
packs(struct epd_nvme *v, long i, uint8_t *buffer, const void *page, size_t n)
{
	if (v->o.packing != EPD_PACKING_AUTO)
		return v->o.packing == EPD_PACKING_ZSTD;
	if (i % 64 == 0)
		(void)squash(v, buffer, ZSTD_compressBound(n), page,
		    n < TRY ? n : TRY);
	return v->zstd_ns && v->zstd_ns <= v->disk_ns / 4 * 3 &&
	    v->zstd_bytes <= MIB / 16 * 15;
}

static int
moved(struct put *u, int slot)
{
	uint64_t ns;
	int64_t n = epd_ring_done(u->v->ring, slot, &ns);

	if (n > 0)
		learn(&u->v->disk_ns, ns, (uint64_t)n);
	return n < 0 ? (int)n : 0;
}

/* Send off what has come together, and see that the next slot is free. */
static int
send(struct put *u)
{
	int rc = u->parts ? epd_ring_start(u->v->ring, u->slot, u->fd, 1, u->part,
	    u->parts, u->at) : 0;

	if (rc)
		return rc;
	u->at += u->bytes;
	u->slot = (u->slot + 1) % EPD_NVME_SLOTS;
	u->parts = 0;
	u->bytes = u->used = 0;
	return moved(u, u->slot);
}

/* n bytes more, a multiple of 4096. */
static void
add(struct put *u, const void *p, size_t n)
{
	struct iovec *v = u->parts ? u->part + u->parts - 1 : NULL;

	if (v && (const uint8_t *)v->iov_base + v->iov_len == p)
		v->iov_len += n;
	else
		u->part[u->parts++] = (struct iovec){ (void *)(uintptr_t)p, n };
	u->bytes += n;
}

static int
put_page(struct put *u, long i, const void *page)
{
	const size_t bytes = (size_t)u->lot->shape.bytes;
	const size_t most = epd_pack_up(ZSTD_compressBound(bytes));
	size_t n = 0;
	uint8_t *p;
	int rc = 0;

	if (u->bytes >= EPD_NVME_STEP || u->parts == EPD_RING_PARTS ||
	    epd_ring_bytes(u->v->ring) - u->used < most)
		rc = send(u);
	if (rc)
		return rc;
	p = (uint8_t *)epd_ring_buffer(u->v->ring, u->slot) + u->used;
	if (packs(u->v, i, p, page, bytes))
		n = squash(u->v, p, most, page, bytes);
	if (epd_pack_up(n) >= epd_pack_up(bytes))
		n = 0;
	u->pack.entry[i] = (struct epd_pack_entry){ u->lot->entry[i],
		n ? EPD_PACK_ZSTD : EPD_PACK_RAW, u->at + u->bytes,
		n ? n : bytes };
	if (!n && epd_nvme_straight(page, bytes)) {
		add(u, page, bytes);
		return 0;
	}
	if (!n)
		memcpy(p, page, n = bytes);
	memset(p + n, 0, epd_pack_up(n) - n);
	add(u, p, epd_pack_up(n));
	u->used += epd_pack_up(n);
	return 0;
}

static int
put_front(struct put *u)
{
	const size_t n = (size_t)u->pack.first;

	u->front = epd_alloc_aligned(EPD_RING_ALIGN, n);
	if (!u->front)
		return -ENOMEM;
	u->pack.bytes = u->at;
	epd_pack_front(u->front, &u->pack);
	u->at = 0;
	add(u, u->front, n);
	return send(u);
}

static int
put_all(struct put *u, const void *const *page, uint64_t deadline_ns)
{
	int rc = 0;

	for (long i = 0; rc == 0 && i < u->lot->n; i++)
		rc = epd_clock_boot_ns() < deadline_ns ?
		    put_page(u, i, page[i]) : EPD_ETIMEOUT;
	if (rc == 0)
		rc = send(u);
	if (rc == 0)
		rc = put_front(u);
	for (int i = 0; i < EPD_NVME_SLOTS; i++) {
		const int late = moved(u, i);

		rc = rc ? rc : late;
	}
	if (rc == 0 && ftruncate(u->fd, (off_t)u->pack.bytes))
		rc = -errno;
	return rc ? rc : epd_file_datasync(u->fd);
}

/* What the pack takes up if nothing in it gets smaller. */
static uint64_t
whole(const struct epd_lot *lot)
{
	return epd_pack_first((uint32_t)lot->n, lot->manifest.n) +
	    (uint64_t)lot->n * epd_pack_up(lot->shape.bytes);
}

/* A temporary of ours, with the lock that tells that we live, and room in it. */
static int
begin(struct put *u)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const struct epd_lot *lot = u->lot;
	const size_t manifest = lot->manifest.n > EPD_PACK_MANIFEST ? 0 :
	    lot->manifest.n;

	u->pack = (struct epd_pack){ .shape = lot->shape, .run = lot->run,
		.given = lot->given, .n = (uint32_t)lot->n,
		.manifest = (char *)(uintptr_t)lot->manifest.p,
		.manifest_bytes = (uint32_t)manifest,
		.first = epd_pack_first((uint32_t)lot->n, manifest) };
	snprintf(u->pack.workflow, sizeof u->pack.workflow, "%s",
	    lot->workflow);
	u->at = u->pack.first;
	u->bytes = u->used = 0;
	u->parts = u->slot = 0;
	u->pack.entry = epd_calloc((size_t)lot->n, sizeof *u->pack.entry);
	if (!u->pack.entry)
		return -ENOMEM;
	u->fd = epd_file_temp(u->dir, u->tmp);
	if (u->fd < 0)
		return u->fd;
	(void)fcntl(u->fd, F_OFD_SETLK, &lock);
	/* Written within its size a file needs no lock from block to block. */
	if (fallocate(u->fd, 0, 0, (off_t)whole(lot)) && errno != EOPNOTSUPP &&
	    errno != ENOSYS)
		return -errno;
	epd_nvme_direct(u->fd);
	return epd_nvme_ring(u->v, &lot->shape);
}

static void
evicted(const struct put *u, const struct epd_memory_fit *fit)
{
	if (fit->runs) {
		epd_count(u->v->o.metrics, EPD_M_EVICT_RUNS, fit->runs);
		epd_count(u->v->o.metrics, EPD_M_EVICT_BYTES, fit->evicted);
	}
}

/*
 * Make room for it beneath the cap.  Measuring takes a look at every pack, so what was
 * seen holds for a second, and for a small part of the cap: by that, at most, each of
 * several who put at once goes beyond it, and the next who measures makes it good.
 */
static int
room(struct put *u, struct epd_why *why)
{
	struct epd_memory *m = u->v->o.folder;
	const uint64_t cap = epd_memory_cap(m), bytes = whole(u->lot);
	const uint64_t now = epd_clock_boot_ns();
	struct epd_memory_fit fit = { 0 };
	struct epd_why what = { "" };
	int rc;

	if (bytes <= u->v->credit && now < u->v->credit_ns) {
		u->v->credit -= bytes;
		return 0;
	}
	/* For what will never go in nobody makes way. */
	if (bytes > cap)
		return epd_why(why, -ENOSPC, "tier nvme: %" PRIu64 " bytes are "
		    "more than its %" PRIu64, bytes, cap);
	rc = epd_memory_fit(m, bytes, NULL, NULL, &fit, &what);
	evicted(u, &fit);
	if (rc)
		return epd_why(why, rc, "tier nvme: %s", epd_strerror(rc));
	if (fit.over)
		return epd_why(why, -ENOSPC, "tier nvme: %s", what.text);
	u->v->credit = cap - fit.used - bytes;
	if (u->v->credit > cap / CREDIT)
		u->v->credit = cap / CREDIT;
	u->v->credit_ns = now + SECOND;
	return 0;
}

/* What stands in the pack's place and is none makes way. */
static int
publish(struct put *u)
{
	char name[EPD_RUN_NAME];

	epd_run_format(name, u->lot->run);
	if (renameat(u->dir, u->tmp, u->dir, name) && (errno != EISDIR ||
	    epd_file_remove(u->dir, name) ||
	    renameat(u->dir, u->tmp, u->dir, name)))
		return -errno;
	/* Not before: a sweep opens temporaries to write. */
	(void)fchmod(u->fd, EPD_NVME_WHOLE);
	return epd_dir_sync(u->dir);
}

static int
write_pack(struct put *u, const void *const *page, uint64_t deadline_ns)
{
	int rc;

	u->fd = -1;
	u->front = NULL;
	rc = begin(u);
	if (rc == 0)
		rc = put_all(u, page, deadline_ns);
	if (rc == 0)
		rc = publish(u);
	if (rc && u->fd >= 0)
		unlinkat(u->dir, u->tmp, 0);
	if (u->fd >= 0)
		close(u->fd);
	epd_free(u->front);
	epd_free(u->pack.entry);
	return rc == -EDQUOT ? -ENOSPC : rc;
}

/*
 * 1: all of it is there; -EEXIST: there is more, that would be lost.  What is there as
 * computed is not left so for given pages; what is there as given stays that.
 */
static int
there(const struct put *u)
{
	const struct epd_lot *lot = u->lot;
	int given;
	struct epd_pack p;
	int damaged, fd = epd_nvme_find(u->v, lot, &p, &damaged, NULL);
	long n = 0, more;

	if (fd < 0)
		return epd_nvme_is_none(fd) ? 0 : fd;
	for (long i = 0; i < lot->n; i++)
		n += epd_pack_find(&p, lot, i) != NULL;
	more = (long)p.n - n;
	given = p.given;
	epd_pack_free(&p);
	close(fd);
	if (damaged)
		return 0;
	if (n == lot->n && (given || !lot->given))
		return 1;
	return more > 0 ? n == lot->n ? 1 : -EEXIST : 0;
}

static int
lot_check(const struct epd_lot *lot, struct epd_why *why)
{
	if (lot->n < 1 || lot->n > EPD_PACK_PAGES || !lot->shape.bytes ||
	    lot->shape.bytes > INT64_MAX / 2 / EPD_PACK_PAGES)
		return epd_why(why, EPD_EUSAGE, "a lot of %ld pages", lot->n);
	if (strlen(lot->workflow) >= sizeof ((struct epd_pack *)0)->workflow)
		return epd_why(why, -ENAMETOOLONG, "%s: too long a name",
		    lot->workflow);
	return 0;
}

int
epd_nvme_put(struct epd_lower *l, const struct epd_lot *lot,
    const void *const *page, uint64_t deadline_ns, struct epd_why *why)
{
	struct put u = { .v = (struct epd_nvme *)(void *)l, .lot = lot };
	int rc = lot_check(lot, why);

	if (rc)
		return rc;
	rc = there(&u);
	if (rc)
		return rc > 0 ? 0 : epd_why(why, rc, "tier nvme: %s", rc ==
		    -EEXIST ? "other pages are there under that run" :
		    epd_strerror(rc));
	rc = room(&u, why);
	if (rc)
		return rc;
	u.dir = epd_memory_dir(u.v->o.folder, lot->workflow);
	if (u.dir < 0)
		return epd_why(why, u.dir, "tier nvme: %s", epd_strerror(u.dir));
	rc = write_pack(&u, page, deadline_ns);
	close(u.dir);
	return rc ? epd_why(why, rc, "tier nvme: %s", epd_strerror(rc)) : 0;
}
