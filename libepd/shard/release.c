/* release.c - many states at once: frames of many, under one lock and flush. */
#include <stdio.h>
#include <string.h>

#include "shard/shard_in.h"

enum { NAMED = 8 };	/* of those that may not go */

/* Those in one frame; how many. */
static int
give_up_some(struct epd_shard *s, uint32_t id, int all, const char *reason,
    struct epd_why *why)
{
	struct epd_move m = { .to = EPD_ABORTED, .reason = reason };
	const struct epd_table *t = s->table;
	int n = 0, rc;

	epd_frame_begin(&s->frame);
	for (size_t i = 0; i < t->n && n < EPD_SHARD_RECLAIM; i++) {
		const struct epd_head *h = t->head[i];

		if (h->state.status != EPD_SUSPECT || h->pinned ||
		    !(all || h->state.id == id || epd_shard_expired(h)))
			continue;
		m.id = h->state.id;
		epd_move_pack(&s->frame, EPD_KIND_ABORT, &m);
		n++;
	}
	rc = n ? epd_shard_append(s, why) : 0;
	return rc ? rc : n;
}

int
epd_shard_give_up(struct epd_shard *s, uint32_t id, int all,
    const char *reason, struct epd_why *why)
{
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	while ((rc = give_up_some(s, id, all, reason, why)) ==
	    EPD_SHARD_RECLAIM)
		;
	return epd_shard_end(s, rc < 0 ? rc : 0, why);
}

/* What has expired; how many. */
static int
release_expired(struct epd_shard *s, struct epd_why *why)
{
	int count = 0, rc;
	uint32_t n;

	while ((n = epd_shard_frame(s, 0)) > 0) {
		rc = epd_shard_append(s, why);
		if (rc)
			return rc;
		count += (int)n;
	}
	return count;
}

/* States on their way out, the newest first. */
struct going {
	const char *reason;
	uint32_t below;		/* those from there on have been looked at */
	int gone;
	uint32_t named[NAMED];	/* who may not go, and how many there are */
	uint32_t kept;
	struct epd_why why;	/* of the first of them */
};

/* The next few in one frame; how many. */
static int
release_some(struct epd_shard *s, struct going *g, uint32_t most,
    struct epd_why *why)
{
	const struct epd_table *t = s->table;
	uint32_t n = 0, below = g->below;
	int rc;

	epd_frame_begin(&s->frame);
	for (size_t i = t->n; i-- > 0 && n < most; ) {
		const uint32_t id = t->head[i]->state.id;

		if (id >= g->below || epd_shard_expired(t->head[i]))
			continue;
		epd_shard_pack_release(s, id, g->reason);
		below = id;
		n++;
	}
	if (!n)
		return 0;
	rc = epd_shard_append(s, why);
	if (!rc)
		g->gone += (int)n;
	if (!rc || (rc == EPD_ESTATUS && most == 1))
		g->below = below;
	return rc ? rc : (int)n;
}

/* A frame is refused whole: where one may not go each is asked by itself. */
static int
release_each(struct epd_shard *s, struct going *g, struct epd_why *why)
{
	struct epd_why what = { "" };
	int rc = 1;

	for (int i = 0; rc > 0 && i < EPD_SHARD_RECLAIM; i++) {
		rc = release_some(s, g, 1, &what);
		if (rc != EPD_ESTATUS)
			continue;
		if (!g->kept)
			g->why = what;
		if (g->kept < NAMED)
			g->named[g->kept] = g->below;
		g->kept++;
		rc = 1;
	}
	return rc < 0 ? epd_why(why, rc, "%s", what.text) : rc;
}

/* "s3, s5: mid-hand-off", with what has gone before it. */
static int
tell_kept(const struct going *g, size_t all, struct epd_why *why)
{
	const uint32_t n = g->kept < NAMED ? g->kept : NAMED;
	const char *reason = strchr(g->why.text, ':');
	char names[NAMED * 13 + 32] = "", head[64] = "";
	size_t at = 0;

	for (uint32_t i = n; i-- > 0; )
		at += (size_t)snprintf(names + at, sizeof names - at, "%ss%u",
		    at ? ", " : "", g->named[i]);
	if (g->kept > n)
		snprintf(names + at, sizeof names - at, " and %u more",
		    g->kept - n);
	if (g->gone)
		snprintf(head, sizeof head, "%d of %zu states released; ",
		    g->gone, all);
	return epd_why(why, EPD_ESTATUS, "%s%s%s", head, names, reason ?
	    reason : "");
}

int
epd_shard_release_all(struct epd_shard *s, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why)
{
	struct going g = { .reason = reason, .below = UINT32_MAX };
	struct epd_why what = { "" };
	size_t all;
	int n, rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	all = s->table->n;
	if ((n = release_expired(s, &what)) > 0)
		g.gone = n;
	for (n = n < 0 ? n : 1; n > 0; )
		if ((n = release_some(s, &g, EPD_SHARD_RECLAIM, &what)) ==
		    EPD_ESTATUS)
			n = release_each(s, &g, &what);
	rc = epd_shard_end(s, n, &what);
	if (rc && g.gone)
		epd_why(why, rc, "%d of %zu states released, then: %s", g.gone,
		    all, *what.text ? what.text : epd_strerror(rc));
	else if (rc)
		epd_why(why, rc, "%s", *what.text ? what.text :
		    epd_strerror(rc));
	else if (g.kept)
		rc = tell_kept(&g, all, why);
	if (g.gone) {
		epd_count(s->o.metrics, EPD_M_STATES_RELEASED,
		    (uint64_t)g.gone);
		epd_log(s->o.log, "op=release states=%d", g.gone);
		epd_shard_tell(s, freed, arg);
	}
	return rc ? rc : g.gone;
}
