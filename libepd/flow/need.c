/* need.c - the pictures that live states show. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/need.h"

struct shown {
	struct epd_need *need;
	struct epd_shard *s;
};

static int
add(void *arg, uint64_t node)
{
	const struct shown *x = arg;
	struct epd_need *need = x->need;
	struct epd_glance few;
	struct epd_version v;
	int rc = epd_shard_glance(x->s, node, &few);

	if (rc < 0 || !few.nimages)
		return rc;
	rc = epd_shard_node(x->s, node, &v);
	for (uint32_t i = 0; rc == 0 && i < v.nimages; i++) {
		void *p = epd_grow(need->v, need->n, &need->cap,
		    sizeof *need->v);

		if (!p)
			return -ENOMEM;
		need->v = p;
		need->v[need->n++] = v.images[i].fp;
	}
	return rc;
}

int
epd_need_of(struct epd_need *need, struct epd_shard *s)
{
	struct shown x = { need, s };

	return epd_live_each(s, add, &x);
}

int
epd_need_add(struct epd_need *need, struct epd_store *s, const char *name,
    struct epd_why *why)
{
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, s, name, 1, why);

	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : rc;
	rc = epd_need_of(need, w.shard);
	epd_workflow_close(&w);
	return rc;
}

static int
by_name(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct epd_name));
}

void
epd_need_sort(struct epd_need *need)
{
	if (need->n)
		qsort(need->v, need->n, sizeof *need->v, by_name);
}

int
epd_need_has(const struct epd_need *need, const struct epd_name *fp)
{
	return need->all || (need->n && bsearch(fp, need->v, need->n,
	    sizeof *need->v, by_name));
}

void
epd_need_free(struct epd_need *need)
{
	epd_free(need->v);
	*need = (struct epd_need){ .all = 0 };
}
