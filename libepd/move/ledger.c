/*
 * ledger.c - a charge is compared in all its parts before any of them is taken.
 */
#include <string.h>

#include "move/ledger.h"

/*        field                name for people */
#define PARTS(X) \
	X(nic_bytes,          "bytes on the network") \
	X(receiver_bytes,     "bytes at the receiver") \
	X(host_staging_bytes, "bytes of staging memory") \
	X(request_slots,      "request slots") \
	X(staging_slots,      "staging slots") \
	X(consumer_slots,     "consumer slots") \
	X(qp_slots,           "queue pairs") \
	X(cq_slots,           "completion queues")

void
epd_ledger_default(struct epd_ledger *out)
{
	*out = (struct epd_ledger){
		.limit = {
			.nic_bytes = UINT64_MAX,
			.host_staging_bytes = UINT64_C(256) << 20,
			.request_slots = 64, .staging_slots = 64,
			.qp_slots = 16, .cq_slots = 16,
		},
	};
}

void
epd_ledger_credit(struct epd_ledger *l, const struct epd_credits *c)
{
	struct epd_charge *limit = &l->limit;
	const struct epd_charge *used = &l->used;

	limit->receiver_bytes = c->bytes > UINT64_MAX - used->receiver_bytes ?
	    UINT64_MAX : c->bytes + used->receiver_bytes;
	/* Its windows (slots) are counted where one is opened: reads take none. */
	limit->consumer_slots = c->staging > UINT32_MAX - used->consumer_slots ?
	    UINT32_MAX : c->staging + used->consumer_slots;
}

int
epd_ledger_take(struct epd_ledger *l, const struct epd_charge *c,
    struct epd_why *why)
{
#define X(field, name) \
	if (c->field > l->limit.field - l->used.field) \
		return epd_why(why, EPD_ECREDIT, "%llu " name " are wanted, " \
		    "%llu are to be had", (unsigned long long)c->field, \
		    (unsigned long long)(l->limit.field - l->used.field));
	PARTS(X)
#undef X
#define X(field, name) l->used.field += c->field;
	PARTS(X)
#undef X
	return 0;
}

void
epd_ledger_give(struct epd_ledger *l, const struct epd_charge *c)
{
#define X(field, name) \
	l->used.field -= c->field < l->used.field ? c->field : l->used.field;
	PARTS(X)
#undef X
}
