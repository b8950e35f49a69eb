/* line.c - the line of meta by itself. */
#include <errno.h>

#include "base/clock.h"
#include "feature/inner.h"

int
epd_feature_line(struct epd_buf *out, const struct epd_feature *f,
    const void *rows)
{
	const struct epd_meta m = {
		.blob_sum = epd_blake2b64(epd_span(rows, epd_feature_bytes(f))),
		.created_ms = epd_clock_wall_ms(),
	};

	return epd_meta_pack(out, f, &m);
}

int
epd_feature_line_check(struct epd_span line, const struct epd_feature *f,
    const void *rows, struct epd_why *why)
{
	struct epd_meta m;
	int rc = epd_meta_match(line, f, &m, why);

	if (!rc && rows && m.blob_sum != epd_blake2b64(epd_span(rows,
	    epd_feature_bytes(f))))
		rc = epd_why(why, EPD_ECORRUPT, "rows: checksum is wrong");
	return rc;
}
