/* look.c - one state of a watched workflow, told as a summary. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "flow/look.h"
#include "flow/packs.h"

int
epd_look(struct epd_look *out, struct epd_watch *w, uint32_t state,
    uint32_t version, struct epd_why *why)
{
	struct epd_look k = { .w = epd_watch_workflow(w) };
	int rc = epd_shard_state(k.w->shard, state, &k.st);

	if (rc == 0)
		rc = epd_watch_book(w, &k.book, why);
	if (rc == 0)
		rc = epd_book_weigh(k.book, k.w->shard, state, version, &k.x);
	if (rc == 0 && k.x.missing)
		rc = epd_watch_packs(w, &k.packs);
	if (rc == 0 && k.packs)
		rc = epd_packs_count(k.w->shard, k.book, k.packs,
		    k.x.head.node, &k.below);
	if (rc < 0)
		return epd_look_fail(k.w->name, state, version, rc, why);
	k.s = epd_watch_store(w);
	k.version = version ? version : k.st.versions;
	k.changed_ms = version ? k.x.head.wall_ms : k.st.changed_ms;
	*out = k;
	return 0;
}

int
epd_look_fail(const char *workflow, uint32_t state, uint32_t version, int rc,
    struct epd_why *why)
{
	char name[EPD_REF_TEXT];

	epd_ref_format(name, workflow, state, version);
	return epd_why(why, rc, "%s: %s", name, rc == EPD_ENOTHING ?
	    "no such version" : epd_strerror(rc));
}

const char *
epd_look_dtype(const struct epd_state *st)
{
	return st->kv_type == EPD_F32 ? "f32" :
	    st->kv_type == EPD_BF16 ? "bf16" : "f16";
}

int
epd_look_images(const struct epd_look *k, struct epd_image_ref **out)
{
	struct epd_image_ref *im = epd_calloc(k->x.images + 1u, sizeof *im);
	struct epd_glance g = { .parent = k->x.head.node };
	struct epd_version v;
	uint32_t n = k->x.images;
	int rc = im ? 0 : -ENOMEM;

	/* From the end: that is the way to the root. */
	while (rc == 0 && n) {
		if ((rc = epd_shard_glance(k->w->shard, g.parent, &g)) < 0 ||
		    g.nimages == 0 ||
		    (rc = epd_shard_node(k->w->shard, g.node, &v)) < 0)
			continue;
		if (v.nimages > n) {
			rc = EPD_ECORRUPT;
			continue;
		}
		n -= v.nimages;
		memcpy(im + n, v.images, v.nimages * sizeof *im);
	}
	if (rc < 0)
		epd_free(im);
	else
		*out = im;
	return rc;
}

int
epd_watch_state(struct epd_watch *w, uint32_t state, uint32_t version,
    int (*fn)(void *arg, const struct epd_sight *v), void *arg,
    struct epd_why *why)
{
	struct epd_sight v = {0};
	struct epd_image_ref *images = NULL;
	struct epd_look k;
	int rc = epd_look(&k, w, state, version, why);

	if (rc < 0)
		return rc;
	if ((rc = epd_look_images(&k, &images)) < 0)
		return epd_look_fail(k.w->name, state, version, rc, why);
	epd_book_line(&v.line, k.w, &k.st, &k.x);
	v.line.below = k.below;
	v.line.changed_ms = k.changed_ms;
	v.version = k.version;
	v.kv_dtype = epd_look_dtype(&k.st);
	v.state = &k.st;
	v.head = &k.x.head;
	v.images = images;
	rc = fn(arg, &v);
	epd_free(images);
	return rc;
}

int
epd_view_state(struct epd_store *s, const struct epd_ref *ref,
    int (*fn)(void *arg, const struct epd_sight *v), void *arg,
    struct epd_why *why)
{
	struct epd_watch *w;
	int rc = epd_watch_open(&w, s, ref->workflow, why);

	if (rc == 0) {
		rc = epd_watch_state(w, ref->state, ref->version, fn, arg, why);
		epd_watch_close(w);
	}
	return rc;
}
