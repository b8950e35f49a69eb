/*
 * move.h - doing what plan decided: ledger.h grants what it takes, carry.h carries it
 * out, backoff.h is the pause before it is tried again.  This room knows transports by
 * base/transport.h alone, and states not at all: whose pages these are, and the leases
 * on them, are its caller's.
 */
#ifndef EPD_MOVE_H
#define EPD_MOVE_H

#include "move/backoff.h"
#include "move/carry.h"
#include "move/ledger.h"

#endif
