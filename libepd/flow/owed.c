/*
 * owed.c - leases that could not be given back when their work ended: the disk
 * was full, or failing.  While their process lives they would stand until their
 * time is over, so it is tried again when the store is next decoded in, and when
 * it is closed.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/inner.h"

struct epd_owed {
	char workflow[EPD_WORKFLOW];
	struct epd_lease lease;
	uint64_t after;
};

enum { FRAME = 2 };	/* records that taking a lease writes at most */

int
epd_store_owe_room(struct epd_store *s, size_t n)
{
	void *p;

	if (s->nowed + n <= s->owed_room)
		return 0;
	if (!(p = epd_realloc(s->owed, (s->nowed + n) * sizeof *s->owed)))
		return -ENOMEM;
	s->owed = p;
	s->owed_room = s->nowed + n;
	return 0;
}

void
epd_store_owe(struct epd_store *s, const char *workflow,
    const struct epd_lease *lease, uint64_t after)
{
	/* Then its time has to pass. */
	if (epd_store_owe_room(s, 1) < 0)
		return;
	s->owed[s->nowed] = (struct epd_owed){
		.lease = *lease, .after = after,
	};
	memcpy(s->owed[s->nowed++].workflow, workflow, EPD_WORKFLOW);
}

/* The lease that a record made whose writer was not told its number; or 0. */
static uint64_t
unsure(struct epd_store *s, struct epd_shard *shard, const struct epd_owed *o)
{
	const struct epd_proc *self = epd_procs_self(s->procs);
	struct epd_lease l = { .id = o->after };

	while (epd_shard_lease_next(shard, l.id, &l) == 0 &&
	    l.id <= o->after + FRAME)
		if (l.state == o->lease.state && l.kind == o->lease.kind &&
		    l.holder.pid == self->pid && l.holder.start == self->start)
			return l.id;
	return 0;
}

static int
give_back(struct epd_store *s, const struct epd_owed *o)
{
	uint64_t lease = o->lease.id;
	struct epd_workflow w;
	int rc;

	/* Its lock is asked for once, and never waited for. */
	memcpy(s->vain.workflow, o->workflow, EPD_WORKFLOW);
	s->vain.n = UINT_MAX;
	rc = epd_workflow_open(&w, s, o->workflow, 0, NULL);
	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : rc;
	if (!lease)
		lease = unsure(s, w.shard, o);
	if (lease)
		rc = epd_shard_drop(w.shard, lease, "given back late", NULL);
	epd_workflow_close(&w);
	return rc;
}

void
epd_store_settle(struct epd_store *s)
{
	const struct epd_vain vain = s->vain;
	size_t n = 0;

	for (size_t i = 0; i < s->nowed; i++)
		if (give_back(s, s->owed + i) < 0)
			s->owed[n++] = s->owed[i];
	s->vain = vain;
	s->nowed = n;
	if (n == 0) {
		epd_free(s->owed);
		s->owed = NULL;
		s->owed_room = 0;
	}
}
