/*
 * mount.c - a session from mount to unmount.
 *
 * Descriptors are closed on exec, /dev/fuse before all: a job that outlived a
 * killed daemon with it would keep the mount from ending.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/hands.h"
#include "fs/notice.h"
#include "fs/pass.h"
#include "fs/tongue.h"

/* One that comes and goes costs more than one that waits. */
enum { THREADS = 16 };

static int
options(struct fuse_args *args, const struct epd_fs_options *o)
{
	const char *source = o->store.path;
	struct epd_buf b = {0};
	int rc;

	/* What mount(8) and df show; a list of options has its own commas. */
	epd_buf_fmt(&b, "fsname=%s,subtype=epd,nosuid,nodev,noatime,max_read=%d",
	    strpbrk(source, ",\\") ? "epd" : source, EPD_FS_READ);
	if (o->allow_other)
		epd_buf_str(&b, ",allow_other,default_permissions");
	if (o->read_only)
		epd_buf_str(&b, ",ro");
	if (o->kernel && *o->kernel)
		epd_buf_fmt(&b, ",%s", o->kernel);
	rc = fuse_opt_add_arg(args, "epd-mount") < 0 ||
	    fuse_opt_add_arg(args, "-o") < 0 ||
	    fuse_opt_add_arg(args, epd_buf_cstr(&b)) < 0 || b.failed;
	epd_buf_free(&b);
	return rc ? -ENOMEM : 0;
}

/* The kernel asks for 128 KiB at a time unless it is told more; root can. */
static void
read_ahead(dev_t dev)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb",
	    major(dev), minor(dev));
	if ((fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
		return;
	(void)!write(fd, "1024", 4);
	close(fd);
}

static int
is_place(const struct epd_fs_options *o, struct epd_why *why)
{
	struct stat st;
	dev_t dev;

	if (stat(o->mountpoint, &st) < 0)
		return epd_why(why, -errno, "%s: %s", o->mountpoint,
		    errno == ENOTCONN ? "a mount whose daemon is gone; "
		    "epd-mount -u clears it" : strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return epd_why(why, -ENOTDIR, "%s: not a directory",
		    o->mountpoint);
	if (epd_fs_mounted(o->mountpoint, &dev))
		return epd_why(why, -EBUSY, "%s: a store is mounted there",
		    o->mountpoint);
	if (access("/dev/fuse", F_OK) < 0)
		return epd_why(why, EPD_EUNSUPPORTED, "no /dev/fuse here");
	return 0;
}

/* A folder that is used by its path, or by what is open of it. */
static int
is_apart_from(const char *mountpoint, const char *path, const char *what,
    struct epd_why *why)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	struct stat folder, place;

	if (stat(path, &folder) < 0 || stat(mountpoint, &place) < 0)
		return 0;
	if (epd_file_lies_in(open(mountpoint, flags), &folder))
		return epd_why(why, -EINVAL, "%s: lies in the %s", mountpoint,
		    what);
	if (epd_file_lies_in(open(path, flags), &place))
		return epd_why(why, -EINVAL, "%s: has the %s in it, which "
		    "would be hidden", mountpoint, what);
	return 0;
}

/* Who served what he reads himself would wait for himself. */
static int
is_apart(const struct epd_fs *fs, struct epd_why *why)
{
	char memory[PATH_MAX], self[64];
	ssize_t n;
	int rc = is_apart_from(fs->o.mountpoint, fs->o.store.path, "store",
	    why);

	if (rc < 0)
		return rc;
	snprintf(self, sizeof self, "/proc/self/fd/%d",
	    epd_memory_folder(fs->store->memory));
	n = readlink(self, memory, sizeof memory - 1);
	memory[n > 0 ? n : 0] = '\0';
	return is_apart_from(fs->o.mountpoint, memory, "store's memory", why);
}

static int
serve(struct epd_fs_mount *m, struct epd_why *why)
{
	struct fuse_loop_config *loop = fuse_loop_cfg_create();
	pthread_t notices;
	int rc;

	if (!loop)
		return epd_why(why, -ENOMEM, "no memory");
	fuse_loop_cfg_set_max_threads(loop, THREADS);
	fuse_loop_cfg_set_idle_threads(loop, THREADS);
	(void)epd_fs_mounted(m->fs.o.mountpoint, &m->dev);
	read_ahead(m->dev);
	epd_fs_pass_start(m);
	rc = epd_fs_notice_start(m, &notices);
	if (rc == 0) {
		rc = fuse_session_loop_mt(m->se, loop);
		epd_fs_notice_stop(m, notices);
	}
	fuse_loop_cfg_destroy(loop);
	/* A signal is how it is asked to end; -ENODEV: it was unmounted. */
	return rc >= 0 || rc == -ENODEV ? 0 : epd_why(why, rc, "%s",
	    strerror(-rc));
}

/* What libfuse says of answers that come when nobody asks any more. */
static void
unsaid(enum fuse_log_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
}

static int
mount_and_serve(struct epd_fs_mount *m, struct epd_why *why)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_lowlevel_ops ops = {0};
	int rc = options(&args, &m->fs.o);

	epd_fs_look_ops(&ops);
	epd_fs_name_ops(&ops);
	epd_fs_write_ops(&ops);
	epd_fs_poll_ops(&ops);
	if (rc == 0)
		m->se = fuse_session_new(&args, &ops, sizeof ops, m);
	fuse_opt_free_args(&args);
	if (!m->se)
		return epd_why(why, rc < 0 ? rc : EPD_EUSAGE,
		    "mount options: %s", rc < 0 ? "no memory" :
		    "not understood");
	if (fuse_set_signal_handlers(m->se) < 0 ||
	    fuse_session_mount(m->se, m->fs.o.mountpoint) < 0) {
		rc = epd_why(why, -EPERM, "%s: cannot be mounted on",
		    m->fs.o.mountpoint);
	} else {
		(void)fcntl(fuse_session_fd(m->se), F_SETFD, FD_CLOEXEC);
		fuse_set_log_func(unsaid);
		rc = serve(m, why);
		/* Reads that wait for jobs are the session's; nobody hears. */
		fuse_session_exit(m->se);
		/* While threads answer /dev/fuse must have its number. */
		epd_fs_hands_end(m->fs.hands);
		epd_fs_crew_end(m->crew);
		epd_fs_crew_end(m->readers);
		fuse_session_unmount(m->se);
		epd_fs_crew_close(m->crew);
		epd_fs_crew_close(m->readers);
		m->crew = m->readers = NULL;
		epd_fs_hands_close(m->fs.hands);
		m->fs.hands = NULL;
	}
	fuse_remove_signal_handlers(m->se);
	fuse_session_destroy(m->se);
	return rc;
}

int
epd_fs_serve(const struct epd_fs_options *o, void (*ready)(void *arg),
    void *arg, struct epd_why *why)
{
	struct epd_fs_mount m = {
		.fs = { .o = *o, .notify = -1, .wake = -1 },
		.ready = ready, .arg = arg, .touch = -1, .toucher = -1,
	};
	int rc = is_place(o, why);

	if (rc < 0)
		return rc;
	/* Many workflows are held open at once. */
	epd_file_limit();
	m.fs.o.store.look = 1;
	m.fs.o.store.still = 1;	/* who looks on mends nothing meanwhile */
	pthread_mutex_init(&m.fs.lock, NULL);
	pthread_mutex_init(&m.fs.tongues, NULL);
	pthread_mutex_init(&m.calling, NULL);
	/* Of a read-only mount the kernel lets nobody cut a file. */
	if (!o->read_only)
		epd_fs_toucher_start(&m);
	if ((rc = epd_fs_world_open(&m.fs, why)) == 0)
		rc = is_apart(&m.fs, why);
	if (rc == 0 && ((rc = epd_fs_crew_open(&m.crew)) < 0 ||
	    (rc = epd_fs_crew_open(&m.readers)) < 0))
		rc = epd_why(why, rc, "no memory");
	if (rc == 0 && !o->read_only)
		rc = epd_fs_hands_open(&m.fs.hands, &m.fs, why);
	if (rc == 0)
		rc = mount_and_serve(&m, why);
	epd_fs_crew_close(m.crew);
	epd_fs_crew_close(m.readers);
	epd_fs_hands_close(m.fs.hands);
	epd_fs_tongues_close(&m.fs);
	epd_fs_world_close(&m.fs);
	epd_fs_toucher_stop(&m);
	pthread_mutex_destroy(&m.calling);
	pthread_mutex_destroy(&m.fs.tongues);
	pthread_mutex_destroy(&m.fs.lock);
	return rc;
}
