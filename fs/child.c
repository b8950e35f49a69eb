/* child.c - commands as children of a daemon that has threads. */
#include "fs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { RESULT = 16 << 20, SENTENCE = 239 };	/* bytes of a line */

static void
hear(struct epd_fs_last *l, const char *p, size_t n)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n, room;

		if (l->ended)
			l->line.n = 0;
		room = l->most - l->line.n;
		epd_buf_put(&l->line, p, len < room ? len : room);
		l->ended = nl != NULL;
		p += len + (nl != NULL);
		n -= len + (nl != NULL);
	}
}

void
epd_fs_child_close(struct epd_fs_child *c)
{
	const int fd[] = { c->in, c->out[0], c->out[1], c->err[0], c->err[1] };

	for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	epd_buf_free(&c->said.line);
	epd_buf_free(&c->sentence.line);
}

int
epd_fs_child_open(struct epd_fs_child *c, const struct epd_buf *text)
{
	int rc = 0;

	*c = (struct epd_fs_child){
		.in = -1, .out = { -1, -1 }, .err = { -1, -1 },
		.said.most = RESULT, .sentence.most = SENTENCE,
	};
	c->in = text ? memfd_create("epd-say", MFD_CLOEXEC) :
	    open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (c->in < 0 || pipe2(c->out, O_CLOEXEC) < 0 ||
	    pipe2(c->err, O_CLOEXEC) < 0)
		rc = -errno;
	else if (text && text->n)
		rc = epd_file_pwrite(c->in, text->p, text->n, 0);
	if (rc < 0)
		epd_fs_child_close(c);
	return rc;
}

int
epd_fs_child_spawn(const struct epd_fs_child *c, char *const argv[],
    char *const env[], pid_t *pid)
{
	posix_spawn_file_actions_t f;
	posix_spawnattr_t a;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&f) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&a) != 0) {
		posix_spawn_file_actions_destroy(&f);
		return -ENOMEM;
	}
	/* A daemon that a shell began in the background is deaf to SIGINT. */
	posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGMASK |
	    POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&a, &none);
	posix_spawnattr_setsigdefault(&a, &all);
	rc = posix_spawn_file_actions_adddup2(&f, c->in, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&f, c->out[1], 1);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&f, c->err[1], 2);
	if (rc == 0)
		rc = posix_spawn_file_actions_addclosefrom_np(&f, 3);
	if (rc == 0)
		rc = posix_spawn(pid, argv[0], &f, &a, argv, env);
	posix_spawnattr_destroy(&a);
	posix_spawn_file_actions_destroy(&f);
	return -rc;
}

/* All that it says, until it has closed both. */
void
epd_fs_child_listen(struct epd_fs_child *c)
{
	struct pollfd fd[] = {
		{ .fd = c->out[0], .events = POLLIN },
		{ .fd = c->err[0], .events = POLLIN },
	};
	struct epd_fs_last *l[] = { &c->said, &c->sentence };
	char buf[16384];

	close(c->out[1]);
	close(c->err[1]);
	c->out[1] = c->err[1] = -1;
	while (fd[0].fd >= 0 || fd[1].fd >= 0) {
		if (poll(fd, 2, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++) {
			ssize_t n = fd[i].revents ? read(fd[i].fd, buf,
			    sizeof buf) : -2;

			if (n > 0)
				hear(l[i], buf, (size_t)n);
			else if (n == 0 || (n == -1 && errno != EINTR))
				fd[i].fd = -1;
		}
	}
}

/* The daemon's, but for what says which store and how. */
int
epd_fs_child_env(char ***out, const struct epd_fs_options *o)
{
	static const char *const own[] = { "EPD_STORE=", "EPD_TENANT=",
	    "EPD_CONFIG=", "EPD_LOG=" };
	const char *value[] = { o->store.path, o->store.tenant, o->config };
	extern char **environ;
	struct epd_buf b = {0};
	size_t n = 0, k = 0;
	char **env;

	while (environ[n])
		n++;
	if (!(*out = env = epd_calloc(n + 4, sizeof *env)))
		return -ENOMEM;
	for (size_t i = 0, w; i < n; i++) {
		for (w = 0; w < 4 && strncmp(environ[i], own[w],
		    strlen(own[w])); w++)
			;
		if (w == 4 && !(env[k++] = epd_strdup(environ[i])))
			return -ENOMEM;
	}
	for (size_t w = 0; w < 3; w++) {
		b.n = 0;
		epd_buf_fmt(&b, "%s%s", own[w], value[w] ? value[w] : "");
		env[k] = b.failed ? NULL : epd_strdup(epd_buf_cstr(&b));
		if (!env[k++])
			break;
	}
	epd_buf_free(&b);
	return env[k - 1] ? 0 : -ENOMEM;
}

void
epd_fs_child_env_free(char **env)
{
	for (char **e = env; e && *e; e++)
		epd_free(*e);
	epd_free(env);
}
