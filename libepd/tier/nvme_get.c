/*
 * nvme_get.c - pages out of a pack: objects that lie together are read together, and
 * unpacked while the next are on their way.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tier/nvme_in.h"

enum { SLOTS = 4 };

/* Pages first .. first + n - 1 of what is wanted, one read. */
struct group {
	long first, n;
	uint64_t at;
	size_t bytes;
};

struct want {
	long page;			/* of the lot */
	const struct epd_pack_entry *e;
};

struct get {
	struct epd_nvme *v;
	const struct epd_lot *lot;
	struct want *want;		/* in the order of the file */
	long n, next;			/* next: not yet in a group */
	struct group group[SLOTS];
	int fd;
};

static uint64_t
down(uint64_t at)
{
	return at / EPD_RING_ALIGN * EPD_RING_ALIGN;
}

static uint64_t
up(uint64_t at)
{
	return down(at + EPD_RING_ALIGN - 1);
}

/* Begin to read the next ones; 0 too if there are none. */
static int
ahead(struct get *g, int slot)
{
	const size_t most = epd_ring_bytes(g->v->ring);
	struct group *x = g->group + slot;
	uint64_t end = 0;

	*x = (struct group){ .first = g->next };
	for (; g->next < g->n; g->next++, x->n++) {
		const struct epd_pack_entry *e = g->want[g->next].e;

		if (!x->n)
			x->at = down(e->at);
		if (up(e->at + e->bytes) - x->at > most)
			break;
		end = up(e->at + e->bytes);
	}
	x->bytes = (size_t)(end - x->at);
	return x->n ? epd_ring_start(g->v->ring, slot, g->fd, 0, x->bytes,
	    x->at) : 0;
}

/* The pages of a group that was read; how many of them are what they should be. */
static long
unpack(struct get *g, int slot, void *const *out, uint8_t *had)
{
	const struct group *x = g->group + slot;
	const uint8_t *p = epd_ring_buffer(g->v->ring, slot);
	const int64_t n = epd_ring_done(g->v->ring, slot, NULL);
	long good = 0;

	for (long i = x->first; i < x->first + x->n; i++) {
		const struct want *w = g->want + i;
		const uint64_t from = w->e->at - x->at;

		if (n < 0 || from + w->e->bytes > (uint64_t)n) {
			epd_count(g->v->o.metrics, EPD_M_TIER_ERRORS, 1);
		} else if (epd_object_unpack(out[w->page], g->lot, w->page,
		    p + from, w->e->bytes, epd_span("", 0), NULL)) {
			epd_count(g->v->o.metrics, EPD_M_TIER_CORRUPT, 1);
		} else {
			had[w->page] = 1;
			good++;
		}
	}
	return good;
}

static long
get_all(struct get *g, void *const *out, uint8_t *had, uint64_t deadline_ns)
{
	long good = 0;
	int rc = 0, slot = 0;

	for (int i = 0; rc == 0 && i < SLOTS; i++)
		rc = ahead(g, i);
	for (; g->group[slot].n; slot = (slot + 1) % SLOTS) {
		good += unpack(g, slot, out, had);
		g->group[slot].n = 0;
		if (rc == 0 && epd_clock_boot_ns() < deadline_ns)
			rc = ahead(g, slot);
	}
	return good ? good : rc;
}

/* What is wanted and there, in the order of the pack. */
static int
choose(struct get *g, const struct epd_pack *p, void *const *out)
{
	g->want = epd_calloc((size_t)g->lot->n + 1, sizeof *g->want);
	if (!g->want)
		return -ENOMEM;
	for (long i = 0; i < g->lot->n; i++) {
		const struct epd_pack_entry *e = out[i] ?
		    epd_pack_find(p, g->lot, i) : NULL;
		long k = g->n;

		if (!e)
			continue;
		for (; k > 0 && g->want[k - 1].e->at > e->at; k--)
			g->want[k] = g->want[k - 1];
		g->want[k] = (struct want){ i, e };
		g->n++;
	}
	return 0;
}

long
epd_nvme_get(struct epd_lower *l, const struct epd_lot *lot,
    void *const *out, uint8_t *had, uint64_t deadline_ns, struct epd_why *why)
{
	const struct timespec used[2] = { { .tv_nsec = UTIME_NOW },
	    { .tv_nsec = UTIME_OMIT } };
	struct get g = { .v = (struct epd_nvme *)(void *)l, .lot = lot };
	struct epd_pack p;
	int dir;
	long n;

	g.fd = epd_nvme_file(g.v, lot, &dir);
	if (g.fd < 0)
		return g.fd == -ENOENT ? 0 : g.fd;
	n = epd_pack_read(&p, g.fd, why);
	if (n == EPD_ECORRUPT || n == EPD_EKIND) {
		epd_count(g.v->o.metrics, EPD_M_TIER_CORRUPT, 1);
		n = 0;
	} else if (n == 0) {
		epd_nvme_direct(g.fd);
		n = choose(&g, &p, out);
		if (n == 0)
			n = epd_nvme_ring(g.v, &lot->shape);
		if (n == 0)
			n = get_all(&g, out, had, deadline_ns);
		(void)futimens(g.fd, used);
		epd_pack_free(&p);
	}
	epd_free(g.want);
	close(g.fd);
	close(dir);
	return n;
}
