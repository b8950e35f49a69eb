/*
 * match.c - the longest prefix that a state of this workflow has: its nodes as
 * a radix tree, made anew each time, since a command asks once.
 */
#include <errno.h>

#include "base/alloc.h"
#include "flow/reuse.h"
#include "tree/tree.h"

/* A version's images as the tree has them.  -ENOMEM. */
static int
images_of(const struct epd_image_ref *from, uint32_t n,
    struct epd_radix_image **out)
{
	struct epd_radix_image *im = epd_calloc(n + 1u, sizeof *im);

	if (!im)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		im[i] = (struct epd_radix_image){
			.at = from[i].at, .fp = from[i].fp,
		};
	*out = im;
	return 0;
}

static int
put(struct epd_radix *r, struct epd_shard *s, uint64_t node)
{
	struct epd_radix_image *im;
	struct epd_version v;
	struct epd_radix_key k;
	int rc = epd_shard_node(s, node, &v);

	if (rc == 0)
		rc = images_of(v.images, v.nimages, &im);
	if (rc < 0)
		return rc;
	k = (struct epd_radix_key){
		.ids = v.ids, .n = v.nids, .images = im, .nimages = v.nimages,
	};
	rc = epd_radix_add(r, v.parent, v.node, &k);
	epd_free(im);
	return rc;
}

static int
look(struct epd_radix *r, const struct epd_seq *q, struct epd_match *out)
{
	struct epd_radix_image *im;
	struct epd_radix_key k = { .ids = q->ids, .n = q->n };
	int rc = images_of(q->images, q->nimages, &im);

	if (rc < 0)
		return rc;
	k.images = im;
	k.nimages = q->nimages;
	out->tokens = epd_radix_match(r, &k, &out->node);
	epd_free(im);
	return 0;
}

int
epd_match_find(const struct epd_seq *q, struct epd_match *out)
{
	struct epd_match found = {0};
	struct epd_outline o = {0};
	struct epd_radix *r;
	int rc;

	if (!q->w->shard || epd_shard_outline_next(q->w->shard, 0, &o) < 0) {
		*out = found;
		return 0;
	}
	if ((rc = epd_radix_new(&r)) < 0)
		return rc;
	do
		rc = put(r, q->w->shard, o.node);
	while (rc == 0 &&
	    (rc = epd_shard_outline_next(q->w->shard, o.node, &o)) == 0);
	if (rc == -ENOENT)
		rc = look(r, q, &found);
	epd_radix_free(r);
	if (rc == 0)
		*out = found;
	return rc;
}
