/* backend.c - names of backends, media and priorities. */
#include "base/backend.h"

#include <errno.h>
#include <string.h>

static const char *const backends[EPD_VIA_COUNT] = {
	"none",
#define X(id, name) name,
	EPD_BACKENDS(X)
#undef X
};

static const char *const media[EPD_IN_COUNT] = {
	"none",
#define X(id, name) name,
	EPD_MEDIA(X)
#undef X
};

static const char *const priorities[] = { "low", "normal", "high" };

/* Place of name among n of them; -EINVAL. */
static int
find(const char *const *list, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i], name))
			return i;
	return -EINVAL;
}

const char *
epd_backend_name(enum epd_backend b)
{
	return backends[(unsigned)b < EPD_VIA_COUNT ? b : EPD_VIA_NONE];
}

enum epd_backend
epd_backend_parse(const char *name)
{
	const int i = find(backends, EPD_VIA_COUNT, name);

	return i < 0 ? EPD_VIA_NONE : (enum epd_backend)i;
}

const char *
epd_medium_name(enum epd_medium m)
{
	return media[(unsigned)m < EPD_IN_COUNT ? m : EPD_IN_NONE];
}

enum epd_medium
epd_medium_parse(const char *name)
{
	const int i = find(media, EPD_IN_COUNT, name);

	return i < 0 ? EPD_IN_NONE : (enum epd_medium)i;
}

const char *
epd_priority_name(enum epd_priority p)
{
	return (unsigned)p < 3 ? priorities[p] : "?";
}

int
epd_priority_parse(const char *name)
{
	return find(priorities, 3, name);
}
