/*
 * capability.h - what a backend can do, and how it does now, after the TENT RFC.
 * Outside this room include plan/plan.h.
 */
#ifndef EPD_PLAN_CAPABILITY_H
#define EPD_PLAN_CAPABILITY_H

#include <stdint.h>

#include "base/backend.h"

/*
 * Of capabilities, operational states and plans.  Another major is not taken
 * (validation fails, or the legacy selector is asked); a higher minor is, and the
 * bits it knows beyond ours count for nothing.
 */
enum { EPD_PLAN_SCHEMA = 1 << 16 | 0 };
#define EPD_PLAN_MAJOR(v) ((v) >> 16)

/* Bit of a pair of media in epd_capability.pairs. */
#define EPD_PAIR(from, to) (UINT64_C(1) << ((unsigned)(from) * 8 + (unsigned)(to)))

enum epd_capable {
	EPD_CAN_LOCAL = 1, EPD_CAN_REMOTE = 2, EPD_CAN_READ = 4,
	EPD_CAN_WRITE = 8, EPD_CAN_NOTIFY = 16, EPD_CAN_CANCEL = 32,
	EPD_CAN_RETRY = 64,	/* idempotent: done again after a part it gives the same */
	EPD_CAN_STAGE = 128,	/* may be a leg within a machine of a staged path */
	EPD_USES_NIC = 256,	/* between machines its bytes count as the NIC's */
	EPD_USES_QP = 512,	/* takes a queue pair and a completion queue */
	EPD_HAS_RAILS = 1024,	/* devices to choose from, by a mask */
};
enum epd_registration {
	EPD_REG_NONE, EPD_REG_TRANSFER, EPD_REG_LASTING, EPD_REG_HANDLE,
};
enum epd_completion {	/* what a completion here says of the bytes there */
	EPD_DONE_SENT, EPD_DONE_PLACED, EPD_DONE_VISIBLE,
};
enum epd_peer_failure {	/* how a peer's death is learned */
	EPD_FAIL_TOLD, EPD_FAIL_TIMEOUT, EPD_FAIL_NEVER,
};

/* BackendCapability: what it does for good. */
struct epd_capability {
	uint32_t schema_version;
	uint8_t backend;		/* enum epd_backend */
	uint8_t registration, completion, peer_failure;
	uint32_t flags;			/* enum epd_capable */
	uint32_t max_sge;
	uint64_t pairs;			/* EPD_PAIR, as the bytes go */
	uint64_t bounced;		/* of pairs: only by copies of its own on the way */
	uint64_t required_alignment;	/* 0, 1: none */
	uint64_t max_transfer_bytes;	/* 0: no limit */
	uint64_t generation;		/* of its registration */
	uint32_t qos_classes;		/* bit p: priority p is told apart by hardware */
	uint32_t pools;			/* of queue pairs */
};

/* What is known of a backend without asking it.  Fails: -ENOENT, nothing is. */
int epd_capability_default(struct epd_capability *out, enum epd_backend b);

enum epd_health { EPD_HEALTH_UNKNOWN, EPD_HEALTHY, EPD_DEGRADED, EPD_DOWN };

/* BackendOperationalState: how it does now, an input of its own. */
struct epd_operational {
	uint32_t schema_version;
	uint8_t backend, health, has_bandwidth, has_latency;
	uint64_t generation, observed_at_ns, valid_for_ns;
	uint64_t devices_up;		/* bit d: rail d; 0: no rails are told of */
	double bandwidth_bps, latency_ns;	/* bytes a second; of a transfer's beginning */
	double confidence;		/* 0 to 1 */
};

#endif
