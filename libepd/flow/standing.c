/*
 * standing.c - hand-offs by what a peer knows of them.  Each half that it has of one
 * with this store names a workflow here, whose half may be there or not; opened
 * together they are driven as any pair is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/standing.h"

/* ---- asking ---- */

static int
take_list(struct epd_cur *c, struct epd_standing *out)
{
	const uint32_t n = epd_unpack_u32(c);

	if (c->failed || n > EPD_ASK_HALVES)
		return EPD_EFORMAT;
	if (!(out->half = epd_calloc(n + 1u, sizeof *out->half)))
		return -ENOMEM;
	for (out->n = 0; out->n < n; out->n++) {
		const struct epd_half_ask *a = out->half + out->n;

		if (epd_half_ask_unpack(c, out->half + out->n) < 0 ||
		    !epd_workflow_name_ok(a->workflow) ||
		    !epd_workflow_name_ok(a->peer) || !a->h.phase)
			return EPD_EFORMAT;
	}
	return epd_cur_left(c) ? EPD_EFORMAT : 0;
}

int
epd_standing_ask(struct epd_standing *out, struct epd_node *n,
    const char *workflow, uint64_t end_ns, struct epd_why *why)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_standing x = { .node = n };
	struct epd_cur c;
	int rc;

	epd_standing_ask_pack(&b, epd_node_here(n)->uuid, workflow);
	rc = b.failed ? -ENOMEM : epd_node_ask(n, EPD_ASK_STANDING,
	    epd_span(b.p, b.n), &answer, end_ns, why);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0 && (rc = take_list(&c, &x)) == EPD_EFORMAT)
		rc = epd_why(why, EPD_EPEER, "%s does not answer as a store "
		    "does", epd_node_address(n));
	epd_buf_free(&b);
	epd_buf_free(&answer);
	if (rc < 0)
		epd_standing_free(&x);
	else
		*out = x;
	return rc;
}

void
epd_standing_free(struct epd_standing *x)
{
	epd_free(x->half);
	x->half = NULL;
	x->n = 0;
}

/* ---- a pair ---- */

void
epd_standing_open(struct epd_pair *p, const struct epd_standing *x, uint32_t i,
    uint64_t end_ns)
{
	const struct epd_half_ask *a = x->half + i;
	struct epd_store *s = epd_node_here(x->node);
	struct epd_half *far = a->h.target ? &p->dst : &p->src;
	struct epd_half *near = a->h.target ? &p->src : &p->dst;

	*p = (struct epd_pair){ .state = a->h.target ? a->h.peer_state :
	    a->h.state, .version = a->h.target ? a->h.peer_version :
	    a->h.version };
	memcpy(p->id, a->id, 16);
	epd_half_place(far, epd_node_address(x->node), a->workflow);
	far->node = x->node;
	far->end_ns = end_ns;
	memcpy(far->uuid, a->uuid, 16);
	memcpy(far->home, epd_node_facts(x->node)->uuid, 16);
	epd_half_place(near, s->path, a->peer);
	memcpy(near->uuid, a->h.peer, 16);
	epd_half_reach(near, s);
	near->near = 1;
}

void
epd_standing_close(struct epd_pair *p)
{
	struct epd_half *near = epd_pair_near(p);
	struct epd_half *far = p->src.near ? &p->dst : &p->src;
	const struct epd_store *s = epd_node_here(far->node);

	/* The node is whose list it was. */
	far->node = NULL;
	epd_half_leave(near, s);
}

/* ---- all ---- */

static uint64_t
end_of(const struct epd_store *s)
{
	return epd_clock_boot_ns() + (uint64_t)s->config.handoff_ms *
	    UINT64_C(1000000);
}

/* Those that the store at an address has with this one. */
static int
ask_at(struct epd_standing *out, struct epd_store *s, const char *address,
    uint64_t end, struct epd_why *why)
{
	const uint64_t soon = epd_clock_boot_ns() + EPD_REACH_NS;
	struct epd_node *n;
	int rc;

	if (end > soon)
		end = soon;
	rc = epd_node_open(&n, s, address, end, why);
	if (rc == 0 && (rc = epd_standing_ask(out, n, "", end, why)) < 0)
		epd_node_close(n);
	return rc;
}

int
epd_flow_handoff_each_at(struct epd_store *s, const char *address,
    int (*fn)(void *arg, const struct epd_handed *h), void *arg,
    struct epd_why *why)
{
	const uint64_t end = epd_clock_boot_ns() + EPD_REACH_NS;
	struct epd_standing x;
	int rc = ask_at(&x, s, address, end, why);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; rc == 0 && i < x.n; i++) {
		struct epd_handed told;
		struct epd_pair p;

		epd_standing_open(&p, &x, i, end);
		rc = epd_pair_look(&p, why);
		epd_pair_tell(&p, &told);
		epd_standing_close(&p);
		if (rc == 0 && (told.source || told.target))
			rc = fn(arg, &told);
	}
	epd_standing_free(&x);
	epd_node_close(x.node);
	return rc;
}

static int
end_at(struct epd_store *s, const char *address, const uint8_t id[16],
    enum epd_goal goal, const char *reason, struct epd_handed *out,
    struct epd_why *why)
{
	const uint64_t end = end_of(s);
	struct epd_standing x;
	struct epd_pair p;
	uint32_t i = 0;
	int rc = ask_at(&x, s, address, end, why);

	if (rc < 0)
		return rc;
	while (i < x.n && memcmp(x.half[i].id, id, 16))
		i++;
	if (i == x.n) {
		rc = epd_why(why, EPD_ENOTHING, "it ended meanwhile");
	} else {
		epd_standing_open(&p, &x, i, end);
		rc = epd_pair_drive(&p, goal, reason, why);
		epd_pair_tell(&p, out);
		epd_standing_close(&p);
	}
	epd_standing_free(&x);
	epd_node_close(x.node);
	return rc;
}

int
epd_flow_handoff_commit_at(struct epd_store *s, const char *address,
    const uint8_t id[16], struct epd_handed *out, struct epd_why *why)
{
	return end_at(s, address, id, EPD_GOAL_COMMIT, "", out, why);
}

int
epd_flow_handoff_abort_at(struct epd_store *s, const char *address,
    const uint8_t id[16], const char *reason, struct epd_handed *out,
    struct epd_why *why)
{
	return end_at(s, address, id, EPD_GOAL_ABORT, reason, out, why);
}

/* ---- by the begin of its id ---- */

struct find {
	const char *hex;
	uint8_t id[16];
	char others[4 * 33 + 1];
	int n;
};

static int
find_one(void *arg, const uint8_t id[16])
{
	struct find *f = arg;
	char hex[33];
	size_t n = strlen(f->others);

	epd_hex_format(hex, id, 16);
	if (strncmp(hex, f->hex, strlen(f->hex)) ||
	    strstr(f->others, hex))
		return 0;
	memcpy(f->id, id, 16);
	if (f->n++ < 4)
		snprintf(f->others + n, sizeof f->others - n, " %s", hex);
	return 0;
}

static int
find_there(void *arg, const struct epd_handed *h)
{
	return find_one(arg, h->id);
}

int
epd_flow_handoff_find_at(struct epd_store *s, const char *address,
    const char *hex, uint8_t id[16], struct epd_why *why)
{
	struct find f = { .hex = hex };
	size_t n = strlen(hex);
	int rc;

	if (n < 4 || n > 32 || strspn(hex, "0123456789abcdef") != n)
		return epd_why(why, EPD_EUSAGE, "%.40s: a hand-off is 4 to 32 "
		    "lower-case hexadecimal digits", hex);
	rc = address ? epd_flow_handoff_each_at(s, address, find_there, &f,
	    why) : epd_flow_handoff_ids(s, find_one, &f, why);
	if (f.n == 0)
		return rc < 0 ? rc : epd_why(why, EPD_ENOTHING, "%s: no such "
		    "hand-off%s: it ended, or was never begun; or it is only "
		    "prepared, and known in its source's store alone", hex,
		    address ? " there" : "");
	if (f.n > 1)
		return epd_why(why, EPD_EAMBIGUOUS, "%s: could be%s%s", hex,
		    f.others, f.n > 4 ? " ..." : "");
	memcpy(id, f.id, 16);
	return 0;
}

int
epd_flow_handoff_find(struct epd_store *s, const char *hex, uint8_t id[16],
    struct epd_why *why)
{
	return epd_flow_handoff_find_at(s, NULL, hex, id, why);
}
