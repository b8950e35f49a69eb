/* clone.c - a branch elsewhere: the way of a hand-off's pages, without a hand-off. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/clone.h"
#include "flow/pair.h"

#define MS UINT64_C(1000000)

static int
open_target(struct epd_pair *p, struct epd_store *s, const char *name,
    struct epd_why *why)
{
	char workflow[EPD_WORKFLOW];
	int rc = epd_workflow_make(s, name, workflow, why);

	if (rc < 0)
		return rc;
	epd_half_place(&p->dst, s->path, workflow);
	p->dst.s = s;
	p->dst.near = 1;
	rc = epd_workflow_open(&p->dst.w, s, workflow, 0, why);
	/* Once more, to take it away again if it is ours and empty. */
	if (rc < 0 && epd_workflow_open(&p->dst.w, s, workflow, 0, NULL) < 0)
		(void)unlinkat(s->workflows, workflow, AT_REMOVEDIR);
	return rc;
}

/* One in which nothing is, in the end, is taken away again. */
static void
leave_target(struct epd_pair *p, struct epd_store *s, int unmake)
{
	if (unmake && p->dst.w.dirfd >= 0)
		(void)epd_workflow_unmake(s, &p->dst.w);
	if (p->dst.w.dirfd >= 0)
		epd_workflow_close(&p->dst.w);
}

int
epd_flow_clone(struct epd_store *s, const struct epd_clone_ask *ask,
    struct epd_cloned *out, struct epd_why *why)
{
	const uint64_t from = epd_clock_boot_ns();
	struct epd_pair p = { .src = { .near = 0 } };
	struct epd_clone c = { .state = 0 };
	int rc;

	if (ask->from.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	epd_half_place(&p.src, ask->address, ask->from.workflow);
	p.dst.w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
	p.src.end_ns = ask->timeout_ms ? from + ask->timeout_ms * MS : 0;
	p.src.h.state = ask->from.state;
	p.src.h.version = ask->from.version;
	rc = epd_node_open(&p.src.node, s, ask->address, p.src.end_ns, why);
	if (rc == 0 && !memcmp(epd_node_facts(p.src.node)->uuid, s->uuid, 16))
		rc = epd_why(why, EPD_EUSAGE, "that is this store's own server");
	if (rc == 0)
		rc = open_target(&p, s, ask->workflow ? ask->workflow : "",
		    why);
	if (rc == 0)
		rc = epd_pair_clone(&p, &c, why);
	leave_target(&p, s, rc < 0 && rc != EPD_EUNSURE);
	epd_node_close(p.src.node);
	epd_log(&s->log, "op=clone node=%s from=%s/s%u to=%s/s%u rc=%d",
	    ask->address, ask->from.workflow, ask->from.state, p.dst.workflow,
	    c.state, rc);
	if (rc < 0)
		return rc;
	*out = (struct epd_cloned){ .state = c.state, .version = c.version,
		.linked = p.moved.linked, .copied = p.moved.copied,
		.missing = p.moved.missing, .bytes = p.moved.bytes,
		.ns = epd_clock_boot_ns() - from };
	memcpy(out->workflow, p.dst.workflow, sizeof out->workflow);
	return 0;
}
