/*
 * explain_parse.c - a plan back from its JSON.  Names are looked up in the tables they
 * came from; what is not in one, or no plan when put together, is refused.
 */
#include "plan/explain.h"

#include <errno.h>
#include <string.h>

#include "plan/inner.h"

enum { LONGEST = 1 << 16 };

struct reader {
	struct epd_why *why;
	int rc;			/* the first failure */
};

static void
fault(struct reader *r, const char *key)
{
	if (!r->rc)
		r->rc = epd_why(r->why, EPD_EFORMAT, "plan: %s is absent or "
		    "nothing it may be", key);
}

static uint64_t
number(struct reader *r, const struct epd_json *o, const char *key,
    uint64_t dflt, uint64_t most)
{
	const struct epd_json *j = epd_json_get(o, key);
	const uint64_t v = epd_json_uint(j, 0);

	if (!epd_json_has(o, key))
		return dflt;
	/* What is no whole number is what is said in its stead. */
	if (v != epd_json_uint(j, 1) || v > most ||
	    (epd_json_type(j) == EPD_JSON_INT && epd_json_int(j, 0) < 0)) {
		fault(r, key);
		return dflt;
	}
	return v;
}

static uint8_t
named(struct reader *r, const struct epd_json *o, const char *key,
    const struct epd_words *words)
{
	const int i = epd_word_parse(words,
	    epd_json_str(epd_json_get(o, key), "?"));

	if (i < 0)
		fault(r, key);
	return i < 0 ? 0 : (uint8_t)i;
}

static uint64_t
read_devices(struct reader *r, const struct epd_json *o)
{
	const struct epd_json *j = epd_json_get(o, "devices");
	uint64_t mask = 0;

	if (!j)
		return 0;
	if (epd_json_type(j) == EPD_JSON_STRING &&
	    !strcmp(epd_json_str(j, ""), "all"))
		return UINT64_MAX;
	if (epd_json_type(j) != EPD_JSON_ARRAY || epd_json_count(j) > 64)
		fault(r, "devices");
	for (size_t i = 0; !r->rc && i < epd_json_count(j); i++) {
		const uint64_t d = epd_json_uint(epd_json_at(j, i), 64);

		if (d > 63)
			fault(r, "devices");
		else
			mask |= UINT64_C(1) << d;
	}
	return mask;
}

static void
read_stages(struct reader *r, const struct epd_json *o, struct epd_plan *p)
{
	const struct epd_json *list = epd_json_get(o, "stages");
	const size_t n = epd_json_count(list);

	if (epd_json_type(list) != EPD_JSON_ARRAY || n < 1 || n > EPD_PLAN_STAGES) {
		fault(r, "stages");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct epd_json *j = epd_json_at(list, i);

		p->stage[i] = (struct epd_stage){
			.type = named(r, j, "type", &epd_plan_stages),
			.backend = named(r, j, "backend", &epd_backends),
			.source = named(r, j, "source_memory", &epd_media),
			.target = named(r, j, "target_memory", &epd_media),
			.priority = named(r, j, "priority", &epd_priorities),
			.bytes = number(r, j, "bytes", 0, UINT64_MAX),
			.devices = read_devices(r, j),
			.device = (uint16_t)number(r, j, "rail", 0, 63),
			.pool = (uint8_t)number(r, j, "qp_pool", 0, 255),
		};
	}
	p->nstages = (uint8_t)n;
}

static void
read_charge(struct reader *r, const struct epd_json *o, struct epd_charge *c)
{
	const struct epd_json *j = epd_json_get(o, "resource_charge");

	*c = (struct epd_charge){
		.nic_bytes = number(r, j, "nic_bytes", 0, UINT64_MAX),
		.receiver_bytes = number(r, j, "receiver_bytes", 0, UINT64_MAX),
		.host_staging_bytes = number(r, j, "host_staging_bytes", 0,
		    UINT64_MAX),
		.request_slots = (uint32_t)number(r, j, "request_slots", 0,
		    UINT32_MAX),
		.staging_slots = (uint32_t)number(r, j, "staging_slots", 0,
		    UINT32_MAX),
		.consumer_slots = (uint32_t)number(r, j, "consumer_slots", 0,
		    UINT32_MAX),
		.qp_slots = (uint32_t)number(r, j, "qp_slots", 0, UINT32_MAX),
		.cq_slots = (uint32_t)number(r, j, "cq_slots", 0, UINT32_MAX),
	};
}

static void
read_estimate(struct reader *r, const struct epd_json *o, struct epd_estimate *e)
{
	const struct epd_json *j = epd_json_get(o, "estimate");
	const double sure = epd_json_real(epd_json_get(j, "confidence"), 0);

	*e = (struct epd_estimate){
		.source = named(r, j, "source", &epd_plan_sources),
		.latency_ns = number(r, j, "latency_ns", 0, UINT64_MAX),
		.bandwidth_bps = number(r, j, "bandwidth_bps", 0, UINT64_MAX),
		.observed_at_ns = number(r, j, "observed_at_ns", 0, UINT64_MAX),
		.valid_for_ns = number(r, j, "valid_for_ns", 0, UINT64_MAX),
		.confidence = sure,
		.ignored = (uint8_t)epd_json_has(j, "ignored"),
	};
	if (!(sure >= 0 && sure <= 1))
		fault(r, "confidence");
}

static void
read_depends(struct reader *r, const struct epd_json *o, struct epd_plan *p)
{
	const struct epd_json *list = epd_json_get(o, "dependencies");
	const size_t n = epd_json_count(list);

	if (epd_json_type(list) != EPD_JSON_ARRAY || n > EPD_PLAN_DEPENDS) {
		fault(r, "dependencies");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct epd_json *j = epd_json_at(list, i);

		p->depends[i] = (struct epd_depends){
			.kind = named(r, j, "kind", &epd_plan_dependencies),
			.backend = epd_json_has(j, "backend") ?
			    named(r, j, "backend", &epd_backends) : 0,
			.generation = number(r, j, "generation", 0, UINT64_MAX),
		};
	}
	p->ndepends = (uint8_t)n;
}

/* A sentence is one of those that this plan could have. */
static void
read_reasons(struct reader *r, const struct epd_json *o, struct epd_plan *p)
{
	const struct epd_json *list = epd_json_get(o, "reasons");
	const size_t n = epd_json_count(list);

	if (epd_json_type(list) != EPD_JSON_ARRAY || n > EPD_WHY_COUNT)
		fault(r, "reasons");
	for (size_t i = 0; !r->rc && i < n; i++) {
		const char *s = epd_json_str(epd_json_at(list, i), "");
		unsigned w = 0;

		for (; w < EPD_WHY_COUNT; w++) {
			struct epd_buf text = { 0 };
			int same;

			epd_plan_reason(&text, p, w);
			same = !strcmp(epd_buf_cstr(&text), s);
			epd_buf_free(&text);
			if (same)
				break;
		}
		if (w == EPD_WHY_COUNT)
			fault(r, "reasons");
		else
			p->reasons |= UINT64_C(1) << w;
	}
}

static void
read_plan(struct reader *r, const struct epd_json *o, struct epd_plan *p)
{
	*p = (struct epd_plan){
		.schema_version = (uint32_t)(EPD_PLAN_SCHEMA |
		    number(r, o, "schema_minor", 0, 0xffff)),
		.id = number(r, o, "id", 0, UINT64_MAX),
		.attempt = (uint32_t)number(r, o, "attempt", 0, UINT32_MAX),
		.parent = number(r, o, "parent", 0, UINT64_MAX),
		.path_kind = named(r, o, "path_kind", &epd_plan_path_kinds),
		.role = named(r, o, "role", &epd_plan_roles),
		.shape = (uint8_t)number(r, o, "shape", 0, 255),
		.policy = (uint16_t)number(r, o, "policy", 0, UINT16_MAX),
		.lossy = epd_json_has(o, "compression") ? named(r, o, "compression",
		    &epd_plan_lossy) : 0,
		.remote = (uint8_t)epd_json_bool(epd_json_get(o, "remote"), 0),
		.alignment = number(r, o, "alignment", 1, UINT64_MAX),
		.cost_ns = number(r, o, "cost_ns", 0, UINT64_MAX),
	};
	read_stages(r, o, p);
	read_charge(r, o, &p->charge);
	read_estimate(r, o, &p->estimate);
	read_depends(r, o, p);
	if (!r->rc)
		read_reasons(r, o, p);
}

int
epd_plan_parse(struct epd_plan *out, const struct epd_plan_names *n,
    struct epd_span text, struct epd_why *why)
{
	struct reader r = { .why = why };
	struct epd_json *j = NULL;
	struct epd_plan p;
	int rc;

	if (text.n > LONGEST)
		return epd_why(why, EPD_EFORMAT, "plan: larger than 64 KiB");
	rc = epd_json_parse(&j, text, "plan", why);
	if (rc)
		return rc;
	if (epd_json_uint(epd_json_get(j, "schema_version"), 0) !=
	    EPD_PLAN_MAJOR(EPD_PLAN_SCHEMA)) {
		epd_json_free(j);
		return epd_why(why, EPD_EKIND, "plan: of no schema known here");
	}
	read_plan(&r, j, &p);
	epd_json_free(j);
	if (r.rc)
		return r.rc;
	rc = epd_plan_check(n ? n->planner : NULL, &p, why);
	if (rc)
		return rc == EPD_EUSAGE ? EPD_EFORMAT : rc;
	*out = p;
	return 0;
}
