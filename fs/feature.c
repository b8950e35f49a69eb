/* feature.c - an encoded picture as files. */
#include <errno.h>

#include "base/alloc.h"
#include "fs/text.h"

int
epd_fs_meta(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	const struct epd_ref ref = {
		.kind = EPD_REF_FEATURE, .feature = at->id,
	};
	int rc = epd_view_json(fs->store, &ref, out, why);

	if (rc == 0)
		epd_buf_str(out, "\n");
	return rc < 0 ? rc : out->failed ? -ENOMEM : 0;
}

int
epd_fs_image(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_store *s;
	uint8_t *rgb;
	long h, w;
	int rc = epd_fs_another(fs, 1, &s, why);

	if (rc < 0)
		return rc;
	rc = epd_feature_pixels(s->features, &at->id, &rgb, &h, &w);
	epd_store_close(s);
	if (rc == -ENOENT)
		return epd_why(why, -ENODATA, "its picture is not kept");
	if (rc < 0)
		return rc;
	rc = epd_fs_png(out, rgb, (uint32_t)w, (uint32_t)h);
	epd_free(rgb);
	return rc;
}

int
epd_fs_image_size(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	struct epd_feature_meta m;
	int rc = epd_feature_meta(fs->store->features, &at->id, &m);

	if (rc == 0)
		*out = m.pix_w ? epd_fs_png_size(m.pix_w, m.pix_h) : 0;
	return rc;
}
