/*
 * transfer.c - bytes a second of a link, server and client a process each.
 *
 *	transfer rate tcp|shm|unix read|write BLOCK DEPTH SECONDS CHECKSUM KEY
 *	transfer copied			bytes that shm copies to hand over 1,024 pages
 *
 * Each prints one JSON object: rate in GB/s, cpu in seconds of a core a GB.  DEPTH moves of BLOCK bytes are under way at once, over
 * and over through as much memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/transport.h"

#include "tests/bench/measure.h"

enum { PAGES = 1024, PAGE = 393216 };

static struct epd_extent extent[PAGES];
static struct epd_opened window = { .id = 1, .writable = 1, .extent = extent };

static uint64_t
in_s(unsigned s)
{
	return epd_clock_boot_ns() + s * UINT64_C(1000000000);
}

/* ---- the server ---- */

static int
begin(void *arg, int near, struct epd_guest **out, struct epd_why *w)
{
	(void)near;
	(void)w;
	*out = arg;
	return 0;
}

static void
end(struct epd_guest *g)
{
	(void)g;
}

static int
call(struct epd_guest *g, uint16_t verb, struct epd_span ask, struct epd_buf *answer,
    struct epd_opened *opened, struct epd_why *w)
{
	(void)g;
	(void)verb;
	(void)ask;
	(void)answer;
	(void)w;
	*opened = window;
	return 0;
}

static void
gone(struct epd_guest *g, uint64_t id)
{
	(void)g;
	(void)id;
}

/* n extents of each bytes in one memory file. */
static void
make_window(uint32_t n, uint64_t each)
{
	const int fd = memfd_create("bench", MFD_CLOEXEC);
	uint8_t *p;

	must(fd < 0 || ftruncate(fd, (off_t)(n * each)) ? -errno : 0, "memory");
	p = mmap(NULL, n * each, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(p == MAP_FAILED ? -errno : 0, "memory");
	memset(p, 5, n * each);
	for (uint32_t i = 0; i < n; i++)
		extent[i] = (struct epd_extent){ fd, i * each, p + i * each, each };
	window.n = n;
}

/* A child that serves; its address. */
static pid_t
serve(const char *listen, const char *key, char address[200])
{
	const struct epd_host host = { &window, begin, end, call, gone };
	struct epd_server_options o = { .listen = &listen, .nlisten = 1,
		.key = epd_span_str(key) };
	struct epd_server *s;
	int pipefd[2];
	pid_t pid;
	ssize_t n;

	must(pipe(pipefd) ? -errno : 0, "pipe");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		must(epd_server_open(&s, &host, &o, &why), listen);
		n = (ssize_t)strlen(epd_server_address(s, 0));
		if (write(pipefd[1], epd_server_address(s, 0), (size_t)n) != n)
			exit(1);
		close(pipefd[1]);
		exit(epd_server_run(s, -1, &why) != 0);
	}
	close(pipefd[1]);
	n = read(pipefd[0], address, 199);
	must(n <= 0 ? -EPIPE : 0, "the server");
	address[n] = '\0';
	return pid;
}

static struct epd_link *
link_to(const char *kind, const char *address, int checksum, const char *key)
{
	const struct epd_transport *t = epd_transport_of(epd_transports(),
	    !strcmp(kind, "shm") ? EPD_VIA_SHM : EPD_VIA_TCP);
	const struct epd_peer peer = { .address = address, .checksum = checksum,
		.key = epd_span_str(key), .deadline_ns = in_s(5) };
	struct epd_link *l = NULL;

	must(t->open(t, &l, &peer, &why), address);
	must(t->call(l, 1, epd_span("", 0), &(struct epd_buf){ 0 }, in_s(5), &why),
	    "open");
	return l;
}

/* ---- figures ---- */

/* Seconds of a core that both processes took; the server's once it is waited for. */
static double
cpu(void)
{
	struct rusage r;
	double s = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++)
		if (!getrusage(who, &r))
			s += (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
			    1e-6 * (double)(r.ru_utime.tv_usec +
			    r.ru_stime.tv_usec);
	return s;
}

static double
run(struct epd_link *l, enum epd_op op, uint64_t block, int depth, double seconds,
    uint64_t *total)
{
	const struct epd_transport *t = epd_link_ops(l);
	struct epd_piece_done d[64];
	uint8_t *p = malloc(block * (uint64_t)depth);
	double begun = now(), last = begun;
	uint64_t bytes = 0;
	int n = depth;

	must(p ? 0 : -ENOMEM, "memory");
	memset(p, 1, block * (uint64_t)depth);
	for (int i = 0; i < depth; i++)
		d[i].tag = (uint64_t)i;
	while (last - begun < seconds) {
		for (int i = 0; i < n; i++) {
			const struct epd_piece piece = { d[i].tag, op, 1,
				d[i].tag * block, block, p + d[i].tag * block,
				in_s(10) };

			must(t->submit(l, &piece, &why), "submit");
		}
		n = t->wait(l, d, 64, in_s(10), &why);
		must(n, "wait");
		for (int i = 0; i < n; i++) {
			must(d[i].rc, "move");
			bytes += d[i].bytes;
		}
		last = now();
	}
	*total += bytes;
	return (double)bytes / (last - begun) / 1e9;
}

static int
rate(char **a)
{
	const char *kind = a[0], *key = a[6];
	const enum epd_op op = a[1][0] == 'r' ? EPD_OP_READ : EPD_OP_WRITE;
	const uint64_t block = strtoull(a[2], NULL, 10);
	const int depth = atoi(a[3]), checksum = atoi(a[5]);
	char address[200], listen[200] = "tcp://127.0.0.1:0";
	char folder[] = "/tmp/epd-bench.XXXXXX";
	struct epd_link *l;
	uint64_t total = 0;
	pid_t pid;
	double got;

	if (depth < 1 || depth > 64)
		return 2;
	if (strcmp(kind, "tcp")) {
		must(mkdtemp(folder) ? 0 : -errno, folder);
		snprintf(listen, sizeof listen, "unix://%s/s", folder);
	}
	make_window(1, block * (uint64_t)depth);
	pid = serve(listen, key, address);
	l = link_to(kind, address, checksum, key);
	run(l, op, block, depth, 0.1, &total);
	got = run(l, op, block, depth, atof(a[4]), &total);
	epd_link_ops(l)->close(l);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (strcmp(kind, "tcp")) {
		unlink(listen + 7);
		rmdir(folder);
	}
	printf("{\"rate\": %.4f, \"cpu\": %.4f}\n", got,
	    1e9 * cpu() / (double)total);
	return 0;
}

static int
copied(void)
{
	char address[200], listen[200], folder[] = "/tmp/epd-bench.XXXXXX";
	struct epd_stretch s;
	struct epd_link *l;
	double t;
	pid_t pid;

	must(mkdtemp(folder) ? 0 : -errno, folder);
	snprintf(listen, sizeof listen, "unix://%s/s", folder);
	make_window(PAGES, PAGE);
	pid = serve(listen, "", address);
	l = link_to("shm", address, 1, "");
	t = now();
	for (uint64_t i = 0; i < PAGES; i++) {
		uint8_t *p;

		must(epd_link_ops(l)->map(l, 1, i * PAGE, &s, in_s(10), &why),
		    "map");
		/* As whoever takes a page over would. */
		p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, s.fd, (off_t)s.at);
		must(p == MAP_FAILED || *p != 5 ? -EIO : 0, "the page");
		munmap(p, PAGE);
	}
	t = now() - t;
	printf("{\"copied\": %llu, \"pages\": %d, \"us\": %.3f}\n",
	    (unsigned long long)epd_shm_copied(l), PAGES, 1e6 * t / PAGES);
	epd_link_ops(l)->close(l);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(listen + 7);
	rmdir(folder);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 9 && !strcmp(argv[1], "rate"))
		return rate(argv + 2);
	if (argc == 2 && !strcmp(argv[1], "copied"))
		return copied();
	fprintf(stderr, "usage: transfer rate KIND OP BLOCK DEPTH SECONDS "
	    "CHECKSUM KEY | copied\n");
	return 2;
}
