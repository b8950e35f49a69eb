/* abort.c - giving a state up, which is done by command only. */
#include "flow/handoff.h"
#include "flow/reach.h"
#include "flow/view.h"

int
epd_flow_abort(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why)
{
	struct epd_workflow w;
	int rc;

	if (ref->kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	if (ref->version)
		return epd_why(why, EPD_EUSAGE, "a version goes with its "
		    "state; abort the state");
	if ((rc = epd_workflow_open(&w, s, ref->workflow, 0, why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &w);
	rc = epd_reach_ended(&w, ref->state, epd_shard_abort(w.shard,
	    ref->state, reason, why), why);
	epd_log(&s->log, "op=abort workflow=%s state=%u rc=%d", ref->workflow,
	    ref->state, rc);
	epd_workflow_close(&w);
	return rc;
}
