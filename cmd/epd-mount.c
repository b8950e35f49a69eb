/*
 * epd-mount.c - the store as a file system: mounts it, in the background unless
 * told otherwise, and unmounts it.  Called mount.fuse.epd it takes what mount(8) gives.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cli.h"
#include "fs/fs.h"

enum { READ_ONLY = CLI_OWN, ALLOW_OTHER, LAZY };

static const struct cli_option options[] = {
	{ 'f', "foreground", NULL, "serve until interrupted, instead of going "
	    "to the background" },
	{ READ_ONLY, "read-only", NULL, "write nothing at all" },
	{ ALLOW_OTHER, "allow-other", NULL, "let other users in (see "
	    "user_allow_other in fuse.conf)" },
	{ 'o', "options", "LIST", "as in fstab: ro, allow_other, store=DIR, "
	    "config=FILE, tenant=NAME, and what the kernel takes" },
	{ 'u', "unmount", NULL, "unmount DIR" },
	{ LAZY, "lazy", NULL, "with -u: now, though files there are open" },
	/* mount(8) says these of its own accord. */
	{ 's', "sloppy", NULL, NULL },
	{ 'n', "no-mtab", NULL, NULL },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-fqv] [--read-only] [--allow-other] [-o LIST] [STORE] DIR",
	"-u [--lazy] DIR ...",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-mount",
	.usage = usage,
	.about = "Mount a store at DIR: workflows, states, pages and features "
	    "as files, to be looked at and worked with by any program. "
	    "README there says what is where.",
	.options = options,
	.common = "vqSCT",
	.set = set,
};

struct mounting {
	struct cli cli;
	struct epd_fs_options fs;
	struct epd_buf kernel;		/* what of -o is the kernel's */
	int foreground, unmount, lazy;
	int helper;			/* called by mount(8), whose -f is not ours */
};

/* ---- options as fstab has them ---- */

/* What concerns mount(8), or says what is so anyway. */
static int
is_idle(const char *o)
{
	static const char *const words[] = {
		"defaults", "rw", "auto", "noauto", "user", "users", "nouser",
		"owner", "group", "nofail", "_netdev", "nosuid", "nodev",
		"noatime", "relatime", "exec", "async", NULL
	};

	for (int i = 0; words[i]; i++)
		if (!strcmp(o, words[i]))
			return 1;
	return !strncmp(o, "x-", 2) || !strncmp(o, "X-", 2) ||
	    !strncmp(o, "comment=", 8);
}

static const char *
value_of(const char *o, const char *key)
{
	size_t n = strlen(key);

	return !strncmp(o, key, n) && o[n] == '=' ? o + n + 1 : NULL;
}

static void
one_option(struct mounting *x, char *o)
{
	struct cli *c = &x->cli;
	const char *v;

	if (!strcmp(o, "ro"))
		x->fs.read_only = 1;
	else if (!strcmp(o, "allow_other"))
		x->fs.allow_other = 1;
	else if ((v = value_of(o, "store")))
		c->store = v;
	else if ((v = value_of(o, "config")))
		c->config_path = v;
	else if ((v = value_of(o, "tenant")))
		c->tenant = v;
	else if (!strcmp(o, "suid") || !strcmp(o, "dev") || strchr(o, '\\'))
		cli_usage(c, "-o %s: not on a file system of this kind", o);
	else if (*o && !is_idle(o))
		epd_buf_fmt(&x->kernel, "%s%s", x->kernel.n ? "," : "", o);
}

static void
set(void *arg, int key, const char *value)
{
	struct mounting *x = arg;
	char *list, *o, *at = NULL;

	switch (key) {
	case 'f': x->foreground = 1; break;
	case READ_ONLY: x->fs.read_only = 1; break;
	case ALLOW_OTHER: x->fs.allow_other = 1; break;
	case 'u': x->unmount = 1; break;
	case LAZY: x->lazy = 1; break;
	case 'o':
		list = cli_keep(&x->cli, strdup(value));
		for (o = strtok_r(list, ",", &at); o;
		    o = strtok_r(NULL, ",", &at))
			one_option(x, o);
		break;
	}
}

/* ---- unmounting ---- */

/* Who may not unmount has a program that may. */
static int
by_helper(const char *dir, int lazy)
{
	char *argv[] = { "fusermount3", "-q", "-u", lazy ? "-z" : "--",
	    lazy ? "--" : (char *)(uintptr_t)dir,
	    lazy ? (char *)(uintptr_t)dir : NULL, NULL };
	int status;
	pid_t pid;
	extern char **environ;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
		return -EPERM;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int
unmount_once(const char *dir, int lazy)
{
	if (umount2(dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	return errno == EPERM ? by_helper(dir, lazy) : -errno;
}

/* The path as the kernel has it, though who serves it may be gone. */
static int
settle(const char *dir, char out[PATH_MAX])
{
	char above[PATH_MAX], real[PATH_MAX], *name;
	size_t n = strlen(dir);

	if (realpath(dir, out))
		return 0;
	if (errno != ENOTCONN || n >= sizeof above)
		return -errno;
	strcpy(above, dir);
	while (n > 1 && above[n - 1] == '/')
		above[--n] = '\0';
	name = strrchr(above, '/');
	if (name)
		*name++ = '\0';
	if (!realpath(!name ? "." : *above ? above : "/", real))
		return -errno;
	return snprintf(out, PATH_MAX, "%s/%s", strcmp(real, "/") ? real : "",
	    name ? name : above) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void
unmount(struct mounting *x, const char *operand)
{
	char dir[PATH_MAX];
	struct epd_why why;
	dev_t dev = 0;
	int rc = settle(operand, dir);

	if (rc == 0 && !epd_fs_mounted(dir, &dev))
		rc = epd_why(&why, -EINVAL, dev ? "what is mounted there is "
		    "no store" : "not mounted");
	else if (rc < 0)
		epd_why(&why, rc, "%s", epd_strerror(rc));
	if (rc < 0) {
		cli_fail(&x->cli, operand, rc, &why);
		return;
	}
	/* Whoever looks in for an instant is waited for. */
	for (int tries = 0; tries < 100; tries++) {
		rc = unmount_once(dir, x->lazy);
		if (rc != -EBUSY)
			break;
		epd_clock_sleep_ns(20000000);
	}
	if (rc == -EBUSY)
		epd_why(&why, rc, "files there are open, or it is somebody's "
		    "working directory; --lazy does not wait for them");
	else
		epd_why(&why, rc, "%s", epd_strerror(rc));
	if (rc < 0)
		cli_fail(&x->cli, operand, rc, &why);
}

/* ---- mounting ---- */

/* What the process in the background says to the one in front. */
struct word {
	int rc;
	struct epd_why why;
};

struct telling {
	int fd;			/* -1: nobody waits */
};

static void
is_ready(void *arg)
{
	struct telling *t = arg;
	struct word w = {0};
	int null;

	if (t->fd < 0)
		return;
	(void)!write(t->fd, &w, sizeof w);
	close(t->fd);
	t->fd = -1;
	if ((null = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
		return;
	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	if (null > 2)
		close(null);
}

static void
serve(struct mounting *x, struct telling *t)
{
	struct word w = {0};

	w.rc = epd_fs_serve(&x->fs, is_ready, t, &w.why);
	if (t->fd >= 0)
		(void)!write(t->fd, &w, sizeof w);
	else if (w.rc < 0)
		cli_fail(&x->cli, NULL, w.rc, &w.why);
}

/* A process of its own, whose first word is waited for. */
static void
in_background(struct mounting *x)
{
	struct cli *c = &x->cli;
	struct word w = {0};
	int end[2];
	pid_t pid;

	if (pipe2(end, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		cli_fail(c, NULL, -errno, NULL);
		return;
	}
	if (pid == 0) {
		struct telling t = { end[1] };

		close(end[0]);
		setsid();
		(void)!chdir("/");
		serve(x, &t);
		exit(cli_end(c));
	}
	close(end[1]);
	if (read(end[0], &w, sizeof w) != sizeof w)
		w.rc = epd_why(&w.why, EPD_EUNSURE, "the process that serves "
		    "it ended");
	close(end[0]);
	if (w.rc < 0)
		cli_fail(c, NULL, w.rc, &w.why);
}

static void
mount_it(struct mounting *x, const char *dir)
{
	struct cli *c = &x->cli;
	struct epd_buf path = {0};
	struct telling nobody = { -1 };
	char real[PATH_MAX], *bin, *store;

	cli_config(c);
	cli_store_path(c, &path);
	if (!realpath(dir, real)) {
		cli_fail(c, dir, -errno, NULL);
		epd_buf_free(&path);
		return;
	}
	store = realpath(epd_buf_cstr(&path), NULL);
	x->fs.store = (struct epd_store_options){
		.path = cli_keep(c, store ? store : strdup(epd_buf_cstr(&path))),
		.config = &c->config, .tenant = c->tenant ? c->tenant : "",
		.log = c->log,
	};
	epd_buf_free(&path);
	x->fs.mountpoint = real;
	x->fs.kernel = epd_buf_cstr(&x->kernel);
	x->fs.config = c->config_path ? cli_keep(c, realpath(c->config_path,
	    NULL)) : NULL;
	bin = cli_beside(".", ".");
	x->fs.bin = bin ? cli_keep(c, bin) : NULL;
	if (x->foreground)
		serve(x, &nobody);
	else
		in_background(x);
}

int
main(int argc, char **argv)
{
	static struct mounting x;
	struct cli *c = &x.cli;
	int first = cli_begin(c, &command, &x, argc, argv), n;
	char **dir = cli_operands(c, argc, argv, first, &n);
	const char *name = argc ? strrchr(argv[0], '/') : NULL;

	name = name ? name + 1 : argc ? argv[0] : "";
	x.helper = !strncmp(name, "mount.", 6);

	if (x.unmount && n) {
		for (int i = 0; i < n; i++)
			unmount(&x, dir[i]);
		return cli_end(c);
	}
	if (x.helper && x.foreground)
		return cli_end(c);	/* it is to be pretended */
	if (n < 1 || n > 2)
		cli_usage(c, n ? "too many operands" : "where to?");
	/* mount(8) puts what is mounted before where. */
	if (n == 2 && strcmp(dir[0], "none"))
		c->store = dir[0];
	mount_it(&x, dir[n - 1]);
	epd_buf_free(&x.kernel);
	return cli_end(c);
}
