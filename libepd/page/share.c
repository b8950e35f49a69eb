/* share.c - a run's file handed from one store to another. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page/layout.h"

int
epd_run_file(int dirfd, uint64_t run)
{
	char name[EPD_RUN_NAME];

	epd_run_format(name, run);
	return epd_file_open(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
}

uint64_t
epd_run_at(const struct epd_run *r, long i)
{
	return EPD_RUN_ALIGN + (uint64_t)(r->first + i) * r->stride;
}

/* A file that another may still write, or cut, is none to map. */
static int
is_settled(int fd)
{
	uint8_t b[EPD_RUN_ALIGN];
	struct epd_run_head h;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 0222))
		return -EPERM;
	if (epd_file_pread(fd, b, sizeof b, 0) != (ssize_t)sizeof b)
		return EPD_ECORRUPT;
	return epd_run_head_unpack(&h, b, (uint64_t)st.st_size, NULL);
}

int
epd_run_adopt(int fd, int dirfd, uint64_t as)
{
	char name[EPD_RUN_NAME], path[40];
	int rc = is_settled(fd);

	if (rc < 0)
		return rc;
	epd_run_format(name, as);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, dirfd, name, AT_SYMLINK_FOLLOW) ?
	    -errno : 0;
}

void
epd_run_shape_of(const struct epd_run *r, struct epd_run_shape *out)
{
	*out = r->shape;
}
