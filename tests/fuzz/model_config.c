/*
 * model_config.c - config.json, the image processor's file or
 * generation_config.json, as the first byte says: taken with every size in
 * range, or refused with a sentence and nothing changed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
config(struct epd_span text, struct epd_why *why)
{
	struct epd_arch a, before;
	const struct epd_text_arch *t = &a.text;
	const struct epd_vision_arch *v = &a.vision;
	int rc;

	memset(&a, 0x5a, sizeof a);
	before = a;
	rc = epd_arch_parse(&a, text, why);
	if (rc < 0) {
		if (memcmp(&a, &before, sizeof a) || !*why->text)
			abort();
		return;
	}
	if (t->hidden < 1 || t->inner < 1 || t->layers < 1 || t->dim < 2 ||
	    t->dim % 2 || t->dim > EPD_DIM_MAX || t->kv_heads < 1 ||
	    t->heads % t->kv_heads || t->vocab < 1 || !(t->eps > 0) ||
	    a.image_id < 0 || a.image_id >= t->vocab || a.n_eos < 0 ||
	    a.n_eos > 8)
		abort();
	for (long i = 0; i < t->dim / 2; i++)
		if (t->axis[i] > 2)
			abort();
	if (v->width != v->heads * v->dim || v->dim % 4 || v->inner < 1 ||
	    v->depth < 1 || v->depth > EPD_DEPTH_MAX || v->merge < 1 ||
	    v->patch < 1 || v->deep < 0 || v->deep > EPD_DEEP_MAX ||
	    v->deep > t->layers || v->window < 0 || v->side < 0)
		abort();
	for (long i = 0; i < v->deep; i++)
		if (v->deep_at[i] >= v->depth)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const struct epd_vision_arch v = { .patch = 14, .merge = 2 };
	struct epd_model_info info = { .vocab = 560, .pad = -1 };
	struct epd_processor proc;
	struct epd_why why = { "" };
	struct epd_span text;
	int rc;

	if (n < 1)
		return 0;
	text = epd_span(p + 1, n - 1);
	switch (p[0] % 3) {
	case 0:
		config(text, &why);
		return 0;
	case 1:
		memset(&proc, 0, sizeof proc);
		rc = epd_processor_parse(&proc, &v, text, &why);
		if (rc == 0 && (proc.patch != 14 || proc.merge != 2 ||
		    proc.min_pixels < 1 || proc.max_pixels < proc.min_pixels ||
		    !(proc.std[1] > 0) ||
		    !memchr(proc.version, 0, sizeof proc.version)))
			abort();
		if (rc < 0 && (proc.patch || !*why.text))
			abort();
		return 0;
	default:
		rc = epd_generation_parse(&info, text, &why);
		if (rc == 0 && (info.n_eos < 0 || info.n_eos > 8 ||
		    info.temp < 0 || info.top_k < 0))
			abort();
	}
	return 0;
}
