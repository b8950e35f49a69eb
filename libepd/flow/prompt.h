/* prompt.h - a prefill request as tokens and images; not for outsiders. */
#ifndef EPD_FLOW_PROMPT_H
#define EPD_FLOW_PROMPT_H

#include "flow/inner.h"

struct epd_request {
	struct epd_ids ids;
	struct epd_request_rows rows;	/* at is relative to ids */
	int nimages;
	enum epd_turn_state turn;	/* as it leaves the state */
};

/*
 * Render, resolve and encode the images, tokenize.  head is the version it goes
 * onto, which has so many images already, or NULL.
 * Fails: EPD_EUSAGE, and as epd_flow_prefill.
 * Owns: the caller frees out's contents.
 */
int epd_request_make(struct epd_request *out, struct epd_session *s,
    const struct epd_prefill *p, const struct epd_version *head, uint32_t had,
    struct epd_why *why);
void epd_request_free(struct epd_request *r);

#endif
