/*
 * model.h - a checkpoint of the Qwen-VL families in Hugging Face layout, mapped
 * and used in place, and the two computations on it.
 * Sources: transformers 5.24 modeling_qwen2_vl, _qwen2_5_vl, _qwen3_vl.
 */
#ifndef EPD_ENGINE_MODEL_H
#define EPD_ENGINE_MODEL_H

#include <stdint.h>

#include "base/err.h"
#include "engine/image/image.h"
#include "engine/kern/kern.h"

enum epd_family { EPD_QWEN2_VL, EPD_QWEN25_VL, EPD_QWEN3_VL };

struct epd_model;

struct epd_model_info {
	enum epd_family family;
	const char *model_type;		/* "qwen2_vl", ... */
	long hidden, layers, heads, kv_heads, head_dim, vocab, max_position;
	long deepstack;			/* feature layers beside the main one */
	struct epd_processor processor;
	int32_t image_id, video_id, vision_start, vision_end, pad;
	int32_t eos[8];
	int n_eos;
	/* generation_config.json; temp 0 when it says do_sample false or is absent */
	float temp, top_p, penalty;
	int32_t top_k;
};

/*
 * Open the checkpoint directory dir: config.json, safetensors (one file or an
 * index of shards), generation_config.json, the processor's file.  Every
 * tensor the family needs must be there in the right shape, bf16, f16 or f32.
 * Fails: EPD_EUNSUPPORTED with what (sliding window, quantised weights, another
 * family), EPD_EFORMAT, -errno.  Owns: the caller owns *out, which may be
 * shared by threads and engines.
 */
int epd_model_open(struct epd_model **out, const char *dir,
    struct epd_why *why);
void epd_model_close(struct epd_model *m);
const struct epd_model_info *epd_model_info(const struct epd_model *m);
/* The directory's descriptor and absolute path, the model's to close and free. */
int epd_model_dirfd(const struct epd_model *m);
const char *epd_model_path(const struct epd_model *m);
/* Weight file i (sorted by name) for hashing: its bytes as mapped; n 0 past the last. */
struct epd_span epd_model_file(const struct epd_model *m, int i,
    const char **name);

/*
 * An image or video in a sequence: grid is (t, h, w) in patches, before merging.
 * Qwen3-VL takes a video as one anchor of t = 1 for each pair of frames.
 */
struct epd_anchor {
	long at;		/* index of its first token */
	int32_t t, h, w;
	float seconds;		/* of video a step of t stands for; 0: 1 */
};
/* Tokens an image takes: t*h*w / merge^2. */
long epd_anchor_tokens(const struct epd_model *m, const struct epd_anchor *a);

/*
 * M-RoPE positions (t, h, w) of tokens [from, from + n) of a sequence with
 * these anchors, ascending.  Returns the position the token after them has on
 * all axes if it is text (after the whole anchor, if they end within one); that
 * less its index is rope_delta.  Text after a video goes on past its height
 * and width only, as transformers 5.24 has it, whatever time it took.
 */
long epd_positions(const struct epd_model *m, const struct epd_anchor *anchors,
    int nanchors, long from, long n, int32_t (*pos)[3]);

struct epd_engine;

/*
 * Threads and working memory for a model.  threads 0: one a core.  isa NULL:
 * the best; else scalar, avx2, avx512.  One caller at a time.
 * Fails: EPD_EUNSUPPORTED (isa this machine lacks), EPD_EUSAGE (isa is none),
 * -ENOMEM.
 */
int epd_engine_new(struct epd_engine **out, const struct epd_model *m,
    int threads, const char *isa, struct epd_why *why);
void epd_engine_free(struct epd_engine *e);
const struct epd_kern *epd_engine_kern(const struct epd_engine *e);
const struct epd_model *epd_engine_model(const struct epd_engine *e);

/*
 * Encode n frames (1: a still image) already resized to a fitting size.  rows
 * is f32 [1 + deepstack][tokens][hidden]: the merger's output, then deepstack's.
 * Fails: -ENOMEM, EPD_ENUMERIC, EPD_EFORMAT (another size, or sizes that
 * differ), EPD_ETOOBIG (over 2^24 patches).
 */
int epd_encode(struct epd_engine *e, const struct epd_image *frames, int n,
    enum epd_resampler how, float *rows, struct epd_why *why);

#endif
