/* map.h - what shm's two ends agree on of MAP's answer; serve_map.c draws it. */
#ifndef TRANSPORT_MAP_H
#define TRANSPORT_MAP_H

#include <stdint.h>

#define EPD_MAP_NONE UINT32_MAX		/* for a file: memory alone */

enum {
	EPD_MAP_HEAD = 12, EPD_MAP_EACH = 20,
	EPD_MAP_MOST = 4096,		/* extents in an answer */
	EPD_MAP_EXTENTS = 1 << 20,	/* that a client takes of a window */
};

#endif
