/* parcel.c - as a create record has it, without its number. */
#include <errno.h>
#include <string.h>

#include "shard/parcel.h"
#include "shard/record.h"

void
epd_parcel_pack(struct epd_buf *b, const struct epd_state *traits,
    const struct epd_version *v)
{
	epd_create_put(b, 0, traits, v);
}

static int
open_parcel(struct epd_parcel *p, struct epd_span bytes, struct epd_why *why)
{
	struct epd_create c;
	struct epd_glance g;
	void *own = epd_arena_add(&p->arena, bytes.n);
	int rc;

	if (!own)
		return -ENOMEM;
	/* Strings are lent from it. */
	bytes.p = memcpy(own, bytes.p, bytes.n);
	rc = epd_create_unpack(bytes, &c);
	if (rc < 0)
		return rc;
	if (c.id || !c.state.page_tokens || !c.state.page_bytes)
		return EPD_ECORRUPT;
	rc = epd_body_check(c.body, c.state.page_tokens, 0, &g, why);
	if (rc == -EINVAL)
		rc = EPD_ECORRUPT;
	if (rc == 0)
		rc = epd_body_unpack(c.body, &p->arena, &p->v);
	p->traits = c.state;
	return rc;
}

int
epd_parcel_open(struct epd_parcel *out, struct epd_span bytes,
    struct epd_why *why)
{
	struct epd_parcel p = { .arena = {0} };
	int rc = open_parcel(&p, bytes, why);

	if (rc < 0) {
		epd_arena_free(&p.arena);
		return epd_why(why, rc, "a state's bytes: %s",
		    epd_strerror(rc));
	}
	*out = p;
	return 0;
}

void
epd_parcel_close(struct epd_parcel *p)
{
	epd_arena_free(&p->arena);
}
