/*
 * ended.c - whether a state goes on.  Apart from reach.c, which loads: a command
 * that only asks links no engine.
 */
#include <errno.h>

#include "flow/reach.h"

int
epd_reach_on(const struct epd_workflow *w, const struct epd_state *st,
    struct epd_why *why)
{
	if (st->status == EPD_ABORTED)
		return epd_why(why, -EPERM, "%s/s%u: it is ABORTED, and can "
		    "only be released", w->name, st->id);
	if (st->status != EPD_ACTIVE && st->status != EPD_SUSPECT)
		return epd_why(why, EPD_ESTATUS, "%s/s%u: it is %s", w->name,
		    st->id, epd_status_name(st->status));
	return 0;
}

int
epd_reach_ended(const struct epd_workflow *w, uint32_t state, int rc,
    struct epd_why *why)
{
	struct epd_state st;

	return rc == EPD_ESTATUS &&
	    epd_shard_state(w->shard, state, &st) == 0 &&
	    st.status == EPD_ABORTED ? epd_reach_on(w, &st, why) : rc;
}
