/*
 * publish.h - what a sequence has computed goes out: a run that others see, and the
 * record that names it.  Not for outsiders.
 */
#ifndef EPD_FLOW_PUBLISH_H
#define EPD_FLOW_PUBLISH_H

#include "flow/seq.h"

/*
 * Publish the fresh pages and link those taken up, and describe them in v: run,
 * links (the sequence's), first_page, npages.  Owns: *entries is the caller's.
 */
int epd_seq_publish(struct epd_seq *q, struct epd_version *v,
    struct epd_page_entry **entries, struct epd_why *why);
/*
 * Publish the fresh pages under a run they had before, if they are what the log has
 * of it: n from page first on.  1: the bytes are others; EPD_ECORRUPT: the tokens.
 */
int epd_seq_republish(struct epd_seq *q, uint64_t run, long first, long n,
    const struct epd_page_entry *want, struct epd_why *why);

/*
 * Publish, and advance the state from version expect by what the sequence has
 * beyond its first `had` tokens and `images` images.  v comes with turn, finish,
 * sampling, logprobs and note.  A lease that is held ends with it.  The runs are
 * freed again on failure, and if key says that this was done before.
 */
struct epd_step {
	uint32_t state, expect;
	uint64_t key, lease;		/* 0: none */
	uint64_t had;
	uint32_t images;
};
int epd_seq_advance(struct epd_seq *q, const struct epd_step *step,
    struct epd_version *v, uint32_t *version, struct epd_why *why);

/* Publish, and create a state of all the sequence has; v comes as above. */
int epd_seq_create(struct epd_seq *q, uint64_t ttl_ms, struct epd_version *v,
    uint32_t *state, struct epd_why *why);

#endif
