/* model_open.c - what a checkpoint says of itself, and what is refused. */
#include <errno.h>

#include "engine/engine.h"
#include "engine/model/weights.h"
#include "tests/unit/model_dir.h"

static struct epd_model *
golden(const char *name)
{
	struct epd_model *m = NULL;
	struct epd_why why = { "" };
	char path[200];

	snprintf(path, sizeof path, GOLDEN "checkpoints/%s", name);
	if (epd_model_open(&m, path, &why) < 0)
		golden_die(name, why.text);
	return m;
}

TEST(info)
{
	struct epd_model *m = golden("qwen2vl-tiny");
	const struct epd_model_info *i = epd_model_info(m);
	const char *name;

	CHECK_INT(i->family, EPD_QWEN2_VL);
	CHECK_STR(i->model_type, "qwen2_vl");
	CHECK_INT(i->hidden, 64);
	CHECK_INT(i->layers, 3);
	CHECK_INT(i->heads, 4);
	CHECK_INT(i->kv_heads, 2);
	CHECK_INT(i->head_dim, 16);
	CHECK_INT(i->vocab, 560);
	CHECK_INT(i->max_position, 32768);
	CHECK_INT(i->deepstack, 0);
	CHECK_INT(i->image_id, 524);
	CHECK_INT(i->video_id, 525);
	CHECK_INT(i->vision_start, 521);
	CHECK_INT(i->vision_end, 522);
	CHECK_INT(i->pad, 512);
	CHECK_INT(i->n_eos, 2);
	CHECK_INT(i->eos[0], 514);
	CHECK_INT(i->eos[1], 512);
	CHECK(i->temp == 0.01f && i->top_p == 0.001f && i->penalty == 1);
	CHECK_INT(i->top_k, 1);
	CHECK_STR(i->processor.version, "Qwen2VLImageProcessor");
	CHECK_INT(i->processor.patch, 14);
	CHECK_INT(i->processor.min_pixels, 3136);
	CHECK_INT(i->processor.max_pixels, 15680);
	CHECK(i->processor.std[2] == 0.27577711f);
	CHECK(epd_model_path(m)[0] == '/');
	CHECK(epd_model_dirfd(m) >= 0);
	CHECK_INT(epd_model_file(m, 0, &name).n, 684024);
	CHECK_STR(name, "model.safetensors");
	CHECK_INT(epd_model_file(m, 1, &name).n, 0);
	epd_model_close(m);

	m = golden("qwen25vl-newsave-tiny");
	i = epd_model_info(m);
	CHECK_INT(i->family, EPD_QWEN25_VL);
	CHECK_INT(i->kv_heads, 1);
	CHECK_INT(i->processor.max_pixels, 15680);
	CHECK(i->penalty == 1.05f);
	epd_model_close(m);

	m = golden("qwen25vl-tiny");
	epd_model_file(m, 1, &name);
	CHECK_STR(name, "model-00002-of-00002.safetensors");
	epd_model_close(m);

	m = golden("qwen3vl-tiny");
	i = epd_model_info(m);
	CHECK_INT(i->family, EPD_QWEN3_VL);
	CHECK_INT(i->deepstack, 2);
	CHECK_INT(i->head_dim, 32);
	CHECK_INT(i->processor.min_pixels, 4096);
	epd_model_close(m);
}

struct change {
	const char *was, *is;
	int rc;
	const char *says;
};

static void
refused(const char *checkpoint, const struct change *c, size_t n)
{
	struct dir d = dir_new();
	struct epd_model *m = NULL;

	dir_link(&d, checkpoint, "model.safetensors");
	for (size_t i = 0; i < n; i++) {
		struct epd_why why = { "" };
		int rc;

		dir_config(&d, checkpoint, c[i].was, c[i].is);
		rc = epd_model_open(&m, d.path, &why);
		if (rc != c[i].rc || !strstr(why.text, c[i].says))
			CHECK_FAIL("%s for %s: %d %s", c[i].is, c[i].was, rc,
			    why.text);
		epd_model_close(rc == 0 ? m : NULL);
	}
	dir_free(&d);
}

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define NO EPD_EUNSUPPORTED
#define BAD EPD_EFORMAT

TEST(refused_by_name)
{
	static const struct change q2[] = {
		{ "\"silu\"", "\"silu\"", 0, "" },
		{ "\"qwen2_vl\"", "\"qwen2_vl\",\"extra\":{}", 0, "" },
		{ "\"qwen2_vl\"", "\"qwen3_5\"", NO, "model_type qwen3_5" },
		{ "\"qwen2_vl\"", "\"qwen3_vl_moe\"", NO, "qwen3_vl_moe" },
		{ "\"qwen2_vl\"", "7", BAD, "model_type is missing" },
		{ "\"use_sliding_window\": false",
		    "\"use_sliding_window\": true", NO, "sliding window" },
		{ "\"use_cache\": true", "\"layer_types\":[\"full_attention\","
		    "\"sliding_attention\"]", NO, "sliding_attention" },
		{ "\"use_cache\": true",
		    "\"quantization_config\":{\"bits\":4}", NO, "quantised" },
		{ "\"use_cache\": true", "\"quantization_config\":null", 0,
		    "" },
		{ "\"type\": \"mrope\"", "\"type\": \"yarn\"", NO,
		    "rope type yarn" },
		{ "\"type\": \"mrope\"", "\"type\":\"default\"", 0, "" },
		{ "\"type\": \"mrope\"", "\"rope_type\":\"dynamic\"", NO,
		    "rope type dynamic" },
		{ "\"type\": \"mrope\"", "\"mrope_interleaved\":true", NO,
		    "mrope_interleaved" },
		{ "\"type\": \"mrope\"", "\"partial_rotary_factor\":0.25",
		    NO, "partial_rotary_factor" },
		{ "\"silu\"", "\"gelu\"", NO, "hidden_act gelu" },
		{ "\"embed_dim\"", "\"hidden_act\":\"silu\",\"embed_dim\"",
		    NO, "vision hidden_act silu" },
		{ "\"temporal_patch_size\": 2", "\"temporal_patch_size\": 4",
		    NO, "2 frames" },
	};
	static const struct change q3[] = {
		{ "\"attention_bias\": false", "\"attention_bias\": true",
		    NO, "attention_bias" },
		{ "\"mrope_interleaved\": true",
		    "\"mrope_interleaved\": false", NO, "mrope_interleaved" },
		{ "\"gelu_pytorch_tanh\"", "\"gelu\"", NO, "hidden_act gelu" },
	};

	refused("qwen2vl-tiny", q2, COUNT(q2));
	refused("qwen3vl-tiny", q3, COUNT(q3));
}

TEST(refused_as_wrong)
{
	static const struct change q2[] = {
		{ "{", "[", BAD, "config.json" },
		{ "\"hidden_size\": 64", "\"x\": 1", BAD, "hidden_size" },
		{ "\"hidden_size\": 64", "\"hidden_size\": -64", BAD,
		    "hidden_size" },
		{ "\"hidden_size\": 64", "\"hidden_size\": 1e2", BAD,
		    "not an integer" },
		{ "\"hidden_size\": 64", "\"hidden_size\": "
		    "99999999999999999999", BAD, "hidden_size" },
		{ "\"hidden_size\": 64", "\"hidden_size\": 128", BAD,
		    "mrope_section" },
		{ "\"num_attention_heads\": 4", "\"num_attention_heads\": 3",
		    BAD, "heads" },
		{ "\"num_attention_heads\": 4", "\"num_attention_heads\": 0",
		    BAD, "num_attention_heads" },
		{ "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 0",
		    BAD, "num_key_value_heads" },
		{ "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", BAD,
		    "model.layers.3.input_layernorm.weight is missing" },
		{ "\"num_hidden_layers\": 3",
		    "\"num_hidden_layers\": 1000000000", BAD,
		    "num_hidden_layers" },
		{ "\"vocab_size\": 560", "\"vocab_size\": 561", BAD,
		    "model.embed_tokens.weight has not the shape" },
		{ "\"vocab_size\": 560", "\"vocab_size\": 524", BAD,
		    "image_token_id" },
		/* Defaults are no better than what a file says. */
		{ "\"image_token_id\"", "\"x\"", BAD, "image_token_id" },
		{ "\"hidden_size\": 64", "\"hidden_size\": 2", BAD,
		    "head_dim" },
		{ "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0", BAD,
		    "rms_norm_eps" },
		{ "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": \"x\"", BAD,
		    "not a number" },
		{ "1000000.0", "-1", BAD, "rope_theta" },
		{ "1000000.0", "1e999", BAD, "rope_theta" },
		{ "\"mrope_section\": [", "\"mrope_section\": [1,", BAD,
		    "mrope_section" },
		{ "\"mrope_section\"", "\"section\"", BAD, "mrope_section" },
		{ "\"num_heads\": 3", "\"num_heads\": 5", BAD,
		    "vision width" },
		{ "\"depth\": 3", "\"depth\": 4", BAD,
		    "visual.blocks.3.norm1.weight is missing" },
		{ "\"depth\": 3", "\"depth\": 257", BAD, "depth" },
		{ "\"vision_config\"", "\"vision\"", BAD, "vision_config" },
		{ "\"patch_size\": 14", "\"patch_size\": 16", BAD,
		    "patch_embed" },
		{ "\"eos_token_id\": 514", "\"eos_token_id\": [514,1e3]", BAD,
		    "eos_token_id" },
	};
	static const struct change q3[] = {
		{ "\"deepstack_visual_indexes\": [",
		    "\"deepstack_visual_indexes\": [2,", BAD, "ascend" },
		{ "\"deepstack_visual_indexes\": [",
		    "\"deepstack_visual_indexes\": [-1,", BAD,
		    "deepstack_visual_indexes" },
		{ "\"num_position_embeddings\": 64",
		    "\"num_position_embeddings\": 63", BAD, "square" },
		{ "\"num_position_embeddings\": 64",
		    "\"num_position_embeddings\": 81", BAD, "pos_embed" },
		{ "\"rope_theta\": 5000000.0", "\"x\": 1", BAD, "rope_theta" },
		{ "\"head_dim\": 32", "\"head_dim\": 257", BAD, "head_dim" },
		{ "\"head_dim\": 32", "\"head_dim\": 31", BAD, "heads of 31" },
	};
	static const struct change q25[] = {
		{ "\"window_size\": 112", "\"window_size\": 27", BAD,
		    "window_size" },
		{ "\"fullatt_block_indexes\": [",
		    "\"fullatt_block_indexes\": [[],", BAD,
		    "fullatt_block_indexes" },
	};

	refused("qwen2vl-tiny", q2, COUNT(q2));
	refused("qwen3vl-tiny", q3, COUNT(q3));
	refused("qwen25vl-newsave-tiny", q25, COUNT(q25));
}

/* Every prefix of a config is refused and none of them hurts. */
TEST(cut_config)
{
	struct epd_buf b = golden_read(GOLDEN
	    "checkpoints/qwen3vl-tiny/config.json");
	struct epd_arch a;

	CHECK_INT(epd_arch_parse(&a, epd_span(b.p, b.n), NULL), 0);
	while (b.n > 0 && b.p[b.n - 1] != '}')
		b.n--;
	for (size_t n = 0; n < b.n; n++)
		CHECK_INT(epd_arch_parse(&a, epd_span(b.p, n), NULL),
		    EPD_EFORMAT);
	epd_buf_free(&b);
}

static int
processor(struct epd_processor *p, const char *text, struct epd_why *why)
{
	const struct epd_vision_arch v = { .patch = 14, .merge = 2 };

	return epd_processor_parse(p, &v, epd_span_str(text), why);
}

TEST(processors)
{
	static const struct change bad[] = {
		{ "{\"patch_size\":16}", NULL, BAD, "config.json" },
		{ "{\"temporal_patch_size\":1}", NULL, BAD, "config.json" },
		{ "{\"do_resize\":false}", NULL, NO, "do_resize" },
		{ "{\"do_normalize\":false}", NULL, NO, "do_normalize" },
		{ "{\"rescale_factor\":1}", NULL, NO, "rescale_factor" },
		{ "{\"resample\":2}", NULL, NO, "bicubic" },
		{ "{\"image_std\":[1,0,1]}", NULL, BAD, "image_std" },
		{ "{\"image_mean\":[1,0]}", NULL, BAD, "image_mean" },
		{ "{\"image_mean\":[1,null,0]}", NULL, BAD, "image_mean" },
		{ "{\"min_pixels\":9,\"max_pixels\":8}", NULL, BAD, "pixels" },
		{ "{\"min_pixels\":0}", NULL, BAD, "shortest_edge" },
		{ "{\"size\":{\"longest_edge\":\"x\"}}", NULL, BAD,
		    "longest_edge" },
		{ "[", NULL, BAD, "image processor" },
	};
	struct epd_processor p = { .patch = 77 };

	CHECK_INT(processor(&p, "", NULL), 0);
	CHECK_INT(p.patch, 14);
	CHECK_INT(p.min_pixels, 3136);
	CHECK_INT(p.max_pixels, 1003520);
	CHECK_STR(p.version, "Qwen2VLImageProcessor");
	CHECK_INT(processor(&p, "{\"size\":{\"shortest_edge\":5,"
	    "\"longest_edge\":6}}", NULL), 0);
	CHECK(p.min_pixels == 5 && p.max_pixels == 6);
	/* Files of 2024 have both, and the outer ones count. */
	CHECK_INT(processor(&p, "{\"min_pixels\":7,\"max_pixels\":8,"
	    "\"size\":{\"shortest_edge\":5,\"longest_edge\":6}}", NULL), 0);
	CHECK(p.min_pixels == 7 && p.max_pixels == 8);
	CHECK_INT(processor(&p, "{\"size\":{\"min_pixels\":7,"
	    "\"max_pixels\":9}}", NULL), 0);
	CHECK(p.min_pixels == 7 && p.max_pixels == 9);
	CHECK_INT(processor(&p, "{\"image_processor\":{\"image_mean\":"
	    "[0.5,0.25,0]},\"image_mean\":1}", NULL), 0);
	CHECK(p.mean[1] == 0.25f);
	p.patch = 77;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct epd_why why = { "" };
		int rc = processor(&p, bad[i].was, &why);

		if (rc != bad[i].rc || !strstr(why.text, bad[i].says))
			CHECK_FAIL("%s: %d %s", bad[i].was, rc, why.text);
	}
	CHECK_INT(p.patch, 77);
}

TEST(generation)
{
	struct epd_model_info i = { .vocab = 100, .pad = -1 };

	CHECK_INT(epd_generation_parse(&i, epd_span_str("{}"), NULL), 0);
	CHECK(i.temp == 0);
	CHECK_INT(epd_generation_parse(&i, epd_span_str("{\"do_sample\":false,"
	    "\"temperature\":0.7,\"eos_token_id\":4}"), NULL), 0);
	CHECK(i.temp == 0 && i.n_eos == 1 && i.eos[0] == 4);
	CHECK_INT(epd_generation_parse(&i, epd_span_str("{\"do_sample\":true,"
	    "\"top_p\":0.5,\"eos_token_id\":[1,2,3]}"), NULL), 0);
	CHECK(i.temp == 1 && i.top_p == 0.5f && i.top_k == 50);
	CHECK_INT(i.n_eos, 3);
	CHECK_INT(epd_generation_parse(&i, epd_span_str("{\"eos_token_id\":"
	    "100}"), NULL), EPD_EFORMAT);
	CHECK_INT(epd_generation_parse(&i, epd_span_str("{\"eos_token_id\":"
	    "[1,1,1,1,1,1,1,1,1]}"), NULL), EPD_EFORMAT);
	CHECK_INT(epd_generation_parse(&i, epd_span_str("{\"do_sample\":true,"
	    "\"temperature\":-1}"), NULL), EPD_EFORMAT);
}

TEST(no_directory)
{
	struct epd_model *m = NULL;
	struct epd_why why = { "" };
	struct dir d = dir_new();

	CHECK_INT(epd_model_open(&m, "/no/such/place", &why), -ENOENT);
	CHECK(strstr(why.text, "/no/such/place"));
	CHECK_INT(epd_model_open(&m, d.path, &why), -ENOENT);
	CHECK(strstr(why.text, "config.json"));
	CHECK(!m);
	epd_model_close(NULL);
	dir_free(&d);
}

/* A tensor of another type, and a quantised one. */
TEST(types)
{
	struct epd_buf b = golden_read(GOLDEN
	    "checkpoints/qwen2vl-tiny/model.safetensors");
	static const char name[] = "\"model.norm.weight\":{\"dtype\":\"BF16\"";
	char *at = memmem(b.p, b.n, name, sizeof name - 1);
	struct dir d = dir_new();
	struct epd_model *m = NULL;
	struct epd_why why = { "" };

	CHECK(at);
	memcpy(strstr(at, "BF16"), "I16\" ", 5);
	dir_put(&d, "model.safetensors", b.p, b.n);
	dir_config(&d, "qwen2vl-tiny", "{", "{");
	CHECK_INT(epd_model_open(&m, d.path, &why), EPD_EUNSUPPORTED);
	CHECK(strstr(why.text, "model.norm.weight is I16"));
	epd_buf_free(&b);
	dir_free(&d);
}

/* All half floats, by their definition. */
TEST(widens)
{
	for (unsigned h = 0; h < 0x10000; h++) {
		unsigned e = h >> 10 & 31, frac = h & 0x3ff;
		uint16_t in = (uint16_t)h;
		double want = e ? 1 + frac / 1024.0 : frac / 1024.0;
		uint32_t u;
		float x;

		epd_widen(&x, EPD_F16, &in, 1);
		memcpy(&u, &x, 4);
		if (e == 31) {
			CHECK_INT(u, (h & 0x8000) << 16 | 0x7f800000 |
			    frac << 13);
			continue;
		}
		for (int k = e ? (int)e : 1; k < 15; k++)
			want /= 2;
		for (int k = 15; k < (int)e; k++)
			want *= 2;
		CHECK(x == (float)(h & 0x8000 ? -want : want));
		CHECK_INT(u >> 31, h >> 15);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
