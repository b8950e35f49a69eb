/* touch.c - one page had again, by who only looks at it. */
#include <errno.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/rest.h"
#include "flow/runs.h"
#include "flow/tiers.h"
#include "page/page.h"

/* The lot that has the kth page of v; its entries begin at *e, the caller's. */
static int
find(struct epd_lot *lot, struct epd_page_entry **e,
    const struct epd_version *v, uint32_t k)
{
	uint32_t done = 0, i = 0;

	if (k >= v->npages)
		return EPD_ENOTHING;
	if (!(*e = epd_version_entries(v)))
		return -ENOMEM;
	while (k >= done + epd_version_pages(v, i))
		done += epd_version_pages(v, i++);
	lot->run = epd_version_run(v, i);
	lot->entry = *e + done;
	lot->n = epd_version_pages(v, i);
	lot->given = v->given;
	return 0;
}

/* Whoever stands on it tells what its pages are like. */
static int
shape(struct epd_lot *lot, const struct epd_workflow *w, uint64_t node,
    struct epd_why *why)
{
	const struct epd_book_node *n;
	struct epd_book b = { .n = 0 };
	struct epd_state st;
	int rc = epd_book_open(&b, w, NULL, why);

	if (rc < 0)
		return rc;
	n = epd_book_find(&b, node);
	rc = n && n->states ? epd_shard_state(w->shard, n->first, &st) :
	    EPD_ENOSTATE;
	epd_book_close(&b);
	if (rc == 0)
		lot->shape = (struct epd_run_shape){ EPD_OBJECT_KV_PAGE,
			st.kv_type, st.page_tokens, st.page_bytes };
	return rc == EPD_ENOSTATE ? EPD_ENOTHING : rc;
}

int
epd_flow_touch(struct epd_store *s, const char *workflow, uint64_t node,
    uint32_t k, struct epd_why *why)
{
	struct epd_page_entry *e = NULL;
	struct epd_fill sum = { 0 };
	struct epd_version v;
	struct epd_workflow w;
	struct epd_lot lot = { .workflow = workflow };
	int rc = epd_workflow_open(&w, s, workflow, 0, why);

	if (rc < 0)
		return rc;
	rc = shape(&lot, &w, node, why);
	if (rc == 0 && (rc = epd_shard_node(w.shard, node, &v)) == -ENOENT)
		rc = EPD_ENOTHING;
	if (rc == 0)
		rc = find(&lot, &e, &v, k);
	if (rc == 0)
		rc = epd_fill_run(s, &w, &lot, &sum, why);
	epd_free(e);
	epd_workflow_close(&w);
	return rc;
}
