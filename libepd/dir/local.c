/* local.c - the back end of one node: what it told of is all there is. */
#include "dir/memory.h"

#include <errno.h>

static int
local_tell(struct epd_dir *d, const char *path, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_map_node *n;

	(void)deadline_ns;
	(void)why;
	pthread_mutex_lock(&d->lock);
	n = epd_map_get(&d->told, path);
	if (n && ((struct epd_told *)(void *)n)->gone)
		epd_told_drop(d, (struct epd_told *)(void *)n);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

static int
local_find(struct epd_dir *d, const char *path, int again,
    struct epd_hint *out, int max, uint64_t deadline_ns, struct epd_why *why)
{
	int n;

	(void)again;
	(void)deadline_ns;
	(void)why;
	pthread_mutex_lock(&d->lock);
	n = epd_told_find(d, path, out, max);
	pthread_mutex_unlock(&d->lock);
	return n;
}

static int
local_nodes(struct epd_dir *d,
    int (*fn)(void *arg, const struct epd_node_info *n), void *arg,
    uint64_t deadline_ns, struct epd_why *why)
{
	(void)deadline_ns;
	(void)why;
	return *d->o.self.address ? fn(arg, &d->o.self) : 0;
}

static int
local_claim(struct epd_dir *d, const uint8_t workflow[16], uint64_t least,
    uint64_t *term, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_claim *c;
	int rc = 0;

	(void)deadline_ns;
	pthread_mutex_lock(&d->lock);
	c = epd_claim_of(d, workflow, 1);
	if (!c) {
		rc = -ENOMEM;
	} else if (!c->held || c->term < least) {
		if (c->term == UINT64_MAX)
			rc = epd_why(why, EPD_ETOOBIG, "no term is left");
		else
			c->term = c->term + 1 > least ? c->term + 1 : least;
	}
	if (!rc) {
		c->held = 1;
		*term = c->term;
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int
local_owner(struct epd_dir *d, const uint8_t workflow[16],
    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
    struct epd_why *why)
{
	const struct epd_claim *c;
	int n;

	(void)deadline_ns;
	(void)why;
	pthread_mutex_lock(&d->lock);
	c = epd_claim_of(d, workflow, 0);
	n = c && c->held;
	if (n) {
		*out = d->o.self;
		*term = c->term;
	}
	pthread_mutex_unlock(&d->lock);
	return n;
}

static int
local_disclaim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_claim *c;

	(void)deadline_ns;
	(void)why;
	pthread_mutex_lock(&d->lock);
	c = epd_claim_of(d, workflow, 0);
	if (c)
		c->held = 0;
	pthread_mutex_unlock(&d->lock);
	return 0;
}

const struct epd_dir_backend epd_dir_local = {
	.name = "local", .tell = local_tell, .find = local_find,
	.nodes = local_nodes, .claim = local_claim, .owner = local_owner,
	.disclaim = local_disclaim,
};
