/* wire_shm.c - a window's files come over: the same memory, and nothing copied. */
#include <sys/stat.h>

#include "tests/unit/wire.h"

static struct wire w;
static char address[400];
static int dir;

static int
up(const struct epd_server_options *o)
{
	dir = scratch_open();
	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	return wire_start(&w, address, NULL, o);
}

static void
down(void)
{
	wire_stop(&w);
	scratch_close(dir);
}

static struct epd_link *
shm(void)
{
	return wire_link(EPD_VIA_SHM, address, NULL, 1);
}

TEST(a_map_copies_nothing)
{
	struct epd_stretch s;
	struct epd_link *l;
	uint64_t id;
	uint8_t *p;

	CHECK_INT(up(NULL), 0);
	CHECK((l = shm()));
	CHECK((id = wire_open(l, WIRE_BOTH, 0)));
	CHECK_INT(epd_link_ops(l)->map(l, id, 100000, &s, wire_in(10000),
	    &wire_why), 0);
	CHECK_INT(s.at, 100000);
	CHECK_INT(s.bytes, WIRE_BYTES - 100000);
	p = mmap(NULL, WIRE_BYTES, PROT_READ, MAP_SHARED, s.fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK(wire_is_right(p + s.at, s.at, s.bytes));
	/* The host's own memory. */
	w.host.p[100000] ^= 1;
	CHECK(!wire_is_right(p + s.at, s.at, 1));
	w.host.p[100000] ^= 1;
	munmap(p, WIRE_BYTES);
	CHECK(epd_shm_copied(l) == 0);
	/* Of a window to be read nothing can be written, though the host could. */
	CHECK((fcntl(s.fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
	CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, s.fd, 0) == MAP_FAILED);
	CHECK_INT(epd_link_ops(l)->map(l, id, WIRE_BYTES, &s, wire_in(10000),
	    &wire_why), EPD_EUSAGE);
	CHECK_INT(epd_link_ops(l)->map(l, id, UINT64_MAX, &s, wire_in(10000),
	    &wire_why), EPD_EUSAGE);
	CHECK_INT(epd_link_ops(l)->map(l, 999, 0, &s, wire_in(10000),
	    &wire_why), EPD_ENOTHING);
	epd_link_ops(l)->close(l);
	down();
}

/* Stretches of memory alone are told as such, and moved over the socket. */
TEST(each_kind)
{
	uint8_t *p = malloc(WIRE_BYTES);
	struct epd_stretch s;
	struct epd_piece_done d;
	struct epd_link *l;
	int maps = 0, rc;

	CHECK_INT(up(NULL), 0);
	CHECK((l = shm()));
	for (int kind = 0; kind < WIRE_KINDS; kind++) {
		const uint64_t id = wire_open(l, (enum wire_kind)kind, 1);
		uint64_t at = 0;

		CHECK(id);
		memset(p, 0, WIRE_BYTES);
		d = wire_move(l, EPD_OP_READ, id, 3, p + 3, WIRE_BYTES - 4);
		CHECK(!d.rc && d.bytes == WIRE_BYTES - 4);
		CHECK(wire_is_right(p + 3, 3, WIRE_BYTES - 4));
		memcpy(p, wire_want, WIRE_BYTES);
		CHECK_INT(wire_meet(l), 0);
		memset(w.host.p, 0, WIRE_BYTES);
		CHECK_INT(wire_meet(l), 0);
		d = wire_move(l, EPD_OP_WRITE, id, 0, p, WIRE_BYTES);
		CHECK_INT(wire_meet(l), 0);
		CHECK(!d.rc && d.bytes == WIRE_BYTES);
		CHECK(wire_is_right(w.host.p, 0, WIRE_BYTES));
		if (kind == WIRE_MEMORY) {
			CHECK_INT(epd_link_ops(l)->map(l, id, 0, &s,
			    wire_in(10000), &wire_why), EPD_EUNSUPPORTED);
			continue;
		}
		for (; at < WIRE_BYTES; maps++) {
			rc = epd_link_ops(l)->map(l, id, at, &s, wire_in(10000),
			    &wire_why);
			if (rc) {
				CHECK_INT(rc, EPD_EUNSUPPORTED);
				CHECK_INT(kind, WIRE_MIXED);
				at++;
				continue;
			}
			CHECK(s.at == at && s.bytes);
			at += s.bytes;
		}
		CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), &wire_why), 0);
		CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 1).rc, EPD_ENOTHING);
	}
	CHECK(epd_shm_copied(l) >= 2 * WIRE_BYTES);
	epd_link_ops(l)->close(l);
	CHECK(wire_settles(&w, 2000));
	down();
	free(p);
}

/* Files come once for each window, and go with it. */
TEST(files_go_with_their_window)
{
	struct epd_stretch s;
	struct epd_link *l;
	int before, with;

	CHECK_INT(up(NULL), 0);
	CHECK((l = shm()));
	CHECK_INT(wire_meet(l), 0);
	before = scratch_have("fd");
	for (int i = 0; i < 200; i++) {
		const uint64_t id = wire_open(l, WIRE_MIXED, i % 2);

		CHECK_INT(epd_link_ops(l)->map(l, id, 0, &s, wire_in(10000),
		    &wire_why), 0);
		/* The server's own of a moment ago are closed. */
		CHECK_INT(wire_meet(l), 0);
		with = scratch_have("fd");
		CHECK_INT(with, before + 1);
		CHECK_INT(epd_link_ops(l)->map(l, id, WIRE_BYTES - 1, &s,
		    wire_in(10000), &wire_why), 0);
		CHECK_INT(scratch_have("fd"), with);
		CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), &wire_why), 0);
		CHECK_INT(scratch_have("fd"), before);
	}
	wire_open(l, WIRE_BOTH, 0);
	CHECK_INT(epd_link_ops(l)->map(l, w.host.next, 0, &s, wire_in(10000),
	    &wire_why), 0);
	epd_link_ops(l)->close(l);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(scratch_have("fd"), before - 2);
	down();
}

/* ---- a peer that is a process of its own, and can be stopped ---- */

static pid_t
apart(void)
{
	int up_yet[2];
	pid_t pid;
	char c;

	dir = scratch_open();
	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	if (pipe(up_yet) || (pid = fork()) < 0)
		return -1;
	if (!pid) {
		if (wire_start(&w, address, NULL, NULL) ||
		    write(up_yet[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(up_yet[1]);
	if (read(up_yet[0], &c, 1) != 1)
		pid = -1;
	close(up_yet[0]);
	return pid;
}

static void
rejoin(pid_t pid)
{
	kill(pid, SIGKILL);
	scratch_wait(pid);
	scratch_close(dir);
}

/* Stopped, as SIGSTOP is not at once. */
static void
stop_it(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
}

/* Whose files they are is waited for till the deadline, and no longer. */
TEST(a_silent_peer_is_waited_for_till_the_deadline)
{
	const pid_t pid = apart();

	CHECK(pid > 0);
	for (int moves = 0; moves < 2; moves++) {
		struct epd_piece piece = { .op = EPD_OP_READ, .bytes = 1,
		    .local = &(char){ 0 } };
		struct epd_link *l = shm();
		struct epd_stretch s;
		uint64_t from;
		int rc;

		CHECK(l && (piece.window = wire_open(l, WIRE_BOTH, 0)));
		stop_it(pid);
		from = epd_clock_boot_ns();
		piece.deadline_ns = wire_in(100);
		rc = moves ? epd_link_ops(l)->submit(l, &piece, &wire_why) :
		    epd_link_ops(l)->map(l, piece.window, 0, &s, wire_in(100),
		    &wire_why);
		CHECK_INT(rc, EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - from < UINT64_C(5000000000));
		kill(pid, SIGCONT);
		epd_link_ops(l)->close(l);
	}
	rejoin(pid);
}

/* One that is gone has not lied. */
TEST(a_lost_peer_is_told_as_lost)
{
	const pid_t pid = apart();
	struct epd_stretch s;
	struct epd_link *l;
	uint64_t id;

	CHECK(pid > 0);
	CHECK((l = shm()) && (id = wire_open(l, WIRE_BOTH, 0)));
	kill(pid, SIGKILL);
	scratch_wait(pid);
	CHECK_INT(epd_link_ops(l)->map(l, id, 0, &s, wire_in(5000), &wire_why),
	    EPD_EPEER);
	CHECK(strstr(wire_why.text, "lost") ||
	    strstr(wire_why.text, strerror(EPIPE)));
	epd_link_ops(l)->close(l);
	scratch_close(dir);
}

/* Without a deadline nothing is asked: it goes over the socket. */
TEST(a_move_without_a_deadline_asks_nothing)
{
	struct epd_piece piece = { .op = EPD_OP_READ, .bytes = WIRE_BYTES };
	struct epd_piece_done d;
	struct epd_stretch s;
	struct epd_link *l;

	CHECK_INT(up(NULL), 0);
	CHECK((l = shm()));
	CHECK((piece.window = wire_open(l, WIRE_BOTH, 0)));
	CHECK((piece.local = calloc(1, WIRE_BYTES)));
	for (int known = 0; known < 2; known++) {
		memset(piece.local, 0, WIRE_BYTES);
		CHECK_INT(epd_link_ops(l)->submit(l, &piece, &wire_why), 0);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(10000),
		    &wire_why), 1);
		CHECK(!d.rc && wire_is_right(piece.local, 0, WIRE_BYTES));
		CHECK_INT(epd_link_ops(l)->map(l, piece.window, 0, &s,
		    wire_in(10000), &wire_why), 0);
	}
	free(piece.local);
	epd_link_ops(l)->close(l);
	down();
}

/* Calling off and putting again, while nothing goes out, ends in -EAGAIN. */
TEST(what_is_called_off_unsent_keeps_its_place)
{
	enum { BIG = 1 << 20, CYCLES = 2000 };
	struct epd_piece piece = { .tag = 1, .op = EPD_OP_WRITE, .bytes = BIG };
	struct epd_piece_done d;
	const pid_t pid = apart();
	struct epd_link *l;
	int rc = 0, cycles = 0;

	CHECK(pid > 0);
	CHECK((l = wire_link(EPD_VIA_TCP, address, NULL, 1)));
	CHECK((piece.window = wire_open(l, WIRE_BOTH, 1)));
	CHECK((piece.local = malloc(BIG)));
	memcpy(piece.local, wire_want, BIG);
	stop_it(pid);
	/* In part: the socket has no room for all of it. */
	CHECK_INT(epd_link_ops(l)->submit(l, &piece, &wire_why), 0);
	for (; cycles < CYCLES; cycles++) {
		struct epd_piece other = piece;

		other.tag = 2;
		if ((rc = epd_link_ops(l)->submit(l, &other, &wire_why)))
			break;
		CHECK_INT(epd_link_ops(l)->cancel(l, 2), 0);
		CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(1000),
		    &wire_why), 1);
		CHECK(d.tag == 2 && d.rc == -ECANCELED);
	}
	CHECK_INT(rc, -EAGAIN);
	CHECK(cycles > 256);
	kill(pid, SIGCONT);
	CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(10000), &wire_why), 1);
	CHECK(d.tag == 1 && !d.rc && d.bytes == BIG);
	memset(piece.local, 0, BIG);
	d = wire_move(l, EPD_OP_READ, piece.window, 0, piece.local, BIG);
	CHECK(!d.rc && wire_is_right(piece.local, 0, BIG));
	free(piece.local);
	epd_link_ops(l)->close(l);
	rejoin(pid);
}

TEST(over_tcp_there_are_no_files)
{
	struct epd_buf a = { 0 };
	struct epd_link *l;
	int before = scratch_have("fd");

	CHECK_INT(up(NULL), 0);
	/* A stream over a Unix socket works as well. */
	CHECK((l = wire_link(EPD_VIA_TCP, address, NULL, 1)));
	CHECK(!epd_link_ops(l)->map);
	CHECK_INT(wire_ask(l, WIRE_ECHO, 1, 2, &a), 0);
	epd_buf_free(&a);
	epd_link_ops(l)->close(l);
	down();
	CHECK_INT(scratch_have("fd"), before);
}

/* ---- the socket's file ---- */

static int
mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

TEST(socket_and_folder_are_the_users_alone)
{
	char path[300];

	CHECK_INT(up(NULL), 0);
	snprintf(path, sizeof path, "%s/s", scratch_path);
	CHECK_INT(mode_of(path), 0700);
	strcat(path, "/sock");
	CHECK_INT(mode_of(path), 0600);
	wire_stop(&w);
	CHECK_INT(mode_of(path), -1);
	/* A folder that others may look into is refused. */
	path[strlen(path) - 5] = '\0';
	CHECK(!chmod(path, 0755));
	CHECK_INT(wire_start(&w, address, NULL, NULL), -EPERM);
	CHECK(strstr(w.why.text, "0700"));
	down();
}

/* What a killed server left is taken over; a living one's is not, nor a plain file. */
TEST(kind31_a_socket_left_behind)
{
	struct epd_server_options o = { .nlisten = 1 };
	const char *a = address;
	struct epd_server *s;
	struct wire_host h;
	struct epd_link *l;
	char path[300];
	int fd;

	CHECK_INT(up(NULL), 0);
	o.listen = &a;
	CHECK_INT(wire_host_open(&h), 0);
	CHECK_INT(epd_server_open(&s, &h.host, &o, &wire_why), -EADDRINUSE);
	snprintf(path, sizeof path, "%s/s/sock", scratch_path);
	CHECK_INT(mode_of(path), 0600);
	wire_stop(&w);
	for (int i = 0; i < 3; i++) {
		const pid_t pid = fork();

		if (!pid) {
			if (epd_server_open(&s, &h.host, &o, NULL))
				_exit(1);
			kill(getpid(), SIGKILL);
		}
		CHECK_INT(scratch_wait(pid), -SIGKILL);
		CHECK_INT(mode_of(path), 0600);
	}
	CHECK_INT(wire_start(&w, address, NULL, NULL), 0);
	CHECK((l = shm()));
	epd_link_ops(l)->close(l);
	wire_stop(&w);
	CHECK((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0);
	close(fd);
	CHECK_INT(wire_start(&w, address, NULL, NULL), -EEXIST);
	wire_host_close(&h);
	down();
}

/* Two that begin at once: one has it, the other is told. */
TEST(of_two_at_once_one_listens)
{
	struct epd_server_options o = { .nlisten = 1 };
	const char *a = address;
	struct wire_host h;
	int won, lost;

	dir = scratch_open();
	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	o.listen = &a;
	CHECK_INT(wire_host_open(&h), 0);
	for (int round = 0; round < 20; round++) {
		pid_t pid[4];
		int go[2];
		char c;

		CHECK(!pipe(go));
		for (int i = 0; i < 4; i++)
			if (!(pid[i] = fork())) {
				struct epd_server *s;
				int rc;

				close(go[1]);
				if (read(go[0], &c, 1) < 0)
					_exit(3);
				rc = epd_server_open(&s, &h.host, &o, NULL);
				/* Hold it till all have tried; leave it behind. */
				epd_clock_sleep_ns(30000000);
				_exit(rc == 0 ? 0 : rc == -EADDRINUSE ? 1 : 2);
			}
		close(go[0]);
		close(go[1]);
		won = lost = 0;
		for (int i = 0; i < 4; i++) {
			const int rc = scratch_wait(pid[i]);

			won += rc == 0;
			lost += rc == 1;
		}
		CHECK_INT(won, 1);
		CHECK_INT(lost, 3);
	}
	wire_host_close(&h);
	scratch_close(dir);
}

/* A path longer than a socket's address takes. */
TEST(a_long_path)
{
	struct epd_link *l;
	size_t n;

	dir = scratch_open();
	n = (size_t)snprintf(address, sizeof address, "unix://%s", scratch_path);
	memset(address + n, 'x', 150);
	address[n] = '/';
	strcpy(address + n + 150, "/sock");
	CHECK_INT(wire_start(&w, address, NULL, NULL), 0);
	CHECK((l = shm()));
	epd_link_ops(l)->close(l);
	down();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
