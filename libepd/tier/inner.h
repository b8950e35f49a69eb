/* inner.h - what the files of this room share; not for outsiders. */
#ifndef EPD_TIER_INNER_H
#define EPD_TIER_INNER_H

#include "tier/tier.h"

struct epd_memory {
	int parent;		/* where the folder lies */
	int w;			/* its w/ */
	uint64_t cap;
	char *store_path;
	char name[40];		/* the folder's: epd-UUIDHEX */
};

/* Bytes of all files in the folders of w/. */
int epd_memory_measure(int w, uint64_t *bytes);

#endif
