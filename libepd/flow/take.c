/*
 * take.c - a hand-off begun by its target: the peer is asked to pin the state, then
 * the target drives as from any half.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/node.h"
#include "flow/pair.h"
#include "flow/target.h"

static int
ask_offer(struct epd_pair *p, const struct epd_offer *o, uint64_t end,
    struct epd_why *why)
{
	const struct epd_store *here = p->dst.s;
	const uint64_t now = epd_clock_boot_ns();
	struct epd_half_ask a = {
		.state = o->state.state, .version = o->state.version,
		.lsn = end > now ? (end - now) / UINT64_C(1000000) + 1 : 1,
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
reach_source(struct epd_pair *p, const struct epd_offer *o, uint64_t end,
    struct epd_why *why)
{
	struct epd_store *s = p->dst.s;
	int rc;

	epd_half_place(&p->src, o->store, o->state.workflow);
	rc = epd_node_open(&p->src.node, s, o->store, end, why);
	if (rc < 0)
		return rc;
	memcpy(p->src.home, epd_node_facts(p->src.node)->uuid, 16);
	return memcmp(p->src.home, s->uuid, 16) ? 0 : epd_why(why, EPD_EUSAGE,
	    "that is this store's own server");
}

int
epd_flow_handoff_take(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why)
{
	const uint64_t ms = o->timeout_ms ? o->timeout_ms :
	    (uint64_t)s->config.handoff_ms;
	const uint64_t end = epd_clock_boot_ns() + ms * UINT64_C(1000000);
	const struct epd_offer here = { .workflow = o->workflow };
	struct epd_pair p = { .src = { .near = 0 } };
	int rc, begun = 0;

	*out = (struct epd_handed){ .source = 0 };
	rc = epd_target_make(s, &here, &p.dst, why);
	if (rc == 0)
		rc = reach_source(&p, o, end, why);
	if (rc == 0)
		rc = ask_offer(&p, o, end, why);
	begun = rc == 0;
	if (rc == 0)
		rc = epd_pair_drive(&p, EPD_GOAL_COMMIT, "", why);
	if (begun)
		epd_pair_tell(&p, out);
	/* It goes back, if it may: who cannot be told finds its time over. */
	if (begun && rc < 0 && rc != EPD_ETIMEOUT && rc != EPD_EUNSURE) {
		const int back = epd_pair_drive(&p, EPD_GOAL_ABORT,
		    "it could not be carried out", NULL);

		epd_pair_tell(&p, out);
		if (back == 0)
			out->source = out->target = 0;
	}
	/* It went through all the same. */
	if (rc < 0 && p.dst.h.phase >= EPD_COMMITTED && out->to_state)
		rc = 0;
	epd_half_leave(&p.src, NULL);
	/* What stands may still come to it. */
	epd_target_drop(&p.dst, rc < 0 && rc != EPD_EUNSURE && !*o->workflow &&
	    !out->source && !out->target);
	return rc;
}
