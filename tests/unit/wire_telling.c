/*
 * wire_telling - what a node tells: each thing once, and nothing is taken back that is
 * there.  The etcd is one of the test's own, which counts.
 */
#include "tests/check.h"
#include "tests/unit/depot.h"
#include "tests/unit/service.h"

enum { FIRST = 8 };

static struct {
	struct service service;
	_Atomic int pages, states, gone;	/* hints put, by kind, and removed */
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

	(void)s;
	if (!strcmp(a->path, "/v3/kv/put")) {
		t.pages += strstr(a->body, page_key) != NULL;
		t.states += strstr(a->body, state_key) != NULL;
	}
	t.gone += !strcmp(a->path, "/v3/kv/deleterange");
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

/* A store of some states, of which the directory is told. */
static void
begin(void)
{
	struct epd_telling_options o = { .address = "tcp://127.0.0.1:7070" };

	t.pages = t.states = t.gone = 0;
	depot_begin(&t.d);
	depot_close(&t.d);
	strcpy(t.d.config.directory_backend, "etcd");
	snprintf(t.d.config.directory_endpoints,
	    sizeof t.d.config.directory_endpoints, "http://127.0.0.1:%d",
	    service_begin(&t.service, 0, answer, NULL));
	/* Nothing is watched where the bound is 0. */
	t.d.config.bounded_staleness_ms = 0;
	depot_open(&t.d);
	o.store = depot_options(&t.d);
	for (uint32_t g = 1; g <= FIRST; g++)
		group_state(&t.d, "w1", g, 3);
	CHECK_INT(epd_telling_start(&t.telling, &o, &t.d.why), 0);
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

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
