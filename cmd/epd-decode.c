/* epd-decode.c - let states speak: bare text as it comes, one batch of several. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/cli.h"
#include "cmd/nodes.h"

enum {
	TEMP = CLI_OWN, TOP_K, TOP_P, PENALTY, LOGPROBS, STOP, IGNORE_EOS
};
enum { STOPS = 64 };

static void set(void *arg, int key, const char *value);

static const struct cli_option options[] = {
	{ 'n', "predict", "N", "tokens to draw, -1: to the end (default)" },
	{ TEMP, "temp", "X", "temperature, 0: the most probable token" },
	{ TOP_K, "top-k", "N", "draw among the N most probable, 0: all" },
	{ TOP_P, "top-p", "X", "draw among those that make up X" },
	{ PENALTY, "repeat-penalty", "X", "divide what was said by X, 1: off" },
	{ 's', "seed", "N", "the same seed draws the same text (default 0); "
	    "or: random" },
	{ STOP, "stop", "TEXT", "end before TEXT; may be repeated" },
	{ IGNORE_EOS, "ignore-eos", NULL, "go on past the end mark" },
	{ LOGPROBS, "logprobs", "N", "with -j: the N most probable, up to 20" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-m DIR] [-t N] [-w NAME] [-n N] [--temp X] [--top-k N] "
	    "[--top-p X] [--repeat-penalty X] [-s SEED] [--stop TEXT] "
	    "[--ignore-eos] [--logprobs N] STATE ... | -",
	NULL
};

static const struct cli_command command = {
	.name = "epd-decode",
	.usage = usage,
	.about = "Draw tokens from one or more states and write their text as "
	    "it comes. Several states run as one batch, and their whole texts "
	    "follow in order, each under a line that names it. With - states "
	    "are read from standard input, one a line. What is not said about "
	    "sampling is as the checkpoint has it.",
	.options = options,
	.common = "mwtjvqSCTI",
	.set = set,
};

/* One operand that is a state, and what has come of it. */
struct voice {
	struct epd_ref ref;
	char name[EPD_REF_TEXT];
	char *model;
	struct epd_buf text;
	int spoke, ended, failed;
};

struct decode {
	struct cli cli;
	struct epd_decode d;
	const char *stop[STOPS];
	struct voice *voice;
	int voices, shown, many;	/* many: several operands, so headings */
	int *group;			/* which of the batch -> voice */
	int ends;
	uint64_t from;
	struct epd_session *session;
};

static void
set(void *arg, int key, const char *value)
{
	struct decode *x = arg;
	struct epd_decode *d = &x->d;
	struct epd_sampler *s = &d->sampler;
	struct cli *c = &x->cli;

	switch (key) {
	case 'n': d->most = cli_int(c, "-n", value, -1, INT32_MAX); break;
	case TEMP:
		d->has_temp = 1;
		s->temp = (float)cli_real(c, "--temp", value, 0, 100);
		break;
	case TOP_K:
		d->has_top_k = 1;
		s->top_k = (int32_t)cli_int(c, "--top-k", value, 0, INT32_MAX);
		break;
	case TOP_P:
		d->has_top_p = 1;
		s->top_p = (float)cli_real(c, "--top-p", value, 0, 1);
		break;
	case PENALTY:
		d->has_penalty = 1;
		s->penalty = (float)cli_real(c, "--repeat-penalty", value,
		    0.01, 100);
		break;
	case 's':
		if (strcmp(value, "random") != 0)
			s->seed = (uint64_t)cli_int(c, "-s", value, 0,
			    INT64_MAX);
		else if (getrandom(&s->seed, sizeof s->seed, 0) < 0)
			cli_usage(c, "-s random: no randomness to be had");
		else
			s->seed >>= 11;	/* what a double has whole */
		break;
	case STOP:
		if (!*value || d->nstop == STOPS)
			cli_usage(c, !*value ? "--stop: an empty text" :
			    "more than %d of --stop", STOPS);
		x->stop[d->nstop++] = value;
		break;
	case IGNORE_EOS: d->ignore_eos = 1; break;
	case LOGPROBS:
		d->logprobs = (int)cli_int(c, "--logprobs", value, 0, 20);
		break;
	}
}

static const char *
finish_name(enum epd_finish f)
{
	static const char *const name[] = {
		[EPD_FINISH_NONE] = "none", [EPD_FINISH_EOS] = "eos",
		[EPD_FINISH_STOP] = "stop", [EPD_FINISH_LENGTH] = "length",
		[EPD_FINISH_INTERRUPT] = "interrupt",
	};

	return (size_t)f < sizeof name / sizeof *name && name[f] ? name[f] :
	    "none";
}

/* ---- as JSON ---- */

static void
token_json(struct decode *x, const struct voice *v,
    const struct epd_token_event *e)
{
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_str(&w, "state", v->name);
	epd_jw_uint(&w, "index", e->index);
	epd_jw_int(&w, "id", e->id);
	epd_jw_bytes(&w, "text", e->text);
	epd_jw_real(&w, "logprob", e->logprob);
	if (x->d.logprobs) {
		epd_jw_begin(&w, "top", '[');
		for (int i = 0; i < e->ntop; i++) {
			epd_jw_begin(&w, NULL, '{');
			epd_jw_int(&w, "id", e->top[i].id);
			epd_jw_bytes(&w, "text", epd_tokenizer_bytes(
			    x->session->tokens, e->top[i].id));
			epd_jw_real(&w, "logprob", e->top[i].logprob);
			epd_jw_end(&w, '}');
		}
		epd_jw_end(&w, ']');
	}
	cli_object_end(&x->cli, &w);
	epd_buf_free(&b);
}

static void
end_json(struct decode *x, const struct voice *v, const struct epd_decode_end *e)
{
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_str(&w, "state", v->name);
	epd_jw_uint(&w, "version", e->version);
	epd_jw_str(&w, "finish", finish_name(e->finish));
	epd_jw_uint(&w, "tokens", e->tokens);
	epd_jw_uint(&w, "reused", e->found);
	epd_jw_uint(&w, "computed", e->computed);
	epd_jw_uint(&w, "drawn", e->fresh);
	epd_jw_uint(&w, "lost_pages", e->lost);
	epd_jw_bytes(&w, "text", epd_span(v->text.p, v->text.n));
	cli_object_end(&x->cli, &w);
	epd_buf_free(&b);
}

/* ---- as text ---- */

static int
plain(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !isatty(1) || (no && *no) || !term || !strcmp(term, "dumb");
}

/* Whole texts go out in the order of the operands, as soon as they may. */
static void
show(struct decode *x)
{
	struct cli *c = &x->cli;
	static int before;

	while (x->shown < x->voices && x->voice[x->shown].ended) {
		struct voice *v = &x->voice[x->shown++];
		struct epd_buf b = {0};

		if (v->failed)
			continue;
		epd_buf_fmt(&b, "%s%s==> %s <==%s\n", before++ ? "\n" : "",
		    plain() ? "" : "\033[1m", v->name,
		    plain() ? "" : "\033[0m");
		cli_out(c, epd_span(b.p, b.n));
		cli_text(c, epd_span(v->text.p, v->text.n));
		cli_line(c, "");
		cli_flush(c);
		epd_buf_free(&b);
	}
}

static int
speak(struct decode *x, struct voice *v, struct epd_span text)
{
	struct cli *c = &x->cli;

	v->spoke = 1;
	if (x->many || c->json)
		epd_buf_put(&v->text, text.p, text.n);
	else if (text.n && (cli_text(c, text) < 0 || cli_flush(c) < 0))
		return -1;
	return v->text.failed ? -1 : 0;
}

/* ---- what the batch says ---- */

static int
token(void *arg, const struct epd_token_event *e)
{
	struct decode *x = arg;
	struct voice *v = &x->voice[x->group[e->which]];
	int rc = speak(x, v, e->text);

	if (x->cli.json)
		token_json(x, v, e);
	return rc < 0 || x->cli.out_failed;
}

static void
explain(struct decode *x, const struct voice *v,
    const struct epd_decode_end *e)
{
	double s = (double)(epd_clock_boot_ns() - x->from) / 1e9;
	char reused[CLI_COUNT], tokens[CLI_COUNT], computed[CLI_COUNT],
	    drawn[CLI_COUNT];

	cli_say(&x->cli, "%s@%u: reused %s of %s token%s, %s computed, "
	    "%s drawn, %s, %.1f tokens/s", v->name, e->version,
	    cli_count(reused, e->found), cli_count(tokens, e->tokens),
	    e->tokens == 1 ? "" : "s", cli_count(computed, e->computed),
	    cli_count(drawn, e->fresh), finish_name(e->finish),
	    s > 0 ? (double)e->fresh / s : 0.0);
	if (e->lost)
		cli_say(&x->cli, "%s: %llu page%s had been lost and %s "
		    "computed again", v->name, (unsigned long long)e->lost,
		    e->lost == 1 ? "" : "s", e->lost == 1 ? "was" : "were");
}

static void
end(void *arg, const struct epd_decode_end *e)
{
	struct decode *x = arg;
	struct voice *v = &x->voice[x->group[e->which]];
	struct cli *c = &x->cli;

	x->ends++;
	v->ended = 1;
	v->failed = e->rc < 0;
	if (e->rc == 0)
		speak(x, v, e->text);
	if (!x->many && !c->json && (e->rc == 0 || v->spoke)) {
		cli_line(c, "");
		cli_flush(c);
	}
	if (e->rc < 0) {
		cli_fail(c, v->name, e->rc, &e->why);
	} else {
		if (c->json)
			end_json(x, v, e);
		if (c->verbose)
			explain(x, v, e);
	}
	if (x->many && !c->json)
		show(x);
}

/* ---- the batches: one a model ---- */

static void
batch(struct decode *x, struct epd_store *s, const char *model)
{
	struct epd_ref *refs = calloc((size_t)x->voices, sizeof *refs);
	struct cli *c = &x->cli;
	struct epd_why why = {0};
	int n = 0, rc = refs ? 0 : -ENOMEM;

	for (int i = 0; rc == 0 && i < x->voices; i++) {
		if (x->voice[i].ended || (x->voice[i].model &&
		    strcmp(x->voice[i].model, model) != 0))
			continue;
		x->group[n] = i;
		refs[n++] = x->voice[i].ref;
	}
	x->session = NULL;
	x->ends = 0;
	x->d.states = refs;
	x->d.n = n;
	if (rc == 0)
		rc = cli_session(c, s, model, refs, n, &x->session, &why);
	x->from = epd_clock_boot_ns();
	if (rc == 0)
		rc = epd_flow_decode(x->session, &x->d, &why);
	if (rc < 0 && (!refs || x->ends < n))
		cli_fail(c, n == 1 ? x->voice[x->group[0]].name : NULL, rc,
		    &why);
	for (int i = 0; i < n; i++) {
		struct voice *v = &x->voice[x->group[i]];

		v->failed |= !v->ended;
		v->ended = 1;
	}
	epd_session_close(x->session);
	free(refs);
}

static void
run(struct decode *x, struct epd_store *s)
{
	struct cli *c = &x->cli;

	for (int i = 0; i < x->voices; i++) {
		struct voice *v = &x->voice[i];

		if (v->ended || c->out_failed || *x->d.interrupt)
			continue;
		batch(x, s, c->model ? c->model : v->model);
	}
}

/* ---- operands ---- */

static int
given(const struct decode *x, const struct epd_ref *ref)
{
	for (int i = 0; i < x->voices; i++)
		if (x->voice[i].ref.state == ref->state &&
		    !strcmp(x->voice[i].ref.workflow, ref->workflow))
			return 1;
	return 0;
}

/* A version that is not there yet, as against one that is past. */
static int
check_version(struct epd_store *s, const struct epd_ref *ref,
    struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_state st;
	int rc = epd_workflow_open(&w, s, ref->workflow, 1, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_state(w.shard, ref->state, &st);
	epd_workflow_close(&w);
	if (rc == 0 && ref->version > st.versions)
		rc = epd_why(why, EPD_ENOSTATE, "no such version");
	return rc;
}

static void
listen(struct decode *x, struct epd_store *s, char **operand, int n)
{
	struct cli *c = &x->cli;

	x->voice = cli_keep(c, calloc((size_t)n, sizeof *x->voice));
	x->group = cli_keep(c, calloc((size_t)n, sizeof *x->group));
	for (int i = 0; i < n; i++) {
		struct epd_why why = {0};
		struct voice v = {0};
		int rc = cli_state(c, s, operand[i], &v.ref, &why);

		if (rc == 0 && given(x, &v.ref))
			rc = epd_why(&why, EPD_EUSAGE, "given twice");
		if (rc == 0 && v.ref.version)
			rc = check_version(s, &v.ref, &why);
		if (rc == 0 && !c->model)
			rc = epd_flow_model_of(s, &v.ref, &v.model, &why);
		if (rc < 0) {
			cli_fail(c, operand[i], rc, &why);
			continue;
		}
		epd_ref_format(v.name, v.ref.workflow, v.ref.state, 0);
		x->voice[x->voices++] = v;
	}
}

/* While the model is opened the pages of what rests come. */
static struct epd_ahead *
prefetch(struct decode *x, struct epd_store *s)
{
	struct epd_ref *ref = calloc((size_t)x->voices + 1, sizeof *ref);
	struct epd_store_options o;
	struct epd_ahead *a;

	if (!ref)
		return NULL;
	for (int i = 0; i < x->voices; i++)
		ref[i] = x->voice[i].ref;
	cli_store_options(&x->cli, &o);
	a = epd_ahead_begin(s, &o, ref, x->voices);
	free(ref);
	return a;
}

int
main(int argc, char **argv)
{
	static struct decode x;
	struct cli *c = &x.cli;
	struct epd_ahead *ahead;
	struct epd_store *s;
	int first, n;
	char **operand;

	x.d = (struct epd_decode){
		.most = -1, .stop = x.stop, .token = token, .end = end,
		.arg = &x, .sampler = { .top_p = 1, .penalty = 1 },
	};
	first = cli_begin(c, &command, &x, argc, argv);
	if (x.d.logprobs && !c->json)
		cli_usage(c, "--logprobs is seen with -j only");
	operand = cli_operands(c, argc, argv, first, &n);
	if (n == 0)
		cli_usage(c, "no state");
	x.many = n > 1;
	x.d.interrupt = cli_catch();
	cli_nodes(c);
	s = cli_store(c, 0);
	listen(&x, s, operand, n);
	if (c->verbose && x.d.has_temp && x.d.sampler.temp > 0)
		cli_say(c, "%s: seed %llu", command.name,
		    (unsigned long long)x.d.sampler.seed);
	ahead = prefetch(&x, s);
	run(&x, s);
	epd_ahead_end(ahead);
	for (int i = 0; i < x.voices; i++) {
		epd_buf_free(&x.voice[i].text);
		epd_free(x.voice[i].model);
	}
	epd_store_close(s);
	n = cli_end(c);
	return *x.d.interrupt ? 128 + *x.d.interrupt : n;
}
