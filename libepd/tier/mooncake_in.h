/* mooncake_in.h - what the files of this tier share; not for others. */
#ifndef EPD_TIER_MOONCAKE_IN_H
#define EPD_TIER_MOONCAKE_IN_H

#include "base/base64.h"
#include "base/http.h"
#include "tier/mooncake.h"
#include "tier/object.h"

enum { EPD_MOONCAKE_KEY = 256, EPD_MOONCAKE_BAD = 64 };

enum epd_mooncake_way { MOONCAKE_UNDECIDED, MOONCAKE_REST, MOONCAKE_NATIVE };

struct epd_native;

struct epd_mooncake {
	EPD_LOWER_OPS;
	char *url, *master, *admin_url, *library, *host;
	int most, level;
	uint64_t page_ns;
	enum epd_mooncake_pin pin;
	struct epd_buf key;
	char seal[2 + 16 + 1];		/* "-k" and of which key, or "" */
	char store[33];
	struct epd_metrics *metrics;
	struct epd_log log;

	enum epd_mooncake_way way;
	struct epd_http *rest, *admin;
	struct epd_native *native;
	struct epd_buf object;		/* one, beside its base64 */

	int failures;			/* in a row */
	uint64_t away_ns, away_till;
	/* Keys, hashed, under which something else was found. */
	uint64_t bad[EPD_MOONCAKE_BAD];
	unsigned nbad;
};

/* One call's business. */
struct epd_errand {
	struct epd_mooncake *m;
	const struct epd_lot *lot;
	uint64_t deadline_ns;
	struct epd_why *why;
	int rc;				/* the first failure */
	long answered;			/* pages that the store spoke of */
};

/* mooncake_key.c */
void epd_mooncake_key(const struct epd_mooncake *m, const struct epd_lot *lot,
    long i, char out[EPD_MOONCAKE_KEY]);

/* mooncake.c */
/* How a page that came is told of (lower.h), by the key that it lay under. */
static inline uint8_t
epd_mooncake_had(const struct epd_errand *e)
{
	return e->lot->given ? EPD_HAD_GIVEN : EPD_HAD;
}
/* Note the first failure of an errand; rc. */
int epd_errand_failed(struct epd_errand *e, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The store answered, or did not though it had its time. */
void epd_mooncake_answered(struct epd_mooncake *m);
void epd_mooncake_failed(struct epd_mooncake *m, const struct epd_why *said);
/* Whether the store is passed over now: 0 or EPD_EPEER. */
int epd_mooncake_away(const struct epd_mooncake *m, struct epd_why *why);
uint64_t epd_mooncake_page_deadline(const struct epd_errand *e);
int epd_mooncake_is_bad(const struct epd_mooncake *m, const char *key);
void epd_mooncake_bad(struct epd_mooncake *m, const char *key, int is);
/* What is no page of ours: counted, noted, said. */
void epd_errand_corrupt(struct epd_errand *e, const char *key,
    const struct epd_why *said);

/* The page, from an object that came by either way. */
int epd_mooncake_open_object(struct epd_errand *e, long i, void *out,
    const void *in, size_t n, struct epd_why *why);

/* The buffer for one object, empty. */
struct epd_buf *epd_mooncake_object(struct epd_mooncake *m);

/*
 * mooncake_seen.c: how many the master says it has; seen (may be NULL) by page.
 */
long epd_mooncake_seen(struct epd_errand *e, uint8_t *seen);

/*
 * mooncake_rest.c and mooncake_native.c; had[i] as lower.h has it.  get: pages
 * that came; the errand's rc where some could not be asked for.
 */
int epd_rest_put(struct epd_errand *e, const void *const *page);
long epd_rest_get(struct epd_errand *e, void *const *out, uint8_t *had);
int epd_rest_drop(struct epd_errand *e);
int epd_native_put(struct epd_errand *e, const void *const *page);
long epd_native_get(struct epd_errand *e, void *const *out, uint8_t *had);
int epd_native_drop(struct epd_errand *e);

/* 0: the library is there and has reached the master; else REST is asked. */
int epd_native_open(struct epd_native **out, struct epd_mooncake *m,
    uint64_t deadline_ns, struct epd_why *why);
void epd_native_close(struct epd_native *n);

#endif
