/*
 * scenario_in.h - how a scenario's keys are read: a table a kind of mapping, a row a
 * key, and of each the field it goes to.
 */
#ifndef EPD_PLAN_SCENARIO_IN_H
#define EPD_PLAN_SCENARIO_IN_H

#include <stddef.h>

#include "plan/scenario.h"
#include "plan/yaml.h"

enum kind {
	K_BYTES,	/* uint64_t: 64K, 1M */
	K_TIME,		/* uint64_t ns: 10us */
	K_NS,		/* double ns: 10us */
	K_RATE,		/* double: 50G */
	K_U8, K_U32, K_U64,	/* a whole number, at most n (0: what it holds) */
	K_BOOL,		/* int */
	K_FLAG,		/* a bit of uint32_t, n */
	K_NAME,		/* char[EPD_PLAN_NAME] */
	K_ONE,		/* uint8_t: one of words, from n on */
	K_ONE_BIT,	/* uint32_t: the bit of one */
	K_BITS,		/* uint32_t: the bits of a list of them */
	K_LIST,		/* uint8_t[EPD_PLAN_BACKENDS], then a count at n: backends */
	K_PAIRS,	/* uint64_t: a list of cpu-cuda */
	K_RAILS,	/* uint64_t: a list of numbers to 63 */
	K_PATTERN,	/* uint32_t: media */
	K_FN,		/* by fn */
};

struct in {
	struct epd_scenario *s;
	const char *name;
	struct epd_why *why;
};

struct row {
	const char *name;
	enum kind kind;
	size_t at;		/* of the field */
	uint64_t n;
	const struct epd_words *words;
	int (*fn)(struct in *in, const struct yaml_node *n, void *to);
	uint8_t tells;		/* it makes what it is of an observation */
};

/* "FILE:LINE: KEY wants ..."; EPD_EUSAGE. */
int epd_in_fault(const struct in *in, const struct yaml_node *n, const char *wants);
int epd_in_no_backend(const struct in *in, const struct yaml_node *n,
    const char *name);
/* One value to its field.  Fails: EPD_EUSAGE. */
int epd_in_set(struct in *in, const struct yaml_node *n, const struct row *row,
    void *to);
/* A mapping by a table that ends with a row without name. */
int epd_in_map(struct in *in, const struct yaml_node *map, const struct row *rows,
    void *to);

#endif
