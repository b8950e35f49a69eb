/*
 * value.c - what stands under our prefix: keys, and values as one object of JSON each.
 *
 *	hints/KIND/KEY/OWNER	a hint
 *	nodes/OWNER		a node
 *	shards/WORKFLOW		who owns it, and the term
 *	terms/WORKFLOW		the highest term it was ever owned under
 *
 * OWNER is the UUID of the node's store, in hexadecimal, and behind a dot a hash of its
 * name, since a store may have several nodes.  What a value says of itself has to be
 * what its key says.
 */
#include "dir/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/said.h"
#include "base/words.h"

static const char *const kind_words[] = {
#define X(id, name, key) [EPD_HINT_##id] = name,
	EPD_HINTS(X)
#undef X
};
static const struct epd_words kinds = {
	kind_words, sizeof kind_words / sizeof *kind_words
};

/* The bytes of hexadecimal in lower case at the begin of s. */
static size_t
hex_run(const char *s)
{
	return strspn(s, "0123456789abcdef");
}

static int
is_key(enum epd_hint_kind kind, const char *key)
{
	const size_t hex = hex_run(key), n = strlen(key);
	const char *number = key + hex + 2;

	if (n >= EPD_HINT_KEY || hex < 2 || hex % 2 || hex > 128)
		return 0;
	if (kind != EPD_HINT_STATE)
		return hex == n;
	return hex == 32 && key[hex] == '/' && key[hex + 1] == 's' &&
	    *number >= '1' && *number <= '9' && strlen(number) <= 10 &&
	    strspn(number, "0123456789") == strlen(number);
}

int
epd_hint_path(char out[EPD_ETCD_KEY], enum epd_hint_kind kind,
    const char *key)
{
	if (kind <= EPD_HINT_NONE || kind >= kinds.n || !is_key(kind, key))
		return EPD_EUSAGE;
	strcpy(out, kinds.word[kind]);
	strcat(out, "/");
	strcat(out, key);
	return 0;
}

void
epd_etcd_node_id(char out[EPD_ETCD_OWNER], const struct epd_node_info *n)
{
	epd_hex_format(out, n->uuid, sizeof n->uuid);
	snprintf(out + 32, EPD_ETCD_OWNER - 32, ".%016llx", (unsigned long long)
	    epd_xxh3_64(n->name, strlen(n->name)));
}

/* Whether that is how a node of this store ends its keys. */
static int
is_owner(const char *at, const uint8_t uuid[16])
{
	char hex[33];

	epd_hex_format(hex, uuid, 16);
	if (strncmp(at, hex, 32))
		return 0;
	return !at[32] || (at[32] == '.' && hex_run(at + 33) == 16 &&
	    !at[49]);
}

/* An object of our major, or NULL and why not. */
static struct epd_json *
open_value(const struct epd_etcd_kv *kv, int *rc)
{
	struct epd_json *root = NULL;

	*rc = epd_json_parse(&root, epd_span(kv->value.p, kv->value.n),
	    "value", NULL);
	if (*rc)
		return NULL;
	if (epd_json_type(epd_json_get(root, "schema_version")) !=
	    EPD_JSON_INT)
		*rc = EPD_EFORMAT;
	else if (epd_json_int(epd_json_get(root, "schema_version"), 0) !=
	    EPD_ETCD_SCHEMA)
		*rc = EPD_EKIND;
	if (!*rc)
		return root;
	epd_json_free(root);
	return NULL;
}

/* Text that may be shown, of n bytes with its NUL; absent it is "". */
static int
get_text(const struct epd_json *root, const char *field, char *out, size_t n)
{
	const struct epd_json *j = epd_json_get(root, field);
	const char *s = epd_json_str(j, NULL);

	if (!epd_json_has(root, field))
		s = "";
	if (!s || strlen(s) >= n || !epd_all_shown(s))
		return EPD_EFORMAT;
	strcpy(out, s);
	return 0;
}

static int
get_number(const struct epd_json *root, const char *field, uint64_t most,
    uint64_t *out)
{
	const struct epd_json *j = epd_json_get(root, field);
	const uint64_t v = epd_json_uint(j, 0);

	if (!epd_json_has(root, field)) {
		*out = 0;
		return 0;
	}
	/* Beyond int64 it is a real, and has digits enough up to 2^64 - 1. */
	if ((epd_json_type(j) != EPD_JSON_INT &&
	    epd_json_type(j) != EPD_JSON_REAL) || v > most ||
	    (!v && epd_json_real(j, 1) != 0))
		return EPD_EFORMAT;
	*out = v;
	return 0;
}

static int
get_hex(const struct epd_json *root, const char *field, void *out, size_t n)
{
	const char *s = epd_json_str(epd_json_get(root, field), "");

	return hex_run(s) == 2 * n && !s[2 * n] && !epd_hex_parse(out, n, s) ?
	    0 : EPD_EFORMAT;
}

static int
get_address(const struct epd_json *root, char out[EPD_ADDRESS])
{
	int rc = get_text(root, "address", out, EPD_ADDRESS);

	if (rc)
		return rc;
	return !*out || (!strncmp(out, "tcp://", 6) && out[6] &&
	    !strpbrk(out, " \"\\")) ? 0 : EPD_EFORMAT;
}

/* What of a key is behind prefix and folder, or NULL. */
static const char *
behind(const char *key, const char *prefix, const char *folder)
{
	const size_t n = strlen(prefix), m = strlen(folder);

	return !strncmp(key, prefix, n) && !strncmp(key + n, folder, m) ?
	    key + n + m : NULL;
}

static int
read_hint(struct epd_hint *h, const struct epd_json *root)
{
	const char *kind = epd_json_str(epd_json_get(root, "kind"), "");
	uint64_t version = 0;
	uint8_t sum[8];
	int rc, k = epd_word_parse(&kinds, kind);

	if (k <= EPD_HINT_NONE)
		return EPD_EFORMAT;
	h->kind = (enum epd_hint_kind)k;
	rc = get_text(root, "key", h->key, sizeof h->key);
	if (!rc)
		rc = get_hex(root, "owner", h->owner, sizeof h->owner);
	if (!rc)
		rc = get_address(root, h->address);
	if (!rc)
		rc = get_text(root, "name", h->name, sizeof h->name);
	if (!rc)
		rc = get_number(root, "version", UINT32_MAX, &version);
	if (!rc)
		rc = get_number(root, "epoch", UINT64_MAX, &h->epoch);
	if (!rc)
		rc = get_hex(root, "checksum", sum, sizeof sum);
	if (!rc)
		rc = get_number(root, "lease_ms", UINT64_MAX, &h->lease_ms);
	if (!rc)
		rc = get_number(root, "wall_ms", UINT64_MAX, &h->wall_ms);
	if (rc)
		return rc;
	h->version = (uint32_t)version;
	for (int i = 0; i < 8; i++)
		h->checksum = h->checksum << 8 | sum[i];
	return 0;
}

int
epd_hint_parse(struct epd_hint *out, const struct epd_etcd_kv *kv,
    const char *prefix)
{
	const char *at = behind(kv->key, prefix, "hints/");
	char path[EPD_ETCD_KEY];
	struct epd_hint h = { 0 };
	struct epd_json *root;
	int rc;

	if (!at || !(root = open_value(kv, &rc)))
		return at ? rc : EPD_EFORMAT;
	rc = read_hint(&h, root);
	epd_json_free(root);
	if (rc)
		return rc;
	if (epd_hint_path(path, h.kind, h.key))
		return EPD_EFORMAT;
	strcat(path, "/");
	if (strncmp(path, at, strlen(path)) ||
	    !is_owner(at + strlen(path), h.owner))
		return EPD_EFORMAT;
	*out = h;
	return 0;
}

static int
read_node(struct epd_node_info *n, const struct epd_json *root)
{
	int rc = get_hex(root, "owner", n->uuid, sizeof n->uuid);

	if (!rc)
		rc = get_text(root, "name", n->name, sizeof n->name);
	if (!rc)
		rc = get_address(root, n->address);
	if (!rc)
		rc = get_number(root, "wall_ms", UINT64_MAX, &n->wall_ms);
	return rc;
}

int
epd_node_parse(struct epd_node_info *out, const struct epd_etcd_kv *kv,
    const char *prefix)
{
	const char *at = behind(kv->key, prefix, "nodes/");
	struct epd_node_info n = { 0 };
	struct epd_json *root;
	int rc;

	if (!at || !(root = open_value(kv, &rc)))
		return at ? rc : EPD_EFORMAT;
	rc = read_node(&n, root);
	epd_json_free(root);
	if (rc)
		return rc;
	if (!is_owner(at, n.uuid))
		return EPD_EFORMAT;
	*out = n;
	return 0;
}

int
epd_owner_parse(struct epd_node_info *out, uint64_t *term,
    const struct epd_etcd_kv *kv)
{
	struct epd_node_info n = { 0 };
	struct epd_json *root;
	uint64_t t = 0;
	int rc;

	if (!(root = open_value(kv, &rc)))
		return rc;
	rc = read_node(&n, root);
	if (!rc)
		rc = get_number(root, "term", UINT64_MAX, &t);
	epd_json_free(root);
	if (rc || !t)
		return rc ? rc : EPD_EFORMAT;
	*out = n;
	*term = t;
	return 0;
}

int
epd_term_parse(uint64_t *term, const struct epd_etcd_kv *kv)
{
	struct epd_json *root;
	uint64_t t = 0;
	int rc;

	if (!(root = open_value(kv, &rc)))
		return rc;
	rc = get_number(root, "term", UINT64_MAX, &t);
	epd_json_free(root);
	if (rc || !t)
		return rc ? rc : EPD_EFORMAT;
	*term = t;
	return 0;
}

static struct epd_jw
begin_value(struct epd_buf *out)
{
	struct epd_jw w = { .out = out };

	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", EPD_ETCD_SCHEMA);
	return w;
}

void
epd_hint_format(struct epd_buf *out, const struct epd_hint *h)
{
	struct epd_jw w = begin_value(out);
	uint8_t sum[8];

	for (int i = 0; i < 8; i++)
		sum[i] = (uint8_t)(h->checksum >> 8 * (7 - i));
	epd_jw_str(&w, "kind", epd_word(&kinds, h->kind));
	epd_jw_str(&w, "key", h->key);
	epd_jw_hex(&w, "owner", h->owner, sizeof h->owner);
	epd_jw_str(&w, "address", h->address);
	epd_jw_str(&w, "name", h->name);
	epd_jw_uint(&w, "version", h->version);
	epd_jw_uint(&w, "epoch", h->epoch);
	epd_jw_hex(&w, "checksum", sum, sizeof sum);
	epd_jw_uint(&w, "lease_ms", h->lease_ms);
	epd_jw_uint(&w, "wall_ms", h->wall_ms);
	epd_jw_end(&w, '}');
}

static void
put_node(struct epd_jw *w, const struct epd_node_info *n)
{
	epd_jw_hex(w, "owner", n->uuid, sizeof n->uuid);
	epd_jw_str(w, "name", n->name);
	epd_jw_str(w, "address", n->address);
	epd_jw_uint(w, "wall_ms", n->wall_ms);
}

void
epd_node_format(struct epd_buf *out, const struct epd_node_info *n)
{
	struct epd_jw w = begin_value(out);

	put_node(&w, n);
	epd_jw_end(&w, '}');
}

void
epd_owner_format(struct epd_buf *out, const struct epd_node_info *n,
    uint64_t term)
{
	struct epd_jw w = begin_value(out);

	put_node(&w, n);
	epd_jw_uint(&w, "term", term);
	epd_jw_end(&w, '}');
}

void
epd_term_format(struct epd_buf *out, uint64_t term)
{
	struct epd_jw w = begin_value(out);

	epd_jw_uint(&w, "term", term);
	epd_jw_end(&w, '}');
}
