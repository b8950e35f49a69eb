/* look.c - one state, opened to be told of, and told as a summary. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "flow/look.h"

int
epd_look_open(struct epd_look *out, struct epd_store *s,
    const struct epd_ref *ref, struct epd_why *why)
{
	struct epd_names names = { .memory = s->memory };
	struct epd_look k = { .s = s };
	int rc = epd_workflow_open(&k.w, s, ref->workflow, 1, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_state(k.w.shard, ref->state, &k.st);
	if (rc == 0)
		rc = epd_book_open(&k.book, &k.w, &names, NULL);
	epd_names_free(&names);
	if (rc == 0)
		rc = epd_book_weigh(&k.book, k.w.shard, ref->state,
		    ref->version, &k.x);
	if (rc < 0) {
		epd_look_close(&k);
		return epd_look_fail(ref, rc, why);
	}
	k.version = ref->version ? ref->version : k.st.versions;
	*out = k;
	return 0;
}

int
epd_look_fail(const struct epd_ref *ref, int rc, struct epd_why *why)
{
	char name[EPD_REF_TEXT];

	epd_ref_format(name, ref->workflow, ref->state, ref->version);
	return epd_why(why, rc, "%s: %s", name, rc == EPD_ENOTHING ?
	    "no such version" : epd_strerror(rc));
}

void
epd_look_close(struct epd_look *k)
{
	epd_book_close(&k->book);
	epd_workflow_close(&k->w);
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
		if ((rc = epd_shard_glance(k->w.shard, g.parent, &g)) < 0 ||
		    g.nimages == 0 ||
		    (rc = epd_shard_node(k->w.shard, g.node, &v)) < 0)
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
epd_view_state(struct epd_store *s, const struct epd_ref *ref,
    int (*fn)(void *arg, const struct epd_sight *v), void *arg,
    struct epd_why *why)
{
	struct epd_sight v = {0};
	struct epd_image_ref *images = NULL;
	struct epd_look k;
	int rc = epd_look_open(&k, s, ref, why);

	if (rc < 0)
		return rc;
	rc = epd_look_images(&k, &images);
	if (rc == 0) {
		epd_book_line(&v.line, &k.w, &k.st, &k.x);
		v.version = k.version;
		v.kv_dtype = epd_look_dtype(&k.st);
		v.state = &k.st;
		v.head = &k.x.head;
		v.images = images;
		rc = fn(arg, &v);
	} else {
		epd_look_fail(ref, rc, why);
	}
	epd_free(images);
	epd_look_close(&k);
	return rc;
}
