/* wire_stream.c - waiting for bytes: woken for enough of them, and for an end. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stop.h"
#include "tests/check.h"
#include "transport/address.h"
#include "transport/stream.h"

enum { PART = 20000, WHOLE = 100000 };

static uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * 1000000;
}

/* Two ends of a connection over loopback. */
static void
join(int end[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof at;
	const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	end[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(door >= 0 && !bind(door, (void *)&at, n) && !listen(door, 1) &&
	    !getsockname(door, (void *)&at, &n) &&
	    !connect(end[0], (void *)&at, n));
	end[1] = accept(door, NULL, NULL);
	CHECK(end[1] >= 0);
	close(door);
}

static void
part(const int end[2])
{
	close(end[0]);
	close(end[1]);
}

static void
put(int fd, size_t n)
{
	static const char zeros[WHOLE];

	CHECK_INT(send(fd, zeros, n, MSG_NOSIGNAL), (long long)n);
}

TEST(woken_for_enough_of_them)
{
	int end[2];

	join(end);
	put(end[1], PART);
	CHECK_INT(epd_stream_await(end[0], WHOLE, 0, in_ms(100)), EPD_ETIMEOUT);
	CHECK_INT(epd_stream_await(end[0], PART, 0, in_ms(5000)), 0);
	/* Few are not worth it, and what can be written is another matter. */
	CHECK_INT(epd_stream_await(end[0], 0, 0, in_ms(5000)), 0);
	CHECK_INT(epd_stream_await(end[0], WHOLE, POLLOUT, in_ms(5000)), 0);
	put(end[1], WHOLE - PART);
	CHECK_INT(epd_stream_await(end[0], WHOLE, 0, in_ms(5000)), 0);
	part(end);
}

TEST(then_any_byte_wakes_again)
{
	struct pollfd p = { .events = POLLIN };
	int end[2];

	join(end);
	CHECK_INT(epd_stream_await(end[0], WHOLE, 0, in_ms(1)), EPD_ETIMEOUT);
	put(end[1], 1);
	p.fd = end[0];
	CHECK_INT(poll(&p, 1, 5000), 1);
	part(end);
}

TEST(an_end_wakes_whatever_is_there)
{
	struct epd_stream s = { 0 };
	uint8_t *p = malloc(WHOLE);
	int end[2];

	join(end);
	put(end[1], PART);
	shutdown(end[1], SHUT_WR);
	s.fd = end[0];
	epd_socket_settle(s.fd);
	CHECK_INT(epd_stream_await(end[0], WHOLE, 0, in_ms(5000)), 0);
	CHECK_INT(epd_stream_read(&s, p, WHOLE, 0, in_ms(5000)), EPD_EPEER);
	part(end);
	free(p);
}

/* More than is ever waited for at once, and than the kernel has room for. */
TEST(more_than_there_is_room_for)
{
	enum { MUCH = 64 << 20 };
	uint8_t *p = malloc(MUCH), *q = malloc(MUCH);
	struct epd_stream in = { 0 }, out = { 0 };
	int end[2], status = -1;
	pid_t pid;

	join(end);
	memset(p, 7, MUCH);
	for (int i = 0; i < 2; i++)
		epd_socket_settle(end[i]);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct iovec iov = { p, MUCH };

		out.fd = end[1];
		_exit(epd_stream_send(&out, &iov, 1, 0, in_ms(20000)) != 0);
	}
	in.fd = end[0];
	CHECK_INT(epd_stream_read(&in, q, MUCH, 0, in_ms(20000)), 0);
	CHECK(!memcmp(p, q, MUCH));
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	part(end);
	free(p);
	free(q);
}

/* Between two of one machine nothing paces. */
TEST(inward_is_not_paced)
{
	char how[16] = "";
	socklen_t n = sizeof how;
	int end[2];

	join(end);
	for (int i = 0; i < 2; i++) {
		epd_socket_settle(end[i]);
		CHECK(!getsockopt(end[i], IPPROTO_TCP, TCP_CONGESTION, how, &n));
		CHECK_STR(how, "reno");
	}
	part(end);
}

/* Files that there are no descriptors for are no lie of the peer's. */
TEST(files_without_descriptors)
{
	struct epd_stream out = { .fd = -1 }, in = { .fd = -1 };
	struct rlimit was, tight;
	int fds[4] = { 0, 1, 2, 0 }, got[EPD_STREAM_FILES], end[2];
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, end));
	out.fd = end[1];
	in.fd = end[0];
	in.file = got;
	in.max = EPD_STREAM_FILES;
	CHECK_INT(epd_stream_send_files(&out, epd_span("x", 1), fds, 4,
	    in_ms(1000)), 0);
	CHECK_INT(epd_stream_take(&in, &c, 1, 0), 1);
	CHECK_INT(in.files, 4);
	for (int i = 0; i < 4; i++)
		close(got[i]);
	in.files = 0;
	CHECK_INT(epd_stream_send_files(&out, epd_span("x", 1), fds, 4,
	    in_ms(1000)), 0);
	CHECK(!getrlimit(RLIMIT_NOFILE, &was));
	tight = was;
	tight.rlim_cur = (rlim_t)got[1];
	CHECK(!setrlimit(RLIMIT_NOFILE, &tight));
	CHECK_INT(epd_stream_take(&in, &c, 1, 0), -EMFILE);
	CHECK(!setrlimit(RLIMIT_NOFILE, &was));
	/* What did come is the caller's to close. */
	CHECK_INT(in.files, 1);
	close(got[0]);
	part(end);
}

static int
is_over(void *arg)
{
	(void)arg;
	return 1;
}

/* Called off, neither a queue that is full nor a connection on its way is waited for. */
TEST(connecting_is_called_off)
{
	struct epd_address a = { .scheme = EPD_AT_UNIX };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const uint64_t from = epd_clock_boot_ns();
	int fd[3], n = 0;

	snprintf(a.path, sizeof a.path, "%s/epd-stream.%d", getenv("TMPDIR") ?
	    getenv("TMPDIR") : "/tmp", (int)getpid());
	CHECK(strlen(a.path) < sizeof at.sun_path);
	memcpy(at.sun_path, a.path, strlen(a.path) + 1);
	CHECK(door >= 0 && !bind(door, (void *)&at, sizeof at) &&
	    !listen(door, 0));
	while (n < 3 && (fd[n] = epd_address_connect(&a, in_ms(50), NULL)) >= 0)
		n++;
	CHECK(n < 3);
	CHECK_INT(fd[n], EPD_ETIMEOUT);
	epd_stop_heed(is_over, NULL);
	CHECK_INT(epd_address_connect(&a, in_ms(5000), NULL), -ECANCELED);
	/* TEST-NET: nobody answers, or there is no way to it. */
	CHECK(!epd_address_parse(&a, "tcp://192.0.2.1:9", EPD_AT_TCP, NULL));
	CHECK(epd_address_connect(&a, in_ms(5000), NULL) < 0);
	epd_stop_heed(NULL, NULL);
	CHECK(epd_clock_boot_ns() - from < UINT64_C(3000000000));
	while (n)
		close(fd[--n]);
	close(door);
	unlink(at.sun_path);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
