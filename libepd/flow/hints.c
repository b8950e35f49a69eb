/* hints.c - hints of a workflow, state by state. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/hints.h"
#include "flow/tiers.h"
#include "page/page.h"

struct tell {
	struct epd_store *s;
	const struct epd_workflow *w;
	int (*fn)(void *arg, const struct epd_hint *h);
	void *arg;
	uint64_t sum;			/* of what the state's last page is called */
};

/* What says that there is none, as against what says nothing. */
static int
is_none(int rc)
{
	return rc == -ENOENT || rc == EPD_ECORRUPT || rc == EPD_EKIND;
}

/* 1: others may have it from here: it is in memory or on the disk, and our own. */
static int
is_ours(const struct tell *x, uint64_t run)
{
	struct epd_memory *disk = epd_store_disk(x->s, 0);
	struct epd_page_entry *e = NULL;
	struct epd_run_shape shape;
	struct epd_run *r;
	int given = 0, rc = -ENOENT;
	long n;

	if (x->w->runs >= 0)
		rc = epd_run_table(&r, x->w->runs, run, &shape, NULL);
	if (rc == 0) {
		given = epd_run_is_given(r);
		epd_run_close(r);
	} else if (is_none(rc) && disk) {
		rc = epd_nvme_table(disk, x->w->name, run, &shape, &e, &n,
		    &given);
		epd_free(e);
	}
	return rc == 0 ? !given : is_none(rc) ? 0 : rc;
}

static int
tell_lot(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why)
{
	struct tell *x = arg;
	struct epd_hint h = { .kind = EPD_HINT_PAGE };
	long i = lot->n - 1;
	int rc;

	(void)first;
	(void)why;
	x->sum = epd_xxh3_64(lot->entry[i].name.b, EPD_NAME);
	while (i >= 0 && lot->entry[i].rows < lot->shape.tokens)
		i--;
	if (i < 0 || lot->given)
		return 0;
	rc = is_ours(x, lot->run);
	if (rc <= 0)
		return rc;
	epd_hex_format(h.key, lot->entry[i].name.b, EPD_NAME);
	h.checksum = lot->entry[i].sum;
	return x->fn(x->arg, &h);
}

static int
tell_images(struct tell *x, const struct epd_version *v)
{
	int rc = 0;

	for (uint32_t k = 0; rc == 0 && k < v->nimages; k++) {
		struct epd_hint h = { .kind = EPD_HINT_FEATURE };
		struct epd_feature_meta m;

		if (epd_feature_meta(x->s->features, &v->images[k].fp, &m) < 0)
			continue;
		epd_hex_format(h.key, v->images[k].fp.b, EPD_NAME);
		rc = x->fn(x->arg, &h);
	}
	return rc;
}

static int
tell_features(struct tell *x, uint32_t state)
{
	struct epd_chain c = { 0 };
	struct epd_glance g;
	struct epd_version v;
	int rc = epd_chain_of(&c, x->w->shard, state, 0);

	for (size_t i = 0; rc == 0 && i < c.n; i++) {
		rc = epd_shard_glance(x->w->shard, c.node[i], &g);
		if (rc == 0 && g.nimages)
			rc = epd_shard_node(x->w->shard, c.node[i], &v);
		if (rc == 0 && g.nimages)
			rc = tell_images(x, &v);
	}
	epd_chain_free(&c);
	return rc;
}

static int
tell_state(struct tell *x, const struct epd_state *st)
{
	struct epd_hint h = { .kind = EPD_HINT_STATE,
		.version = st->versions, .epoch = st->epoch };
	uint8_t uuid[16];
	char hex[33];
	int rc;

	x->sum = 0;
	rc = epd_lots_of(x->w, st->id, 0, 0, tell_lot, x, NULL);
	if (rc == 0)
		rc = tell_features(x, st->id);
	epd_shard_uuid(x->w->shard, uuid);
	epd_hex_format(hex, uuid, 16);
	snprintf(h.key, sizeof h.key, "%s/s%u", hex, st->id);
	snprintf(h.name, sizeof h.name, "%s/s%u", x->w->name, st->id);
	h.checksum = x->sum;
	return rc < 0 ? rc : x->fn(x->arg, &h);
}

int
epd_flow_hints(struct epd_store *s, const struct epd_workflow *w,
    int (*fn)(void *arg, const struct epd_hint *h), void *arg)
{
	struct tell x = { .s = s, .w = w, .fn = fn, .arg = arg };
	struct epd_state st;
	int rc = 0;

	for (uint32_t id = 0; rc == 0 &&
	    epd_shard_next(w->shard, id, &st) == 0; id = st.id)
		if (!strcmp(st.tenant, s->tenant))
			rc = tell_state(&x, &st);
	return rc;
}
