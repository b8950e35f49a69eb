/* text.c - what is not about one state: the store's files, links, hand-offs. */
#include "fs/text.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

int
epd_fs_readme(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	(void)at;
	(void)why;
	epd_buf_fmt(out,
	    "The store %s, as files.\n\n"
	    "workflows/W/states/sN/  a state: text is the conversation, state.json all of it;\n"
	    "                        tokens, messages.json, sampler, pages, features; a state's\n"
	    "                        versions/K never change; parent and children are links\n"
	    "workflows/W/            log (one JSON object a record; tail -f follows), events,\n"
	    "                        check (proves the workflow when read), leases, handoffs\n"
	    "pages/ID                a page's bytes; its link count is the states that use it\n"
	    "features/ID/            an encoded picture: meta.json, blob, image.png\n"
	    "tiers/T, metrics        where pages are kept; counters\n\n", fs->store->path);
	epd_buf_str(out, fs->o.read_only ?
	    "Mounted read-only.\n" :
	    "mkdir workflows/W            a new workflow\n"
	    "mkdir states/sN/forks/NAME   a branch; rmdir states/sN releases (rm -r does not)\n"
	    "echo 'What is this?' >say    a turn: prefill and decode, streaming into text\n"
	    "echo nvme >tier              it rests there; echo memory >tier: it is back\n"
	    "echo fork 4 >ctl             a verb; its answer is read on the same descriptor:\n"
	    "    exec 3<>states/s1/ctl; echo fork 4 >&3; cat <&3\n"
	    "`echo help` says which verbs there are.  See epd-mount(1).\n");
	return epd_fs_told(out);
}

/* Who is at work on what: id, kind, ref, process, whether it stands. */
int
epd_fs_leases(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_watch *w = NULL;
	struct epd_lease l = {0};
	int rc = epd_fs_watch(fs, at, &w, why);

	if (rc < 0)
		return rc == EPD_ENOSTATE ? 0 : rc;
	while (epd_shard_lease_next(epd_watch_shard(w), l.id, &l) == 0)
		epd_buf_fmt(out, "%llu %s s%u@%u pid %u %s\n",
		    (unsigned long long)l.id, epd_lease_name(l.kind), l.state,
		    l.version, (unsigned)l.holder.pid,
		    epd_shard_lease_stands(epd_watch_shard(w), &l) ? "stands" :
		    "over");
	return epd_fs_told(out);
}

/* ---- check ---- */

static void
fault(void *arg, const char *text)
{
	epd_buf_fmt(arg, "fault: %s\n", text);
}

static void
litter(void *arg, enum epd_finding what, const char *text)
{
	epd_buf_fmt(arg, "%s: %s\n", what == EPD_LITTER ? "litter" :
	    what == EPD_LOST ? "lost" : "foreign", text);
}

int
epd_fs_proof(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_proof p = {0};
	struct epd_findings f = { .fault = fault, .litter = litter, .arg = out };
	struct epd_store *s;
	int rc = epd_fs_another(fs, 1, &s, why);

	/* By a handle of its own, and without the lock: it reads every page. */
	if (rc < 0)
		return rc;
	rc = epd_flow_prove(s, at->workflow, &f, &p, why);
	epd_store_close(s);
	/* Nothing was written to it yet. */
	if (rc == EPD_ENOTHING)
		rc = 0;
	if (rc < 0)
		return rc;
	epd_buf_fmt(out, "%d faults; %llu records, %llu states, %llu versions, "
	    "%llu pages read, %llu not in memory\n", rc,
	    (unsigned long long)p.records, (unsigned long long)p.states,
	    (unsigned long long)p.versions, (unsigned long long)p.pages,
	    (unsigned long long)p.missing);
	return epd_fs_told(out);
}

/* ---- hand-offs ---- */

static const char *
phase(unsigned p)
{
	return epd_phase_name(p) ? epd_phase_name(p) : "-";
}

static void
tell_half(const struct epd_handed *h, enum epd_fs_id what, struct epd_buf *out)
{
	char ref[EPD_REF_TEXT];

	switch (what) {
	case EPD_FS_SOURCE:
		epd_buf_fmt(out, "%s %s\n", epd_ref_format(ref, h->from,
		    h->state, h->version), *h->from_store ? h->from_store :
		    ".");
		break;
	case EPD_FS_TARGET:
		epd_buf_fmt(out, "%s %s\n", h->to_state ? epd_ref_format(ref,
		    h->to, h->to_state, 0) : *h->to ? h->to : "-",
		    *h->to_store ? h->to_store : ".");
		break;
	case EPD_FS_DEADLINE:
		epd_buf_str(out, h->expired ? "over\n" : "to come\n");
		break;
	case EPD_FS_DECISION:
		epd_buf_fmt(out, "%s\n", h->source >= EPD_COMMITTED ||
		    h->target >= EPD_COMMITTED ? "committed" :
		    h->unreachable ? "unknown" : "open");
		break;
	default:
		epd_buf_fmt(out, "%s %s\n", phase(h->source),
		    phase(h->target));
		break;
	}
}

/* The other half may be in another store, which may be slow or away. */
int
epd_fs_half(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_handed h;
	struct epd_store *s;
	int rc = epd_fs_another(fs, 1, &s, why);

	if (rc < 0)
		return rc;
	rc = epd_flow_handoff_show_in(s, at->workflow, at->id.b, &h, why);
	epd_store_close(s);
	if (rc < 0)
		return rc;
	tell_half(&h, at->kind, out);
	return epd_fs_told(out);
}

/* Of one whose other half is not here it is not asked. */
int
epd_fs_size_half(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	static const uint8_t here[16];
	struct epd_handoff own;
	struct epd_handed h;
	struct epd_watch *w;
	struct epd_buf b = {0};
	int rc = epd_fs_watch(fs, at, &w, NULL);

	*out = 0;
	if (rc == 0)
		rc = epd_shard_handoff(epd_watch_shard(w), at->id.b, &own);
	if (rc < 0 || memcmp(own.home, here, sizeof here))
		return rc;
	rc = epd_flow_handoff_show_in(fs->store, at->workflow, at->id.b, &h,
	    NULL);
	if (rc < 0)
		return rc;
	tell_half(&h, at->kind, &b);
	*out = b.n;
	epd_buf_free(&b);
	return 0;
}

/* ---- tiers ---- */

static int
number(struct epd_buf *out, uint64_t n)
{
	epd_buf_fmt(out, "%llu\n", (unsigned long long)n);
	return epd_fs_told(out);
}

int
epd_fs_capacity(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_tier_sight sight;
	int rc = epd_view_tier(fs->store, (enum epd_tier)at->index, 0, &sight);

	(void)why;
	return rc < 0 ? rc : number(out, sight.cap);
}

/* ---- what is looked for in tiers, which a disk may take long for ---- */

static uint32_t *
looked_size(struct epd_fs *fs, const struct epd_fs_at *at)
{
	return &fs->looked_size[at->kind == EPD_FS_METRICS ? EPD_TIER_NONE :
	    at->index][at->kind == EPD_FS_TIER_PAGES];
}

static int
look(struct epd_fs *fs, struct epd_store *s, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	const enum epd_tier tier = (enum epd_tier)at->index;
	struct epd_tier_sight sight;
	uint64_t n;
	int rc;

	if (at->kind == EPD_FS_METRICS)
		return epd_view_metrics(s, 0, out, why);
	if (at->kind == EPD_FS_TIER_PAGES) {
		rc = epd_fs_tier_pages(fs, s, tier, &n);
		return rc < 0 ? rc : number(out, n);
	}
	rc = epd_view_tier(s, tier, 1, &sight);
	return rc < 0 ? rc : number(out, sight.used);
}

int
epd_fs_looked(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	const size_t had = out->n;
	struct epd_store *s;
	int rc = epd_fs_another(fs, 1, &s, why);

	if (rc < 0)
		return rc;
	rc = look(fs, s, at, out, why);
	epd_store_close(s);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fs->lock);
	*looked_size(fs, at) = (uint32_t)(out->n - had);
	pthread_mutex_unlock(&fs->lock);
	return 0;
}

/* As it was when somebody looked last. */
int
epd_fs_looked_size(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out)
{
	*out = *looked_size(fs, at);
	return -EAGAIN;
}

void
epd_fs_want(struct epd_fs *fs, const struct epd_fs_at *at)
{
	struct epd_buf b = {0};

	if (epd_fs_kind(at->kind)->text == epd_fs_looked)
		(void)epd_fs_looked(fs, at, &b, NULL);
	else
		epd_fs_words_want(fs, at);
	epd_buf_free(&b);
}

/* ---- links ---- */

static void
up(struct epd_buf *out, uint32_t levels)
{
	while (levels--)
		epd_buf_str(out, "../");
}

int
epd_fs_link(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	char hex[2 * EPD_NAME + 1];
	struct epd_watch *w = NULL;
	struct epd_state st;
	int rc;

	switch (at->kind) {
	case EPD_FS_CHILD:
		up(out, at->depth + 2);
		epd_buf_fmt(out, "s%u", at->index);
		return epd_fs_told(out);
	case EPD_FS_PARENT:
		if ((rc = epd_fs_watch(fs, at, &w, why)) < 0 ||
		    (rc = epd_shard_state(epd_watch_shard(w), at->state,
		    &st)) < 0)
			return rc;
		if (!st.parent_state)
			return EPD_ENOTHING;
		up(out, at->depth + 1);
		epd_buf_fmt(out, "s%u", st.parent_state);
		return epd_fs_told(out);
	default:
		epd_hex_format(hex, at->id.b, EPD_NAME);
		up(out, at->depth + 5 + (at->version ? 2 : 0));
		epd_buf_fmt(out, "%s/%s", at->kind == EPD_FS_BUNDLE ?
		    "features" : "pages", hex);
		return epd_fs_told(out);
	}
}
