/*
 * address.c - parsing, looking up, connecting.
 *
 * getaddrinfo has no deadline.  A name is looked up by a thread that owns what it
 * works on together with who asked, and the last of the two frees it.
 */
#include "transport/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/thread.h"
#include "transport/stream.h"

static int
parse_tcp(struct epd_address *a, const char *p)
{
	const char *host = p, *colon, *end;
	char *stop;
	long port;

	if (*p == '[') {
		host = p + 1;
		end = strchr(host, ']');
		if (!end || end[1] != ':')
			return 0;
		colon = end + 1;
	} else {
		end = colon = strchr(p, ':');
		/* A number of v6 without its brackets has more than one. */
		if (!colon || strchr(colon + 1, ':'))
			return 0;
	}
	if (end == host || (size_t)(end - host) >= sizeof a->host ||
	    colon[1] < '0' || colon[1] > '9')
		return 0;
	port = strtol(colon + 1, &stop, 10);
	if (*stop || port < 0 || port > 65535)
		return 0;
	memcpy(a->host, host, (size_t)(end - host));
	snprintf(a->port, sizeof a->port, "%ld", port);
	return 1;
}

int
epd_address_parse(struct epd_address *out, const char *text, int which,
    struct epd_why *why)
{
	static const struct {
		const char *begin;
		enum epd_scheme scheme;
	} kinds[] = { { "tcp://", EPD_AT_TCP }, { "unix://", EPD_AT_UNIX },
		{ "file://", EPD_AT_FILE } };
	struct epd_address a = { 0 };
	const char *rest = "";
	int ok = 0;

	for (size_t i = 0; text && i < sizeof kinds / sizeof *kinds; i++) {
		const size_t n = strlen(kinds[i].begin);

		if (strncmp(text, kinds[i].begin, n))
			continue;
		a.scheme = kinds[i].scheme;
		rest = text + n;
	}
	if (a.scheme && !(which & (int)a.scheme))
		return epd_why(why, EPD_EUSAGE,
		    "%.100s: this transport has no such addresses", text);
	if (a.scheme == EPD_AT_TCP) {
		ok = parse_tcp(&a, rest);
	} else if (a.scheme) {
		ok = rest[0] == '/' && rest[1] && strlen(rest) < sizeof a.path;
		if (ok)
			memcpy(a.path, rest, strlen(rest) + 1);
	}
	if (!ok)
		return epd_why(why, EPD_EUSAGE, "%.100s: no address; they are "
		    "tcp://HOST:PORT, unix:///PATH, file:///FOLDER",
		    text ? text : "");
	*out = a;
	return 0;
}

/* ---- looking up ---- */

struct lookup {
	char host[EPD_HOST], port[8];
	struct addrinfo hints, *found;
	int rc, done;			/* an eventfd */
	int holders;			/* the asker and the thread */
};

static void
let_go(struct lookup *l)
{
	if (__atomic_sub_fetch(&l->holders, 1, __ATOMIC_ACQ_REL))
		return;
	if (l->found)
		freeaddrinfo(l->found);
	close(l->done);
	epd_free(l);
}

static void *
look_up(void *arg)
{
	struct lookup *l = arg;
	const uint64_t one = 1;

	l->rc = getaddrinfo(l->host, l->port, &l->hints, &l->found);
	if (write(l->done, &one, sizeof one) != sizeof one)
		l->rc = EAI_SYSTEM;
	let_go(l);
	return NULL;
}

static int
begin(struct lookup *l)
{
	pthread_t t;
	int rc;

	l->holders = 2;
	rc = epd_thread_begin(&t, look_up, l);
	if (rc)
		l->holders = 1;
	else
		pthread_detach(t);
	return rc;
}

static int
copy_ends(struct epd_end out[EPD_ENDS], const struct addrinfo *found)
{
	int n = 0;

	for (; found && n < EPD_ENDS; found = found->ai_next) {
		if (found->ai_addrlen > sizeof out->at)
			continue;
		memcpy(&out[n].at, found->ai_addr, found->ai_addrlen);
		out[n++].n = found->ai_addrlen;
	}
	return n;
}

int
epd_address_resolve(const struct epd_address *a, int to_listen,
    struct epd_end out[EPD_ENDS], uint64_t deadline_ns, struct epd_why *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0) };
	struct addrinfo *found;
	struct lookup *l;
	uint64_t one;
	int rc;

	hints.ai_flags |= AI_NUMERICHOST;
	if (getaddrinfo(a->host, a->port, &hints, &found) == 0) {
		rc = copy_ends(out, found);
		freeaddrinfo(found);
		return rc;
	}
	hints.ai_flags &= ~AI_NUMERICHOST;
	if (!(l = epd_calloc(1, sizeof *l)))
		return -ENOMEM;
	memcpy(l->host, a->host, sizeof l->host);
	memcpy(l->port, a->port, sizeof l->port);
	l->hints = hints;
	l->holders = 1;
	l->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = l->done < 0 ? -errno : begin(l);
	if (!rc)
		rc = epd_stream_poll(l->done, POLLIN, deadline_ns);
	if (!rc && read(l->done, &one, sizeof one) != sizeof one)
		rc = -EIO;
	if (rc)
		rc = epd_why(why, rc, "%.100s: looking it up: %s", a->host,
		    epd_strerror(rc));
	else if (l->rc || !(rc = copy_ends(out, l->found)))
		rc = epd_why(why, EPD_EPEER, "%.100s: %s", a->host,
		    l->rc ? gai_strerror(l->rc) : "it has no address");
	let_go(l);
	return rc;
}

int
epd_end_is_loopback(const struct sockaddr_storage *at)
{
	if (at->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr)
		    >> 24 == 127;
	return at->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(
	    &((const struct sockaddr_in6 *)at)->sin6_addr);
}

void
epd_end_format(char *out, size_t n, const struct sockaddr_storage *at)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (at->ss_family == AF_INET6) {
		const struct sockaddr_in6 *a = (const void *)at;

		inet_ntop(AF_INET6, &a->sin6_addr, host, sizeof host);
		snprintf(out, n, "tcp://[%s]:%d", host, ntohs(a->sin6_port));
	} else {
		const struct sockaddr_in *a = (const void *)at;

		inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
		snprintf(out, n, "tcp://%s:%d", host, ntohs(a->sin_port));
	}
}

/* ---- sockets ---- */

int
epd_address_unix(const char *path, struct epd_end *out, int *dir)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *name = strrchr(path, '/');
	char folder[EPD_ADDRESS];
	int fd = -1, n;

	if (strlen(path) < sizeof un.sun_path) {
		memcpy(un.sun_path, path, strlen(path) + 1);
	} else {
		snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
		fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		n = snprintf(un.sun_path, sizeof un.sun_path,
		    "/proc/self/fd/%d/%s", fd, name + 1);
		if (n < 0 || (size_t)n >= sizeof un.sun_path) {
			close(fd);
			return -ENAMETOOLONG;
		}
	}
	memset(out, 0, sizeof *out);
	memcpy(&out->at, &un, sizeof un);
	out->n = sizeof un;
	*dir = fd;
	return 0;
}

/* Whether both ends have one address, so that it never leaves the machine. */
static int
is_inward(int fd)
{
	struct sockaddr_storage a = { 0 }, b = { 0 };
	socklen_t n = sizeof a, m = sizeof b;

	if (getsockname(fd, (void *)&a, &n) || getpeername(fd, (void *)&b, &m) ||
	    a.ss_family != b.ss_family)
		return 0;
	if (a.ss_family == AF_INET6)
		return !memcmp(&((struct sockaddr_in6 *)(void *)&a)->sin6_addr,
		    &((struct sockaddr_in6 *)(void *)&b)->sin6_addr,
		    sizeof(struct in6_addr));
	return a.ss_family == AF_INET &&
	    ((struct sockaddr_in *)(void *)&a)->sin_addr.s_addr ==
	    ((struct sockaddr_in *)(void *)&b)->sin_addr.s_addr;
}

void
epd_socket_settle(int fd)
{
	/* Where nothing is lost, what paces (bbr) only takes time; reno does not. */
	static const char inward[] = "reno";
	const int on = 1, idle = 10, each = 5, count = 3, patience = 20000;

	/* All fail on a Unix socket, which needs none of it. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience,
	    sizeof patience);
	if (is_inward(fd))
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, inward,
		    sizeof inward - 1);
}

/* One end.  The socket, or -errno, EPD_ETIMEOUT, EPD_EPEER. */
static int
connect_to(const struct epd_end *e, uint64_t deadline_ns)
{
	const int fd = socket(e->at.ss_family,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = 0, err = 0;
	socklen_t n = sizeof err;

	if (fd < 0)
		return -errno;
	/* A Unix socket whose queue is full is EAGAIN at once. */
	while (connect(fd, (const void *)&e->at, e->n)) {
		if (errno == EINPROGRESS || errno == EINTR) {
			rc = epd_stream_poll(fd, POLLOUT, deadline_ns);
			if ((!rc || rc == EPD_EPEER) && !getsockopt(fd,
			    SOL_SOCKET, SO_ERROR, &err, &n) && err)
				rc = -err;
			break;
		}
		if (errno != EAGAIN) {
			rc = -errno;
			break;
		}
		if (epd_is_stopped())
			rc = -ECANCELED;
		else if (epd_clock_boot_ns() >= deadline_ns)
			rc = EPD_ETIMEOUT;
		if (rc)
			break;
		epd_clock_sleep_ns(2000000);
	}
	if (!rc) {
		epd_socket_settle(fd);
		return fd;
	}
	close(fd);
	return rc;
}

int
epd_address_connect(const struct epd_address *a, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_end end[EPD_ENDS];
	int rc, n = 1, dir = -1;

	rc = a->scheme == EPD_AT_UNIX ?
	    epd_address_unix(a->path, end, &dir) :
	    (n = epd_address_resolve(a, 0, end, deadline_ns, why));
	if (a->scheme == EPD_AT_TCP && rc < 0)
		return rc;
	if (rc >= 0)
		for (int i = 0; i < n; i++)
			if ((rc = connect_to(end + i, deadline_ns)) >= 0)
				break;
	if (dir >= 0)
		close(dir);
	if (rc >= 0 || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM)
		return rc;
	return epd_why(why, rc == EPD_ETIMEOUT || rc == -ECANCELED ? rc : EPD_EPEER,
	    "%.100s%s%s: %s",
	    a->scheme == EPD_AT_UNIX ? a->path : a->host,
	    *a->port ? ":" : "", a->port, epd_strerror(rc));
}
