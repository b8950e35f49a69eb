/*
 * processor.c - how images are prepared, and how tokens are drawn by default:
 * preprocessor_config.json, or the image_processor of processor_config.json;
 * generation_config.json.
 */
#include <stdio.h>
#include <string.h>

#include "engine/model/arch.h"
#include "engine/model/jsonin.h"

static void
three(struct epd_jsonin *in, const struct epd_json *v, const char *key,
    float out[3], double lo)
{
	if (!v || in->rc)
		return;
	if (epd_json_type(v) != EPD_JSON_ARRAY || epd_json_count(v) != 3)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is not three numbers",
		    key);
	for (size_t i = 0; i < 3; i++)
		out[i] = (float)epd_jsonin_real(in, epd_json_at(v, i), key,
		    (double)EPD_NEEDED, lo, 1e3);
}

/* min_pixels wins over size.shortest_edge, which old files lack. */
static int64_t
bound(struct epd_jsonin *in, const struct epd_json *j, const char *pixels,
    const char *edge, long dflt)
{
	const struct epd_json *size = epd_jsonin_key(j, "size");
	const struct epd_json *v = epd_jsonin_key(j, pixels);

	if (!v)
		v = epd_jsonin_key(size, edge);
	if (!v)
		v = epd_jsonin_key(size, pixels);
	return epd_jsonin_long(in, v, edge, dflt, 1, 1L << 32);
}

static void
refuse(struct epd_jsonin *in, const struct epd_json *j)
{
	static const char *const steps[] = { "do_resize", "do_rescale",
	    "do_normalize" };
	double factor = epd_jsonin_real(in, epd_jsonin_key(j,
	    "rescale_factor"), "rescale_factor", 1 / 255.0, 0, 1);

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (!epd_json_bool(epd_jsonin_key(j, steps[i]), 1))
			epd_jsonin_fail(in, EPD_EUNSUPPORTED,
			    "%s false is not supported", steps[i]);
	if (epd_json_int(epd_jsonin_key(j, "resample"), 3) != 3)
		epd_jsonin_fail(in, EPD_EUNSUPPORTED,
		    "a resample other than bicubic is not supported");
	if (factor < 0.0039215 || factor > 0.0039216)
		epd_jsonin_fail(in, EPD_EUNSUPPORTED,
		    "rescale_factor %g is not supported", factor);
}

static void
read_processor(struct epd_jsonin *in, struct epd_processor *p,
    const struct epd_vision_arch *v, const struct epd_json *j)
{
	snprintf(p->version, sizeof p->version, "%s", epd_json_str(
	    epd_jsonin_key(j, "image_processor_type"), p->version));
	p->patch = (int)epd_jsonin_long(in, epd_jsonin_key(j, "patch_size"),
	    "patch_size", v->patch, 1, 256);
	p->merge = (int)epd_jsonin_long(in, epd_jsonin_key(j, "merge_size"),
	    "merge_size", v->merge, 1, 8);
	p->temporal = (int)epd_jsonin_long(in, epd_jsonin_key(j,
	    "temporal_patch_size"), "temporal_patch_size", 2, 1, 64);
	p->min_pixels = bound(in, j, "min_pixels", "shortest_edge",
	    (long)p->min_pixels);
	p->max_pixels = bound(in, j, "max_pixels", "longest_edge",
	    (long)p->max_pixels);
	three(in, epd_jsonin_key(j, "image_mean"), "image_mean", p->mean,
	    -1e3);
	three(in, epd_jsonin_key(j, "image_std"), "image_std", p->std, 1e-6);
	refuse(in, j);
	if (!in->rc && (p->patch != v->patch || p->merge != v->merge ||
	    p->temporal != 2))
		epd_jsonin_fail(in, EPD_EFORMAT, "patches of %d by %d by %d "
		    "are not those of config.json", p->temporal, p->patch,
		    p->merge);
	if (p->min_pixels > p->max_pixels)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "fewest pixels are more than most");
}

int
epd_processor_parse(struct epd_processor *out, const struct epd_vision_arch *v,
    struct epd_span text, struct epd_why *why)
{
	struct epd_jsonin in = { "image processor", why, 0 };
	struct epd_processor p = {
		.version = "Qwen2VLImageProcessor",
		.patch = (int)v->patch, .merge = (int)v->merge, .temporal = 2,
		.min_pixels = 56 * 56, .max_pixels = 28 * 28 * 1280,
		.mean = { 0.48145466f, 0.4578275f, 0.40821073f },
		.std = { 0.26862954f, 0.26130258f, 0.27577711f },
	};
	const struct epd_json *j;
	struct epd_json *top;
	int rc;

	if (text.n > 0) {
		if ((rc = epd_json_parse(&top, text, in.what, why)) < 0)
			return rc;
		j = epd_jsonin_key(top, "image_processor");
		read_processor(&in, &p, v, j ? j : top);
		epd_json_free(top);
	}
	if (!in.rc)
		*out = p;
	return in.rc;
}

int
epd_generation_parse(struct epd_model_info *info, struct epd_span text,
    struct epd_why *why)
{
	struct epd_jsonin in = { "generation_config.json", why, 0 };
	const struct epd_json *v;
	struct epd_json *j;
	long eos[8], last = info->vocab - 1;
	int n, rc = epd_json_parse(&j, text, in.what, why);

	if (rc < 0)
		return rc;
	if ((v = epd_jsonin_key(j, "eos_token_id"))) {
		n = epd_jsonin_list(&in, v, "eos_token_id", eos, 8, 0, last);
		for (int i = 0; i < n; i++)
			info->eos[i] = (int32_t)eos[i];
		info->n_eos = n;
	}
	info->pad = (int32_t)epd_jsonin_long(&in, epd_jsonin_key(j,
	    "pad_token_id"), "pad_token_id", info->pad, -1, last);
	info->penalty = (float)epd_jsonin_real(&in, epd_jsonin_key(j,
	    "repetition_penalty"), "repetition_penalty", 1, 1e-3, 1e3);
	if (epd_json_bool(epd_jsonin_key(j, "do_sample"), 0)) {
		info->temp = (float)epd_jsonin_real(&in, epd_jsonin_key(j,
		    "temperature"), "temperature", 1, 0, 1e3);
		info->top_p = (float)epd_jsonin_real(&in, epd_jsonin_key(j,
		    "top_p"), "top_p", 1, 0, 1);
		info->top_k = (int32_t)epd_jsonin_long(&in, epd_jsonin_key(j,
		    "top_k"), "top_k", 50, 0, 1 << 30);
	}
	epd_json_free(j);
	return in.rc;
}
