/*
 * yaml.h - a small YAML document as a tree: mappings, lists and plain values, each
 * with its line.  No aliases, anchors, tags; 64 KiB, DEPTH deep, NODES nodes.
 */
#ifndef EPD_PLAN_YAML_H
#define EPD_PLAN_YAML_H

#include "base/err.h"
#include "base/span.h"

enum { YAML_DEPTH = 8, YAML_NODES = 4096 };

enum yaml_type { YAML_VALUE, YAML_LIST, YAML_MAP };

struct yaml_node {
	enum yaml_type type;
	int line;
	char *key;			/* in a mapping */
	char *text;			/* of a value */
	struct yaml_node *child, *next;
};

struct yaml_doc {
	struct yaml_node *root;		/* a mapping; NULL: nothing was there */
	struct yaml_node *all;		/* an array of them */
	int n;
};

/* Fails: EPD_EUSAGE with name:line, -ENOMEM.  Owns: the caller frees. */
int epd_plan_yaml(struct yaml_doc *out, struct epd_span text, const char *name,
    struct epd_why *why);
void epd_plan_yaml_free(struct yaml_doc *d);

#endif
