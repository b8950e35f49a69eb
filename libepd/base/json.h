/*
 * json.h - JSON (RFC 8259) read into a tree and written piece by piece.
 * The tree is json-c's: at most 64 deep, strict, UTF-8 checked, sizes capped
 * by the caller (a tree takes up to some 260 times its text).  Objects keep
 * their order; of equal keys the last counts.  A key may not hold \u0000; half
 * a surrogate pair becomes U+FFFD.
 */
#ifndef EPD_BASE_JSON_H
#define EPD_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* A node is owned by the tree it is in; epd_json_free takes the root only. */
struct epd_json;

enum epd_json_type {
	EPD_JSON_NULL, EPD_JSON_BOOL, EPD_JSON_INT, EPD_JSON_REAL,
	EPD_JSON_STRING, EPD_JSON_ARRAY, EPD_JSON_OBJECT,
};

/*
 * One value and nothing after it but white space; *out is NULL if it is null.
 * what names the text in why, with the line.  Fails: EPD_EFORMAT, -ENOMEM.
 */
int epd_json_parse(struct epd_json **out, struct epd_span text,
    const char *what, struct epd_why *why);
void epd_json_free(struct epd_json *root);

/* All take NULL for an absent node and then answer as for JSON null. */
enum epd_json_type epd_json_type(const struct epd_json *j);
size_t epd_json_count(const struct epd_json *j);	/* of array or object */
struct epd_json *epd_json_at(const struct epd_json *j, size_t i);
/* Value of a key; NULL if absent, or if j is not an object. */
struct epd_json *epd_json_get(const struct epd_json *j, const char *key);
/* Whether the key is there, be its value null. */
int epd_json_has(const struct epd_json *j, const char *key);
/* Walk keys in order: i-th key (NULL past the end) and its value. */
struct epd_json_iter { void *at; const char *key; struct epd_json *value; };
struct epd_json_iter epd_json_begin(const struct epd_json *object);
int epd_json_next(struct epd_json_iter *it);	/* 1 while there is an entry */

/*
 * The value, or dflt if the node is absent or of another type.  An integer
 * beyond int64 is of type real; a real beyond double (1e999) is infinite; a
 * string that holds NUL has epd_json_bytes only.
 */
int64_t epd_json_int(const struct epd_json *j, int64_t dflt);
uint64_t epd_json_uint(const struct epd_json *j, uint64_t dflt); /* to 2^64-1 */
double epd_json_real(const struct epd_json *j, double dflt);	/* ints too */
int epd_json_bool(const struct epd_json *j, int dflt);
const char *epd_json_str(const struct epd_json *j, const char *dflt);
/* Bytes of a string, which may hold NUL; {NULL, 0} if it is none. */
struct epd_span epd_json_bytes(const struct epd_json *j);

/*
 * Python's json.dumps(j, ensure_ascii=False) with ", " and ": " (the form the
 * chat templates' tojson gives).  Reals keep the digits they came with.
 */
void epd_json_dump(struct epd_buf *out, const struct epd_json *j);

/* Append s as a JSON string with its quotes; broken UTF-8 becomes U+FFFD. */
void epd_json_quote(struct epd_buf *out, struct epd_span s);

/*
 * A writer of one object or array per line, commas kept: begin with '{' or
 * '[' (key NULL inside arrays and at the top), end what was begun with '}' or
 * ']'.  It may come to a terminal: what epd_is_shown is not of is written \u....  Zero it but for out.  Separators are those of epd_json_dump, at most 63
 * levels; the newline is the caller's.
 */
struct epd_jw {
	struct epd_buf *out;
	int depth;
	uint64_t filled;	/* bit d: something stands at depth d */
};
void epd_jw_begin(struct epd_jw *w, const char *key, char bracket);
void epd_jw_end(struct epd_jw *w, char bracket);
void epd_jw_str(struct epd_jw *w, const char *key, const char *v); /* NULL: null */
void epd_jw_bytes(struct epd_jw *w, const char *key, struct epd_span v);
void epd_jw_int(struct epd_jw *w, const char *key, int64_t v);
void epd_jw_uint(struct epd_jw *w, const char *key, uint64_t v);
/* As Python's repr, the fewest digits that read back; null if not finite. */
void epd_jw_real(struct epd_jw *w, const char *key, double v);
void epd_jw_bool(struct epd_jw *w, const char *key, int v);
void epd_jw_hex(struct epd_jw *w, const char *key, const void *p, size_t n);

#endif
