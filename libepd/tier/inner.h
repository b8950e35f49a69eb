/* inner.h - what the files of this room share; not for outsiders. */
#ifndef EPD_TIER_INNER_H
#define EPD_TIER_INNER_H

#include "tier/tier.h"

/* "epd-UUIDHEX", or "epd-UUIDHEX-PLACE" for a copy of a store that lives. */
enum { EPD_MEMORY_NAME = 4 + 32 + 1 + 16 + 1 };

struct epd_memory {
	int parent;		/* where the folder lies */
	int dir;		/* the folder, or -1 */
	int w;			/* its w/, or -1 */
	int look;		/* it may not be changed */
	uint64_t cap;
	char *store_path;
	char name[EPD_MEMORY_NAME];	/* the folder's */
};

/* Whether it may be a workflow's folder. */
int epd_memory_name_ok(const char *s);
/* Bytes of all files in the folders of w/. */
int epd_memory_measure(int w, uint64_t *bytes);
/* Bytes of those that have no name elsewhere: what removing them gives back. */
int epd_memory_alone(int w, uint64_t *bytes);
/* Bytes that the index in a memory folder takes up. */
uint64_t epd_index_measure(int dir);

#endif
