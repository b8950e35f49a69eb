/*
 * mooncake_key.c - under which key a page lies.
 *
 *	epd1-NAME-SUM				a page that was computed, a feature's rows
 *	epd1-FP-0000000000000000		its meta
 *	epd1-NAME-SUM-kKEY			the same, sealed by a key
 *	epd1-NAME-SUM[-kKEY]-STORE-WORKFLOW	a page that was given
 */
#include <inttypes.h>
#include <stdio.h>

#include "tier/mooncake_in.h"

void
epd_mooncake_key(const struct epd_mooncake *m, const struct epd_lot *lot,
    long i, char out[EPD_MOONCAKE_KEY])
{
	const struct epd_page_entry *e = lot->entry + i;
	char name[2 * EPD_NAME + 1], sum[17];

	epd_hex_format(name, e->name.b, EPD_NAME);
	snprintf(sum, sizeof sum, "%016" PRIx64, e->sum);
	snprintf(out, EPD_MOONCAKE_KEY, "epd1-%s-%s%s%s%s%s%s", name, sum,
	    m->seal, lot->given ? "-" : "", lot->given ? m->store : "",
	    lot->given ? "-" : "", lot->given ? lot->workflow : "");
}
