/*
 * sample.h - choosing the next token: repetition penalty, temperature, top-k,
 * top-p, then one draw, in the reference's order.  All sums over the vocabulary
 * go in the sixteen lanes of engine/kern; candidates are ordered by (logit
 * descending, id ascending); the random number is a function of (seed, salt,
 * index), so a token drawn but not recorded is drawn again.
 */
#ifndef EPD_ENGINE_SAMPLE_H
#define EPD_ENGINE_SAMPLE_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "engine/kern/kern.h"

struct epd_sampler {
	float temp;		/* 0: greedy */
	int32_t top_k;		/* 0 or less: off */
	float top_p;		/* 1: off */
	float penalty;		/* repetition penalty; 1: off */
	uint64_t seed;
	uint64_t salt;		/* of the branch */
};

struct epd_sampled {
	int32_t id;
	float logprob;		/* under the softmax of all raw logits */
};

/*
 * logits is [vocab]; only ids below valid may be drawn (padding rows of the
 * vocabulary lie past it).  seen are all ids of the sequence so far.  index is
 * the absolute index of the token to be drawn.  work is 3 * vocab floats.
 * top gets the n most probable ids with their log-probabilities, n may be 0;
 * id -1 where there are fewer.  -inf among the logits is an id removed.
 * Ties at the k-th place go to the lower ids: exactly top_k stay.
 * Fails: EPD_ENUMERIC (a NaN or +inf among the logits, or nothing to draw),
 * EPD_EUSAGE (temp below 0, penalty not above 0, no valid id).
 */
int epd_sample(const struct epd_kern *kern, const struct epd_sampler *s,
    const float *logits, long vocab, long valid, const int32_t *seen,
    long nseen, uint64_t index, float *work, struct epd_sampled *out,
    struct epd_sampled *top, int n);

/*
 * The distribution epd_sample draws from, dense over the vocabulary: removed
 * ids are 0.  Greedy gives one 1.
 */
int epd_sample_probs(const struct epd_kern *kern, const struct epd_sampler *s,
    const float *logits, long vocab, long valid, const int32_t *seen,
    long nseen, float *work, float *probs);

/*
 * Uniform in [0, 1) with 24 bits: a counter-based generator (Philox 4x32-10,
 * Salmon et al. 2011).
 */
float epd_sample_uniform(uint64_t seed, uint64_t salt, uint64_t index);

/*
 * Stop strings in a stream of text.  Feed text; *out gets what may be shown:
 * all that cannot be the beginning of a stop string.  Returns 1 once one has
 * been met (it and what follows are not shown), else 0, or -ENOMEM.  The one
 * that ends first counts, however the text is cut; empty ones never do.
 * Zero held to begin.
 */
struct epd_stop {
	const char *const *strings;
	int n;
	struct epd_buf held;
};
int epd_stop_put(struct epd_stop *s, struct epd_span text, struct epd_buf *out);
void epd_stop_end(struct epd_stop *s, struct epd_buf *out);	/* what is held */
void epd_stop_free(struct epd_stop *s);

#endif
