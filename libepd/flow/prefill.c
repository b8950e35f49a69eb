/*
 * prefill.c - a request onto nothing or onto a state: only what is new is
 * computed, and only the log record at the end changes anything.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/handoff.h"
#include "flow/prompt.h"
#include "flow/publish.h"
#include "flow/reach.h"
#include "flow/rest.h"
#include "flow/reuse.h"

static int
note(struct epd_buf *out, const char *command, const struct epd_seq *q,
    uint64_t ns)
{
	struct epd_jw w = { .out = out };

	epd_jw_begin(&w, NULL, '{');
	epd_jw_str(&w, "command", command);
	epd_jw_uint(&w, "computed", q->computed);
	epd_jw_uint(&w, "recomputed_pages", q->lost);
	epd_jw_uint(&w, "ns", ns);
	epd_jw_end(&w, '}');
	return out->failed ? -ENOMEM : 0;
}

/* Publish, and describe what seq has beyond `had` tokens in v. */
static int
describe(struct epd_seq *q, uint64_t had, uint32_t images, struct epd_why *why,
    struct epd_version *v, struct epd_page_ref **pages)
{
	struct epd_metrics *m = q->s->store->metrics;
	struct epd_page_entry *e = NULL;
	uint64_t from = epd_clock_boot_ns();
	int rc;

	*pages = NULL;
	rc = epd_seq_publish(q, v, &e, why);
	/* Without a folder to be in, pages are lost; the tokens are not. */
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (v->npages) {
		epd_count(m, EPD_M_PD_TRANSFER_COUNT, 1);
		epd_count(m, EPD_M_PD_TRANSFER_NS, epd_clock_boot_ns() - from);
	}
	if (v->npages && !(*pages = epd_calloc(v->npages, sizeof **pages))) {
		epd_free(e);
		return epd_why(why, -ENOMEM, "no memory");
	}
	for (uint32_t i = 0; i < v->npages; i++)
		(*pages)[i] = (struct epd_page_ref){
			.name = e[i].name, .rows = e[i].rows, .sum = e[i].sum,
		};
	epd_free(e);
	v->pages = *pages;
	v->ids = q->ids + had;
	v->nids = (uint32_t)(q->n - had);
	v->images = q->images ? q->images + images : NULL;
	v->nimages = q->nimages - images;
	v->given = q->given != 0;
	v->has_lengths = 1;
	v->text_bytes = epd_transcript_size(q->s->tokens, q->ids, q->n,
	    EPD_TRANSCRIPT_TEXT);
	v->messages_bytes = epd_transcript_size(q->s->tokens, q->ids, q->n,
	    EPD_TRANSCRIPT_MESSAGES);
	v->next_pos = epd_positions(q->s->model, q->anchors, (int)q->nimages,
	    (long)q->n, 0, NULL);
	return 0;
}

/* It may have come to rest while this was computed. */
static int
commit(struct epd_workflow *w, const struct epd_step *step,
    const struct epd_version *v, uint32_t *version, struct epd_why *why)
{
	int rc, tries = 0;

	do
		rc = step->lease ? epd_shard_advance_leased(w->shard,
		    step->lease, step->state, step->expect, v, version, why) :
		    epd_shard_advance(w->shard, step->state, step->expect,
		    step->key, v, version, why);
	while (epd_rest_again(w, step->state, rc, &tries));
	return epd_reach_ended(w, step->state, rc, why);
}

int
epd_seq_advance(struct epd_seq *q, const struct epd_step *step,
    struct epd_version *v, uint32_t *version, struct epd_why *why)
{
	struct epd_shard *s = q->w->shard;
	struct epd_page_ref *pages;
	struct epd_version now;
	int other = 0, rc = describe(q, step->had, step->images, why, v,
	    &pages);

	if (rc == 0)
		rc = commit(q->w, step, v, version, why);
	/* With a key it may have been done before, and then not by this run. */
	if (rc == 0 && step->key)
		other = epd_shard_version(s, step->state, *version, &now) ==
		    0 && epd_version_run(&now, 0) != epd_version_run(v, 0);
	if ((rc < 0 && rc != EPD_EUNSURE) || other)
		epd_seq_unpublish(q, v);
	epd_free(pages);
	return rc;
}

int
epd_seq_create(struct epd_seq *q, uint64_t ttl_ms, struct epd_version *v,
    uint32_t *state, struct epd_why *why)
{
	struct epd_session *s = q->s;
	struct epd_page_ref *pages;
	struct epd_buf fp = {0};
	struct epd_state st = {
		.page_tokens = (uint32_t)s->shape.tokens,
		.kv_type = (uint32_t)s->shape.type,
		.page_bytes = s->page_bytes,
		.model_fp = s->model_fp,
		.model_path = epd_model_path(s->model),
		.tenant = s->store->tenant,
	};
	uint64_t now = epd_clock_wall_ms();
	int rc = epd_session_fingerprint(s, &fp);

	if (rc < 0) {
		epd_buf_free(&fp);
		return epd_why(why, rc, "no memory");
	}
	if (ttl_ms)
		st.ttl_deadline_ms = ttl_ms < UINT64_MAX - now ?
		    now + ttl_ms : UINT64_MAX;
	st.fingerprint = epd_buf_cstr(&fp);
	if (fp.failed) {
		epd_buf_free(&fp);
		return epd_why(why, -ENOMEM, "no memory");
	}
	epd_session_base(s, &st.base);
	rc = describe(q, 0, 0, why, v, &pages);
	if (rc == 0)
		rc = epd_shard_create(q->w->shard, &st, v, state, why);
	if (rc < 0 && rc != EPD_EUNSURE)
		epd_seq_unpublish(q, v);
	epd_free(pages);
	epd_buf_free(&fp);
	return rc;
}

/* Images of a version and all before it, or an error. */
static int
images_of(struct epd_shard *s, const struct epd_version *head)
{
	struct epd_version v = *head;
	uint32_t n = v.nimages;
	int rc;

	for (; v.parent; n += v.nimages)
		if ((rc = epd_shard_node(s, v.parent, &v)) < 0)
			return rc;
	return (int)n;
}

/* Whether a request is what gave this version. */
static int
is_of(const struct epd_request *r, const struct epd_version *v)
{
	if (v->nids != r->ids.n || v->nimages != (uint32_t)r->nimages ||
	    memcmp(v->ids, r->ids.v, r->ids.n * sizeof *r->ids.v))
		return 0;
	for (int i = 0; i < r->nimages; i++)
		if (!epd_name_equal(&v->images[i].fp, &r->rows.image[i].fp))
			return 0;
	return 1;
}

/*
 * 1 if the state's version `expect` was advanced with this key before: then out
 * tells of what that gave.
 */
static int
done_before(struct epd_session *s, struct epd_workflow *w,
    const struct epd_prefill *p, uint32_t newest, struct epd_prefilled *out,
    struct epd_why *why)
{
	struct epd_version v = {0}, head;
	struct epd_request r = {0};
	uint32_t expect = p->expect ? p->expect : newest - 1;
	int had, rc;

	/* Onto what is not the newest, an advance looks at the key and no more. */
	if (!p->key || expect == 0 || expect >= newest ||
	    epd_shard_advance(w->shard, p->state, expect, p->key, &v,
	    &out->version, NULL) < 0 ||
	    epd_shard_version(w->shard, p->state, expect, &head) < 0)
		return 0;
	/* A key stands for one request, and this must be it. */
	if ((had = images_of(w->shard, &head)) < 0)
		return had;
	rc = epd_request_make(&r, s, p, &head, (uint32_t)had, why);
	if (rc < 0)
		return rc;
	if (epd_shard_version(w->shard, p->state, out->version, &v) < 0 ||
	    !is_of(&r, &v))
		rc = epd_why(why, EPD_EUSAGE, "key %llu stands for another "
		    "request, which gave %s/s%u@%u", (unsigned long long)p->key,
		    w->name, p->state, out->version);
	epd_request_free(&r);
	if (rc < 0)
		return rc;
	out->state = p->state;
	out->tokens = v.start + v.nids;
	memcpy(out->workflow, w->name, sizeof out->workflow);
	return 1;
}

/* Open where the request goes and take up what is there.  1: done before. */
static int
target(struct epd_seq *q, const struct epd_prefill *p, struct epd_workflow *w,
    struct epd_prefilled *out, struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_workflow_open(w, q->s->store, p->workflow, 0, why);

	if (rc < 0)
		return rc;
	(void)epd_flow_handoff_settle(q->s->store, w);
	rc = epd_shard_state(w->shard, p->state, &st);
	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", w->name, p->state,
		    epd_strerror(rc));
	rc = done_before(q->s, w, p, st.versions, out, why);
	if (rc != 0)
		return rc;
	out->version = st.versions;
	if ((rc = epd_rest_wake(w, &st, 0, why)) < 0 ||
	    (rc = epd_reach_on(w, &st, why)) < 0)
		return rc;
	if (p->expect && p->expect != st.versions)
		return epd_why(why, EPD_EVERSION, "%s/s%u: it is at @%u, not "
		    "@%u", w->name, p->state, st.versions, p->expect);
	rc = epd_reach_load(q, p->state, st.versions, why);
	if (rc == EPD_ESUSPECT)
		epd_reach_lost(w, p->state, why ? why->text : "");
	return rc;
}

/* The approximate policies begin with the exact prefix too. */
static int
may_reuse(const struct epd_session *s, const struct epd_prefill *p)
{
	const struct epd_config *c = &s->store->config;

	return p->reuse == EPD_REUSE_CONFIGURED ?
	    c->debug_exact_prefix && strcmp(c->reuse_policy, "none") != 0 :
	    p->reuse == EPD_REUSE_EXACT_PREFIX;
}

static int
work(struct epd_seq *q, const struct epd_prefill *p, struct epd_workflow *w,
    struct epd_prefilled *out, struct epd_why *why)
{
	struct epd_request r = {0};
	struct epd_version v = {0};
	struct epd_buf text = {0};
	uint64_t from = epd_clock_boot_ns(), had;
	uint32_t images;
	int rc = p->state ? target(q, p, w, out, why) : 0;

	if (rc != 0)
		return rc < 0 ? rc : 0;
	had = q->n;
	images = q->nimages;
	rc = epd_request_make(&r, q->s, p, p->state ? &q->head : NULL, images,
	    why);
	for (int i = 0; rc == 0 && i < r.nimages; i++)
		r.rows.image[i].at += had;
	if (rc == 0)
		rc = epd_seq_extend(q, r.ids.v, r.ids.n, r.rows.image,
		    r.rows.rows, (size_t)r.nimages, why);
	if (rc == 0 && !p->state) {
		rc = epd_workflow_make(q->s->store, p->workflow, out->workflow,
		    why);
		if (rc == 0)
			rc = epd_workflow_open(w, q->s->store, out->workflow,
			    0, why);
	}
	if (rc == 0 && may_reuse(q->s, p))
		rc = epd_seq_reuse(q, q->n - 1, why);
	if (rc == 0)
		rc = epd_seq_compute(q, q->n - 1, p, why);
	if (rc == 0)
		rc = note(&text, "prefill", q, epd_clock_boot_ns() - from);
	v.turn = (uint8_t)r.turn;
	v.note = epd_span(text.p, text.n);
	v.sampling = q->head.sampling;
	out->state = p->state;
	if (rc == 0 && p->state)
		rc = epd_seq_advance(q, &(struct epd_step){
		    .state = p->state, .expect = out->version, .key = p->key,
		    .had = had, .images = images }, &v, &out->version, why);
	else if (rc == 0 && (rc = epd_seq_create(q, p->ttl_ms, &v,
	    &out->state, why)) == 0)
		out->version = 1;
	if (rc == 0) {
		epd_count(q->s->store->metrics, EPD_M_PREFILL_PAGES, v.npages);
		memcpy(out->workflow, w->name, sizeof out->workflow);
		out->tokens = q->n;
		out->fresh = q->computed;
		out->reused = q->found;
		out->borrowed = q->borrowed;
		out->lost = q->lost;
		out->images = (uint32_t)r.nimages;
		out->encoded = r.rows.encoded;
		out->hits = r.rows.hits;
		out->ns = epd_clock_boot_ns() - from;
	}
	epd_buf_free(&text);
	epd_request_free(&r);
	return rc;
}

int
epd_flow_prefill(struct epd_session *s, const struct epd_prefill *p,
    struct epd_prefilled *out, struct epd_why *why)
{
	struct epd_workflow w = { .dirfd = -1, .runs = -1 };
	struct epd_prefilled done = {0};
	struct epd_runs *runs;
	struct epd_seq q;
	int rc = epd_runs_new(&runs);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	epd_seq_begin(&q, s, &w, runs);
	q.stop = p->stop;
	rc = work(&q, p, &w, &done, why);
	if (rc < 0 && why && !*why->text)
		epd_why(why, rc, "%s", epd_strerror(rc));
	epd_log(&s->store->log, "op=prefill state=%s/s%u rc=%d tokens=%llu "
	    "computed=%llu", done.workflow, done.state, rc,
	    (unsigned long long)done.tokens, (unsigned long long)done.fresh);
	epd_seq_free(&q);
	epd_runs_free(runs);
	if (rc < 0 && rc != EPD_EUNSURE && !p->state && !*p->workflow)
		epd_workflow_unmake(s->store, &w);
	epd_workflow_close(&w);
	if (rc == 0)
		*out = done;
	return rc;
}
