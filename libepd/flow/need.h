/* need.h - the pictures that live states show.  Not for outsiders. */
#ifndef EPD_FLOW_NEED_H
#define EPD_FLOW_NEED_H

#include "flow/store.h"

struct epd_need {
	struct epd_name *v;
	size_t n, cap;
	int all;		/* a workflow cannot be read: any may be needed */
};
/* Add those of every node that a live state of the workflow stands on.  -ENOMEM, -errno. */
int epd_need_of(struct epd_need *need, struct epd_shard *s);
/* The same by its name; one that was never begun needs none. */
int epd_need_add(struct epd_need *need, struct epd_store *s, const char *name,
    struct epd_why *why);
/* When all were added. */
void epd_need_sort(struct epd_need *need);
int epd_need_has(const struct epd_need *need, const struct epd_name *fp);
void epd_need_free(struct epd_need *need);

#endif
