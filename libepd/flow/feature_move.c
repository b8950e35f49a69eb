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
#include "flow/window.h"

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

/* READ_FEATURE or WRITE_FEATURE. */
static void
ask_window(const struct moving *m, struct epd_buf *b)
{
	epd_buf_put(b, m->fp->b, EPD_NAME);
	for (int i = 0; m->op == EPD_OP_WRITE && i < EPD_PARTS; i++)
		epd_pack_u64(b, m->bytes[i]);
	if (m->op == EPD_OP_READ)
		epd_pack_u8(b, m->summed != 0);
}

/* READ's answer has bytes and sums behind the window. */
enum { TOLD = 2 * EPD_PARTS };

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
open_anew(struct moving *m, struct epd_passage *out, uint64_t deadline_ns,
    struct epd_why *why)
{
	const int read = m->op == EPD_OP_READ;
	struct epd_buf b = {0};
	uint64_t told[TOLD];
	int rc;

	m->summed = 0;
	ask_window(m, &b);
	rc = epd_window_open(m->n, m->by, read ? EPD_ASK_READ_FEATURE :
	    EPD_ASK_WRITE_FEATURE, &b, out, told, read ? TOLD : 0, deadline_ns,
	    why);
	epd_buf_free(&b);
	if (rc < 0 || !read || !memcmp(told, m->bytes, sizeof m->bytes))
		return rc;
	(void)epd_link_ops(out->link)->shut(out->link, out->window,
	    deadline_ns, NULL);
	return epd_why(why, EPD_ENOTHING, "the feature is another one "
	    "meanwhile");
}

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct moving *m = arg;
	int rc = 0;

	(void)moved;
	m->by = (enum epd_backend)plan->stage[0].backend;
	if (m->asked_by == m->by) {
		*out = (struct epd_passage){ .link = m->link,
		    .window = m->window };
		m->asked_by = EPD_VIA_NONE;
	} else {
		shut(m, deadline_ns);
		rc = open_anew(m, out, deadline_ns, why);
	}
	if (rc < 0)
		return rc;
	m->window = out->window;
	out->fresh = m->op == EPD_OP_WRITE;
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

	(void)plan;
	return m->op == EPD_OP_READ || !m->window ? 0 : epd_window_keep(p,
	    EPD_ASK_KEEP_FEATURE, &m->window, deadline_ns, why);
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
	epd_transferred_add(out, &carried);
	return rc;
}

/* ---- from there ---- */

static int
ask_told(void *arg, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct moving *m = arg;
	struct epd_buf b = {0};
	uint64_t told[TOLD];
	int rc;

	ask_window(m, &b);
	rc = epd_window_ask(l, EPD_ASK_READ_FEATURE, &b, &m->window, told,
	    TOLD, deadline_ns, why);
	epd_buf_free(&b);
	if (rc < 0)
		return rc;
	memcpy(m->bytes, told, sizeof m->bytes);
	memcpy(m->sum, told + EPD_PARTS, sizeof m->sum);
	m->link = l;
	m->asked_by = epd_node_control(m->n);
	return 0;
}

/* Its sizes, which bound what is made room for. */
static int
ask_sizes(struct moving *m, uint64_t deadline_ns, struct epd_why *why)
{
	int rc = epd_node_try(m->n, epd_node_control(m->n), ask_told, m,
	    deadline_ns, why);

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
	if (rc == -ENOENT)
		return epd_why(why, EPD_ENOTHING, "no such feature");
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
