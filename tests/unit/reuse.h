/*
 * reuse.h - for tests of reuse: texts that begin alike, what two states have in
 * common, and states compared with an independent computation of their tokens.
 */
#ifndef TESTS_REUSE_H
#define TESTS_REUSE_H

#include <sys/stat.h>

#include "tests/unit/flow.h"

/* Raw text with pictures to a new state of the kit's workflow, or onto one. */
static inline int
raw(struct kit *k, uint32_t state, const char *text, const char *const *paths,
    struct epd_prefilled *out)
{
	struct epd_request_image im[KIT_STATES];
	const struct epd_prefill p = {
		.kind = EPD_PROMPT_RAW, .text = epd_span_str(text),
		.images = im, .nimages = kit_images(im, paths),
		.workflow = k->workflow, .state = state,
		.reuse = kit_reuse(k),
	};
	int rc = epd_flow_prefill(k->se, &p, out, kit_why(k));

	if (rc < 0)
		printf("# %s\n", k->why.text);
	return rc;
}

/* So many words that are always these, then `more` that are others for others. */
static inline const char *
words(int same, int which, int more)
{
	static char text[4][2000];
	static int at;
	char *p = text[at++ % 4];
	size_t n = 0;

	for (int i = 0; i < same + more; i++)
		n += (size_t)snprintf(p + n, sizeof *text - n, "%c%d ",
		    i < same ? 'a' : 'g' + which % 20, (i * 7919 +
		    (i < same ? 0 : which * 101)) % 97);
	return p;
}

/* A state that is computed whatever there is. */
static inline void
alone(struct kit *k, const char *text, const char *const *paths,
    struct epd_prefilled *out)
{
	const int was = k->alone;

	k->alone = 1;
	if (raw(k, 0, text, paths, out) < 0)
		golden_die("alone", k->why.text);
	k->alone = was;
}

static inline uint32_t
in(struct kit *k, const char *workflow)
{
	k->workflow = workflow;
	return 0;
}

/* Tokens that two begin with alike, by the log. */
static inline uint64_t
common(const struct kit_log *a, const struct kit_log *b)
{
	uint64_t n = 0;
	uint32_t i = 0;

	while (n < a->n && n < b->n && a->ids[n] == b->ids[n])
		n++;
	while (i < a->nimages && i < b->nimages &&
	    a->image[i].at == b->image[i].at &&
	    epd_name_equal(&a->image[i].fp, &b->image[i].fp))
		i++;
	if (i < a->nimages && a->image[i].at < n)
		n = a->image[i].at;
	if (i < b->nimages && b->image[i].at < n)
		n = b->image[i].at;
	return n;
}

/* What b may have of a's pages: to the token, or whole ones. */
static inline uint64_t
hoped(const struct kit_log *a, const struct kit_log *b, int whole)
{
	uint64_t n = common(a, b);

	n = n < a->n - 1 ? n : a->n - 1;
	n = n < b->n - 1 ? n : b->n - 1;
	return whole || n < 16 ? n / 16 * 16 : n;
}

/* Whether a state's pages, in file and in log, are those of its tokens. */
static inline int
right(struct kit *k, uint32_t state)
{
	struct kit_log l = kit_read(k, state, 0);
	int ok = kit_recount(k, &l) && kit_replay(k, &l);

	kit_log_free(&l);
	return ok;
}

/* Whether two states of the kit's workflow have the same tokens and pages. */
static inline int
same(struct kit *k, uint32_t a, uint32_t b)
{
	struct kit_log x = kit_read(k, a, 0), y = kit_read(k, b, 0);
	int ok = kit_hash_tokens(&x) == kit_hash_tokens(&y) &&
	    kit_hash_pages(&x) == kit_hash_pages(&y);

	kit_log_free(&x);
	kit_log_free(&y);
	return ok;
}

/* Names that the file of page i has. */
static inline unsigned
links(struct kit *k, uint32_t state, long i)
{
	struct kit_log l = kit_read(k, state, 0);
	char name[EPD_RUN_NAME];
	struct epd_workflow w;
	struct stat st;
	int rc;

	if (epd_workflow_open(&w, k->s, k->workflow, 1, kit_why(k)) < 0)
		golden_die("workflow", k->why.text);
	epd_run_format(name, l.run[i]);
	rc = fstatat(w.runs, name, &st, AT_SYMLINK_NOFOLLOW);
	epd_workflow_close(&w);
	kit_log_free(&l);
	return rc ? 0 : (unsigned)st.st_nlink;
}

static inline int
release(struct kit *k, uint32_t state)
{
	struct epd_ref ref = kit_ref(state);

	snprintf(ref.workflow, sizeof ref.workflow, "%s", k->workflow);
	return epd_flow_release(k->s, &ref, "", kit_why(k));
}

struct weights {
	uint64_t private, shared, proportional;
};

static inline int
weigh(void *arg, const struct epd_state_line *l)
{
	struct weights *w = arg;

	w->private += l->private_bytes;
	w->shared += l->shared_bytes;
	w->proportional += l->proportional_bytes;
	return 0;
}

/* Whether the states' shares are what the tier holds, but for its index. */
static inline int
balanced(struct kit *k)
{
	struct weights w = { .private = 0 };
	uint64_t used = 0, index = epd_index_bytes(k->s->memory);
	int rc = epd_view_states(k->s, NULL, weigh, &w, kit_why(k));

	if (rc == 0)
		rc = epd_memory_used(k->s->memory, &used);
	if (rc < 0 || used - index != w.proportional)
		printf("# rc %d: %llu bytes used, %llu of the index, shares "
		    "%llu\n", rc, (unsigned long long)used,
		    (unsigned long long)index,
		    (unsigned long long)w.proportional);
	return rc == 0 && used - index == w.proportional;
}

#endif
