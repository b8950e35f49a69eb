/*
 * create.c - create_state: a state from tokens, images and pages that the caller
 * has, nothing computed.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/publish.h"
#include "flow/reuse.h"

static int
check_tokens(const struct epd_session *s, const struct epd_create_state *c,
    struct epd_why *why)
{
	if (!c->nids)
		return epd_why(why, EPD_EFORMAT, "a state of no tokens");
	for (uint32_t i = 0; i < c->nids; i++)
		if (c->ids[i] < 0 || c->ids[i] >= s->info->vocab)
			return epd_why(why, EPD_EFORMAT, "token %u: id %d is "
			    "not in the vocabulary of %ld", i, (int)c->ids[i],
			    s->info->vocab);
	return 0;
}

/* The pages that were given, as the sequence's fresh run. */
static int
take_pages(struct epd_seq *q, const struct epd_create_state *c,
    struct epd_why *why)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens;
	const uint64_t rows = c->npages ? (c->npages - 1u) * t + c->rows : 0;
	int rc;

	if (!c->npages)
		return 0;
	if (!c->rows || c->rows > t || rows >= c->nids)
		return epd_why(why, -EINVAL, "pages that hold %llu tokens of "
		    "%u; all but the last can be held",
		    (unsigned long long)rows, c->nids);
	if ((rc = epd_seq_room(q, rows, why)) < 0)
		return rc;
	epd_run_given(q->fresh);
	q->given = 1;
	for (uint32_t i = 0; i < c->npages; i++)
		memcpy(q->page[i], c->pages[i], q->s->page_bytes);
	epd_page_cut(q->s->model, &q->s->shape, q->page[c->npages - 1],
	    (int)c->rows);
	q->rows = rows;
	return 0;
}

static int
create(struct epd_seq *q, struct epd_workflow *w,
    const struct epd_create_state *c, struct epd_created *out,
    struct epd_why *why)
{
	static const char note[] = "{\"command\": \"create\"}";
	struct epd_version v = {
		.turn = EPD_TURN_IS_RAW,
		.note = { note, sizeof note - 1 },
	};
	int rc = check_tokens(q->s, c, why);

	if (rc == 0)
		rc = epd_seq_extend(q, c->ids, c->nids, c->images, NULL,
		    c->nimages, why);
	if (rc == 0)
		rc = epd_workflow_make(q->s->store, c->workflow, out->workflow,
		    why);
	if (rc == 0)
		rc = epd_workflow_open(w, q->s->store, out->workflow, 0, why);
	if (rc == 0)
		rc = take_pages(q, c, why);
	return rc < 0 ? rc : epd_seq_create(q, c->ttl_ms, &v, &out->state, why);
}

int
epd_flow_create(struct epd_session *s, const struct epd_create_state *c,
    struct epd_created *out, struct epd_why *why)
{
	struct epd_workflow w = { .dirfd = -1, .runs = -1 };
	struct epd_created done = { .state = 0 };
	struct epd_runs *runs;
	struct epd_seq q;
	int rc = epd_runs_new(&runs);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	epd_seq_begin(&q, s, &w, runs);
	rc = create(&q, &w, c, &done, why);
	epd_log(&s->store->log, "op=create_state state=%s/s%u rc=%d tokens=%u "
	    "pages=%u", done.workflow, done.state, rc, c->nids, c->npages);
	epd_seq_free(&q);
	epd_runs_free(runs);
	if (rc < 0 && rc != EPD_EUNSURE && !*c->workflow)
		epd_workflow_unmake(s->store, &w);
	epd_workflow_close(&w);
	if (rc == 0)
		*out = done;
	return rc;
}
