/*
 * listen.c - binding.
 *
 * The file of a Unix socket outlives a server that was killed.  Whoever opens or
 * closes one holds its folder's lock (flock) meanwhile, so that of two who find such
 * a file only one takes its place, and nobody removes another's.
 */
#include "transport/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/said.h"

enum { BACKLOG = 128, PATIENCE_MS = 5000 };

static uint64_t
soon(void)
{
	return epd_clock_boot_ns() + PATIENCE_MS * UINT64_C(1000000);
}

static int
listen_tcp(struct epd_listener *l, const struct epd_address *a, int has_key,
    struct epd_why *why)
{
	struct epd_end end[EPD_ENDS];
	socklen_t n = sizeof end->at;
	const int on = 1;
	int rc = epd_address_resolve(a, 1, end, soon(), why);

	if (rc < 0)
		return rc;
	l->needs_key = !epd_end_is_loopback(&end->at);
	if (l->needs_key && !has_key)
		return epd_why(why, EPD_EUSAGE, "tcp://%.80s:%s can be reached "
		    "from other machines, so it needs a key", a->host, a->port);
	l->fd = socket(end->at.ss_family,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return -errno;
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (end->at.ss_family == AF_INET6)
		setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
	if (bind(l->fd, (const void *)&end->at, end->n) ||
	    listen(l->fd, BACKLOG) || getsockname(l->fd, (void *)&end->at, &n))
		return epd_why(why, -errno, "tcp://%.80s:%s: %s", a->host,
		    a->port, strerror(errno));
	epd_end_format(l->address, sizeof l->address, &end->at);
	return 0;
}

/* ---- Unix sockets ---- */

/* The folder, locked, if it is the user's alone. */
static int
enter(const char *path, int make, struct epd_why *why)
{
	const char *name = strrchr(path, '/');
	const uint64_t deadline = soon();
	char folder[EPD_ADDRESS];
	struct stat st;
	int fd, rc = 0;

	snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
	fd = epd_dir_root(*folder ? folder : "/", make);
	if (fd < 0)
		return epd_why(why, fd, "%.150s: %s", folder, epd_strerror(fd));
	if (fstat(fd, &st))
		rc = -errno;
	else if (st.st_uid != geteuid() || st.st_mode & 077)
		rc = epd_why(why, -EPERM, "%.150s: a socket's folder has to be "
		    "its user's alone (mode 0700)", folder);
	while (!rc && flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			rc = -errno;
		else if (epd_clock_boot_ns() >= deadline)
			rc = EPD_ELOCKED;
		else
			epd_clock_sleep_ns(2000000);
	}
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* Whether somebody listens there; what nobody listens on is removed. */
static int
make_room(int dir, const char *name, const struct epd_end *end)
{
	struct stat st;
	int fd, rc;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	rc = connect(fd, (const void *)&end->at, end->n) ? -errno : 0;
	close(fd);
	if (rc != -ECONNREFUSED)
		return -EADDRINUSE;
	return unlinkat(dir, name, 0) && errno != ENOENT ? -errno : 0;
}

static int
bind_unix(struct epd_listener *l, int dir, const char *name)
{
	struct epd_end end;
	struct stat st;
	int long_way, rc = epd_address_unix(l->path, &end, &long_way);

	if (rc)
		return rc;
	rc = make_room(dir, name, &end);
	if (!rc) {
		l->fd = socket(AF_UNIX,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		/* The file has the socket's mode from its first moment on. */
		if (l->fd < 0 || fchmod(l->fd, 0600) ||
		    bind(l->fd, (const void *)&end.at, end.n) ||
		    listen(l->fd, BACKLOG) ||
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
			rc = -errno;
		} else {
			l->dev = st.st_dev;
			l->ino = st.st_ino;
		}
	}
	if (long_way >= 0)
		close(long_way);
	return rc;
}

static int
listen_unix(struct epd_listener *l, const struct epd_address *a, struct epd_why *why)
{
	const char *name = strrchr(a->path, '/') + 1;
	char shown[sizeof a->path];
	int dir, rc;

	/* An address is a line, and may be put into another. */
	memcpy(shown, a->path, sizeof shown);
	epd_said_tidy(shown, strlen(shown));
	if (strcmp(shown, a->path))
		return epd_why(why, EPD_EUSAGE, "%.150s: no path for a socket: "
		    "it has characters that cannot be shown", shown);
	if ((dir = enter(a->path, 1, why)) < 0)
		return dir;
	memcpy(l->path, a->path, sizeof l->path);
	snprintf(l->address, sizeof l->address, "unix://%s", a->path);
	rc = bind_unix(l, dir, name);
	close(dir);
	return rc ? epd_why(why, rc, "%.150s: %s", a->path, epd_strerror(rc)) : 0;
}

int
epd_listen_open(struct epd_listener *out, const char *address, int has_key,
    struct epd_why *why)
{
	struct epd_listener l = { .fd = -1 };
	struct epd_address a;
	int rc = epd_address_parse(&a, address, EPD_AT_TCP | EPD_AT_UNIX, why);

	if (rc)
		return rc;
	l.scheme = a.scheme;
	rc = a.scheme == EPD_AT_UNIX ? listen_unix(&l, &a, why) :
	    listen_tcp(&l, &a, has_key, why);
	if (rc) {
		if (l.fd >= 0)
			close(l.fd);
		return rc;
	}
	*out = l;
	return 0;
}

void
epd_listen_close(struct epd_listener *l)
{
	const char *name;
	struct stat st;
	int dir;

	if (l->fd < 0)
		return;
	if (l->scheme == EPD_AT_UNIX && (dir = enter(l->path, 0, NULL)) >= 0) {
		name = strrchr(l->path, '/') + 1;
		if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
		    st.st_dev == l->dev && st.st_ino == l->ino)
			unlinkat(dir, name, 0);
		close(dir);
	}
	close(l->fd);
	l->fd = -1;
}
