/* pieces.c - which of a version's pages lie in which run. */
#include "base/alloc.h"
#include "flow/runs.h"

uint64_t
epd_version_run(const struct epd_version *v, uint32_t i)
{
	return i < v->nlinks ? v->links[i].run : v->run;
}

uint32_t
epd_version_pages(const struct epd_version *v, uint32_t i)
{
	uint32_t left = v->npages;

	if (i < v->nlinks)
		return v->links[i].pages;
	for (uint32_t k = 0; k < v->nlinks; k++)
		left -= v->links[k].pages;
	return left;
}

uint64_t
epd_version_where(const struct epd_version *v, uint32_t k)
{
	for (uint32_t i = 0; i < v->nlinks; i++) {
		if (k < v->links[i].pages)
			return v->links[i].run;
		k -= v->links[i].pages;
	}
	return v->run;
}

struct epd_page_entry *
epd_version_entries(const struct epd_version *v)
{
	struct epd_page_entry *e = epd_calloc(v->npages + 1u, sizeof *e);

	for (uint32_t i = 0; e && i < v->npages; i++)
		e[i] = (struct epd_page_entry){
			.name = v->pages[i].name,
			.rows = v->pages[i].rows,
			.sum = v->pages[i].sum,
		};
	return e;
}
