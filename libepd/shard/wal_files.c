/* wal_files.c - which files a log has, and clearing away those it needs no more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "shard/wal_in.h"

void
epd_wal_name(char name[EPD_WAL_NAME], uint32_t segment)
{
	snprintf(name, EPD_WAL_NAME, "log.%08u", segment);
}

int
epd_wal_exists(const struct epd_wal *w, const char *name)
{
	return !faccessat(w->dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

struct range {
	uint32_t first, last;
};

/* The number a name gives, 0 if it is no segment's. */
static uint32_t
number(const char *name)
{
	char mine[EPD_WAL_NAME];
	uint32_t n = 0;

	if (strncmp(name, "log.", 4) || strlen(name) != 12)
		return 0;
	for (int i = 4; name[i] >= '0' && name[i] <= '9'; i++)
		n = n * 10 + (uint32_t)(name[i] - '0');
	epd_wal_name(mine, n);
	return strcmp(mine, name) ? 0 : n;
}

static int
widen(void *arg, const char *name)
{
	struct range *r = arg;
	uint32_t n = number(name);

	if (!n)
		return 0;
	if (!r->first || n < r->first)
		r->first = n;
	if (n > r->last)
		r->last = n;
	return 0;
}

int
epd_wal_range(int dirfd, uint32_t *first, uint32_t *last)
{
	struct range r = { 0, 0 };
	char name[EPD_WAL_NAME];
	int rc = epd_dir_each(dirfd, widen, &r);
	uint32_t n = r.last;

	if (rc)
		return rc;
	if (!n)
		return -ENOENT;
	/* A sweep that was cut short may have left some with gaps below. */
	for (; n > r.first; n--) {
		epd_wal_name(name, n - 1);
		if (faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW))
			break;
	}
	*first = n;
	*last = r.last;
	return 0;
}

struct sweep {
	int dirfd;
	uint32_t first;
};

static int
sweep_one(void *arg, const char *name)
{
	const struct sweep *s = arg;
	uint32_t n = number(name);

	if (!epd_is_temp(name) && (!n || n >= s->first))
		return 0;
	return unlinkat(s->dirfd, name, 0) < 0 ? -errno : 0;
}

int
epd_wal_sweep(struct epd_wal *w, uint32_t first)
{
	struct sweep s = { w->dirfd, first };

	return epd_dir_each(w->dirfd, sweep_one, &s);
}
