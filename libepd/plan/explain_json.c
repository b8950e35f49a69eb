/*
 * explain_json.c - a decision as JSON: the RFC's example, with what a plan holds
 * besides, so that it can be read back.
 */
#include "plan/explain.h"

#include "plan/inner.h"

/* A name made piece by piece. */
static void
put_name(struct epd_jw *w, const char *key, struct epd_buf *name)
{
	epd_jw_str(w, key, epd_buf_cstr(name));
	w->out->failed |= name->failed;
	epd_buf_free(name);
}

/* Rails by number; "all" where none was named. */
static void
put_devices(struct epd_jw *w, uint64_t devices)
{
	if (devices == UINT64_MAX) {
		epd_jw_str(w, "devices", "all");
		return;
	}
	epd_jw_begin(w, "devices", '[');
	for (unsigned i = 0; i < 64; i++)
		if (devices >> i & 1)
			epd_jw_uint(w, NULL, i);
	epd_jw_end(w, ']');
}

static void
put_stage(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_stage *s)
{
	struct epd_buf name = { 0 };

	epd_jw_begin(w, NULL, '{');
	epd_jw_str(w, "type", epd_word(&epd_plan_stages, s->type));
	epd_jw_str(w, "backend", epd_backend_name((enum epd_backend)s->backend));
	epd_jw_str(w, "source_memory", epd_medium_name((enum epd_medium)s->source));
	epd_jw_str(w, "target_memory", epd_medium_name((enum epd_medium)s->target));
	epd_jw_uint(w, "bytes", s->bytes);
	epd_jw_str(w, "priority", epd_word(&epd_priorities, s->priority));
	if (s->devices) {
		epd_plan_device_name(&name, n, s);
		put_name(w, "device", &name);
		epd_jw_uint(w, "rail", s->device);
		put_devices(w, s->devices);
		epd_jw_uint(w, "qp_pool", s->pool);
	}
	epd_jw_end(w, '}');
}

static void
put_charge(struct epd_jw *w, const struct epd_charge *c)
{
	epd_jw_begin(w, "resource_charge", '{');
#define PUT(field) if (c->field) epd_jw_uint(w, #field, c->field)
	PUT(nic_bytes);
	PUT(receiver_bytes);
	PUT(host_staging_bytes);
	PUT(request_slots);
	PUT(staging_slots);
	PUT(consumer_slots);
	PUT(qp_slots);
	PUT(cq_slots);
#undef PUT
	epd_jw_end(w, '}');
}

static void
put_estimate(struct epd_jw *w, const struct epd_plan *p)
{
	const struct epd_estimate *e = &p->estimate;

	epd_jw_begin(w, "estimate", '{');
	epd_jw_str(w, "source", epd_word(&epd_plan_sources, e->source));
	if (e->latency_ns)
		epd_jw_uint(w, "latency_ns", e->latency_ns);
	if (e->bandwidth_bps)
		epd_jw_uint(w, "bandwidth_bps", e->bandwidth_bps);
	if (e->observed_at_ns)
		epd_jw_uint(w, "observed_at_ns", e->observed_at_ns);
	if (e->valid_for_ns)
		epd_jw_uint(w, "valid_for_ns", e->valid_for_ns);
	epd_jw_real(w, "confidence", e->confidence);
	if (e->ignored)
		epd_jw_str(w, "ignored", "an observation had expired");
	else if (p->reasons >> EPD_WHY_UNSURE & 1)
		epd_jw_str(w, "unsure", "an observation of low confidence");
	epd_jw_end(w, '}');
}

static void
put_depends(struct epd_jw *w, const struct epd_plan *p)
{
	epd_jw_begin(w, "dependencies", '[');
	for (int i = 0; i < p->ndepends; i++) {
		const struct epd_depends *d = &p->depends[i];

		epd_jw_begin(w, NULL, '{');
		epd_jw_str(w, "kind", epd_word(&epd_plan_dependencies, d->kind));
		if (d->backend)
			epd_jw_str(w, "backend",
			    epd_backend_name((enum epd_backend)d->backend));
		epd_jw_uint(w, "generation", d->generation);
		epd_jw_end(w, '}');
	}
	epd_jw_end(w, ']');
}

static void
put_reasons(struct epd_jw *w, const struct epd_plan *p)
{
	epd_jw_begin(w, "reasons", '[');
	for (unsigned r = 0; r < EPD_WHY_COUNT; r++) {
		struct epd_buf text = { 0 };

		if (!(p->reasons >> r & 1))
			continue;
		epd_plan_reason(&text, p, r);
		put_name(w, NULL, &text);
	}
	epd_jw_end(w, ']');
}

static void
put_plan(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_plan *p)
{
	struct epd_buf policy = { 0 };

	epd_jw_uint(w, "schema_minor", p->schema_version & 0xffff);
	epd_jw_uint(w, "id", p->id);
	epd_jw_uint(w, "attempt", p->attempt);
	if (p->parent)
		epd_jw_uint(w, "parent", p->parent);
	epd_jw_str(w, "path_kind", epd_word(&epd_plan_path_kinds, p->path_kind));
	epd_jw_str(w, "role", epd_word(&epd_plan_roles, p->role));
	epd_jw_str(w, "template", epd_plan_shape_name(n, p->shape));
	epd_jw_uint(w, "shape", p->shape);
	epd_plan_policy_name(&policy, n, p->policy);
	put_name(w, "matched_policy", &policy);
	epd_jw_uint(w, "policy", p->policy);
	if (p->lossy)
		epd_jw_str(w, "compression", epd_word(&epd_plan_lossy, p->lossy));
	epd_jw_bool(w, "remote", p->remote);
	epd_jw_uint(w, "alignment", p->alignment);
	epd_jw_uint(w, "cost_ns", p->cost_ns);
	epd_jw_begin(w, "stages", '[');
	for (int i = 0; i < p->nstages; i++)
		put_stage(w, n, &p->stage[i]);
	epd_jw_end(w, ']');
	put_charge(w, &p->charge);
	put_estimate(w, p);
	put_depends(w, p);
	put_reasons(w, p);
}

/* Those behind, as what they are known by. */
static void
put_others(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth)
{
	epd_jw_begin(w, "fallbacks", '[');
	for (int i = nth + 1; i < d->n; i++) {
		const struct epd_plan *p = &d->plan[i];

		epd_jw_begin(w, NULL, '{');
		epd_jw_uint(w, "id", p->id);
		epd_jw_str(w, "role", epd_word(&epd_plan_roles, p->role));
		epd_jw_str(w, "path_kind",
		    epd_word(&epd_plan_path_kinds, p->path_kind));
		epd_jw_str(w, "backend", epd_backend_name(epd_plan_backend(p)));
		epd_jw_str(w, "template", epd_plan_shape_name(n, p->shape));
		if (p->lossy)
			epd_jw_str(w, "compression",
			    epd_word(&epd_plan_lossy, p->lossy));
		epd_jw_uint(w, "cost_ns", p->cost_ns);
		epd_jw_end(w, '}');
	}
	epd_jw_end(w, ']');
}

static void
put_rejected(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth)
{
	epd_jw_begin(w, "rejected_candidates", '[');
	for (int i = 0; i < d->nrejected; i++) {
		const struct epd_rejection *r = &d->rejected[i];
		struct epd_buf text = { 0 };

		epd_jw_begin(w, NULL, '{');
		epd_jw_str(w, "backend", r->backend ?
		    epd_backend_name((enum epd_backend)r->backend) : "any");
		epd_jw_str(w, "template", epd_plan_shape_name(n, r->shape));
		epd_plan_refusal(&text, r);
		put_name(w, "reason", &text);
		epd_jw_end(w, '}');
	}
	for (int i = nth + 1; i < d->n; i++) {
		struct epd_buf text = { 0 };

		epd_jw_begin(w, NULL, '{');
		epd_jw_str(w, "backend",
		    epd_backend_name(epd_plan_backend(&d->plan[i])));
		epd_jw_str(w, "template",
		    epd_plan_shape_name(n, d->plan[i].shape));
		epd_buf_fmt(&text, "valid but ranked after %s",
		    epd_backend_name(epd_plan_backend(&d->plan[nth])));
		put_name(w, "reason", &text);
		epd_jw_end(w, '}');
	}
	epd_jw_end(w, ']');
}

void
epd_plan_fields(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth)
{
	struct epd_buf policy = { 0 };

	if (nth < d->n) {
		put_plan(w, n, &d->plan[nth]);
		put_others(w, n, d, nth);
	} else {
		epd_jw_str(w, "path_kind", NULL);
		epd_plan_policy_name(&policy, n, d->rule);
		put_name(w, "matched_policy", &policy);
	}
	put_rejected(w, n, d, nth);
}

void
epd_plan_json(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth)
{
	struct epd_jw w = { .out = out };

	epd_jw_begin(&w, NULL, '{');
	epd_jw_uint(&w, "schema_version", EPD_PLAN_MAJOR(EPD_PLAN_SCHEMA));
	epd_plan_fields(&w, n, d, nth);
	epd_jw_end(&w, '}');
	epd_buf_str(out, "\n");
}
