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

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int
try_node(struct epd_store *s, const struct epd_hint *hint,
    const struct epd_name *fp, uint64_t end_ns)
{
	struct epd_transfer_policy policy;
	struct epd_transferred moved;
	struct epd_node *n;
	int rc = epd_node_open(&n, s, hint->address,
	    least(epd_where_soon(s), end_ns), NULL);

	if (rc < 0)
		return rc;
	epd_transfer_policy_default(&policy, &s->config);
	rc = memcmp(epd_node_facts(n)->uuid, hint->owner, 16) ? EPD_ESTALE :
	    epd_feature_move(n, EPD_OP_READ, fp, &policy, end_ns, &moved, NULL);
	epd_node_close(n);
	return rc;
}

int
epd_where_feature(struct epd_store *s, const struct epd_name *fp,
    uint64_t end_ns)
{
	const uint64_t own = epd_clock_boot_ns() + MS *
	    (uint64_t)s->config.transfer_timeout_ms;
	struct epd_dir *d = s->transports ? epd_store_dir(s) : NULL;
	struct epd_hint hint[HINTS];
	char key[2 * EPD_NAME + 1];
	int named = 1;

	if (!end_ns || own < end_ns)
		end_ns = own;
	epd_hex_format(key, fp->b, EPD_NAME);
	for (int again = 0; d && again < 2 && named; again++) {
		int n;

		if (epd_where_is_left(s) || epd_clock_boot_ns() >= end_ns)
			break;
		n = epd_dir_find(d, EPD_HINT_FEATURE, key, again, hint, HINTS,
		    least(epd_where_asked_by(s), end_ns), NULL);
		epd_where_leave(s, d);
		named = 0;
		for (int i = 0; i < n; i++) {
			if (!memcmp(hint[i].owner, s->uuid, 16))
				continue;
			if (try_node(s, hint + i, fp, end_ns) == 0)
				return 0;
			epd_count(s->metrics, EPD_M_DIR_STALE, 1);
			named = 1;
		}
	}
	return EPD_ENOTHING;
}
