/* target.c - the workflow that a state is handed to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "flow/node.h"
#include "flow/target.h"

/* Whether the path that a person gave leads to this store. */
static int
is_here(const struct epd_store *s, const char *path)
{
	char *real = realpath(path, NULL);
	int here = real && !strcmp(real, s->path);

	free(real);
	return here;
}

uint64_t
epd_offer_end(const struct epd_store *s, const struct epd_offer *o)
{
	const uint64_t ms = o->timeout_ms ? o->timeout_ms :
	    (uint64_t)s->config.handoff_ms;

	return o->end_ns ? o->end_ns : epd_clock_boot_ns() +
	    ms * UINT64_C(1000000);
}

/* A workflow at a peer's. */
static int
make_there(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *dst, struct epd_why *why)
{
	const uint64_t end = epd_offer_end(s, o);
	int rc = epd_node_open(&dst->node, s, o->store, end, why);

	if (rc < 0)
		return rc;
	dst->end_ns = end;
	memcpy(dst->home, epd_node_facts(dst->node)->uuid, 16);
	if (!memcmp(dst->home, s->uuid, 16))
		return epd_why(why, EPD_EUSAGE, "that is this store's own "
		    "server");
	epd_half_place(dst, o->store, "");
	return epd_node_make(dst->node, o->workflow, dst->workflow, dst->uuid,
	    end, why);
}

int
epd_target_make(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *dst, struct epd_why *why)
{
	const struct epd_store_options other = {
		.path = o->store, .config = &s->config, .tenant = s->tenant,
		.log = s->log, .create = 1,
	};
	char name[EPD_WORKFLOW];
	int rc = 0;

	if (o->store && strstr(o->store, "://") &&
	    !epd_node_is_address(o->store)) {
		*dst = (struct epd_half){ .w = { .dirfd = -1, .runs = -1 } };
		return epd_why(why, EPD_EUSAGE, "%.80s: a peer is "
		    "tcp://HOST:PORT or unix:///PATH", o->store);
	}
	*dst = (struct epd_half){ .near = 1 };
	epd_half_place(dst, s->path, "");
	if (o->store && epd_node_is_address(o->store)) {
		dst->near = 0;
		return make_there(s, o, dst, why);
	}
	dst->s = s;
	if (o->store && !is_here(s, o->store)) {
		dst->near = 0;
		rc = epd_store_open(&dst->s, &other, why);
	}
	if (rc < 0) {
		dst->s = NULL;
		return rc;
	}
	rc = epd_workflow_make(dst->s, o->workflow, name, why);
	if (rc == 0)
		rc = epd_workflow_open(&dst->w, dst->s, name, 0, why);
	if (rc < 0)
		return rc;
	epd_shard_uuid(dst->w.shard, dst->uuid);
	memcpy(dst->home, dst->s->uuid, 16);
	memcpy(dst->workflow, name, sizeof dst->workflow);
	snprintf(dst->store, sizeof dst->store, "%s", dst->s->path);
	return 0;
}

void
epd_target_drop(struct epd_half *dst, int unmade)
{
	if (unmade && dst->node)
		(void)epd_half_unmake(dst);
	if (unmade && dst->s)
		(void)epd_workflow_unmake(dst->s, &dst->w);
	epd_node_close(dst->node);
	epd_workflow_close(&dst->w);
	if (!dst->near)
		epd_store_close(dst->s);
}
