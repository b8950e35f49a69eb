/* nvme.c - the tier's table, and all of it that moves no pages. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "page/page.h"
#include "tier/nvme_in.h"

const struct epd_words epd_packings = EPD_WORDS([EPD_PACKING_NONE] = "none",
    [EPD_PACKING_ZSTD] = "zstd", [EPD_PACKING_AUTO] = "auto");

int
epd_nvme_ring(struct epd_nvme *v, const struct epd_run_shape *shape)
{
	const size_t one = epd_pack_up(ZSTD_compressBound(
	    (size_t)shape->bytes));
	const size_t want = one > EPD_NVME_STEP ? one : EPD_NVME_STEP;

	if (v->ring && epd_ring_bytes(v->ring) >= want)
		return 0;
	epd_ring_close(v->ring);
	v->ring = NULL;
	return epd_ring_open(&v->ring, EPD_NVME_SLOTS, want);
}

int
epd_nvme_straight(const void *p, uint64_t bytes)
{
	return (uintptr_t)p % EPD_RING_ALIGN == 0 &&
	    bytes % EPD_RING_ALIGN == 0;
}

void
epd_nvme_direct(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_DIRECT);
}

/* Something else than a file must not make us wait, nor reading it count as use. */
static int
open_pack(const struct epd_nvme *v, const struct epd_lot *lot)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
	int dir = epd_memory_find(v->o.folder, lot->workflow), fd;
	char name[EPD_RUN_NAME];

	if (dir < 0)
		return dir;
	epd_run_format(name, lot->run);
	fd = epd_file_open(dir, name, flags | O_NOATIME, 0);
	/* Only the file's owner may ask that. */
	if (fd == -EPERM)
		fd = epd_file_open(dir, name, flags, 0);
	close(dir);
	return fd;
}

int
epd_nvme_find(const struct epd_nvme *v, const struct epd_lot *lot,
    struct epd_pack *out, int *damaged, struct epd_why *why)
{
	struct epd_pack p;
	struct stat st;
	int fd = open_pack(v, lot), rc;

	if (fd < 0)
		return epd_why(why, fd == -ELOOP || fd == -ENXIO ? EPD_ECORRUPT :
		    fd, "pack: %s", epd_strerror(fd));
	epd_nvme_direct(fd);
	rc = epd_pack_read(&p, fd, why);
	if (rc == 0 && lot->entry && !epd_pack_is(&p, lot)) {
		epd_pack_free(&p);
		rc = epd_why(why, EPD_ECORRUPT, "pack: of another sort");
	}
	if (rc) {
		close(fd);
		return rc;
	}
	if (damaged)
		*damaged = !fstat(fd, &st) &&
		    (st.st_mode & 0777) == EPD_NVME_DAMAGED;
	*out = p;
	return fd;
}

int
epd_nvme_is_none(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EISDIR ||
	    rc == EPD_ECORRUPT || rc == EPD_EKIND;
}

static long
has(struct epd_lower *l, const struct epd_lot *lot, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_pack p;
	int fd = epd_nvme_find((struct epd_nvme *)(void *)l, lot, &p, NULL, why);
	long n = 0;

	(void)deadline_ns;
	if (fd < 0)
		return epd_nvme_is_none(fd) ? 0 : fd;
	for (long i = 0; i < lot->n; i++)
		n += epd_pack_find(&p, lot, i) != NULL;
	epd_pack_free(&p);
	close(fd);
	return n;
}

static int
alias(struct epd_lower *l, const char *workflow, uint64_t run, const char *as,
    uint64_t as_run)
{
	struct epd_memory *m = ((struct epd_nvme *)(void *)l)->o.folder;
	int from = epd_memory_find(m, workflow), to, rc;

	if (from < 0)
		return from;
	to = epd_memory_dir(m, as);
	rc = to < 0 ? to : epd_run_link(from, run, to, as_run);
	if (rc == 0)
		rc = epd_dir_sync(to);
	if (to >= 0)
		close(to);
	close(from);
	return rc;
}

static int
drop(struct epd_lower *l, const struct epd_lot *lot, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_nvme *v = (struct epd_nvme *)(void *)l;
	int dir = epd_memory_find(v->o.folder, lot->workflow), rc;
	char name[EPD_RUN_NAME];

	(void)deadline_ns;
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	epd_run_format(name, lot->run);
	rc = epd_file_remove(dir, name);
	close(dir);
	return rc ? epd_why(why, rc, "tier nvme: %s", epd_strerror(rc)) : 0;
}

static void
close_nvme(struct epd_lower *l)
{
	struct epd_nvme *v = (struct epd_nvme *)(void *)l;

	if (!v)
		return;
	epd_ring_close(v->ring);
	ZSTD_freeCCtx(v->zip);
	ZSTD_freeDCtx(v->unzip);
	epd_free(v);
}

int
epd_nvme_open(struct epd_lower **out, const struct epd_nvme_options *o)
{
	static const struct epd_lower_ops ops = {
		.tier = EPD_TIER_NVME, .close = close_nvme,
		.put = epd_nvme_put, .get = epd_nvme_get, .has = has,
		.alias = alias, .drop = drop,
	};
	struct epd_nvme *v = epd_calloc(1, sizeof *v);

	if (!v)
		return -ENOMEM;
	v->ops = &ops;
	v->o = *o;
	*out = (struct epd_lower *)(void *)v;
	return 0;
}

int
epd_nvme_look(struct epd_memory *folder, const char *workflow, uint64_t run,
    struct epd_pack *out, uint64_t *bytes, struct epd_why *why)
{
	const struct epd_nvme v = { .o = { .folder = folder } };
	const struct epd_lot lot = { .workflow = workflow, .run = run };
	struct stat st;
	int fd = epd_nvme_find(&v, &lot, out, NULL, why);

	if (fd < 0)
		return fd;
	*bytes = fstat(fd, &st) ? out->bytes : (uint64_t)st.st_blocks * 512;
	close(fd);
	return 0;
}

int
epd_nvme_table(struct epd_memory *folder, const char *workflow, uint64_t run,
    struct epd_run_shape *shape, struct epd_page_entry **entry, long *n,
    int *given)
{
	const struct epd_nvme v = { .o = { .folder = folder } };
	const struct epd_lot lot = { .workflow = workflow, .run = run };
	struct epd_page_entry *e;
	struct epd_pack p;
	int fd = epd_nvme_find(&v, &lot, &p, NULL, NULL);

	if (fd < 0)
		return fd;
	close(fd);
	e = epd_calloc(p.n, sizeof *e);
	for (uint32_t i = 0; e && i < p.n; i++)
		e[i] = p.entry[i].page;
	if (e) {
		*shape = p.shape;
		*n = p.n;
		*given = p.given;
		*entry = e;
	}
	epd_pack_free(&p);
	return e ? 0 : -ENOMEM;
}
