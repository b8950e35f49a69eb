/* dir_etcd - the directory while etcd stops, dies, forgets, and while nodes do. */
#include <errno.h>
#include <sys/mman.h>

#include "dir/dir.h"
#include "tests/check.h"
#include "tests/unit/etcd.h"

static const uint8_t shard[16] = { 0xaa, 1 };

/* Till it is away, or is not. */
static int
away_till(struct seat *s, int away, uint64_t ms)
{
	const uint64_t end = in_ms(ms);

	while (epd_dir_is_away(s->d) != away && epd_clock_boot_ns() < end)
		epd_clock_sleep_ns(5 * MS);
	return epd_dir_is_away(s->d);
}

/* A change is seen by who had the answer, soon, and no answer is older than the bound. */
TEST(a_watch_brings_what_another_told)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 1);
	struct seat a, b;
	uint64_t lookups, worst = 0;

	seat_set(&a, 1, "watch");
	seat_set(&b, 2, "watch");
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 1, 0, out, 2, 0), 0);
	for (uint32_t v = 1; v < 20; v++) {
		uint64_t t0 = epd_clock_boot_ns();

		h.version = v;
		out->version = 0;
		CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
		while (out->version != v) {
			CHECK(epd_clock_boot_ns() - t0 < 5000 * MS);
			(void)epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 0, out, 2,
			    in_ms(2000), &b.why);
			epd_clock_sleep_ns(MS);
		}
		t0 = epd_clock_boot_ns() - t0;
		worst = t0 > worst ? t0 : worst;
	}
	printf("# put to seen by another: at most %.1f ms\n", (double)worst / 1e6);
	/* Within the bound, from when etcd took it. */
	CHECK(worst < 500 * MS + 500 * MS);
	/* What is not touched is answered by the watch's progress, without a question. */
	epd_clock_sleep_ns(300 * MS);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 1, 1, out, 2, 2000), 1);
	lookups = seat_count(&b, EPD_M_DIR_UNFRESH);
	for (int i = 0; i < 150; i++) {
		CHECK_INT(epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(2000), &b.why), 1);
		CHECK(out->age_ns <= 500 * MS);
		epd_clock_sleep_ns(10 * MS);
	}
	CHECK_INT(seat_count(&b, EPD_M_DIR_UNFRESH), lookups);
	CHECK(seat_count(&b, EPD_M_DIR_AGE_MAX_NS) <= 500 * MS);
	CHECK(seat_count(&b, EPD_M_DIR_AGE_MAX_NS) > 0);
	seat_close(&a);
	seat_close(&b);
}

/* The questions it costs are counted by a proxy's eye: etcd's own revision does not move. */
TEST(nothing_is_written_where_nothing_happens)
{
	char before[512], after[512], *r;
	struct epd_hint out[1];
	struct seat a, b;

	seat_set(&a, 1, "quiet");
	seat_set(&b, 2, "quiet");
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(find_till(&a, EPD_HINT_PAGE, 1, 0, out, 1, 0), 0);
	epd_clock_sleep_ns(500 * MS);
	CHECK_INT(etcd_ask("POST", "/v3/kv/range", "{\"key\":\"Zm9v\"}", before,
	    sizeof before), 200);
	epd_clock_sleep_ns(1000 * MS);
	CHECK_INT(etcd_ask("POST", "/v3/kv/range", "{\"key\":\"Zm9v\"}", after,
	    sizeof after), 200);
	r = strstr(before, "\"revision\"");
	CHECK(r && !strncmp(r, strstr(after, "\"revision\""), 20));
	seat_close(&a);
	seat_close(&b);
}

/* Who else writes to the same etcd moves its revision and tells us nothing. */
TEST(anothers_writes_do_not_stop_progress)
{
	struct epd_hint out[1], h = hint_of(EPD_HINT_PAGE, 2);
	const uint64_t end = in_ms(2000);
	struct seat s;

	seat_set(&s, 1, "others");
	/* With no question by the call: it has no time for one. */
	CHECK_INT(seat_open(&s), 0);
	CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
	CHECK_INT(find_till(&s, EPD_HINT_PAGE, 2, 1, out, 1, 5000), 1);
	epd_clock_sleep_ns(300 * MS);
	CHECK_INT(find_till(&s, EPD_HINT_PAGE, 2, 1, out, 1, 5000), 1);
	while (epd_clock_boot_ns() < end) {
		CHECK_INT(etcd_ask("POST", "/v3/kv/put",
		    "{\"key\":\"Zm9v\",\"value\":\"Zm9v\"}", NULL, 0), 200);
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 0, out, 1, 0,
		    &s.why), 1);
		CHECK(out->age_ns <= 500 * MS);
		epd_clock_sleep_ns(5 * MS);
	}
	CHECK_INT(seat_count(&s, EPD_M_DIR_UNFRESH), 0);
	seat_close(&s);
}

TEST(a_node_that_dies_takes_its_hints_along)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_STATE, 3);
	struct seat a, b;
	pid_t pid;
	uint64_t t0;

	seat_set(&a, 1, "dies");
	a.c.directory_lease_ms = 2000;
	a.bare = 1;
	seat_set(&b, 2, "dies");
	pid = another();
	if (pid == 0) {
		if (seat_open(&a) || epd_dir_put(a.d, &h, in_ms(5000), &a.why))
			_exit(1);
		for (;;)
			pause();
	}
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(find_till(&b, EPD_HINT_STATE, 3, 1, out, 2, 10000), 1);
	/* It stands as long as it lives, beyond its lease. */
	epd_clock_sleep_ns(4500 * MS);
	CHECK_INT(find_till(&b, EPD_HINT_STATE, 3, 1, out, 2, 0), 1);
	kill(pid, SIGKILL);
	CHECK_INT(scratch_wait(pid), -SIGKILL);
	t0 = epd_clock_boot_ns();
	CHECK_INT(find_till(&b, EPD_HINT_STATE, 3, 0, out, 2, 15000), 0);
	printf("# a node of 2 s is gone after %.1f s\n",
	    (double)(epd_clock_boot_ns() - t0) / 1e9);
	seat_close(&b);
}

/* Stopped, it is asked in vain: fresh, then absent, then by itself. */
TEST(a_stopped_etcd_costs_no_more_than_the_deadline)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 4);
	struct seat s, other, cmd;
	uint64_t t0, worst = 0, stop;
	int old = 0;

	seat_set(&other, 2, "stopped");
	seat_set(&s, 1, "stopped");
	s.c.directory_timeout_ms = 1000;
	CHECK_INT(seat_open(&other), 0);
	CHECK_INT(epd_dir_put(other.d, &h, in_ms(5000), &other.why), 0);
	cmd = s;
	cmd.o.stays = 0;
	cmd.o.config = &cmd.c;
	cmd.o.arg = &cmd;
	CHECK_INT(seat_open(&s), 0);
	CHECK_INT(seat_open(&cmd), 0);
	CHECK_INT(find_till(&s, EPD_HINT_PAGE, 4, 1, out, 2, 5000), 1);
	epd_clock_sleep_ns(300 * MS);
	CHECK_INT(find_till(&s, EPD_HINT_PAGE, 4, 1, out, 2, 5000), 1);
	etcd_signal(SIGSTOP);
	stop = epd_clock_boot_ns();
	/* A short command's calls take their time, till a question's is over. */
	for (int i = 0; i < 14; i++) {
		t0 = epd_clock_boot_ns();
		CHECK(epd_dir_find(cmd.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(100), &cmd.why) <= 0);
		t0 = epd_clock_boot_ns() - t0;
		worst = t0 > worst ? t0 : worst;
		if (cmd.gone && t0 < 50 * MS)
			break;
	}
	CHECK_INT(cmd.gone, 1);
	CHECK(t0 < 50 * MS);
	while (epd_clock_boot_ns() - stop < 2500 * MS) {
		int n;

		t0 = epd_clock_boot_ns();
		n = epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(100), &s.why);
		if (n > 0 && epd_clock_boot_ns() - stop > 550 * MS)
			old++;
		if (n > 0 && out->age_ns > 500 * MS)
			old++;
		t0 = epd_clock_boot_ns() - t0;
		worst = t0 > worst ? t0 : worst;
		epd_clock_sleep_ns(10 * MS);
	}
	etcd_signal(SIGCONT);
	printf("# the longest call while etcd stood still: %.0f ms of 100\n",
	    (double)worst / 1e6);
	CHECK_INT(old, 0);
	CHECK(worst < 400 * MS);
	CHECK(seat_count(&s, EPD_M_DIR_UNFRESH) > 2);
	CHECK_INT(s.gone, 1);
	CHECK_INT(away_till(&s, 0, 15000), 0);
	CHECK_INT(find_till(&s, EPD_HINT_PAGE, 4, 1, out, 2, 5000), 1);
	CHECK_INT(s.back, 1);
	CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 1);
	CHECK(seat_count(&s, EPD_M_DIR_AGE_MAX_NS) <= 500 * MS);
	CHECK_INT(away_till(&other, 0, 15000), 0);
	CHECK_INT(find_till(&cmd, EPD_HINT_PAGE, 4, 1, out, 2, 15000), 1);
	CHECK_INT(cmd.back, 1);
	seat_close(&s);
	seat_close(&cmd);
	seat_close(&other);
}

/* What a command that asks once pays for it. */
TEST(a_short_command_pays_no_watch)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 16);
	uint64_t best[3] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	const int tasks = scratch_have("task");

	for (int i = 0; i < 20; i++) {
		struct seat s;
		uint64_t t[4];

		seat_set(&s, 1, "pays");
		s.o.stays = 0;
		s.bare = 1;
		t[0] = epd_clock_boot_ns();
		CHECK_INT(seat_open(&s), 0);
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		t[1] = epd_clock_boot_ns();
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(5000), &s.why), 1);
		t[2] = epd_clock_boot_ns();
		CHECK_INT(scratch_have("task"), tasks);
		epd_dir_close(s.d);
		t[3] = epd_clock_boot_ns();
		for (int k = 0; k < 3; k++)
			if (t[k + 1] - t[k] < best[k])
				best[k] = t[k + 1] - t[k];
	}
	printf("# open and put %.1f ms, find %.1f ms, close %.1f ms\n",
	    (double)best[0] / 1e6, (double)best[1] / 1e6, (double)best[2] / 1e6);
	CHECK(best[0] + best[1] + best[2] < 100 * MS);
}

/* An answer that came too late is none, whoever asked. */
TEST(an_answer_older_than_the_bound_is_absent)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 5);
	struct seat s;
	pid_t pid;

	seat_set(&s, 1, "late");
	s.o.stays = 0;
	s.c.bounded_staleness_ms = 200;
	s.c.directory_timeout_ms = 20000;
	CHECK_INT(seat_open(&s), 0);
	CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
	for (int i = 0; i < 20; i++)
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(2000), &s.why), 1);
	epd_clock_sleep_ns(250 * MS);
	etcd_signal(SIGSTOP);
	/* Its second question is answered at once. */
	pid = another();
	if (pid == 0) {
		epd_clock_sleep_ns(600 * MS);
		etcd_signal(SIGCONT);
		_exit(0);
	}
	CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 0, out, 2,
	    in_ms(10000), &s.why), 1);
	CHECK(out->age_ns <= 200 * MS);
	CHECK_INT(scratch_wait(pid), 0);
	seat_close(&s);
}

TEST(killed_said_once_and_begun_again)
{
	struct epd_hint out[2], mine = hint_of(EPD_HINT_PAGE, 6),
		late = hint_of(EPD_HINT_FEATURE, 7), gone = hint_of(EPD_HINT_PAGE, 8);
	struct seat a, b;
	uint64_t term, t0, worst = 0;

	seat_set(&a, 1, "killed");
	seat_set(&b, 2, "killed");
	/* Its lease is over by the time that etcd is back. */
	a.c.directory_lease_ms = 2000;
	b.o.stays = 0;
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(epd_dir_put(a.d, &mine, in_ms(5000), &a.why), 0);
	CHECK_INT(epd_dir_put(a.d, &gone, in_ms(5000), &a.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 6, 1, out, 2, 5000), 1);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 8, 1, out, 2, 5000), 1);
	etcd_kill();
	CHECK_INT(away_till(&a, 1, 5000), 1);
	for (int i = 0; i < 200; i++) {
		t0 = epd_clock_boot_ns();
		CHECK_INT(epd_dir_put(a.d, &late, in_ms(1000), &a.why), 0);
		CHECK_INT(epd_dir_find(a.d, EPD_HINT_FEATURE, late.key, 0, out,
		    2, in_ms(1000), &a.why), 1);
		t0 = epd_clock_boot_ns() - t0;
		worst = t0 > worst ? t0 : worst;
		(void)epd_dir_find(b.d, EPD_HINT_PAGE, mine.key, 0, out, 2,
		    in_ms(1000), &b.why);
		epd_clock_sleep_ns(15 * MS);
	}
	/* In memory: nobody is asked. */
	CHECK(worst < 100 * MS);
	CHECK_INT(epd_dir_remove(a.d, EPD_HINT_PAGE, gone.key, in_ms(100),
	    &a.why), 0);
	CHECK_INT(epd_dir_claim(a.d, shard, 1, &term, in_ms(100), &a.why),
	    EPD_EPEER);
	CHECK_INT(a.gone, 1);
	CHECK_INT(a.back, 0);
	CHECK_INT(b.gone, 1);
	CHECK_INT(seat_count(&a, EPD_M_DIR_AWAY), 1);
	CHECK(seat_count(&a, EPD_M_DIR_UNFRESH) > 0);
	CHECK_INT(etcd_run(), 0);
	CHECK_INT(away_till(&a, 0, 15000), 0);
	CHECK_INT(find_till(&b, EPD_HINT_FEATURE, 7, 1, out, 2, 15000), 1);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 6, 1, out, 2, 15000), 1);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 8, 0, out, 2, 15000), 0);
	/* And they stand: their lease is one that is renewed. */
	epd_clock_sleep_ns(4500 * MS);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 6, 1, out, 2, 0), 1);
	CHECK_INT(epd_dir_claim(a.d, shard, 1, &term, in_ms(5000), &a.why), 0);
	CHECK_INT(a.gone, 1);
	CHECK_INT(a.back, 1);
	CHECK_INT(b.back, 1);
	seat_close(&a);
	seat_close(&b);
}

/* An etcd that forgot everything: its revisions begin anew, and our lease is none. */
TEST(begun_again_on_an_empty_folder)
{
	struct epd_hint out[2], mine = hint_of(EPD_HINT_PAGE, 14),
		theirs = hint_of(EPD_HINT_PAGE, 15);
	struct seat a, b;
	int there;

	seat_set(&a, 1, "empty");
	seat_set(&b, 2, "empty");
	b.bare = 1;
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(epd_dir_put(a.d, &mine, in_ms(5000), &a.why), 0);
	CHECK_INT(epd_dir_put(b.d, &theirs, in_ms(5000), &b.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 14, 1, out, 2, 5000), 1);
	CHECK_INT(find_till(&a, EPD_HINT_PAGE, 15, 1, out, 2, 5000), 1);
	etcd_kill();
	epd_dir_close(b.d);
	there = open(etcd.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(epd_file_remove(there, "etcd"), 0);
	close(there);
	CHECK_INT(etcd_run(), 0);
	CHECK_INT(away_till(&a, 0, 15000), 0);
	CHECK_INT(find_till(&a, EPD_HINT_PAGE, 14, 1, out, 2, 15000), 1);
	CHECK_INT(find_till(&a, EPD_HINT_PAGE, 15, 0, out, 2, 5000), 0);
	CHECK(out->age_ns <= 500 * MS);
	seat_close(&a);
}

/* With nothing to tell there is nothing to do: a second of it is a few ms of work. */
TEST(one_that_serves_nobody_rests_when_etcd_is_back)
{
	struct epd_hint h = hint_of(EPD_HINT_PAGE, 13);
	struct timespec t0, t1;
	struct seat s;

	seat_set(&s, 1, "rests");
	s.o.self.address[0] = '\0';
	CHECK_INT(seat_open(&s), 0);
	CHECK_INT(epd_dir_put(s.d, &h, in_ms(1000), &s.why), 0);
	etcd_kill();
	CHECK_INT(away_till(&s, 1, 5000), 1);
	CHECK_INT(etcd_run(), 0);
	CHECK_INT(away_till(&s, 0, 15000), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	epd_clock_sleep_ns(1000 * MS);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
	CHECK((t1.tv_sec - t0.tv_sec) * 1000 +
	    (t1.tv_nsec - t0.tv_nsec) / 1000000 < 250);
	CHECK_INT(epd_dir_remove(s.d, EPD_HINT_PAGE, h.key, in_ms(1000),
	    &s.why), 0);
	seat_close(&s);
}

/* Stopped for longer than a lease: the node's hints go, and come again. */
TEST(a_lease_that_was_lost_is_granted_anew)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 9);
	char text[4096], body[128], *id;
	struct seat a, b;

	seat_set(&a, 1, "lost");
	seat_set(&b, 2, "lost");
	b.o.stays = 0;
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 9, 1, out, 2, 5000), 1);
	/* Revoked behind its back: by key /lost/nodes/, to /lost/nodes0. */
	CHECK_INT(etcd_ask("POST", "/v3/kv/range", "{\"key\":\"L2xvc3Qvbm9kZXMv\","
	    "\"range_end\":\"L2xvc3Qvbm9kZXMw\"}", text, sizeof text), 200);
	id = strstr(text, "\"lease\":\"");
	CHECK(id != NULL);
	/* Its number has 19 digits, most times. */
	id += strlen("\"lease\":\"");
	snprintf(body, sizeof body, "{\"ID\":\"%.*s\"}",
	    (int)strspn(id, "0123456789"), id);
	CHECK_INT(etcd_ask("POST", "/v3/kv/lease/revoke", body, text,
	    sizeof text), 200);
	CHECK_INT(epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 1, out, 2, in_ms(2000),
	    &b.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 9, 1, out, 2, 15000), 1);
	CHECK_INT(a.gone, 0);
	seat_close(&a);
	seat_close(&b);
}

/* By the proxy: before the first watch is asked for, its revision is compacted away. */
static _Atomic int watches, cancelled;

static int
relay(int fd, const struct service_ask *a)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	char part[4096];
	int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	to.sin_port = htons((uint16_t)etcd.port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(there, (struct sockaddr *)&to, sizeof to))
		goto out;
	snprintf(part, sizeof part, "POST %s HTTP/1.1\r\nHost: etcd\r\n"
	    "Content-Length: %zu\r\n\r\n", a->path, a->n);
	service_say(there, part);
	service_put(there, a->body, a->n);
	for (int i = 0; i < 3000; i++) {
		struct pollfd p[2] = { { there, POLLIN, 0 },
			{ fd, POLLRDHUP, 0 } };

		if (poll(p, 2, 10) > 0 && p[1].revents)
			break;
		if (!p[0].revents)
			continue;
		n = recv(there, part, sizeof part - 1, 0);
		if (n <= 0 || service_put(fd, part, (size_t)n))
			break;
		part[n] = '\0';
		cancelled += strstr(part, "compact_revision") != NULL;
	}
out:
	close(there);
	return -1;
}

static int
proxy(struct service *s, int fd, const struct service_ask *a)
{
	char text[65536];
	long status;

	(void)s;
	if (!strcmp(a->path, "/v3/watch")) {
		for (int i = 0; !watches && i < 3; i++)
			etcd_ask("POST", "/v3/kv/put",
			    "{\"key\":\"Zm9v\",\"value\":\"Zm9v\"}", text,
			    sizeof text);
		if (!watches++) {
			char body[128], *r = strstr(text, "\"revision\":\"");

			snprintf(body, sizeof body, "{\"revision\":\"%ld\"}",
			    r ? atol(r + 12) : 1);
			etcd_ask("POST", "/v3/kv/compaction", body, NULL, 0);
		}
		return relay(fd, a);
	}
	status = etcd_ask(a->method, a->path, a->body, text, sizeof text);
	return status < 0 ? -1 :
	    service_reply(fd, (int)status, text, strlen(text));
}

TEST(a_compacted_watch_is_begun_anew)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 12);
	struct service between;
	struct seat a, b;

	seat_set(&a, 1, "compacted");
	seat_set(&b, 2, "compacted");
	snprintf(b.c.directory_endpoints, EPD_CONFIG_STR, "http://127.0.0.1:%d",
	    service_begin(&between, 0, proxy, NULL));
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	for (int i = 0; i < 1000 && watches < 2; i++) {
		CHECK(find_till(&b, EPD_HINT_PAGE, 12, 0, out, 2, 0) >= 0);
		epd_clock_sleep_ns(5 * MS);
	}
	CHECK(cancelled > 0);
	CHECK(watches >= 2);
	CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 12, 1, out, 2, 5000), 1);
	/* By the watch alone: a call has no time to ask. */
	epd_clock_sleep_ns(1000 * MS);
	CHECK_INT(epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 0, out, 2, 0, &b.why),
	    1);
	CHECK_INT(b.gone, 0);
	seat_close(&a);
	seat_close(&b);
	service_end(&between);
}

/* All that was is compacted, again and again, and etcd begins anew on what is left. */
TEST(history_is_compacted_away_under_a_watch)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 10);
	char text[512], body[128], *r;
	struct seat a, b;

	seat_set(&a, 1, "compact");
	seat_set(&b, 2, "compact");
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 10, 0, out, 2, 0), 0);
	for (uint32_t v = 1; v < 30; v++) {
		h.version = v;
		CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
		CHECK_INT(etcd_ask("POST", "/v3/kv/range", "{\"key\":\"Zm9v\"}",
		    text, sizeof text), 200);
		r = strstr(text, "\"revision\":\"");
		CHECK(r != NULL);
		snprintf(body, sizeof body, "{\"revision\":\"%ld\"}",
		    atol(r + 12));
		CHECK(etcd_ask("POST", "/v3/kv/compaction", body, NULL, 0) > 0);
		if (v % 10 == 5) {
			etcd_kill();
			CHECK_INT(etcd_run(), 0);
			CHECK_INT(away_till(&a, 0, 15000), 0);
			CHECK_INT(away_till(&b, 0, 15000), 0);
		}
	}
	for (int i = 0; i < 2000 && out->version != 29; i++) {
		(void)epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 0, out, 2,
		    in_ms(2000), &b.why);
		epd_clock_sleep_ns(5 * MS);
	}
	CHECK_INT(out->version, 29);
	seat_close(&a);
	seat_close(&b);
}

TEST(of_two_who_claim_one_wins_and_its_death_passes_it_on)
{
	struct epd_node_info n;
	struct seat a, b;
	uint64_t ta = 0, tb = 0;
	int rc = -1;
	const uint64_t end = in_ms(20000);

	seat_set(&a, 1, "claim");
	seat_set(&b, 2, "claim");
	a.c.directory_lease_ms = 2000;
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(epd_dir_claim(a.d, shard, 3, &ta, in_ms(5000), &a.why), 0);
	CHECK_INT(ta, 3);
	CHECK_INT(epd_dir_claim(b.d, shard, 1, &tb, in_ms(5000), &b.why),
	    EPD_ELOCKED);
	CHECK(strstr(b.why.text, "node1") != NULL);
	CHECK_INT(epd_dir_owner(b.d, shard, &n, &tb, in_ms(5000), &b.why), 1);
	CHECK_INT(tb, 3);
	CHECK_STR(n.address, "tcp://127.0.0.1:7001");
	/* Its disclaim is of its own alone. */
	CHECK_INT(epd_dir_disclaim(b.d, shard, in_ms(5000), &b.why), 0);
	CHECK_INT(epd_dir_owner(b.d, shard, &n, &tb, in_ms(5000), &b.why), 1);
	epd_dir_close(a.d);
	a.d = NULL;
	while (rc && epd_clock_boot_ns() < end)
		rc = epd_dir_claim(b.d, shard, 1, &tb, in_ms(5000), &b.why);
	CHECK_INT(rc, 0);
	CHECK_INT(tb, 4);
	/* The old one is back, with what it remembers. */
	CHECK_INT(epd_dir_open(&a.d, &a.o, &a.why), 0);
	CHECK_INT(epd_dir_claim(a.d, shard, 9, &ta, in_ms(5000), &a.why),
	    EPD_ELOCKED);
	CHECK_INT(ta, 3);
	seat_close(&a);
	seat_close(&b);
}

/* Two processes of one store that have one name: who lost it to the other lets it be. */
TEST(two_that_call_themselves_the_same_settle)
{
	uint64_t term[2] = { 0, 0 }, last = 0;
	struct seat s[2];
	int had[2] = { 0, 0 }, rc;

	for (int i = 0; i < 2; i++) {
		seat_set(&s[i], 1, "same");
		CHECK_INT(seat_open(&s[i]), 0);
	}
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 2; i++) {
			rc = epd_dir_claim(s[i].d, shard, 1, &term[i],
			    in_ms(5000), &s[i].why);
			CHECK(rc == 0 || rc == EPD_ELOCKED);
			had[i] = rc == 0;
			if (rc == EPD_ELOCKED)
				CHECK(strstr(s[i].why.text,
				    "another process owns it") != NULL);
			last = term[i] > last ? term[i] : last;
		}
	/* The second took it as a successor would, and that was all. */
	CHECK_INT(last, 2);
	CHECK_INT(had[0] + had[1], 1);
	CHECK_INT(seat_count(&s[0], EPD_M_DIR_FENCED) +
	    seat_count(&s[1], EPD_M_DIR_FENCED), 1);
	/* What the loser has no more use for stays the winner's. */
	rc = had[1];
	CHECK_INT(epd_dir_disclaim(s[!rc].d, shard, in_ms(5000), &s[!rc].why),
	    0);
	CHECK_INT(epd_dir_claim(s[rc].d, shard, 1, &last, in_ms(5000),
	    &s[rc].why), 0);
	CHECK_INT(last, 2);
	/* When it is gone the other has it. */
	seat_close(&s[rc]);
	while (epd_dir_claim(s[!rc].d, shard, 1, &term[!rc], in_ms(5000),
	    &s[!rc].why) == EPD_ELOCKED)
		epd_clock_sleep_ns(20 * MS);
	CHECK_INT(term[!rc], 3);
	seat_close(&s[!rc]);
}

/* Who was not told yet that another of his name took it does not take it back, either. */
TEST(who_lost_it_unawares_disclaims_nothing)
{
	struct epd_node_info node;
	uint64_t term[2] = { 0, 0 }, now = 0;
	struct seat s[2];

	for (int i = 0; i < 2; i++) {
		seat_set(&s[i], 1, "unawares");
		CHECK_INT(seat_open(&s[i]), 0);
		CHECK_INT(epd_dir_claim(s[i].d, shard, 1, &term[i],
		    in_ms(5000), &s[i].why), 0);
	}
	CHECK(term[1] > term[0]);
	CHECK_INT(epd_dir_disclaim(s[0].d, shard, in_ms(5000), &s[0].why), 0);
	CHECK_INT(epd_dir_owner(s[1].d, shard, &node, &now, in_ms(5000),
	    &s[1].why), 1);
	CHECK_INT(now, term[1]);
	CHECK_INT(epd_dir_disclaim(s[1].d, shard, in_ms(5000), &s[1].why), 0);
	CHECK_INT(epd_dir_owner(s[1].d, shard, &node, &now, in_ms(5000),
	    &s[1].why), 0);
	for (int i = 0; i < 2; i++)
		seat_close(&s[i]);
}

/* A node is a store and a name: the name alone, or the store's UUID alone, is another. */
TEST(a_name_is_no_claim)
{
	struct seat s[3];
	uint64_t term = 0, none = 0;

	for (int i = 0; i < 3; i++)
		seat_set(&s[i], 1, "name");
	memset(s[1].o.self.uuid, 0x77, sizeof s[1].o.self.uuid);
	strcpy(s[2].o.self.name, "node7");
	for (int i = 0; i < 3; i++)
		CHECK_INT(seat_open(&s[i]), 0);
	CHECK_INT(epd_dir_claim(s[0].d, shard, 1, &term, in_ms(5000),
	    &s[0].why), 0);
	for (int i = 1; i < 3; i++) {
		CHECK_INT(epd_dir_claim(s[i].d, shard, 9, &none, in_ms(5000),
		    &s[i].why), EPD_ELOCKED);
		CHECK_INT(epd_dir_disclaim(s[i].d, shard, in_ms(5000),
		    &s[i].why), 0);
	}
	CHECK_INT(epd_dir_claim(s[0].d, shard, 1, &none, in_ms(5000),
	    &s[0].why), 0);
	CHECK_INT(none, term);
	for (int i = 0; i < 3; i++)
		seat_close(&s[i]);
}

/* A shared page of what processes saw. */
static uint64_t *
shared(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Killed, stopped, gone on with: terms never go back, and two never have one. */
TEST(an_owner_that_stood_still_is_fenced)
{
	volatile uint64_t *see = shared();
	uint64_t tb = 0, got;
	struct seat a, b;
	int rc = -1;
	const uint64_t end = in_ms(30000);
	pid_t pid;

	seat_set(&a, 1, "fence");
	seat_set(&b, 2, "fence");
	a.c.directory_lease_ms = 2000;
	pid = another();
	if (pid == 0) {
		if (seat_open(&a) || epd_dir_claim(a.d, shard, 1, &got,
		    in_ms(5000), &a.why))
			_exit(1);
		see[0] = got;
		see[1] = 1;
		while (see[1] != 2)
			epd_clock_sleep_ns(10 * MS);
		/* It thinks it owns it. */
		see[2] = (uint64_t)-epd_dir_claim(a.d, shard, got, &got,
		    in_ms(10000), &a.why);
		see[0] = got;
		see[3] = seat_count(&a, EPD_M_DIR_FENCED);
		seat_close(&a);
		_exit(0);
	}
	CHECK_INT(seat_open(&b), 0);
	while (!see[1] && epd_clock_boot_ns() < end)
		epd_clock_sleep_ns(10 * MS);
	CHECK_INT(see[0], 1);
	kill(pid, SIGSTOP);
	while (rc && epd_clock_boot_ns() < end) {
		rc = epd_dir_claim(b.d, shard, 1, &tb, in_ms(5000), &b.why);
		epd_clock_sleep_ns(20 * MS);
	}
	CHECK_INT(rc, 0);
	CHECK_INT(tb, 2);
	see[1] = 2;
	kill(pid, SIGCONT);
	CHECK_INT(scratch_wait(pid), 0);
	CHECK_INT(-(int)see[2], EPD_ELOCKED);
	CHECK_INT(see[3], 1);
	CHECK_INT(see[0], 1);
	seat_close(&b);
	munmap((void *)see, 4096);
}

TEST(eight_claim_at_once_and_each_term_is_given_once)
{
	enum { CLAIMANTS = 8, ROUNDS = 12 };
	uint64_t *see = shared();
	pid_t pid[CLAIMANTS];
	int won = 0;

	for (int i = 0; i < CLAIMANTS; i++) {
		pid[i] = another();
		if (pid[i])
			continue;
		struct seat s;
		uint64_t term;
		int bad = 0;

		seat_set(&s, i, "many");
		s.o.stays = i % 2;
		if (seat_open(&s))
			_exit(1);
		for (int k = 0; k < ROUNDS; k++) {
			int rc = epd_dir_claim(s.d, shard, 1, &term,
			    in_ms(20000), &s.why);

			if (!rc && term < 500) {
				__atomic_fetch_add(&see[term], 1,
				    __ATOMIC_SEQ_CST);
				bad |= epd_dir_disclaim(s.d, shard,
				    in_ms(20000), &s.why);
			} else if (rc != EPD_ELOCKED) {
				bad = 1;
			}
			epd_clock_sleep_ns((unsigned)i * MS);
		}
		seat_close(&s);
		_exit(bad);
	}
	for (int i = 0; i < CLAIMANTS; i++)
		CHECK_INT(scratch_wait(pid[i]), 0);
	for (int i = 0; i < 500; i++) {
		CHECK(see[i] <= 1);
		won += see[i] == 1;
	}
	CHECK(won > 0);
	for (int i = 1; i <= won; i++)
		CHECK_INT(see[i], 1);
	munmap((void *)see, 4096);
}

/* A node whose clocks are off: wall by decades, boot by an hour. */
static void *
turn_clock(void *arg)
{
	/* A reading a tick, none of which is written twice. */
	static struct epd_clock_fake tick[60000];
	_Atomic int *turned = arg;

	for (int i = 0; i < 60000; i++) {
		struct timespec t;

		clock_gettime(CLOCK_BOOTTIME, &t);
		tick[i].boot_ns = (uint64_t)t.tv_sec * 1000000000 +
		    (uint64_t)t.tv_nsec + 3600 * 1000 * MS;
		tick[i].wall_ms = 4000000000000ull + tick[i].boot_ns / MS;
		epd_clock_fake(&tick[i]);
		*turned = 1;
		usleep(1000);
	}
	return NULL;
}

TEST(no_two_clocks_are_compared)
{
	struct epd_hint out[4], h = hint_of(EPD_HINT_PAGE, 11);
	volatile uint64_t *see = shared();
	uint64_t term, worst = 0, got;
	struct seat a, b;
	pid_t pid;
	const uint64_t end = in_ms(20000);

	seat_set(&a, 1, "skew");
	seat_set(&b, 2, "skew");
	a.c.directory_lease_ms = b.c.directory_lease_ms = 2000;
	a.bare = 1;
	pid = another();
	if (pid == 0) {
		static _Atomic int turned;
		pthread_t t;

		pthread_create(&t, NULL, turn_clock, &turned);
		while (!turned)
			usleep(100);
		if (seat_open(&a) || epd_dir_claim(a.d, shard, 1, &got,
		    in_ms(5000), &a.why))
			_exit(1);
		see[0] = got;
		for (uint32_t v = 1; !see[5]; v++) {
			struct epd_hint o[4];
			int n;

			if (see[6]) {
				see[6] = 2;
				epd_clock_sleep_ns(5 * MS);
				continue;
			}
			h.version = v;
			if (epd_dir_put(a.d, &h, in_ms(5000), &a.why))
				_exit(2);
			n = epd_dir_find(a.d, EPD_HINT_PAGE, h.key, 0, o, 4,
			    in_ms(2000), &a.why);
			for (int i = 0; i < n; i++)
				if (o[i].age_ns > 500 * MS)
					_exit(3);
			epd_clock_sleep_ns(20 * MS);
			see[1] = 1;
		}
		/* What b told, last, comes first, by whatever clock. */
		see[2] = (uint64_t)epd_dir_find(a.d, EPD_HINT_PAGE, h.key, 1, out,
		    4, in_ms(2000), &a.why);
		see[3] = out[0].owner[0];
		see[4] = out[1].wall_ms - out[0].wall_ms;
		_exit(0);
	}
	CHECK_INT(seat_open(&b), 0);
	while (!see[1] && epd_clock_boot_ns() < end)
		epd_clock_sleep_ns(5 * MS);
	for (int i = 0; i < 200; i++) {
		int n = epd_dir_find(b.d, EPD_HINT_PAGE, h.key, 0, out, 4,
		    in_ms(2000), &b.why);

		for (int k = 0; k < n; k++)
			worst = out[k].age_ns > worst ? out[k].age_ns : worst;
		epd_clock_sleep_ns(20 * MS);
	}
	printf("# staleness with a skewed node: at most %.0f ms of 500\n",
	    (double)worst / 1e6);
	CHECK(worst <= 500 * MS);
	/* It has the shard, twice its lease later. */
	CHECK_INT(epd_dir_claim(b.d, shard, 1, &term, in_ms(5000), &b.why),
	    EPD_ELOCKED);
	see[6] = 1;
	for (int i = 0; i < 1000 && see[6] != 2; i++)
		epd_clock_sleep_ns(5 * MS);
	CHECK_INT(epd_dir_put(b.d, &h, in_ms(5000), &b.why), 0);
	CHECK_INT(find_till(&b, EPD_HINT_PAGE, 11, 2, out, 4, 5000), 2);
	see[5] = 1;
	CHECK_INT(scratch_wait(pid), 0);
	CHECK_INT(see[2], 2);
	CHECK_INT(see[3], 0x12);
	CHECK((int64_t)see[4] > 1000000000ll);
	CHECK_INT(seat_count(&b, EPD_M_DIR_AWAY), 0);
	/* Its death is told by etcd, not by its clock. */
	int rc = -1;
	while (rc && epd_clock_boot_ns() < end)
		rc = epd_dir_claim(b.d, shard, 1, &term, in_ms(5000), &b.why);
	CHECK_INT(rc, 0);
	CHECK_INT(term, 2);
	seat_close(&b);
	munmap((void *)see, 4096);
}

struct caller {
	pthread_t thread;
	struct seat *s;
	unsigned nth;
	uint64_t worst;
	int bad;
};

static void *
call_on(void *arg)
{
	struct caller *c = arg;
	struct epd_hint out[2], h = hint_of(EPD_HINT_STATE, c->nth);

	for (int i = 0; i < 60; i++) {
		const uint64_t t0 = epd_clock_boot_ns();
		uint64_t took;

		h.version = (uint32_t)i;
		c->bad |= epd_dir_put(c->s->d, &h, in_ms(50), NULL) < 0;
		(void)epd_dir_find(c->s->d, EPD_HINT_STATE, h.key, i % 2, out, 2,
		    in_ms(50), NULL);
		took = epd_clock_boot_ns() - t0;
		c->worst = took > c->worst ? took : c->worst;
		epd_clock_sleep_ns(10 * MS);
	}
	return NULL;
}

/* Threads and processes on unrelated workflows, while etcd stands still. */
TEST(unrelated_callers_never_wait_for_each_other_or_for_etcd)
{
	enum { THREADS = 6 };
	struct caller c[THREADS];
	volatile uint64_t *see = shared();
	pid_t pid[2];

	for (int p = 0; p < 2; p++) {
		pid[p] = another();
		if (pid[p])
			continue;
		struct seat s;

		seat_set(&s, p, "apart");
		if (seat_open(&s))
			_exit(1);
		epd_clock_sleep_ns(300 * MS);
		see[p] = 1;
		while (!see[9])
			epd_clock_sleep_ns(MS);
		memset(c, 0, sizeof c);
		for (unsigned i = 0; i < THREADS; i++) {
			c[i].s = &s;
			c[i].nth = (unsigned)p * 100 + i;
			pthread_create(&c[i].thread, NULL, call_on, &c[i]);
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(c[i].thread, NULL);
			if (c[i].bad)
				_exit(2);
			see[2 + p] = c[i].worst > see[2 + p] ? c[i].worst :
			    see[2 + p];
		}
		seat_close(&s);
		_exit(0);
	}
	for (int i = 0; i < 2000 && !(see[0] && see[1]); i++)
		epd_clock_sleep_ns(5 * MS);
	etcd_signal(SIGSTOP);
	see[9] = 1;
	for (int p = 0; p < 2; p++)
		CHECK_INT(scratch_wait(pid[p]), 0);
	etcd_signal(SIGCONT);
	printf("# the longest put and find: %.0f ms of 50\n",
	    (double)(see[2] > see[3] ? see[2] : see[3]) / 1e6);
	CHECK(see[2] < 300 * MS);
	CHECK(see[3] < 300 * MS);
	munmap((void *)see, 4096);
}

/* A handle that was closed left nothing, whatever etcd does. */
TEST(closing_is_quick_and_leaves_nothing)
{
	struct seat s;
	int fds = 0, tasks = scratch_have("task");
	uint64_t t0;

	for (int i = 0; i < 6; i++) {
		struct epd_hint out[1];

		seat_set(&s, 1, "close");
		s.o.stays = i != 3;
		CHECK_INT(seat_open(&s), 0);
		CHECK_INT(find_till(&s, EPD_HINT_PAGE, 1, 0, out, 1, 0), 0);
		epd_clock_sleep_ns(100 * MS);
		if (i == 4)
			etcd_signal(SIGSTOP);
		if (i == 4)
			epd_clock_sleep_ns(200 * MS);
		t0 = epd_clock_boot_ns();
		epd_dir_close(s.d);
		t0 = epd_clock_boot_ns() - t0;
		s.d = NULL;
		seat_close(&s);
		etcd_signal(SIGCONT);
		CHECK(t0 < 1500 * MS);
		if (!i)
			fds = scratch_have("fd");
	}
	CHECK_INT(scratch_have("fd"), fds);
	CHECK_INT(scratch_have("task"), tasks);
}

int
main(int argc, char **argv)
{
	return etcd_main("dir_etcd", argc, argv);
}
