/* wire_auth.c - who may come: keys, users, and peers that lie from the first byte on. */
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/wire.h"
#include "transport/auth.h"
#include "transport/hello.h"

#define ADDRESS "tcp://127.0.0.1:0"
#define KEY "0123456789abcdef0123456789abcdef"
enum { HELLO = EPD_FRAME + 4 + EPD_AUTH_NONCE };

static struct wire w;

static const char *
at(void)
{
	return epd_server_address(w.server, 0);
}

TEST(right_key)
{
	struct epd_link *l;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK((l = wire_link(EPD_VIA_TCP, at(), KEY, 0)));
	CHECK(wire_open(l, WIRE_BOTH, 0));
	epd_link_ops(l)->close(l);
	wire_stop(&w);
}

static int
fails(const char *key)
{
	struct epd_peer peer = { .address = at(), .deadline_ns = wire_in(5000) };
	const struct epd_transport *t = wire_table(EPD_VIA_TCP);
	struct epd_link *l;
	int rc;

	if (key)
		peer.key = epd_span_str(key);
	rc = t->open(t, &l, &peer, &wire_why);
	if (!rc)
		t->close(l);
	return rc;
}

TEST(wrong_keys)
{
	struct epd_server_counts n;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK_INT(fails("0123456789abcdef0123456789abcdeg"), EPD_EAUTH);
	CHECK_STR(wire_why.text, "this is not the key");
	CHECK_INT(fails(KEY "0"), EPD_EAUTH);
	CHECK_INT(fails("0123456789abcdef0123456789abcde"), EPD_EAUTH);
	CHECK_INT(fails(NULL), EPD_EAUTH);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.begun, 0);
	epd_server_counts(w.server, &n);
	CHECK(n.refused >= 3);
	wire_stop(&w);
}

/* Whoever has a key does not talk to one who does not ask for it. */
TEST(a_server_that_shows_nothing)
{
	CHECK_INT(wire_start(&w, ADDRESS, NULL, NULL), 0);
	CHECK_INT(fails(KEY), EPD_EAUTH);
	wire_stop(&w);
}

TEST(binds_that_need_a_key)
{
	CHECK_INT(wire_start(&w, "tcp://0.0.0.0:0", NULL, NULL), EPD_EUSAGE);
	CHECK(strstr(w.why.text, "needs a key"));
	wire_stop(&w);
	CHECK_INT(wire_start(&w, "tcp://[::]:0", NULL, NULL), EPD_EUSAGE);
	wire_stop(&w);
	CHECK_INT(wire_start(&w, ADDRESS, "tooshort", NULL), EPD_EUSAGE);
	wire_stop(&w);
	CHECK_INT(wire_start(&w, "tcp://0.0.0.0:0", KEY, NULL), 0);
	wire_stop(&w);
}

/* ---- another user ---- */

/* As user 65534: what open comes to. */
static int
as_other(const char *address, const char *key)
{
	const pid_t pid = fork();

	if (!pid) {
		struct epd_link *l;

		if (setgid(65534) || setuid(65534))
			_exit(9);
		l = wire_link(!strncmp(address, "unix", 4) ? EPD_VIA_SHM :
		    EPD_VIA_TCP, address, key, 0);
		_exit(l != NULL);
	}
	return scratch_wait(pid);
}

TEST(other_users)
{
	char address[300], path[300];
	struct epd_link *l;
	int dir;

	if (geteuid())
		SKIP("not root: another user cannot be had");
	CHECK_INT(wire_start(&w, ADDRESS, NULL, NULL), 0);
	CHECK_INT(as_other(at(), NULL), 0);
	CHECK((l = wire_link(EPD_VIA_TCP, at(), NULL, 0)));
	epd_link_ops(l)->close(l);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.begun, 1);
	wire_stop(&w);
	/* With the key it is whoever has it. */
	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK_INT(as_other(at(), KEY), 1);
	wire_stop(&w);
	/* The folder keeps them out; and if it did not, the server would. */
	dir = scratch_open();
	snprintf(address, sizeof address, "unix://%s/s/sock", scratch_path);
	snprintf(path, sizeof path, "%s/s/sock", scratch_path);
	CHECK_INT(wire_start(&w, address, NULL, NULL), 0);
	CHECK_INT(as_other(address, NULL), 0);
	CHECK(!chmod(path, 0666));
	path[strlen(path) - 5] = '\0';
	CHECK(!chmod(path, 0711) && !chmod(scratch_path, 0711));
	CHECK_INT(as_other(address, NULL), 0);
	CHECK(wire_settles(&w, 2000));
	CHECK_INT(w.host.begun, 0);
	wire_stop(&w);
	scratch_close(dir);
}

/* A Unix socket of another user's is not talked to. */
TEST(another_users_server)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char address[300];
	int dir, pipefd[2], rc;
	pid_t pid;
	char c;

	if (geteuid())
		SKIP("not root: another user cannot be had");
	dir = scratch_open();
	CHECK(!chmod(scratch_path, 0777) && !pipe(pipefd));
	snprintf(un.sun_path, sizeof un.sun_path, "%.90s/sock", scratch_path);
	snprintf(address, sizeof address, "unix://%s", un.sun_path);
	if (!(pid = fork())) {
		const int s = socket(AF_UNIX, SOCK_STREAM, 0);

		if (setgid(65534) || setuid(65534) ||
		    bind(s, (void *)&un, sizeof un) || listen(s, 1) ||
		    write(pipefd[1], "", 1) != 1)
			_exit(1);
		/* It greets as a server does, and looks at who comes. */
		rc = accept(s, NULL, NULL);
		struct epd_stream st = { .fd = rc };
		struct epd_hello h;
		_exit(rc < 0 || epd_hello_server(&st, epd_span("", 0), &h,
		    wire_in(3000)) == 0);
	}
	close(pipefd[1]);
	if (read(pipefd[0], &c, 1) != 1) {
		close(pipefd[0]);
		scratch_wait(pid);
		scratch_close(dir);
		SKIP("another user cannot reach $TMPDIR");
	}
	CHECK(!wire_link(EPD_VIA_SHM, address, NULL, 0));
	CHECK(strstr(wire_why.text, "another user"));
	CHECK_INT(scratch_wait(pid), 0);
	close(pipefd[0]);
	scratch_close(dir);
}

/* ---- by hand ---- */

static int
get(int fd, void *p, size_t n)
{
	return recv(fd, p, n, MSG_WAITALL) == (ssize_t)n;
}

/* The server's nonce. */
static int
greeted(int fd, struct epd_auth_talk *t)
{
	uint8_t b[HELLO];

	if (!get(fd, b, sizeof b))
		return 0;
	t->version = 1;
	t->flags = b[EPD_FRAME + 2];
	memcpy(t->server, b + EPD_FRAME + 4, EPD_AUTH_NONCE);
	return 1;
}

/* PROVE with this proof; whether a welcome comes. */
static int
prove(int fd, const struct epd_auth_talk *t, const uint8_t *proof)
{
	struct epd_frame f = { .verb = EPD_WIRE_PROVE, .id = 1, .body = 68 }, a;
	uint8_t b[EPD_FRAME + 68] = { 0 }, head[EPD_FRAME];

	epd_frame_pack(b, &f);
	b[EPD_FRAME] = 1;
	memcpy(b + EPD_FRAME + 4, t->client, EPD_AUTH_NONCE);
	memcpy(b + EPD_FRAME + 36, proof, EPD_AUTH_PROOF);
	return send(fd, b, sizeof b, MSG_NOSIGNAL) == sizeof b &&
	    get(fd, head, sizeof head) && !epd_frame_unpack(&a, head) &&
	    !a.status;
}

TEST(by_hand_it_works)
{
	struct epd_auth_talk t;
	uint8_t proof[EPD_AUTH_PROOF];
	int fd;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK((fd = wire_socket(at())) >= 0);
	CHECK(greeted(fd, &t));
	memset(t.client, 9, sizeof t.client);
	epd_auth_proof(proof, epd_span_str(KEY), &t, EPD_AUTH_CLIENT);
	CHECK(prove(fd, &t, proof));
	close(fd);
	wire_stop(&w);
}

/* What proved one connection proves no other. */
TEST(an_answer_sent_again)
{
	struct epd_auth_talk t, u;
	uint8_t proof[EPD_AUTH_PROOF];
	int fd;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK((fd = wire_socket(at())) >= 0);
	CHECK(greeted(fd, &t));
	memset(t.client, 9, sizeof t.client);
	epd_auth_proof(proof, epd_span_str(KEY), &t, EPD_AUTH_CLIENT);
	close(fd);
	CHECK((fd = wire_socket(at())) >= 0);
	CHECK(greeted(fd, &u));
	CHECK(memcmp(u.server, t.server, EPD_AUTH_NONCE));
	memcpy(u.client, t.client, EPD_AUTH_NONCE);
	CHECK(!prove(fd, &u, proof));
	close(fd);
	wire_stop(&w);
}

/* The server's own nonce as ours, its answer to another as our proof. */
TEST(a_challenge_sent_back)
{
	struct epd_auth_talk t;
	uint8_t proof[EPD_AUTH_PROOF];
	int fd;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	CHECK((fd = wire_socket(at())) >= 0);
	CHECK(greeted(fd, &t));
	memcpy(t.client, t.server, EPD_AUTH_NONCE);
	epd_auth_proof(proof, epd_span_str(KEY), &t, EPD_AUTH_SERVER);
	CHECK(!prove(fd, &t, proof));
	close(fd);
	/* A proof for the flags of a server that asks for none. */
	CHECK((fd = wire_socket(at())) >= 0);
	CHECK(greeted(fd, &t));
	memset(t.client, 9, sizeof t.client);
	t.flags = 0;
	epd_auth_proof(proof, epd_span_str(KEY), &t, EPD_AUTH_CLIENT);
	CHECK(!prove(fd, &t, proof));
	close(fd);
	wire_stop(&w);
}

/* A server that only sends back what it hears shows nothing. */
static void *
mirror(void *arg)
{
	const int l = *(int *)arg, fd = accept(l, NULL, NULL);
	struct epd_frame f = { .verb = EPD_WIRE_HELLO, .flags = EPD_FRAME_ANSWER,
		.body = 36 };
	uint8_t b[EPD_FRAME + 68] = { 0 };

	epd_frame_pack(b, &f);
	b[EPD_FRAME] = 1;
	b[EPD_FRAME + 2] = EPD_HELLO_KEY;
	if (send(fd, b, EPD_FRAME + 36, MSG_NOSIGNAL) > 0 &&
	    get(fd, b, sizeof b)) {
		f = (struct epd_frame){ .verb = EPD_WIRE_PROVE, .id = 1,
		    .flags = EPD_FRAME_ANSWER, .body = 32 };
		epd_frame_pack(b, &f);
		/* The client's proof as the server's. */
		memmove(b + EPD_FRAME, b + EPD_FRAME + 36, 32);
		send(fd, b, EPD_FRAME + 32, MSG_NOSIGNAL);
	}
	close(fd);
	return NULL;
}

TEST(a_mirror_is_no_server)
{
	const int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t a[16] = { AF_INET, 0, 0, 0, 127, 0, 0, 1 };
	socklen_t n = sizeof a;
	char address[64];
	pthread_t t;
	int fd = l;

	CHECK(!bind(l, (void *)a, sizeof a) && !listen(l, 1) &&
	    !getsockname(l, (void *)a, &n));
	snprintf(address, sizeof address, "tcp://127.0.0.1:%d", a[2] << 8 | a[3]);
	CHECK(!pthread_create(&t, NULL, mirror, &fd));
	CHECK(!wire_link(EPD_VIA_TCP, address, KEY, 0));
	CHECK_STR(wire_why.text, "the server does not have the key");
	pthread_join(t, NULL);
	close(l);
}

/* ---- peers that lie from the first byte on ---- */

/* Send these bytes; 1 if the server hangs up within two seconds and says nothing. */
static int
hangs_up(const void *p, size_t n)
{
	struct timeval two = { 2, 0 };
	uint8_t b[HELLO];
	const int fd = wire_socket(at());
	int ok;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &two, sizeof two);
	ok = fd >= 0 && get(fd, b, HELLO) &&
	    send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
	if (ok) {
		const ssize_t got = recv(fd, b, 1, 0);

		ok = got == 0 || (got < 0 && errno == ECONNRESET);
	}
	if (fd >= 0)
		close(fd);
	return ok;
}

TEST(before_authentication_all_else_is_refused)
{
	uint8_t b[EPD_FRAME + 512] = { 0 };
	int refused = 0;

	CHECK_INT(wire_start(&w, ADDRESS, KEY, NULL), 0);
	/* Every verb, with and without what it would have, large and small. */
	for (uint16_t verb = 0; verb <= EPD_WIRE_VERBS; verb++)
		for (int i = 0; i < 5; i++) {
			static const uint32_t body[] = { 0, 20, 257, 16 << 20,
				UINT32_MAX };
			struct epd_frame f = { .verb = verb, .id = 1,
				.body = body[i], .bulk =
				verb == EPD_WIRE_WRITE ? 1 << 30 : 0 };

			if (verb == EPD_WIRE_PROVE && body[i] == 20)
				f.body = 67;
			epd_frame_pack(b, &f);
			if (!hangs_up(b, EPD_FRAME + (f.body < 512 ? f.body : 0)))
				CHECK_FAIL("verb %d, body %u", verb, f.body);
			refused++;
		}
	/* No frames at all. */
	CHECK(hangs_up("GET / HTTP/1.1\r\nHost: here\r\n\r\n1234567890123456789",
	    EPD_FRAME));
	memset(b, 0xff, sizeof b);
	CHECK(hangs_up(b, EPD_FRAME));
	memset(b, 0, sizeof b);
	CHECK(hangs_up(b, EPD_FRAME));
	refused += 3;
	CHECK(wire_settles(&w, 3000));
	CHECK_INT(w.host.begun, 0);
	printf("# %d hostile frames refused\n", refused);
	CHECK(refused >= 50);
	wire_stop(&w);
}

/* What a server refuses with is text before anybody sees it. */
TEST(refused_in_words_that_are_none)
{
	struct epd_why why;

	CHECK_INT(epd_hello_refused(&why, EPD_EPEER, epd_span_str("no\x1b]0;x"
	    "\x07 \xff by \xc2\x9b" "2J at /srv/key: \xe2\x82\xac")), EPD_EPEER);
	CHECK_STR(why.text, "no?]0;x? ? by ?2J at (path): \xe2\x82\xac");
	CHECK_INT(epd_hello_refused(&why, EPD_ECREDIT, epd_span("", 0)),
	    EPD_ECREDIT);
	CHECK_STR(why.text, epd_strerror(EPD_ECREDIT));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
