/*
 * unmake.c - a workflow's folder is emptied, if nothing ever came of it.
 *
 * Whoever is in it waits for the lock before he begins a log or appends.  The
 * log goes first: one who died here leaves a folder in which a log may be begun,
 * not one with half of one.  The lock's name goes last: till then nobody has
 * another lock, and who had this one sees that it has no name (shard.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "shard/shard_in.h"
#include "shard/wal_in.h"

/* With the lock: 1 if the log has a record, or once had one. */
static int
has_record(int dirfd, struct epd_why *why)
{
	uint32_t first, last;
	struct epd_wal *w;
	int rc = epd_wal_open(&w, dirfd, 0, NULL);

	if (rc)
		return rc;
	rc = epd_wal_seek(w, 1, 0, why);
	if (!rc) {
		rc = epd_wal_adopt(w, epd_wal_pass, NULL, why);
		if (!rc)
			rc = epd_wal_pos(w)->lsn > 0;
	} else if (rc == -ENOENT) {
		rc = epd_wal_range(dirfd, &first, &last);
		if (rc == -ENOENT)
			rc = epd_wal_exists(w, "checkpoint") ? 1 :
			    epd_wal_lost(w, why);
		else if (!rc)
			rc = 1;
	}
	epd_wal_close(w);
	return rc;
}

static int
clear(void *arg, const char *name)
{
	const int *dirfd = arg;

	return strcmp(name, "lock") ? epd_file_remove(*dirfd, name) : 0;
}

static int
empty(int dirfd, void (*also)(void *arg), void *arg)
{
	char log[EPD_WAL_NAME];
	int rc;

	epd_wal_name(log, 1);
	rc = epd_file_remove(dirfd, log);
	if (rc)
		return rc;
	also(arg);
	rc = epd_dir_each(dirfd, clear, &dirfd);
	if (!rc && unlinkat(dirfd, "lock", 0) < 0)
		rc = -errno;
	return rc;
}

int
epd_shard_unmake(int dirfd, void (*also)(void *arg), void *arg,
    struct epd_why *why)
{
	int lock = epd_file_open(dirfd, "lock", O_RDWR | O_CREAT | O_NONBLOCK,
	    0600), rc;

	if (lock < 0)
		return epd_why(why, lock, "lock: %s", epd_strerror(lock));
	rc = epd_lock_try(lock);
	if (!rc && epd_wal_unlinked(lock))
		rc = EPD_ESTALE;
	if (!rc)
		rc = has_record(dirfd, why);
	if (rc > 0)
		rc = epd_why(why, EPD_ESTATUS, "there is something in it");
	else if (!rc)
		rc = empty(dirfd, also, arg);
	close(lock);
	return rc;
}
