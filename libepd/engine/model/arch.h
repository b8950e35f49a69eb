/* arch.h - the sizes and rules a checkpoint's config.json states, checked. */
#ifndef EPD_ENGINE_MODEL_ARCH_H
#define EPD_ENGINE_MODEL_ARCH_H

#include <stdint.h>

#include "base/span.h"
#include "engine/model/model.h"

enum { EPD_DIM_MAX = 256, EPD_DEPTH_MAX = 256, EPD_DEEP_MAX = 16 };

enum epd_act { EPD_QUICK_GELU, EPD_GATED_SILU, EPD_TANH_GELU };

/* What differs between the families beyond sizes. */
struct epd_family_rules {
	enum epd_family family;
	const char *model_type;
	const char *act;	/* of the vision blocks, as configs name it */
	enum epd_act how;
	const char *fc1, *up, *fc2;		/* of a vision block; up NULL */
	const char *merge_norm, *merge1, *merge2;
	int rms;		/* the vision tower has RMSNorm, not LayerNorm */
	int patch_bias;
	int qkv_bias;		/* of the text layers, which then lack qk norm */
	int interleaved;	/* M-RoPE axes alternate */
};

struct epd_text_arch {
	long hidden, inner, layers, heads, kv_heads, dim, vocab, max_position;
	float eps;
	double theta;
	uint8_t axis[EPD_DIM_MAX / 2];	/* t, h or w: what turns pair i */
};

struct epd_vision_arch {
	long width, inner, depth, heads, dim, patch, merge;
	double theta;
	long window;		/* merged cells on a side; 0: none */
	uint8_t full[EPD_DEPTH_MAX];	/* blocks that look past windows */
	float rate;		/* time positions a second of video; 0: none */
	long side;		/* of the square table of positions; 0: none */
	long deep;
	uint8_t deep_at[EPD_DEEP_MAX];	/* block after which layer k is made */
};

struct epd_arch {
	const struct epd_family_rules *rules;
	struct epd_text_arch text;
	struct epd_vision_arch vision;
	int32_t image_id, video_id, vision_start, vision_end, pad;
	int32_t eos[8];
	int n_eos;
};

/*
 * Read config.json.  Fails: EPD_EUNSUPPORTED naming what this engine does not
 * compute, EPD_EFORMAT, -ENOMEM.
 */
int epd_arch_parse(struct epd_arch *a, struct epd_span config,
    struct epd_why *why);

/* Read generation_config.json over what info holds.  Fails: as above. */
int epd_generation_parse(struct epd_model_info *info, struct epd_span text,
    struct epd_why *why);

/*
 * Read preprocessor_config.json or processor_config.json; an empty span leaves
 * the defaults of the image processor's class.  Fails: as above.
 */
int epd_processor_parse(struct epd_processor *p,
    const struct epd_vision_arch *v, struct epd_span text,
    struct epd_why *why);

#endif
