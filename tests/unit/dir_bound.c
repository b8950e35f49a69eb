/*
 * dir_bound - the bound of what a process that stays is told, by a clock that is not the
 * directory's: the test writes, notes when etcd had it, and compares what is read later.
 */
#include <sys/mman.h>
#include <time.h>

#include "dir/dir.h"
#include "tests/check.h"
#include "tests/unit/etcd.h"

enum { VERSIONS = 100, EVERY_MS = 40, BOUND_MS = 500, SLACK_MS = 60 };

static struct seen {
	_Atomic int port, over;
	_Atomic uint64_t done[VERSIONS + 1];	/* when etcd had that one; 0: not yet */
	_Atomic uint64_t found, late, worst;	/* answers; those beyond the bound */
} *see;

static int held_ms;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A watch whose words are all late, and nothing else is. */
static int
hold(struct service *s, int fd, const struct service_ask *a)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	char part[16384];
	int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n = 1;

	to.sin_port = htons((uint16_t)etcd.port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!connect(there, (struct sockaddr *)&to, sizeof to)) {
		snprintf(part, sizeof part, "POST %s HTTP/1.1\r\nHost: etcd\r\n"
		    "Content-Length: %zu\r\n\r\n", a->path, a->n);
		service_say(there, part);
		service_put(there, a->body, a->n);
	}
	while (n > 0 && !s->ending) {
		struct pollfd p[2] = { { there, POLLIN, 0 },
			{ fd, POLLRDHUP, 0 } };

		if (poll(p, 2, 10) > 0 && p[1].revents)
			break;
		if (!p[0].revents)
			continue;
		if (service_idle(s, fd, held_ms))
			break;
		n = recv(there, part, sizeof part, 0);
		if (n > 0 && service_put(fd, part, (size_t)n))
			break;
	}
	close(there);
	return -1;
}

static int
between(struct service *s, int fd, const struct service_ask *a)
{
	char text[65536];
	long status;

	if (!strcmp(a->path, "/v3/watch"))
		return hold(s, fd, a);
	status = etcd_ask(a->method, a->path, a->body, text, sizeof text);
	return status < 0 ? -1 :
	    service_reply(fd, (int)status, text, strlen(text));
}

/* Its clock is an hour ahead of the machine's. */
static void *
turn_clock(void *arg)
{
	static struct epd_clock_fake tick[60000];
	_Atomic int *turned = arg;

	for (int i = 0; i < 60000; i++) {
		struct timespec t;

		clock_gettime(CLOCK_BOOTTIME, &t);
		tick[i].boot_ns = (uint64_t)t.tv_sec * 1000000000 +
		    (uint64_t)t.tv_nsec + 3600 * 1000 * MS;
		tick[i].wall_ms = tick[i].boot_ns / MS;
		epd_clock_fake(&tick[i]);
		*turned = 1;
		usleep(1000);
	}
	return NULL;
}

/* One answer: v, of a question that began at asked_ns. */
static void
compare(uint32_t v, uint64_t asked_ns)
{
	see->found++;
	for (uint32_t k = v + 1; k <= VERSIONS && see->done[k]; k++) {
		const uint64_t done = see->done[k];
		const uint64_t age = asked_ns > done ? asked_ns - done : 0;

		/* The first that it should have been, or a later one. */
		if (age > see->worst)
			see->worst = age;
		see->late += age > (BOUND_MS + SLACK_MS) * MS;
		break;
	}
}

static void
read_on(struct seat *s)
{
	static _Atomic int turned;
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 1);
	pthread_t t;

	pthread_create(&t, NULL, turn_clock, &turned);
	while (!turned || !see->port)
		usleep(100);
	snprintf(s->c.directory_endpoints, EPD_CONFIG_STR,
	    "http://127.0.0.1:%d", see->port);
	if (seat_open(s))
		_exit(1);
	while (!see->over) {
		const uint64_t asked = now_ns();

		if (epd_dir_find(s->d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(2000), &s->why) == 1)
			compare(out->version, asked);
		usleep(2000);
	}
	epd_dir_close(s->d);
	_exit(0);
}

static void
bound(int held)
{
	struct epd_hint h = hint_of(EPD_HINT_PAGE, 1);
	struct service service;
	struct seat a, b;
	pid_t pid;

	see = mmap(NULL, sizeof *see, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	held_ms = held;
	seat_set(&a, 1, held ? "late" : "prompt");
	seat_set(&b, 2, held ? "late" : "prompt");
	b.bare = 1;
	b.c.bounded_staleness_ms = BOUND_MS;
	pid = another();
	if (pid == 0)
		read_on(&b);
	see->port = service_begin(&service, 0, between, NULL);
	a.o.stays = 0;
	CHECK_INT(seat_open(&a), 0);
	for (uint32_t v = 1; v <= VERSIONS; v++) {
		h.version = v;
		CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
		see->done[v] = now_ns();
		epd_clock_sleep_ns(EVERY_MS * MS);
	}
	see->over = 1;
	CHECK_INT(scratch_wait(pid), 0);
	printf("# a watch %d ms late: %d answers, the oldest %.0f ms of %d\n",
	    held, (int)see->found, (double)see->worst / 1e6, BOUND_MS);
	CHECK(see->found > 50);
	CHECK_INT(see->late, 0);
	seat_close(&a);
	service_end(&service);
	munmap(see, sizeof *see);
}

TEST(a_watch_that_is_prompt) { bound(0); }
TEST(a_watch_that_is_later_than_the_bound) { bound(800); }

int
main(int argc, char **argv)
{
	return etcd_main("dir_bound", argc, argv);
}
