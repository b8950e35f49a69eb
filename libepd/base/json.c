/*
 * json.c - looking at a tree.  A struct epd_json is a json_object under another
 * name, and JSON null is NULL, as in json-c.
 */
#include "base/json.h"

#include <json-c/json.h>
#include <string.h>

static const struct json_object *
node(const struct epd_json *j)
{
	return (const struct json_object *)j;
}

static struct epd_json *
give(struct json_object *o)
{
	return (struct epd_json *)o;
}

/* Integers from 2^63 to 2^64 - 1, which json-c keeps apart inside. */
static int
is_uint(const struct json_object *o)
{
	return json_object_get_int64(o) == INT64_MAX &&
	    json_object_get_uint64(o) > INT64_MAX;
}

enum epd_json_type
epd_json_type(const struct epd_json *j)
{
	switch (json_object_get_type(node(j))) {
	case json_type_boolean:
		return EPD_JSON_BOOL;
	case json_type_int:
		return is_uint(node(j)) ? EPD_JSON_REAL : EPD_JSON_INT;
	case json_type_double:
		return EPD_JSON_REAL;
	case json_type_string:
		return EPD_JSON_STRING;
	case json_type_array:
		return EPD_JSON_ARRAY;
	case json_type_object:
		return EPD_JSON_OBJECT;
	default:
		return EPD_JSON_NULL;
	}
}

size_t
epd_json_count(const struct epd_json *j)
{
	switch (json_object_get_type(node(j))) {
	case json_type_array:
		return json_object_array_length(node(j));
	case json_type_object:
		return (size_t)json_object_object_length(node(j));
	default:
		return 0;
	}
}

struct epd_json *
epd_json_at(const struct epd_json *j, size_t i)
{
	if (!json_object_is_type(node(j), json_type_array) ||
	    i >= json_object_array_length(node(j)))
		return NULL;
	return give(json_object_array_get_idx(node(j), i));
}

struct epd_json *
epd_json_get(const struct epd_json *j, const char *key)
{
	struct json_object *o;

	if (!json_object_is_type(node(j), json_type_object) ||
	    !json_object_object_get_ex(node(j), key, &o))
		return NULL;
	return give(o);
}

int
epd_json_has(const struct epd_json *j, const char *key)
{
	return json_object_is_type(node(j), json_type_object) &&
	    json_object_object_get_ex(node(j), key, NULL);
}

struct epd_json_iter
epd_json_begin(const struct epd_json *object)
{
	struct epd_json_iter it = { NULL, NULL, NULL };

	if (json_object_is_type(node(object), json_type_object))
		it.at = json_object_get_object(node(object))->head;
	return it;
}

int
epd_json_next(struct epd_json_iter *it)
{
	struct lh_entry *e = it->at;

	it->key = e ? lh_entry_k(e) : NULL;
	it->value = e ? lh_entry_v(e) : NULL;
	it->at = e ? e->next : NULL;
	return e != NULL;
}

int64_t
epd_json_int(const struct epd_json *j, int64_t dflt)
{
	return epd_json_type(j) == EPD_JSON_INT ?
	    json_object_get_int64(node(j)) : dflt;
}

uint64_t
epd_json_uint(const struct epd_json *j, uint64_t dflt)
{
	const struct json_object *o = node(j);

	if (!json_object_is_type(o, json_type_int) ||
	    json_object_get_int64(o) < 0)
		return dflt;
	return json_object_get_uint64(o);
}

double
epd_json_real(const struct epd_json *j, double dflt)
{
	const struct json_object *o = node(j);

	if (json_object_is_type(o, json_type_double))
		return json_object_get_double(o);
	if (!json_object_is_type(o, json_type_int))
		return dflt;
	return is_uint(o) ? (double)json_object_get_uint64(o) :
	    (double)json_object_get_int64(o);
}

int
epd_json_bool(const struct epd_json *j, int dflt)
{
	return json_object_is_type(node(j), json_type_boolean) ?
	    json_object_get_boolean(node(j)) != 0 : dflt;
}

struct epd_span
epd_json_bytes(const struct epd_json *j)
{
	/* Not for other types, of which json-c would make a text. */
	struct json_object *o = (struct json_object *)(uintptr_t)j;

	if (!json_object_is_type(o, json_type_string))
		return epd_span(NULL, 0);
	return epd_span(json_object_get_string(o),
	    (size_t)json_object_get_string_len(o));
}

const char *
epd_json_str(const struct epd_json *j, const char *dflt)
{
	struct epd_span s = epd_json_bytes(j);

	return s.p && !memchr(s.p, 0, s.n) ? s.p : dflt;
}
