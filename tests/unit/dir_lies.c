/* dir_lies - an etcd that lies: whatever it answers is a miss or an error, and counted. */
#include <errno.h>

#include "dir/answer.h"
#include "dir/dir.h"
#include "tests/check.h"
#include "tests/unit/etcd.h"

/* What it says to all that is asked. */
static const char *const lies[] = {
	"", " ", "no json", "{", "[]", "null", "1e999", "\"text\"", "{}\n{}", "{}",
	"{\"header\":7}", "{\"header\":{\"revision\":[]}}",
	"{\"header\":{\"revision\":\"many\"}}",
	"{\"header\":{\"revision\":\"-5\"}}",
	"{\"header\":{\"revision\":\"99999999999999999999999\"}}",
	"{\"header\":{\"revision\":\"5\"}}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":\"x\",\"ID\":{},\"succeeded\":\"yes\"}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":[1,null,{},[]],\"ID\":\"0\"}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":[{\"key\":5,\"value\":6}],\"ID\":\"-1\"}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":[{\"key\":\"A\",\"value\":\"?\"}]}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":[{\"key\":\"====\",\"value\":\"AA==\"}]}",
	"{\"header\":{\"revision\":\"5\"},\"kvs\":[{\"key\":\"AAAA\",\"value\":\"AA==\"}]}",
	"{\"header\":{\"revision\":\"5\"},\"more\":true,\"kvs\":[{\"key\":\"L2xpZXMvbm9kZXMv\"}]}",
	"{\"header\":{\"revision\":\"5\"},\"ID\":\"7\",\"TTL\":\"99999999999\"}",
	"{\"header\":{\"revision\":\"5\"},\"ID\":\"7\",\"responses\":[{},{}]}",
	"{\"header\":{\"revision\":\"5\"},\"ID\":\"7\",\"succeeded\":true,\"responses\":"
	    "[{\"response_range\":{}},{\"response_range\":{}}]}",
	"{\"header\":{\"revision\":\"5\"},\"ID\":\"7\",\"responses\":"
	    "[{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\"}]}},{\"response_range\":7}]}",
	"{\"result\":{\"created\":true}}\n{\"result\":{\"events\":[{}]}}\n",
	"{\"result\":{\"header\":{\"revision\":\"5\"},\"canceled\":true,"
	    "\"compact_revision\":\"3\"}}\n",
	"{\"error\":{\"grpc_code\":14,\"message\":\"no\"}}\n",
	"{\"error\":\"etcdserver: requested lease not found\",\"code\":5}",
	"{\"error\":[\"\\u001b[2J\"],\"code\":\"x\"}",
};

static struct {
	_Atomic int status, huge, deep;
	_Atomic(const char *) text;
} lie;

static int
answer(struct service *s, int fd, const struct service_ask *a)
{
	(void)s;
	(void)a;
	if (lie.huge) {
		char *p = malloc(4 << 20);
		int rc;

		memset(p, lie.deep ? '[' : ' ', 4 << 20);
		rc = service_reply(fd, lie.status, p, 4 << 20);
		free(p);
		return rc;
	}
	return service_reply(fd, lie.status, lie.text, strlen(lie.text));
}

static struct service service;

static int
count_nodes(void *arg, const struct epd_node_info *n)
{
	(void)n;
	++*(int *)arg;
	return 0;
}

/* Each thing that can be asked: none is believed, none takes long. */
static int
ask_all(struct seat *s, int nth)
{
	struct epd_hint out[4], h = hint_of(EPD_HINT_PAGE, 1);
	const uint8_t w[16] = { 1 };
	const uint64_t t0 = epd_clock_boot_ns();
	struct epd_node_info n;
	uint64_t term;
	int nodes = 0, bad = 0;

	(void)epd_dir_put(s->d, &h, in_ms(100), &s->why);
	bad |= epd_dir_find(s->d, EPD_HINT_PAGE, h.key, 0, out, 4, in_ms(100),
	    &s->why) > (epd_dir_is_away(s->d) ? 1 : 0);
	bad |= epd_dir_find(s->d, EPD_HINT_PAGE, h.key, 1, out, 4, in_ms(100),
	    &s->why) > (epd_dir_is_away(s->d) ? 1 : 0);
	(void)epd_dir_nodes(s->d, count_nodes, &nodes, in_ms(100), &s->why);
	bad |= nodes > 1;
	bad |= epd_dir_owner(s->d, w, &n, &term, in_ms(100), &s->why) > 0;
	(void)epd_dir_disclaim(s->d, w, in_ms(100), &s->why);
	(void)epd_dir_remove(s->d, EPD_HINT_PAGE, h.key, in_ms(100), &s->why);
	/* Those whose text says that a transaction took place have to be believed. */
	if (!strstr(lie.text, "\"succeeded\":true"))
		bad |= epd_dir_claim(s->d, w, 1, &term, in_ms(100), &s->why) >= 0;
	for (const char *p = s->why.text; *p; p++)
		bad |= (unsigned char)*p < ' ';
	bad |= epd_clock_boot_ns() - t0 > 3000 * MS;
	if (bad)
		printf("# lie %d: %s\n", nth, lie.text);
	return bad;
}

static void
tell_lies(int stays)
{
	for (int status = 200; status <= (stays ? 200 : 500); status += 100)
		for (int i = 0; i < (int)(sizeof lies / sizeof *lies);
		    i += status == 200 ? 1 : 4) {
			struct seat s;

			lie.status = status == 300 ? 404 : status;
			lie.text = lies[i];
			seat_set(&s, 1, "lies");
			s.o.stays = stays;
			s.c.directory_timeout_ms = 300;
			CHECK_INT(seat_open(&s), 0);
			if (stays)
				epd_clock_sleep_ns(30 * MS);
			CHECK_INT(ask_all(&s, i), 0);
			seat_close(&s);
		}
}

TEST(nothing_of_it_is_believed) { tell_lies(0); }
TEST(nothing_of_it_is_believed_by_who_watches) { tell_lies(1); }

static void
nonsense(const char *text)
{
	struct epd_hint out[1];
	struct seat s;

	lie.status = 200;
	lie.text = text;
	seat_set(&s, 1, "lies");
	s.o.stays = 0;
	CHECK_INT(seat_open(&s), 0);
	for (int i = 1; i <= 3; i++) {
		CHECK_INT(epd_dir_is_away(s.d), 0);
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, key_of(EPD_HINT_PAGE, 1),
		    0, out, 1, in_ms(1000), &s.why), EPD_EPEER);
		CHECK_INT(seat_count(&s, EPD_M_DIR_ERRORS), i);
	}
	CHECK_INT(epd_dir_is_away(s.d), 1);
	CHECK_INT(s.gone, 1);
	/* The time to try again comes, and it makes sense. */
	lie.text = "{\"header\":{\"revision\":\"5\"}}";
	for (int i = 0; i < 200 && epd_dir_is_away(s.d); i++) {
		(void)epd_dir_find(s.d, EPD_HINT_PAGE, key_of(EPD_HINT_PAGE, 1),
		    0, out, 1, in_ms(1000), &s.why);
		epd_clock_sleep_ns(10 * MS);
	}
	CHECK_INT(s.back, 1);
	seat_close(&s);
}

TEST(nonsense_is_counted_and_ends_in_being_away)
{
	nonsense("no json");
	/* As whatever else that listens there may say. */
	nonsense("{}");
	nonsense("{\"result\":{}}");
	nonsense("{\"header\":{},\"kvs\":[]}");
}

TEST(an_enormous_answer_is_not_read)
{
	for (int deep = 0; deep < 2; deep++)
		for (int stays = 0; stays < 2; stays++) {
			struct seat s;

			lie.status = 200;
			lie.text = "enormous";
			lie.deep = deep;
			lie.huge = 1;
			seat_set(&s, 1, "lies");
			s.o.stays = stays;
			CHECK_INT(seat_open(&s), 0);
			CHECK_INT(ask_all(&s, -1), 0);
			CHECK(seat_count(&s, EPD_M_DIR_ERRORS) > 0);
			seat_close(&s);
			lie.huge = 0;
		}
}

/* One that speaks well, but whose watch is what a test wants. */
static struct {
	_Atomic int looks, watches, beats;
	_Atomic int how;
} half;

enum { COMPACTED, CUT, GARBAGE, ENDLESS_LINE, SILENT, HOWS };

static int
answer_half(struct service *s, int fd, const struct service_ask *a)
{
	static const char head[] =
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char *const says[HOWS] = {
		[COMPACTED] = "{\"result\":{\"canceled\":true,\"compact_revision\":\"8\"}}\n",
		[GARBAGE] = "{\"result\":\n",
		[ENDLESS_LINE] = "{\"result\":", [CUT] = "", [SILENT] = "",
	};
	char chunk[256];

	if (!strstr(a->path, "watch")) {
		const char *ok = "{\"header\":{\"revision\":\"9\"},\"ID\":\"7\","
		    "\"result\":{\"TTL\":\"5\"}}";

		half.looks++;
		half.beats += strstr(a->path, "put") != NULL;
		return service_reply(fd, 200, ok, strlen(ok));
	}
	half.watches++;
	snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n", strlen(says[half.how]),
	    says[half.how]);
	if (service_say(fd, head))
		return -1;
	if (*says[half.how] && service_say(fd, chunk))
		return -1;
	if (half.how == CUT)
		return -1;
	for (int i = 0; half.how == ENDLESS_LINE && i < 1 << 20; i++)
		if (service_say(fd, "10\r\n\"and so on and o\r\n"))
			return -1;
	return service_idle(s, fd, 20000);
}

/* It is begun anew, not too often, and lookups never stop. */
TEST(a_watch_that_makes_no_sense_is_begun_anew)
{
	struct epd_hint out[1];
	struct service well;
	struct seat s;

	for (int how = 0; how < HOWS; how++) {
		const uint64_t end = in_ms(1500);

		half.how = how;
		half.watches = half.looks = 0;
		seat_set(&s, 1, "half");
		snprintf(s.c.directory_endpoints, EPD_CONFIG_STR,
		    "http://127.0.0.1:%d", service_begin(&well, 0, answer_half,
		    NULL));
		CHECK_INT(seat_open(&s), 0);
		while (epd_clock_boot_ns() < end) {
			CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE,
			    key_of(EPD_HINT_PAGE, 1), 0, out, 1, in_ms(1000),
			    &s.why), 0);
			epd_clock_sleep_ns(10 * MS);
		}
		if (how == SILENT)
			CHECK_INT(half.watches, 1);
		else
			CHECK(half.watches > 1);
		CHECK(half.watches < 15);
		if (how == GARBAGE)
			CHECK(seat_count(&s, EPD_M_DIR_ERRORS) > 0);
		CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 0);
		CHECK_INT(seat_count(&s, EPD_M_DIR_UNFRESH), 0);
		seat_close(&s);
		service_end(&well);
	}
}

int
main(int argc, char **argv)
{
	struct seat s;
	int rc;

	lie.text = "";
	lie.status = 200;
	snprintf(etcd.base, sizeof etcd.base, "http://127.0.0.1:%d",
	    service_begin(&service, 0, answer, NULL));
	seat_set(&s, 1, "lies");
	s.bare = 1;
	rc = seat_open(&s);
	epd_dir_close(s.d);
	if (rc == EPD_EUNSUPPORTED) {
		printf("ok 1 - dir_lies # SKIP\n# %s\n1..1\n", s.why.text);
		return 0;
	}
	service_end(&service);
	service_begin(&service, service.port, answer, NULL);
	rc = check_main(argc, argv);
	service_end(&service);
	return rc;
}
