/*
 * yaml.c - YAML by libyaml's events, as a tree.  Every node lies in one array, so
 * that it is freed without walking, and counting it bounds what a text may become.
 */
#include "plan/yaml.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"

enum { LONGEST = 1 << 16 };

struct reader {
	yaml_parser_t parser;
	yaml_event_t event;
	const char *name;
	struct epd_why *why;
	struct yaml_doc doc;
	int room;		/* nodes there may be */
	int line;
};

static int
fault(struct reader *r, const char *what)
{
	return epd_why(r->why, EPD_EUSAGE, "%s:%d: %s", r->name, r->line, what);
}

static int
anchored(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return e->data.scalar.anchor || e->data.scalar.tag;
	case YAML_SEQUENCE_START_EVENT:
		return e->data.sequence_start.anchor || e->data.sequence_start.tag;
	case YAML_MAPPING_START_EVENT:
		return e->data.mapping_start.anchor || e->data.mapping_start.tag;
	case YAML_DOCUMENT_START_EVENT:
		return e->data.document_start.tag_directives.start !=
		    e->data.document_start.tag_directives.end;
	default:
		return e->type == YAML_ALIAS_EVENT;
	}
}

static int
next(struct reader *r)
{
	yaml_event_delete(&r->event);
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		r->line = (int)r->parser.problem_mark.line + 1;
		return r->parser.error == YAML_MEMORY_ERROR ? -ENOMEM :
		    fault(r, r->parser.problem ? r->parser.problem : "not YAML");
	}
	r->line = (int)r->event.start_mark.line + 1;
	return anchored(&r->event) ?
	    fault(r, "aliases, anchors and tags are not taken") : 0;
}

/* A copy of the scalar at hand; it may hold no NUL. */
static int
text_of(struct reader *r, char **out)
{
	const char *s = (const char *)r->event.data.scalar.value;

	if (r->event.type != YAML_SCALAR_EVENT)
		return fault(r, "wants a name before the colon");
	if (strlen(s) != r->event.data.scalar.length)
		return fault(r, "a NUL in a value");
	*out = epd_strdup(s);
	return *out ? 0 : -ENOMEM;
}

/* NULL: there are as many as there may be. */
static struct yaml_node *
new_node(struct reader *r)
{
	struct yaml_node *n;

	if (r->doc.n == r->room)
		return NULL;
	n = &r->doc.all[r->doc.n++];
	n->line = r->line;
	return n;
}

static int read_node(struct reader *r, struct yaml_node *n, int depth);

static int
twice(struct reader *r, const struct yaml_node *map, const struct yaml_node *n)
{
	for (const struct yaml_node *m = map->child; m; m = m->next)
		if (m != n && m->key && !strcmp(m->key, n->key))
			return fault(r, "a key stands twice");
	return 0;
}

/* What a list or mapping holds, until it ends. */
static int
read_children(struct reader *r, struct yaml_node *n, int depth)
{
	const yaml_event_type_t end = n->type == YAML_MAP ?
	    YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
	struct yaml_node **last = &n->child, *c;
	int rc;

	if (depth == YAML_DEPTH)
		return fault(r, "deeper than there is use for");
	for (;;) {
		rc = next(r);
		if (rc || r->event.type == end)
			return rc;
		c = new_node(r);
		if (!c)
			return fault(r, "more than there may be");
		*last = c;
		last = &c->next;
		if (n->type == YAML_MAP) {
			rc = text_of(r, &c->key);
			if (!rc)
				rc = twice(r, n, c);
			if (!rc)
				rc = next(r);
			if (rc)
				return rc;
		}
		rc = read_node(r, c, depth + 1);
		if (rc)
			return rc;
	}
}

static int
read_node(struct reader *r, struct yaml_node *n, int depth)
{
	switch (r->event.type) {
	case YAML_SCALAR_EVENT:
		n->type = YAML_VALUE;
		return text_of(r, &n->text);
	case YAML_SEQUENCE_START_EVENT:
		n->type = YAML_LIST;
		return read_children(r, n, depth);
	case YAML_MAPPING_START_EVENT:
		n->type = YAML_MAP;
		return read_children(r, n, depth);
	default:
		return fault(r, "wants a value");
	}
}

static int
read_document(struct reader *r)
{
	struct yaml_node *root;
	int rc = next(r);		/* the stream begins */

	if (!rc)
		rc = next(r);		/* so does a document */
	if (rc || r->event.type == YAML_STREAM_END_EVENT)
		return rc;
	rc = next(r);
	if (rc)
		return rc;
	if (r->event.type != YAML_MAPPING_START_EVENT &&
	    !(r->event.type == YAML_SCALAR_EVENT &&
	    !r->event.data.scalar.length))
		return fault(r, "wants keys with values");
	if (r->event.type == YAML_MAPPING_START_EVENT) {
		root = new_node(r);
		if (!root)
			return fault(r, "more than there may be");
		rc = read_node(r, root, 0);
		if (rc)
			return rc;
		r->doc.root = root;
	}
	rc = next(r);
	if (!rc)
		rc = next(r);
	return rc || r->event.type == YAML_STREAM_END_EVENT ? rc :
	    fault(r, "more than one document");
}

int
epd_plan_yaml(struct yaml_doc *out, struct epd_span text, const char *name,
    struct epd_why *why)
{
	struct reader r = { .name = name, .why = why };
	int rc;

	if (text.n > LONGEST)
		return epd_why(why, EPD_EUSAGE, "%s: larger than 64 KiB", name);
	/* No node without a byte, but for the one that is empty. */
	r.room = text.n < YAML_NODES ? (int)text.n + 1 : YAML_NODES;
	r.doc.all = epd_calloc((size_t)r.room, sizeof *r.doc.all);
	if (!r.doc.all)
		return -ENOMEM;
	if (!yaml_parser_initialize(&r.parser)) {
		epd_free(r.doc.all);
		return -ENOMEM;
	}
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, text.n ? text.p :
	    (const unsigned char *)"", text.n);
	rc = read_document(&r);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (rc)
		epd_plan_yaml_free(&r.doc);
	else
		*out = r.doc;
	return rc;
}

void
epd_plan_yaml_free(struct yaml_doc *d)
{
	for (int i = 0; i < d->n; i++) {
		epd_free(d->all[i].key);
		epd_free(d->all[i].text);
	}
	epd_free(d->all);
	*d = (struct yaml_doc){ 0 };
}
