/*
 * owed.c - leases that could not be given back when their work ended: the disk
 * was full, or failing.  While their process lives they would stand until their
 * time is over, so it is tried again when the store is next decoded in, and when
 * it is closed.
 */
#include <string.h>

#include "base/alloc.h"
#include "flow/inner.h"

struct epd_owed {
	char workflow[EPD_WORKFLOW];
	uint64_t lease;
};

void
epd_store_owe(struct epd_store *s, const char *workflow, uint64_t lease)
{
	void *p = epd_realloc(s->owed, (s->nowed + 1) * sizeof *s->owed);

	/* Then its time has to pass. */
	if (!p)
		return;
	s->owed = p;
	s->owed[s->nowed] = (struct epd_owed){ .lease = lease };
	memcpy(s->owed[s->nowed++].workflow, workflow, EPD_WORKFLOW);
}

static int
give_back(struct epd_store *s, const struct epd_owed *o)
{
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, s, o->workflow, 0, NULL);

	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : rc;
	rc = epd_shard_drop(w.shard, o->lease, "given back late", NULL);
	epd_workflow_close(&w);
	return rc;
}

void
epd_store_settle(struct epd_store *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nowed; i++)
		if (give_back(s, s->owed + i) < 0)
			s->owed[n++] = s->owed[i];
	s->nowed = n;
	if (n == 0) {
		epd_free(s->owed);
		s->owed = NULL;
	}
}
