/*
 * rdma_host.c - the host's side: a door and a rail for each guest that asks, and
 * its windows' memory exposed for as long as they are moved.
 *
 * A guest is its thread's; the lock is for the list of them.  A region never
 * outlives its window, nor, if it is to be written, the next call.
 */
#include "transport/rdma.h"

#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/rail.h"
#include "transport/rdma_wire.h"

struct region {
	uint64_t window;
	int writable;
	struct epd_rail_region *is;
};

struct guest {
	struct guest *next;
	uint64_t number;
	struct epd_rail_door *door;
	struct epd_rail *rail;
	struct region *r;
	size_t n, cap;
};

struct epd_rdma_host {
	struct epd_server_rail hooks;
	char device[32];
	pthread_mutex_t lock;
	struct guest *guests;
	struct epd_rdma_counts counts;	/* by atomics */
};

static void
count(uint64_t *which, int64_t by)
{
	__atomic_fetch_add(which, (uint64_t)by, __ATOMIC_RELAXED);
}

static struct guest *
find(struct epd_rdma_host *h, uint64_t number)
{
	struct guest *g;

	pthread_mutex_lock(&h->lock);
	for (g = h->guests; g && g->number != number; g = g->next)
		;
	pthread_mutex_unlock(&h->lock);
	return g;
}

static struct guest *
find_or_add(struct epd_rdma_host *h, uint64_t number)
{
	struct guest *g = find(h, number);

	if (g || !(g = epd_calloc(1, sizeof *g)))
		return g;
	g->number = number;
	pthread_mutex_lock(&h->lock);
	g->next = h->guests;
	h->guests = g;
	pthread_mutex_unlock(&h->lock);
	count(&h->counts.guests, 1);
	return g;
}

/* ---- regions ---- */

/* Cover those of a window (0: all), or all that are to be written. */
static void
cover_some(struct epd_rdma_host *h, struct guest *g, uint64_t window, int writable)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->n; i++) {
		struct region *r = &g->r[i];

		if (writable ? !r->writable : window && r->window != window) {
			g->r[kept++] = *r;
			continue;
		}
		epd_rail_cover(g->rail, r->is);
		count(&h->counts.regions, -1);
	}
	g->n = kept;
}

static void
cover(void *arg, uint64_t number, uint64_t window)
{
	struct guest *g = find(arg, number);

	if (g && window)
		cover_some(arg, g, window, 0);
}

static void
calm(void *arg, uint64_t number)
{
	struct guest *g = find(arg, number);

	if (g)
		cover_some(arg, g, 0, 1);
}

/* Memory of extents that lies in one piece, from *i and *into on: its bytes. */
static uint64_t
run_on(const struct epd_opened *w, uint32_t *i, uint64_t *into, uint64_t most)
{
	const struct epd_extent *e = w->extent + *i;
	uint64_t n = e->bytes - *into;

	while (n < most && *i + 1 < w->n && e->p && e[1].p &&
	    (char *)e->p + e->bytes == (char *)e[1].p) {
		e++;
		++*i;
		n += e->bytes;
	}
	if (n > most) {
		*into = e->bytes - (n - most);
		return most;
	}
	*into = 0;
	++*i;
	return n;
}

struct told {
	uint32_t n;
	uint64_t upto;
};

/* Expose one stretch and tell of it; what cannot be is left out. */
static int
one(struct epd_rdma_host *h, struct guest *g, const struct epd_opened *w, void *p,
    uint64_t n, struct told *t, struct epd_buf *out)
{
	struct epd_rail_region *is;
	struct epd_rail_key k;
	struct region *all;
	int rc = p ? 0 : EPD_EUNSUPPORTED;

	if (!rc && g->n >= EPD_RDMA_REGIONS)
		rc = EPD_ECREDIT;
	if (!rc && !(all = epd_grow(g->r, g->n, &g->cap, sizeof *all)))
		return -ENOMEM;
	if (!rc) {
		g->r = all;
		rc = epd_rail_expose(g->rail, p, n, w->writable, &is, &k, NULL);
	}
	if (rc == EPD_EPEER)
		return rc;
	if (rc) {
		count(&h->counts.by_session, 1);
		return 0;
	}
	g->r[g->n++] = (struct region){ w->id, w->writable, is };
	count(&h->counts.regions, 1);
	count(&h->counts.exposed, 1);
	epd_pack_u64(out, t->upto);
	epd_pack_u64(out, n);
	epd_pack_u64(out, k.at);
	epd_pack_u32(out, k.key);
	t->n++;
	return 0;
}

static int
walk(struct epd_rdma_host *h, struct guest *g, const struct epd_opened *w,
    uint64_t offset, uint64_t bytes, struct told *t, struct epd_buf *out)
{
	uint64_t into = offset, end;
	uint32_t i = 0;
	int rc = 0;

	while (i < w->n && into >= w->extent[i].bytes)
		into -= w->extent[i++].bytes;
	if (__builtin_add_overflow(offset, bytes, &end) || i == w->n || !bytes)
		return EPD_EUSAGE;
	t->upto = offset;
	while (!rc && i < w->n && t->upto < end && t->n < EPD_RDMA_KEYS) {
		char *p = w->extent[i].p;
		uint64_t n;

		p = p ? p + into : NULL;
		n = run_on(w, &i, &into, end - t->upto);
		rc = one(h, g, w, p, n, t, out);
		t->upto += n;
	}
	return rc;
}

static int
expose(void *arg, uint64_t number, const struct epd_opened *w, struct epd_span ask,
    struct epd_buf *answer, struct epd_why *why)
{
	struct guest *g = find(arg, number);
	struct epd_cur c = epd_cur(ask);
	const uint64_t offset = epd_unpack_u64(&c), bytes = epd_unpack_u64(&c);
	const size_t head = answer->n;
	struct told t = { 0 };
	int rc;

	if (c.failed || epd_cur_left(&c))
		return EPD_EFORMAT;
	if (!g || !g->rail)
		return epd_why(why, EPD_EUSAGE, "there is no rail to expose it on");
	if (!epd_buf_add(answer, 16))
		return -ENOMEM;
	rc = walk(arg, g, w, offset, bytes, &t, answer);
	if (rc || answer->failed) {
		/* Its keys are told to nobody; they go with the window. */
		answer->n = head;
		return rc ? rc : -ENOMEM;
	}
	epd_put_le(answer->p + head, t.upto, 8);
	epd_put_le(answer->p + head + 8, w->writable != 0, 4);
	epd_put_le(answer->p + head + 12, t.n, 4);
	return 0;
}

/* ---- door and rail ---- */

static void
tell_invite(struct epd_buf *out, const struct epd_rail_invite *v)
{
	const int six = v->at.ss_family == AF_INET6;
	struct sockaddr_in a4;
	struct sockaddr_in6 a6;
	uint8_t at[16] = { 0 };

	memcpy(&a4, &v->at, sizeof a4);
	memcpy(&a6, &v->at, sizeof a6);
	memcpy(at, six ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr, six ? 16 : 4);
	epd_pack_u16(out, six ? 6 : 4);
	epd_pack_u16(out, ntohs(six ? a6.sin6_port : a4.sin_port));
	epd_buf_put(out, at, sizeof at);
	epd_buf_put(out, v->token, sizeof v->token);
}

static int
open_door(struct epd_rdma_host *h, struct guest *g, int fd, struct epd_buf *answer,
    struct epd_why *why)
{
	struct sockaddr_storage near = { 0 };
	struct epd_rail_invite v;
	socklen_t n = sizeof near;
	int rc;

	if (g->rail)
		return epd_why(why, EPD_EUSAGE, "there is a rail already");
	epd_rail_door_close(g->door);
	g->door = NULL;
	if (getsockname(fd, (struct sockaddr *)&near, &n) < 0)
		return -errno;
	rc = epd_rail_door_open(&g->door, (struct sockaddr *)&near, h->device, why);
	if (rc)
		return rc;
	epd_rail_door_tell(g->door, &v);
	tell_invite(answer, &v);
	explicit_bzero(&v, sizeof v);
	return 0;
}

static int
admit(struct epd_rdma_host *h, struct guest *g, int fd, uint32_t ms,
    struct epd_why *why)
{
	int rc;

	if (!g->door)
		return epd_why(why, EPD_EUSAGE, "there is no door");
	if (ms > EPD_RDMA_ADMIT_MS)
		ms = EPD_RDMA_ADMIT_MS;
	rc = epd_rail_door_wait(g->door, &g->rail, fd, epd_clock_boot_ns() +
	    ms * UINT64_C(1000000), why);
	/* In time or never: the token is good for nothing now. */
	epd_rail_door_close(g->door);
	g->door = NULL;
	count(rc ? &h->counts.turned_away : &h->counts.let_in, 1);
	return rc;
}

static int
rail(void *arg, uint64_t number, int fd, struct epd_span ask,
    struct epd_buf *answer, struct epd_why *why)
{
	struct epd_cur c = epd_cur(ask);
	const uint32_t step = epd_unpack_u32(&c);
	const uint32_t ms = step == EPD_RDMA_ADMIT ? epd_unpack_u32(&c) : 0;
	struct guest *g;

	if (c.failed || epd_cur_left(&c) ||
	    (step != EPD_RDMA_OPEN && step != EPD_RDMA_ADMIT))
		return EPD_EFORMAT;
	if (!(g = find_or_add(arg, number)))
		return -ENOMEM;
	return step == EPD_RDMA_OPEN ? open_door(arg, g, fd, answer, why) :
	    admit(arg, g, fd, ms, why);
}

static void
end(void *arg, uint64_t number)
{
	struct epd_rdma_host *h = arg;
	struct guest *g, **at;

	pthread_mutex_lock(&h->lock);
	for (at = &h->guests; *at && (*at)->number != number; at = &(*at)->next)
		;
	if ((g = *at))
		*at = g->next;
	pthread_mutex_unlock(&h->lock);
	if (!g)
		return;
	cover_some(h, g, 0, 0);
	epd_rail_close(g->rail);
	epd_rail_door_close(g->door);
	epd_free(g->r);
	epd_free(g);
	count(&h->counts.guests, -1);
}

int
epd_rdma_host_open(struct epd_rdma_host **out, const char *device,
    struct epd_why *why)
{
	struct epd_transport_facts f;
	struct epd_rdma_host *h;
	int rc = epd_rail_probe(&f, device, why);

	if (rc)
		return rc;
	if (!(h = epd_calloc(1, sizeof *h)))
		return -ENOMEM;
	if ((rc = pthread_mutex_init(&h->lock, NULL))) {
		epd_free(h);
		return -rc;
	}
	if (device)
		snprintf(h->device, sizeof h->device, "%s", device);
	h->hooks = (struct epd_server_rail){ .arg = h, .rail = rail,
		.expose = expose, .calm = calm, .cover = cover, .end = end };
	*out = h;
	return 0;
}

void
epd_rdma_host_close(struct epd_rdma_host *h)
{
	if (!h)
		return;
	while (h->guests)
		end(h, h->guests->number);
	pthread_mutex_destroy(&h->lock);
	epd_free(h);
}

void
epd_rdma_host_counts(struct epd_rdma_host *h, struct epd_rdma_counts *out)
{
	uint64_t *to = (uint64_t *)out, *from = (uint64_t *)&h->counts;

	for (size_t i = 0; i < sizeof *out / sizeof *to; i++)
		to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}

#else

int
epd_rdma_host_open(struct epd_rdma_host **out, const char *device,
    struct epd_why *why)
{
	(void)out, (void)device;
	return epd_why(why, EPD_EUNSUPPORTED, "rdma: not built");
}

void
epd_rdma_host_close(struct epd_rdma_host *h)
{
	(void)h;
}

void
epd_rdma_host_counts(struct epd_rdma_host *h, struct epd_rdma_counts *out)
{
	(void)h;
	*out = (struct epd_rdma_counts){ 0 };
}

#endif

const struct epd_server_rail *
epd_rdma_host_rail(const struct epd_rdma_host *h)
{
	/* The hooks come first. */
	return (const struct epd_server_rail *)(const void *)h;
}
