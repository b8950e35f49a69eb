/*
 * capability.c - what is known of a backend without asking it.  A row is what the
 * thing can do by its nature; what a machine's own one can is told by its transport,
 * or by a person's scenario.
 */
#include "plan/capability.h"

#include <errno.h>

#define BOTH(a, b) (EPD_PAIR(EPD_IN_##a, EPD_IN_##b) | EPD_PAIR(EPD_IN_##b, EPD_IN_##a))
#define SAME(a) EPD_PAIR(EPD_IN_##a, EPD_IN_##a)

enum {
	MOVES = EPD_CAN_READ | EPD_CAN_WRITE | EPD_CAN_RETRY,
	WITHIN = EPD_CAN_LOCAL,
	BETWEEN = EPD_CAN_LOCAL | EPD_CAN_REMOTE,
};

static const struct epd_capability known[EPD_VIA_COUNT] = {
	[EPD_VIA_MNNVL] = {
		.flags = MOVES | BETWEEN,
		.registration = EPD_REG_HANDLE, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TIMEOUT,
		.pairs = SAME(CUDA) | BOTH(CPU, CUDA),
	},
	[EPD_VIA_NVLINK] = {
		.flags = MOVES | WITHIN | EPD_CAN_STAGE,
		.registration = EPD_REG_HANDLE, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TIMEOUT,
		.pairs = SAME(CUDA) | BOTH(CPU, CUDA),
	},
	[EPD_VIA_RDMA] = {
		.flags = MOVES | BETWEEN | EPD_CAN_NOTIFY | EPD_USES_NIC |
		    EPD_USES_QP | EPD_HAS_RAILS,
		.registration = EPD_REG_LASTING, .completion = EPD_DONE_PLACED,
		.peer_failure = EPD_FAIL_TIMEOUT, .max_sge = 16,
		.pairs = SAME(CPU) | SAME(CUDA) | BOTH(CPU, CUDA),
		.qos_classes = 7, .pools = 4,
	},
	[EPD_VIA_SHM] = {
		.flags = MOVES | WITHIN,
		.registration = EPD_REG_TRANSFER, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TOLD, .pairs = SAME(CPU),
	},
	[EPD_VIA_TCP] = {
		.flags = MOVES | BETWEEN | EPD_CAN_NOTIFY | EPD_CAN_CANCEL |
		    EPD_USES_NIC,
		.registration = EPD_REG_TRANSFER, .completion = EPD_DONE_PLACED,
		.peer_failure = EPD_FAIL_TOLD, .pairs = SAME(CPU),
	},
	[EPD_VIA_GDS] = {
		.flags = MOVES | WITHIN,
		.registration = EPD_REG_LASTING, .completion = EPD_DONE_PLACED,
		.peer_failure = EPD_FAIL_TOLD, .required_alignment = 4096,
		.pairs = BOTH(CUDA, FILE) | BOTH(CPU, FILE),
	},
	[EPD_VIA_TPU] = {
		.flags = MOVES | WITHIN | EPD_CAN_STAGE,
		.registration = EPD_REG_HANDLE, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TIMEOUT, .pairs = BOTH(CPU, TPU),
	},
	[EPD_VIA_IO_URING] = {
		.flags = MOVES | WITHIN | EPD_CAN_CANCEL,
		.registration = EPD_REG_TRANSFER, .completion = EPD_DONE_PLACED,
		.peer_failure = EPD_FAIL_TOLD, .pairs = BOTH(CPU, FILE),
	},
	[EPD_VIA_COPY] = {
		.flags = MOVES | WITHIN | EPD_CAN_STAGE,
		.registration = EPD_REG_NONE, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TOLD,
		.pairs = SAME(CPU) | SAME(CUDA) | SAME(ROCM) | SAME(TPU) |
		    BOTH(CPU, CUDA) | BOTH(CPU, ROCM) | BOTH(CPU, TPU),
	},
	[EPD_VIA_RECOMPUTE] = {
		.flags = MOVES | BETWEEN,
		.registration = EPD_REG_NONE, .completion = EPD_DONE_VISIBLE,
		.peer_failure = EPD_FAIL_TOLD,
	},
};

int
epd_capability_default(struct epd_capability *out, enum epd_backend b)
{
	if ((unsigned)b >= EPD_VIA_COUNT || !known[b].flags)
		return -ENOENT;
	*out = known[b];
	out->schema_version = EPD_PLAN_SCHEMA;
	out->backend = (uint8_t)b;
	out->generation = 1;
	return 0;
}
