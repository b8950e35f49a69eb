/*
 * epd-serve.c - workers.  Here: the data role, which gives a store's pages and features
 * to peers until it is told to stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/key.h"
#include "cmd/cli.h"
#include "serve/serve.h"
#include "transport/transport.h"

enum { ROLE = CLI_OWN, LISTEN, KEY_FILE, CREDIT };
enum { LISTENERS = 16 };

static const struct cli_option options[] = {
	{ ROLE, "role", "ROLE", "what to serve: data" },
	{ LISTEN, "listen", "ADDRESS", "tcp://HOST:PORT (port 0: any) or "
	    "unix:///PATH; may be given again (default: a socket in the "
	    "store)" },
	{ KEY_FILE, "key-file", "FILE", "the key that peers must have; needed "
	    "beyond this machine" },
	{ CREDIT, "credit", "BYTES", "what peers may be writing at once "
	    "(default: half of page.memory_cap)" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"--role data [-qv] [--listen ADDRESS ...] [--key-file FILE] "
	"[--credit BYTES]",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-serve",
	.usage = usage,
	.about = "Give a store's pages, features and halves of hand-offs to "
	    "peers, until interrupted. The addresses it listens on are "
	    "written to standard output, one a line, once it does. Nothing "
	    "is encrypted.",
	.options = options,
	.common = "vqSCT",
	.set = set,
};

struct serving {
	struct cli cli;
	const char *role, *key_file;
	const char *listen[LISTENERS];
	int nlisten;
	uint64_t credit;
};

static void
set(void *arg, int key, const char *value)
{
	struct serving *x = arg;
	struct cli *c = &x->cli;

	switch (key) {
	case ROLE: x->role = value; break;
	case LISTEN:
		if (x->nlisten == LISTENERS)
			cli_usage(c, "--listen: at most %d addresses",
			    LISTENERS);
		x->listen[x->nlisten++] = value;
		break;
	case KEY_FILE: x->key_file = value; break;
	default:
		x->credit = (uint64_t)cli_int(c, "--credit", value, 1,
		    INT64_MAX);
		break;
	}
}

/* SIGINT and SIGTERM as something to read: all threads inherit the mask. */
static int
catch_signals(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGINT);
	sigaddset(&s, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &s, NULL) < 0)
		return -errno;
	return signalfd(-1, &s, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A socket in the store, which is the user's alone. */
static char *
own_socket(struct cli *c, const struct epd_store *s)
{
	struct epd_buf b = {0};

	epd_buf_fmt(&b, "unix://%s/serve", s->path);
	return cli_keep(c, (void *)(uintptr_t)epd_buf_cstr(&b));
}

static int
listening(struct serving *x, struct epd_server *server)
{
	struct cli *c = &x->cli;

	for (int i = 0; i < x->nlisten; i++)
		if (cli_line(c, epd_server_address(server, i)) < 0)
			return -EPIPE;
	return cli_flush(c);
}

/* Where there is a device; without one peers come by other ways. */
static int
open_rdma(struct serving *x, struct epd_rdma_host **out)
{
	struct epd_why why = {{0}};
	int rc;

	if (!x->cli.config.rdma_enabled)
		return 0;
	rc = epd_rdma_host_open(out, NULL, &why);
	if (rc < 0 && x->cli.verbose)
		cli_say(&x->cli, "no RDMA: %s", why.text);
	return 0;
}

static void
hear(void *arg, const char *text)
{
	cli_say(arg, "%s", text);
}

/* Whether other nodes can reach it: not a socket of this machine, nor any address. */
static int
is_reached(const char *address)
{
	static const char *const any[] = { "0.0.0.0:", "[::]:",
		"[::ffff:0.0.0.0]:" };
	int rc = !strncmp(address, "tcp://", 6);

	for (size_t i = 0; rc && i < sizeof any / sizeof *any; i++)
		rc = strncmp(address + 6, any[i], strlen(any[i])) != 0;
	return rc;
}

/* Where other nodes reach it: as configured, else the first they could; NULL. */
static const char *
own_address(const struct serving *x, struct epd_server *server)
{
	const char *address = x->cli.config.transfer_address;

	for (int i = 0; !is_reached(address); i++) {
		if (*x->cli.config.transfer_address || i == x->nlisten)
			return NULL;
		address = epd_server_address(server, i);
	}
	return address;
}

static int
is_node(const struct serving *x)
{
	return !strcmp(x->cli.config.directory_backend, "etcd");
}

/* A node of a directory, where one is configured. */
static int
begin_telling(struct serving *x, struct epd_server *server,
    struct epd_telling **out, struct epd_why *why)
{
	struct epd_telling_options o = { .address = own_address(x, server),
		.say = hear, .arg = &x->cli };

	if (!is_node(x))
		return 0;
	cli_store_options(&x->cli, &o.store);
	return epd_telling_start(out, &o, why);
}

/* What other nodes cannot reach is none. */
static int
look_at_address(struct serving *x, struct epd_server *server,
    struct epd_why *why)
{
	const char *set = x->cli.config.transfer_address;

	if (!is_node(x) || own_address(x, server))
		return 0;
	return epd_why(why, EPD_EUSAGE, "%.150s: no address at which other "
	    "nodes reach this one: %s", *set ? set :
	    epd_server_address(server, 0), *set ? "transfer.address is "
	    "tcp://HOST:PORT" : "give --listen tcp://HOST:PORT, or set "
	    "transfer.address");
}

static void
serve(struct serving *x, struct epd_host *host, struct epd_store *s,
    struct epd_span key)
{
	struct cli *c = &x->cli;
	struct epd_server_options o = {
		.listen = x->listen, .nlisten = x->nlisten, .key = key,
		.log = c->log, .metrics = s->metrics,
	};
	struct epd_rdma_host *rdma = NULL;
	struct epd_telling *telling = NULL;
	struct epd_server *server;
	struct epd_why why = {{0}};
	const int fd = catch_signals();
	int rc = fd < 0 ? fd : open_rdma(x, &rdma);

	if (rdma)
		o.rail = epd_rdma_host_rail(rdma);
	if (rc == 0)
		rc = epd_server_open(&server, host, &o, &why);
	if (rc < 0) {
		epd_rdma_host_close(rdma);
		cli_fail(c, NULL, rc, &why);
		return;
	}
	rc = look_at_address(x, server, &why);
	if (rc == 0)
		rc = listening(x, server);
	if (rc == 0)
		rc = begin_telling(x, server, &telling, &why);
	if (rc == 0)
		rc = epd_server_run(server, fd, &why);
	epd_telling_stop(telling);
	if (rc < 0)
		cli_fail(c, NULL, rc, &why);
	if (c->verbose) {
		struct epd_server_counts n;

		epd_server_counts(server, &n);
		cli_say(c, "%llu peers, %llu refused; %llu questions, %llu "
		    "moves, %llu bytes in, %llu out",
		    (unsigned long long)n.accepted,
		    (unsigned long long)n.refused, (unsigned long long)n.calls,
		    (unsigned long long)n.moves, (unsigned long long)n.bytes_in,
		    (unsigned long long)n.bytes_out);
	}
	epd_server_close(server);
	epd_rdma_host_close(rdma);
	close(fd);
}

static void
run(struct serving *x)
{
	struct cli *c = &x->cli;
	struct epd_serving_options o = { .bytes = x->credit };
	struct epd_serving *serving;
	struct epd_store *s;
	struct epd_buf key = {0};
	struct epd_why why = {{0}};
	struct epd_host host;
	int rc;

	/* Guests have files of pages open, each for itself. */
	epd_file_limit();
	cli_store_options(c, &o.store);
	o.store.create = 1;
	if ((rc = epd_store_open(&s, &o.store, &why)) < 0) {
		cli_fail(c, o.store.path, rc, &why);
		return;
	}
	if (!x->key_file && *c->config.transfer_key_file)
		x->key_file = c->config.transfer_key_file;
	if (x->key_file)
		rc = epd_key_read(&key, x->key_file, &why);
	if (!x->nlisten)
		x->listen[x->nlisten++] = own_socket(c, s);
	if (rc == 0)
		rc = epd_serving_new(&serving, &host, &o, &why);
	if (rc < 0) {
		cli_fail(c, NULL, rc, &why);
	} else {
		serve(x, &host, s, epd_span(key.p, key.n));
		epd_serving_free(serving);
	}
	if (key.p)
		explicit_bzero(key.p, key.cap);
	epd_buf_free(&key);
	epd_store_close(s);
}

int
main(int argc, char **argv)
{
	static struct serving x;
	const int first = cli_begin(&x.cli, &command, &x, argc, argv);

	if (first < argc)
		cli_usage(&x.cli, "%s: no operand is taken", argv[first]);
	if (!x.role)
		cli_usage(&x.cli, "--role is missing: data");
	if (strcmp(x.role, "data"))
		cli_usage(&x.cli, "--role %s: it is data", x.role);
	run(&x);
	return cli_end(&x.cli);
}
