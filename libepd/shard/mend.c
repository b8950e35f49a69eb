/* mend.c - what a sweep puts right: a log's torn tail, and its checkpoint. */
#include <errno.h>

#include "shard/checkpoint.h"
#include "shard/shard_in.h"
#include "shard/wal_in.h"

int
epd_shard_trim(struct epd_shard *s, uint64_t *bytes, struct epd_why *why)
{
	int rc = epd_shard_begin(s, why);
	uint64_t n;

	if (rc)
		return rc;
	n = s->wal->torn;
	rc = epd_shard_end(s, epd_wal_trim(s->wal, why), why);
	if (!rc)
		*bytes = n;
	return rc;
}

/* Its index, and each body that it has. */
static int
look(struct epd_shard *s)
{
	const struct epd_node *n = NULL;
	struct epd_table *t;
	struct epd_span bytes;
	uint32_t segment;
	uint64_t size;
	int rc = epd_checkpoint_read(s->dirfd, &t, &segment, &size, NULL);

	if (rc)
		return rc;
	while (!rc && (n = epd_tree_next(t->tree, n ? n->id : 0)))
		rc = epd_table_body(t, n->body, &bytes);
	epd_table_free(t);
	return rc;
}

int
epd_shard_mend(struct epd_shard *s, struct epd_why *why)
{
	int rc = look(s);

	if (rc != EPD_ECORRUPT)
		return 0;
	rc = epd_shard_checkpoint(s, why);
	if (rc == EPD_ECORRUPT)
		return epd_why(why, rc, "checkpoint: damaged, and the log has "
		    "no more what was in it");
	return rc ? rc : 1;
}
