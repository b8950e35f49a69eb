/* explain.c - names and sentences of plans, and the lines for people. */
#include "plan/explain.h"

#include <string.h>

#include "plan/inner.h"

/* Long enough to be part of a key, an address or an id. */
enum { RUN = 8 };
/* Columns of a terminal, the comma left out. */
enum { WIDE = 78 };

const char *
epd_plan_clean(const char *s)
{
	size_t n = 0, run = 0, digits = 0;

	if (!s || !((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z')))
		return "redacted";
	for (; s[n]; n++) {
		const char c = s[n];
		const int digit = c >= '0' && c <= '9';
		const int hex = digit || (c >= 'a' && c <= 'f') ||
		    (c >= 'A' && c <= 'F');

		if (n >= EPD_PLAN_NAME - 1 || !(hex || (c >= 'g' && c <= 'z') ||
		    (c >= 'G' && c <= 'Z') || c == '.' || c == '_' || c == '-'))
			return "redacted";
		run = hex ? run + 1 : 0;
		digits = hex ? digits + (size_t)digit : 0;
		if ((run >= RUN && digits) || digits >= RUN)
			return "redacted";
	}
	return s;
}

enum epd_backend
epd_plan_backend(const struct epd_plan *p)
{
	for (int n = 0; n < p->nstages && n < EPD_PLAN_STAGES; n++)
		if (p->stage[n].type == EPD_STAGE_TRANSFER ||
		    p->stage[n].type == EPD_STAGE_RECOMPUTE)
			return (enum epd_backend)p->stage[n].backend;
	return EPD_VIA_NONE;
}

static void
put_time(struct epd_buf *out, uint64_t ns)
{
	static const struct { uint64_t ns; const char *unit; } units[] = {
		{ 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" },
	};
	int i = 0;

	while (i < 3 && ns < units[i].ns)
		i++;
	epd_buf_fmt(out, i == 3 ? "%.0f %s" : "%.1f %s",
	    (double)ns / (double)units[i].ns, units[i].unit);
}

/* The text with what % stands for. */
static void
fill(struct epd_buf *out, const char *text, unsigned backend, uint64_t number)
{
	for (; *text; text++) {
		if (*text != '%')
			epd_buf_put(out, text, 1);
		else if (*++text == 'b')
			epd_buf_str(out, epd_backend_name(
			    (enum epd_backend)backend));
		else if (*text == 't')
			put_time(out, number);
		else
			epd_buf_fmt(out, "%llu", (unsigned long long)(
			    *text == 'v' ? EPD_PLAN_MAJOR(number) : number));
	}
}

void
epd_plan_reason(struct epd_buf *out, const struct epd_plan *p, unsigned reason)
{
	fill(out, epd_word(&epd_plan_reasons, reason), epd_plan_backend(p), 0);
}

void
epd_plan_refusal(struct epd_buf *out, const struct epd_rejection *r)
{
	fill(out, epd_word(&epd_plan_refusals, r->reason), r->backend,
	    r->number);
}

const char *
epd_plan_shape_name(const struct epd_plan_names *n, unsigned shape)
{
	const unsigned i = shape - EPD_SHAPE_TEMPLATE;
	int count;
	const struct epd_path_template *t = epd_plan_templates(&count);

	if (shape == EPD_SHAPE_DIRECT)
		return "direct";
	if (shape == EPD_SHAPE_RECOMPUTE)
		return "recompute";
	if (n && n->planner)
		return i < (unsigned)n->planner->nshapes ?
		    epd_plan_clean(n->planner->shape_name[i]) : "?";
	return i < (unsigned)count ? t[i].name : "?";
}

void
epd_plan_policy_name(struct epd_buf *out, const struct epd_plan_names *n,
    unsigned rule)
{
	const struct epd_planner *p = n ? n->planner : NULL;

	if (!rule)
		epd_buf_str(out, "default");
	else if (p && rule <= (unsigned)p->nrules && *p->name[rule - 1])
		epd_buf_str(out, epd_plan_clean(p->name[rule - 1]));
	else
		epd_buf_fmt(out, "rule %u", rule);
}

void
epd_plan_device_name(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_stage *s)
{
	if (!s->devices)
		epd_buf_str(out, "-");
	else if (n && s->device < n->ndevices && n->device[s->device])
		epd_buf_str(out, epd_plan_clean(n->device[s->device]));
	else
		epd_buf_fmt(out, "rail%u", s->device);
}

static void
put_bytes(struct epd_buf *out, uint64_t n)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	int i = 0;

	for (; v >= 1024 && i < 4; i++)
		v /= 1024;
	epd_buf_fmt(out, i ? "%.1f %s" : "%.0f %s", v, units[i]);
}

/* "31.0 us (observed), by device-host-file, as fp8" */
static void
put_cost(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_plan *p)
{
	if (p->reasons >> EPD_WHY_ORDER & 1 || !p->cost_ns) {
		epd_buf_str(out, "by order");
	} else {
		put_time(out, p->cost_ns);
		epd_buf_fmt(out, " (%s)",
		    epd_word(&epd_plan_sources, p->estimate.source));
	}
	if (p->shape >= EPD_SHAPE_TEMPLATE)
		epd_buf_fmt(out, ", by %s", epd_plan_shape_name(n, p->shape));
	if (p->lossy)
		epd_buf_fmt(out, ", as %s", epd_word(&epd_plan_lossy, p->lossy));
}

/* "primary   direct    rdma          31.0 us (observed)" */
static void
put_line(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_plan *p)
{
	epd_buf_fmt(out, "%-9s %-9s %-13s ", epd_word(&epd_plan_roles, p->role),
	    epd_word(&epd_plan_path_kinds, p->path_kind),
	    epd_backend_name(epd_plan_backend(p)));
	put_cost(out, n, p);
	epd_buf_str(out, "\n");
}

static void
put_stages(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_plan *p)
{
	for (int i = 0; i < p->nstages; i++) {
		const struct epd_stage *s = &p->stage[i];

		epd_buf_fmt(out, "  %d %-15s %-13s %s -> %s, ", i + 1,
		    epd_word(&epd_plan_stages, s->type),
		    epd_backend_name((enum epd_backend)s->backend),
		    epd_medium_name((enum epd_medium)s->source),
		    epd_medium_name((enum epd_medium)s->target));
		put_bytes(out, s->bytes);
		if (s->devices) {
			epd_buf_str(out, ", ");
			epd_plan_device_name(out, n, s);
			epd_buf_fmt(out, ", pool %u", s->pool);
		}
		epd_buf_fmt(out, ", %s\n",
		    epd_word(&epd_priorities, s->priority));
	}
}

static void
put_charge(struct epd_buf *out, const struct epd_charge *c)
{
	const struct { const char *name; uint64_t n; int bytes; } all[] = {
		{ "on the network", c->nic_bytes, 1 },
		{ "at the receiver", c->receiver_bytes, 1 },
		{ "of host memory", c->host_staging_bytes, 1 },
		{ "request", c->request_slots, 0 },
		{ "staging slot", c->staging_slots, 0 },
		{ "consumer slot", c->consumer_slots, 0 },
		{ "queue pair", c->qp_slots, 0 },
		{ "completion queue", c->cq_slots, 0 },
	};
	size_t line = out->n;
	const char *sep = "  takes ";

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const size_t was = out->n;

		if (!all[i].n)
			continue;
		epd_buf_str(out, sep);
		sep = ", ";
		if (all[i].bytes)
			put_bytes(out, all[i].n);
		else
			epd_buf_fmt(out, "%llu", (unsigned long long)all[i].n);
		epd_buf_fmt(out, " %s%s", all[i].name,
		    all[i].bytes || all[i].n == 1 ? "" : "s");
		if (out->n - line <= WIDE)
			continue;
		/* It begins the next line. */
		out->n = was;
		epd_buf_str(out, ",\n");
		line = out->n;
		sep = "        ";
		i--;
	}
	epd_buf_str(out, "\n");
}

/* What is no way: "rdma", "tcp by device-host-net-host", "by file-host-device". */
static void
put_rejection(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_rejection *r)
{
	const int staged = r->shape >= EPD_SHAPE_TEMPLATE;

	if (r->backend)
		epd_buf_str(out, epd_backend_name((enum epd_backend)r->backend));
	else if (!staged)
		epd_buf_str(out, "compressed");
	if (staged)
		epd_buf_fmt(out, "%sby %s", r->backend ? " " : "",
		    epd_plan_shape_name(n, r->shape));
	epd_buf_str(out, ": ");
	epd_plan_refusal(out, r);
	epd_buf_str(out, "\n");
}

void
epd_plan_text(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d)
{
	const struct epd_plan *p = &d->plan[0];

	if (d->n == 0) {
		epd_buf_str(out, "no plan, policy ");
		epd_plan_policy_name(out, n, d->rule);
		epd_buf_str(out, "\n");
	} else {
		epd_buf_fmt(out, "plan %llu attempt %u, policy ",
		    (unsigned long long)p->id, p->attempt);
		epd_plan_policy_name(out, n, p->policy);
		epd_buf_str(out, "\n");
		put_line(out, n, p);
		put_stages(out, n, p);
		put_charge(out, &p->charge);
		for (unsigned r = 0; r < EPD_WHY_COUNT; r++) {
			if (!(p->reasons >> r & 1))
				continue;
			epd_buf_str(out, "  because ");
			epd_plan_reason(out, p, r);
			epd_buf_str(out, "\n");
		}
	}
	for (int i = 1; i < d->n; i++)
		put_line(out, n, &d->plan[i]);
	for (int i = 0; i < d->nrejected; i++) {
		epd_buf_str(out, "not ");
		put_rejection(out, n, &d->rejected[i]);
	}
}

void
epd_plan_why_not(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d, enum epd_backend b)
{
	const char *name = epd_backend_name(b);
	int said = 0;

	for (int i = 0; i < d->n; i++) {
		const struct epd_plan *p = &d->plan[i];

		if (epd_plan_backend(p) != b)
			continue;
		said++;
		epd_buf_fmt(out, "%s: ", name);
		if (i == 0)
			epd_buf_str(out, "it is what comes first, at ");
		else
			epd_buf_fmt(out, "valid but ranked after %s, %s at ",
			    epd_backend_name(epd_plan_backend(&d->plan[0])),
			    epd_word(&epd_plan_roles, p->role));
		put_cost(out, n, p);
		epd_buf_str(out, "\n");
	}
	for (int i = 0; i < d->nrejected; i++) {
		const struct epd_rejection *r = &d->rejected[i];

		if (r->backend != b)
			continue;
		said++;
		put_rejection(out, n, r);
	}
	if (!said)
		put_rejection(out, n, &(struct epd_rejection){
			.backend = (uint8_t)b, .shape = EPD_SHAPE_DIRECT,
			.reason = EPD_REFUSED_ABSENT });
}
