/* nvme.c - the tier's table, and all of it that moves no pages. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "page/page.h"
#include "tier/nvme_in.h"

const struct epd_words epd_packings = EPD_WORDS([EPD_PACKING_NONE] = "none",
    [EPD_PACKING_ZSTD] = "zstd", [EPD_PACKING_AUTO] = "auto");

enum { SLOTS = 4, SLOT = 2 << 20 };

int
epd_nvme_ring(struct epd_nvme *v, const struct epd_run_shape *shape)
{
	/* An object that begins anywhere in a block of the disk's. */
	const size_t one = epd_object_bound(shape) + 2 * EPD_RING_ALIGN;
	const size_t want = one > SLOT ? one : SLOT;

	if (v->ring && epd_ring_bytes(v->ring) >= want)
		return 0;
	epd_ring_close(v->ring);
	v->ring = NULL;
	return epd_ring_open(&v->ring, SLOTS, want);
}

void
epd_nvme_direct(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_DIRECT);
}

int
epd_nvme_file(const struct epd_nvme *v, const struct epd_lot *lot, int *dir)
{
	char name[EPD_RUN_NAME];
	int fd;

	*dir = epd_memory_find(v->o.folder, lot->workflow);
	if (*dir < 0)
		return *dir;
	epd_run_format(name, lot->run);
	fd = epd_file_open(*dir, name, O_RDONLY, 0);
	if (fd < 0) {
		close(*dir);
		*dir = -1;
	}
	return fd;
}

static long
has(struct epd_lower *l, const struct epd_lot *lot, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_nvme *v = (struct epd_nvme *)(void *)l;
	struct epd_pack p;
	int dir, fd = epd_nvme_file(v, lot, &dir), rc;
	long n = 0;

	(void)deadline_ns;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	rc = epd_pack_read(&p, fd, why);
	for (long i = 0; rc == 0 && i < lot->n; i++)
		n += epd_pack_find(&p, lot, i) != NULL;
	if (rc == 0)
		epd_pack_free(&p);
	close(fd);
	close(dir);
	return rc == EPD_ECORRUPT || rc == EPD_EKIND ? 0 : rc ? rc : n;
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

	(void)deadline_ns;
	(void)why;
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	rc = epd_run_free(dir, lot->run);
	close(dir);
	return rc;
}

static void
close_nvme(struct epd_lower *l)
{
	struct epd_nvme *v = (struct epd_nvme *)(void *)l;

	if (!v)
		return;
	epd_ring_close(v->ring);
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
	int dir, fd = epd_nvme_file(&v, &lot, &dir), rc;

	if (fd < 0)
		return fd;
	rc = epd_pack_read(out, fd, why);
	if (rc == 0)
		*bytes = out->bytes;
	close(fd);
	close(dir);
	return rc;
}
