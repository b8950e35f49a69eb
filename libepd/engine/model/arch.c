/*
 * arch.c - config.json, flat (Qwen2-VL, Qwen2.5-VL on the hub) or with a
 * text_config (Qwen3-VL, and all families as saved since transformers 4.52).
 *
 *  1. Whatever would change a result and is not computed here is refused by
 *     name; a key that cannot change one is not looked at.
 *  2. Every size is bounded, so that products of two fit in a long.
 */
#include <math.h>
#include <string.h>

#include "engine/model/arch.h"
#include "engine/model/jsonin.h"

enum { WIDTH = 1 << 17, LAYERS = 1024, HEADS = 1024 };

static const struct epd_family_rules families[] = {
	{ EPD_QWEN2_VL, "qwen2_vl", "quick_gelu", EPD_QUICK_GELU,
	    "fc1", NULL, "fc2", "ln_q", "mlp.0", "mlp.2", .qkv_bias = 1 },
	{ EPD_QWEN25_VL, "qwen2_5_vl", "silu", EPD_GATED_SILU,
	    "gate_proj", "up_proj", "down_proj", "ln_q", "mlp.0", "mlp.2",
	    .rms = 1, .qkv_bias = 1 },
	{ EPD_QWEN3_VL, "qwen3_vl", "gelu_pytorch_tanh", EPD_TANH_GELU,
	    "linear_fc1", NULL, "linear_fc2", "norm", "linear_fc1",
	    "linear_fc2", .patch_bias = 1, .interleaved = 1 },
};

static void
unsupported(struct epd_jsonin *in, const struct epd_json *v, const char *key)
{
	epd_jsonin_fail(in, EPD_EUNSUPPORTED, "%s %.60s is not supported", key,
	    epd_json_str(v, "of this value"));
}

/* A string that, where there is one, must be a or b. */
static void
only(struct epd_jsonin *in, const struct epd_json *v, const char *key,
    const char *a, const char *b)
{
	const char *s = epd_json_str(v, "");

	if (v && strcmp(s, a) && (!b || strcmp(s, b)))
		unsupported(in, v, key);
}

static const struct epd_family_rules *
family(struct epd_jsonin *in, const struct epd_json *top)
{
	const struct epd_json *v = epd_jsonin_key(top, "model_type");
	const char *type = epd_json_str(v, "");

	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (!strcmp(type, families[i].model_type))
			return &families[i];
	if (!*type)
		epd_jsonin_fail(in, EPD_EFORMAT, "model_type is missing");
	unsupported(in, v, "model_type");
	return NULL;
}

/* Which axis turns pair i: runs of t, h, w, or t h w t h w ... t t. */
static void
axes(struct epd_jsonin *in, struct epd_text_arch *t,
    const struct epd_json *section, int interleaved)
{
	long s[3] = { 24, 20, 20 }, half = t->dim / 2;
	int n = epd_jsonin_list(in, section, "mrope_section", s, 3, 0,
	    EPD_DIM_MAX);

	if (!section && !interleaved)
		epd_jsonin_fail(in, EPD_EFORMAT, "mrope_section is missing");
	if ((section && n != 3) || s[0] + s[1] + s[2] != half)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "mrope_section is not three that add up to %ld", half);
	if (in->rc)
		return;
	for (long i = 0; i < half; i++) {
		long axis = interleaved ? i % 3 : i < s[0] ? 0 :
		    i < s[0] + s[1] ? 1 : 2;

		if (interleaved && i >= 3 * s[axis])
			axis = 0;
		t->axis[i] = (uint8_t)axis;
	}
}

static void
rope(struct epd_jsonin *in, struct epd_arch *a, const struct epd_json *text,
    const struct epd_json *top)
{
	const struct epd_json *r = epd_jsonin_either(text, top,
	    "rope_parameters"), *v;

	if (!r)
		r = epd_jsonin_either(text, top, "rope_scaling");
	only(in, epd_jsonin_key(r, "type"), "rope type", "default", "mrope");
	only(in, epd_jsonin_key(r, "rope_type"), "rope type", "default",
	    "mrope");
	if ((v = epd_jsonin_either(r, text, "partial_rotary_factor")) &&
	    epd_json_real(v, 0) != 1)
		unsupported(in, v, "partial_rotary_factor");
	if ((v = epd_jsonin_key(r, "mrope_interleaved")) &&
	    epd_json_bool(v, 0) != a->rules->interleaved)
		unsupported(in, v, "mrope_interleaved");
	if (!(v = epd_jsonin_key(r, "rope_theta")))
		v = epd_jsonin_either(text, top, "rope_theta");
	a->text.theta = epd_jsonin_real(in, v, "rope_theta",
	    a->rules->interleaved ? (double)EPD_NEEDED : 1e6, 1, 1e12);
	axes(in, &a->text, epd_jsonin_key(r, "mrope_section"),
	    a->rules->interleaved);
}

static void
sliding(struct epd_jsonin *in, const struct epd_json *text)
{
	const struct epd_json *types = epd_jsonin_key(text, "layer_types");

	if (epd_json_bool(epd_jsonin_key(text, "use_sliding_window"), 0))
		epd_jsonin_fail(in, EPD_EUNSUPPORTED,
		    "sliding window attention is not supported");
	for (size_t i = 0; i < epd_json_count(types); i++)
		only(in, epd_json_at(types, i), "layer type",
		    "full_attention", NULL);
}

static void
language(struct epd_jsonin *in, struct epd_arch *a,
    const struct epd_json *text, const struct epd_json *top)
{
	struct epd_text_arch *t = &a->text;
	const int q3 = a->rules->family == EPD_QWEN3_VL;
#define GET(key, dflt, lo, hi) epd_jsonin_long(in, \
	epd_jsonin_key(text, key), key, dflt, lo, hi)

	t->hidden = GET("hidden_size", EPD_NEEDED, 1, WIDTH);
	t->inner = GET("intermediate_size", EPD_NEEDED, 1, WIDTH);
	t->layers = GET("num_hidden_layers", EPD_NEEDED, 1, LAYERS);
	t->heads = GET("num_attention_heads", EPD_NEEDED, 1, HEADS);
	t->kv_heads = GET("num_key_value_heads", t->heads, 1, HEADS);
	t->vocab = GET("vocab_size", EPD_NEEDED, 1, 1 << 22);
	t->max_position = GET("max_position_embeddings", 32768, 1, 1 << 30);
	if (in->rc)
		return;
	t->dim = GET("head_dim", q3 ? 128 : t->hidden / t->heads, 2,
	    EPD_DIM_MAX);
	t->eps = (float)epd_jsonin_real(in,
	    epd_jsonin_key(text, "rms_norm_eps"), "rms_norm_eps",
	    q3 ? 1e-6 : 1e-5, 1e-12, 1);
#undef GET
	if (t->dim % 2 || t->heads % (t->kv_heads ? t->kv_heads : 1))
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "%ld heads of %ld over %ld key heads", t->heads, t->dim,
		    t->kv_heads);
	only(in, epd_jsonin_key(text, "hidden_act"), "hidden_act", "silu",
	    NULL);
	if (q3 && epd_json_bool(epd_jsonin_key(text, "attention_bias"), 0))
		epd_jsonin_fail(in, EPD_EUNSUPPORTED,
		    "attention_bias is not supported");
	sliding(in, text);
	rope(in, a, text, top);
}

/* Where the vision_config's sizes are called what, and their defaults. */
static void
vision_sizes(struct epd_jsonin *in, struct epd_arch *a,
    const struct epd_json *v)
{
	static const struct {
		const char *width, *out;
		long width_is, inner, depth, patch;
	} of[] = {
		[EPD_QWEN2_VL] = { "embed_dim", "hidden_size", 1280, 0, 32,
		    14 },
		[EPD_QWEN25_VL] = { "hidden_size", "out_hidden_size", 3584,
		    3420, 32, 14 },
		[EPD_QWEN3_VL] = { "hidden_size", "out_hidden_size", 1152,
		    4304, 27, 16 },
	};
	const enum epd_family f = a->rules->family;
	struct epd_vision_arch *y = &a->vision;
#define GET(key, dflt, lo, hi) epd_jsonin_long(in, \
	epd_jsonin_key(v, key), key, dflt, lo, hi)

	y->width = GET(of[f].width, of[f].width_is, 1, WIDTH);
	y->depth = GET("depth", of[f].depth, 1, EPD_DEPTH_MAX);
	y->heads = GET("num_heads", 16, 1, HEADS);
	y->patch = GET("patch_size", of[f].patch, 1, 256);
	y->merge = GET("spatial_merge_size", 2, 1, 8);
	if (a->rules->family == EPD_QWEN2_VL)
		y->inner = (long)((double)y->width * epd_jsonin_real(in,
		    epd_jsonin_key(v, "mlp_ratio"), "mlp_ratio", 4, 0.01, 64));
	else
		y->inner = GET("intermediate_size", of[f].inner, 1, WIDTH);
	if (GET("temporal_patch_size", 2, 1, 64) != 2 ||
	    GET("in_channels", 3, 1, 64) != 3 ||
	    GET("in_chans", 3, 1, 64) != 3)
		epd_jsonin_fail(in, EPD_EUNSUPPORTED,
		    "patches other than 3 channels by 2 frames");
	if (GET(of[f].out, a->text.hidden, 1, WIDTH) != a->text.hidden)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is not hidden_size",
		    of[f].out);
#undef GET
	if (in->rc)
		return;
	y->dim = y->width / y->heads;
	if (y->width % y->heads || y->dim % 4 || y->dim > EPD_DIM_MAX ||
	    y->inner < 1)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "vision width %ld over %ld heads", y->width, y->heads);
}

static void
windows(struct epd_jsonin *in, struct epd_vision_arch *y,
    const struct epd_json *v)
{
	long at[EPD_DEPTH_MAX] = { 7, 15, 23, 31 };
	const struct epd_json *list = epd_jsonin_key(v,
	    "fullatt_block_indexes");
	int n = list ? epd_jsonin_list(in, list, "fullatt_block_indexes", at,
	    EPD_DEPTH_MAX, 0, 1 << 20) : 4;

	y->window = epd_jsonin_long(in, epd_jsonin_key(v, "window_size"),
	    "window_size", 112, 1, 1 << 20);
	y->rate = (float)epd_jsonin_real(in,
	    epd_jsonin_key(v, "tokens_per_second"), "tokens_per_second", 4,
	    0, 1e6);
	if (in->rc)
		return;
	y->window = y->window / y->merge / y->patch;
	if (y->window < 1)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "window_size is below a token's");
	for (int i = 0; i < n; i++)
		if (at[i] < y->depth)
			y->full[at[i]] = 1;
}

static void
deepstack(struct epd_jsonin *in, struct epd_arch *a, const struct epd_json *v)
{
	struct epd_vision_arch *y = &a->vision;
	const struct epd_json *list = epd_jsonin_key(v,
	    "deepstack_visual_indexes");
	long at[EPD_DEEP_MAX] = { 8, 16, 24 }, n, places, side = 0;

	n = list ? epd_jsonin_list(in, list, "deepstack_visual_indexes", at,
	    EPD_DEEP_MAX, 0, EPD_DEPTH_MAX - 1) : 3;
	places = epd_jsonin_long(in, epd_jsonin_key(v,
	    "num_position_embeddings"), "num_position_embeddings", 2304, 1,
	    1 << 24);
	if (in->rc)
		return;
	while (side * side < places)
		side++;
	if (side * side != places)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "num_position_embeddings is not a square");
	if (n > a->text.layers)
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "more deepstack layers than text layers");
	for (long i = 0; i < n; i++) {
		if (at[i] >= y->depth || (i > 0 && at[i] <= at[i - 1]))
			epd_jsonin_fail(in, EPD_EFORMAT,
			    "deepstack_visual_indexes do not ascend below "
			    "depth");
		y->deep_at[i] = (uint8_t)at[i];
	}
	y->side = side;
	y->deep = n;
}

static void
vision(struct epd_jsonin *in, struct epd_arch *a, const struct epd_json *v)
{
	const struct epd_json *r = epd_jsonin_key(v, "rope_parameters");

	if (!in->rc && epd_json_type(v) != EPD_JSON_OBJECT)
		epd_jsonin_fail(in, EPD_EFORMAT, "vision_config is missing");
	only(in, epd_jsonin_key(v, "hidden_act"), "vision hidden_act",
	    a->rules->act, NULL);
	only(in, epd_jsonin_key(r, "rope_type"), "vision rope type", "axial",
	    "default");
	a->vision.theta = epd_jsonin_real(in, epd_jsonin_key(r, "rope_theta"),
	    "rope_theta", 1e4, 1, 1e12);
	vision_sizes(in, a, v);
	if (in->rc)
		return;
	if (a->rules->family == EPD_QWEN25_VL)
		windows(in, &a->vision, v);
	if (a->rules->family == EPD_QWEN3_VL)
		deepstack(in, a, v);
}

static void
ids(struct epd_jsonin *in, struct epd_arch *a, const struct epd_json *top,
    const struct epd_json *text)
{
	const long last = a->text.vocab - 1;
	long eos[8];
#define GET(key, dflt, lo) (int32_t)epd_jsonin_long(in, \
	epd_jsonin_either(top, text, key), key, dflt, lo, last)

	a->image_id = GET("image_token_id", 151655, 0);
	a->video_id = GET("video_token_id", 151656, 0);
	a->vision_start = GET("vision_start_token_id", 151652, 0);
	a->vision_end = GET("vision_end_token_id", 151653, 0);
	a->pad = GET("pad_token_id", -1, -1);
#undef GET
	a->n_eos = epd_jsonin_list(in, epd_jsonin_either(top, text,
	    "eos_token_id"), "eos_token_id", eos, 8, 0, last);
	for (int i = 0; i < a->n_eos; i++)
		a->eos[i] = (int32_t)eos[i];
}

int
epd_arch_parse(struct epd_arch *out, struct epd_span config,
    struct epd_why *why)
{
	struct epd_jsonin in = { "config.json", why, 0 };
	const struct epd_json *text;
	struct epd_arch a = { 0 };
	struct epd_json *top;
	int rc = epd_json_parse(&top, config, in.what, why);

	if (rc < 0)
		return rc;
	text = epd_jsonin_key(top, "text_config");
	if (!text)
		text = top;
	a.rules = family(&in, top);
	if (epd_jsonin_either(top, text, "quantization_config"))
		epd_jsonin_fail(&in, EPD_EUNSUPPORTED,
		    "quantised weights are not supported");
	if (!in.rc)
		language(&in, &a, text, top);
	if (!in.rc)
		vision(&in, &a, epd_jsonin_key(top, "vision_config"));
	if (!in.rc)
		ids(&in, &a, top, text);
	epd_json_free(top);
	if (!in.rc)
		*out = a;
	return in.rc;
}
