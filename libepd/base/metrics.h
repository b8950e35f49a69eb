/*
 * metrics.h - counters that many short processes add up: one mapped file of
 * atomic 64-bit integers a store.  A reset at reboot is legal.  Without a file
 * (NULL) counting is a no-op.
 *
 * _ns entries are sums of nanoseconds and go with a count of the same stem;
 * gauges (states by status, pages) are not here: they are counted when asked.
 */
#ifndef EPD_BASE_METRICS_H
#define EPD_BASE_METRICS_H

#include <stdint.h>

#include "base/metric.h"

enum epd_metric {
#define X(id, group, name) EPD_M_##id,
	EPD_METRICS(X)
#undef X
	EPD_M_COUNT
};

struct epd_metrics;

/*
 * Map the file `metrics` in dirfd, making it if absent; one of another layout
 * or boot is begun anew.  Fails: -errno; counting is then best done without.
 * Owns: the caller owns *out.
 */
int epd_metrics_open(struct epd_metrics **out, int dirfd);
/*
 * A copy of the counters as they stand, for who may not write there; what is
 * counted in it is lost with it.  Zeros if the file is absent, or of another
 * layout or boot.  Fails: -EINVAL (no plain file), -ELOOP (a link), -EACCES,
 * -errno.
 */
int epd_metrics_read(struct epd_metrics **out, int dirfd);
void epd_metrics_close(struct epd_metrics *m);

void epd_count(struct epd_metrics *m, enum epd_metric id, uint64_t by);
void epd_count_max(struct epd_metrics *m, enum epd_metric id, uint64_t v);
uint64_t epd_metrics_get(const struct epd_metrics *m, enum epd_metric id);
void epd_metrics_reset(struct epd_metrics *m);
const char *epd_metric_name(enum epd_metric id);
const char *epd_metric_group(enum epd_metric id);

#endif
