/*
 * pull.c - the target's half of a hand-off made ready: features first, then pages,
 * then the record that names them.
 */
#include <stdio.h>
#include <string.h>

#include "flow/pair.h"

/* JSON for people: where it came from. */
static void
note(const struct epd_pair *p, char text[EPD_REF_TEXT + 80])
{
	snprintf(text, EPD_REF_TEXT + 80, "{\"command\": \"handoff\", "
	    "\"from\": \"%s/s%u@%u\", \"lsn\": %llu}", p->src.workflow,
	    p->src.h.state, p->src.h.version,
	    (unsigned long long)p->src.h.lsn);
}

/* Whether the state that is ready is known to have other pages than this one. */
static int
is_anothers(struct epd_pair *p, const struct epd_whole *f, uint32_t state)
{
	struct epd_version v;

	return epd_shard_version(p->dst.w.shard, state, 1, &v) == 0 &&
	    epd_version_run(&v, 0) != epd_version_run(&f->v, 0);
}

/* The target's half, ready. */
static int
pull(struct epd_pair *p, struct epd_whole *f, struct epd_why *why)
{
	struct epd_handoff h = {
		.target = 1, .peer_state = p->src.h.state,
		.peer_version = p->src.h.version, .peer_lsn = p->src.h.lsn,
		.store = p->src.s == p->dst.s ? "" : p->src.store,
		.workflow = p->src.workflow, .deadline_ms = p->src.h.deadline_ms,
	};
	char text[EPD_REF_TEXT + 80];
	uint32_t state;
	int rc;

	memcpy(h.id, p->id, 16);
	memcpy(h.peer, p->src.uuid, 16);
	if (p->src.s != p->dst.s)
		memcpy(h.home, p->src.home, 16);
	memcpy(h.boot, p->src.h.boot, 16);
	note(p, text);
	f->v.note = epd_span_str(text);
	f->foreign = p->src.s != p->dst.s;
	rc = epd_whole_features(f, p->src.s, p->dst.s, &p->moved, why);
	if (rc == 0)
		rc = epd_whole_pages(f, p->src.w.runs, p->dst.s, &p->dst.w,
		    &p->moved, why);
	/* What it rests on is in the source's log for good. */
	if (rc == 0)
		rc = epd_half_sync(&p->src, why);
	if (rc == 0)
		rc = epd_shard_ready(p->dst.w.shard, &h, &f->traits, &f->v,
		    &state, why);
	if ((rc < 0 && rc != EPD_EUNSURE) || (rc == 0 &&
	    is_anothers(p, f, state)))
		epd_whole_undo(f, p->dst.w.runs);
	return rc;
}

int
epd_pair_pull(struct epd_pair *p, struct epd_why *why)
{
	const int runs = p->dst.w.runs;
	struct epd_whole f;
	int rc = epd_whole_make(&f, &p->src.w, p->src.h.state,
	    p->src.h.version, why), marked;

	if (rc < 0)
		return rc;
	/* A sweep that sees it leaves what no record names yet. */
	marked = runs >= 0 && epd_lock_share(runs, 0) == 0;
	rc = pull(p, &f, why);
	if (marked)
		epd_lock_drop(runs);
	epd_whole_free(&f);
	return rc;
}
