/*
 * dir_answer.c - all that is read of etcd's words.  First byte: what it is: an answer, a
 * line of a watch, base64, or a value (of a hint, a node, an owner, a term).  What is
 * believed can be written, and reads as the same then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "dir/answer.h"

enum { ANSWER, WATCH, BASE64, VALUE, DOINGS };

static int changes;

static void
changed(void *arg, const char *key, uint64_t revision)
{
	(void)arg;
	if (!revision || !*key || strlen(key) >= EPD_ETCD_KEY)
		abort();
	changes++;
}

static struct epd_etcd_kv
again(const struct epd_etcd_kv *kv, struct epd_buf value)
{
	struct epd_etcd_kv other = *kv;

	if (value.failed)
		abort();
	other.value = value;
	return other;
}

static void
hint(const struct epd_etcd_kv *kv)
{
	struct epd_hint h, g;
	struct epd_buf b = { 0 };
	struct epd_etcd_kv other;
	char path[EPD_ETCD_KEY];

	if (epd_hint_parse(&h, kv, "/epd/"))
		return;
	epd_hint_format(&b, &h);
	other = again(kv, b);
	if (epd_hint_parse(&g, &other, "/epd/") || memcmp(&h, &g, sizeof h) ||
	    epd_hint_path(path, h.kind, h.key) ||
	    strncmp(kv->key + 11, path, strlen(path)))
		abort();
	epd_buf_free(&b);
}

static void
node(const struct epd_etcd_kv *kv)
{
	struct epd_node_info n, m;
	struct epd_buf b = { 0 };
	struct epd_etcd_kv other;

	if (epd_node_parse(&n, kv, "/epd/"))
		return;
	epd_node_format(&b, &n);
	other = again(kv, b);
	if (epd_node_parse(&m, &other, "/epd/") || memcmp(&n, &m, sizeof n))
		abort();
	epd_buf_free(&b);
}

static void
owner(const struct epd_etcd_kv *kv)
{
	struct epd_node_info n, m;
	struct epd_buf b = { 0 };
	struct epd_etcd_kv other;
	uint64_t term, same;

	if (!epd_owner_parse(&n, &term, kv)) {
		epd_owner_format(&b, &n, term);
		other = again(kv, b);
		if (epd_owner_parse(&m, &same, &other) || term != same || !term ||
		    memcmp(&n, &m, sizeof n))
			abort();
		epd_buf_free(&b);
	}
	if (!epd_term_parse(&term, kv)) {
		epd_term_format(&b, term);
		other = again(kv, b);
		if (epd_term_parse(&same, &other) || term != same || !term)
			abort();
		epd_buf_free(&b);
	}
}

static void
values(const struct epd_etcd_kv *kv)
{
	hint(kv);
	node(kv);
	owner(kv);
}

static void
answer(struct epd_span s, long status)
{
	struct epd_json *root;
	const struct epd_json *kvs;
	struct epd_why why = { "" };
	uint64_t revision;

	if (epd_etcd_answer(&root, &revision, status, s, &why)) {
		for (const char *p = why.text; *p; p++)
			if ((unsigned char)*p < ' ')
				abort();
		return;
	}
	if (revision > INT64_MAX)
		abort();
	kvs = epd_json_get(root, "kvs");
	for (size_t i = 0; i < epd_json_count(kvs); i++) {
		struct epd_etcd_kv kv;

		if (epd_etcd_kv(&kv, epd_json_at(kvs, i)))
			continue;
		values(&kv);
		epd_buf_free(&kv.value);
	}
	epd_json_free(root);
}

static void
base64(struct epd_span s)
{
	struct epd_buf b = { 0 }, t = { 0 }, u = { 0 };

	epd_base64_pack(&b, s);
	if (epd_base64_unpack(&t, epd_span(b.p, b.n)) || t.n != s.n ||
	    (s.n && memcmp(t.p, s.p, s.n)))
		abort();
	(void)epd_base64_unpack(&u, s);
	if (u.n > s.n / 4 * 3)
		abort();
	epd_buf_free(&b);
	epd_buf_free(&t);
	epd_buf_free(&u);
}

/* A key behind a line, then the value. */
static void
value(struct epd_span s)
{
	const char *p = s.p, *end = s.n ? memchr(p, '\n', s.n) : NULL;
	struct epd_etcd_kv kv = { .created = 1, .changed = 1 };
	const size_t n = end ? (size_t)(end - p) : 0;

	if (!end || n >= EPD_ETCD_KEY || memchr(p, 0, n))
		return;
	memcpy(kv.key, p, n);
	epd_buf_put(&kv.value, end + 1, s.n - n - 1);
	values(&kv);
	epd_buf_free(&kv.value);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_watched w = { 0 };
	struct epd_span s;

	if (!n)
		return 0;
	s = epd_span(p + 1, n - 1);
	switch (*p % DOINGS) {
	case ANSWER:
		answer(s, *p / DOINGS % 2 ? 404 : 200);
		break;
	case WATCH:
		(void)epd_watch_line(&w, s, changed, NULL);
		break;
	case BASE64:
		base64(s);
		break;
	case VALUE:
		value(s);
		break;
	}
	return 0;
}
