/*
 * file.h - whole reads and writes beneath a directory, EINTR retried, short
 * transfers finished, symbolic links refused.  Paths are relative to dirfd and
 * may not leave it (openat2 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS).
 * Functions return 0 or a count, or -errno; file descriptors are O_CLOEXEC.
 */
#ifndef EPD_BASE_FILE_H
#define EPD_BASE_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"

int epd_file_open(int dirfd, const char *path, int flags, mode_t mode);
/*
 * As above, but links and .. are followed wherever they lead without leaving
 * dirfd's mount (RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS); nothing is made.  A
 * kernel that cannot is -ENOSYS.
 */
int epd_file_open_within(int dirfd, const char *path, int flags);
/* Make the directory (mode 0700) and those above it as needed; open it. */
int epd_dir_make(int dirfd, const char *path);
/*
 * Open the directory a person named, from / or the current one, links and ..
 * followed; make what is missing of it if asked.
 */
int epd_dir_root(const char *path, int make);
/*
 * 1 if dirfd's file system is mounted as type ("fuse.x"), told without asking who
 * serves it; 0 if not, or if it cannot be told.
 */
int epd_dir_is(int dirfd, const char *type);
/* A file system that cannot flush directories counts as having done so. */
int epd_dir_sync(int dirfd);
/* Open the directory path's last component is in, and point at that. */
int epd_file_split(int dirfd, const char *path, const char **name);

/* n bytes at off; fewer at the end of the file.  A count or -errno. */
ssize_t epd_file_pread(int fd, void *p, size_t n, uint64_t off);
int epd_file_pwrite(int fd, const void *p, size_t n, uint64_t off);
int epd_file_datasync(int fd);

/*
 * Read a whole regular file of at most max bytes into out, replacing it; on
 * failure out is as before.  Fails: EPD_ETOOBIG, -EISDIR, -EINVAL (another
 * kind of file), -errno.
 */
int epd_file_read(int dirfd, const char *path, size_t max, struct epd_buf *out);
/* As above from any descriptor, pipes too. */
int epd_file_slurp(int fd, size_t max, struct epd_buf *out);

/*
 * Replace path by the bytes of all parts: a temporary (mode 0600) beside it,
 * flushed, renamed, the directory flushed; sync 0 leaves the flushes out.
 * Fails: -errno: the old file stands and the temporary is gone.
 *        EPD_EUNSURE: the new file stands, but a crash may bring back the old.
 */
int epd_file_replace(int dirfd, const char *path, const struct epd_span *parts,
    int n, int sync);

/*
 * Make and open (O_RDWR, mode 0600) a temporary in dir.  A killed process may
 * leave some: any name that begins so is free to sweep once its maker is dead.
 */
#define EPD_TEMP_PREFIX ".tmp."
enum { EPD_TEMP = sizeof EPD_TEMP_PREFIX + 16 };
int epd_file_temp(int dir, char name[EPD_TEMP]);
int epd_is_temp(const char *name);

/* Call fn for each entry but . and ..; a nonzero return stops and is returned. */
int epd_dir_each(int dirfd, int (*fn)(void *arg, const char *name), void *arg);
/* Remove path, and if it is a directory all beneath it.  Absent is fine. */
int epd_file_remove(int dirfd, const char *path);

/* Whether fd, which is closed (-1: it is not), is the folder st is of, or lies in it. */
struct stat;
int epd_file_lies_in(int fd, const struct stat *st);

/* For who has many files open at once: as many as this process may have. */
void epd_file_limit(void);

#endif
