/*
 * fetch.c - pages of a peer's into a workflow's folder here.
 *
 * A peer on this machine hands over files: they are linked, and no byte is copied.
 * Else pages come in batches, each into a run of its own, so that what breaks costs
 * a batch at most.  The window that tells what is there is the one that is read, if
 * the bytes go by the same link.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "flow/arrive.h"
#include "flow/give.h"
#include "flow/route.h"

struct fetch {
	struct epd_route route;		/* first: the carrier's arg */
	struct epd_node *n;
	const struct epd_workflow *to;
	const struct epd_transfer_policy *policy;
	struct epd_pages_ask *a;	/* of the batch, as it was answered */
	struct epd_arrival *x;
	struct epd_item *item;
	uint32_t nitems;
	enum epd_backend asked_by;	/* whose link has the window that is open, or NONE */
	struct epd_link *link;
	int computed;			/* the batch is not to come */
};

/* ---- asking ---- */

/* READ_PAGES on a link: a's pages as they are there, and a window of them. */
static int
ask_pages(struct epd_link *l, struct epd_pages_ask *a, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_buf ask = {0}, answer = {0};
	struct epd_pages_ask got;
	struct epd_cur c;
	int rc;

	epd_pages_ask_pack(&ask, a);
	rc = ask.failed ? -ENOMEM : epd_link_ops(l)->call(l, EPD_ASK_READ_PAGES,
	    epd_span(ask.p, ask.n), &answer, deadline_ns, why);
	if (rc == 0) {
		c = epd_cur(epd_span(answer.p, answer.n));
		rc = epd_pages_ask_unpack(&c, &got);
	}
	if (rc == 0 && got.n != a->n) {
		epd_pages_ask_free(&got);
		rc = EPD_EFORMAT;
	}
	if (rc == 0) {
		for (uint32_t i = 0; i < a->n; i++)
			if (!epd_name_equal(&got.page[i].entry.name,
			    &a->page[i].entry.name))
				rc = EPD_EFORMAT;
		/* What is no answer changes no question that is asked again. */
		if (rc == 0) {
			memcpy(a->page, got.page, a->n * sizeof *a->page);
			a->shape = got.shape;
			a->window = got.window;
		}
		epd_pages_ask_free(&got);
	}
	epd_buf_free(&ask);
	epd_buf_free(&answer);
	return rc == EPD_EFORMAT ? epd_ask_no_answer(why) : rc;
}

static void
shut(struct fetch *f, uint64_t deadline_ns)
{
	if (f->asked_by && f->a->window)
		(void)epd_link_ops(f->link)->shut(f->link, f->a->window,
		    deadline_ns, NULL);
	f->asked_by = EPD_VIA_NONE;
}

/* ---- moving ---- */

/* Offsets of what is there, one behind another. */
static void
lay_out(struct fetch *f)
{
	uint64_t at = 0;

	for (uint32_t i = 0, k = 0; i < f->a->n; i++) {
		if (!f->a->page[i].there)
			continue;
		f->item[k++].offset = at;
		at += f->a->page[i].bytes;
	}
}

static int
same_answer(const struct epd_pages_ask *a, const struct epd_page_ask *was)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->page[i].there != was[i].there ||
		    a->page[i].bytes != was[i].bytes ||
		    a->page[i].entry.sum != was[i].entry.sum)
			return 0;
	return 1;
}

/* Another link: the same pages must be there. */
static int
ask_again(struct fetch *f, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_page_ask *was = epd_calloc(f->a->n + 1u, sizeof *was);
	int rc;

	if (!was)
		return -ENOMEM;
	memcpy(was, f->a->page, f->a->n * sizeof *was);
	rc = ask_pages(l, f->a, deadline_ns, why);
	if (rc == 0 && !same_answer(f->a, was)) {
		(void)epd_link_ops(l)->shut(l, f->a->window, deadline_ns, NULL);
		rc = epd_why(why, EPD_ENOTHING, "some pages went meanwhile");
	}
	if (rc < 0)
		memcpy(f->a->page, was, f->a->n * sizeof *was);
	epd_free(was);
	return rc;
}

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct fetch *f = arg;
	const enum epd_backend b = (enum epd_backend)plan->stage[0].backend;
	struct epd_link *l;
	int rc = epd_node_link(f->n, b, &l, deadline_ns, why);

	(void)moved;
	if (rc == 0 && f->asked_by && f->asked_by != b)
		shut(f, deadline_ns);
	if (rc == 0 && f->asked_by != b) {
		rc = ask_again(f, l, deadline_ns, why);
		f->link = l;
	}
	if (rc < 0) {
		epd_node_failed(f->n, b, rc);
		return rc;
	}
	f->asked_by = b;
	lay_out(f);
	*out = (struct epd_passage){ .link = l, .window = f->a->window };
	return 0;
}

static void
close_way(void *arg, struct epd_passage *p, int broken)
{
	struct fetch *f = arg;

	if (broken)
		epd_node_drop_link(f->n, epd_link_ops(p->link)->backend);
	else
		shut(f, epd_clock_boot_ns() + UINT64_C(1000000000));
	f->asked_by = EPD_VIA_NONE;
}

static int
recompute(void *arg, const struct epd_plan *plan, struct epd_why *why)
{
	struct fetch *f = arg;

	(void)plan;
	(void)why;
	f->computed = 1;
	return 0;
}

static const struct epd_carrier carrier = {
	.decide = epd_route_decide, .now = epd_route_now,
	.open = open_way, .close = close_way, .recompute = recompute,
	.told = epd_route_told,
};

static int
make_items(struct fetch *f)
{
	f->nitems = epd_arrival_count(f->x);
	if (!(f->item = epd_calloc(f->nitems + 1u, sizeof *f->item)))
		return -ENOMEM;
	for (uint32_t i = 0; i < f->nitems; i++)
		f->item[i].local = epd_arrival_place(f->x, i,
		    &f->item[i].bytes);
	for (uint32_t i = 0, k = 0; i < f->a->n; i++)
		if (f->a->page[i].there) {
			f->item[k].sum = f->a->page[i].packed_sum;
			f->item[k++].has_sum = f->policy->checksum;
		}
	return 0;
}

/* What there is of a batch comes, and is a run. */
static int
carry(struct fetch *f, uint64_t deadline_ns, uint64_t *run,
    struct epd_transferred *out, struct epd_why *why)
{
	const struct epd_store *s = epd_node_here(f->n);
	struct epd_carried carried;
	struct epd_carry c = {
		.op = EPD_OP_READ, .versioned = 1, .deadline_ns = deadline_ns,
		.books = epd_node_books(f->n), .metrics = s->metrics,
		.log = &s->log, .how = &carrier, .arg = f,
	};
	int rc = make_items(f);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	c.item = f->item;
	c.n = f->nitems;
	rc = epd_carry(&c, &carried, why);
	epd_transferred_add(out, &carried);
	epd_free(f->item);
	f->item = NULL;
	if (rc == 0 && f->computed)
		return 0;
	if (rc == 0)
		rc = epd_arrival_keep(f->x, s->config.trust_peers, run, why);
	if (rc == 0)
		out->moved += f->nitems;
	return rc;
}

/* ---- linking ---- */

/*
 * The files of a window's pages, linked under ids of our own; one that cannot be is
 * none.  *n runs.
 */
static int
adopt(struct fetch *f, uint64_t **run, uint32_t *nruns, size_t *room,
    uint64_t *mapped, uint64_t deadline_ns)
{
	const struct epd_transport *ops = epd_link_ops(f->link);
	uint64_t offset = 0, id;
	int last = -1, rc;

	for (uint32_t i = 0; i < f->a->n; i++) {
		struct epd_page_ask *p = f->a->page + i;
		struct epd_stretch st;
		void *grown;

		if (!p->there)
			continue;
		if ((rc = ops->map(f->link, f->a->window, offset, &st,
		    deadline_ns, NULL)) < 0)
			return rc;
		offset += p->bytes;
		if (st.fd == last) {
			*mapped += 1;
			continue;
		}
		grown = epd_grow(*run, *nruns, room, sizeof **run);
		if (!grown)
			return -ENOMEM;
		*run = grown;
		if ((rc = epd_run_id(&id)) < 0 ||
		    (rc = epd_run_adopt(st.fd, f->to->runs, id)) < 0)
			return rc;
		last = st.fd;
		(*run)[(*nruns)++] = id;
		*mapped += 1;
	}
	return 0;
}

static void
undo(const struct epd_workflow *to, uint64_t *run, uint32_t from, uint32_t to_n)
{
	for (uint32_t i = from; i < to_n; i++)
		(void)epd_run_free(to->runs, run[i]);
}

/* A batch from a peer that may be on this machine.  *went: by links. */
static int
try_adopt(struct fetch *f, uint64_t **run, uint32_t *nruns, size_t *room,
    struct epd_transferred *out, uint64_t deadline_ns)
{
	struct epd_metrics *m = epd_node_here(f->n)->metrics;
	const uint32_t had = *nruns;
	uint64_t mapped = 0;
	int rc;

	if (!f->asked_by || !epd_link_ops(f->link)->map || !f->a->window ||
	    (*f->a->codec && strcmp(f->a->codec, "none")))
		return 0;
	rc = adopt(f, run, nruns, room, &mapped, deadline_ns);
	if (rc < 0) {
		undo(f->to, *run, had, *nruns);
		*nruns = had;
		return rc == -ENOMEM ? rc : 0;
	}
	out->mapped += mapped;
	epd_count(m, EPD_M_VIA_LINK_BYTES, mapped * f->a->shape.bytes);
	epd_count(m, EPD_M_VIA_LINK_COUNT, *nruns - had);
	return 1;
}

/* ---- batches ---- */

static uint64_t
there(const struct epd_pages_ask *a, uint64_t *bytes)
{
	uint64_t n = 0;

	*bytes = 0;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->page[i].there) {
			n++;
			*bytes += a->page[i].bytes;
		}
	return n;
}

static int
come(struct fetch *f, uint64_t bytes, uint64_t deadline_ns, uint64_t *id,
    struct epd_transferred *out, struct epd_why *why)
{
	int rc = epd_arrival_open(&f->x, epd_node_here(f->n), f->to->name,
	    epd_node_here(f->n)->codecs, f->a, why);

	if (rc == 0)
		rc = epd_route_open(&f->route, f->n, EPD_OP_READ, bytes,
		    (uint64_t)epd_arrival_count(f->x) * f->a->shape.tokens,
		    f->policy, deadline_ns, why);
	if (rc == 0)
		rc = carry(f, deadline_ns, id, out, why);
	epd_arrival_free(f->x);
	f->x = NULL;
	return rc;
}

static int
ask_once(void *arg, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct fetch *f = arg;

	f->link = l;
	return ask_pages(l, f->a, deadline_ns, why);
}

static int
ask_first(struct fetch *f, uint64_t deadline_ns, struct epd_why *why)
{
	const enum epd_backend b = epd_node_control(f->n);
	const int rc = epd_node_try(f->n, b, ask_once, f, deadline_ns, why);

	if (rc == 0)
		f->asked_by = b;
	return rc;
}

/* One batch: f->a. */
static int
fetch_batch(struct fetch *f, uint64_t deadline_ns, uint64_t **run,
    uint32_t *nruns, size_t *room, struct epd_transferred *out,
    struct epd_why *why)
{
	uint64_t bytes, n, id = 0;
	void *grown;
	int rc = ask_first(f, deadline_ns, why);

	f->computed = 0;
	if (rc < 0)
		return rc;
	n = there(f->a, &bytes);
	out->missing += f->a->n - n;
	rc = n ? try_adopt(f, run, nruns, room, out, deadline_ns) : 1;
	if (rc != 0) {
		shut(f, deadline_ns);
		return rc < 0 ? rc : 0;
	}
	grown = epd_grow(*run, *nruns, room, sizeof **run);
	if (!grown) {
		shut(f, deadline_ns);
		return epd_why(why, -ENOMEM, "no memory");
	}
	*run = grown;
	rc = come(f, bytes, deadline_ns, &id, out, why);
	if (f->asked_by)
		shut(f, deadline_ns);
	/* They will be computed: that costs less, or nothing else went. */
	if (rc == 0 && f->computed)
		out->missing += n;
	else if (rc == 0)
		(*run)[(*nruns)++] = id;
	return rc;
}

int
epd_pages_fetch(struct epd_node *n, const struct epd_workflow *to,
    struct epd_pages_ask *a, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, uint64_t **run, uint32_t *nruns,
    struct epd_transferred *out, struct epd_why *why)
{
	struct fetch f = { .n = n, .to = to, .policy = policy };
	uint64_t *ids = NULL;
	uint32_t nids = 0, k;
	size_t room = 0;
	int rc = 0;

	*out = (struct epd_transferred){ .wanted = a->n };
	for (uint32_t at = 0; rc == 0 && at < a->n; at += k) {
		struct epd_pages_ask part = *a;

		k = epd_pages_batch(a, at, UINT64_MAX);
		part.page = a->page + at;
		part.n = k;
		part.as = a->as ? a->as + at : NULL;
		f.a = &part;
		rc = epd_is_stopped() ? -ECANCELED : fetch_batch(&f,
		    deadline_ns, &ids, &nids, &room, out, why);
		a->shape = part.shape;
	}
	if (rc < 0) {
		undo(to, ids, 0, nids);
		epd_free(ids);
		return rc;
	}
	*run = ids;
	*nruns = nids;
	return 0;
}
