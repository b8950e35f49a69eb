/* show.c - what a ref names, as one JSON object with the RFC's field names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "flow/pages.h"
#include "flow/view.h"

static const char *const turns[] = { "prompt", "open", "closed", "raw" };
static const char *const finishes[] = {
	"none", "eos", "stop", "length", "interrupt",
};

static const char *
word(const char *const *list, size_t n, unsigned i)
{
	return i < n ? list[i] : "unknown";
}

/* FeatureBundleRef; refcount is how often this state's sequence uses it. */
static void
bundle(struct epd_store *s, struct epd_jw *w, const struct epd_state *st,
    const struct epd_image_ref *im, uint32_t refs)
{
	struct epd_feature_meta m = {0};
	char hex[2 * EPD_NAME + 3] = "f:";
	int there = epd_feature_meta(s->features, &im->fp, &m) == 0;

	epd_hex_format(hex + 2, im->fp.b, EPD_NAME);
	(void)st;
	epd_jw_begin(w, NULL, '{');
	epd_jw_str(w, "feature_bundle_id", hex);
	epd_jw_hex(w, "image_id", im->fp.b, EPD_NAME);
	epd_jw_str(w, "model_revision", there ? m.snapshot : NULL);
	epd_jw_str(w, "dtype", there ? m.dtype : NULL);
	epd_jw_str(w, "compression", "none");
	epd_jw_begin(w, "location_hint", '[');
	if (there)
		epd_jw_str(w, NULL, "store");
	epd_jw_end(w, ']');
	epd_jw_uint(w, "refcount", refs);
	if (m.deadline_ms)
		epd_jw_uint(w, "ttl_deadline_ms", m.deadline_ms);
	else
		epd_jw_str(w, "ttl_deadline_ms", NULL);
	epd_jw_uint(w, "at", im->at);
	epd_jw_begin(w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(w, NULL, im->grid[i]);
	epd_jw_end(w, ']');
	epd_jw_bool(w, "present", there);
	epd_jw_end(w, '}');
}

/* KVPageRef. */
static void
page(struct epd_jw *w, const struct epd_workflow *wf,
    const struct epd_state *st, const struct epd_used_page *p, uint32_t refs)
{
	char id[40];

	snprintf(id, sizeof id, "%016llx.%u", (unsigned long long)p->run,
	    p->at);
	epd_jw_begin(w, NULL, '{');
	epd_jw_str(w, "kv_page_id", id);
	epd_jw_uint(w, "logical_index", p->logical);
	epd_jw_uint(w, "page_version", p->node);
	epd_jw_str(w, "owner_worker", "local");
	epd_jw_str(w, "dtype", st->kv_type == 0 ? "f32" : "bf16");
	epd_jw_str(w, "compression", "none");
	epd_jw_uint(w, "refcount", refs);
	epd_jw_bool(w, "sealed", 1);
	epd_jw_uint(w, "rows", p->ref.rows);
	epd_jw_hex(w, "name", p->ref.name.b, EPD_NAME);
	epd_jw_str(w, "tier", epd_run_present(wf, p->run) ? "cpu" : NULL);
	epd_jw_end(w, '}');
}

static void
sampling(struct epd_jw *w, const struct epd_sampling *s)
{
	epd_jw_begin(w, "sampling", '{');
	epd_jw_real(w, "temp", s->temp);
	epd_jw_int(w, "top_k", s->top_k);
	epd_jw_real(w, "top_p", s->top_p);
	epd_jw_real(w, "repeat_penalty", s->penalty);
	epd_jw_uint(w, "seed", s->seed);
	epd_jw_uint(w, "salt", s->salt);
	epd_jw_end(w, '}');
}

/* Text that is JSON already goes in as it is. */
static void
raw(struct epd_jw *w, const char *key, const char *json, size_t n)
{
	struct epd_json *j;

	if (!n || epd_json_parse(&j, epd_span(json, n), key, NULL) < 0) {
		epd_jw_str(w, key, NULL);
		return;
	}
	epd_jw_int(w, key, 0);
	w->out->n--;
	epd_json_dump(w->out, j);
	epd_json_free(j);
}

static void
owner(struct epd_jw *w, const struct epd_workflow *wf)
{
	uint8_t uuid[16];

	epd_shard_uuid(wf->shard, uuid);
	epd_jw_hex(w, "owner_shard", uuid, sizeof uuid);
	epd_jw_uint(w, "term", epd_shard_term(wf->shard));
	epd_jw_uint(w, "lsn", epd_shard_lsn(wf->shard));
}

static void
parent(struct epd_jw *w, const char *workflow, const struct epd_state *st)
{
	char ref[EPD_REF_TEXT];

	if (!st->parent_state) {
		epd_jw_str(w, "parent_state_id", NULL);
		epd_jw_str(w, "parent_version_id", NULL);
		return;
	}
	epd_jw_str(w, "parent_state_id",
	    epd_ref_format(ref, workflow, st->parent_state, 0));
	epd_jw_uint(w, "parent_version_id", st->parent_version);
}

struct parts {
	struct epd_used_page *page;
	struct epd_image_ref *image;
	struct epd_page_counts *counts;
	uint32_t npages, nimages;
	uint64_t tokens;
};

static void
lists(struct epd_store *s, struct epd_jw *w, const struct epd_workflow *wf,
    const struct epd_state *st, const struct parts *p)
{
	epd_jw_begin(w, "feature_bundles", '[');
	for (uint32_t i = 0; i < p->nimages; i++) {
		uint32_t refs = 0;

		for (uint32_t k = 0; k < p->nimages; k++)
			if (epd_name_equal(&p->image[i].fp, &p->image[k].fp))
				refs++;
		bundle(s, w, st, p->image + i, refs);
	}
	epd_jw_end(w, ']');
	epd_jw_begin(w, "kv_pages", '[');
	for (uint32_t i = 0; i < p->npages; i++)
		page(w, wf, st, p->page + i, epd_pages_refs(p->counts,
		    p->page[i].run, p->page[i].at));
	epd_jw_end(w, ']');
}

static void
state_json(struct epd_store *s, struct epd_jw *w,
    const struct epd_workflow *wf, const struct epd_state *st,
    const struct epd_version *v, uint32_t version, const struct parts *p)
{
	char ref[EPD_REF_TEXT];
	int shared = 0;

	for (uint32_t i = 0; i < p->npages; i++)
		shared |= epd_pages_refs(p->counts, p->page[i].run,
		    p->page[i].at) > 1;
	epd_jw_begin(w, NULL, '{');
	epd_jw_int(w, "schema_version", 1);
	epd_jw_str(w, "state_id", epd_ref_format(ref, wf->name, st->id, 0));
	epd_jw_str(w, "workflow_id", wf->name);
	epd_jw_uint(w, "version_id", version ? version : st->versions);
	epd_jw_uint(w, "epoch", st->epoch);
	parent(w, wf->name, st);
	epd_jw_str(w, "status", st->status == EPD_ACTIVE && shared ? "SHARED" :
	    epd_status_name(st->status));
	owner(w, wf);
	if (st->ttl_deadline_ms)
		epd_jw_uint(w, "ttl_deadline_ms", st->ttl_deadline_ms);
	else
		epd_jw_str(w, "ttl_deadline_ms", NULL);
	epd_jw_begin(w, "metadata", '{');
	epd_jw_str(w, "model", st->model_path);
	epd_jw_str(w, "tenant", st->tenant);
	epd_jw_hex(w, "model_fingerprint", st->model_fp.b, EPD_NAME);
	raw(w, "fingerprint", st->fingerprint, strlen(st->fingerprint));
	raw(w, "note", v->note.p, v->note.n);
	epd_jw_end(w, '}');
	epd_jw_uint(w, "tokens", p->tokens);
	epd_jw_uint(w, "versions", st->versions);
	epd_jw_str(w, "turn", word(turns, 4, v->turn));
	epd_jw_str(w, "finish", word(finishes, 5, v->finish));
	epd_jw_int(w, "rope_delta", v->next_pos - (int64_t)p->tokens);
	epd_jw_uint(w, "page_tokens", st->page_tokens);
	epd_jw_uint(w, "page_bytes", st->page_bytes);
	epd_jw_uint(w, "created_ms", st->created_ms);
	epd_jw_uint(w, "changed_ms", v->wall_ms);
	sampling(w, &v->sampling);
	lists(s, w, wf, st, p);
	epd_jw_end(w, '}');
}

static int
show_state(struct epd_store *s, const struct epd_ref *ref,
    struct epd_workflow *wf, struct epd_buf *out, struct epd_why *why)
{
	struct epd_jw w = { .out = out };
	struct parts p = {0};
	struct epd_version v;
	struct epd_state st;
	int rc = epd_pages_of(wf, ref->state, ref->version, &p.page, &p.npages,
	    &p.image, &p.nimages, &p.tokens, why);

	if (rc < 0)
		return rc;
	rc = epd_pages_count(&p.counts, wf, why);
	if (rc == 0)
		rc = epd_shard_state(wf->shard, ref->state, &st);
	if (rc == 0)
		rc = epd_shard_version(wf->shard, ref->state, ref->version, &v);
	if (rc == 0)
		state_json(s, &w, wf, &st, &v, ref->version, &p);
	epd_pages_free(p.counts);
	epd_free(p.page);
	epd_free(p.image);
	return rc;
}

static void
show_workflow(struct epd_workflow *wf, struct epd_buf *out)
{
	struct epd_jw w = { .out = out };
	struct epd_state st = {0};
	char ref[EPD_REF_TEXT];

	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", 1);
	epd_jw_str(&w, "workflow_id", wf->name);
	owner(&w, wf);
	epd_jw_begin(&w, "states", '[');
	while (epd_shard_next(wf->shard, st.id, &st) == 0)
		epd_jw_str(&w, NULL, epd_ref_format(ref, wf->name, st.id, 0));
	epd_jw_end(&w, ']');
	epd_jw_end(&w, '}');
}

static int
show_feature(struct epd_store *s, const struct epd_name *fp,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_jw w = { .out = out };
	struct epd_feature_meta m;
	char hex[2 * EPD_NAME + 3] = "f:";
	int rc = epd_feature_meta(s->features, fp, &m);

	epd_hex_format(hex + 2, fp->b, EPD_NAME);
	if (rc < 0)
		return epd_why(why, rc == -ENOENT ? EPD_ENOTHING : rc,
		    "%.18s: %s", hex, rc == -ENOENT ? "no such feature" :
		    epd_strerror(rc));
	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", 1);
	epd_jw_str(&w, "feature_bundle_id", hex);
	epd_jw_hex(&w, "image_id", fp->b, EPD_NAME);
	epd_jw_str(&w, "model_revision", m.snapshot);
	epd_jw_hex(&w, "model_fingerprint", m.model.b, EPD_NAME);
	epd_jw_str(&w, "tenant", m.tenant);
	epd_jw_str(&w, "family", m.family);
	epd_jw_str(&w, "dtype", m.dtype);
	epd_jw_str(&w, "compression", "none");
	epd_jw_begin(&w, "location_hint", '[');
	epd_jw_str(&w, NULL, "store");
	epd_jw_end(&w, ']');
	epd_jw_begin(&w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(&w, NULL, m.grid[i]);
	epd_jw_end(&w, ']');
	epd_jw_begin(&w, "shape", '[');
	epd_jw_uint(&w, NULL, m.layers);
	epd_jw_uint(&w, NULL, m.tokens);
	epd_jw_uint(&w, NULL, m.hidden);
	epd_jw_end(&w, ']');
	epd_jw_uint(&w, "bytes", m.bytes);
	epd_jw_uint(&w, "created_ms", m.created_ms);
	if (m.deadline_ms)
		epd_jw_uint(&w, "ttl_deadline_ms", m.deadline_ms);
	else
		epd_jw_str(&w, "ttl_deadline_ms", NULL);
	epd_jw_bool(&w, "picture_kept", m.pix_w && m.pix_h);
	epd_jw_end(&w, '}');
	return 0;
}

int
epd_view_json(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_workflow wf;
	int rc;

	if (ref->kind == EPD_REF_FEATURE) {
		rc = show_feature(s, &ref->feature, out, why);
	} else {
		rc = epd_workflow_open(&wf, s, ref->workflow, 1, why);
		if (rc < 0)
			return rc;
		if (ref->kind == EPD_REF_STATE)
			rc = show_state(s, ref, &wf, out, why);
		else
			show_workflow(&wf, out);
		epd_workflow_close(&wf);
	}
	if (rc == 0 && out->failed)
		rc = epd_why(why, -ENOMEM, "no memory");
	return rc;
}
