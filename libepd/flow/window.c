/* window.c - opening and keeping a window at a peer's. */
#include <errno.h>

#include "base/alloc.h"
#include "flow/window.h"

enum { OTHERS = 8 };

int
epd_window_ask(struct epd_link *l, enum epd_ask verb,
    const struct epd_buf *question, uint64_t *number, uint64_t *others,
    uint32_t more, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf answer = {0};
	uint64_t v, other[OTHERS];
	struct epd_cur c;
	int rc;

	if (question->failed || more > OTHERS)
		return epd_why(why, -ENOMEM, "no memory");
	rc = epd_link_ops(l)->call(l, (uint16_t)verb, epd_span(question->p,
	    question->n), &answer, deadline_ns, why);
	if (rc == 0) {
		c = epd_cur(epd_span(answer.p, answer.n));
		v = epd_unpack_u64(&c);
		for (uint32_t i = 0; i < more; i++)
			other[i] = epd_unpack_u64(&c);
		if (c.failed)
			rc = epd_ask_no_answer(why);
		for (uint32_t i = 0; rc == 0 && i < more; i++)
			others[i] = other[i];
		if (rc == 0)
			*number = v;
	}
	epd_buf_free(&answer);
	return rc;
}

int
epd_window_open(struct epd_node *n, enum epd_backend b, enum epd_ask verb,
    const struct epd_buf *question, struct epd_passage *out, uint64_t *others,
    uint32_t more, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_passage p = { .window = 0 };
	int rc = epd_node_link(n, b, &p.link, deadline_ns, why);

	if (rc == 0)
		rc = epd_window_ask(p.link, verb, question, &p.window, others,
		    more, deadline_ns, why);
	if (rc == 0)
		*out = p;
	else
		epd_node_failed(n, b, rc);
	return rc;
}

int
epd_window_keep(const struct epd_passage *p, enum epd_ask verb,
    uint64_t *number, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf b = {0};
	int rc;

	epd_pack_u64(&b, p->window);
	rc = epd_window_ask(p->link, verb, &b, number, NULL, 0, deadline_ns,
	    why);
	epd_buf_free(&b);
	return rc;
}
