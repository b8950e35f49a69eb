/* base_http - requests to a service that answers well, badly, or not at all. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http.h"
#include "base/stop.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "tests/unit/service.h"

#define MS 1000000ull

enum { KEPT = 64 << 10 };

static struct service service;
static struct epd_http *http;
static struct epd_why why;
/* Of the last request's head, what a test looks at. */
static char seen[256];
static pthread_mutex_t seeing = PTHREAD_MUTEX_INITIALIZER;

static uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * MS;
}

/* What each path does, in words where it can be. */
static const struct {
	const char *path, *text;
} lies[] = {
	{ "/cut-head", "HTTP/1.1 200 OK\r\nContent-Le" },
	{ "/cut-body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot a hundred" },
	{ "/cut-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "20\r\nless" },
	{ "/no-last-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "4\r\nfour\r\n" },
	{ "/bad-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "zz\r\nfour\r\n0\r\n\r\n" },
	{ "/huge-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "ffffffffffffffffff\r\nfour\r\n0\r\n\r\n" },
	{ "/bad-length", "HTTP/1.1 200 OK\r\nContent-Length: minus one\r\n\r\nx" },
	{ "/neg-length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx" },
	{ "/no-http", "SSH-2.0-OpenSSH_9.2\r\n" },
	{ "/http-09", "<html>hello</html>" },
	{ "/nothing", "" },
};

static int
flood(int fd, const char *text)
{
	for (int i = 0; i < 1 << 20; i++)
		if (service_say(fd, text))
			return -1;
	return -1;
}

static int
answer(struct service *s, int fd, const struct service_ask *a)
{
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
		if (!strcmp(a->path, lies[i].path)) {
			service_say(fd, lies[i].text);
			return -1;
		}
	pthread_mutex_lock(&seeing);
	snprintf(seen, sizeof seen, "%.200s", a->head);
	pthread_mutex_unlock(&seeing);
	if (!strcmp(a->path, "/silence"))
		return service_idle(s, fd, 30000);
	if (!strcmp(a->path, "/trickle")) {
		service_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
		for (int i = 0; i < 3000; i++)
			if (service_say(fd, ".") || service_idle(s, fd, 20))
				return -1;
		return -1;
	}
	if (!strcmp(a->path, "/trickle-head")) {
		service_say(fd, "HTTP/1.1 200 OK\r\nX: ");
		for (int i = 0; i < 3000; i++)
			if (service_say(fd, ".") || service_idle(s, fd, 20))
				return -1;
		return -1;
	}
	if (!strcmp(a->path, "/heads")) {
		service_say(fd, "HTTP/1.1 200 OK\r\n");
		return flood(fd, "X-More: and more of it\r\n");
	}
	if (!strcmp(a->path, "/long-head")) {
		service_say(fd, "HTTP/1.1 200 OK\r\nX: ");
		return flood(fd, "and more of it ");
	}
	if (!strcmp(a->path, "/hundreds"))
		return flood(fd, "HTTP/1.1 100 Continue\r\n\r\n");
	if (!strcmp(a->path, "/trailers")) {
		service_say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		    "1\r\nx\r\n0\r\n");
		return flood(fd, "X-More: and more of it\r\n");
	}
	if (!strcmp(a->path, "/endless")) {
		service_say(fd, "HTTP/1.1 200 OK\r\n\r\n");
		return flood(fd, "and so on and on ");
	}
	if (!strcmp(a->path, "/stream")) {
		service_say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
		return flood(fd, "5\r\nline\n\r\n");
	}
	if (!strcmp(a->path, "/surplus"))
		return service_say(fd,
		    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdefHTTP/1.1 500");
	if (!strcmp(a->path, "/moved"))
		return service_say(fd, "HTTP/1.1 302 Found\r\n"
		    "Location: /echo\r\nContent-Length: 0\r\n\r\n");
	if (!strcmp(a->path, "/zip"))
		return service_say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
		    "Content-Length: 3\r\n\r\nabc");
	if (!strcmp(a->path, "/missing"))
		return service_reply(fd, 404, "no", 2);
	if (!strcmp(a->path, "/slow") && service_idle(s, fd, 100))
		return -1;
	return service_reply(fd, 200, a->body, a->n);
}

static int
begin(int most)
{
	char base[64];

	snprintf(base, sizeof base, "http://127.0.0.1:%d/",
	    service_begin(&service, 0, answer, NULL));
	why.text[0] = '\0';
	return epd_http_open(&http, base, most, &why);
}

static void
end(void)
{
	epd_http_close(http);
	http = NULL;
	service_end(&service);
}

static int
ask(const char *method, const char *path, const char *body, uint64_t ms,
    struct epd_http_done *d)
{
	struct epd_http_request r = { .tag = 7, .method = method, .path = path,
		.body = epd_span_str(body), .deadline_ns = in_ms(ms), .most = KEPT };

	memset(d, 0, sizeof *d);
	return epd_http_do(http, &r, d, &why);
}

/* What came, with a NUL; it is let go. */
static const char *
text(struct epd_http_done *d)
{
	static char out[KEPT + 1];

	snprintf(out, sizeof out, "%.*s", (int)d->answer.n,
	    d->answer.p ? (char *)d->answer.p : "");
	epd_buf_free(&d->answer);
	return out;
}

TEST(what_is_asked_is_answered)
{
	struct epd_http_done d;

	CHECK_INT(begin(4), 0);
	CHECK_INT(ask("POST", "/echo", "{\"a\":1}", 5000, &d), 0);
	CHECK_INT(d.status, 200);
	CHECK_INT(d.tag, 7);
	CHECK_STR(text(&d), "{\"a\":1}");
	CHECK(!strncmp(seen, "POST /echo HTTP/1.1\r\n", 21));
	CHECK(strstr(seen, "Content-Type: application/json\r\n"));
	CHECK(!strstr(seen, "Expect"));
	CHECK_INT(ask("PUT", "/echo", "put", 5000, &d), 0);
	CHECK_STR(text(&d), "put");
	CHECK(!strncmp(seen, "PUT ", 4));
	CHECK_INT(ask("PUT", "/echo", NULL, 5000, &d), 0);
	CHECK(strstr(seen, "Content-Length: 0\r\n"));
	CHECK_STR(text(&d), "");
	CHECK_INT(ask("GET", "/missing", NULL, 5000, &d), 0);
	CHECK_INT(d.status, 404);
	CHECK_STR(text(&d), "no");
	CHECK_INT(ask("DELETE", "/a/../b?c=%20", NULL, 5000, &d), 0);
	CHECK(!strncmp(seen, "DELETE /a/../b?c=%20 ", 21));
	CHECK_STR(text(&d), "");
	/* All by one connection. */
	CHECK_INT(service.guests, 1);
	CHECK_INT(service.asked, 5);
	end();
}

TEST(neither_redirects_nor_proxies_nor_codings)
{
	struct epd_http_done d;

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	CHECK_INT(begin(1), 0);
	CHECK_INT(ask("GET", "/moved", NULL, 5000, &d), 0);
	CHECK_INT(d.status, 302);
	CHECK_STR(text(&d), "");
	CHECK_INT(service.asked, 1);
	CHECK_INT(ask("GET", "/zip", NULL, 5000, &d), 0);
	CHECK_STR(text(&d), "abc");
	CHECK(!strstr(seen, "Accept-Encoding"));
	end();
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
}

TEST(several_are_under_way_at_once)
{
	struct epd_http_request r = { .method = "POST", .path = "/slow",
		.most = KEPT };
	char body[8][8];
	uint64_t t0;
	unsigned told = 0;

	CHECK_INT(begin(8), 0);
	CHECK_INT(epd_http_wait(http, NULL, 0, &why), EPD_EUSAGE);
	t0 = epd_clock_boot_ns();
	r.deadline_ns = in_ms(10000);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(body[i], sizeof body[i], "%u", i);
		r.tag = i;
		r.body = epd_span_str(body[i]);
		CHECK_INT(epd_http_start(http, &r, &why), 0);
	}
	CHECK_INT(epd_http_start(http, &r, &why), -EAGAIN);
	/* None by now; all go on. */
	struct epd_http_done d;
	CHECK_INT(epd_http_wait(http, &d, in_ms(5), &why), EPD_ETIMEOUT);
	for (int i = 0; i < 8; i++) {
		CHECK_INT(epd_http_wait(http, &d, in_ms(10000), &why), 0);
		CHECK_INT(d.rc, 0);
		CHECK_STR(text(&d), body[d.tag]);
		told |= 1u << d.tag;
	}
	CHECK_INT(told, 0xff);
	/* One by one they would be 800 ms. */
	CHECK(epd_clock_boot_ns() - t0 < 700 * MS);
	CHECK_INT(service.guests, 8);
	end();
}

TEST(a_lie_is_no_answer)
{
	struct epd_http_done d;

	CHECK_INT(begin(2), 0);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		int rc = ask("GET", lies[i].path, NULL, 5000, &d);

		if (rc != EPD_EPEER)
			printf("# %s\n", lies[i].path);
		CHECK_INT(rc, EPD_EPEER);
		CHECK(why.text[0]);
		CHECK(!d.answer.p);
		/* What comes next is none the worse. */
		CHECK_INT(ask("POST", "/echo", "still", 5000, &d), 0);
		CHECK_STR(text(&d), "still");
	}
	end();
}

TEST(a_length_that_is_too_short_ends_the_answer)
{
	struct epd_http_done d;

	CHECK_INT(begin(2), 0);
	CHECK_INT(ask("GET", "/surplus", NULL, 5000, &d), 0);
	CHECK_INT(d.status, 200);
	CHECK_STR(text(&d), "abc");
	/* What was left over answers nobody. */
	CHECK_INT(ask("POST", "/echo", "next", 5000, &d), 0);
	CHECK_INT(d.status, 200);
	CHECK_STR(text(&d), "next");
	end();
}

TEST(an_answer_has_a_bound)
{
	static const char *const paths[] = { "/endless", "/stream", "/heads",
		"/hundreds", "/trailers" };
	struct epd_http_done d;
	char most[KEPT + 2];

	CHECK_INT(begin(1), 0);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		int rc = ask("GET", paths[i], NULL, 20000, &d);

		if (rc != EPD_ETOOBIG)
			printf("# %s: %s\n", paths[i], why.text);
		CHECK_INT(rc, EPD_ETOOBIG);
	}
	/* libcurl has a bound of its own on a line. */
	CHECK(ask("GET", "/long-head", NULL, 20000, &d) < 0);
	memset(most, 'x', sizeof most);
	most[KEPT] = '\0';
	CHECK_INT(ask("POST", "/echo", most, 5000, &d), 0);
	CHECK_INT(d.answer.n, KEPT);
	epd_buf_free(&d.answer);
	most[KEPT] = 'x';
	most[KEPT + 1] = '\0';
	CHECK_INT(ask("POST", "/echo", most, 5000, &d), EPD_ETOOBIG);
	end();
}

TEST(a_deadline_holds_whatever_trickles)
{
	static const char *const paths[] = { "/silence", "/trickle",
		"/trickle-head" };
	struct epd_http_done d;

	CHECK_INT(begin(1), 0);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		const uint64_t t0 = epd_clock_boot_ns();

		CHECK_INT(ask("GET", paths[i], NULL, 150, &d), EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - t0 >= 150 * MS);
		CHECK(epd_clock_boot_ns() - t0 < 2000 * MS);
	}
	CHECK_INT(ask("GET", "/echo", NULL, 0, &d), EPD_ETIMEOUT);
	CHECK_INT(ask("POST", "/echo", "still", 5000, &d), 0);
	CHECK_STR(text(&d), "still");
	end();
}

TEST(one_that_is_late_holds_up_no_other)
{
	struct epd_http_request r = { .method = "GET", .path = "/silence",
		.most = KEPT };
	struct epd_http_done d;

	CHECK_INT(begin(2), 0);
	r.deadline_ns = in_ms(400);
	r.tag = 1;
	CHECK_INT(epd_http_start(http, &r, &why), 0);
	r.path = "/echo";
	r.tag = 2;
	r.deadline_ns = in_ms(5000);
	CHECK_INT(epd_http_start(http, &r, &why), 0);
	CHECK_INT(epd_http_wait(http, &d, in_ms(5000), &why), 0);
	CHECK_INT(d.tag, 2);
	CHECK_INT(d.rc, 0);
	CHECK_STR(text(&d), "");
	CHECK_INT(epd_http_wait(http, &d, in_ms(5000), &why), 0);
	CHECK_INT(d.tag, 1);
	CHECK_INT(d.rc, EPD_ETIMEOUT);
	CHECK(!d.answer.p);
	end();
}

static int
over(void *arg)
{
	return epd_clock_boot_ns() >= *(uint64_t *)arg;
}

TEST(a_stop_ends_a_wait)
{
	struct epd_http_done d;
	uint64_t t0 = epd_clock_boot_ns(), at = t0 + 100 * MS;

	CHECK_INT(begin(1), 0);
	epd_stop_heed(over, &at);
	CHECK_INT(ask("GET", "/silence", NULL, 20000, &d), -ECANCELED);
	epd_stop_heed(NULL, NULL);
	CHECK(epd_clock_boot_ns() - t0 < 2000 * MS);
	CHECK_INT(ask("POST", "/echo", "still", 5000, &d), 0);
	CHECK_STR(text(&d), "still");
	end();
}

static int
lines(void *arg, struct epd_span part)
{
	*(size_t *)arg += part.n;
	return *(size_t *)arg > 1 << 20;
}

TEST(an_endless_one_comes_by_stretches)
{
	size_t n = 0;
	struct epd_http_request r = { .method = "GET", .path = "/stream",
		.most = SIZE_MAX, .more = lines, .arg = &n };
	struct epd_http_done d;

	CHECK_INT(begin(1), 0);
	r.deadline_ns = in_ms(20000);
	CHECK_INT(epd_http_do(http, &r, &d, &why), -ECANCELED);
	CHECK(n > 1 << 20);
	CHECK(n < 2 << 20);
	end();
}

TEST(nobody_there)
{
	char base[64];
	struct epd_http_done d;
	uint64_t t0;

	snprintf(base, sizeof base, "http://127.0.0.1:%d", service_free_port());
	CHECK_INT(epd_http_open(&http, base, 1, &why), 0);
	t0 = epd_clock_boot_ns();
	CHECK_INT(ask("GET", "/", NULL, 5000, &d), EPD_EPEER);
	CHECK(strstr(why.text, "127.0.0.1"));
	CHECK(epd_clock_boot_ns() - t0 < 2000 * MS);
	epd_http_close(http);
	http = NULL;
}

TEST(a_service_that_comes_again_is_asked_again)
{
	struct epd_http_done d;
	int port;

	CHECK_INT(begin(1), 0);
	port = service.port;
	CHECK_INT(ask("POST", "/echo", "one", 5000, &d), 0);
	CHECK_STR(text(&d), "one");
	service_end(&service);
	CHECK_INT(ask("POST", "/echo", "two", 5000, &d), EPD_EPEER);
	CHECK_INT(service_begin(&service, port, answer, NULL), port);
	CHECK_INT(ask("POST", "/echo", "three", 5000, &d), 0);
	CHECK_STR(text(&d), "three");
	end();
}

TEST(what_is_no_request)
{
	static const char *const bases[] = { "", "127.0.0.1:1", "ftp://a:1",
		"file:///etc", "http://", "http://:1", "http:///a",
		"http://u:p@a:1", "http://a:1/ b", "http://a:1\r\nX: y",
		"http://a:1/?x", "HTTP://a" };
	static const char *const paths[] = { "", "echo", "/a b", "/a\r\nX: y",
		"/a#b", "/\x80" };
	struct epd_http_done d;
	struct epd_http_request r = { .method = "GET", .path = "/", .most = 1 };
	struct epd_http *none;

	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
		CHECK_INT(epd_http_open(&none, bases[i], 1, &why), EPD_EUSAGE);
	CHECK_INT(epd_http_open(&none, "http://a:1", 0, &why), EPD_EUSAGE);
	CHECK_INT(epd_http_open(&none, "http://a:1", 65, &why), EPD_EUSAGE);
	CHECK_INT(begin(1), 0);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		CHECK_INT(ask("GET", paths[i], NULL, 5000, &d), EPD_EUSAGE);
	CHECK_INT(ask("HEAD", "/", NULL, 5000, &d), EPD_EUSAGE);
	CHECK_INT(ask("get", "/", NULL, 5000, &d), EPD_EUSAGE);
	r.type = "a\r\nX: y";
	CHECK_INT(epd_http_start(http, &r, &why), EPD_EUSAGE);
	CHECK_INT(service.asked, 0);
	end();
}

TEST(nothing_is_left_behind)
{
	struct epd_http_request r = { .method = "GET", .path = "/silence",
		.most = KEPT };
	int fds;

	/* What libcurl keeps for the process is there now. */
	CHECK_INT(begin(4), 0);
	end();
	fds = scratch_have("fd");
	for (int i = 0; i < 20; i++) {
		struct epd_http_done d;

		CHECK_INT(begin(4), 0);
		r.deadline_ns = in_ms(20000);
		CHECK_INT(epd_http_start(http, &r, &why), 0);
		CHECK_INT(epd_http_start(http, &r, &why), 0);
		/* One that is done and not told of, two under way. */
		r.path = "/echo";
		CHECK_INT(epd_http_start(http, &r, &why), 0);
		r.path = "/silence";
		CHECK_INT(epd_http_wait(http, &d, in_ms(5000), &why), 0);
		epd_buf_free(&d.answer);
		end();
	}
	CHECK_INT(scratch_have("fd"), fds);
}

static int
refuse(void *arg, size_t n)
{
	(void)n;
	return --*(int *)arg == 0;
}

TEST(memory_that_fails_is_said)
{
	for (int nth = 1; nth < 8; nth++) {
		struct epd_http_done d;
		int left = nth, rc;
		char base[64];

		snprintf(base, sizeof base, "http://127.0.0.1:%d",
		    service_begin(&service, 0, answer, NULL));
		epd_alloc_hook(refuse, &left);
		rc = epd_http_open(&http, base, 2, &why);
		if (!rc)
			rc = ask("POST", "/echo", "x", 5000, &d);
		epd_alloc_hook(NULL, NULL);
		if (rc)
			CHECK_INT(rc, -ENOMEM);
		else
			CHECK_STR(text(&d), "x");
		epd_http_close(http);
		http = NULL;
		service_end(&service);
	}
}

int
main(int argc, char **argv)
{
	struct epd_http *h;

	/* No signal is touched, and none comes of a connection that breaks. */
	signal(SIGPIPE, SIG_DFL);
	if (epd_http_open(&h, "http://127.0.0.1:1", 1, &why) ==
	    EPD_EUNSUPPORTED) {
		printf("# %s\nok 1 - http # SKIP\n1..1\n", why.text);
		return 0;
	}
	epd_http_close(h);
	return check_main(argc, argv);
}
