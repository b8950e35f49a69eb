/*
 * share.h - a run's file as such: for who hands it to another store, and who is
 * handed one.  Outside this room include page/page.h.
 */
#ifndef EPD_PAGE_SHARE_H
#define EPD_PAGE_SHARE_H

#include <stdint.h>

#include "base/err.h"

struct epd_run;
struct epd_run_shape;

void epd_run_shape_of(const struct epd_run *r, struct epd_run_shape *out);
/* The file, for reading; the caller closes it.  -ENOENT, -errno. */
int epd_run_file(int dirfd, uint64_t run);
/* Where in the file page i of r begins. */
uint64_t epd_run_at(const struct epd_run *r, long i);

/*
 * Hard-link the file open at fd into dirfd under the id as.  It must be a run of
 * this user's that nobody may write, on dirfd's file system.
 * Fails: -EPERM, -EXDEV, -EEXIST, EPD_ECORRUPT (no run), -errno.
 */
int epd_run_adopt(int fd, int dirfd, uint64_t as);

#endif
