/* view_tier.c - what the tiers of this machine hold. */
#include <errno.h>
#include <unistd.h>

#include "flow/packs.h"
#include "flow/tiers.h"
#include "page/page.h"

struct counting {
	struct epd_memory *m;
	uint64_t runs;
};

static int
add_run(void *arg, uint64_t run, uint64_t bytes)
{
	struct counting *c = arg;

	(void)run;
	(void)bytes;
	c->runs++;
	return 0;
}

static int
add_folder(void *arg, const char *workflow)
{
	struct counting *c = arg;
	int dir = epd_memory_find(c->m, workflow);

	if (dir >= 0) {
		(void)epd_run_each(dir, add_run, c);
		close(dir);
	}
	return 0;
}

int
epd_view_tier(struct epd_store *s, enum epd_tier tier, int used,
    struct epd_tier_sight *out)
{
	struct counting c = { .m = tier == EPD_TIER_CPU ? s->memory :
	    tier == EPD_TIER_NVME ? epd_store_disk(s, 0) : NULL };
	struct epd_tier_sight sight = { .used = 0 };
	int rc = c.m ? 0 : -ENOENT;

	if (rc == 0)
		sight.cap = epd_memory_cap(c.m);
	if (rc == 0 && used)
		rc = epd_memory_used(c.m, &sight.used);
	if (rc == 0 && used)
		rc = epd_memory_each(c.m, add_folder, &c);
	sight.runs = c.runs;
	if (rc == 0)
		*out = sight;
	return rc;
}

int
epd_view_packs(struct epd_store *s, const char *workflow, uint64_t **run,
    size_t *n)
{
	struct epd_run_ids ids = { .n = 0 };
	int rc = epd_packs_list(&ids, s, workflow);

	if (rc < 0) {
		epd_run_ids_free(&ids);
		return rc;
	}
	*run = ids.v;
	*n = ids.n;
	return 0;
}
