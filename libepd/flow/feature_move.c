/*
 * feature_move.c - a feature's files to or from a peer, as one window: picture, rows,
 * meta.  The window that told its sizes is the one that is read, if the bytes go by
 * the same link.
 *
 * Rows move where who gets them believes them; else the picture does, and meta, which
 * shows that it is the one of its name.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/route.h"

struct moving {
	struct epd_route route;		/* first: the carrier's arg */
	struct epd_node *n;
	enum epd_op op;
	const struct epd_name *fp;
	uint64_t bytes[EPD_PARTS], sum[EPD_PARTS];
	int summed;			/* sums are asked for: once, at first */
	uint64_t window;
	enum epd_backend by;
	enum epd_backend asked_by;	/* whose link has the window that is open, or NONE */
	struct epd_link *link;
	int rows;			/* they are wanted */
	int have;			/* where it goes to: a picture alone is there */
	int had;			/* and there is no more to be moved */
};

/* One question whose answer begins with a window. */
static int
ask(struct epd_link *l, enum epd_ask verb, const struct epd_buf *question,
    struct moving *m, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf answer = {0};
	struct epd_cur c;
	int rc = question->failed ? -ENOMEM : epd_link_ops(l)->call(l,
	    (uint16_t)verb, epd_span(question->p, question->n), &answer,
	    deadline_ns, why);

	if (rc == 0) {
		c = epd_cur(epd_span(answer.p, answer.n));
		m->window = epd_unpack_u64(&c);
		for (int i = 0; verb == EPD_ASK_READ_FEATURE && i < EPD_PARTS;
		    i++)
			m->bytes[i] = epd_unpack_u64(&c);
		for (int i = 0; verb == EPD_ASK_READ_FEATURE && i < EPD_PARTS;
		    i++) {
			const uint64_t sum = epd_unpack_u64(&c);

			m->sum[i] = m->summed ? sum : m->sum[i];
		}
		if (c.failed)
			rc = epd_why(why, EPD_EPEER, "it does not answer as a "
			    "store does");
	}
	epd_buf_free(&answer);
	return rc;
}

/* READ_FEATURE or WRITE_FEATURE. */
static int
ask_window(struct moving *m, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_buf b = {0};
	int rc;

	epd_buf_put(&b, m->fp->b, EPD_NAME);
	for (int i = 0; m->op == EPD_OP_WRITE && i < EPD_PARTS; i++)
		epd_pack_u64(&b, m->bytes[i]);
	if (m->op == EPD_OP_READ)
		epd_pack_u8(&b, m->summed != 0);
	rc = ask(l, m->op == EPD_OP_READ ? EPD_ASK_READ_FEATURE :
	    EPD_ASK_WRITE_FEATURE, &b, m, deadline_ns, why);
	epd_buf_free(&b);
	return rc;
}

/* The window that told the sizes, if it is not read. */
static void
shut(struct moving *m, uint64_t deadline_ns)
{
	if (m->asked_by && m->window)
		(void)epd_link_ops(m->link)->shut(m->link, m->window,
		    deadline_ns, NULL);
	m->asked_by = EPD_VIA_NONE;
}

/* A window on a link that has none yet: the same feature must be there. */
static int
ask_again(struct moving *m, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	const uint64_t was[EPD_PARTS] = { m->bytes[0], m->bytes[1], m->bytes[2] };
	int rc;

	m->summed = 0;
	rc = ask_window(m, l, deadline_ns, why);
	if (rc == 0 && memcmp(was, m->bytes, sizeof was)) {
		(void)epd_link_ops(l)->shut(l, m->window, deadline_ns, NULL);
		rc = epd_why(why, EPD_ENOTHING, "the feature is another one "
		    "meanwhile");
	}
	memcpy(m->bytes, was, sizeof was);
	return rc;
}

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct moving *m = arg;
	struct epd_link *l;
	int rc;

	(void)moved;
	m->by = (enum epd_backend)plan->stage[0].backend;
	rc = epd_node_link(m->n, m->by, &l, deadline_ns, why);
	if (m->asked_by != m->by) {
		shut(m, deadline_ns);
		if (rc == 0)
			rc = ask_again(m, l, deadline_ns, why);
	}
	m->asked_by = EPD_VIA_NONE;
	if (rc < 0) {
		epd_node_failed(m->n, m->by, rc);
		return rc;
	}
	*out = (struct epd_passage){ .link = l, .window = m->window,
	    .fresh = m->op == EPD_OP_WRITE };
	return 0;
}

static void
close_way(void *arg, struct epd_passage *p, int broken)
{
	struct moving *m = arg;

	epd_node_leave(m->n, m->by, p->link, m->window, broken);
}

static int
commit(void *arg, const struct epd_plan *plan, const struct epd_passage *p,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct moving *m = arg;
	struct epd_buf b = {0};
	int rc;

	(void)plan;
	if (m->op == EPD_OP_READ || !m->window)
		return 0;
	epd_pack_u64(&b, m->window);
	rc = ask(p->link, EPD_ASK_KEEP_FEATURE, &b, m, deadline_ns, why);
	epd_buf_free(&b);
	return rc;
}

static const struct epd_carrier carrier = {
	.decide = epd_route_decide, .now = epd_route_now,
	.open = open_way, .close = close_way, .commit = commit,
	.told = epd_route_told,
};

static int
carry(struct moving *m, uint8_t *const part[EPD_PARTS],
    const struct epd_transfer_policy *policy, uint64_t deadline_ns,
    struct epd_transferred *out, struct epd_why *why)
{
	const struct epd_store *s = epd_node_here(m->n);
	struct epd_item item[EPD_PARTS];
	struct epd_carried carried = {0};
	uint64_t at = 0, bytes = 0;
	struct epd_carry c = {
		.op = m->op, .item = item, .versioned = 1,
		.deadline_ns = deadline_ns, .books = epd_node_books(m->n),
		.metrics = s->metrics, .log = &s->log, .how = &carrier,
		.arg = m,
	};
	int rc;

	for (int i = 0; i < EPD_PARTS; i++) {
		if (part[i])
			item[c.n++] = (struct epd_item){ .local = part[i],
			    .bytes = m->bytes[i], .offset = at,
			    .sum = m->sum[i], .has_sum = policy->checksum &&
			    m->op == EPD_OP_READ };
		at += m->bytes[i];
		bytes += part[i] ? m->bytes[i] : 0;
	}
	rc = epd_route_open(&m->route, m->n, m->op, bytes, 0, policy,
	    deadline_ns, why);
	if (rc == 0)
		rc = epd_carry(&c, &carried, why);
	epd_route_close(&m->route);
	epd_transferred_add(out, &carried);
	return rc;
}

/* ---- from there ---- */

/* Its sizes, which bound what is made room for. */
static int
ask_sizes(struct moving *m, uint64_t deadline_ns, struct epd_why *why)
{
	const enum epd_backend b = epd_node_control(m->n);
	uint64_t wait_ns = 0;
	int rc;

	do {
		rc = epd_node_link(m->n, b, &m->link, deadline_ns, why);
		if (rc == 0)
			rc = ask_window(m, m->link, deadline_ns, why);
	} while (rc < 0 && epd_node_again(m->n, b, rc, &wait_ns, deadline_ns));
	if (rc == 0)
		m->asked_by = b;
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++)
		if (m->bytes[i] > EPD_FEATURE_PART)
			rc = epd_why(why, EPD_ETOOBIG, "a feature of %llu bytes",
			    (unsigned long long)m->bytes[i]);
	return rc;
}

/* Room for what is to come, its move, and what becomes of it. */
static int
bring(struct moving *m, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_transferred *out, struct epd_why *why)
{
	struct epd_store *s = epd_node_here(m->n);
	struct epd_span part[EPD_PARTS];
	uint8_t *own[EPD_PARTS] = { NULL };
	int rc = 0;

	for (int i = 0; rc == 0 && i < EPD_PARTS; i++) {
		if (!m->bytes[i] || (i == EPD_PART_BLOB && !m->rows))
			continue;
		if (!(own[i] = epd_malloc((size_t)m->bytes[i])))
			rc = epd_why(why, -ENOMEM, "no memory");
	}
	if (rc == 0)
		rc = carry(m, own, policy, deadline_ns, out, why);
	for (int i = 0; i < EPD_PARTS; i++)
		part[i] = epd_span(own[i], own[i] ? (size_t)m->bytes[i] : 0);
	if (rc == 0)
		rc = epd_feature_take_parts(s->features, m->fp, part,
		    s->config.trust_peers, why);
	for (int i = 0; i < EPD_PARTS; i++)
		epd_free(own[i]);
	return rc;
}

static int
read_feature(struct moving *m, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_transferred *out, struct epd_why *why)
{
	int rc;

	m->rows = epd_node_here(m->n)->config.trust_peers;
	m->summed = policy->checksum;
	rc = ask_sizes(m, deadline_ns, why);
	m->had = m->have && (rc == EPD_ENOTHING ||
	    (rc == 0 && !m->bytes[EPD_PART_META]));
	if (m->had)
		rc = 0;
	else if (rc == 0 && !m->rows && !m->bytes[EPD_PART_PIX])
		rc = epd_why(why, EPD_ENOTHING, "the peer has no picture of "
		    "it, and its rows are not trusted");
	else if (rc == 0)
		rc = bring(m, policy, deadline_ns, out, why);
	shut(m, deadline_ns);
	return rc;
}

/* ---- to there ---- */

static int
write_feature(struct moving *m, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_transferred *out, struct epd_why *why)
{
	struct epd_feature_files f;
	uint8_t *map[EPD_PARTS] = { NULL };
	int rc = epd_feature_open_parts(epd_node_here(m->n)->features, m->fp,
	    &f);

	m->had = m->have && (rc == -ENOENT ||
	    (rc == 0 && f.fd[EPD_PART_META] < 0));
	if (m->had) {
		if (rc == 0)
			epd_feature_close_parts(&f);
		return 0;
	}
	if (rc == 0 && !m->rows && f.fd[EPD_PART_PIX] < 0) {
		epd_feature_close_parts(&f);
		return epd_why(why, EPD_ENOTHING, "it has no picture, and the "
		    "peer does not keep rows of ours");
	}
	if (rc < 0)
		return epd_why(why, rc, "feature: %s", epd_strerror(rc));
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++) {
		void *p;

		if (f.fd[i] < 0 || (i == EPD_PART_BLOB && !m->rows))
			continue;
		m->bytes[i] = f.bytes[i];
		p = mmap(NULL, (size_t)f.bytes[i], PROT_READ, MAP_PRIVATE,
		    f.fd[i], 0);
		if (p == MAP_FAILED)
			rc = epd_why(why, -errno, "feature: %s",
			    epd_strerror(-errno));
		else
			map[i] = p;
	}
	if (rc == 0)
		rc = carry(m, map, policy, deadline_ns, out, why);
	for (int i = 0; i < EPD_PARTS; i++)
		if (map[i])
			munmap(map[i], (size_t)f.bytes[i]);
	epd_feature_close_parts(&f);
	return rc;
}

/* What is here, as a peer is answered: of who is not trusted a picture is all. */
static int
is_here(struct epd_node *n, const struct epd_name *fp)
{
	const int rc = epd_feature_is_there(epd_node_here(n)->features, fp);

	return rc == EPD_FEATURE_PICTURE &&
	    !epd_node_here(n)->config.trust_peers ? EPD_FEATURE_ALL : rc;
}

/* What the peer has: asked with no bytes. */
static int
has(struct moving *m, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	uint8_t there;
	int rc;

	epd_buf_put(&b, m->fp->b, EPD_NAME);
	rc = b.failed ? -ENOMEM : epd_node_ask(m->n, EPD_ASK_HAS_FEATURE,
	    epd_span(b.p, b.n), &answer, deadline_ns, why);
	c = epd_cur(epd_span(answer.p, answer.n));
	there = epd_unpack_u8(&c);
	if (rc == 0)
		rc = c.failed ? EPD_EPEER : there;
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

int
epd_feature_move(struct epd_node *n, enum epd_op op, const struct epd_name *fp,
    const struct epd_transfer_policy *policy, uint64_t deadline_ns,
    struct epd_transferred *out, struct epd_why *why)
{
	struct moving m = { .n = n, .op = op, .fp = fp };
	int rc;

	*out = (struct epd_transferred){ .wanted = 1 };
	rc = op == EPD_OP_READ ? is_here(n, fp) : has(&m, deadline_ns, why);
	if (rc == EPD_FEATURE_ALL) {
		out->had = 1;
		return 0;
	}
	m.have = rc == EPD_FEATURE_PICTURE;
	m.rows = rc != EPD_FEATURE_NO_ROWS;
	if (rc >= 0)
		rc = op == EPD_OP_READ ?
		    read_feature(&m, policy, deadline_ns, out, why) :
		    write_feature(&m, policy, deadline_ns, out, why);
	if (rc == 0)
		*(m.had ? &out->had : &out->moved) = 1;
	return rc;
}
