/*
 * feature_move.c - a feature's files to or from a peer, as one window: picture, rows,
 * meta.
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
	uint64_t window;
	enum epd_backend by;
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
}

/* READ's answer has bytes and sums behind the window. */
enum { TOLD = 2 * EPD_PARTS };

static void
take_told(struct moving *m, const uint64_t told[TOLD])
{
	memcpy(m->bytes, told, sizeof m->bytes);
	memcpy(m->sum, told + EPD_PARTS, sizeof m->sum);
}

static int
open_way(void *arg, const struct epd_plan *plan, const uint8_t *moved,
    struct epd_passage *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct moving *m = arg;
	const int read = m->op == EPD_OP_READ;
	struct epd_buf b = {0};
	uint64_t told[TOLD];
	int rc;

	(void)moved;
	m->by = (enum epd_backend)plan->stage[0].backend;
	ask_window(m, &b);
	rc = epd_window_open(m->n, m->by, read ? EPD_ASK_READ_FEATURE :
	    EPD_ASK_WRITE_FEATURE, &b, out, told, read ? TOLD : 0, deadline_ns,
	    why);
	epd_buf_free(&b);
	if (rc < 0)
		return rc;
	m->window = out->window;
	out->fresh = !read;
	if (read && memcmp(told, m->bytes, sizeof m->bytes)) {
		(void)epd_link_ops(out->link)->shut(out->link, out->window,
		    deadline_ns, NULL);
		return epd_why(why, EPD_ENOTHING, "the feature is another one "
		    "meanwhile");
	}
	if (read)
		take_told(m, told);
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
	uint64_t at = 0;
	struct epd_carry c = {
		.op = m->op, .item = item, .versioned = 1,
		.deadline_ns = deadline_ns, .books = epd_node_books(m->n),
		.metrics = s->metrics, .log = &s->log, .how = &carrier,
		.arg = m,
	};
	int rc;

	for (int i = 0; i < EPD_PARTS; i++) {
		if (!m->bytes[i])
			continue;
		item[c.n++] = (struct epd_item){ .local = part[i],
		    .bytes = m->bytes[i], .offset = at, .sum = m->sum[i],
		    .has_sum = m->op == EPD_OP_READ && policy->checksum };
		at += m->bytes[i];
	}
	rc = epd_route_open(&m->route, m->n, m->op, at, 0, policy,
	    deadline_ns, why);
	if (rc == 0)
		rc = epd_carry(&c, &carried, why);
	epd_route_close(&m->route);
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
	take_told(m, told);
	if (m->window)
		(void)epd_link_ops(l)->shut(l, m->window, deadline_ns, NULL);
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

static int
read_feature(struct moving *m, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_transferred *out, struct epd_why *why)
{
	struct epd_features *c = epd_node_here(m->n)->features;
	struct epd_span part[EPD_PARTS];
	uint8_t *own[EPD_PARTS] = { NULL };
	int rc = ask_sizes(m, deadline_ns, why);

	m->had = m->have && (rc == EPD_ENOTHING ||
	    (rc == 0 && !m->bytes[EPD_PART_META]));
	if (m->had)
		return 0;
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++)
		if (m->bytes[i] && !(own[i] = epd_malloc((size_t)m->bytes[i])))
			rc = epd_why(why, -ENOMEM, "no memory");
	if (rc == 0)
		rc = carry(m, own, policy, deadline_ns, out, why);
	for (int i = 0; i < EPD_PARTS; i++)
		part[i] = epd_span(own[i], own[i] ? (size_t)m->bytes[i] : 0);
	if (rc == 0)
		rc = epd_feature_take_parts(c, m->fp, part, why);
	for (int i = 0; i < EPD_PARTS; i++)
		epd_free(own[i]);
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
	if (rc < 0)
		return epd_why(why, rc, "feature: %s", epd_strerror(rc));
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++) {
		void *p;

		m->bytes[i] = f.bytes[i];
		if (f.fd[i] < 0)
			continue;
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

/* Whether the peer has it, as epd_feature_is_there: asked with no bytes. */
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
	rc = op == EPD_OP_READ ? epd_feature_is_there(
	    epd_node_here(n)->features, fp) : has(&m, deadline_ns, why);
	if (rc > 1) {
		out->had = 1;
		return 0;
	}
	m.have = rc == 1;
	if (rc >= 0)
		rc = op == EPD_OP_READ ?
		    read_feature(&m, policy, deadline_ns, out, why) :
		    write_feature(&m, policy, deadline_ns, out, why);
	if (rc == 0)
		*(m.had ? &out->had : &out->moved) = 1;
	return rc;
}
