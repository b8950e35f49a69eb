/* rail_death.h - either end dies, stops, or cannot be heard; and what is left. */

enum { BIG = 16 << 20, EACH = BIG / 64 };

/* A host with BIG bytes to be read, and a rail. */
static struct epd_rail *
start_big(struct host *h, struct epd_rail_key *k)
{
	struct epd_rail *r;

	if (host_start(h) || !(r = join(h, 0, "rxe0")))
		return NULL;
	if (expose(h, 0, ASK_MEMORY, BIG, 0, 4, 0))
		return NULL;
	*k = h->got.key;
	return r;
}

/* Begin to read BIG as 64 moves, from the nth to the last: where it ended. */
static int
read_on(struct epd_rail *r, const struct epd_rail_key *k, char *p, int n, int last)
{
	while (n < last && !begin(r, EPD_OP_READ, k,
	    (uint64_t)n * EACH, EACH, p + (uint64_t)n * EACH, (uint64_t)n))
		n++;
	return n;
}

static int
read_all(struct epd_rail *r, const struct epd_rail_key *k, char *p)
{
	return read_on(r, k, p, 0, 64);
}

/* Take n that are done: each once, certain bytes are there; those that failed. */
static int
take_all(struct epd_rail *r, int n, const char *p, uint64_t ms)
{
	struct epd_piece_done d;
	uint64_t seen = 0, until = in_ms(ms);
	char *whole = memory(BIG);
	int bad = 0;

	if (!whole)
		return -ENOMEM;
	fill(whole, BIG, 4);
	for (; n > 0 && bad >= 0; n--) {
		const int rc = epd_rail_wait(r, &d, 1, until, &why);

		if (rc != 1)
			bad = rc < 0 ? rc : -EILSEQ;
		else if (d.tag > 63 || seen >> d.tag & 1 || memcmp(p +
		    d.tag * EACH, whole + d.tag * EACH, d.bytes))
			bad = -EILSEQ;
		else
			bad += d.rc != 0;
		seen |= UINT64_C(1) << (d.tag & 63);
	}
	munmap(whole, BIG);
	return bad;
}

TEST(the_host_is_killed_mid_move)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	char *p = memory(BIG);
	uint64_t t;
	int bad;

	CHECK(p && (r = start_big(&h, &k)));
	/* Of these some may end; those behind them cannot. */
	CHECK_INT(read_on(r, &k, p, 0, 32), 32);
	CHECK_INT(deafen(1), 0);
	CHECK_INT(read_on(r, &k, p, 32, 64), 64);
	kill(h.pid, SIGKILL);
	t = now_ms();
	bad = take_all(r, 64, p, 30000);
	CHECK(bad >= 32 && bad <= 64);
	CHECK(now_ms() - t < 10000);
	CHECK_INT(epd_rail_wait(r, &(struct epd_piece_done){ 0 }, 1, in_ms(1000),
	    &why), EPD_EPEER);
	epd_rail_close(r);
	CHECK_INT(deafen(0), 0);
	CHECK_INT(host_end(&h), 128 + SIGKILL);
	munmap(p, BIG);
}

/* By the connection alone: no session tells of it. */
TEST(the_host_is_killed_and_no_tether)
{
	struct epd_rail *r = NULL;
	struct host h;
	int rc = 0;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	CHECK_INT(epd_rail_knock(&r, &h.got.invite, "rxe0", -1, in_ms(10000),
	    &why), 0);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 10000, 0, 0), 0);
	CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), 0);
	kill(h.pid, SIGKILL);
	for (int i = 0; i < 100 && !rc; i++) {
		epd_clock_sleep_ns(SECOND / 20);
		rc = epd_rail_is_lost(r);
	}
	CHECK_INT(rc, EPD_EPEER);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 128 + SIGKILL);
}

/* The session hangs up though the queue pair lives. */
TEST(the_tether_is_let_go)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	int p[2];

	CHECK((r = start_big(&h, &k)));
	CHECK_INT(epd_rail_is_lost(r), 0);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p));
	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	CHECK_INT(epd_rail_knock(&r, &h.got.invite, "rxe0", p[0], in_ms(10000),
	    &why), 0);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 10000, 0, 0), 0);
	CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), 0);
	CHECK_INT(epd_rail_is_lost(r), 0);
	close(p[1]);
	CHECK_INT(epd_rail_is_lost(r), EPD_EPEER);
	epd_rail_close(r);
	close(p[0]);
	CHECK_INT(host_end(&h), 0);
}

/* A guest of a third process: joins, then reads for ever. */
static int
guest_main(int fd)
{
	char *p = memory(BIG);
	struct epd_rail_invite to;
	struct epd_rail_key k;
	struct epd_rail *r = NULL;
	int rc;

	if (!p || all(fd, &to, sizeof to, 0))
		return 1;
	rc = epd_rail_knock(&r, &to, "rxe0", -1, in_ms(10000), NULL);
	if (all(fd, &rc, sizeof rc, 1) || rc)
		return 1;
	rc = epd_rail_joined(r, in_ms(10000), NULL);
	if (all(fd, &k, sizeof k, 0) || rc)
		return 1;
	for (;;) {
		struct epd_piece_done d[64];
		const int n = read_all(r, &k, p);

		if (all(fd, &(int){ n }, sizeof n, 1))
			return 1;
		while (epd_rail_wait(r, d, 64, in_ms(10000), NULL) > 0)
			;
	}
}

/* One life: joined, moving, killed after some time; the host hears of it. */
static int
guest_life(struct host *h, uint64_t ns)
{
	struct host g;
	char no[16];
	int p[2], rc = 0;

	if (host_ask(h, ASK_DOOR, 0, 0, 0, 0) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p))
		return -1;
	fflush(stdout);
	g.pid = fork();
	if (!g.pid) {
		snprintf(no, sizeof no, "%d", dup(p[1]));
		execl("/proc/self/exe", "guest", "guest", no, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	g.fd = p[0];
	if (all(g.fd, &h->got.invite, sizeof h->got.invite, 1) ||
	    all(g.fd, &rc, sizeof rc, 0) || rc ||
	    host_ask(h, ASK_LET_IN, 0, 10000, 0, 0) ||
	    host_ask(h, ASK_EXPOSE, 0, 0, 0, 0) ||
	    all(g.fd, &h->got.key, sizeof h->got.key, 1) ||
	    all(g.fd, &rc, sizeof rc, 0) || rc != 64)
		return -2;
	epd_clock_sleep_ns(ns);
	kill(g.pid, SIGKILL);
	if (host_end(&g) != 128 + SIGKILL)
		return -3;
	if (host_ask(h, ASK_LOST, 0, 10000, 0, 0) != EPD_EPEER)
		return -4;
	return host_ask(h, ASK_CLOSE, 0, 0, 0, 0) ||
	    host_ask(h, ASK_SHUT, 0, 0, 0, 0);
}

TEST(guests_are_killed_mid_move)
{
	struct held was;
	struct host h;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_MEMORY, 0, BIG, 0, 4));
	CHECK_INT(guest_life(&h, 0), 0);	/* from here on it is warm */
	was = count(&h);
	for (int i = 0; i < (rxe_long() ? 8 : 2); i++)
		CHECK_INT(guest_life(&h, (uint64_t)i * SECOND / 20), 0);
	CHECK(is_level(&h, &was));
	CHECK_INT(host_ask(&h, ASK_SAME, 0, 0, 0, 4), 1);
	CHECK_INT(host_end(&h), 0);
}

/* What makes it one-sided. */
TEST(a_stopped_host_is_read_and_written)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	char *p = memory(BIG);

	CHECK(p && (r = start_big(&h, &k)));
	stop(h.pid);
	CHECK_INT(take_all(r, read_all(r, &k, p), p, 60000), 0);
	go_on(h.pid);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, BIG);
}

/* The wire is deaf: the deadline holds, and after close nothing lands. */
TEST(a_deadline_and_nothing_lands_after_it)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	struct epd_piece_done d = { 0 };
	char *p = memory(BIG);
	uint64_t t;
	int rc;

	CHECK(p && (r = start_big(&h, &k)));
	CHECK_INT(deafen(1), 0);
	CHECK_INT(read_all(r, &k, p), 64);
	t = now_ms();
	rc = epd_rail_wait(r, &d, 1, in_ms(300), &why);
	if (rc != EPD_ETIMEOUT)
		printf("# told %d, %s\n", d.rc, epd_strerror(d.rc));
	CHECK_INT(rc, EPD_ETIMEOUT);
	CHECK(now_ms() - t >= 300 && now_ms() - t < 5000);
	t = now_ms();
	epd_rail_close(r);
	CHECK(now_ms() - t < 5000);
	fill(p, BIG, 6);
	CHECK_INT(deafen(0), 0);
	/* Longer than the device would wait to ask again. */
	epd_clock_sleep_ns(2 * SECOND);
	CHECK_INT(same(p, BIG, 6), BIG);
	CHECK_INT(host_end(&h), 0);
	munmap(p, BIG);
}

/* Closed while bytes pour in: from then on memory is ours. */
TEST(closed_mid_move_nothing_lands)
{
	char *p = memory(BIG);

	for (int i = 0; p && i < 4; i++) {
		struct epd_rail_key k;
		struct epd_rail *r;
		struct host h;

		CHECK((r = start_big(&h, &k)));
		if (i & 1)
			CHECK_INT(epd_rail_lend(r, p, BIG), 0);
		CHECK_INT(read_all(r, &k, p), 64);
		epd_clock_sleep_ns((uint64_t)i * SECOND / 50);
		if (i == 3)
			epd_rail_unlend(r, p);	/* no sooner than this breaks it */
		else
			epd_rail_close(r);
		fill(p, BIG, 6);
		epd_clock_sleep_ns(SECOND / 4);
		CHECK_INT(same(p, BIG, 6), BIG);
		if (i == 3) {
			CHECK_INT(epd_rail_is_lost(r), EPD_EPEER);
			epd_rail_close(r);
		}
		CHECK_INT(host_end(&h), 0);
	}
	munmap(p, BIG);
}

/* Who never answers is given up by the device itself, in the end. */
TEST(no_answer_ends_by_itself)
{
	struct epd_piece_done d = { 0 };
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	char *p = memory(MIB);
	uint64_t t;

	CHECK(p && (r = start_big(&h, &k)));
	CHECK_INT(deafen(1), 0);
	t = now_ms();
	CHECK_INT(begin(r, EPD_OP_READ, &k, 0, MIB, p, 1), 0);
	CHECK_INT(epd_rail_wait(r, &d, 1, in_ms(60000), &why), 1);
	CHECK_INT(d.rc, EPD_EPEER);
	CHECK_INT(d.bytes, 0);
	epd_rail_wait(r, &d, 1, in_ms(1), &why);
	printf("# given up after %llu ms: %s\n",
	    (unsigned long long)(now_ms() - t), why.text);
	CHECK(now_ms() - t < 30000);
	CHECK_INT(deafen(0), 0);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, MIB);
}

static double
cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

TEST(who_waits_sleeps)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;
	char *p = memory(MIB);
	double before, spent;

	CHECK(p && (r = start_big(&h, &k)));
	CHECK_INT(deafen(1), 0);
	CHECK_INT(begin(r, EPD_OP_READ, &k, 0, MIB, p, 1), 0);
	before = cpu_seconds();
	CHECK_INT(epd_rail_wait(r, &(struct epd_piece_done){ 0 }, 1, in_ms(1000),
	    &why), EPD_ETIMEOUT);
	spent = cpu_seconds() - before;
	printf("# %.1f ms of processor in a second's wait\n", spent * 1e3);
	CHECK(spent < 0.05);
	CHECK_INT(deafen(0), 0);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, MIB);
}

/* One way to fail, by its number; -1 if it did not. */
static int
fail_once(struct host *h, int i, char *p)
{
	struct epd_rail_invite to;
	struct epd_rail *r = NULL;
	int rc;

	if (i % 4 == 3) {		/* joined, and a move refused */
		struct epd_rail_key k;

		if (!(r = join(h, 0, "rxe0")) || host_ask(h, ASK_EXPOSE, 0, 0,
		    0, 0))
			return -1;
		k = h->got.key;
		rc = move(r, EPD_OP_WRITE, &k, 0, 100, p);
		epd_rail_close(r);
		host_ask(h, ASK_CLOSE, 0, 0, 0, 0);
		return rc == -EACCES ? 0 : -1;
	}
	if (host_ask(h, ASK_DOOR, 0, 0, 0, 0))
		return -1;
	to = h->got.invite;
	to.token[3] ^= (uint8_t)(i % 4 == 0);
	if (i % 4 == 1)
		host_ask(h, ASK_SHUT, 0, 0, 0, 0);
	rc = epd_rail_knock(&r, &to, "rxe0", h->fd, in_ms(5000), &why);
	if (i % 4 == 2)			/* gone before he is let in */
		epd_rail_close(r);
	if (i % 4 != 1) {
		host_ask(h, ASK_LET_IN, 0, 20, 0, 0);
		host_ask(h, ASK_CLOSE, 0, 0, 0, 0);
		host_ask(h, ASK_SHUT, 0, 0, 0, 0);
	}
	if (i % 4 != 2) {
		rc = epd_rail_joined(r, in_ms(5000), &why);
		epd_rail_close(r);
		return rc < 0 ? 0 : -1;
	}
	return 0;
}

TEST(kind29_failures_leave_nothing)
{
	struct held was;
	struct host h;
	char *p = memory(PAIR);

	CHECK(p && !host_start(&h) && !host_ask(&h, ASK_MEMORY, 0, PAIR, 0, 1));
	for (int i = 0; i < 4; i++)
		CHECK_INT(fail_once(&h, i, p), 0);
	CHECK_INT(host_ask(&h, ASK_CLOSE, 0, 0, 0, 0), 0);
	was = count(&h);
	for (int i = 0; i < (rxe_long() ? 400 : 100); i++)
		if (fail_once(&h, i, p)) {
			printf("# the %dth: %s\n", i, why.text);
			CHECK(0);
		}
	CHECK(is_level(&h, &was));
	CHECK_INT(host_ask(&h, ASK_SAME, 0, 0, 0, 1), 1);
	CHECK_INT(host_end(&h), 0);
	munmap(p, PAIR);
}
