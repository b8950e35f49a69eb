/* nvme_in.h - the nvme tier's handle; for its own files. */
#ifndef EPD_TIER_NVME_IN_H
#define EPD_TIER_NVME_IN_H

#include "tier/nvme.h"
#include "tier/pack.h"
#include "tier/ring.h"
#include "tier/tier.h"

struct epd_nvme {
	EPD_LOWER_OPS;
	struct epd_nvme_options o;
	struct epd_ring *ring;		/* made when first needed, for pages so large */
	/* What was seen here, of 2^20 bytes each: 0 nothing yet. */
	uint64_t disk_ns, zstd_ns;
};

/* A ring whose slots hold an object of this shape and more.  -ENOMEM. */
int epd_nvme_ring(struct epd_nvme *v, const struct epd_run_shape *shape);
/* Have the file's bytes go by the disk alone, where that can be. */
void epd_nvme_direct(int fd);
int epd_nvme_put(struct epd_lower *l, const struct epd_lot *lot,
    const void *const *page, uint64_t deadline_ns, struct epd_why *why);
long epd_nvme_get(struct epd_lower *l, const struct epd_lot *lot,
    void *const *out, uint8_t *had, uint64_t deadline_ns, struct epd_why *why);
/* The lot's pack, opened for reading, or -ENOENT, -errno. */
int epd_nvme_file(const struct epd_nvme *v, const struct epd_lot *lot, int *dir);

#endif
