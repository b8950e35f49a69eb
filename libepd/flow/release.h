/* release.h - runs unlinked as their nodes go.  Not for outsiders. */
#ifndef EPD_FLOW_RELEASE_H
#define EPD_FLOW_RELEASE_H

#include "flow/store.h"

struct epd_freeing {
	const struct epd_workflow *w;
	uint64_t runs, bytes;		/* unlinked in memory */
};
/* Unlink a run of a folder, counted if it was there.  -errno. */
int epd_run_take(int dir, uint64_t run, uint64_t *runs, uint64_t *bytes);
/* As a shard tells it (an epd_freeing): in memory and below. */
void epd_freed(void *arg, uint64_t run);

#endif
