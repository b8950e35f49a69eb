/*
 * wire_telling - what a node tells: each thing once, and nothing is taken back that is
 * there.  The etcd is one of the test's own, which counts.
 */
#include <sys/resource.h>

#include "tests/check.h"
#include "tests/unit/depot.h"
#include "tests/unit/service.h"

enum { FIRST = 8 };

static struct {
	struct service service;
	_Atomic int pages, states, gone;	/* hints put, by kind, and removed */
	_Atomic int claims, slow_ms;	/* questions of claims; how long one takes */
	_Atomic int lines;		/* of the log, that say what failed */
	struct depot d;
	struct epd_telling *telling;
} t;

/* How a key under /epd/hints/ begins, in base64: of a page, of a state. */
static const char page_key[] = "\"L2VwZC9oaW50cy9w";
static const char state_key[] = "\"L2VwZC9oaW50cy9z";

/* All that is asked is granted. */
static int
answer(struct service *s, int fd, const struct service_ask *a)
{
	static const char yes[] = "{\"header\":{\"revision\":\"5\"},\"ID\":\"7\","
	    "\"result\":{\"TTL\":\"10\"},\"succeeded\":true,\"responses\":"
	    "[{\"response_range\":{}},{\"response_range\":{}}]}";

	if (!strcmp(a->path, "/v3/kv/put")) {
		t.pages += strstr(a->body, page_key) != NULL;
		t.states += strstr(a->body, state_key) != NULL;
	}
	t.gone += !strcmp(a->path, "/v3/kv/deleterange");
	if (!strcmp(a->path, "/v3/kv/txn")) {
		t.claims++;
		if (service_idle(s, fd, t.slow_ms))
			return -1;
	}
	return service_reply(fd, 200, yes, sizeof yes - 1);
}

/* Till so many were told; and a few looks more, in which nothing is to be. */
static void
told(int pages, int states)
{
	const uint64_t end = in_ms(10000);

	while ((t.pages < pages || t.states < states) &&
	    epd_clock_boot_ns() < end)
		epd_clock_sleep_ns(5 * MS);
	epd_clock_sleep_ns(350 * MS);
	CHECK(t.pages >= pages);
	CHECK(t.states >= states);
	CHECK_INT(t.gone, 0);
}

static void
hear(void *arg, const char *line)
{
	(void)arg;
	t.lines += strstr(line, "op=tell ") != NULL;
}

/* A store of a workflow of some states, and so many of one, told of by nobody yet. */
static void
begin_store(int workflows)
{
	char name[16];

	t.pages = t.states = t.gone = t.claims = t.slow_ms = t.lines = 0;
	depot_begin(&t.d);
	depot_close(&t.d);
	strcpy(t.d.config.directory_backend, "etcd");
	snprintf(t.d.config.directory_endpoints,
	    sizeof t.d.config.directory_endpoints, "http://127.0.0.1:%d",
	    service_begin(&t.service, 0, answer, NULL));
	/* Nothing is watched where the bound is 0. */
	t.d.config.bounded_staleness_ms = 0;
	depot_open(&t.d);
	for (uint32_t g = 1; g <= FIRST; g++)
		group_state(&t.d, "w1", g, 3);
	for (int i = 0; i < workflows; i++) {
		snprintf(name, sizeof name, "v%d", i);
		group_state(&t.d, name, 1000u + (uint32_t)i, 1);
	}
}

static void
start(void)
{
	struct epd_telling_options o = { .address = "tcp://127.0.0.1:7070" };

	o.store = depot_options(&t.d);
	o.store.log.fn = hear;
	CHECK_INT(epd_telling_start(&t.telling, &o, &t.d.why), 0);
}

static void
begin(void)
{
	begin_store(0);
	start();
	told(FIRST, FIRST);
}

static void
end(void)
{
	epd_telling_stop(t.telling);
	service_end(&t.service);
	depot_end(&t.d);
}

TEST(what_was_told_is_not_told_again)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE, .workflow = "w1" };
	int n = FIRST;

	begin();
	for (uint32_t g = FIRST + 1; g <= 12; g++) {
		ref.state = group_state(&t.d, "w1", g, 3);
		n++;
		told(n, n);
		CHECK_INT(t.pages, n);
		CHECK_INT(t.states, n);
	}
	/* What is gone is taken back: the state, and its page. */
	CHECK_INT(epd_flow_release(t.d.s, &ref, "no more", &t.d.why), 0);
	for (int i = 0; i < 1000 && t.gone < 2; i++)
		epd_clock_sleep_ns(5 * MS);
	CHECK_INT(t.gone, 2);
	CHECK_INT(t.pages, n);
	end();
}

/* The nth allocation fails, mostly of a look that has something new to tell. */
TEST(a_look_that_breaks_off_takes_nothing_back)
{
	int n = FIRST;

	begin();
	for (int nth = 1; nth < 60; nth++) {
		group_state(&t.d, "w1", (uint32_t)(FIRST + nth), 2);
		n++;
		scratch_starve(nth, 0);
		epd_clock_sleep_ns(130 * MS);
		scratch_starve(0, 0);
		CHECK_INT(t.gone, 0);
	}
	told(n, n);
	end();
}

/* Each question takes long: who stops does not wait for the rest, nor what is new. */
TEST(an_etcd_that_is_slow)
{
	enum { MANY = 40, SLOW = 150 };
	uint64_t from;

	begin_store(MANY);
	t.slow_ms = SLOW;
	start();
	told(FIRST + MANY, FIRST + MANY);
	CHECK(t.claims < 2 * (1 + MANY));
	from = epd_clock_boot_ns();
	group_state(&t.d, "new", 1, 3);
	while (t.states <= FIRST + MANY && epd_clock_boot_ns() - from <
	    10000 * MS)
		epd_clock_sleep_ns(5 * MS);
	from = epd_clock_boot_ns() - from;
	printf("# made to told: %.0f ms\n", (double)from / 1e6);
	CHECK(from < 2000 * MS);
	CHECK(t.claims < 2 * (1 + MANY));
	from = epd_clock_boot_ns();
	end();
	from = epd_clock_boot_ns() - from;
	printf("# stopped in %.0f ms\n", (double)from / 1e6);
	CHECK(from < 2000 * MS);
}

/* What is ours stays so for as long as the lease that it was claimed under. */
TEST(what_is_owned_is_not_asked_for_again)
{
	enum { MANY = 10 };
	int n;

	begin_store(MANY);
	start();
	told(FIRST + MANY, FIRST + MANY);
	/* What was claimed while there was no lease yet is asked for once more. */
	epd_clock_sleep_ns(1500 * MS);
	n = t.claims;
	CHECK(n >= 2 * (1 + MANY));
	epd_clock_sleep_ns(2500 * MS);
	CHECK_INT(t.claims, n);
	end();
}

/* However many there are, a few files are open at a time. */
TEST(files_that_are_open)
{
	enum { MANY = 60 };
	struct rlimit was, few;
	int had;

	begin_store(MANY);
	had = scratch_have("fd");
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = (rlim_t)had + 60;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	start();
	told(FIRST + MANY, FIRST + MANY);
	CHECK_INT(t.lines, 0);
	CHECK(scratch_have("fd") < had + 40);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &was), 0);
	end();
}

/* One that cannot be read is said once, stops no other, and is told when it can be. */
TEST(one_that_cannot_be_looked_at)
{
	char path[400], there[400];

	begin_store(1);
	snprintf(path, sizeof path, "%s/w/v0/log.00000001", t.d.store);
	snprintf(there, sizeof there, "%s/w/v0/gone", t.d.store);
	CHECK_INT(rename(path, there), 0);
	start();
	told(FIRST, FIRST);
	epd_clock_sleep_ns(500 * MS);
	CHECK_INT(t.lines, 1);
	CHECK_INT(t.states, FIRST);
	CHECK_INT(rename(there, path), 0);
	told(FIRST + 1, FIRST + 1);
	CHECK_INT(t.lines, 1);
	end();
}

/* One that was removed and begun anew by the same name: what was told is taken back. */
TEST(a_name_that_is_anothers_now)
{
	char from[400], to[400];

	begin_store(1);
	start();
	told(FIRST + 1, FIRST + 1);
	snprintf(from, sizeof from, "%s/w/v0", t.d.store);
	snprintf(to, sizeof to, "%s/v0", t.d.path);
	CHECK_INT(rename(from, to), 0);
	group_state(&t.d, "v0", 2000, 1);
	for (int i = 0; i < 1000 && t.gone < 2; i++)
		epd_clock_sleep_ns(5 * MS);
	CHECK(t.gone >= 2);
	epd_clock_sleep_ns(350 * MS);
	CHECK_INT(t.states, FIRST + 2);
	CHECK_INT(t.pages, FIRST + 2);
	end();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
