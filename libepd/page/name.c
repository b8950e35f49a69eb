/*
 * name.c - the names of pages: a hash chain from what all pages of a state have
 * in common over the tokens and images of each.
 *
 * Every part is labelled or counted, so no two different contents have one
 * encoding: not a token moved over a page's edge, not an image in place of
 * another, not one at another offset.  A page's images matter though its tokens
 * are the same placeholders; what came before matters through the parent.
 */
#include "page/page.h"

void
epd_page_base(struct epd_name *out, uint32_t arithmetic, const char *numeric,
    const struct epd_name *model, const struct epd_run_shape *shape)
{
	struct epd_namer n;

	epd_namer_begin(&n, "epd page base 1");
	epd_namer_u64(&n, arithmetic);
	epd_namer_str(&n, numeric);
	epd_namer_add(&n, model->b, sizeof model->b);
	epd_namer_u64(&n, shape->kind);
	epd_namer_u64(&n, shape->type);
	epd_namer_u64(&n, shape->tokens);
	epd_namer_u64(&n, shape->bytes);
	epd_namer_end(&n, out);
}

void
epd_page_name(struct epd_name *out, const struct epd_name *parent,
    const int32_t *ids, size_t n, const struct epd_page_image *image,
    size_t nimages)
{
	struct epd_namer h;

	epd_namer_begin(&h, "epd page 1");
	epd_namer_add(&h, parent->b, sizeof parent->b);
	epd_namer_u64(&h, n);
	for (size_t i = 0; i < n; i++)
		epd_namer_u64(&h, (uint64_t)(int64_t)ids[i]);
	epd_namer_u64(&h, nimages);
	for (size_t i = 0; i < nimages; i++) {
		epd_namer_u64(&h, (uint64_t)image[i].at);
		epd_namer_add(&h, image[i].fp.b, sizeof image[i].fp.b);
	}
	epd_namer_end(&h, out);
}
