/*
 * answer.c - etcd's JSON.
 *
 * 1. An int64 is a string of decimal digits, and what is 0, false or empty is left out.
 * 2. Whoever reads a field of another type than it has reads none.
 */
#include "dir/answer.h"

#include <errno.h>
#include <string.h>

#include "base/said.h"

enum { CODE_NOT_FOUND = 5 };

uint64_t
epd_etcd_number(const struct epd_json *j)
{
	struct epd_span s = epd_json_bytes(j);
	const char *p = s.p;
	uint64_t v = 0;

	if (epd_json_type(j) == EPD_JSON_INT)
		return epd_json_int(j, 0) < 0 ? 0 : epd_json_uint(j, 0);
	for (size_t i = 0; i < s.n; i++)
		if (p[i] < '0' || p[i] > '9' ||
		    __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
			return 0;
	return v > INT64_MAX ? 0 : v;
}

/* What etcd says instead of an answer. */
static int
refused(const struct epd_json *root, long status, struct epd_why *why)
{
	const int64_t code = epd_json_int(epd_json_get(root, "code"), 0);
	char text[160];

	epd_said(text, sizeof text,
	    epd_json_bytes(epd_json_get(root, "error")));
	if (status == 404 && code == CODE_NOT_FOUND)
		return epd_why(why, EPD_ELEASE, "etcd: %s", text);
	/* What is wrong with a question is wrong with the next one, too. */
	return epd_why(why, status >= 500 ? EPD_EPEER : EPD_EFORMAT,
	    "etcd says %ld%s%s", status, *text ? ": " : "", text);
}

int
epd_etcd_answer(struct epd_json **out, uint64_t *revision, long status,
    struct epd_span text, struct epd_why *why)
{
	struct epd_json *root = NULL;
	struct epd_why said;
	int rc = epd_json_parse(&root, text, "etcd", &said);

	if (rc == -ENOMEM)
		return rc;
	if (status != 200) {
		rc = refused(root, status, why);
	} else if (rc) {
		epd_said_tidy(said.text, strlen(said.text));
		rc = epd_why(why, EPD_EFORMAT, "no answer of etcd's: %.200s",
		    said.text);
	} else if (epd_json_type(root) != EPD_JSON_OBJECT) {
		rc = epd_why(why, EPD_EFORMAT, "no answer of etcd's");
	}
	if (rc) {
		epd_json_free(root);
		return rc;
	}
	*revision = epd_etcd_number(
	    epd_json_get(epd_json_get(root, "header"), "revision"));
	*out = root;
	return 0;
}

/* A key as text. */
static int
unpack_key(char out[EPD_ETCD_KEY], const struct epd_json *j)
{
	struct epd_buf b = { 0 };
	int rc = epd_base64_unpack(&b, epd_json_bytes(j));

	if (!rc && (!b.n || b.n >= EPD_ETCD_KEY || memchr(b.p, 0, b.n)))
		rc = EPD_EFORMAT;
	if (!rc) {
		memcpy(out, b.p, b.n);
		out[b.n] = '\0';
	}
	epd_buf_free(&b);
	return rc;
}

int
epd_etcd_kv(struct epd_etcd_kv *out, const struct epd_json *j)
{
	struct epd_etcd_kv kv = { .value = { 0 } };
	int rc = unpack_key(kv.key, epd_json_get(j, "key"));

	if (!rc)
		rc = epd_base64_unpack(&kv.value,
		    epd_json_bytes(epd_json_get(j, "value")));
	if (rc) {
		epd_buf_free(&kv.value);
		return rc;
	}
	kv.created = epd_etcd_number(epd_json_get(j, "create_revision"));
	kv.changed = epd_etcd_number(epd_json_get(j, "mod_revision"));
	kv.lease = epd_etcd_number(epd_json_get(j, "lease"));
	*out = kv;
	return 0;
}

static int
watch_events(struct epd_watched *w, const struct epd_json *events,
    void (*fn)(void *arg, const char *key, uint64_t revision), void *arg)
{
	const size_t n = epd_json_count(events);

	for (size_t i = 0; i < n; i++) {
		const struct epd_json *kv =
		    epd_json_get(epd_json_at(events, i), "kv");
		const uint64_t rev =
		    epd_etcd_number(epd_json_get(kv, "mod_revision"));
		char key[EPD_ETCD_KEY];
		int rc = unpack_key(key, epd_json_get(kv, "key"));

		if (rc == -ENOMEM || !rev)
			return rc ? rc : EPD_EFORMAT;
		if (rev > w->revision)
			w->revision = rev;
		/* A key that no key of ours can be equal to: longer, or with a NUL. */
		if (!rc)
			fn(arg, key, rev);
	}
	return 0;
}

int
epd_watch_line(struct epd_watched *out, struct epd_span line,
    void (*fn)(void *arg, const char *key, uint64_t revision), void *arg)
{
	struct epd_watched w = { 0 };
	struct epd_json *root = NULL;
	const struct epd_json *r, *events;
	int rc = epd_json_parse(&root, line, "etcd", NULL);

	if (rc)
		return rc;
	r = epd_json_get(root, "result");
	if (epd_json_type(r) != EPD_JSON_OBJECT) {
		w.over = epd_json_has(root, "error");
		rc = w.over ? 0 : EPD_EFORMAT;
	} else {
		w.created = epd_json_bool(epd_json_get(r, "created"), 0);
		w.over = epd_json_bool(epd_json_get(r, "canceled"), 0) ||
		    epd_etcd_number(epd_json_get(r, "compact_revision"));
		events = epd_json_get(r, "events");
		if (epd_json_type(events) == EPD_JSON_ARRAY)
			rc = watch_events(&w, events, fn, arg);
		/* More of this revision comes with the next line. */
		if (epd_json_bool(epd_json_get(r, "fragment"), 0))
			w.revision = 0;
	}
	epd_json_free(root);
	if (!rc)
		*out = w;
	return rc;
}
