/*
 * state_show.c - show.  For people a state is a summary, in lines of "key:
 * value"; every page of it there is with -j.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmd/state.h"

/* ---- the summary ---- */

struct summary {
	struct state_args *a;
	struct epd_buf out;
};

static void line(struct epd_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Paths and notes may hold anything. */
static void
line(struct epd_buf *b, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !(p = epd_buf_add(b, (size_t)n + 1)))
		return;
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	cli_tidy(p, (size_t)n);
	p[n] = '\n';
}

static const char *
or_dash(const char *s)
{
	return s && *s ? s : "-";
}

static void
who(struct epd_buf *b, const struct epd_sight *v)
{
	const struct epd_state_line *l = &v->line;
	char name[EPD_REF_TEXT], parent[EPD_REF_TEXT], when[32];

	line(b, "state: %s", epd_ref_format(name, l->workflow, l->state, 0));
	line(b, "version: %u of %u", v->version, l->versions);
	line(b, "status: %s%s%s", l->status, *v->state->tier ? " in " : "",
	    v->state->tier);
	if (*v->state->tool)
		line(b, "waits: for %s, till %s", v->state->tool,
		    state_time(when, v->state->wait_deadline_ms));
	line(b, "parent: %s", l->parent_state ? epd_ref_format(parent,
	    l->workflow, l->parent_state, l->parent_version) : "-");
	line(b, "created: %s", state_time(when, l->created_ms));
	line(b, "changed: %s", state_time(when, l->changed_ms));
	line(b, "expires: %s", state_time(when, l->ttl_deadline_ms));
}

/* more: a tier that is not asked may have what is not in sight. */
static void
holds(struct epd_buf *b, const struct epd_sight *v, int more)
{
	const struct epd_state_line *l = &v->line;
	const struct epd_version *h = v->head;
	long long delta = h->next_pos - (long long)l->tokens;
	char bytes[24], shared[24], share[24], nvme[40] = "";

	line(b, "tokens: %llu, next position %lld, rope delta %lld",
	    (unsigned long long)l->tokens, (long long)h->next_pos, delta);
	line(b, "turn: %s, finish %s", or_dash(epd_turn_name(h->turn)),
	    or_dash(epd_finish_name(h->finish)));
	line(b, "pages: %llu of %u tokens, %s, %s each",
	    (unsigned long long)l->pages, v->state->page_tokens, v->kv_dtype,
	    cli_bytes(bytes, v->state->page_bytes));
	if (l->below)
		snprintf(nvme, sizeof nvme, "%llu in nvme, ",
		    (unsigned long long)l->below);
	line(b, "tiers: %llu in memory, %s%llu %sto be computed again",
	    (unsigned long long)(l->pages - l->missing), nvme,
	    (unsigned long long)(l->missing - l->below), more ?
	    "in mooncake_store or " : "");
	line(b, "memory: %s private, %s shared, %s its share",
	    cli_bytes(bytes, l->private_bytes),
	    cli_bytes(shared, l->shared_bytes),
	    cli_bytes(share, l->proportional_bytes));
}

static void
features(struct summary *x, const struct epd_sight *v)
{
	line(&x->out, "features: %u", v->line.images);
	for (uint32_t i = 0; i < v->line.images; i++) {
		const struct epd_image_ref *im = v->images + i;
		struct epd_feature_meta m;
		char hex[2 * EPD_NAME + 1], bytes[24];

		epd_hex_format(hex, im->fp.b, EPD_NAME);
		if (epd_feature_meta(x->a->store->features, &im->fp, &m) < 0)
			snprintf(bytes, sizeof bytes, "not in the store");
		else
			cli_bytes(bytes, m.bytes);
		line(&x->out, "  f:%s at %llu, grid %ux%ux%u, %s", hex,
		    (unsigned long long)im->at, im->grid[0], im->grid[1],
		    im->grid[2], bytes);
	}
}

static void
made_by(struct epd_buf *b, const struct epd_sight *v)
{
	const struct epd_sampling *s = &v->head->sampling;
	const struct epd_state *st = v->state;
	struct epd_json *j = NULL;
	struct epd_json_iter it;
	char hex[2 * EPD_NAME + 1];

	line(b, "sampler: temp %g, top-k %d, top-p %g, repeat penalty %g, "
	    "seed %llu, salt %llu", (double)s->temp, s->top_k,
	    (double)s->top_p, (double)s->penalty,
	    (unsigned long long)s->seed, (unsigned long long)s->salt);
	line(b, "model: %s", or_dash(st->model_path));
	epd_hex_format(hex, st->model_fp.b, EPD_NAME);
	line(b, "fingerprint: %s", hex);
	line(b, "tenant: %s", or_dash(st->tenant));
	if (v->head->note.n == 0 || epd_json_parse(&j, v->head->note, "note",
	    NULL) < 0)
		return;
	if (epd_json_count(j))
		line(b, "metadata:");
	for (it = epd_json_begin(j); epd_json_next(&it);) {
		struct epd_buf value = {0};

		if (epd_json_type(it.value) == EPD_JSON_STRING)
			epd_buf_str(&value, epd_json_str(it.value, ""));
		else
			epd_json_dump(&value, it.value);
		line(b, "  %s: %s", it.key, epd_buf_cstr(&value));
		epd_buf_free(&value);
	}
	epd_json_free(j);
}

static int
summary(void *arg, const struct epd_sight *v)
{
	struct summary *x = arg;
	const struct epd_config *c = &x->a->store->config;

	who(&x->out, v);
	holds(&x->out, v, *c->tier_mooncake_url || *c->tier_mooncake_master);
	features(x, v);
	made_by(&x->out, v);
	return x->out.failed ? -ENOMEM : 0;
}

/* ---- tokens and text ---- */

/* An object about a version of a state. */
static void
object(struct epd_jw *w, struct epd_buf *b, const struct epd_ref *ref)
{
	char name[EPD_REF_TEXT];

	cli_object(w, b);
	epd_jw_str(w, "state", epd_ref_format(name, ref->workflow, ref->state,
	    0));
	epd_jw_uint(w, "version", ref->version);
}

static int
show_tokens(struct cli *c, const struct epd_ref *ref, const int32_t *ids,
    uint64_t n)
{
	struct epd_buf b = {0};
	struct epd_jw w;
	char id[16];

	if (c->json) {
		object(&w, &b, ref);
		epd_jw_begin(&w, "tokens", '[');
		for (uint64_t i = 0; i < n; i++)
			epd_jw_int(&w, NULL, ids[i]);
		epd_jw_end(&w, ']');
		cli_object_end(c, &w);
		epd_buf_free(&b);
		return 0;
	}
	for (uint64_t i = 0; i < n && !c->out_failed; i++) {
		snprintf(id, sizeof id, "%d", ids[i]);
		cli_line(c, id);
	}
	return 0;
}

/* As --raw would take it back: a picture's pads are one. */
static int
show_text(struct state_args *a, const struct epd_ref *ref, const int32_t *ids,
    uint64_t n, struct epd_why *why)
{
	struct epd_tokenizer *t = NULL;
	struct epd_utf8 u = {0};
	struct epd_buf b = {0}, line = {0};
	struct epd_jw w;
	char *model = NULL;
	int32_t pad;
	int fd = -1, rc = epd_flow_model_of(a->store, ref, &model, why);

	if (rc == 0 && a->cli->model) {
		epd_free(model);
		model = epd_strdup(a->cli->model);
	}
	if (rc == 0 && (fd = open(model ? model : "", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC)) < 0)
		rc = epd_why(why, -errno, "%s: %s", model,
		    epd_strerror(-errno));
	if (rc == 0)
		rc = epd_tokenizer_open(&t, fd, why);
	if (rc == 0) {
		pad = epd_tokenizer_special(t, "<|image_pad|>");
		for (uint64_t i = 0; i < n; i++)
			if (i == 0 || ids[i] != pad || ids[i - 1] != pad)
				epd_utf8_put(&u, epd_tokenizer_bytes(t,
				    ids[i]), &b);
		epd_utf8_end(&u, &b);
		rc = b.failed ? -ENOMEM : 0;
	}
	if (rc == 0 && a->cli->json) {
		object(&w, &line, ref);
		epd_jw_bytes(&w, "text", epd_span(b.p, b.n));
		cli_object_end(a->cli, &w);
	} else if (rc == 0) {
		cli_text(a->cli, epd_span(b.p, b.n));
		cli_line(a->cli, "");
	}
	epd_buf_free(&line);
	epd_buf_free(&b);
	epd_tokenizer_close(t);
	if (fd >= 0)
		close(fd);
	epd_free(model);
	return rc;
}

/* ---- show ---- */

static int
which(void *arg, const struct epd_sight *v)
{
	*(uint32_t *)arg = v->version;
	return 0;
}

static int
show_sequence(struct state_args *a, const struct epd_ref *asked,
    struct epd_why *why)
{
	struct epd_ref ref = *asked;
	int32_t *ids = NULL;
	uint64_t n;
	int rc = 0;

	if (ref.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	/* The one that is then told. */
	if (a->cli->json)
		rc = epd_view_state(a->store, asked, which, &ref.version, why);
	if (rc == 0)
		rc = epd_view_tokens(a->store, &ref, &ids, &n, why);
	if (rc == 0)
		rc = a->tokens ? show_tokens(a->cli, &ref, ids, n) :
		    show_text(a, &ref, ids, n, why);
	epd_free(ids);
	return rc;
}

static int
show_object(struct state_args *a, const struct epd_ref *ref,
    struct epd_why *why)
{
	struct cli *c = a->cli;
	struct epd_buf b = {0}, text = {0};
	struct epd_json *j = NULL;
	int rc = epd_view_json(a->store, ref, &b, why);

	if (rc == 0 && c->json) {
		cli_line(c, epd_buf_cstr(&b));
	} else if (rc == 0) {
		rc = epd_json_parse(&j, epd_span(b.p, b.n), "view", why);
		if (rc == 0)
			cli_show(&text, j);
		if (rc == 0)
			cli_out(c, epd_span(text.p, text.n));
	}
	epd_json_free(j);
	epd_buf_free(&text);
	epd_buf_free(&b);
	return rc;
}

static int
show_one(struct state_args *a, const struct epd_ref *ref, struct epd_why *why)
{
	struct summary x = { .a = a };
	int rc;

	if (a->tokens || a->text)
		return show_sequence(a, ref, why);
	if (a->cli->json || ref->kind != EPD_REF_STATE)
		return show_object(a, ref, why);
	rc = epd_view_state(a->store, ref, summary, &x, why);
	if (rc == 0)
		cli_out(a->cli, epd_span(x.out.p, x.out.n));
	epd_buf_free(&x.out);
	return rc;
}

void
state_show(struct state_args *a)
{
	struct cli *c = a->cli;

	if (a->tokens && a->text)
		cli_usage(c, "--tokens and --text exclude each other");
	for (int i = 0, shown = 0; i < a->n && !c->out_failed; i++) {
		struct epd_why why = {0};
		struct epd_ref ref;
		int rc;

		if (state_ref(a, a->operand[i], &ref) < 0)
			continue;
		if (shown++ && !c->json && !a->tokens && !a->text)
			cli_line(c, "");
		rc = show_one(a, &ref, &why);
		if (rc < 0)
			cli_fail(c, a->operand[i], rc, &why);
	}
}
