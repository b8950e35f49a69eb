/* session.c - a model, named by everything that can change what it computes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cut.h"
#include "base/json.h"
#include "flow/seq.h"

static void
name_parts(struct epd_session *s)
{
	const struct epd_config *c = &s->store->config;
	const struct epd_processor *p = &s->info->processor;
	struct epd_namer n;
	int pil = !strcmp(c->resampler, "pil");

	s->resampler = pil ? EPD_PIL : EPD_FAST;
	s->feature_type = strcmp(c->feature_dtype, "bf16") ? EPD_F32 : EPD_BF16;
	s->shape.type = strcmp(c->kv_dtype, "bf16") ? EPD_F32 : EPD_BF16;
	s->shape.tokens = (int)c->page_tokens;
	s->page_bytes = epd_page_bytes(s->model, &s->shape);
	s->parts = (struct epd_model_parts){
		.tenant = s->store->tenant,
		.snapshot = s->snapshot,
		.family = s->info->model_type,
		.numeric = EPD_NUMERIC,
		.processor = p->version,
		.dtype = c->feature_dtype,
		.quantisation = "none",
		.adapter = c->adapter,
		.resampler = c->resampler,
		.exif = c->exif ? "applied" : "ignored",
		.alpha = c->alpha,
		.arithmetic = EPD_ARITHMETIC,
		.merge = (uint32_t)p->merge,
		.patch = (uint32_t)p->patch,
		.temporal = (uint32_t)p->temporal,
		.min_pixels = p->min_pixels,
		.max_pixels = p->max_pixels,
	};
	memcpy(s->parts.mean, p->mean, sizeof p->mean);
	memcpy(s->parts.std, p->std, sizeof p->std);
	epd_model_fingerprint(&s->feature_model, &s->parts);

	/* Keys and values depend on images through their own fingerprints. */
	epd_namer_begin(&n, "epd state model");
	epd_namer_u64(&n, EPD_ARITHMETIC);
	epd_namer_str(&n, EPD_NUMERIC);
	epd_namer_str(&n, s->parts.tenant);
	epd_namer_str(&n, s->snapshot);
	epd_namer_str(&n, s->parts.family);
	epd_namer_str(&n, s->parts.quantisation);
	epd_namer_str(&n, s->parts.adapter);
	epd_namer_end(&n, &s->model_fp);
}

static int
open_tokens(struct epd_session *s, struct epd_why *why)
{
	struct epd_namer n;
	struct epd_name name;
	char file[48], hex[33];

	epd_namer_begin(&n, "epd tokenizer of");
	epd_namer_str(&n, epd_model_path(s->model));
	epd_namer_end(&n, &name);
	epd_hex_format(hex, name.b, 16);
	snprintf(file, sizeof file, "tokenizer-%s", hex);
	return epd_tokenizer_open_cached(&s->tokens, epd_model_dirfd(s->model),
	    s->store->cache, file, why);
}

/* The checkpoint's own files; what is wrong with one names the folder too. */
static int
open_model(struct epd_session *s, const char *path, struct epd_why *why)
{
	struct epd_why inner = { "" };
	int rc = epd_model_open(&s->model, path, &inner);

	if (rc == 0) {
		s->info = epd_model_info(s->model);
		rc = open_tokens(s, &inner);
	}
	if (rc == 0)
		rc = epd_chat_template(&s->template, s->template_hash,
		    epd_model_dirfd(s->model), &inner);
	if (rc < 0 && strncmp(inner.text, path, strlen(path)))
		return epd_why(why, rc, "%s: %s", path, *inner.text ?
		    inner.text : epd_strerror(rc));
	return rc < 0 ? epd_why(why, rc, "%s", inner.text) : 0;
}

int
epd_session_open(struct epd_session **out, struct epd_store *store,
    const struct epd_session_options *o, struct epd_why *why)
{
	struct epd_session *s = epd_calloc(1, sizeof *s);
	int rc;

	if (!s)
		return epd_why(why, -ENOMEM, "%s", epd_strerror(-ENOMEM));
	s->store = store;
	s->cuts = epd_cut_count();
	s->threads = o->threads ? o->threads : (int)store->config.threads;
	if (o->isa && !(s->isa = epd_strdup(o->isa))) {
		rc = -ENOMEM;
		goto fail;
	}
	if ((rc = open_model(s, o->model, why)) < 0 ||
	    (rc = epd_weights_snapshot(store, s->model, s->snapshot, why)) < 0)
		goto fail;
	if (store->config.page_tokens != 16 && store->config.page_tokens != 64) {
		rc = epd_why(why, EPD_EUSAGE, "page.tokens is 16 or 64, not "
		    "%lld", (long long)store->config.page_tokens);
		goto fail;
	}
	if (epd_tokenizer_size(s->tokens) > s->info->vocab) {
		rc = epd_why(why, EPD_EUNSUPPORTED, "%s: the tokenizer has %ld "
		    "ids, the vocabulary %ld rows", o->model,
		    epd_tokenizer_size(s->tokens), s->info->vocab);
		goto fail;
	}
	name_parts(s);
	*out = s;
	return 0;
fail:
	epd_session_close(s);
	if (why && !*why->text)
		epd_why(why, rc, "%s: %s", o->model, epd_strerror(rc));
	return rc;
}

int
epd_session_engine(struct epd_session *s, struct epd_why *why)
{
	if (s->engine)
		return 0;
	return epd_engine_new(&s->engine, s->model, s->threads, s->isa, why);
}

int
epd_session_whole(const struct epd_session *s, struct epd_why *why)
{
	return epd_cut_count() == s->cuts ? 0 : epd_why(why, EPD_ECORRUPT,
	    "a file was cut short by somebody while it was in use");
}

int
epd_session_forward(struct epd_session *s, struct epd_chunk *c, int n,
    struct epd_why *why)
{
	int rc = epd_forward(s->engine, &s->shape, c, n, why);

	s->forwards++;
	return rc < 0 ? rc : epd_session_whole(s, why);
}

void
epd_session_close(struct epd_session *s)
{
	if (!s)
		return;
	epd_engine_free(s->engine);
	epd_tokenizer_close(s->tokens);
	epd_model_close(s->model);
	epd_free(s->isa);
	epd_free(s);
}

void
epd_session_base(const struct epd_session *s, struct epd_name *out)
{
	struct epd_run_shape shape;

	epd_seq_shape(s, &shape);
	epd_page_base(out, EPD_ARITHMETIC, EPD_NUMERIC, &s->model_fp, &shape);
}

int
epd_session_fingerprint(const struct epd_session *s, struct epd_buf *out)
{
	const struct epd_model_parts *p = &s->parts;
	struct epd_jw w = { .out = out };
	uint8_t tokens[32];

	epd_tokenizer_name(s->tokens, tokens);
	epd_jw_begin(&w, NULL, '{');
	epd_jw_str(&w, "tenant", p->tenant);
	epd_jw_str(&w, "snapshot", p->snapshot);
	epd_jw_str(&w, "family", p->family);
	epd_jw_str(&w, "numeric", p->numeric);
	epd_jw_uint(&w, "arithmetic", p->arithmetic);
	epd_jw_str(&w, "processor", p->processor);
	epd_jw_str(&w, "kv_dtype", s->store->config.kv_dtype);
	epd_jw_int(&w, "page_tokens", s->shape.tokens);
	epd_jw_str(&w, "feature_dtype", p->dtype);
	epd_jw_str(&w, "quantisation", p->quantisation);
	epd_jw_str(&w, "adapter", p->adapter);
	epd_jw_str(&w, "resampler", p->resampler);
	epd_jw_str(&w, "exif", p->exif);
	epd_jw_str(&w, "alpha", p->alpha);
	epd_jw_uint(&w, "merge", p->merge);
	epd_jw_uint(&w, "patch", p->patch);
	epd_jw_uint(&w, "temporal", p->temporal);
	epd_jw_int(&w, "min_pixels", p->min_pixels);
	epd_jw_int(&w, "max_pixels", p->max_pixels);
	epd_jw_begin(&w, "mean", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_real(&w, NULL, (double)p->mean[i]);
	epd_jw_end(&w, ']');
	epd_jw_begin(&w, "std", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_real(&w, NULL, (double)p->std[i]);
	epd_jw_end(&w, ']');
	epd_jw_hex(&w, "feature_model", s->feature_model.b, EPD_NAME);
	epd_jw_hex(&w, "tokenizer", tokens, sizeof tokens);
	epd_jw_hex(&w, "template", s->template_hash, sizeof s->template_hash);
	epd_jw_end(&w, '}');
	return out->failed ? -ENOMEM : 0;
}
