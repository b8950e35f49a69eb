/*
 * where_feature.c - a feature that is not here, from a node that the directory says has
 * it.  What comes is compared with its sums, and with its picture's name where that is
 * not to be trusted (epd_feature_move).
 */
#include <string.h>

#include "base/clock.h"
#include "base/span.h"
#include "flow/transfer.h"
#include "flow/where.h"

#define MS UINT64_C(1000000)
enum { HINTS = 8 };

static int
try_node(struct epd_store *s, const struct epd_hint *hint,
    const struct epd_name *fp, uint64_t end_ns)
{
	const uint64_t soon = epd_clock_boot_ns() + MS *
	    (uint64_t)s->config.directory_timeout_ms;
	struct epd_transfer_policy policy;
	struct epd_transferred moved;
	struct epd_node *n;
	int rc;

	if (!memcmp(hint->owner, s->uuid, 16))
		return EPD_ENOTHING;
	rc = epd_node_open(&n, s, hint->address, soon, NULL);
	if (rc < 0)
		return rc;
	epd_transfer_policy_default(&policy, &s->config);
	rc = memcmp(epd_node_facts(n)->uuid, hint->owner, 16) ? EPD_ESTALE :
	    epd_feature_move(n, EPD_OP_READ, fp, &policy, end_ns, &moved, NULL);
	epd_node_close(n);
	return rc;
}

int
epd_where_feature(struct epd_store *s, const struct epd_name *fp)
{
	const uint64_t end_ns = epd_clock_boot_ns() + MS *
	    (uint64_t)s->config.transfer_timeout_ms;
	struct epd_dir *d = s->transports ? epd_store_dir(s) : NULL;
	struct epd_hint hint[HINTS];
	char key[2 * EPD_NAME + 1];

	epd_hex_format(key, fp->b, EPD_NAME);
	for (int again = 0; d && again < 2 && !epd_where_is_left(s); again++) {
		/* The question has its own time-out. */
		int n = epd_dir_find(d, EPD_HINT_FEATURE, key, again, hint,
		    HINTS, epd_clock_boot_ns() + 2 * MS *
		    (uint64_t)s->config.directory_timeout_ms, NULL);

		epd_where_leave(s, d);

		for (int i = 0; i < n; i++) {
			if (try_node(s, hint + i, fp, end_ns) == 0)
				return 0;
			epd_count(s->metrics, EPD_M_DIR_STALE, 1);
		}
	}
	return EPD_ENOTHING;
}
