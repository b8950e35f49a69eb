/*
 * model.h - an execution plan, after the TENT RFC (Mooncake issue 2863): one path
 * of one transfer, its stages, and what they take.  Outside this room include
 * plan/plan.h.
 *
 * Everything is of fixed size and holds numbers only: nothing here is allocated,
 * formatted or read while something is decided.  What a number stands for is told by
 * plan/explain.h.  What is not set is 0; times are ns of the boot clock.
 */
#ifndef EPD_PLAN_MODEL_H
#define EPD_PLAN_MODEL_H

#include <stdint.h>

#include "plan/capability.h"

enum {
	EPD_PLAN_STAGES = 5,		/* device, host, network, host, device */
	EPD_PLAN_DEPENDS = 12,
	EPD_PLAN_CANDIDATES = 12,	/* that are ranked */
	EPD_PLAN_REJECTED = 40,
};

enum epd_path_kind { EPD_PATH_DIRECT = 1, EPD_PATH_STAGED };
enum epd_plan_role { EPD_ROLE_PRIMARY = 1, EPD_ROLE_FALLBACK, EPD_ROLE_DEGRADED };
enum epd_stage_type {
	EPD_STAGE_TRANSFER = 1, EPD_STAGE_LOCAL_COPY, EPD_STAGE_REMOTE_DELEGATE,
	EPD_STAGE_COMMIT, EPD_STAGE_RECOMPUTE,
};

/* PlanStage, with its DeviceSelection and QosSelection. */
struct epd_stage {
	uint8_t type, backend, source, target;	/* media */
	uint8_t priority, pool;
	uint16_t device;		/* the first rail of the mask, or 0 */
	uint64_t devices;		/* mask of rails; 0: it has none */
	uint64_t bytes;
};

/* ResourceCharge: granted whole or not at all. */
struct epd_charge {
	uint64_t nic_bytes, receiver_bytes, host_staging_bytes;
	uint32_t request_slots, staging_slots, consumer_slots, qp_slots, cq_slots;
};

enum epd_cost_source {
	EPD_COST_NONE, EPD_COST_BASELINE, EPD_COST_OBSERVED, EPD_COST_MEASURED,
};
/* CostEstimate */
struct epd_estimate {
	uint64_t latency_ns, bandwidth_bps;	/* 0: not known */
	uint64_t observed_at_ns, valid_for_ns;
	double confidence;
	uint8_t source, ignored;	/* ignored: an observation had expired */
};

enum epd_dependency {
	EPD_DEP_SOURCE = 1, EPD_DEP_TARGET, EPD_DEP_CAPABILITY, EPD_DEP_POLICY,
	EPD_DEP_TOPOLOGY, EPD_DEP_HEALTH, EPD_DEP_CREDIT,
};
/* DependencyGeneration */
struct epd_depends {
	uint8_t kind, backend;		/* of capability and health */
	uint64_t generation;
};

/* What of the bytes is given up on the way, if the QoS contract allows it. */
enum epd_lossy { EPD_LOSSY_NONE, EPD_LOSSY_FP8, EPD_LOSSY_INT8, EPD_LOSSY_CUSTOM };

/*
 * ExecutionPlan.  Never changed once it is admitted.  What is decided again has another
 * id; tries of one plan have that one, and are told apart by attempt.
 */
struct epd_plan {
	uint32_t schema_version;
	uint8_t path_kind, role, nstages, ndepends;
	uint8_t shape;			/* the template it was made by */
	uint8_t lossy;
	uint8_t remote;			/* it leads to another machine */
	uint16_t policy;		/* rule that matched, 0: the default one */
	uint32_t attempt;		/* from 1 */
	uint64_t id, parent;		/* parent: of a stage's own plan */
	uint64_t alignment;		/* a power of two that its offsets and length have */
	uint64_t reasons;		/* bit r: enum epd_reason */
	uint64_t cost_ns;		/* what it is ranked by */
	struct epd_charge charge;
	struct epd_estimate estimate;
	struct epd_stage stage[EPD_PLAN_STAGES];
	struct epd_depends depends[EPD_PLAN_DEPENDS];
};

#endif
