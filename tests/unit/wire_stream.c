/* wire_stream.c - waiting for bytes: woken for enough of them, and for an end. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
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

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
