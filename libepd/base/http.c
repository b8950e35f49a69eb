/*
 * http.c - a multi handle of libcurl's and a slot for each request under way.
 *
 * 1. Time is ours: no time-out of libcurl's is set.  A wait looks at the boot clock
 *    at least once a second, and a request that is past its deadline is taken out,
 *    with its connection.
 * 2. What comes is counted before it is kept: heads against HEAD_MOST, the body
 *    against the request's bound.
 * 3. A slot in use has its easy handle in the multi, until it is done; done slots
 *    wait to be told of, in any order.
 * 4. Nothing of the environment counts: no proxy, no file of passwords.
 *
 * libcurl stays loaded once it is: it and the libraries under it have threads and
 * exit handlers of their own.
 */
#include "base/http.h"

#ifdef EPD_WITH_CURL

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/said.h"
#include "base/stop.h"

enum {
	SLOTS_MOST = 64,
	URL_MOST = 4096,
	HEAD_MOST = 64 << 10,	/* heads and trailers of one answer */
	LOOK_MS = 20,		/* how often who heeds a stop looks */
	POLL_MS = 1000,		/* the boot clock goes on while a machine sleeps */
};

/* What is called of libcurl, by its name without "curl_". */
#define CALLS(X) \
	X(curl_version_info_data *, version_info, (CURLversion)) \
	X(CURLcode, global_init, (long)) \
	X(CURL *, easy_init, (void)) \
	X(void, easy_cleanup, (CURL *)) \
	X(void, easy_reset, (CURL *)) \
	X(CURLcode, easy_setopt, (CURL *, CURLoption, ...)) \
	X(CURLcode, easy_getinfo, (CURL *, CURLINFO, ...)) \
	X(const char *, easy_strerror, (CURLcode)) \
	X(struct curl_slist *, slist_append, (struct curl_slist *, const char *)) \
	X(void, slist_free_all, (struct curl_slist *)) \
	X(CURLM *, multi_init, (void)) \
	X(CURLMcode, multi_cleanup, (CURLM *)) \
	X(CURLMcode, multi_setopt, (CURLM *, CURLMoption, ...)) \
	X(CURLMcode, multi_add_handle, (CURLM *, CURL *)) \
	X(CURLMcode, multi_remove_handle, (CURLM *, CURL *)) \
	X(CURLMcode, multi_perform, (CURLM *, int *)) \
	X(CURLMcode, multi_poll, (CURLM *, struct curl_waitfd *, unsigned, int, int *)) \
	X(CURLMsg *, multi_info_read, (CURLM *, int *))

struct calls {
#define X(type, name, args) type (*name) args;
	CALLS(X)
#undef X
};

enum use { FREE, GOING, DONE };

struct slot {
	enum use use;
	CURL *easy;
	struct curl_slist *heads;
	struct epd_http_request r;
	size_t got, head;	/* bytes of the body, of heads */
	int headed;		/* the empty line at a head's end came */
	int rc;			/* why a callback of ours ended it */
	struct epd_http_done done;
	char text[CURL_ERROR_SIZE];
};

struct epd_http {
	struct calls call;
	CURLM *multi;
	int most, going, done;
	size_t base_len;
	char url[URL_MOST];	/* base, and the path of who starts */
	struct slot slot[];
};

static int
load(struct calls *c, struct epd_why *why)
{
	void *so;
	int rc = 0;

	so = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!so)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "libcurl.so.4 cannot be loaded here");
#define X(type, name, args) \
	c->name = (type (*) args)dlsym(so, "curl_" #name); \
	if (!c->name) \
		rc = epd_why(why, EPD_EUNSUPPORTED, \
		    "this libcurl has no curl_" #name);
	CALLS(X)
#undef X
	/* The bit came with 7.84; beginning takes no lock of ours since then. */
	if (!rc && !(c->version_info(CURLVERSION_NOW)->features &
	    CURL_VERSION_THREADSAFE))
		rc = epd_why(why, EPD_EUNSUPPORTED, "this libcurl is too old");
	if (!rc && c->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		rc = epd_why(why, EPD_EUNSUPPORTED, "libcurl does not begin");
	dlclose(so);
	return rc;
}

/* What may be part of a URL; it cannot end a line of a request. */
static int
is_plain(const char *s, const char *not)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f ||
		    strchr(not, *s))
			return 0;
	return 1;
}

static int
is_base(const char *s)
{
	const char *host = !strncmp(s, "http://", 7) ? s + 7 :
	    !strncmp(s, "https://", 8) ? s + 8 : NULL;

	return host && *host && *host != '/' && *host != ':' &&
	    is_plain(s, "@?#\\\"<>") && strlen(s) < URL_MOST / 2;
}

int
epd_http_open(struct epd_http **out, const char *base, int most,
    struct epd_why *why)
{
	struct epd_http *h;
	int rc;

	if (most < 1 || most > SLOTS_MOST)
		return epd_why(why, EPD_EUSAGE, "%d requests at once: 1 to %d",
		    most, SLOTS_MOST);
	if (!is_base(base))
		return epd_why(why, EPD_EUSAGE,
		    "\"%.100s\" is not http://HOST:PORT", base);
	h = epd_calloc(1, sizeof *h + (size_t)most * sizeof *h->slot);
	if (!h)
		return -ENOMEM;
	h->most = most;
	h->base_len = strlen(base);
	memcpy(h->url, base, h->base_len);
	while (h->base_len && h->url[h->base_len - 1] == '/')
		h->base_len--;
	rc = load(&h->call, why);
	if (!rc && !(h->multi = h->call.multi_init()))
		rc = -ENOMEM;
	if (rc) {
		epd_http_close(h);
		return rc;
	}
	h->call.multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)most);
	h->call.multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	*out = h;
	return 0;
}

static void
clear(struct epd_http *h, struct slot *s)
{
	if (s->use == GOING) {
		h->call.multi_remove_handle(h->multi, s->easy);
		h->going--;
	} else if (s->use == DONE) {
		h->done--;
	}
	h->call.slist_free_all(s->heads);
	s->heads = NULL;
	epd_buf_free(&s->done.answer);
	s->use = FREE;
}

void
epd_http_close(struct epd_http *h)
{
	if (!h)
		return;
	for (int i = 0; i < h->most && h->multi; i++) {
		clear(h, &h->slot[i]);
		if (h->slot[i].easy)
			h->call.easy_cleanup(h->slot[i].easy);
	}
	if (h->multi)
		h->call.multi_cleanup(h->multi);
	epd_free(h);
}

/* libcurl's own sockets would be a child's too. */
static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	(void)arg;
	(void)purpose;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t
take_head(char *p, size_t size, size_t n, void *arg)
{
	struct slot *s = arg;

	s->head += size * n;
	if (size * n >= 5 && !memcmp(p, "HTTP/", 5))
		s->headed = 0;
	else if (n > 0 && (*p == '\r' || *p == '\n'))
		s->headed = 1;
	if (s->head <= HEAD_MOST)
		return size * n;
	s->rc = epd_why(&s->done.why, EPD_ETOOBIG,
	    "the head of an answer is larger than %d bytes", HEAD_MOST);
	return 0;
}

static size_t
take_body(char *p, size_t size, size_t count, void *arg)
{
	const size_t n = size * count;
	struct slot *s = arg;

	if (n > s->r.most - s->got) {
		s->rc = epd_why(&s->done.why, EPD_ETOOBIG,
		    "an answer is larger than %zu bytes", s->r.most);
		return n ? 0 : 1;
	}
	s->got += n;
	if (s->r.more) {
		if (s->r.more(s->r.arg, epd_span(p, n)))
			s->rc = epd_why(&s->done.why, -ECANCELED, "called off");
	} else {
		epd_buf_put(&s->done.answer, p, n);
		if (s->done.answer.failed)
			s->rc = -ENOMEM;
	}
	return s->rc ? (n ? 0 : 1) : n;
}

static int
is_request(const struct epd_http *h, const struct epd_http_request *r,
    struct epd_why *why)
{
	static const char *const methods[] = { "GET", "PUT", "POST", "DELETE" };
	int known = 0;

	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
		known |= !strcmp(r->method, methods[i]);
	if (!known)
		return epd_why(why, EPD_EUSAGE, "no such method");
	if (r->path[0] != '/' || !is_plain(r->path, "#") ||
	    h->base_len + strlen(r->path) >= URL_MOST)
		return epd_why(why, EPD_EUSAGE, "no path for a request");
	if (r->type && (!is_plain(r->type, "") || strlen(r->type) > 80))
		return epd_why(why, EPD_EUSAGE, "no type of a body");
	return 0;
}

/* Whatever of it libcurl does not know, it is too old to be used. */
static int
set_always(const struct epd_http *h, CURL *e, struct slot *s)
{
	CURLcode bad = CURLE_OK;

#define SET(option, value) \
	if (bad == CURLE_OK) \
		bad = h->call.easy_setopt(e, CURLOPT_##option, value)
	SET(NOSIGNAL, 1L);
	SET(PROXY, "");
	SET(FOLLOWLOCATION, 0L);
	SET(NETRC, (long)CURL_NETRC_IGNORED);
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PATH_AS_IS, 1L);
	SET(TCP_NODELAY, 1L);
	SET(TCP_KEEPALIVE, 1L);
	SET(BUFFERSIZE, 128L << 10);
	SET(UPLOAD_BUFFERSIZE, 256L << 10);
	SET(OPENSOCKETFUNCTION, open_socket);
	SET(HEADERFUNCTION, take_head);
	SET(HEADERDATA, s);
	SET(WRITEFUNCTION, take_body);
	SET(WRITEDATA, s);
	SET(ERRORBUFFER, s->text);
	SET(PRIVATE, s);
	SET(PROTOCOLS_STR, "http,https");
	/* Who gives up while a name is looked up does not wait for that. */
	SET(QUICK_EXIT, 1L);
	return bad == CURLE_OK ? 0 : EPD_EUNSUPPORTED;
}

static int
set_request(struct epd_http *h, CURL *e, struct slot *s)
{
	const struct epd_http_request *r = &s->r;
	const int has_body = r->body.n || !strcmp(r->method, "PUT") ||
	    !strcmp(r->method, "POST");
	char type[128];
	CURLcode bad = CURLE_OK;
	const char *heads[] = { type, "Expect:", NULL };

	snprintf(type, sizeof type, "Content-Type: %s",
	    r->type ? r->type : "application/json");
	for (int i = has_body ? 0 : 2; heads[i]; i++) {
		struct curl_slist *more =
		    h->call.slist_append(s->heads, heads[i]);

		if (!more)
			return -ENOMEM;
		s->heads = more;
	}
	SET(URL, h->url);
	SET(HTTPHEADER, s->heads);
	if (has_body) {
		SET(POST, 1L);
		SET(POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
		SET(POSTFIELDS, r->body.n ? r->body.p : "");
	} else {
		SET(HTTPGET, 1L);
	}
	SET(CUSTOMREQUEST, r->method);
#undef SET
	return bad == CURLE_OK ? 0 : -ENOMEM;
}

int
epd_http_start(struct epd_http *h, const struct epd_http_request *r,
    struct epd_why *why)
{
	struct slot *s = NULL;
	int rc;

	if ((rc = is_request(h, r, why)))
		return rc;
	for (int i = 0; i < h->most && !s; i++)
		if (h->slot[i].use == FREE)
			s = &h->slot[i];
	if (!s)
		return -EAGAIN;
	if (!s->easy && !(s->easy = h->call.easy_init()))
		return -ENOMEM;
	h->call.easy_reset(s->easy);
	s->r = *r;
	s->got = s->head = 0;
	s->headed = 0;
	s->rc = 0;
	s->text[0] = '\0';
	memset(&s->done, 0, sizeof s->done);
	s->done.tag = r->tag;
	strcpy(h->url + h->base_len, r->path);
	rc = set_always(h, s->easy, s);
	if (rc)
		return epd_why(why, rc, "this libcurl is too old");
	rc = set_request(h, s->easy, s);
	if (!rc && h->call.multi_add_handle(h->multi, s->easy) != CURLM_OK)
		rc = -ENOMEM;
	if (rc) {
		clear(h, s);
		return rc;
	}
	s->use = GOING;
	h->going++;
	return 0;
}

/* It is over: rc says how, unless a callback of ours ended it before. */
static void
end(struct epd_http *h, struct slot *s, int rc)
{
	h->call.multi_remove_handle(h->multi, s->easy);
	s->use = DONE;
	h->going--;
	h->done++;
	s->done.rc = s->rc ? s->rc : rc;
	if (s->done.rc)
		epd_buf_free(&s->done.answer);
}

static void
answered(struct epd_http *h, struct slot *s, CURLcode c)
{
	int rc = 0;

	if (c == CURLE_OK) {
		h->call.easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE,
		    &s->done.status);
		/* A head that is cut is none, whatever libcurl says. */
		if (!s->headed && !s->rc)
			rc = epd_why(&s->done.why, EPD_EPEER,
			    "the answer is cut");
	} else if (!s->rc) {
		rc = c == CURLE_OUT_OF_MEMORY ? -ENOMEM : EPD_EPEER;
		epd_why(&s->done.why, rc, "%.200s", s->text[0] ? s->text :
		    h->call.easy_strerror(c));
		epd_said_tidy(s->done.why.text, strlen(s->done.why.text));
	}
	end(h, s, rc);
}

static void
turn(struct epd_http *h)
{
	CURLMsg *m;
	int n;

	h->call.multi_perform(h->multi, &n);
	while ((m = h->call.multi_info_read(h->multi, &n))) {
		const CURLcode c = m->data.result;
		void *s = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		h->call.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &s);
		answered(h, s, c);
	}
}

/* End what is past its deadline; the next deadline, or at most limit. */
static uint64_t
expire(struct epd_http *h, uint64_t now, uint64_t limit)
{
	for (int i = 0; i < h->most && h->going; i++) {
		struct slot *s = &h->slot[i];

		if (s->use != GOING)
			continue;
		if (now >= s->r.deadline_ns)
			end(h, s, epd_why(&s->done.why, EPD_ETIMEOUT,
			    "no answer in time"));
		else if (s->r.deadline_ns < limit)
			limit = s->r.deadline_ns;
	}
	return limit;
}

static void
tell(struct epd_http *h, struct epd_http_done *out)
{
	for (int i = 0; i < h->most; i++) {
		struct slot *s = &h->slot[i];

		if (s->use != DONE)
			continue;
		*out = s->done;
		memset(&s->done, 0, sizeof s->done);
		clear(h, s);
		return;
	}
}

int
epd_http_wait(struct epd_http *h, struct epd_http_done *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	if (!h->going && !h->done)
		return epd_why(why, EPD_EUSAGE, "nothing is under way");
	for (;;) {
		uint64_t now, next, ms;

		if (h->going)
			turn(h);
		now = epd_clock_boot_ns();
		next = expire(h, now, deadline_ns);
		if (h->done) {
			tell(h, out);
			return 0;
		}
		if (epd_is_stopped())
			return epd_why(why, -ECANCELED, "called off");
		if (now >= deadline_ns)
			return epd_why(why, EPD_ETIMEOUT, "no answer in time");
		ms = (next - now) / 1000000 + 1;
		if (ms > POLL_MS)
			ms = POLL_MS;
		if (epd_is_heeding() && ms > LOOK_MS)
			ms = LOOK_MS;
		h->call.multi_poll(h->multi, NULL, 0, (int)ms, NULL);
	}
}

int
epd_http_do(struct epd_http *h, const struct epd_http_request *r,
    struct epd_http_done *out, struct epd_why *why)
{
	struct epd_http_done d;
	int rc;

	if (h->going || h->done)
		return epd_why(why, EPD_EUSAGE, "another request is under way");
	if ((rc = epd_http_start(h, r, why)))
		return rc;
	rc = epd_http_wait(h, &d, UINT64_MAX, why);
	if (rc) {
		for (int i = 0; i < h->most; i++)
			clear(h, &h->slot[i]);
		return rc;
	}
	if (d.rc)
		return epd_why(why, d.rc, "%s", d.why.text[0] ? d.why.text :
		    epd_strerror(d.rc));
	*out = d;
	return 0;
}

#else

int
epd_http_open(struct epd_http **out, const char *base, int most,
    struct epd_why *why)
{
	(void)out;
	(void)base;
	(void)most;
	return epd_why(why, EPD_EUNSUPPORTED, "built without libcurl");
}

void
epd_http_close(struct epd_http *h)
{
	(void)h;
}

int
epd_http_start(struct epd_http *h, const struct epd_http_request *r,
    struct epd_why *why)
{
	(void)h;
	(void)r;
	return epd_why(why, EPD_EUNSUPPORTED, "built without libcurl");
}

int
epd_http_wait(struct epd_http *h, struct epd_http_done *out,
    uint64_t deadline_ns, struct epd_why *why)
{
	(void)out;
	(void)deadline_ns;
	return epd_http_start(h, NULL, why);
}

int
epd_http_do(struct epd_http *h, const struct epd_http_request *r,
    struct epd_http_done *out, struct epd_why *why)
{
	(void)out;
	return epd_http_start(h, r, why);
}

#endif
