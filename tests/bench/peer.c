/*
 * peer.c - pages from a peer's store into one here, by the whole way: asked for,
 * planned, moved, looked at, published.
 *
 *	peer MODE PAGES PAGE_BYTES SECONDS [ADDRESS]
 *
 * MODE is transfer.mode, or nosum: disabled, and transfer.checksum too.  One line of JSON: the rate, and how long one fetch takes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/serve.h"
#include "transport/transport.h"

static struct epd_why why;

static void
must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "peer: %s: %s (%s)\n", what, why.text, epd_strerror(rc));
	exit(1);
}

static char top[64], there[80], here[80];

static struct epd_store *
open_store(const char *path, const char *mode)
{
	static struct epd_config c;
	const struct epd_store_options o = { .path = path, .config = &c,
	    .tenant = "", .create = 1, .transports = epd_transports() };
	struct epd_store *s;

	epd_config_default(&c);
	snprintf(c.memory_dir, sizeof c.memory_dir, "%s/memory", top);
	c.transfer_checksum = strcmp(mode, "nosum") != 0;
	snprintf(c.transfer_mode, sizeof c.transfer_mode, "%s",
	    c.transfer_checksum ? mode : "disabled");
	must(epd_store_open(&s, &o, &why), path);
	return s;
}

/* A run of pages in workflow w1, known by name. */
static void
fill(struct epd_store *s, struct epd_pages_ask *a)
{
	struct epd_page_entry *e = calloc(a->n, sizeof *e);
	const int dir = epd_memory_dir(s->memory, "w1");
	struct epd_run *r;
	uint64_t id;

	must(dir, "folder");
	must(epd_run_new(&r, dir, &a->shape), "run");
	for (uint32_t i = 0; i < a->n; i++) {
		void *p;

		must(epd_run_add(r, &p), "page");
		memset(p, (int)i + 1, a->shape.bytes);
		memset(e[i].name.b, 7, sizeof e[i].name.b);
		memcpy(e[i].name.b, &i, sizeof i);
		e[i].rows = a->shape.tokens;
		a->page[i].entry.name = e[i].name;
	}
	must(epd_run_id(&id), "id");
	must(epd_run_publish(r, id, e, a->n), "publish");
	epd_index_put(epd_store_index(s), "w1", id, a->shape.tokens, e, a->n);
	epd_run_close(r);
	close(dir);
	free(e);
}

static pid_t
serve(char address[200], const char *listen)
{
	struct epd_config c;
	struct epd_serving_options o = { .store = { .path = there, .config = &c,
	    .tenant = "" } };
	const struct epd_server_options so = { .listen = &listen, .nlisten = 1 };
	struct epd_serving *serving;
	struct epd_server *server;
	struct epd_host host;
	int fd[2];
	pid_t pid;
	ssize_t n;

	if (pipe(fd))
		exit(1);
	if ((pid = fork())) {
		close(fd[1]);
		n = read(fd[0], address, 199);
		close(fd[0]);
		must(n > 0 ? 0 : -1, "server");
		address[n] = 0;
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	epd_config_default(&c);
	snprintf(c.memory_dir, sizeof c.memory_dir, "%s/memory", top);
	must(epd_serving_new(&serving, &host, &o, &why), "serving");
	must(epd_server_open(&server, &host, &so, &why), listen);
	listen = epd_server_address(server, 0);
	if (write(fd[1], listen, strlen(listen)) < 0)
		exit(1);
	close(fd[1]);
	must(epd_server_run(server, -1, &why), "serving");
	exit(0);
}

static void
fetch(struct epd_node *n, struct epd_workflow *w, struct epd_pages_ask *a,
    const struct epd_transfer_policy *policy)
{
	struct epd_transferred got;
	uint64_t *run;
	uint32_t nruns;

	must(epd_pages_fetch(n, w, a, policy, epd_clock_boot_ns() +
	    UINT64_C(10000000000), &run, &nruns, &got, &why), "fetch");
	must(got.moved + got.mapped == a->n ? 0 : -1, "pages that did not come");
	for (uint32_t i = 0; i < nruns; i++)
		(void)epd_run_free(w->runs, run[i]);
	free(run);
}

int
main(int argc, char **argv)
{
	struct epd_transfer_policy policy;
	struct epd_pages_ask a = { .shape = { .kind = EPD_OBJECT_KV_PAGE,
	    .type = 1, .tokens = 16 } };
	char name[EPD_WORKFLOW], address[200], command[200];
	struct epd_store *s;
	struct epd_workflow w;
	struct epd_node *n;
	uint64_t from, end, rounds = 0;
	pid_t server;

	if (argc < 5)
		return 2;
	snprintf(top, sizeof top, "/dev/shm/epd-bench.%d", (int)getpid());
	snprintf(there, sizeof there, "%s/there", top);
	snprintf(here, sizeof here, "%s/here", top);
	snprintf(command, sizeof command, "mkdir -m 700 %s", top);
	must(system(command), "folder");
	a.n = (uint32_t)atoi(argv[2]);
	a.shape.bytes = (uint64_t)atoll(argv[3]);
	a.page = calloc(a.n, sizeof *a.page);
	s = open_store(there, "disabled");
	fill(s, &a);
	epd_store_close(s);
	server = serve(address, argc > 5 ? argv[5] : "tcp://127.0.0.1:0");
	s = open_store(here, argv[1]);
	epd_transfer_policy_default(&policy, &s->config);
	must(epd_workflow_make(s, "w1", name, &why), "workflow");
	must(epd_workflow_open(&w, s, name, 0, &why), "workflow");
	must(epd_node_open(&n, s, address, 0, &why), "peer");
	fetch(n, &w, &a, &policy);
	from = epd_clock_boot_ns();
	end = from + (uint64_t)(atof(argv[4]) * 1e9);
	do {
		fetch(n, &w, &a, &policy);
		rounds++;
	} while (epd_clock_boot_ns() < end);
	end = epd_clock_boot_ns() - from;
	printf("{\"rate\": %.4f, \"us\": %.1f}\n", (double)(rounds * a.n *
	    a.shape.bytes) / (double)end, (double)end / 1e3 / (double)rounds);
	epd_node_close(n);
	epd_workflow_close(&w);
	epd_store_close(s);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	snprintf(command, sizeof command, "rm -rf %s", top);
	return system(command) != 0;
}
