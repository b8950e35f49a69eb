/*
 * send.c - pages of a state here into a workflow's folder at a peer's.
 *
 * A batch goes into a window that the peer made room for, and is kept by its answer to
 * KEEP_PAGES; until then it is nobody's, and a link that breaks takes it along.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "flow/give.h"
#include "flow/route.h"
#include "flow/window.h"

struct send {
	struct epd_route route;		/* first: the carrier's arg */
	struct epd_node *n;
	struct epd_pages_ask *a;	/* the batch */
	uint64_t run;			/* what it became there */
	enum epd_backend by;
};

/* ---- a window there ---- */

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct send *x = arg;
	struct epd_buf b = {0};
	int rc;

	(void)moved;
	x->by = (enum epd_backend)plan->stage[0].backend;
	epd_pages_ask_pack(&b, x->a);
	rc = epd_window_open(x->n, x->by, EPD_ASK_WRITE_PAGES, &b, out, NULL,
	    0, deadline_ns, why);
	epd_buf_free(&b);
	if (rc == 0)
		out->fresh = 1;
	return rc;
}

static void
close_way(void *arg, struct epd_passage *p, int broken)
{
	struct send *x = arg;

	epd_node_leave(x->n, x->by, p->link, p->window, broken);
}

static int
commit(void *arg, const struct epd_plan *plan, const struct epd_passage *p,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct send *x = arg;

	(void)plan;
	return epd_window_keep(p, EPD_ASK_KEEP_PAGES, &x->run, deadline_ns,
	    why);
}

static const struct epd_carrier carrier = {
	.decide = epd_route_decide, .now = epd_route_now,
	.open = open_way, .close = close_way, .commit = commit,
	.told = epd_route_told,
};

/* ---- a batch ---- */

static struct epd_item *
make_items(const struct epd_gift *g, const struct epd_pages_ask *a, uint32_t *n,
    uint64_t *bytes)
{
	struct epd_item *item = epd_calloc(a->n + 1u, sizeof *item);

	*n = 0;
	*bytes = 0;
	for (uint32_t i = 0; item && i < a->n; i++) {
		struct epd_extent e;

		if (!a->page[i].there)
			continue;
		epd_gift_page(g, i, &e);
		item[*n] = (struct epd_item){ .local = e.p, .bytes = e.bytes,
		    .offset = *bytes };
		*bytes += e.bytes;
		++*n;
	}
	return item;
}

/* ---- files ---- */

/* The files that a batch's pages lie in, each once; their number. */
static uint32_t
list_files(const struct epd_gift *g, const struct epd_pages_ask *a,
    int fd[EPD_ASK_FILES])
{
	struct epd_extent e;
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n && n < EPD_ASK_FILES; i++) {
		if (!a->page[i].there)
			continue;
		epd_gift_page(g, i, &e);
		if (e.fd >= 0 && (!n || fd[n - 1] != e.fd))
			fd[n++] = e.fd;
	}
	return n;
}

/* Have a peer on this machine link them; runs it has, 0 for what it has not. */
static int
ask_adopt(struct epd_node *n, const struct epd_pages_ask *a, const int *fd,
    uint32_t nfds, uint64_t *run, uint64_t deadline_ns)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	int rc;

	epd_ask_str(&b, a->workflow);
	epd_buf_put(&b, a->uuid, sizeof a->uuid);
	epd_pack_u32(&b, nfds);
	for (uint32_t i = 0; i < nfds; i++)
		epd_pack_u32(&b, (uint32_t)fd[i]);
	rc = b.failed ? -ENOMEM : epd_node_ask(n, EPD_ASK_ADOPT_PAGES,
	    epd_span(b.p, b.n), &answer, deadline_ns, NULL);
	c = epd_cur(epd_span(answer.p, answer.n));
	for (uint32_t i = 0; rc == 0 && i < nfds; i++)
		run[i] = epd_unpack_u64(&c);
	if (c.failed)
		rc = EPD_EPEER;
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

/* Pages whose files were linked need not be sent. */
static void
hand_over(struct send *x, const struct epd_gift *g, uint64_t *ids, uint32_t *nids,
    uint64_t deadline_ns, struct epd_transferred *out)
{
	uint64_t run[EPD_ASK_FILES];
	int fd[EPD_ASK_FILES];
	const uint32_t n = list_files(g, x->a, fd);
	struct epd_metrics *m = epd_node_here(x->n)->metrics;
	struct epd_extent e;
	uint32_t k = 0;

	if (!n || ask_adopt(x->n, x->a, fd, n, run, deadline_ns) < 0)
		return;
	for (uint32_t i = 0; i < x->a->n; i++) {
		if (!x->a->page[i].there)
			continue;
		epd_gift_page(g, i, &e);
		while (k < n && fd[k] != e.fd)
			k++;
		if (k == n)
			break;
		if (run[k]) {
			x->a->page[i].there = 0;
			out->mapped++;
			epd_count(m, EPD_M_VIA_LINK_BYTES, e.bytes);
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (run[i]) {
			ids[(*nids)++] = run[i];
			epd_count(m, EPD_M_VIA_LINK_COUNT, 1);
		}
}

static int
send_batch(struct send *x, const struct epd_gift *g,
    const struct epd_transfer_policy *policy, uint64_t deadline_ns,
    struct epd_transferred *out, struct epd_why *why)
{
	const struct epd_store *s = epd_node_here(x->n);
	struct epd_carried carried = {0};
	uint64_t bytes;
	struct epd_carry c = {
		.op = EPD_OP_WRITE, .versioned = 1, .deadline_ns = deadline_ns,
		.books = epd_node_books(x->n), .metrics = s->metrics,
		.log = &s->log, .how = &carrier, .arg = x,
	};
	int rc;

	x->run = 0;
	if (!(c.item = make_items(g, x->a, &c.n, &bytes)))
		return epd_why(why, -ENOMEM, "no memory");
	rc = c.n ? epd_route_open(&x->route, x->n, EPD_OP_WRITE, bytes, 0,
	    policy, deadline_ns, why) : 0;
	if (rc == 0 && c.n)
		rc = epd_carry(&c, &carried, why);
	if (c.n)
		epd_transferred_add(out, &carried);
	if (rc == 0)
		out->moved += c.n;
	epd_free(c.item);
	return rc;
}

/* The batch as the peer is to have it: its own workflow, our entries. */
static void
address(struct epd_pages_ask *part, const struct epd_pages_ask *a, uint32_t at,
    const struct epd_pages_ask *found)
{
	*part = *a;
	part->shape = found->shape;
	part->page = found->page;
	part->n = found->n;
	for (uint32_t i = 0; a->as && i < part->n; i++)
		part->page[i].entry.name = a->as[at + i];
}

int
epd_pages_send(struct epd_node *n, const struct epd_pages_ask *of,
    struct epd_pages_ask *a, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, uint64_t **run, uint32_t *nruns,
    struct epd_transferred *out, struct epd_why *why)
{
	struct epd_store *s = epd_node_here(n);
	struct send x = { .n = n };
	/* A batch may end in the file that the next begins in. */
	uint64_t *ids = epd_calloc(2u * a->n + 1u, sizeof *ids);
	uint32_t nids = 0, k;
	int rc = ids ? 0 : -ENOMEM;

	*out = (struct epd_transferred){ .wanted = a->n };
	for (uint32_t at = 0; rc == 0 && at < a->n; at += k) {
		struct epd_pages_ask find = *of, part;
		struct epd_gift *g;

		find.shape = a->shape;
		k = epd_pages_batch(a, at, epd_node_facts(n)->most);
		find.page = a->page + at;
		find.n = k;
		memcpy(find.codec, a->codec, sizeof find.codec);
		rc = epd_is_stopped() ? -ECANCELED :
		    epd_gift_find(&g, s, s->codecs, &find, why);
		if (rc < 0)
			break;
		a->shape = find.shape;
		address(&part, a, at, &find);
		x.a = &part;
		if (epd_node_is_near(n) && (!*a->codec ||
		    !strcmp(a->codec, "none")))
			hand_over(&x, g, ids, &nids, deadline_ns, out);
		epd_gift_look(g, &part);
		rc = send_batch(&x, g, policy, deadline_ns, out, why);
		epd_gift_free(g);
		if (rc == 0 && x.run)
			ids[nids++] = x.run;
	}
	if (rc < 0) {
		epd_free(ids);
		return rc;
	}
	*run = ids;
	*nruns = nids;
	out->missing = out->wanted - out->moved - out->mapped;
	return 0;
}
