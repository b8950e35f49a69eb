/*
 * config.c - YAML events held against the table of config.h.
 *
 * The document is a mapping of sections, each a mapping of keys to scalars, and
 * scheduler.queues a list.  libyaml gives events, not a tree, so nothing is
 * built that the table does not know, and the first fault ends the reading.
 */
#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "base/file.h"

enum { LONGEST = 65536, QUEUES = 3 };

enum kind { KIND_B, KIND_I, KIND_R, KIND_S, KIND_E };

struct key {
	const char *section, *name;
	enum kind kind;
	size_t offset;
	int64_t min, max;	/* of I and R */
	const char *choices;	/* of E, parted by |; how an S may begin, if not empty */
};

#define AT(f) offsetof(struct epd_config, f)
#define K_B(s, k, f, lo, hi) { s, k, KIND_B, AT(f), 0, 1, NULL },
#define K_I(s, k, f, lo, hi) { s, k, KIND_I, AT(f), lo, hi, NULL },
#define K_R(s, k, f, lo, hi) { s, k, KIND_R, AT(f), lo, hi, NULL },
#define K_S(s, k, f, lo, hi) { s, k, KIND_S, AT(f), 0, 0, lo },
#define K_E(s, k, f, lo, hi) { s, k, KIND_E, AT(f), 0, 0, lo },

static const struct key keys[] = {
#define X(section, key, kind, field, dflt, lo, hi) \
	K_##kind(section, key, field, lo, hi)
	EPD_CONFIG(X)
#undef X
};

enum { KEYS = sizeof keys / sizeof *keys };

struct reader {
	yaml_parser_t parser;
	yaml_event_t event;
	int line;			/* of event */
	struct epd_config c;
	const char *name;
	struct epd_why *why;
	struct epd_span text;
	uint8_t seen[KEYS], seen_queues;
	char section[64];
};

void
epd_config_default(struct epd_config *c)
{
	memset(c, 0, sizeof *c);
#define D_B(f, v) c->f = v;
#define D_I(f, v) c->f = v;
#define D_R(f, v) c->f = v;
#define D_S(f, v) snprintf(c->f, sizeof c->f, "%s", v);
#define D_E(f, v) D_S(f, v)
#define X(section, key, kind, field, dflt, lo, hi) D_##kind(field, dflt)
	EPD_CONFIG(X)
#undef X
	strcpy(c->queues[0], "INTERACTIVE");
	strcpy(c->queues[1], "HYBRID");
	strcpy(c->queues[2], "THINKING");
}

__attribute__((format(printf, 2, 3))) static int
fault(struct reader *r, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return epd_why(r->why, EPD_EUSAGE, "%s:%d: %s", r->name, r->line, text);
}

/* libyaml does not know the line of bytes that are no UTF-8. */
static int
problem_line(const struct reader *r)
{
	const char *p = r->text.p;
	int line = 1;

	if (r->parser.error != YAML_READER_ERROR)
		return (int)r->parser.problem_mark.line + 1;
	for (size_t i = 0; i < r->text.n && i < r->parser.problem_offset; i++)
		line += p[i] == '\n';
	return line;
}

/* Fetch the next event and refuse what configurations have no use for. */
static int
next(struct reader *r)
{
	const yaml_event_t *e = &r->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	yaml_event_delete(&r->event);
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		if (r->parser.error == YAML_MEMORY_ERROR)
			return -ENOMEM;
		r->line = problem_line(r);
		return fault(r, "%s",
		    r->parser.problem ? r->parser.problem : "not YAML");
	}
	r->line = (int)e->start_mark.line + 1;
	switch (e->type) {
	case YAML_ALIAS_EVENT:
		return fault(r, "aliases are not taken");
	case YAML_DOCUMENT_START_EVENT:
		if (e->data.document_start.tag_directives.start !=
		    e->data.document_start.tag_directives.end)
			return fault(r, "tags are not taken");
		break;
	case YAML_SCALAR_EVENT:
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (anchor)
		return fault(r, "anchors are not taken");
	return tag ? fault(r, "tags are not taken") : 0;
}

/* The scalar's text, if it holds no NUL; NULL otherwise. */
static const char *
scalar(const struct reader *r)
{
	const char *s = (const char *)r->event.data.scalar.value;

	return r->event.type == YAML_SCALAR_EVENT &&
	    strlen(s) == r->event.data.scalar.length ? s : NULL;
}

/* Quotes make a text of a number. */
static int
is_plain(const struct reader *r)
{
	return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static int
is_choice(const char *choices, const char *s)
{
	size_t n = strlen(s);

	for (const char *p = choices; *p; p += *p == '|') {
		size_t len = strcspn(p, "|");

		if (n == len && !memcmp(p, s, n))
			return 1;
		p += len;
	}
	return 0;
}

/* Empty, or beginning with one of the choices, where there are any. */
static int
begins(const char *choices, const char *s)
{
	int ok = !*choices || !*s;

	for (const char *p = choices; !ok && *p; p += *p == '|') {
		size_t len = strcspn(p, "|");

		ok = !strncmp(p, s, len);
		p += len;
	}
	return ok;
}

static int
set_int(struct reader *r, const struct key *k, const char *s)
{
	int64_t *out = (int64_t *)(void *)((char *)&r->c + k->offset);
	char *end;
	long long v;

	errno = 0;
	v = strtoll(s, &end, 10);
	if (!is_plain(r) || end == s || *end ||
	    strspn(s, "+-0123456789") != strlen(s))
		return fault(r, "%s.%s: wants a whole number", k->section,
		    k->name);
	/* Pages are made of blocks of 16 tokens, and of one or four of them. */
	if (k->offset == AT(page_tokens) && v != 16 && v != 64)
		return fault(r, "page.tokens: wants 16 or 64");
	if (errno == ERANGE || v < k->min || v > k->max)
		return fault(r, "%s.%s: wants %lld to %lld", k->section,
		    k->name, (long long)k->min, (long long)k->max);
	*out = v;
	return 0;
}

static int
set_real(struct reader *r, const struct key *k, const char *s)
{
	double *out = (double *)(void *)((char *)&r->c + k->offset), v;
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	char *end;

	if (!c)
		return -ENOMEM;
	v = strtod_l(s, &end, c);
	freelocale(c);
	if (!is_plain(r) || end == s || *end ||
	    strspn(s, "+-.0123456789eE") != strlen(s))
		return fault(r, "%s.%s: wants a number", k->section, k->name);
	if (!(v >= (double)k->min && v <= (double)k->max))
		return fault(r, "%s.%s: wants %lld to %lld", k->section,
		    k->name, (long long)k->min, (long long)k->max);
	*out = v;
	return 0;
}

static int
set_bool(struct reader *r, const struct key *k, const char *s)
{
	int *out = (int *)(void *)((char *)&r->c + k->offset);
	int is_true = !strcmp(s, "true");

	if (!is_plain(r) || (!is_true && strcmp(s, "false")))
		return fault(r, "%s.%s: wants true or false", k->section,
		    k->name);
	*out = is_true;
	return 0;
}

static int
set(struct reader *r, const struct key *k)
{
	char *field = (char *)&r->c + k->offset;
	const char *s = scalar(r);

	if (!s)
		return fault(r, "%s.%s: wants a single value", k->section,
		    k->name);
	switch (k->kind) {
	case KIND_B:
		return set_bool(r, k, s);
	case KIND_I:
		return set_int(r, k, s);
	case KIND_R:
		return set_real(r, k, s);
	case KIND_E:
		if (!is_choice(k->choices, s))
			return fault(r, "%s.%s: wants one of %s", k->section,
			    k->name, k->choices);
		break;
	case KIND_S:
		break;
	}
	if (strlen(s) >= EPD_CONFIG_STR)
		return fault(r, "%s.%s: longer than %d bytes", k->section,
		    k->name, EPD_CONFIG_STR - 1);
	/* All that is in etcd would be ours. */
	if (k->offset == AT(directory_prefix) && !*s)
		return fault(r, "directory.prefix: has to begin with /");
	if (k->kind == KIND_S && !begins(k->choices, s))
		return fault(r, "%s.%s: has to begin with %s", k->section,
		    k->name, k->choices);
	strcpy(field, s);
	return 0;
}

static int
read_queues(struct reader *r)
{
	char got[QUEUES][sizeof r->c.queues[0]] = { "" };
	int rc, n = 0;

	if (r->event.type != YAML_SEQUENCE_START_EVENT)
		return fault(r, "scheduler.queues: wants a list");
	for (;;) {
		const char *s;

		rc = next(r);
		if (rc)
			return rc;
		if (r->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		s = scalar(r);
		if (!s || !is_choice("INTERACTIVE|HYBRID|THINKING", s))
			return fault(r, "scheduler.queues: wants "
			    "INTERACTIVE, HYBRID or THINKING");
		for (int i = 0; i < n; i++)
			if (!strcmp(got[i], s))
				return fault(r,
				    "scheduler.queues: %s stands twice", s);
		strcpy(got[n++], s);
	}
	if (!n)
		return fault(r, "scheduler.queues: wants one at least");
	memcpy(r->c.queues, got, sizeof got);
	return 0;
}

/* One key of the section at hand, and its value. */
static int
read_key(struct reader *r)
{
	const char *s = scalar(r);
	uint8_t *seen = NULL;
	const struct key *k = NULL;
	int rc;

	if (!s)
		return fault(r, "%s: wants keys with values", r->section);
	if (!strcmp(r->section, "scheduler") && !strcmp(s, "queues"))
		seen = &r->seen_queues;
	for (int i = 0; i < KEYS; i++)
		if (!strcmp(keys[i].section, r->section) &&
		    !strcmp(keys[i].name, s)) {
			k = &keys[i];
			seen = &r->seen[i];
		}
	if (!seen)
		return fault(r, "unknown key %s.%.64s", r->section, s);
	if (*seen)
		return fault(r, "%s.%s stands twice", r->section, s);
	*seen = 1;
	rc = next(r);
	if (rc)
		return rc;
	return k ? set(r, k) : read_queues(r);
}

static int
read_section(struct reader *r)
{
	const char *s = scalar(r);
	int rc, known = 0;

	for (int i = 0; s && i < KEYS; i++)
		known |= !strcmp(keys[i].section, s);
	if (!s)
		return fault(r, "wants the name of a section");
	if (!known)
		return fault(r, "unknown section %.64s", s);
	snprintf(r->section, sizeof r->section, "%s", s);
	rc = next(r);
	if (rc)
		return rc;
	/* A section with all its keys commented out. */
	if (r->event.type == YAML_SCALAR_EVENT &&
	    !r->event.data.scalar.length && is_plain(r))
		return 0;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return fault(r, "%s: wants keys with values", r->section);
	for (;;) {
		rc = next(r);
		if (rc || r->event.type == YAML_MAPPING_END_EVENT)
			return rc;
		rc = read_key(r);
		if (rc)
			return rc;
	}
}

static int
read_document(struct reader *r)
{
	int rc = next(r);

	if (rc)
		return rc;
	if (r->event.type == YAML_SCALAR_EVENT &&
	    !r->event.data.scalar.length && is_plain(r))
		return next(r);
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return fault(r, "wants sections with keys");
	for (;;) {
		rc = next(r);
		if (rc)
			return rc;
		if (r->event.type == YAML_MAPPING_END_EVENT)
			return next(r);
		rc = read_section(r);
		if (rc)
			return rc;
	}
}

static int
read_stream(struct reader *r)
{
	int rc = next(r);

	if (!rc)
		rc = next(r);
	if (rc || r->event.type == YAML_STREAM_END_EVENT)
		return rc;
	rc = read_document(r);
	if (!rc)
		rc = next(r);
	if (!rc && r->event.type != YAML_STREAM_END_EVENT)
		return fault(r, "more than one document");
	return rc;
}

static int
is_said(const struct reader *r, size_t offset)
{
	for (int i = 0; i < KEYS; i++)
		if (keys[i].offset == offset)
			return r->seen[i];
	return 0;
}

/* One that is not said counts as no more than the other. */
static int
order_marks(struct reader *r)
{
	return r->c.tier_low_water > r->c.tier_high_water &&
	    is_said(r, AT(tier_low_water)) && is_said(r, AT(tier_high_water)) ?
	    epd_why(r->why, EPD_EUSAGE, "%s: tier.low_water is above "
	    "tier.high_water", r->name) : 0;
}

int
epd_config_parse(struct epd_config *c, struct epd_span text, const char *name,
    struct epd_why *why)
{
	struct reader r = { .c = *c, .name = name, .why = why, .text = text };
	int rc;

	if (text.n > LONGEST)
		return epd_why(why, EPD_EUSAGE, "%s: larger than 64 KiB", name);
	if (!yaml_parser_initialize(&r.parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, text.n ? text.p :
	    (const unsigned char *)"", text.n);
	rc = read_stream(&r);
	if (!rc)
		rc = order_marks(&r);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (!rc)
		*c = r.c;
	return rc;
}

int
epd_config_read(struct epd_config *c, const char *path, struct epd_why *why)
{
	struct epd_buf b = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	rc = fd < 0 ? -errno : epd_file_slurp(fd, LONGEST, &b);
	if (fd >= 0)
		close(fd);
	if (rc == EPD_ETOOBIG)
		return epd_why(why, EPD_EUSAGE, "%s: larger than 64 KiB", path);
	if (rc)
		return epd_why(why, rc, "%s: %s", path, epd_strerror(rc));
	rc = epd_config_parse(c, epd_span(b.p, b.n), path, why);
	epd_buf_free(&b);
	return rc;
}
