/*
 * ops.h - the kernel's questions, answered.  The session's user data is the
 * epd_fs_mount.
 */
#ifndef EPD_FS_OPS_H
#define EPD_FS_OPS_H

#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>

#include "fs/crew.h"
#include "fs/handle.h"

struct epd_fs_poller {
	struct epd_fs_poller *next;
	struct fuse_pollhandle *ph;
	struct epd_fs_handle *h;
};

struct epd_fs_mount {
	struct epd_fs fs;
	struct fuse_session *se;
	struct epd_fs_crew *crew;	/* does what may wait for a log's lock */
	struct epd_fs_crew *readers;	/* and what is read aside */
	struct epd_fs_poller *poller;	/* who waits for more; under fs.lock */
	pthread_mutex_t calling;	/* attributes are called back; before fs.lock */
	pid_t toucher;			/* a child whose truncations change nothing */
	int touch;			/* paths go to it; or -1 */
	int stopping;			/* the notices' thread is to end */
	dev_t dev;			/* the mount's, once it is ready */
	int passthrough;		/* the kernel reads blobs by itself */
	struct epd_fs_backing *backing;	/* files it reads so; under fs.lock */
	void (*ready)(void *arg);
	void *arg;
};

enum { EPD_FS_READ = 1 << 20 };	/* bytes of a read, at most */

void epd_fs_look_ops(struct fuse_lowlevel_ops *ops);
void epd_fs_name_ops(struct fuse_lowlevel_ops *ops);
void epd_fs_write_ops(struct fuse_lowlevel_ops *ops);

/* For the files of ops. */
struct epd_fs_mount *epd_fs_mount_of(fuse_req_t req);
/* What ino shows, copied under the lock, which is held on return if it is there. */
struct epd_fs_node *epd_fs_begin(struct epd_fs_mount *m, fuse_ino_t ino,
    struct epd_fs_at *at);
void epd_fs_end(struct epd_fs_mount *m);
/* What an open file's calls are about. */
static inline struct epd_fs_handle *
epd_fs_handle_of(const struct fuse_file_info *fi)
{
	return (struct epd_fs_handle *)(uintptr_t)fi->fh;
}
void epd_fs_fail(fuse_req_t req, int rc);
/* Of what was found by its number: that it is there no more is ESTALE. */
void epd_fs_fail_stale(fuse_req_t req, int rc);
/* The answer to what is asked when the mount ends. */
enum { EPD_FS_TOO_LATE = -ENOTCONN };
/*
 * Have e done for who asks; what it does begins its answer with epd_fs_aside_over, for
 * he may be killed meanwhile.
 */
void epd_fs_aside(struct epd_fs_crew *c, fuse_req_t req,
    struct epd_fs_errand *e);
void epd_fs_aside_over(fuse_req_t req);
/* An open file's last: all that the mount has of it. */
void epd_fs_shut(struct epd_fs_mount *m, struct epd_fs_handle *h);
/* Look name up in a directory and reply. */
void epd_fs_answer_entry(fuse_req_t req, fuse_ino_t dir, const char *name);

#endif
