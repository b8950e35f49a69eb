/* group.h - threads of a handle that wait for one flush.  Not for outsiders. */
#ifndef EPD_SHARD_GROUP_H
#define EPD_SHARD_GROUP_H

#include <pthread.h>
#include <stdint.h>

/* All of it under the handle's mutex. */
struct epd_group {
	pthread_cond_t flushed;		/* a flush ended */
	pthread_cond_t gathered;	/* all who are waited for wait */
	int flushing;			/* a thread is at one */
	uint64_t begun, ended;		/* flushes */
	unsigned waiting;		/* threads that no ended one was for */
	unsigned late;			/* of them, come since the last began */
	unsigned company;		/* threads when the last ended */
	uint64_t flush_ns;		/* the last one took, 0 unknown */
};
void epd_group_init(struct epd_group *g);
void epd_group_free(struct epd_group *g);

#endif
