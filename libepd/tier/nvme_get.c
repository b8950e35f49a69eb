/*
 * nvme_get.c - pages out of a pack: those that lie together are read together, to
 * where they are wanted, or by way of a slot's buffer where they are packed or
 * wanted askew; and looked at while the next are on their way.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "tier/nvme_in.h"

struct want {
	long page;			/* of the lot */
	const struct epd_pack_entry *e;
	uint8_t *in;			/* where it is read to */
};

struct get {
	struct epd_nvme *v;
	const struct epd_lot *lot;
	void *const *out;
	uint8_t *had;
	struct want *want;		/* in the order of the file */
	long n, next;			/* next: not yet asked for */
	struct group {			/* want first .. first + n - 1, one move */
		long first, n;
	} group[EPD_NVME_SLOTS];
	int fd, bad, given;
};

/* Begin to read the next ones; 0 too if there are none. */
static int
ahead(struct get *g, int slot)
{
	struct epd_ring *r = g->v->ring;
	struct group *x = g->group + slot;
	struct iovec part[EPD_RING_PARTS];
	uint8_t *buffer = epd_ring_buffer(r, slot);
	size_t left = epd_ring_bytes(r), all = 0;
	uint64_t at = 0;

	*x = (struct group){ .first = g->next };
	for (; g->next < g->n; g->next++, x->n++) {
		struct want *w = g->want + g->next;
		const size_t n = epd_pack_up(w->e->bytes);
		uint8_t *out = g->out[w->page];
		const int askew = w->e->codec != EPD_PACK_RAW ||
		    !epd_nvme_straight(out, w->e->bytes);

		if (x->n && (w->e->at != at + all || x->n == EPD_RING_PARTS ||
		    all + n > EPD_NVME_STEP || (askew && n > left)))
			break;
		if (!x->n)
			at = w->e->at;
		w->in = askew ? buffer : out;
		part[x->n] = (struct iovec){ w->in, n };
		buffer += askew ? n : 0;
		left -= askew ? n : 0;
		all += n;
	}
	return x->n ? epd_ring_start(r, slot, g->fd, 0, part, (int)x->n, at) : 0;
}

/* The page where it is wanted, if it is that. */
static int
page_of(struct get *g, const struct want *w)
{
	const size_t bytes = (size_t)g->lot->shape.bytes;
	struct epd_nvme *v = g->v;
	uint8_t *out = g->out[w->page];

	if (w->e->codec == EPD_PACK_ZSTD) {
		if (!v->unzip && !(v->unzip = ZSTD_createDCtx()))
			return -ENOMEM;
		if (ZSTD_decompressDCtx(v->unzip, out, bytes, w->in,
		    (size_t)w->e->bytes) != bytes)
			return EPD_ECORRUPT;
	} else if (w->in != out) {
		memcpy(out, w->in, bytes);
	}
	return epd_xxh3_64(out, bytes) == w->e->page.sum ? 0 : EPD_ECORRUPT;
}

/* The pages of a group that was read; how many of them are what they should be. */
static long
unpack(struct get *g, int slot)
{
	const struct group *x = g->group + slot;
	int64_t n = epd_ring_done(g->v->ring, slot, NULL);
	long good = 0;

	for (long i = x->first; i < x->first + x->n; i++) {
		const struct want *w = g->want + i;
		const int64_t need = (int64_t)epd_pack_up(w->e->bytes);
		const int rc = n < need ? -EIO : page_of(g, w);

		n -= need;
		if (rc) {
			epd_count(g->v->o.metrics, rc == EPD_ECORRUPT ?
			    EPD_M_TIER_CORRUPT : EPD_M_TIER_ERRORS, 1);
			g->bad |= rc != -ENOMEM;
		} else {
			g->had[w->page] = g->given ? EPD_HAD_GIVEN : EPD_HAD;
			good++;
		}
	}
	return good;
}

static long
get_all(struct get *g, uint64_t deadline_ns)
{
	long good = 0;
	int rc = 0, slot = 0;

	for (int i = 0; i < EPD_NVME_SLOTS; i++)
		if (rc == 0)
			rc = ahead(g, i);
	/* All that was begun comes to its end, whatever happens. */
	for (; g->group[slot].n; slot = (slot + 1) % EPD_NVME_SLOTS) {
		good += unpack(g, slot);
		g->group[slot].n = 0;
		if (rc == 0 && epd_clock_boot_ns() < deadline_ns)
			rc = ahead(g, slot);
	}
	return good;
}

/* What is wanted and there, in the order of the pack. */
static int
choose(struct get *g, const struct epd_pack *p)
{
	g->want = epd_calloc((size_t)g->lot->n + 1, sizeof *g->want);
	if (!g->want)
		return -ENOMEM;
	for (long i = 0; i < g->lot->n; i++) {
		const struct epd_pack_entry *e = g->out[i] ?
		    epd_pack_find(p, g->lot, i) : NULL;
		long k = g->n;

		if (!e)
			continue;
		for (; k > 0 && g->want[k - 1].e->at > e->at; k--)
			g->want[k] = g->want[k - 1];
		g->want[k] = (struct want){ .page = i, .e = e };
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
	struct get g = { .v = (struct epd_nvme *)(void *)l, .lot = lot,
	    .out = out, .had = had };
	struct epd_pack p;
	long n;

	if (epd_clock_boot_ns() >= deadline_ns)
		return EPD_ETIMEOUT;
	g.fd = epd_nvme_find(g.v, lot, &p, NULL, why);
	if (g.fd == -ENOMEM)
		return g.fd;
	if (g.fd < 0) {
		if (g.fd != -ENOENT)
			epd_count(g.v->o.metrics, g.fd == EPD_ECORRUPT ||
			    g.fd == EPD_EKIND ? EPD_M_TIER_CORRUPT :
			    EPD_M_TIER_ERRORS, 1);
		return 0;
	}
	g.given = p.given;
	n = choose(&g, &p);
	if (n == 0)
		n = epd_nvme_ring(g.v, &lot->shape);
	if (n == 0)
		n = get_all(&g, deadline_ns);
	if (n > 0)
		(void)futimens(g.fd, used);
	if (g.bad)
		(void)fchmod(g.fd, EPD_NVME_DAMAGED);
	epd_pack_free(&p);
	epd_free(g.want);
	close(g.fd);
	return n;
}
