/*
 * http.h - requests to a service by HTTP/1.1, through libcurl, which is opened at
 * run time when the first client is (a program that asks nobody does not load it).
 *
 * A client is one thread's.  It keeps connections and has several requests under
 * way at once.  Every request has a deadline, in ns of the boot clock, and a bound
 * on what is read of its answer: nothing of a service's is trusted for size, and what
 * it says is no text for people before it went through base/said.h.  Redirects are
 * not followed, no proxy is asked, no scheme but http and https is spoken, no signal
 * is touched.  A wait that is called off (base/stop.h) is -ECANCELED.
 */
#ifndef EPD_BASE_HTTP_H
#define EPD_BASE_HTTP_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct epd_http;

/*
 * base: "http://HOST:PORT[/PATH]", before every request's path.  most: requests
 * under way at once, 1 to 64.
 * Fails: EPD_EUNSUPPORTED (no libcurl here of 7.87 or newer), EPD_EUSAGE (no such
 * URL), -ENOMEM.
 */
int epd_http_open(struct epd_http **out, const char *base, int most,
    struct epd_why *why);
/* What is under way is called off and told to nobody. */
void epd_http_close(struct epd_http *h);

struct epd_http_request {
	uint64_t tag;			/* the caller's: comes back */
	const char *method;		/* "GET", "PUT", "POST", "DELETE" */
	const char *path;		/* copied; what needs it is escaped by the caller */
	struct epd_span body;		/* lent till it is done; empty: none */
	const char *type;		/* of the body; NULL: application/json */
	uint64_t deadline_ns;
	size_t most;			/* bytes of an answer; more is EPD_ETOOBIG */
	/*
	 * Called with each stretch of an answer as it comes, instead of its being kept: for
	 * one that does not end.  Nonzero ends the request, which is then -ECANCELED.
	 */
	int (*more)(void *arg, struct epd_span part);
	void *arg;
};

struct epd_http_done {
	uint64_t tag;
	/* 0: answered, with any status; EPD_ETIMEOUT, EPD_EPEER (refused, lost, no HTTP), EPD_ETOOBIG, -ECANCELED, -ENOMEM */
	int rc;
	long status;			/* 200, ...; 0 without an answer */
	struct epd_buf answer;		/* Owns: the caller frees it */
	struct epd_why why;		/* where rc is not 0 */
};

/* Begin one.  -EAGAIN: as many as there may be are under way. */
int epd_http_start(struct epd_http *h, const struct epd_http_request *r,
    struct epd_why *why);
/*
 * One that is done, of any order.  EPD_ETIMEOUT: none by then, all go on; EPD_EUSAGE:
 * nothing is under way.
 */
int epd_http_wait(struct epd_http *h, struct epd_http_done *out,
    uint64_t deadline_ns, struct epd_why *why);
/*
 * The two together: for one request while nothing else is under way.  What ended it
 * is the result; 0: answered.  One whose kept connection broke may come to the
 * service twice, by whichever way it was asked.
 */
int epd_http_do(struct epd_http *h, const struct epd_http_request *r,
    struct epd_http_done *out, struct epd_why *why);

#endif
