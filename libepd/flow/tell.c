/* tell.c - hints of a workflow, state by state. */
#include <stdio.h>
#include <string.h>

#include "flow/book.h"
#include "flow/packs.h"
#include "flow/tell.h"
#include "flow/tiers.h"

struct tell {
	struct epd_store *s;
	const struct epd_workflow *w;
	int (*fn)(void *arg, const struct epd_hint *h);
	void *arg;
	struct epd_run_ids memory, disk;	/* runs that others can have from here */
	uint64_t sum;			/* of what the state's last page is called */
};

static int
tell_lot(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why)
{
	struct tell *x = arg;
	struct epd_hint h = { .kind = EPD_HINT_PAGE };
	long i = lot->n - 1;

	(void)first;
	(void)why;
	x->sum = epd_xxh3_64(lot->entry[i].name.b, EPD_NAME);
	while (i >= 0 && lot->entry[i].rows < lot->shape.tokens)
		i--;
	if (i < 0 || lot->given || (!epd_run_ids_has(&x->memory, lot->run) &&
	    !epd_run_ids_has(&x->disk, lot->run)))
		return 0;
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
	int rc = w->runs < 0 ? 0 : epd_run_ids_list(&x.memory, w->runs);

	if (rc == 0)
		rc = epd_packs_list(&x.disk, s, w->name);
	for (uint32_t id = 0; rc == 0 &&
	    epd_shard_next(w->shard, id, &st) == 0; id = st.id)
		if (!strcmp(st.tenant, s->tenant))
			rc = tell_state(&x, &st);
	epd_run_ids_free(&x.memory);
	epd_run_ids_free(&x.disk);
	return rc;
}
