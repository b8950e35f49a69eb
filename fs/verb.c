/*
 * verb.c - what a line of ctl does.  What a command of its own does is that command's
 * to understand: its options are handed on, and what is wrong with them is the
 * job's sentence.
 */
#include "fs/verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/dir.h"

/* ---- words ---- */

#define BLANK " \t"

/* The next word, cut out of the line; NULL behind the last. */
static char *
word(char **rest)
{
	char *w = *rest + strspn(*rest, BLANK);
	size_t n = strcspn(w, BLANK);

	if (!n)
		return NULL;
	*rest = w + n + (w[n] != '\0');
	w[n] = '\0';
	return w;
}

/* All that is left but the blanks around it. */
static char *
text(char *rest)
{
	size_t n;

	rest += strspn(rest, BLANK);
	for (n = strlen(rest); n && strchr(BLANK, rest[n - 1]); n--)
		;
	rest[n] = '\0';
	return rest;
}

static int
no_words(struct epd_fs_call *c)
{
	return epd_why(&c->why, -EINVAL, "takes no words");
}

static struct epd_ref
whom(const struct epd_fs_call *c)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE, .state = c->at->state };

	strcpy(ref.workflow, c->at->workflow);
	return ref;
}

/* ---- in process ---- */

static int
branch(struct epd_fs_call *c, struct epd_fork_request *f)
{
	const uint32_t version = f->from.version;
	char ref[EPD_REF_TEXT];
	struct epd_forked d;
	struct epd_fs_grip *g;
	int rc = epd_fs_grasp(c->fs->hands, &g, &c->why);

	if (rc < 0)
		return rc;
	f->from = whom(c);
	f->from.version = version;
	f->reason = "agent_branch";
	rc = epd_flow_fork(g->store, f, &d, &c->why);
	epd_fs_let_go(c->fs->hands, g);
	for (uint32_t i = 0; rc == 0 && i < f->branches; i++)
		epd_buf_fmt(&c->answer, "%s\n", epd_ref_format(ref,
		    c->at->workflow, d.first + i, 0));
	return rc;
}

/* Digits alone, of a number below 10^18. */
static int
is_number(const char *w, uint64_t *out)
{
	const size_t n = strspn(w, "0123456789");

	*out = strtoull(w, NULL, 10);
	return n && n <= 18 && !w[n];
}

/* A word of fork; each comes once.  many: how many was said. */
static int
fork_word(struct epd_fs_call *c, struct epd_fork_request *f, int *many,
    const char *w, char **rest)
{
	const char *seed;
	uint32_t n;

	if (!strcmp(w, "replace") && !f->replace) {
		f->replace = 1;
	} else if (!strcmp(w, "seed") && !f->has_seed) {
		seed = word(rest);
		f->has_seed = 1;
		if (!seed || !is_number(seed, &f->seed))
			return epd_why(&c->why, -EINVAL, "seed: which?");
	} else if (epd_fs_number(w, "", &n) == 0 && !*many) {
		f->branches = n;
		*many = 1;
	} else if (epd_fs_number(w, "@", &n) == 0 && n && !f->from.version) {
		f->from.version = n;
	} else {
		return epd_why(&c->why, -EINVAL, "'%.40s' is none of how many, "
		    "@VERSION, seed N and replace", w);
	}
	return 0;
}

static int
do_fork(struct epd_fs_call *c, char *rest)
{
	struct epd_fork_request f = { .branches = 1 };
	int rc = 0, many = 0;

	for (char *w; rc == 0 && (w = word(&rest));)
		rc = fork_word(c, &f, &many, w, &rest);
	return rc < 0 ? rc : branch(c, &f);
}

static int
do_rollback(struct epd_fs_call *c, char *rest)
{
	struct epd_fork_request f = { .branches = 1 };
	const char *v = text(rest);

	if (epd_fs_number(v + (*v == '@'), "", &f.from.version) < 0 ||
	    !f.from.version)
		return epd_why(&c->why, -EINVAL, "to which version?");
	return branch(c, &f);
}

static int
let_go_of(struct epd_fs_call *c, const char *reason,
    int (*verb)(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why))
{
	const struct epd_ref ref = whom(c);
	struct epd_fs_grip *g;
	int rc = epd_fs_is_idle(c->fs, c->at, &c->why);

	if (rc < 0 || (rc = epd_fs_grasp(c->fs->hands, &g, &c->why)) < 0)
		return rc;
	rc = verb(g->store, &ref, reason, &c->why);
	epd_fs_let_go(c->fs->hands, g);
	return rc;
}

static int
do_release(struct epd_fs_call *c, char *rest)
{
	rest = text(rest);
	return let_go_of(c, *rest ? rest : "by ctl", epd_flow_release);
}

static int
do_abort(struct epd_fs_call *c, char *rest)
{
	rest = text(rest);
	return *rest ? let_go_of(c, rest, epd_flow_abort) :
	    epd_why(&c->why, -EINVAL, "why?");
}

/* ---- jobs ---- */

static int
queue(struct epd_fs_call *c, const struct epd_fs_task *t)
{
	uint64_t n;
	int rc = epd_fs_job_put(c->fs->hands->jobs, t, &n, &c->why);

	if (rc == 0)
		epd_buf_fmt(&c->answer, "j%llu\n", (unsigned long long)n);
	return rc;
}

static void
put_word(struct epd_buf *b, const char *w)
{
	epd_buf_put(b, w, strlen(w) + 1);
}

/* Behind its options, so that it is none. */
static void
put_state(struct epd_buf *b, const struct epd_fs_at *at)
{
	char ref[EPD_REF_TEXT];

	put_word(b, "--");
	put_word(b, epd_ref_format(ref, at->workflow, at->state, 0));
}

static struct epd_span
bytes(const struct epd_buf *b)
{
	return epd_span(b->p, b->n);
}

static int
turn(struct epd_fs_call *c, const char *verb, struct epd_span what, int answer)
{
	struct epd_buf words = {0};
	struct epd_fs_task t = { .verb = verb, .at = c->at, .text = what };
	int rc;

	if (answer) {
		put_state(&words, c->at);
		t.command = "epd-decode";
		t.words = bytes(&words);
	}
	rc = words.failed ? -ENOMEM : queue(c, &t);
	epd_buf_free(&words);
	return rc;
}

int
epd_fs_turn(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_span what, struct epd_why *why)
{
	struct epd_fs_call c = { .fs = fs, .at = at };
	int rc = turn(&c, "say", what, 1);

	epd_buf_free(&c.answer);
	if (why)
		*why = c.why;
	return rc;
}

static int
do_say(struct epd_fs_call *c, char *rest)
{
	rest = text(rest);
	return *rest ? turn(c, "say", epd_span_str(rest), 1) :
	    epd_why(&c->why, -EINVAL, "what?");
}

static int
do_prefill(struct epd_fs_call *c, char *rest)
{
	rest = text(rest);
	return *rest ? turn(c, "prefill", epd_span_str(rest), 0) :
	    epd_why(&c->why, -EINVAL, "what?");
}

/* An option of a command, by the word it has here. */
struct option {
	const char *word, *option;	/* that ends in =: a value follows */
};

/* The option w, its value behind it, to words; 0: it is none. */
static int
put_option(struct epd_fs_call *c, const struct option *o, const char *w,
    char **rest, struct epd_buf *words)
{
	const char *value = "";

	while (o->word && strcmp(o->word, w))
		o++;
	if (!o->word)
		return 0;
	if (strchr(o->option, '=') && !(value = word(rest)))
		return epd_why(&c->why, -EINVAL, "%s: a value is missing", w);
	epd_buf_str(words, o->option);
	put_word(words, value);
	return 1;
}

static int
do_decode(struct epd_fs_call *c, char *rest)
{
	static const struct option options[] = {
		{ "n", "--predict=" }, { "temp", "--temp=" },
		{ "top-k", "--top-k=" }, { "top-p", "--top-p=" },
		{ "repeat-penalty", "--repeat-penalty=" },
		{ "seed", "--seed=" }, { "stop", "--stop=" },
		{ "ignore-eos", "--ignore-eos" }, { NULL, NULL },
	};
	struct epd_buf words = {0};
	struct epd_fs_task t = {
		.verb = "decode", .at = c->at, .command = "epd-decode",
	};
	int rc = 1;

	for (char *w; rc > 0 && (w = word(&rest));)
		if ((rc = put_option(c, options, w, &rest, &words)) == 0)
			rc = epd_why(&c->why, -EINVAL, "'%.40s' is none of n, "
			    "temp, top-k, top-p, repeat-penalty, seed, stop, "
			    "ignore-eos", w);
	put_state(&words, c->at);
	t.words = bytes(&words);
	if (rc > 0)
		rc = words.failed ? -ENOMEM : queue(c, &t);
	epd_buf_free(&words);
	return rc;
}

static int
do_handoff(struct epd_fs_call *c, char *rest)
{
	static const struct option options[] = {
		{ "to", "--to=" }, { "timeout", "--timeout=" },
		{ NULL, NULL },
	};
	struct epd_buf words = {0};
	struct epd_fs_task t = {
		.verb = "handoff", .at = c->at, .command = "epd-handoff",
	};
	const char *workflow = NULL;
	int rc = 1;

	for (char *w; rc > 0 && (w = word(&rest));)
		if (!strcmp(w, "to") && *text(rest) != '/') {
			rc = epd_why(&c->why, -EINVAL, "to which store? "
			    "An absolute path");
		} else if ((rc = put_option(c, options, w, &rest,
		    &words)) == 0) {
			rc = workflow ? epd_why(&c->why, -EINVAL, "one "
			    "workflow, no more") : 1;
			workflow = w;
		}
	put_state(&words, c->at);
	if (workflow)
		put_word(&words, workflow);
	t.words = bytes(&words);
	if (rc > 0)
		rc = words.failed ? -ENOMEM : queue(c, &t);
	epd_buf_free(&words);
	return rc;
}

/* A command with options and the state, queued. */
static int
move(struct epd_fs_call *c, const char *verb, const char *command,
    struct epd_buf *words)
{
	struct epd_fs_task t = { .verb = verb, .at = c->at,
		.command = command };
	int rc;

	put_state(words, c->at);
	t.words = bytes(words);
	rc = words->failed ? -ENOMEM : queue(c, &t);
	epd_buf_free(words);
	return rc;
}

/* Whether there is such a tier here: else no job is begun. */
static int
takes_states(struct epd_fs_call *c, const char *tier)
{
	const struct epd_config *o = &c->fs->store->config;

	switch (epd_tier_parse(tier)) {
	case EPD_TIER_NONE:
		return epd_why(&c->why, -EINVAL, "'%.40s' is none of cpu, nvme, "
		    "mooncake_store", tier);
	case EPD_TIER_CPU: case EPD_TIER_NVME:
		return 0;
	case EPD_TIER_MOONCAKE:
		if (*o->tier_mooncake_url || *o->tier_mooncake_master)
			return 0;
		break;
	default:
		break;
	}
	return epd_why(&c->why, EPD_EUNSUPPORTED, "there is no tier %s here",
	    tier);
}

static int
do_offload(struct epd_fs_call *c, char *rest)
{
	struct epd_buf words = {0};
	const char *tier = text(rest);
	int rc = *tier ? takes_states(c, tier) : 0;

	if (rc < 0)
		return rc;
	if (*tier) {
		epd_buf_str(&words, "--tier=");
		put_word(&words, tier);
	}
	return move(c, "offload", "epd-offload", &words);
}

static int
do_restore(struct epd_fs_call *c, char *rest)
{
	static const struct option options[] = {
		{ "pages", "--pages=" }, { NULL, NULL },
	};
	struct epd_buf words = {0};
	const char *w = word(&rest);
	int rc = w ? put_option(c, options, w, &rest, &words) : 1;

	if (rc == 0 || (rc > 0 && *text(rest)))
		rc = epd_why(&c->why, -EINVAL, "pages LIST, or nothing");
	if (rc < 0)
		epd_buf_free(&words);
	return rc < 0 ? rc : move(c, "restore", "epd-restore", &words);
}

int
epd_fs_rest(struct epd_fs_call *c, char *line)
{
	const char *tier = text(line);
	int rc = *tier ? epd_fs_stands(c->fs, c->at) : 0;
	char none[] = "";

	if (rc < 0 || !*tier)
		return rc;
	if (!strcmp(tier, "memory") || !strcmp(tier, "ACTIVE"))
		rc = do_restore(c, none);
	else
		rc = do_offload(c, line);
	if (rc == -EINVAL)
		epd_why(&c->why, rc, "'%.40s' is none of memory, cpu, nvme, "
		    "mooncake_store", tier);
	return rc < 0 || !c->answer.failed ? rc : -ENOMEM;
}

static int
do_jobs(struct epd_fs_call *c, char *rest)
{
	struct epd_fs_job job = {0};

	if (*text(rest))
		return no_words(c);
	while (epd_fs_job_next(c->fs->hands->jobs, c->at, job.number,
	    &job) == 0)
		epd_fs_job_line(&job, 1, &c->answer);
	return 0;
}

/* A job of this state, by its name. */
static int
find_job(struct epd_fs_call *c, char *rest, struct epd_fs_job *out)
{
	const char *name = text(rest);
	uint32_t n;

	if (epd_fs_number(name, "j", &n) < 0)
		return epd_why(&c->why, -EINVAL, *name ? "'%.40s' is no name "
		    "of a job" : "which job?", name);
	if (!n || epd_fs_job_next(c->fs->hands->jobs, c->at, n - 1, out) < 0 ||
	    out->number != n)
		return epd_why(&c->why, -ENOENT, "j%u: no job of this state",
		    n);
	return 0;
}

static int
do_wait(struct epd_fs_call *c, char *rest)
{
	struct epd_fs_job job = {0};
	uint64_t last = 0;

	rest = text(rest);
	if (*rest) {
		int rc = find_job(c, rest, &job);

		if (rc == 0)
			epd_buf_put(&c->wait, &job.number, sizeof job.number);
		return rc;
	}
	while (epd_fs_job_next(c->fs->hands->jobs, c->at, job.number,
	    &job) == 0) {
		last = job.number;
		if (!job.told)
			epd_buf_put(&c->wait, &last, sizeof last);
	}
	/* Who waits a moment late is told all the same. */
	if (last && !c->wait.n)
		epd_buf_put(&c->wait, &last, sizeof last);
	return 0;
}

static int
do_cancel(struct epd_fs_call *c, char *rest)
{
	struct epd_fs_job job;
	int rc = find_job(c, rest, &job);

	if (rc == 0)
		rc = epd_fs_job_cancel(c->fs->hands->jobs, job.number);
	return rc == -ESRCH ? epd_why(&c->why, rc, "j%llu is over",
	    (unsigned long long)job.number) : rc;
}

/* ---- the table ---- */

static int do_help(struct epd_fs_call *c, char *rest);

enum {
	ALWAYS = 1,		/* though the state is there no more */
	LOCKS			/* it waits for the log's lock */
};
static const struct verb {
	const char *name, *takes, *does;
	int (*fn)(struct epd_fs_call *c, char *rest);
	int how;
} verbs[] = {
	{ "fork", "[N] [@V] [seed N] [replace]",
	    "branches of it; their names", do_fork, LOCKS },
	{ "rollback", "V", "a branch that begins at version V", do_rollback,
	    LOCKS },
	{ "say", "TEXT", "a user's turn and its answer (a job)", do_say, 0 },
	{ "prefill", "TEXT", "a user's turn (a job)", do_prefill, 0 },
	{ "decode", "[n N] [temp X] [top-k N] [top-p X] [repeat-penalty X] "
	    "[seed N] [stop WORD] [ignore-eos]", "an answer (a job)",
	    do_decode, 0 },
	{ "handoff", "[WORKFLOW] [to STORE] [timeout TIME]",
	    "to another workflow, a new one if none is named (a job)",
	    do_handoff, 0 },
	{ "jobs", "", "what was asked of this state, and how it went",
	    do_jobs, ALWAYS },
	{ "wait", "[JOB]", "answers when the job is over, or all are that no "
	    "wait was told of",
	    do_wait, ALWAYS },
	{ "cancel", "JOB", "ends it; what was drawn is kept", do_cancel,
	    ALWAYS },
	{ "abort", "REASON", "nothing goes on from it", do_abort, LOCKS },
	{ "release", "[REASON]", "it ends", do_release, LOCKS },
	{ "offload", "[TIER]", "to rest in a tier: cpu, nvme, mooncake_store "
	    "(a job)", do_offload, 0 },
	{ "restore", "[pages LIST]", "back into memory (a job)", do_restore,
	    0 },
	{ "help", "", "this", do_help, ALWAYS },
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static int
do_help(struct epd_fs_call *c, char *rest)
{
	if (*text(rest))
		return no_words(c);
	for (int i = 0; i < VERBS; i++)
		epd_buf_fmt(&c->answer, "%s%s%s: %s\n", verbs[i].name,
		    *verbs[i].takes ? " " : "", verbs[i].takes, verbs[i].does);
	return 0;
}

int
epd_fs_verb_locks(const char *line, size_t n)
{
	size_t at = 0, len;

	while (at < n && strchr(BLANK, line[at]))
		at++;
	for (len = 0; at + len < n && !strchr(BLANK, line[at + len]);)
		len++;
	for (const struct verb *v = verbs; v < verbs + VERBS; v++)
		if (v->how == LOCKS && strlen(v->name) == len &&
		    !memcmp(v->name, line + at, len))
			return 1;
	return 0;
}

int
epd_fs_verb(struct epd_fs_call *c, char *line)
{
	const char *name = word(&line);
	const struct verb *v = verbs;
	struct epd_why said;
	int rc = 0;

	if (!name)
		return 0;
	while (v < verbs + VERBS && strcmp(v->name, name))
		v++;
	if (v == verbs + VERBS)
		return epd_why(&c->why, -EINVAL, "%.40s: no such verb; help "
		    "lists them", name);
	if (v->how != ALWAYS)
		rc = epd_fs_stands(c->fs, c->at);
	if (rc == 0)
		rc = v->fn(c, line);
	if (rc == 0 && (c->answer.failed || c->wait.failed))
		rc = -ENOMEM;
	if (rc < 0) {
		said = c->why;
		epd_why(&c->why, rc, "%s: %.200s", name, *said.text ?
		    said.text : epd_strerror(rc));
	}
	return rc;
}
