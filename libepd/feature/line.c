/* line.c - the line of meta by itself. */
#include <errno.h>

#include "base/clock.h"
#include "feature/inner.h"

int
epd_feature_line(struct epd_buf *out, const struct epd_feature *f,
    const void *rows, uint64_t ttl_ms)
{
	const uint64_t now = epd_clock_wall_ms();
	const struct epd_meta m = {
		.blob_sum = epd_blake2b64(epd_span(rows, epd_feature_bytes(f))),
		.created_ms = now,
		.deadline_ms = !ttl_ms ? 0 : ttl_ms > INT64_MAX - now ?
		    INT64_MAX : now + ttl_ms,
	};

	return epd_meta_pack(out, f, &m);
}

int
epd_feature_line_check(struct epd_span line, const struct epd_feature *f,
    const void *rows, struct epd_why *why)
{
	struct epd_meta m;
	int rc = epd_meta_match(line, f, &m, why);

	if (rc)
		return rc;
	if (m.deadline_ms && m.deadline_ms <= epd_clock_wall_ms())
		return epd_why(why, EPD_ENOTHING, "it has expired");
	if (rows && epd_blake2b64(epd_span(rows, epd_feature_bytes(f))) !=
	    m.blob_sum)
		return epd_why(why, EPD_ECORRUPT, "rows: checksum is wrong");
	return 0;
}
