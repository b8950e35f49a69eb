/* decode.h - drawing tokens from states. */
#ifndef EPD_FLOW_DECODE_H
#define EPD_FLOW_DECODE_H

#include <signal.h>

#include "flow/session.h"

struct epd_token_event {
	int which;			/* index of the state in the request */
	uint64_t index;			/* of the token in its sequence */
	int32_t id;
	float logprob;
	const struct epd_sampled *top;	/* the most probable, ntop of them */
	int ntop;
	struct epd_span text;		/* whole characters let out by this token */
};
/* The last word on a state: finish is why, text what was still held. */
struct epd_decode_end {
	int which, rc;			/* rc: 0, or why this one failed (nothing of it kept) */
	enum epd_finish finish;
	uint32_t version;		/* as committed */
	uint64_t tokens, fresh, lost;	/* length now; drawn; pages computed again */
	uint64_t found, computed;	/* before it drew: tokens in pages; computed */
	struct epd_span text;
	struct epd_why why;
};

struct epd_decode {
	const struct epd_ref *states;
	int n;
	int64_t most;			/* tokens to draw a state; < 0: to the end */
	int has_temp, has_top_k, has_top_p, has_penalty;	/* else: the checkpoint's */
	struct epd_sampler sampler;
	int logprobs;			/* of the most probable, 0..20 */
	const char *const *stop;	/* strings */
	int nstop;
	int ignore_eos;
	const volatile sig_atomic_t *interrupt;	/* nonzero: stop after the current token */
	/* nonzero from token interrupts */
	int (*token)(void *arg, const struct epd_token_event *e);
	void (*end)(void *arg, const struct epd_decode_end *e);
	void *arg;
};
/*
 * All states run as one batch.  Each is committed as one new version when it
 * ends.  Returns 0, or the gravest rc of the ends; end is called once a state.
 */
int epd_flow_decode(struct epd_session *s, const struct epd_decode *d,
    struct epd_why *why);

#endif
