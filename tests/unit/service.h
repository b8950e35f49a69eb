/*
 * service.h - a service by HTTP within a test, which answers as badly as the test
 * wants: a thread for each connection reads whole requests, and answer() writes
 * what it likes.
 */
#ifndef TESTS_SERVICE_H
#define TESTS_SERVICE_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVICE_GUESTS = 128, SERVICE_HEAD = 16384 };

struct service_ask {
	char method[16], path[1024];
	char head[SERVICE_HEAD];
	char *body;		/* with a NUL behind */
	size_t n;
};

struct service {
	int fd, port;
	/* Nonzero shuts the connection. */
	int (*answer)(struct service *s, int fd, const struct service_ask *a);
	void *arg;
	_Atomic int ending, guests, asked;	/* guests: that ever came */
	pthread_t thread;
	struct {
		pthread_t thread;
		int fd;			/* 0: nobody */
		_Atomic int over;
	} guest[SERVICE_GUESTS];
};

/* 0, or -1 once the client is gone. */
static inline int
service_put(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t k = send(fd, s, n, MSG_NOSIGNAL);

		if (k <= 0)
			return -1;
		s += k;
		n -= (size_t)k;
	}
	return 0;
}

static inline int
service_say(int fd, const char *text)
{
	return service_put(fd, text, strlen(text));
}

/* A whole answer. */
static inline int
service_reply(int fd, int status, const void *body, size_t n)
{
	char head[128];

	snprintf(head, sizeof head,
	    "HTTP/1.1 %d Said\r\nContent-Length: %zu\r\n\r\n", status, n);
	return service_say(fd, head) || service_put(fd, body, n);
}

/* Wait, but not past the end of the service or of the connection. */
static inline int
service_idle(struct service *s, int fd, int ms)
{
	for (; ms > 0 && !s->ending; ms -= 10) {
		struct pollfd p = { fd, POLLRDHUP, 0 };

		if (poll(&p, 1, 10) > 0)
			return -1;
	}
	return s->ending;
}

static inline int
service_read(int fd, struct service_ask *a)
{
	size_t n = 0, want = 0;
	char *end = NULL, *p;

	while (!end) {
		ssize_t k = recv(fd, a->head + n, sizeof a->head - 1 - n, 0);

		if (k <= 0)
			return -1;
		n += (size_t)k;
		a->head[n] = '\0';
		end = strstr(a->head, "\r\n\r\n");
	}
	if (sscanf(a->head, "%15s %1023s", a->method, a->path) != 2)
		return -1;
	p = strcasestr(a->head, "\r\nContent-Length:");
	if (p && p < end)
		want = strtoul(p + 17, NULL, 10);
	if (want > 64u << 20 || !(a->body = malloc(want + 1)))
		return -1;
	a->n = n - (size_t)(end + 4 - a->head);
	memcpy(a->body, end + 4, a->n < want ? a->n : want);
	end[2] = '\0';
	while (a->n < want) {
		ssize_t k = recv(fd, a->body + a->n, want - a->n, 0);

		if (k <= 0)
			return -1;
		a->n += (size_t)k;
	}
	a->body[want] = '\0';
	return 0;
}

struct service_guest {
	struct service *s;
	int at;
};

static inline void *
service_serve(void *arg)
{
	struct service_guest g = *(struct service_guest *)arg;
	struct service_ask *a = malloc(sizeof *a);
	const int fd = g.s->guest[g.at].fd;
	int over = !a;

	free(arg);
	while (!over && !g.s->ending) {
		a->body = NULL;
		over = service_read(fd, a);
		if (!over) {
			g.s->asked++;
			over = g.s->answer(g.s, fd, a);
		}
		free(a->body);
	}
	free(a);
	shutdown(fd, SHUT_RDWR);
	g.s->guest[g.at].over = 1;
	return NULL;
}

static inline void
service_leave(struct service *s, int at)
{
	pthread_join(s->guest[at].thread, NULL);
	close(s->guest[at].fd);
	s->guest[at].fd = 0;
	s->guest[at].over = 0;
}

static inline void *
service_accept(void *arg)
{
	struct service *s = arg;

	while (!s->ending) {
		struct pollfd p = { s->fd, POLLIN, 0 };
		struct service_guest *g;
		int fd, at = 0;

		for (int i = 0; i < SERVICE_GUESTS; i++)
			if (s->guest[i].over)
				service_leave(s, i);
		while (at < SERVICE_GUESTS && s->guest[at].fd)
			at++;
		if (poll(&p, 1, 20) < 1 || at == SERVICE_GUESTS)
			continue;
		fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		g = malloc(sizeof *g);
		*g = (struct service_guest){ s, at };
		s->guest[at].fd = fd;
		s->guests++;
		pthread_create(&s->guest[at].thread, NULL, service_serve, g);
	}
	return NULL;
}

/* At a port, 0: a free one.  Its port; 0 if it cannot be. */
static inline int
service_begin(struct service *s, int port,
    int (*answer)(struct service *s, int fd, const struct service_ask *a),
    void *arg)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof a;
	const int on = 1;

	memset(s, 0, sizeof *s);
	s->answer = answer;
	s->arg = arg;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)port);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&a, n) ||
	    listen(s->fd, 64) || getsockname(s->fd, (struct sockaddr *)&a, &n))
		return 0;
	s->port = ntohs(a.sin_port);
	if (pthread_create(&s->thread, NULL, service_accept, s))
		return 0;
	return s->port;
}

static inline void
service_end(struct service *s)
{
	s->ending = 1;
	pthread_join(s->thread, NULL);
	for (int i = 0; i < SERVICE_GUESTS; i++)
		if (s->guest[i].fd) {
			shutdown(s->guest[i].fd, SHUT_RDWR);
			service_leave(s, i);
		}
	close(s->fd);
}

/* A port of loopback that nobody listens at, now. */
static inline int
service_free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		a.sin_port = 0;
	close(fd);
	return ntohs(a.sin_port);
}

#endif
