/*
 * rail_memory.c - which memory the device knows: a guest's own for its moves, a
 * host's for its guest.
 *
 * Kernels before 6.2 pin for writing whatever is asked, so memory that is mapped
 * shared and to be read cannot be pinned there (EFAULT).  A host's is copied once
 * when it is exposed, a guest's when it is sent from; both count to RAIL_COPIES.
 */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "transport/rail_in.h"

static int
pin(struct epd_rail *r, const void *p, size_t n, unsigned access,
    struct ibv_mr **out)
{
	errno = ENOMEM;		/* where a provider forgets it */
	*out = ibv_reg_mr(r->pd, (void *)(uintptr_t)p, n, access);
	return *out ? 0 : -errno;
}

static int
say(struct epd_why *why, int rc, size_t n)
{
	return epd_why(why, rc, "%zu bytes cannot be pinned: %s%s", n,
	    epd_strerror(rc), rc == -ENOMEM || rc == -EAGAIN
	    ? " (see ulimit -l)" : "");
}

/* n bytes of p as memory of its own, pinned.  -EAGAIN: too many are out. */
static int
pin_copy(struct epd_rail *r, const void *p, size_t n, unsigned access,
    struct ibv_mr **mr, void **copy)
{
	void *c;
	int rc;

	if (n > RAIL_COPIES - r->copied)
		return -EAGAIN;
	c = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	    -1, 0);
	if (c == MAP_FAILED)
		return -errno;
	memcpy(c, p, n);
	if ((rc = pin(r, c, n, access, mr)) < 0) {
		munmap(c, n);
		return rc;
	}
	*copy = c;
	r->copied += n;
	return 0;
}

static void
drop_copy(struct epd_rail *r, void *copy, size_t n)
{
	if (!copy)
		return;
	munmap(copy, n);
	r->copied -= n;
}

int
epd_rail_expose(struct epd_rail *r, void *p, size_t n, int writable,
    struct epd_rail_region **out, struct epd_rail_key *key, struct epd_why *why)
{
	const unsigned access = writable ? IBV_ACCESS_LOCAL_WRITE |
	    IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
	struct epd_rail_region *g;
	int rc;

	if (epd_rail_is_lost(r))
		return rail_broken(r, why);
	if (!n)
		return epd_why(why, EPD_EUSAGE, "a region of no bytes");
	if (!(g = epd_calloc(1, sizeof *g)))
		return -ENOMEM;
	g->n = n;
	rc = pin(r, p, n, access, &g->mr);
	if (rc == -EFAULT && !writable)
		rc = pin_copy(r, p, n, access, &g->mr, &g->copy);
	if (rc < 0) {
		epd_free(g);
		if (rc == -EAGAIN)
			return epd_why(why, EPD_ECREDIT, "no room for a copy of "
			    "%zu bytes beside %zu", n, r->copied);
		return say(why, rc, n);
	}
	g->next = r->regions;
	r->regions = g;
	*key = (struct epd_rail_key){
		.at = (uintptr_t)g->mr->addr, .bytes = n, .key = g->mr->rkey,
	};
	*out = g;
	return 0;
}

void
epd_rail_cover(struct epd_rail *r, struct epd_rail_region *g)
{
	struct epd_rail_region **at;

	if (!g)
		return;
	for (at = &r->regions; *at != g; at = &(*at)->next)
		;
	*at = g->next;
	/* Memory that may still be written must not be given back. */
	if (ibv_dereg_mr(g->mr))
		rail_break(r, EPD_EPEER, "a region could not be covered");
	drop_copy(r, g->copy, g->n);
	epd_free(g);
}

int
epd_rail_lend(struct epd_rail *r, void *p, size_t n)
{
	struct rail_lent *l;
	int rc;

	if (r->broke)
		return r->broke;
	if (!n)
		return 0;
	if (!(l = epd_calloc(1, sizeof *l)))
		return -ENOMEM;
	l->p = p;
	l->n = n;
	rc = pin(r, p, n, IBV_ACCESS_LOCAL_WRITE, &l->mr);
	if (rc == -EFAULT)
		rc = pin(r, p, n, 0, &l->mr);
	if (rc < 0) {
		epd_free(l);
		return rc;
	}
	l->next = r->lent;
	r->lent = l;
	return 0;
}

void
epd_rail_unlend(struct epd_rail *r, void *p)
{
	struct rail_lent **at = &r->lent, *l;

	while (*at && (*at)->p != (char *)p)
		at = &(*at)->next;
	if (!(l = *at))
		return;
	if (l->moves)
		rail_break(r, EPD_EPEER, "memory was taken back from a move");
	for (uint32_t i = 0; i < r->count; i++) {
		struct rail_move *m = &r->move[(r->first + i) % RAIL_DEPTH];

		if (m->lent == l) {
			m->lent = NULL;
			m->mr = NULL;
		}
	}
	*at = l->next;
	ibv_dereg_mr(l->mr);
	epd_free(l);
}

int
rail_pin(struct epd_rail *r, struct rail_move *m, struct epd_why *why)
{
	const struct epd_piece *p = &m->piece;
	const int reads = p->op == EPD_OP_READ;
	const char *at = p->local;
	struct rail_lent *l;
	int rc;

	if (!p->bytes)
		return 0;
	for (l = r->lent; l; l = l->next)
		if (at >= l->p && p->bytes <= l->n &&
		    (size_t)(at - l->p) <= l->n - p->bytes)
			break;
	if (l) {
		m->lent = l;
		m->mr = l->mr;
		l->moves++;
		return 0;
	}
	rc = pin(r, at, p->bytes, reads ? IBV_ACCESS_LOCAL_WRITE : 0, &m->mr);
	if (rc == -EFAULT && !reads)
		rc = pin_copy(r, at, p->bytes, 0, &m->mr, &m->copy);
	/* From pin it says that there is no memory; copies end some time. */
	if (rc == -EAGAIN && (reads || !r->copied))
		rc = -ENOMEM;
	return rc < 0 && rc != -EAGAIN ? say(why, rc, p->bytes) : rc;
}

void
rail_release(struct epd_rail *r, struct rail_move *m)
{
	if (m->lent)
		m->lent->moves--;
	else if (m->mr)
		ibv_dereg_mr(m->mr);
	drop_copy(r, m->copy, m->piece.bytes);
	*m = (struct rail_move){ .piece.tag = m->piece.tag };
}

void
rail_forget(struct epd_rail *r)
{
	while (r->lent)
		epd_rail_unlend(r, r->lent->p);
	while (r->regions)
		epd_rail_cover(r, r->regions);
}

#endif
