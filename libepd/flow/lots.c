/*
 * lots.c - a state's pages as lots: the versions on its path, and their runs; a lot's
 * run looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/runs.h"
#include "flow/tiers.h"
#include "page/page.h"

int
epd_run_is_in(int dir, uint64_t run)
{
	char name[EPD_RUN_NAME];

	epd_run_format(name, run);
	return dir >= 0 && !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

int
epd_lot_look(int dir, const struct epd_lot *lot, struct epd_run **run,
    const void **page)
{
	int rc = epd_run_look(run, dir, lot->run, &lot->shape, lot->entry,
	    lot->n, NULL);

	for (long i = 0; rc == 0 && i < lot->n; i++) {
		rc = epd_run_verify(*run, i);
		page[i] = epd_run_page(*run, i);
		if (rc < 0)
			epd_run_close(*run);
	}
	return rc;
}

/* Of a chain, root first, those that show pages nobody on it has filled on. */
static int
mark(struct epd_shard *s, const struct epd_chain *c, int all, uint8_t *needed)
{
	uint32_t least = UINT32_MAX;
	struct epd_glance g;
	int rc = 0;

	for (size_t i = c->n; rc == 0 && i-- > 0; ) {
		rc = epd_shard_glance(s, c->node[i], &g);
		/* Who came by a codec goes on from the root's own last page. */
		needed[i] = rc == 0 && g.npages && (all || i == 0 ||
		    g.first_page < least);
		if (needed[i] && g.first_page < least)
			least = g.first_page;
	}
	return rc;
}

/* The runs of one version. */
static int
runs_of(struct epd_lot *lot, const struct epd_version *v,
    const struct epd_page_entry *e, epd_lot_fn *fn, void *arg,
    struct epd_why *why)
{
	uint32_t done = 0;
	int rc = 0;

	lot->given = v->given;
	for (uint32_t i = 0; rc == 0 && done < v->npages; i++) {
		const uint32_t n = epd_version_pages(v, i);

		lot->run = epd_version_run(v, i);
		lot->entry = e + done;
		lot->n = n;
		rc = fn(arg, lot, v->first_page + done, why);
		done += n;
	}
	return rc;
}

/* fn may write to the log, and what the shard lent is void then. */
static int
copy(struct epd_version *v, struct epd_page_entry **e,
    struct epd_run_link **links)
{
	*e = epd_version_entries(v);
	*links = epd_calloc(v->nlinks + 1u, sizeof **links);
	if (!*e || !*links)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->nlinks; i++)
		(*links)[i] = v->links[i];
	v->links = *links;
	return 0;
}

int
epd_lots_of(const struct epd_workflow *w, uint32_t state, uint32_t version,
    int all, epd_lot_fn *fn, void *arg, struct epd_why *why)
{
	struct epd_chain c = { 0 };
	struct epd_lot lot = { .workflow = w->name };
	struct epd_page_entry *e = NULL;
	struct epd_run_link *links = NULL;
	uint8_t *needed = NULL;
	struct epd_version v;
	struct epd_state st;
	int rc = epd_shard_state(w->shard, state, &st);

	if (rc == 0)
		rc = epd_chain_of(&c, w->shard, state, version);
	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", w->name, state,
		    epd_strerror(rc));
	lot.shape = (struct epd_run_shape){ EPD_OBJECT_KV_PAGE, st.kv_type,
		st.page_tokens, st.page_bytes };
	needed = epd_calloc(c.n + 1, 1);
	rc = needed ? mark(w->shard, &c, all, needed) : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < c.n; i++) {
		if (!needed[i])
			continue;
		rc = epd_shard_node(w->shard, c.node[i], &v);
		if (rc == 0)
			rc = copy(&v, &e, &links);
		if (rc == 0)
			rc = runs_of(&lot, &v, e, fn, arg, why);
		epd_free(e);
		epd_free(links);
		e = NULL;
		links = NULL;
	}
	epd_free(needed);
	epd_chain_free(&c);
	return rc;
}
