/*
 * mount_replay.h - what a log says was so at each of its numbers, and what was
 * seen held against it.
 */
#ifndef TESTS_MOUNT_REPLAY_H
#define TESTS_MOUNT_REPLAY_H

#include "tests/fs/mount_agree.h"

struct rp_point { uint64_t lsn, ms; uint32_t n; };
struct rp_points { struct rp_point *v; size_t n; };
struct rp_state {
	uint64_t born, ended;		/* 0: it lives */
	uint32_t parent, at;		/* where it began; 0: nowhere */
	uint32_t root, versions, tokens[AG_VERSIONS + 2];
	int shared;			/* a branch, or it has had some */
	struct rp_points changes;	/* n: the newest version */
	struct rp_points live;		/* of a root: states that have its pages */
	/* What was seen of its versions first. */
	struct rp_kept { uint64_t json, size; } kept[AG_VERSIONS + 2];
};
struct rp {
	int w, bad;
	struct rp_state *s;		/* [AG_STATES] */
	struct epd_buf log;		/* as lines */
};

static inline void
rp_add(struct rp_points *p, uint64_t lsn, uint64_t ms, uint32_t n)
{
	if (!(p->n & (p->n - 1)))
		p->v = realloc(p->v, (p->n ? 2 * p->n : 1) * sizeof *p->v);
	p->v[p->n++] = (struct rp_point){ lsn, ms, n };
}

/* The last at or before lsn, or NULL. */
static inline const struct rp_point *
rp_at(const struct rp_points *p, uint64_t lsn)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->v[mid].lsn <= lsn)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? p->v + lo - 1 : NULL;
}

static inline void
rp_count(struct rp *r, uint32_t root, const struct epd_record *e, int by)
{
	struct rp_points *p = &r->s[root].live;

	rp_add(p, e->lsn, e->wall_ms, (p->n ? p->v[p->n - 1].n : 0) +
	    (uint32_t)by);
}

static inline void
rp_end(struct rp *r, uint32_t id, const struct epd_record *e)
{
	r->s[id].ended = e->lsn;
	rp_count(r, r->s[id].root, e, -1);
}

static inline void
rp_begin(struct rp *r, uint32_t id, const struct epd_record *e, uint32_t from)
{
	struct rp_state *s = r->s + id;

	s->born = e->lsn;
	s->versions = 1;
	s->root = from ? r->s[from].root : id;
	s->tokens[1] = from ? r->s[from].tokens[e->version] : e->tokens;
	s->parent = from;
	s->at = from ? e->version : 0;
	s->shared = from != 0;
	rp_add(&s->changes, e->lsn, e->wall_ms, 1);
	rp_count(r, s->root, e, 1);
}

static inline int
rp_record(void *arg, const struct epd_record *e)
{
	struct rp *r = arg;
	struct rp_state *s = r->s + e->state;
	struct epd_jw w = { .out = &r->log };
	char name[EPD_WORKFLOW];

	ag_name(r->w, name);
	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", 1);
	epd_view_record(&w, name, e);
	epd_jw_end(&w, '}');
	epd_buf_str(&r->log, "\n");
	if (e->state >= AG_STATES || e->first + e->count > AG_STATES)
		return -ERANGE;
	if (!strcmp(e->kind, "create")) {
		rp_begin(r, e->state, e, 0);
	} else if (!strcmp(e->kind, "advance")) {
		s->versions++;
		s->tokens[s->versions] = s->tokens[s->versions - 1] + e->tokens;
		rp_add(&s->changes, e->lsn, e->wall_ms, s->versions);
	} else if (!strcmp(e->kind, "fork")) {
		s->shared = 1;
		rp_add(&s->changes, e->lsn, e->wall_ms, s->versions);
		for (uint32_t i = 0; i < e->count; i++)
			rp_begin(r, e->first + i, e, e->state);
		if (e->replaced)
			rp_end(r, e->state, e);
	} else if (!strcmp(e->kind, "release")) {
		rp_end(r, e->state, e);
	} else {
		mt_bad("c%d: a record of %s", r->w, e->kind);
	}
	return 0;
}

static inline int
rp_open(struct rp *r, int w)
{
	struct epd_workflow f;
	char name[EPD_WORKFLOW];
	int rc;

	*r = (struct rp){ .w = w, .s = calloc(AG_STATES, sizeof *r->s) };
	ag_name(w, name);
	rc = epd_workflow_open(&f, mt.s, name, 1, &mt_why);
	if (rc < 0)
		return rc;
	rc = epd_shard_walk(f.shard, rp_record, r, &mt_why);
	epd_workflow_close(&f);
	return rc;
}

static inline void
rp_close(struct rp *r)
{
	for (int i = 0; i < AG_STATES; i++) {
		free(r->s[i].changes.v);
		free(r->s[i].live.v);
	}
	free(r->s);
	epd_buf_free(&r->log);
}

/* ---- what was seen ---- */

#define RP_BAD(o, fmt, ...) mt_bad("c%d/s%u between %llu and %llu: " fmt, \
	(o)->w, (o)->state, (unsigned long long)(o)->before, \
	(unsigned long long)(o)->after, __VA_ARGS__)

static inline void
rp_state(const struct rp *r, const struct ag_seen *o)
{
	const struct rp_state *s = r->s + o->state;
	const struct rp_point *then = rp_at(&s->changes, o->epoch),
	    *least = rp_at(&s->changes, o->before);

	if (!s->born || s->born > o->after || (s->ended &&
	    s->ended <= o->before))
		RP_BAD(o, "it was not there (%llu to %llu)",
		    (unsigned long long)s->born, (unsigned long long)s->ended);
	else if (!then || then->lsn != o->epoch || o->epoch > o->after)
		RP_BAD(o, "epoch %llu is not its", (unsigned long long)o->epoch);
	else if (least && least->lsn > o->epoch)
		RP_BAD(o, "epoch %llu, but %llu was there",
		    (unsigned long long)o->epoch,
		    (unsigned long long)least->lsn);
	else if (then->n != o->version || s->tokens[o->version] != o->tokens ||
	    o->pages != (o->tokens - 1) / MT_T)
		RP_BAD(o, "epoch %llu: version %u of %u tokens, %u pages; the "
		    "log has %u of %u", (unsigned long long)o->epoch,
		    o->version, o->tokens, o->pages, then->n,
		    s->tokens[then->n]);
	else if (o->shared && !s->shared)
		RP_BAD(o, "SHARED, with whom? epoch %llu",
		    (unsigned long long)o->epoch);
}

static inline void
rp_gone(const struct rp *r, const struct ag_seen *o)
{
	const struct rp_state *s = r->s + o->state;

	if (s->born && s->born <= o->before && (!s->ended ||
	    s->ended > o->after))
		RP_BAD(o, "gone, but it was there till %llu",
		    (unsigned long long)s->ended);
}

/* All ids of a version, from what its writers wrote; how many. */
static inline uint32_t
rp_ids(const struct rp *r, const struct ag *g, uint32_t id, uint32_t k,
    int32_t *out, uint32_t *mark)
{
	const struct rp_state *s = r->s + id;
	uint32_t n = 0;

	if (k == 1 && s->parent)
		return rp_ids(r, g, s->parent, s->at, out, mark);
	*mark = g->of[r->w][id][k];
	if (k > 1) {
		uint32_t before;

		n = rp_ids(r, g, id, k - 1, out, &before);
	}
	ag_ids(r->w, *mark, out + n, k > 1 ? MT_T : AG_FIRST);
	return n + (k > 1 ? MT_T : AG_FIRST);
}

static inline void
rp_version(const struct rp *r, const struct ag *g, const struct ag_seen *o)
{
	static int32_t ids[1 << 14];
	struct rp_state *s = r->s + o->state;
	struct rp_kept *kept = s->kept + o->version;
	struct epd_buf b = {0};
	uint32_t n, mark;

	if (o->version > s->versions) {
		RP_BAD(o, "version %u of %u", o->version, s->versions);
		return;
	}
	n = rp_ids(r, g, o->state, o->version, ids, &mark);
	for (uint32_t i = 0; i < n; i++)
		epd_buf_fmt(&b, "%d\n", ids[i]);
	if (n != o->tokens || epd_xxh3_64(b.p, b.n) != o->sum)
		RP_BAD(o, "@%u has %u other tokens, not %u", o->version,
		    o->tokens, n);
	if (mark != o->mark)
		RP_BAD(o, "@%u is of %u, not %u", o->version, o->mark, mark);
	epd_buf_free(&b);
	if (!kept->json) {
		kept->json = o->json;
		kept->size = epd_transcript_size(mt_tongue, ids, n,
		    EPD_TRANSCRIPT_TEXT);
	}
	if (kept->json != o->json)
		RP_BAD(o, "version.json of @%u was another", o->version);
	if (kept->size != o->size)
		RP_BAD(o, "text of @%u: %llu bytes, not %llu", o->version,
		    (unsigned long long)o->size,
		    (unsigned long long)kept->size);
}

/* Whether the count was so at some number from `from` to `to`. */
static inline int
rp_had(const struct rp_points *p, uint64_t from, uint64_t to, uint32_t n)
{
	const struct rp_point *q = rp_at(p, from);

	if ((q ? q->n : 0) == n)
		return 1;
	for (q = q ? q + 1 : p->v; q < p->v + p->n && q->lsn <= to; q++)
		if (q->n == n)
			return 1;
	return 0;
}

enum { RP_OLD_MS = 1100 };	/* how old what the kernel keeps may be */

/* 1: it was true once, but a moment too long ago. */
static inline int
rp_links(const struct rp *r, const struct ag_seen *o)
{
	const struct rp_points *p = &r->s[r->s[o->state].root].live;
	size_t i = 0;

	if (rp_had(p, o->before, o->after, o->pages))
		return 0;
	while (i < p->n && p->v[i].ms + RP_OLD_MS < o->ms)
		i++;
	/* The one before was so until then. */
	if (!o->asked && rp_had(p, i ? p->v[i - 1].lsn : 0, o->after, o->pages))
		return 1;
	RP_BAD(o, "%u links%s", o->pages, o->asked ? ", asked" : "");
	return 0;
}

/* Of one workflow: how many looks there were; *old is added to. */
static inline uint64_t
rp_all(const struct rp *r, const struct ag *g, unsigned *old)
{
	const unsigned n = g->n < AG_SEEN ? g->n : AG_SEEN;
	uint64_t looks = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct ag_seen *o = g->seen + i;

		if (o->w != r->w || !o->kind)
			continue;
		looks++;
		switch (o->kind) {
		case AG_STATE: rp_state(r, o); break;
		case AG_GONE: rp_gone(r, o); break;
		case AG_VERSION: rp_version(r, g, o); break;
		case AG_LINKS: *old += (unsigned)rp_links(r, o); break;
		default:
			if (o->size + sizeof o->raw > r->log.n ||
			    memcmp(r->log.p + o->size, o->raw, sizeof o->raw))
				mt_bad("c%d/log at %llu: %.32s", o->w,
				    (unsigned long long)o->size,
				    (const char *)o->raw);
		}
	}
	return looks;
}

/* The log through the mount, when all is quiet, is the log. */
static inline void
rp_quiet(const struct rp *r)
{
	struct epd_buf b = {0};
	int rc = mt_slurp(mt_path("workflows/c%d/log", r->w), &b);

	if (rc < 0 || b.n != r->log.n || memcmp(b.p, r->log.p, b.n))
		mt_bad("c%d/log: %zu bytes, not %zu (%d)", r->w, b.n, r->log.n,
		    rc);
	epd_buf_free(&b);
}

#endif
