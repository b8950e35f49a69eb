/*
 * take.c - a hand-off begun by its target: the peer is asked to pin the state, then
 * the target drives as from any half.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/standing.h"
#include "flow/target.h"

static int
ask_offer(struct epd_pair *p, const struct epd_offer *o, uint64_t end,
    struct epd_why *why)
{
	const struct epd_store *here = epd_node_here(p->src.node);
	const uint64_t now = epd_clock_boot_ns();
	struct epd_half_ask a = {
		.state = o->state.state, .version = o->state.version,
		.timeout_ms = end > now ? (end - now) / UINT64_C(1000000) + 1 :
		    1,
	};
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	int rc;

	memcpy(a.workflow, o->state.workflow, sizeof a.workflow);
	memcpy(a.h.peer, p->dst.uuid, 16);
	memcpy(a.h.home, here->uuid, 16);
	snprintf(a.store, sizeof a.store, "%s", *here->config.transfer_address ?
	    here->config.transfer_address : EPD_AWAY);
	memcpy(a.peer, p->dst.workflow, sizeof a.peer);
	epd_half_ask_pack(&b, &a);
	rc = b.failed ? -ENOMEM : epd_node_ask_once(p->src.node, EPD_ASK_OFFER,
	    epd_span(b.p, b.n), &answer, end, why);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0 && epd_half_ask_unpack(&c, &a) < 0)
		rc = epd_why(why, EPD_EPEER, "%s does not answer as a store "
		    "does", o->store);
	epd_buf_free(&b);
	epd_buf_free(&answer);
	if (rc < 0)
		return rc;
	memcpy(p->id, a.id, 16);
	memcpy(p->src.uuid, a.uuid, 16);
	p->state = a.h.state;
	p->version = a.h.version;
	return 0;
}

/* The source's half, at the peer's. */
static int
reach_source(struct epd_pair *p, struct epd_store *s, const struct epd_offer *o,
    uint64_t end, struct epd_why *why)
{
	int rc;

	epd_half_place(&p->src, o->store, o->state.workflow);
	rc = epd_node_open(&p->src.node, s, o->store, end, why);
	if (rc < 0)
		return rc;
	p->src.end_ns = end + EPD_GRACE_NS;
	memcpy(p->src.home, epd_node_facts(p->src.node)->uuid, 16);
	return memcmp(p->src.home, s->uuid, 16) ? 0 : epd_why(why, EPD_EUSAGE,
	    "that is this store's own server");
}

/* Fetched anew: the peer pins it, and it is had. */
static int
begin(struct epd_pair *p, struct epd_store *s, const struct epd_offer *o,
    uint64_t end, struct epd_handed *out, struct epd_why *why)
{
	const struct epd_offer here = { .workflow = o->workflow };
	int rc = epd_target_make(s, &here, &p->dst, why), begun = 0;

	if (rc == 0)
		rc = ask_offer(p, o, end, why);
	begun = rc == 0;
	if (rc == 0)
		rc = epd_pair_drive(p, EPD_GOAL_COMMIT, "", why);
	if (begun)
		epd_pair_tell(p, out);
	/* It goes back, if it may: who cannot be told finds its time over. */
	if (begun && rc < 0 && rc != EPD_ETIMEOUT && rc != EPD_EUNSURE) {
		const int back = epd_pair_drive(p, EPD_GOAL_ABORT,
		    "it could not be carried out", NULL);

		epd_pair_tell(p, out);
		if (back == 0)
			out->source = out->target = 0;
	}
	/* It went through all the same. */
	if (rc < 0 && p->dst.h.phase >= EPD_COMMITTED && out->to_state)
		rc = 0;
	/* What stands may still come to it. */
	epd_target_drop(&p->dst, rc < 0 && rc != EPD_EUNSURE && !*o->workflow &&
	    !out->source && !out->target);
	return rc;
}

/* Whether a half of the peer's is what somebody began who asked for the same. */
static int
is_same(const struct epd_half_ask *a, const struct epd_offer *o)
{
	return !a->h.target && a->h.state == o->state.state &&
	    (!o->state.version || o->state.version == a->h.version);
}

static int
is_elsewhere(const struct epd_half_ask *a, struct epd_why *why)
{
	char hex[33];

	epd_hex_format(hex, a->id, 16);
	return epd_why(why, EPD_ESTATUS, "s%u: it is on its way to %s here: "
	    "--commit or --abort ends %s with --at", a->h.state, a->peer, hex);
}

/*
 * Go on with what was begun by somebody who asked for the same, and died or still
 * is at it.  EPD_ENOTHING: there is no such, or it went back; it is to be begun anew.
 */
static int
go_on(struct epd_pair *p, const struct epd_offer *o, uint64_t end,
    struct epd_handed *out, struct epd_why *why)
{
	struct epd_standing x;
	struct epd_pair had;
	uint32_t i = 0;
	int rc = epd_standing_ask(&x, p->src.node, o->state.workflow, end, why);

	if (rc < 0)
		return rc;
	while (i < x.n && !is_same(x.half + i, o))
		i++;
	if (i == x.n) {
		rc = EPD_ENOTHING;
	} else if (*o->workflow && strcmp(o->workflow, x.half[i].peer)) {
		rc = is_elsewhere(x.half + i, why);
	} else {
		epd_standing_open(&had, &x, i, end);
		rc = epd_pair_drive(&had, EPD_GOAL_COMMIT, "", why);
		epd_pair_tell(&had, out);
		epd_standing_close(&had);
		if (rc == EPD_EABORTED) {
			*out = (struct epd_handed){ .source = 0 };
			rc = EPD_ENOTHING;
		}
	}
	epd_standing_free(&x);
	return rc;
}

int
epd_flow_handoff_take(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why)
{
	const uint64_t end = epd_offer_end(s, o);
	struct epd_pair p = { .src = { .near = 0 } };
	int rc = reach_source(&p, s, o, end, why), on;

	*out = (struct epd_handed){ .source = 0 };
	if (rc == 0)
		rc = begin(&p, s, o, end, out, why);
	/* It is pinned, or has gone, by a hand-off to this store perhaps. */
	if ((rc == EPD_ESTATUS || rc == EPD_ENOSTATE) && !out->source &&
	    !out->target) {
		struct epd_why first = {{0}};

		if (why)
			first = *why;
		on = go_on(&p, o, end, out, why);
		if (on != EPD_ENOTHING)
			rc = on;
		else if (rc == EPD_ESTATUS)
			rc = begin(&p, s, o, end, out, why);
		else if (why)
			*why = first;
	}
	epd_half_leave(&p.src, NULL);
	return rc;
}
