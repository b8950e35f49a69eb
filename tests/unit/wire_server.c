/*
 * wire_server.c - peers that die, freeze, dawdle or lie: each costs its own connection
 * until its deadline, and nothing stays.
 */
#include <stdatomic.h>

#include "tests/unit/wire_proxy.h"
#include "transport/address.h"
#include "transport/client.h"
#include "transport/frame.h"
#include "transport/hello.h"

#define ADDRESS "tcp://127.0.0.1:0"

/* Where busy clients do not write. */
enum { AREA = 300000, ASIDE = 2000000 };

static struct wire w;

static const char *
at(void)
{
	return epd_server_address(w.server, 0);
}

static struct epd_link *
tcp(void)
{
	return wire_link(EPD_VIA_TCP, at(), NULL, 1);
}

static uint64_t
ms_since(uint64_t then)
{
	return (epd_clock_boot_ns() - then) / 1000000;
}

/* Stopped, all of its threads. */
static int
freeze(pid_t pid)
{
	int status;

	return !kill(pid, SIGSTOP) && waitpid(pid, &status, WUNTRACED) == pid &&
	    WIFSTOPPED(status);
}

/* A link that works, whatever else goes on. */
static int
is_served(void)
{
	static uint8_t p[100000];
	struct epd_link *l = tcp();
	struct epd_piece_done d = { .rc = -1 };

	if (l) {
		d = wire_move(l, EPD_OP_READ, wire_open(l, WIRE_MIXED, 0), ASIDE,
		    p, sizeof p);
		epd_link_ops(l)->close(l);
	}
	return !d.rc && wire_is_right(p, ASIDE, sizeof p);
}

/* ---- what is told of an end ---- */

static char ends[4][200];
static atomic_int nends;
static void
note_end(void *arg, const char *line)
{
	const int n = atomic_load(&nends);

	(void)arg;
	if (strstr(line, "op=guest_end") && n < 4) {
		snprintf(ends[n], sizeof ends[n], "%s", line);
		atomic_store(&nends, n + 1);
	}
}

static void
await_ends(int n)
{
	for (int i = 0; i < 2000 && atomic_load(&nends) < n; i++)
		epd_clock_sleep_ns(1000000);
}

/* Who has no more questions ends as he may; who leaves in the midst of one is lost. */
TEST(an_end_that_is_orderly)
{
	const struct epd_server_options o = { .log = { .fn = note_end } };
	const struct epd_peer peer = { .address = "", .deadline_ns = wire_in(5000) };
	struct epd_address a;
	struct epd_auth auth = { 0 };
	static struct epd_stream s;
	struct epd_link *l;

	atomic_store(&nends, 0);
	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	l = wire_link(EPD_VIA_TCP, at(), NULL, 1);
	CHECK(l && wire_open(l, WIRE_MIXED, 1));
	epd_link_ops(l)->close(l);
	await_ends(1);
	CHECK(strstr(ends[0], "rc=OK") != NULL);
	/* Without a question, too. */
	l = wire_link(EPD_VIA_TCP, at(), NULL, 1);
	CHECK(l);
	epd_link_ops(l)->close(l);
	await_ends(2);
	CHECK(strstr(ends[1], "rc=OK") != NULL);
	CHECK_INT(epd_address_parse(&a, at(), EPD_AT_TCP, NULL), 0);
	s = (struct epd_stream){ .fd = epd_address_connect(&a, wire_in(5000), NULL) };
	CHECK(s.fd >= 0);
	CHECK_INT(epd_hello_client(&s, &auth, &a, &peer, NULL), 0);
	CHECK(write(s.fd, "half a hea", 10) == 10);
	close(s.fd);
	await_ends(3);
	CHECK_INT(atomic_load(&nends), 3);
	CHECK(strstr(ends[2], "rc=PEER_LOST") != NULL);
	CHECK(wire_settles(&w, 1000));
	wire_stop(&w);
}

/* ---- who dies ---- */

/* Windows, moves under way in an area of its own, till it is killed. */
static void
busy_client(const char *address, enum epd_backend b, int ready, uint64_t area)
{
	struct epd_link *l = wire_link(b, address, NULL, 1);
	static uint8_t in[AREA], out[AREA];
	struct epd_piece_done d[16];
	uint64_t id = 0;

	for (int i = 0; l && i < 5; i++)
		id = wire_open(l, WIRE_MIXED, 1);
	if (!l || write(ready, "", 1) != 1)
		_exit(1);
	for (uint64_t i = 0;; i++) {
		struct epd_piece piece = { i, i % 2 ? EPD_OP_READ : EPD_OP_WRITE, id,
			area * AREA, AREA, i % 2 ? in : out, 0 };
		int rc;

		while ((rc = epd_link_ops(l)->submit(l, &piece, NULL)) == -EAGAIN)
			if (epd_link_ops(l)->wait(l, d, 16, wire_in(5000), NULL) < 1)
				_exit(2);
		if (rc)
			_exit(3);
	}
}

static void
killed(enum epd_backend b, const char *listen, int rounds)
{
	int threads, fds;

	CHECK_INT(wire_start(&w, listen, NULL, NULL), 0);
	threads = scratch_have("task");
	fds = scratch_have("fd");
	for (int i = 0; i < rounds; i++) {
		int ready[2];
		pid_t pid;
		char c;

		CHECK(!pipe(ready));
		if (!(pid = fork()))
			busy_client(at(), b, ready[1], 0);
		CHECK(read(ready[0], &c, 1) == 1);
		epd_clock_sleep_ns((uint64_t)(i * 7919 % 8000) * 1000);
		kill(pid, SIGKILL);
		CHECK_INT(scratch_wait(pid), -SIGKILL);
		close(ready[0]);
		close(ready[1]);
		CHECK(wire_settles(&w, 1000));
	}
	CHECK_INT(w.host.begun, rounds);
	CHECK_INT(w.host.ended, rounds);
	CHECK_INT(w.host.opened, w.host.gone);
	CHECK(w.host.opened >= 5 * rounds);
	/* Threads are joined when something happens next. */
	for (int i = 0; i < 500 && scratch_have("task") != threads; i++)
		epd_clock_sleep_ns(1000000);
	CHECK_INT(scratch_have("task"), threads);
	CHECK_INT(scratch_have("fd"), fds);
	wire_stop(&w);
}

TEST(kind13_a_guest_that_is_killed) { killed(EPD_VIA_TCP, ADDRESS, 40); }

TEST(kind31_a_guest_over_shm_that_is_killed)
{
	char address[300];
	int dir = scratch_open();

	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	killed(EPD_VIA_SHM, address, 20);
	scratch_close(dir);
}

/* In a child: serve here, till killed. */
static pid_t
serve(const char *listen, char address[200])
{
	int ready[2];
	pid_t pid;
	ssize_t n;

	if (pipe(ready))
		return -1;
	if (!(pid = fork())) {
		if (wire_start(&w, listen, NULL, NULL) ||
		    write(ready[1], at(), strlen(at())) < 1)
			_exit(1);
		pause();
	}
	n = read(ready[0], address, 199);
	address[n > 0 ? n : 0] = '\0';
	close(ready[0]);
	close(ready[1]);
	return n > 0 ? pid : -1;
}

/* Each move is told, then the link only fails, at once; and nothing is left of it. */
TEST(kind29_transfers_that_fail_leave_nothing)
{
	enum { ROUNDS = 30, N = 20 };
	uint8_t *p = malloc(WIRE_BYTES);
	int fds = scratch_have("fd"), threads = scratch_have("task");

	for (int round = 0; round < ROUNDS; round++) {
		struct epd_piece_done d[N];
		struct epd_buf a = { 0 };
		char address[200];
		const pid_t pid = serve(ADDRESS, address);
		struct epd_link *l = wire_link(EPD_VIA_TCP, address, NULL, 1);
		uint64_t id, begun;
		int told = 0, bad = 0, n;

		CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
		for (uint64_t i = 0; i < N; i++) {
			struct epd_piece piece = { i, i % 3 ? EPD_OP_READ :
				EPD_OP_WRITE, id, 0, 1 << 20, p, 0 };

			CHECK_INT(epd_link_ops(l)->submit(l, &piece, NULL), 0);
		}
		if (round % 2)
			told = epd_link_ops(l)->wait(l, d, N, wire_in(5000), NULL);
		kill(pid, SIGKILL);
		CHECK_INT(scratch_wait(pid), -SIGKILL);
		begun = epd_clock_boot_ns();
		while ((n = epd_link_ops(l)->wait(l, d, N, wire_in(5000),
		    &wire_why)) > 0) {
			told += n;
			for (int i = 0; i < n; i++)
				bad += d[i].rc && d[i].rc != EPD_EPEER;
		}
		CHECK_INT(n, EPD_EPEER);
		CHECK_INT(told, N);
		CHECK_INT(bad, 0);
		CHECK(ms_since(begun) < 1000);
		CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), EPD_EPEER);
		CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), NULL),
		    EPD_EPEER);
		epd_link_ops(l)->close(l);
		epd_buf_free(&a);
		CHECK_INT(scratch_have("fd"), fds);
		/* And nobody is there to be reached any more. */
		CHECK(!wire_link(EPD_VIA_TCP, address, NULL, 0));
		CHECK_INT(scratch_have("fd"), fds);
	}
	CHECK_INT(scratch_have("task"), threads);
	free(p);
}

/* ---- who freezes ---- */

TEST(kind30_a_server_that_is_stopped)
{
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_piece_done d;
	struct epd_buf a = { 0 };
	char address[200];
	const pid_t pid = serve(ADDRESS, address);
	struct epd_link *l = wire_link(EPD_VIA_TCP, address, NULL, 1);
	struct epd_peer peer = { .address = address };
	uint64_t id, begun;

	CHECK(l && (id = wire_open(l, WIRE_BOTH, 1)));
	CHECK(freeze(pid));
	for (enum epd_op op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		struct epd_piece piece = { 1, op, id, 0, WIRE_BYTES, p, 0 };

		CHECK_INT(epd_link_ops(l)->submit(l, &piece, NULL), 0);
		begun = epd_clock_boot_ns();
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(100),
		    &wire_why), EPD_ETIMEOUT);
		CHECK(ms_since(begun) >= 99 && ms_since(begun) < 500);
	}
	/* All went on meanwhile: it is told once the server does. */
	kill(pid, SIGCONT);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(5000),
		    &wire_why), 1);
		CHECK_INT(d.rc, 0);
	}
	CHECK(freeze(pid));
	begun = epd_clock_boot_ns();
	CHECK_INT(epd_link_ops(l)->call(l, WIRE_ECHO, epd_span("x", 1), &a,
	    wire_in(100), &wire_why), EPD_ETIMEOUT);
	CHECK(ms_since(begun) < 500);
	/* After that the link has failed. */
	CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), EPD_ETIMEOUT);
	epd_link_ops(l)->close(l);
	peer.deadline_ns = wire_in(100);
	begun = epd_clock_boot_ns();
	CHECK_INT(wire_table(EPD_VIA_TCP)->open(wire_table(EPD_VIA_TCP), &l,
	    &peer, &wire_why), EPD_ETIMEOUT);
	CHECK(ms_since(begun) < 500);
	kill(pid, SIGKILL);
	CHECK_INT(scratch_wait(pid), -SIGKILL);
	epd_buf_free(&a);
	free(p);
}

/* A guest that takes no answers: its windows are let go at the deadline, no later. */
TEST(kind27_a_guest_that_is_stopped)
{
	struct epd_server_options o = { .stall_ms = 300, .rate = 1 << 30 };
	struct epd_server_counts n;
	int ready[2], status;
	uint64_t begun;
	pid_t pid;
	char c;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	CHECK(!pipe(ready));
	if (!(pid = fork()))
		busy_client(at(), EPD_VIA_TCP, ready[1], 0);
	CHECK(read(ready[0], &c, 1) == 1);
	epd_clock_sleep_ns(20000000);
	CHECK(freeze(pid));
	begun = epd_clock_boot_ns();
	CHECK(is_served());
	CHECK(wire_settles(&w, 3000));
	CHECK(ms_since(begun) < 1500);
	CHECK_INT(w.host.opened, w.host.gone);
	epd_server_counts(w.server, &n);
	CHECK_INT(n.late, 1);
	/* Awake again it finds that its link is gone, and moves nothing. */
	kill(pid, SIGCONT);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	close(ready[0]);
	close(ready[1]);
	wire_stop(&w);
}

/* ---- who dawdles ---- */

/* 1 if the server hung up on fd within ms. */
static int
hung_up(int fd, int ms)
{
	const uint64_t end = wire_in(ms);
	uint8_t b[4096];

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		const uint64_t now = epd_clock_boot_ns();

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000000 + 1)) < 1)
			return 0;
		if (recv(fd, b, sizeof b, MSG_DONTWAIT) <= 0)
			return 1;
	}
}

TEST(strangers_that_say_nothing)
{
	enum { N = 60 };
	struct epd_server_options o = { .strangers = 8 };
	struct epd_server_counts n;
	int fd[N], gone = 0, served;
	uint64_t begun;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	for (int i = 0; i < N; i++)
		CHECK((fd[i] = wire_socket(at())) >= 0);
	/* They keep nobody out, be there ever so many. */
	begun = epd_clock_boot_ns();
	served = is_served();
	CHECK(served && ms_since(begun) < 1000);
	epd_server_counts(w.server, &n);
	CHECK(n.strangers <= 16);
	/* The oldest made room for them, long before their time. */
	for (int i = 0; i < N; i++) {
		gone += hung_up(fd[i], i < N - 8 ? 2000 : 0);
		close(fd[i]);
	}
	CHECK(gone >= N - 8);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.begun, 1);
	wire_stop(&w);
}

/* A byte now and then is no progress: what has begun has to end. */
TEST(byte_by_byte)
{
	struct epd_server_options o = { .hello_ms = 300, .stall_ms = 300 };
	struct epd_frame f = { .verb = EPD_WIRE_CALL, .id = 2, .status =
		WIRE_ECHO, .body = 1000 };
	uint8_t head[EPD_FRAME];
	struct epd_client *s;
	struct epd_peer peer = { .deadline_ns = wire_in(5000) };
	uint64_t begun = epd_clock_boot_ns();
	int fd, i = 0;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	CHECK((fd = wire_socket(at())) >= 0);
	while (i < 48 && !hung_up(fd, 20) && send(fd, "E", 1, MSG_NOSIGNAL) == 1)
		i++;
	CHECK(i < 40 && ms_since(begun) < 1500);
	close(fd);
	/* The same of a guest, in the middle of a question. */
	peer.address = at();
	CHECK_INT(epd_client_open(&s, &peer, EPD_AT_TCP, &wire_why), 0);
	epd_frame_pack(head, &f);
	begun = epd_clock_boot_ns();
	CHECK(send(epd_client_fd(s), head, sizeof head, MSG_NOSIGNAL) == 48);
	for (i = 0; i < 100 && !hung_up(epd_client_fd(s), 20); i++)
		if (send(epd_client_fd(s), "E", 1, MSG_NOSIGNAL) != 1)
			break;
	CHECK(i < 40 && ms_since(begun) < 1500);
	epd_client_close(s);
	CHECK(wire_settles(&w, 1000));
	CHECK(is_served());
	wire_stop(&w);
}

TEST(a_guest_that_asks_nothing)
{
	struct epd_server_options o = { .idle_ms = 200 };
	struct epd_buf a = { 0 };
	struct epd_link *l;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	CHECK((l = tcp()));
	CHECK(wire_open(l, WIRE_BOTH, 0));
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.gone, 1);
	CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), EPD_EPEER);
	epd_link_ops(l)->close(l);
	epd_buf_free(&a);
	wire_stop(&w);
}

/* ---- caps ---- */

TEST(as_many_as_there_may_be)
{
	struct epd_server_options o = { .guests = 2, .windows = 5, .extents = 50 };
	struct epd_link *l[3];

	CHECK_INT(wire_start(&w, ADDRESS, NULL, &o), 0);
	CHECK((l[0] = tcp()) && (l[1] = tcp()));
	CHECK(!tcp());
	CHECK_STR(wire_why.text, "the server has as many guests as it may");
	for (int i = 0; i < 5; i++)
		CHECK(wire_open(l[0], WIRE_BOTH, 0));
	CHECK(!wire_open(l[0], WIRE_BOTH, 0));
	CHECK_STR(wire_why.text, "5 windows are open, and no more may be");
	/* Of each guest for itself; one that was shut makes room. */
	CHECK(wire_open(l[1], WIRE_BOTH, 0));
	CHECK_INT(epd_link_ops(l[0])->shut(l[0], 1, wire_in(1000), NULL), 0);
	CHECK(wire_open(l[0], WIRE_BOTH, 0));
	CHECK(!wire_open(l[1], WIRE_MIXED, 0));
	epd_link_ops(l[0])->close(l[0]);
	for (int i = 0; i < 1000 && !(l[2] = tcp()); i++)
		epd_clock_sleep_ns(1000000);
	CHECK(l[2]);
	epd_link_ops(l[1])->close(l[1]);
	epd_link_ops(l[2])->close(l[2]);
	CHECK(wire_settles(&w, 1000));
	CHECK_INT(w.host.opened, w.host.gone);
	wire_stop(&w);
}

/* ---- who lies ---- */

/* Resident memory, in pages; 0 where a sanitizer keeps what was freed. */
static long
resident(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#else
	FILE *f = fopen("/proc/self/statm", "r");
	long all, here = 0;

	if (!f || fscanf(f, "%ld %ld", &all, &here) != 2)
		here = 0;
	if (f)
		fclose(f);
	return here;
#endif
}

/* A frame with a CRC that fits, from a guest that was let in. */
static int
lie(const struct epd_frame *f, size_t more)
{
	static const uint8_t zero[4096];
	struct epd_peer peer = { .address = at(), .deadline_ns = wire_in(5000) };
	uint8_t head[EPD_FRAME];
	struct epd_client *s;
	int ok;

	if (epd_client_open(&s, &peer, EPD_AT_TCP, NULL))
		return 0;
	epd_frame_pack(head, f);
	ok = send(epd_client_fd(s), head, sizeof head, MSG_NOSIGNAL) == 48 &&
	    (!more || send(epd_client_fd(s), zero, more, MSG_NOSIGNAL) > 0) &&
	    hung_up(epd_client_fd(s), 2000);
	epd_client_close(s);
	return ok;
}

TEST(guests_that_lie)
{
	static const uint16_t flags[] = { 0, 1, 2, 4, 0x8000 };
	static const uint32_t body[] = { 0, 7, 20, (16 << 20) + 1, UINT32_MAX };
	struct epd_link *other;
	long before, grown;
	int refused = 0;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, NULL), 0);
	CHECK((other = tcp()));
	CHECK(is_served());
	before = resident();
	for (uint16_t verb = 0; verb <= EPD_WIRE_VERBS; verb++)
		for (int i = 0; i < 5; i++)
			for (int j = 0; j < 5; j++) {
				const struct epd_frame f = { .verb = verb,
					.flags = flags[i], .id = 5,
					.body = body[j], .bulk = verb ==
					EPD_WIRE_WRITE && j == 2 ? 100 : 0 };

				/* These are questions as they may be. */
				if (!(f.flags & 1) && f.flags < 4 && j < 3 &&
				    verb > EPD_WIRE_PROVE && verb < EPD_WIRE_VERBS)
					continue;
				if (!lie(&f, body[j] < 4096 ? body[j] : 0))
					CHECK_FAIL("verb %d flags %d body %u",
					    verb, f.flags, f.body);
				refused++;
			}
	/* WRITE whose range is not its bulk; bodies of the wrong size. */
	CHECK(lie(&(struct epd_frame){ .verb = EPD_WIRE_WRITE, .body = 20,
	    .bulk = 100 }, 120));
	CHECK(lie(&(struct epd_frame){ .verb = EPD_WIRE_READ, .body = 19 }, 19));
	CHECK(lie(&(struct epd_frame){ .verb = EPD_WIRE_SHUT, .body = 9 }, 9));
	CHECK(lie(&(struct epd_frame){ .verb = EPD_WIRE_MAP, .body = 11 }, 11));
	/* One that has a MAC where none was agreed on. */
	CHECK(lie(&(struct epd_frame){ .verb = EPD_WIRE_CALL, .mac = { 1 } }, 0));
	refused += 5;
	grown = resident() - before;
	CHECK(grown < 4096);
	CHECK(refused >= 50);
	printf("# %d hostile frames refused, %ld pages more\n", refused, grown);
	/* And another guest saw nothing of it. */
	CHECK(wire_open(other, WIRE_BOTH, 0));
	epd_link_ops(other)->close(other);
	CHECK(wire_settles(&w, 2000));
	wire_stop(&w);
}

/* Stopped with guests at work: all are let go of, soon. */
TEST(stopped_under_load)
{
	int ready[2], status[2];
	pid_t pid[2];
	uint64_t begun;
	char c;

	CHECK_INT(wire_start(&w, ADDRESS, NULL, NULL), 0);
	CHECK(!pipe(ready));
	for (int i = 0; i < 2; i++) {
		if (!(pid[i] = fork()))
			busy_client(at(), EPD_VIA_TCP, ready[1],
			    (uint64_t)i);
		CHECK(read(ready[0], &c, 1) == 1);
	}
	epd_clock_sleep_ns(10000000);
	begun = epd_clock_boot_ns();
	wire_stop(&w);
	CHECK(ms_since(begun) < 1000);
	CHECK_INT(w.host.guests, 0);
	CHECK_INT(w.host.opened, w.host.gone);
	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(pid[i], status + i, 0) == pid[i]);
		CHECK(WIFEXITED(status[i]));
	}
	close(ready[0]);
	close(ready[1]);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
