/*
 * ledger.h - what may be in use at once, and what is.  Outside this room include
 * move/move.h.
 *
 * Two owners grant a plan's charge: local admission (NIC bytes, slots, staging) and
 * the receiver, whose credits are what it advertised last.  A charge is granted by
 * both and whole, or by neither.  One thread's, or its owner has a lock.
 */
#ifndef EPD_MOVE_LEDGER_H
#define EPD_MOVE_LEDGER_H

#include "base/err.h"
#include "base/host.h"
#include "plan/plan.h"

struct epd_ledger {
	struct epd_charge limit, used;	/* a limit of 0 is none granted */
};

/* Local admission as it is where nobody says otherwise; the receiver grants nothing yet. */
void epd_ledger_default(struct epd_ledger *out);
/* What the receiver grants beside what is used already. */
void epd_ledger_credit(struct epd_ledger *l, const struct epd_credits *c);
/* Fails: EPD_ECREDIT, and why says of what there is not enough; nothing is taken. */
int epd_ledger_take(struct epd_ledger *l, const struct epd_charge *c,
    struct epd_why *why);
void epd_ledger_give(struct epd_ledger *l, const struct epd_charge *c);

#endif
