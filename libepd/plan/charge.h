/* charge.h - step 8: what a path takes. */
#ifndef EPD_PLAN_CHARGE_H
#define EPD_PLAN_CHARGE_H

#include "plan/model.h"

/* Slots of staging on one side. */
static inline uint64_t
slots_of(uint64_t bytes, uint64_t chunk, uint32_t most)
{
	const uint64_t n = bytes / chunk + (bytes % chunk != 0);

	return n < most ? n : most;
}

/* What moving bytes takes by one backend, with so many legs, far ones among them. */
static inline void
take(struct epd_charge *restrict out, uint32_t flags, int remote, int file,
    uint64_t bytes, unsigned legs, unsigned far, uint64_t chunk, uint32_t most)
{
	const uint32_t qp = (flags & EPD_USES_QP) != 0;
	uint64_t n = 0;

	if (legs)
		n = slots_of(bytes, chunk, most);
	*out = (struct epd_charge){
		.nic_bytes = remote && flags & EPD_USES_NIC ? bytes : 0,
		.receiver_bytes = file ? 0 : bytes,
		.host_staging_bytes = (bytes < n * chunk ? bytes : n * chunk) *
		    legs,
		.request_slots = 1, .staging_slots = (uint32_t)n * legs,
		.consumer_slots = far, .qp_slots = qp, .cq_slots = qp,
	};
}

#endif
