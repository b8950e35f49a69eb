/* epd-prefill.c - text and images to a new state, or onto one: prints w1/s1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmd/nodes.h"
#include "cmd/prompt.h"

enum {
	ROLE = CLI_OWN, SYSTEM, MESSAGES, TOOLS, RAW, CONTINUE, VISION_ID,
	NO_GENERATION, TTL, KEY, EXPECT, REUSE
};
enum { PIECES = 1024 };

static const struct cli_option options[] = {
	{ 'p', "prompt", "TEXT", "text of the turn" },
	{ 'f', "file", "FILE", "text from a file, its last line break left out" },
	{ 'i', "image", "IMAGE", "a picture, or f:HEX; -p, -f and -i may repeat "
	    "and keep their order" },
	{ SYSTEM, "system", "TEXT", "a system turn before it" },
	{ ROLE, "role", "ROLE", "whose turn: user, assistant, tool, system" },
	{ MESSAGES, "messages", "FILE", "a whole chat as JSON; its images lie "
	    "beneath the file's folder" },
	{ TOOLS, "tools", "FILE", "tools the model may call, as JSON" },
	{ RAW, "raw", NULL, "no chat template: text and special tokens as they "
	    "stand" },
	{ CONTINUE, "continue", NULL, "go on in the open turn" },
	{ VISION_ID, "vision-id", NULL, "number the pictures: Picture 1: ..." },
	{ NO_GENERATION, "no-generation", NULL, "do not open the assistant's "
	    "turn" },
	{ REUSE, "reuse", "POLICY", "none: compute all; exact_prefix: take up "
	    "pages that any state of the store has (default)" },
	{ TTL, "ttl", "TIME", "life of a new state: 90s, 15m, 2h, 1d" },
	{ EXPECT, "expect", "V", "fail unless the state is at this version" },
	{ KEY, "key", "N", "onto a state: the same key again gives the same "
	    "version" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-m DIR] [-t N] [-w NAME] [-p TEXT] [-f FILE] [-i IMAGE] ... "
	    "[--system TEXT] [--role ROLE] [--tools FILE] [--raw] [--continue] "
	    "[--vision-id] [--no-generation] [--reuse POLICY] [--ttl TIME] "
	    "[--expect V] [--key N] [REF ... | IMAGE ... | -]",
	"[-jqv] --messages FILE [OPTION ...] [REF ... | IMAGE ... | -]",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-prefill",
	.usage = usage,
	.about = "Run text and pictures through the model and print the state "
	    "that holds them. REF is a feature (f:HEX), which like a picture "
	    "comes before the text, or one state (w1/s3) to go on from. With - "
	    "they are read from standard input, one a line.",
	.options = options,
	.common = "mwtjvqSCTI",
	.set = set,
};

struct request {
	struct cli cli;
	struct prompt_piece piece[PIECES];
	int pieces, texts;
	const char *system, *role, *messages, *tools;
	int raw, cont, vision_id, no_generation;
	enum epd_reuse_policy reuse;
	uint64_t ttl, key;
	uint32_t expect;
	struct epd_ref state;		/* state 0: a new one */
	struct prompt_images images;
	volatile sig_atomic_t *caught;
};

static void
add(struct request *r, int key, const char *value)
{
	if (r->pieces == PIECES)
		cli_usage(&r->cli, "more than %d of -p, -f and -i", PIECES);
	if (!strcmp(value, "-") && key != 'p')
		cli_usage(&r->cli, "-%c -: only an operand - reads standard "
		    "input%s", key, key == 'f' ? "; its name is /dev/stdin" :
		    "");
	r->texts += key != 'i';
	r->piece[r->pieces++] = (struct prompt_piece){ key, value };
}

static const char *
json_file(struct request *r, const char *option, const char *value)
{
	if (!strcmp(value, "-"))
		cli_usage(&r->cli, "%s -: only an operand - reads standard "
		    "input; its name is /dev/stdin", option);
	return value;
}

static enum epd_reuse_policy
reuse(struct cli *c, const char *value)
{
	if (!strcmp(value, "none"))
		return EPD_REUSE_NONE;
	if (!strcmp(value, "exact_prefix"))
		return EPD_REUSE_EXACT_PREFIX;
	cli_usage(c, "--reuse: '%.40s' is not none or exact_prefix", value);
}

static const char *
role(struct cli *c, const char *value)
{
	static const char *const all[] = { "user", "assistant", "tool",
	    "system" };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(value, all[i]))
			return value;
	cli_usage(c, "--role: '%.40s' is not user, assistant, tool or system",
	    value);
}

static void
set(void *arg, int key, const char *value)
{
	struct request *r = arg;
	struct cli *c = &r->cli;

	switch (key) {
	case 'p':
	case 'f':
	case 'i': add(r, key, value); break;
	case SYSTEM: r->system = value; break;
	case ROLE: r->role = role(c, value); break;
	case MESSAGES: r->messages = json_file(r, "--messages", value); break;
	case TOOLS: r->tools = json_file(r, "--tools", value); break;
	case RAW: r->raw = 1; break;
	case CONTINUE: r->cont = 1; break;
	case VISION_ID: r->vision_id = 1; break;
	case NO_GENERATION: r->no_generation = 1; break;
	case REUSE: r->reuse = reuse(c, value); break;
	case TTL: r->ttl = cli_duration(c, "--ttl", value); break;
	case KEY:
		r->key = (uint64_t)cli_int(c, "--key", value, 1, INT64_MAX);
		break;
	case EXPECT:
		r->expect = (uint32_t)cli_int(c, "--expect", value, 1,
		    UINT32_MAX);
		break;
	}
}

/* What does not go together, before anything is opened. */
static void
agree(struct request *r, int operands)
{
	struct cli *c = &r->cli;

	if (!!r->raw + r->cont + !!r->messages > 1)
		cli_usage(c, "--raw, --continue and --messages exclude each "
		    "other");
	if (r->messages && (r->texts || r->system || r->role))
		cli_usage(c, "--messages takes no -p, -f, --system or --role");
	if ((r->raw || r->cont) && (r->system || r->role || r->tools ||
	    r->vision_id || r->no_generation))
		cli_usage(c, "--%s takes no --system, --role, --tools, "
		    "--vision-id or --no-generation",
		    r->raw ? "raw" : "continue");
	if (r->cont && r->pieces > r->texts)
		cli_usage(c, "--continue takes no images");
	if (r->cont && !r->texts)
		cli_usage(c, "--continue: no text");
	if (!r->messages && !r->pieces && !operands)
		cli_usage(c, "nothing to prefill: give -p, -f, -i, --messages "
		    "or a ref");
}

/* Pictures and features go before the pieces; one state may be gone on from. */
static void
operand(struct request *r, struct epd_store *s, const char *text)
{
	struct cli *c = &r->cli;
	struct epd_why why = {0};
	struct epd_ref ref = {0}, any;
	struct stat st;
	int rc = cli_ref(c, s, text, &ref, &why);

	if ((rc < 0 || ref.kind == EPD_REF_WORKFLOW) && stat(text, &st) == 0 &&
	    !S_ISDIR(st.st_mode)) {
		prompt_image(c, &r->images, (struct epd_request_image){
		    .path = text });
		return;
	}
	/* What is not like a name of ours was meant as something else. */
	if (strncmp(text, "f:", 2) && epd_ref_parse(&any, s, text, NULL) < 0)
		epd_why(&why, rc, "neither a ref nor a file; -p gives text, "
		    "-i a picture");
	if (rc < 0)
		cli_fail(c, text, rc, &why);
	else if (ref.kind == EPD_REF_FEATURE)
		prompt_image(c, &r->images, (struct epd_request_image){
		    .feature = ref.feature });
	else if (ref.kind == EPD_REF_WORKFLOW &&
	    faccessat(s->workflows, text, F_OK, 0) == 0)
		cli_usage(c, "%s: a workflow; -w %s makes a state in it, -i "
		    "gives a picture", text, text);
	else if (ref.kind == EPD_REF_WORKFLOW)
		cli_usage(c, "%s: neither a file nor a state; -p gives text, "
		    "-i a picture, -w a workflow", text);
	else if (r->state.state)
		cli_usage(c, "%s: one state can be gone on from, and there is "
		    "one already", text);
	else
		r->state = ref;
}

static int
operands(struct request *r, struct epd_store *s, char **list, int n)
{
	struct cli *c = &r->cli;

	for (int i = 0; i < n; i++)
		operand(r, s, list[i]);
	if (c->status)
		return -1;
	if (!r->messages && !r->pieces && !r->images.n)
		cli_usage(c, "nothing to prefill onto %s", list[0]);
	if (r->state.state && r->system)
		cli_usage(c, "--system: the state has begun already");
	if (r->state.state && r->ttl)
		cli_usage(c, "--ttl: only a new state is given one");
	if (!r->state.state && (r->cont || r->expect || r->key))
		cli_usage(c, "--%s: no state given", r->cont ? "continue" :
		    r->expect ? "expect" : "key");
	if (r->cont && r->images.n)
		cli_usage(c, "--continue takes no images");
	if (r->state.version && r->expect && r->state.version != r->expect)
		cli_usage(c, "--expect and @%u differ", r->state.version);
	if (r->state.version)
		r->expect = r->state.version;
	return 0;
}

static void
progress(void *arg, uint64_t done, uint64_t total)
{
	cli_progress(arg, "prefill", done, total);
}

static void
explain(struct cli *c, const char *name, const struct epd_prefilled *d)
{
	char reused[CLI_COUNT], tokens[CLI_COUNT], fresh[CLI_COUNT];

	cli_say(c, "%s: reused %s of %s token%s, %s computed, %u image%s "
	    "(%u fresh), %.1f ms", name, cli_count(reused, d->reused),
	    cli_count(tokens, d->tokens), d->tokens == 1 ? "" : "s",
	    cli_count(fresh, d->fresh), d->images, d->images == 1 ? "" : "s", d->encoded,
	    (double)d->ns / 1e6);
	if (d->lost)
		cli_say(c, "%s: %llu page%s had been lost and %s computed "
		    "again", name, (unsigned long long)d->lost,
		    d->lost == 1 ? "" : "s", d->lost == 1 ? "was" : "were");
}

static void
print(struct cli *c, const struct epd_prefilled *d)
{
	char name[EPD_REF_TEXT];
	struct epd_buf b = {0};
	struct epd_jw w;

	epd_ref_format(name, d->workflow, d->state, 0);
	if (c->verbose)
		explain(c, name, d);
	if (!c->json) {
		cli_line(c, name);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "state", name);
	epd_jw_uint(&w, "version", d->version);
	epd_jw_uint(&w, "tokens", d->tokens);
	epd_jw_uint(&w, "computed", d->fresh);
	epd_jw_uint(&w, "reused", d->reused);
	epd_jw_uint(&w, "borrowed", d->borrowed);
	epd_jw_uint(&w, "lost_pages", d->lost);
	epd_jw_uint(&w, "images", d->images);
	epd_jw_uint(&w, "encoded", d->encoded);
	epd_jw_uint(&w, "hits", d->hits);
	epd_jw_real(&w, "ms", (double)d->ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/* Everything of a request that is read, and its end. */
struct parts {
	struct epd_json *content, *messages, *tools;
	struct epd_buf text;
	struct prompt_images images;
};

static int
gather(struct request *r, struct epd_store *s, struct epd_prefill *p,
    struct parts *q, struct epd_why *why)
{
	struct cli *c = &r->cli;
	struct prompt_images *im = &r->images;
	int rc = 0;

	if (r->messages) {
		p->kind = EPD_PROMPT_MESSAGES;
		for (int i = 0; rc == 0 && i < r->pieces; i++)
			rc = prompt_image_named(c, s, im, r->piece[i].value,
			    why);
		if (rc == 0)
			rc = prompt_messages(r->messages, &q->messages,
			    &p->messages, &p->tools, why);
		if (rc == 0)
			rc = prompt_message_images(c, s, r->messages,
			    p->messages, im, &q->images, why);
		im = &q->images;
	} else if (r->raw || r->cont) {
		p->kind = r->raw ? EPD_PROMPT_RAW : EPD_PROMPT_CONTINUE;
		rc = prompt_text(c, s, r->piece, r->pieces, im, &q->text, why);
		p->text = epd_span(q->text.p, q->text.n);
	} else {
		p->kind = EPD_PROMPT_TURN;
		rc = prompt_content(c, s, r->piece, r->pieces, im, &q->content,
		    why);
		p->content = q->content;
	}
	if (rc == 0 && r->tools) {
		rc = prompt_json(r->tools, &q->tools, why);
		if (rc == 0 && epd_json_type(q->tools) != EPD_JSON_ARRAY)
			rc = epd_why(why, EPD_EFORMAT, "%s: not an array of "
			    "tools", r->tools);
		p->tools = q->tools;
	}
	p->images = im->v;
	p->nimages = im->n;
	return rc;
}

static int
prefill(struct request *r, struct epd_store *s, struct epd_session *session,
    struct epd_prefilled *out, struct epd_why *why)
{
	struct cli *c = &r->cli;
	struct parts q = {0};
	struct epd_prefill p = {
		.role = r->role ? r->role : "user",
		.system = r->system,
		.vision_id = r->vision_id,
		.no_generation = r->no_generation,
		.workflow = r->state.state ? r->state.workflow :
		    c->workflow ? c->workflow : "",
		.state = r->state.state,
		.expect = r->expect,
		.key = r->key,
		.ttl_ms = r->ttl,
		.reuse = r->reuse,
		.stop = r->caught,
		.progress = progress,
		.arg = c,
	};
	int rc = gather(r, s, &p, &q, why);

	if (rc == 0)
		rc = epd_flow_prefill(session, &p, out, why);
	if (rc < 0)
		prompt_why(&q.images, rc, why);
	cli_progress_end(c);
	epd_json_free(q.content);
	epd_json_free(q.messages);
	epd_json_free(q.tools);
	epd_buf_free(&q.text);
	free(q.images.v);
	return rc;
}

static void
run(struct request *r, struct epd_store *s)
{
	struct epd_store_options o;
	struct epd_ahead *ahead = NULL;
	struct cli *c = &r->cli;
	struct epd_session *session = NULL;
	struct epd_prefilled done;
	struct epd_why why = {0};
	char name[EPD_REF_TEXT], *model = NULL, *own = NULL;
	int rc = 0;

	if (r->state.state)
		epd_ref_format(name, r->state.workflow, r->state.state, 0);
	if (r->state.state && !c->model)
		rc = epd_flow_model_of(s, &r->state, &own, &why);
	if (rc == 0) {
		if (r->state.state) {
			cli_store_options(c, &o);
			ahead = epd_ahead_begin(s, &o, &r->state, 1);
		}
		model = own ? NULL : cli_model(c);
		rc = cli_session(c, s, own ? own : model, &r->state,
		    r->state.state != 0, &session, &why);
	}
	if (rc == 0)
		rc = prefill(r, s, session, &done, &why);
	if (rc == -EINTR && *r->caught) {
		cli_say(c, "%s: interrupted, nothing has changed",
		    command.name);
		c->status = 128 + *r->caught;
	} else if (rc < 0) {
		cli_fail(c, r->state.state ? name : NULL, rc, &why);
	} else {
		print(c, &done);
	}
	epd_ahead_end(ahead);
	epd_session_close(session);
	epd_free(own);
}

int
main(int argc, char **argv)
{
	static struct request r;
	struct cli *c = &r.cli;
	struct epd_store *s;
	int first = cli_begin(c, &command, &r, argc, argv), n;
	char **list;

	agree(&r, argc - first);
	list = cli_operands(c, argc, argv, first, &n);
	r.caught = cli_catch();
	cli_nodes(c);
	s = cli_store(c, 1);
	if (operands(&r, s, list, n) == 0)
		run(&r, s);
	free(r.images.v);
	epd_store_close(s);
	return cli_end(c);
}
