/*
 * view_json.c - one thing as one object.  The names of R's MultimodalState,
 * FeatureBundleRef and KVPageRef are used as R spells them; the rest is ours.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/lossy.h"
#include "flow/look.h"

/* A state, and where it goes. */
struct sheet {
	struct epd_look k;
	struct epd_jw jw;
};

/* "": null. */
static void
str_or_null(struct epd_jw *w, const char *key, const char *v)
{
	epd_jw_str(w, key, v && *v ? v : NULL);
}

static void
time_or_null(struct epd_jw *w, const char *key, uint64_t ms)
{
	if (ms)
		epd_jw_uint(w, key, ms);
	else
		epd_jw_str(w, key, NULL);
}

static void
begin(struct epd_jw *w, struct epd_buf *out, const char *kind)
{
	*w = (struct epd_jw){ .out = out };
	epd_jw_begin(w, NULL, '{');
	epd_jw_int(w, "schema_version", 1);
	epd_jw_str(w, "kind", kind);
}

static void
name_ref(struct epd_jw *w, const char *key, const struct epd_name *n)
{
	char text[2 * EPD_NAME + 3] = "f:";

	epd_hex_format(text + 2, n->b, EPD_NAME);
	epd_jw_str(w, key, text);
}

/* ---- features ---- */

/* 1 if a node has this image. */
static int
shows(struct epd_shard *s, const struct epd_glance *g,
    const struct epd_name *fp)
{
	struct epd_version v;

	if (g->nimages == 0 || epd_shard_node(s, g->node, &v) < 0)
		return 0;
	for (uint32_t i = 0; i < v.nimages; i++)
		if (epd_name_equal(&v.images[i].fp, fp))
			return 1;
	return 0;
}

/* Live states of the workflow that hold this image. */
static uint32_t
holders(struct epd_shard *s, const struct epd_name *fp)
{
	struct epd_state st;
	uint32_t after = 0, n = 0;

	while (epd_shard_next(s, after, &st) == 0) {
		struct epd_glance g = {0};
		int rc = epd_shard_holds(s, st.id, 0, &g.parent), has = 0;

		after = st.id;
		while (rc == 0 && !has && g.parent)
			if ((rc = epd_shard_glance(s, g.parent, &g)) == 0)
				has = shows(s, &g, fp);
		n += (uint32_t)has;
	}
	return n;
}

static void
bundle(struct sheet *p, const struct epd_image_ref *im)
{
	struct epd_look *k = &p->k;
	struct epd_jw *w = &p->jw;
	struct epd_feature_meta m;
	int there = epd_feature_meta(k->s->features, &im->fp, &m) == 0;

	epd_jw_begin(w, NULL, '{');
	name_ref(w, "feature_bundle_id", &im->fp);
	epd_jw_hex(w, "image_id", im->fp.b, EPD_NAME);
	epd_jw_str(w, "model_revision", there ? m.snapshot : NULL);
	epd_jw_str(w, "dtype", there ? m.dtype : NULL);
	epd_jw_str(w, "compression", "none");
	epd_jw_begin(w, "location_hint", '[');
	if (there)
		epd_jw_str(w, NULL, "store");
	epd_jw_end(w, ']');
	epd_jw_uint(w, "refcount", holders(k->w->shard, &im->fp));
	time_or_null(w, "ttl_deadline_ms", there ? m.deadline_ms : 0);
	epd_jw_uint(w, "at", im->at);
	epd_jw_begin(w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(w, NULL, im->grid[i]);
	epd_jw_end(w, ']');
	epd_jw_end(w, '}');
}

static int
bundles(struct sheet *p)
{
	struct epd_image_ref *im;
	int rc = epd_look_images(&p->k, &im);

	if (rc < 0)
		return rc;
	epd_jw_begin(&p->jw, "feature_bundles", '[');
	for (uint32_t i = 0; i < p->k.x.images; i++)
		bundle(p, im + i);
	epd_jw_end(&p->jw, ']');
	epd_free(im);
	return 0;
}

/* ---- pages ---- */

/* Where it would be read from, as far as that is known without asking. */
static const char *
tier_of(const struct epd_look *k, uint64_t run)
{
	return epd_book_run(k->book, run) ? epd_tier_name(EPD_TIER_CPU) :
	    k->packs && epd_run_ids_has(k->packs, run) ?
	    epd_tier_name(EPD_TIER_NVME) : NULL;
}

static int
pages(struct sheet *p)
{
	struct epd_look *k = &p->k;
	struct epd_jw *w = &p->jw;
	char numeric[EPD_NUMERIC_MAX] = "";
	struct epd_page_row *row;
	const char *codec;
	uint64_t n;
	int rc = epd_book_pages(k->w->shard, k->x.head.node, &row, &n);

	if (rc < 0)
		return rc;
	(void)epd_lossy_numeric(&k->st, numeric);
	codec = epd_lossy_is(numeric) ? strchr(numeric, '+') + 1 : "none";
	epd_jw_begin(w, "kv_pages", '[');
	for (uint64_t i = 0; i < n; i++) {
		const struct epd_book_node *b =
		    epd_book_find(k->book, row[i].node);
		char sum[17], run[17];

		snprintf(sum, sizeof sum, "%016llx",
		    (unsigned long long)row[i].ref.sum);
		snprintf(run, sizeof run, "%016llx",
		    (unsigned long long)row[i].run);
		epd_jw_begin(w, NULL, '{');
		epd_jw_hex(w, "kv_page_id", row[i].ref.name.b, EPD_NAME);
		epd_jw_uint(w, "logical_index", i);
		epd_jw_uint(w, "page_version", row[i].node);
		epd_jw_str(w, "owner_worker", "local");
		epd_jw_str(w, "dtype", epd_look_dtype(&k->st));
		/* What they went through: they lie as they are used. */
		epd_jw_str(w, "compression", codec);
		epd_jw_uint(w, "refcount", b ? b->states + b->leases : 0);
		epd_jw_bool(w, "sealed", row[i].ref.rows == k->st.page_tokens);
		epd_jw_str(w, "object", "kv_page");
		epd_jw_uint(w, "rows", row[i].ref.rows);
		epd_jw_str(w, "checksum", sum);
		epd_jw_str(w, "run", row[i].run ? run : NULL);
		epd_jw_bool(w, "in_memory", epd_book_run(k->book,
		    row[i].run) != NULL);
		epd_jw_str(w, "tier", tier_of(k, row[i].run));
		epd_jw_end(w, '}');
	}
	epd_jw_end(w, ']');
	epd_free(row);
	return 0;
}

/* ---- the state ---- */

static void
sampling(struct epd_jw *w, const struct epd_sampling *s)
{
	char salt[24];

	epd_jw_begin(w, "sampling", '{');
	epd_jw_real(w, "temp", s->temp);
	epd_jw_int(w, "top_k", s->top_k);
	epd_jw_real(w, "top_p", s->top_p);
	epd_jw_real(w, "repeat_penalty", s->penalty);
	epd_jw_uint(w, "seed", s->seed);
	/* In digits: whole beyond what readers of JSON keep of a number. */
	snprintf(salt, sizeof salt, "%llu", (unsigned long long)s->salt);
	epd_jw_str(w, "salt", salt);
	epd_jw_end(w, '}');
}

/* JSON that somebody wrote, put in as it is if it is JSON. */
static void
raw(struct epd_jw *w, const char *key, struct epd_span text)
{
	struct epd_json *j = NULL;
	struct epd_json_iter it;

	epd_jw_begin(w, key, '{');
	if (text.n && epd_json_parse(&j, text, key, NULL) == 0)
		for (it = epd_json_begin(j); epd_json_next(&it);) {
			enum epd_json_type t = epd_json_type(it.value);

			if (t == EPD_JSON_INT)
				epd_jw_int(w, it.key,
				    epd_json_int(it.value, 0));
			else if (t == EPD_JSON_REAL)
				epd_jw_real(w, it.key,
				    epd_json_real(it.value, 0));
			else if (t == EPD_JSON_BOOL)
				epd_jw_bool(w, it.key,
				    epd_json_bool(it.value, 0));
			else
				epd_jw_str(w, it.key,
				    epd_json_str(it.value, NULL));
		}
	epd_jw_end(w, '}');
	epd_json_free(j);
}

static void
model(struct sheet *p)
{
	struct epd_look *k = &p->k;
	struct epd_jw *w = &p->jw;

	epd_jw_begin(w, "model", '{');
	str_or_null(w, "path", k->st.model_path);
	epd_jw_hex(w, "fingerprint", k->st.model_fp.b, EPD_NAME);
	epd_jw_hex(w, "page_base", k->st.base.b, EPD_NAME);
	raw(w, "parts", epd_span_str(k->st.fingerprint ? k->st.fingerprint :
	    ""));
	epd_jw_end(w, '}');
}

static void
weight(struct sheet *p)
{
	struct epd_look *k = &p->k;
	struct epd_jw *w = &p->jw;

	epd_jw_begin(w, "bytes", '{');
	epd_jw_uint(w, "private", k->x.private_bytes);
	epd_jw_uint(w, "shared", k->x.shared_bytes);
	epd_jw_uint(w, "proportional", k->x.proportional_bytes);
	epd_jw_end(w, '}');
	epd_jw_uint(w, "pages", k->x.pages);
	epd_jw_uint(w, "pages_missing", k->x.missing);
	epd_jw_uint(w, "pages_nvme", k->below);
}

static void
identity(struct sheet *p, const char *name)
{
	struct epd_look *k = &p->k;
	const struct epd_version *h = &k->x.head;
	struct epd_jw *w = &p->jw;
	char parent[EPD_REF_TEXT];
	uint8_t shard[16];

	epd_shard_uuid(k->w->shard, shard);
	epd_jw_str(w, "state_id", name);
	epd_jw_str(w, "workflow_id", k->w->name);
	epd_jw_uint(w, "version_id", k->version);
	epd_jw_uint(w, "versions", k->st.versions);
	epd_jw_uint(w, "epoch", k->st.epoch);
	epd_jw_str(w, "parent_state_id", k->st.parent_state ? epd_ref_format(
	    parent, k->w->name, k->st.parent_state, 0) : NULL);
	if (k->st.parent_version)
		epd_jw_uint(w, "parent_version_id", k->st.parent_version);
	else
		epd_jw_str(w, "parent_version_id", NULL);
	epd_jw_str(w, "status", epd_book_status(&k->st, &k->x));
	str_or_null(w, "tier", k->st.tier);
	str_or_null(w, "waits_for_tool", k->st.tool);
	time_or_null(w, "wait_deadline_ms", k->st.wait_deadline_ms);
	epd_jw_hex(w, "owner_shard", shard, sizeof shard);
	time_or_null(w, "ttl_deadline_ms", k->st.ttl_deadline_ms);
	epd_jw_uint(w, "created_ms", k->st.created_ms);
	epd_jw_uint(w, "changed_ms", k->changed_ms);
	str_or_null(w, "tenant", k->st.tenant);
	epd_jw_uint(w, "tokens", k->x.tokens);
	epd_jw_uint(w, "images", k->x.images);
	epd_jw_int(w, "next_position", h->next_pos);
	epd_jw_int(w, "rope_delta", h->next_pos - (int64_t)k->x.tokens);
	epd_jw_str(w, "turn", epd_turn_name(h->turn));
	epd_jw_str(w, "finish", epd_finish_name(h->finish));
	epd_jw_uint(w, "page_tokens", k->st.page_tokens);
	epd_jw_str(w, "kv_dtype", epd_look_dtype(&k->st));
	epd_jw_uint(w, "page_bytes", k->st.page_bytes);
}

static int
state(struct sheet *p, struct epd_buf *out)
{
	char name[EPD_REF_TEXT];
	int rc;

	begin(&p->jw, out, "state");
	epd_ref_format(name, p->k.w->name, p->k.st.id, 0);
	identity(p, name);
	sampling(&p->jw, &p->k.x.head.sampling);
	weight(p);
	model(p);
	if ((rc = bundles(p)) < 0 || (rc = pages(p)) < 0)
		return rc;
	raw(&p->jw, "metadata", p->k.x.head.note);
	epd_jw_end(&p->jw, '}');
	return out->failed ? -ENOMEM : 0;
}

int
epd_watch_json(struct epd_watch *w, uint32_t id, uint32_t version,
    struct epd_buf *out, struct epd_why *why)
{
	struct sheet p;
	int rc = epd_look(&p.k, w, id, version, why);

	if (rc == 0 && (rc = state(&p, out)) < 0)
		epd_look_fail(p.k.w->name, id, version, rc, why);
	return rc;
}

static int
view_state(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_watch *w;
	int rc = epd_watch_open(&w, s, ref->workflow, why);

	if (rc == 0) {
		rc = epd_watch_json(w, ref->state, ref->version, out, why);
		epd_watch_close(w);
	}
	return rc;
}

static int
view_feature(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_feature_meta m;
	struct epd_jw w;
	int rc = epd_feature_meta(s->features, &ref->feature, &m);

	if (rc < 0)
		return epd_why(why, rc == -ENOENT ? EPD_ENOTHING : rc, "%s",
		    rc == -ENOENT ? "no such feature" : epd_strerror(rc));
	begin(&w, out, "feature");
	name_ref(&w, "feature_bundle_id", &m.fp);
	epd_jw_hex(&w, "image_id", m.fp.b, EPD_NAME);
	epd_jw_str(&w, "model_revision", m.snapshot);
	epd_jw_hex(&w, "model_fingerprint", m.model.b, EPD_NAME);
	epd_jw_str(&w, "family", m.family);
	str_or_null(&w, "tenant", m.tenant);
	epd_jw_str(&w, "dtype", m.dtype);
	epd_jw_str(&w, "compression", "none");
	epd_jw_begin(&w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(&w, NULL, m.grid[i]);
	epd_jw_end(&w, ']');
	epd_jw_uint(&w, "layers", m.layers);
	epd_jw_uint(&w, "tokens", m.tokens);
	epd_jw_uint(&w, "hidden", m.hidden);
	epd_jw_uint(&w, "bytes", m.bytes);
	epd_jw_uint(&w, "created_ms", m.created_ms);
	time_or_null(&w, "ttl_deadline_ms", m.deadline_ms);
	epd_jw_uint(&w, "picture_width", m.pix_w);
	epd_jw_uint(&w, "picture_height", m.pix_h);
	epd_jw_end(&w, '}');
	return out->failed ? -ENOMEM : 0;
}

struct sum {
	uint64_t states, versions, tokens, pages, missing, below, bytes;
};

static int
add(void *arg, const struct epd_state_line *l)
{
	struct sum *s = arg;

	s->states++;
	s->versions += l->versions;
	s->tokens += l->tokens;
	s->pages += l->pages;
	s->missing += l->missing;
	s->below += l->below;
	s->bytes += l->proportional_bytes;
	return 0;
}

static int
view_workflow(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_workflow w;
	struct sum n = {0};
	struct epd_jw jw;
	uint8_t uuid[16];
	int rc = epd_view_states(s, ref->workflow, add, &n, why);

	if (rc == 0)
		rc = epd_workflow_open(&w, s, ref->workflow, 1, why);
	if (rc < 0)
		return rc;
	epd_shard_uuid(w.shard, uuid);
	begin(&jw, out, "workflow");
	epd_jw_str(&jw, "workflow_id", w.name);
	epd_jw_hex(&jw, "owner_shard", uuid, sizeof uuid);
	epd_jw_uint(&jw, "lsn", epd_shard_lsn(w.shard));
	epd_jw_uint(&jw, "term", epd_shard_term(w.shard));
	epd_jw_uint(&jw, "states", n.states);
	epd_jw_uint(&jw, "versions", n.versions);
	epd_jw_uint(&jw, "tokens", n.tokens);
	epd_jw_uint(&jw, "pages", n.pages);
	epd_jw_uint(&jw, "pages_missing", n.missing);
	epd_jw_uint(&jw, "pages_nvme", n.below);
	epd_jw_uint(&jw, "bytes", n.bytes);
	epd_jw_end(&jw, '}');
	epd_workflow_close(&w);
	return out->failed ? -ENOMEM : 0;
}

void
epd_view_record(struct epd_jw *w, const char *workflow,
    const struct epd_record *r)
{
	char name[EPD_REF_TEXT];

	epd_jw_str(w, "workflow", workflow);
	epd_jw_uint(w, "lsn", r->lsn);
	epd_jw_uint(w, "term", r->term);
	epd_jw_uint(w, "wall_ms", r->wall_ms);
	epd_jw_str(w, "record", r->kind);
	epd_jw_str(w, "state", r->state ? epd_ref_format(name, workflow,
	    r->state, r->version) : NULL);
	epd_jw_uint(w, "tokens", r->tokens);
	epd_jw_uint(w, "pages", r->pages);
	epd_jw_uint(w, "branches", r->count);
	epd_jw_str(w, "first_branch", r->count ? epd_ref_format(name, workflow,
	    r->first, 0) : NULL);
	epd_jw_bool(w, "replaced", r->replaced);
	if (r->lease)
		epd_jw_uint(w, "lease", r->lease);
	else
		epd_jw_str(w, "lease", NULL);
	if (r->has_handoff)
		epd_jw_hex(w, "handoff", r->handoff, 16);
	else
		epd_jw_str(w, "handoff", NULL);
	epd_jw_uint(w, "bytes", r->bytes);
	str_or_null(w, "status", r->status);
	str_or_null(w, "tier", r->tier);
	str_or_null(w, "tool", r->tool);
	str_or_null(w, "owner", r->owner);
	epd_jw_str(w, "reason", *r->reason ? r->reason : NULL);
}

int
epd_view_json(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why)
{
	switch (ref->kind) {
	case EPD_REF_FEATURE: return view_feature(s, ref, out, why);
	case EPD_REF_WORKFLOW: return view_workflow(s, ref, out, why);
	default: return view_state(s, ref, out, why);
	}
}
