/*
 * reasons.h - why a path is one, and why another is none; explain.h makes sentences of
 * them.  Outside this room include plan/plan.h.
 */
#ifndef EPD_PLAN_REASONS_H
#define EPD_PLAN_REASONS_H

#include <stdint.h>

/* Bits of epd_plan.reasons.  %b: the backend of its stage that crosses. */
#define EPD_REASONS(X) \
	X(POLICY,     "policy authorizes %b") \
	X(TAGS,       "no policy lists backends, and %b reaches the target") \
	X(HINT,       "%b was asked for by hint") \
	X(CAPABLE,    "%b supports this pair of memories and this operation") \
	X(STAGED,     "no direct path serves, so it goes through host memory") \
	X(HEALTHY,    "%b is healthy") \
	X(UNTOLD,     "health of %b is not known") \
	X(DEGRADED,   "%b is degraded, which makes it cost more") \
	X(RAILS,      "rails that are down are left out") \
	X(COST,       "lowest valid deterministic cost") \
	X(ORDER,      "first in order, since not every path has a cost") \
	X(AFTER,      "valid but ranked after the first") \
	X(FALLBACK,   "the contract allows it as a fallback") \
	X(LOSSY,      "the contract allows what it gives up of the bytes") \
	X(RECOMPUTE,  "the contract allows to compute again, at the measured rate") \
	X(BASELINE,   "nothing fresh tells its cost, so the baseline counts") \
	X(EXPIRED,    "an observation had expired and was ignored") \
	X(UNSURE,     "an observation of low confidence was ignored") \
	X(CREDIT,     "the receiver's credits cover it") \
	X(LATE,       "expected to end after the deadline") \
	X(UNSAFE,     "once part of it has moved it is not done again blindly") \
	X(LEGACY,     "chosen by the legacy selector")

enum epd_reason {
#define X(id, text) EPD_WHY_##id,
	EPD_REASONS(X)
#undef X
	EPD_WHY_COUNT
};

/* Why a way is none.  %n: epd_rejection.number; %v: as a schema; %t: as ns. */
#define EPD_REFUSALS(X) \
	X(SCHEMA,    "its capability is of schema %v") \
	X(ABSENT,    "is not loaded here") \
	X(PEER,      "the target is not registered with it") \
	X(POLICY,    "the policy does not list it") \
	X(UNNAMED,   "strict, and no policy matches") \
	X(FILES,     "no policy lists backends, and files go by gds or io_uring") \
	X(HINT,      "another one was asked for by hint") \
	X(LOCAL,     "works between machines only") \
	X(REMOTE,    "the target is not on the same machine") \
	X(OP,        "does not do this operation") \
	X(PAIR,      "does not lead between these memories") \
	X(ALIGNMENT, "wants offsets and length in units of %n") \
	X(SIZE,      "moves %n bytes at most") \
	X(DOWN,      "is down") \
	X(RAIL,      "no rail that the policy names is up") \
	X(HEALTH,    "strict, and its health is not known") \
	X(ESTIMATE,  "strict, and nothing fresh tells its cost") \
	X(LATE,      "strict, and it would be %t late") \
	X(CREDIT,    "the receiver's credits lack %n") \
	X(NIC_CAP,   "the contract caps its NIC bytes at %n") \
	X(STAGE_CAP, "the contract caps its staging bytes at %n") \
	X(CONTRACT,  "the contract does not allow it") \
	X(DIRECT,    "not needed: a direct path serves") \
	X(OWN,       "both ends are one node's, and staging is between two") \
	X(LEG,       "nothing copies between these memories here") \
	X(RATE,      "nothing tells what to compute again, or how fast") \
	X(INDEX,     "passed over, since %n failed before") \
	X(LEGACY,    "the legacy selector does not choose it") \
	X(ROOM,      "more ways than are kept")

enum epd_refusal {
	EPD_REFUSED_NOT,
#define X(id, text) EPD_REFUSED_##id,
	EPD_REFUSALS(X)
#undef X
	EPD_REFUSED_COUNT
};

struct epd_rejection {
	uint8_t backend;	/* EPD_VIA_NONE: any */
	uint8_t shape;
	uint8_t reason;		/* enum epd_refusal */
	uint64_t number;
};

#endif
