/*
 * show.c - a JSON object for people.  Scalars are "key: value"; an object or a
 * list of them is indented beneath its key, a list of scalars is one line.
 */
#include <string.h>

#include "cmd/cli.h"

/* Does a key count bytes?  Large counts are said in words too. */
static int
is_bytes(const char *key)
{
	static const char *const keys[] = {
		"bytes", "free", "total", "available", "cap", "private",
		"shared", "proportional", "page_bytes", "locked_memory",
	};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strcmp(key, keys[i]))
			return 1;
	return 0;
}

/* Keys and values may come from outside. */
static void
tidy(struct epd_buf *out, size_t from)
{
	if (!out->failed && out->n > from)
		cli_tidy((char *)out->p + from, out->n - from);
}

static void
scalar(struct epd_buf *out, const struct epd_json *j)
{
	size_t at = out->n;

	if (epd_json_type(j) == EPD_JSON_STRING)
		epd_buf_str(out, epd_json_str(j, ""));
	else if (epd_json_type(j) == EPD_JSON_NULL)
		epd_buf_str(out, "-");
	else
		epd_json_dump(out, j);
	tidy(out, at);
}

static int
nested(const struct epd_json *j)
{
	enum epd_json_type t = epd_json_type(j);

	if (t == EPD_JSON_OBJECT)
		return epd_json_count(j) > 0;
	return t == EPD_JSON_ARRAY &&
	    epd_json_type(epd_json_at(j, 0)) == EPD_JSON_OBJECT;
}

static void
members(struct epd_buf *out, const struct epd_json *object, int depth)
{
	struct epd_json_iter it = epd_json_begin(object);
	char size[24];
	int first = 1;

	while (epd_json_next(&it)) {
		size_t at;

		/* That is for programs. */
		if (depth == 0 && !strcmp(it.key, "schema_version"))
			continue;
		if (!first || depth == 0)
			epd_buf_fmt(out, "%*s", 2 * depth, "");
		first = 0;
		at = out->n;
		epd_buf_fmt(out, "%s:", it.key);
		tidy(out, at);
		if (epd_json_type(it.value) == EPD_JSON_OBJECT &&
		    nested(it.value)) {
			epd_buf_fmt(out, "\n%*s", 2 * depth + 2, "");
			members(out, it.value, depth + 1);
			continue;
		}
		if (nested(it.value)) {
			epd_buf_str(out, "\n");
			for (size_t i = 0; i < epd_json_count(it.value); i++) {
				epd_buf_fmt(out, "%*s- ", 2 * depth, "");
				members(out, epd_json_at(it.value, i),
				    depth + 1);
			}
			continue;
		}
		epd_buf_str(out, " ");
		if (epd_json_type(it.value) == EPD_JSON_ARRAY)
			for (size_t i = 0; i < epd_json_count(it.value); i++) {
				epd_buf_str(out, i ? " " : "");
				scalar(out, epd_json_at(it.value, i));
			}
		else
			scalar(out, it.value);
		if (is_bytes(it.key) && epd_json_int(it.value, 0) >= 1024)
			epd_buf_fmt(out, " (%s)", cli_bytes(size,
			    (uint64_t)epd_json_int(it.value, 0)));
		epd_buf_str(out, "\n");
	}
}

void
cli_show(struct epd_buf *out, const struct epd_json *j)
{
	members(out, j, 0);
}
