/*
 * node.h - what the kernel knows by number.  A node's number comes from its path,
 * so it is the same at every mount; it lives as long as the kernel, or a
 * node beneath it, needs it.  All under the caller's lock.
 */
#ifndef EPD_FS_NODE_H
#define EPD_FS_NODE_H

#include "fs/kind.h"

/* Lists that a node may be on. */
enum epd_fs_list {
	EPD_FS_KEPT,			/* the kernel keeps its attributes */
	EPD_FS_TOUCHED,			/* inotify is to speak of it */
	EPD_FS_LISTS
};

struct epd_fs_node {
	uint64_t ino;
	struct epd_fs_node *next;	/* of the same bucket */
	struct epd_fs_node *up;		/* the directory it is in; NULL: the root */
	struct {
		struct epd_fs_node *next, **at;	/* at NULL: not on it */
	} in[EPD_FS_LISTS];
	uint64_t lookups;		/* the kernel's, not yet forgotten */
	uint32_t below;			/* nodes whose up this is */
	uint32_t opens;
	struct epd_fs_at at;
	uint64_t until_ns;		/* the kernel may show its attributes so long */
	int untold, gone;		/* when last asked: its size could not be
					   told; it is only there while it is open */
	uint64_t shown, seen;		/* a number of what it showed when last
					   touched, as of a stamp */
	uint64_t stamp, size;		/* size as of a stamp of what it shows; 0: none */
	uint64_t bytes, changed_ms;	/* as it was told last */
	char name[];
};

struct epd_fs_nodes {
	struct epd_fs_node **bucket;
	size_t buckets, n;
	struct epd_fs_node *list[EPD_FS_LISTS];
};
/* Makes the root, number 1.  -ENOMEM. */
int epd_fs_nodes_open(struct epd_fs_nodes *t);
void epd_fs_nodes_close(struct epd_fs_nodes *t);
/* The node of that number, or NULL. */
struct epd_fs_node *epd_fs_node(const struct epd_fs_nodes *t, uint64_t ino);
/*
 * The node of a name in up, made if need be; at is what it shows now.  Looked up
 * once more.  NULL: no memory.
 */
struct epd_fs_node *epd_fs_node_take(struct epd_fs_nodes *t,
    struct epd_fs_node *up, const char *name, const struct epd_fs_at *at);
/* The number that it has or would have. */
uint64_t epd_fs_node_number(const struct epd_fs_nodes *t,
    const struct epd_fs_node *up, const char *name,
    const struct epd_fs_at *at);
/* The kernel forgets n of its lookups. */
void epd_fs_node_drop(struct epd_fs_nodes *t, struct epd_fs_node *n,
    uint64_t lookups);
/* On a list from now on, or no more; the nodes of it are list[] and in[].next. */
void epd_fs_node_enlist(struct epd_fs_nodes *t, struct epd_fs_node *n,
    enum epd_fs_list which);
void epd_fs_node_unlist(struct epd_fs_node *n, enum epd_fs_list which);

#endif
