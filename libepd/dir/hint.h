/* hint.h - what the directory tells of.  Outside this room include dir/dir.h. */
#ifndef EPD_DIR_HINT_H
#define EPD_DIR_HINT_H

#include <stdint.h>

enum { EPD_HINT_KEY = 160, EPD_ADDRESS = 256, EPD_NODE_NAME = 64 };

/*           id       name      key: hexadecimal in lower case, and N decimal */
#define EPD_HINTS(X) \
	X(STATE,   "state",   "WORKFLOWUUIDHEX/sN") \
	X(PAGE,    "page",    "NAMEHEX") \
	X(FEATURE, "feature", "NAMEHEX")

enum epd_hint_kind {
	EPD_HINT_NONE,
#define X(id, name, key) EPD_HINT_##id,
	EPD_HINTS(X)
#undef X
};

struct epd_hint {
	enum epd_hint_kind kind;
	char key[EPD_HINT_KEY];
	uint8_t owner[16];	/* node: its store's UUID */
	char address[EPD_ADDRESS];	/* of its data server, "tcp://HOST:PORT" */
	char name[EPD_HINT_KEY];	/* what the owner calls it: "w1/s3"; "" of a page */
	uint32_t version;	/* of a state: its newest */
	uint64_t epoch;		/* of a state: lsn of its last change */
	uint64_t checksum;	/* of a page or feature; of a state, of its head's names */
	uint64_t lease_ms;	/* how long it is to stand without being renewed; 0: as its node */
	uint64_t wall_ms;	/* when it was put, for display alone */
	uint64_t age_ns;	/* out: since the reader knows it to have stood */
};

struct epd_node_info {
	uint8_t uuid[16];
	char name[EPD_NODE_NAME];	/* directory.node, or the host's */
	char address[EPD_ADDRESS];
	uint64_t wall_ms;
};

#endif
