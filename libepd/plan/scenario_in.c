/* scenario_in.c - one value of a scenario, by what its key takes. */
#include "plan/scenario_in.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "plan/inner.h"

int
epd_in_fault(const struct in *in, const struct yaml_node *n, const char *wants)
{
	return epd_why(in->why, EPD_EUSAGE, "%s:%d: %.64s wants %s", in->name,
	    n->line, n->key ? n->key : "a list", wants);
}

/* The same; wants NULL: one of the row's words. */
static int
wrong(const struct in *in, const struct yaml_node *n, const struct row *row,
    const char *wants)
{
	struct epd_buf b = { 0 };
	int rc;

	if (wants)
		return epd_in_fault(in, n, wants);
	epd_buf_str(&b, row->kind == K_BITS ? "a list of " : "");
	epd_words_put(&b, row->words, (unsigned)row->n);
	rc = epd_in_fault(in, n, epd_buf_cstr(&b));
	epd_buf_free(&b);
	return rc;
}

/* One of a row's words; negative: none. */
static int
word_of(const struct row *row, const char *s)
{
	const int i = epd_word_parse(row->words, s);

	return i < (int)row->n ? -EINVAL : i;
}

int
epd_in_no_backend(const struct in *in, const struct yaml_node *n,
    const char *name)
{
	return epd_why(in->why, EPD_EUSAGE, "%s:%d: no backend is called %.64s",
	    in->name, n->line, name);
}

int
epd_in_map(struct in *in, const struct yaml_node *map, const struct row *rows,
    void *to)
{
	int rc = 0;

	if (map->type == YAML_VALUE && !*map->text)
		return 0;
	if (map->type != YAML_MAP)
		return epd_in_fault(in, map, "keys with values");
	for (const struct yaml_node *n = map->child; n && !rc; n = n->next) {
		const struct row *r = rows;

		while (r->name && strcmp(r->name, n->key))
			r++;
		rc = r->name ? epd_in_set(in, n, r, to) : epd_why(in->why,
		    EPD_EUSAGE, "%s:%d: unknown key %.64s", in->name, n->line,
		    n->key);
	}
	return rc;
}

static int
whole_number(const char *s, uint64_t most, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v > most)
		return -EINVAL;
	*out = v;
	return 0;
}

/* A number and k, M, G or T of 1000. */
static int
rate(const char *s, double *out)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	static const char units[] = "kMGT";
	const char *u;
	char *end;
	double v;

	if (!c)
		return -ENOMEM;
	v = strspn(s, "0123456789") ? strtod_l(s, &end, c) : -1;
	freelocale(c);
	if (!(v >= 0))
		return -EINVAL;
	u = *end ? strchr(units, *end) : NULL;
	for (; u && u >= units; u--)
		v *= 1000;
	if ((*end && (!strchr(units, *end) || end[1])) || !(v <= 1e15))
		return -EINVAL;
	*out = v;
	return 0;
}

static int
set_text(const struct row *row, const char *s, void *to, const char **wants)
{
	uint64_t v = 0;
	double d = 0;
	int rc = 0, i;

	switch (row->kind) {
	case K_BYTES:
		*wants = "bytes, such as 4096, 64K or 1M";
		return epd_scenario_bytes(s, to);
	case K_TIME:
		*wants = "a time, such as 10us or 2s";
		return epd_scenario_time(s, to);
	case K_NS:
		*wants = "a time, such as 10us or 2s";
		rc = epd_scenario_time(s, &v);
		*(double *)to = rc ? *(double *)to : (double)v;
		return rc;
	case K_RATE:
		*wants = "a number, such as 0.9, 800k or 50G";
		rc = rate(s, &d);
		if (!rc && row->n && d > (double)row->n)
			return -EINVAL;
		*(double *)to = rc ? *(double *)to : d;
		return rc;
	case K_BOOL: case K_FLAG:
		*wants = "true or false";
		i = !strcmp(s, "true");
		if (!i && strcmp(s, "false"))
			return -EINVAL;
		if (row->kind == K_BOOL)
			*(int *)to = i;
		else
			*(uint32_t *)to = (*(uint32_t *)to & ~(uint32_t)row->n) |
			    (i ? (uint32_t)row->n : 0);
		return 0;
	case K_NAME:
		*wants = "a name of at most 31 bytes";
		if (strlen(s) >= EPD_PLAN_NAME)
			return -EINVAL;
		strcpy(to, s);
		return 0;
	case K_PATTERN:
		*wants = "cpu, cuda, rocm, tpu or *";
		*(uint32_t *)to = epd_media_pattern(s);
		return *(uint32_t *)to ? 0 : -EINVAL;
	case K_ONE: case K_ONE_BIT:
		*wants = NULL;
		i = word_of(row, s);
		if (i < 0)
			return -EINVAL;
		if (row->kind == K_ONE)
			*(uint8_t *)to = (uint8_t)i;
		else
			*(uint32_t *)to = BIT(i);
		return 0;
	default:
		return -EINVAL;
	}
}

static int
set_number(const struct row *row, const char *s, void *to)
{
	const uint64_t holds = row->kind == K_U8 ? UINT8_MAX :
	    row->kind == K_U32 ? UINT32_MAX : INT64_MAX;
	uint64_t v;
	const int rc = whole_number(s, row->n ? row->n : holds, &v);

	if (rc)
		return rc;
	if (row->kind == K_U8)
		*(uint8_t *)to = (uint8_t)v;
	else if (row->kind == K_U32)
		*(uint32_t *)to = (uint32_t)v;
	else
		*(uint64_t *)to = v;
	return 0;
}

/* "cpu-cuda", as the bytes go; 0: none. */
static uint64_t
pair_of(const char *s)
{
	const char *dash = strchr(s, '-');
	char from[16] = "";
	unsigned f, t;

	if (!dash || (size_t)(dash - s) >= sizeof from)
		return 0;
	memcpy(from, s, (size_t)(dash - s));
	f = epd_medium_parse(from);
	t = epd_medium_parse(dash + 1);
	return f && t ? EPD_PAIR(f, t) : 0;
}

static int
set_list(struct in *in, const struct yaml_node *n, const struct row *row,
    void *to, char *base)
{
	const char *wants = row->kind == K_RAILS ? "a list of numbers to 63" :
	    row->kind == K_PAIRS ? "a list of pairs, such as cpu-cuda" :
	    row->kind == K_LIST ? "a list of backends, 16 at most" : NULL;
	uint64_t mask = 0, v;
	int count = 0;

	if (n->type != YAML_LIST)
		return wrong(in, n, row, wants);
	for (const struct yaml_node *c = n->child; c; c = c->next, count++) {
		int i = -1;

		if (c->type != YAML_VALUE || count == 64)
			return wrong(in, n, row, wants);
		v = 0;
		if (row->kind == K_RAILS) {
			if (!whole_number(c->text, 63, &v))
				v = UINT64_C(1) << v, i = 0;
		} else if (row->kind == K_PAIRS) {
			v = pair_of(c->text);
			i = v ? 0 : -1;
		} else if (row->kind == K_BITS) {
			i = word_of(row, c->text);
			v = i < 0 ? 0 : BIT(i);
		} else {
			i = (int)epd_backend_parse(c->text) - 1;
			if (count == EPD_PLAN_BACKENDS)
				i = -1;
			else
				((uint8_t *)to)[count] = (uint8_t)(i + 1);
		}
		if (i < 0 && row->kind == K_LIST && count < EPD_PLAN_BACKENDS)
			return epd_in_no_backend(in, c, c->text);
		if (i < 0)
			return wrong(in, n, row, wants);
		mask |= v;
	}
	if (row->kind == K_LIST)
		*(int *)(void *)(base + row->n) = count;
	else if (row->kind == K_BITS)
		*(uint32_t *)to = (uint32_t)mask;
	else
		*(uint64_t *)to = mask;
	return 0;
}

int
epd_in_set(struct in *in, const struct yaml_node *n, const struct row *row,
    void *base)
{
	void *to = (char *)base + row->at;
	const char *wants = "a whole number in its range";
	int rc;

	switch (row->kind) {
	case K_FN:
		return row->fn(in, n, to);
	case K_LIST: case K_BITS: case K_PAIRS: case K_RAILS:
		return set_list(in, n, row, to, base);
	default:
		break;
	}
	if (n->type != YAML_VALUE)
		return epd_in_fault(in, n, "a single value");
	rc = row->kind == K_U8 || row->kind == K_U32 || row->kind == K_U64 ?
	    set_number(row, n->text, to) : set_text(row, n->text, to, &wants);
	return rc == -EINVAL ? wrong(in, n, row, wants) : rc;
}
