/* state_look.c - ls, tree, log. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/state.h"

int
state_ref(struct state_args *a, const char *text, struct epd_ref *out)
{
	struct epd_why why = {0};
	int rc = a->states ? cli_state(a->cli, a->store, text, out, &why) :
	    cli_ref(a->cli, a->store, text, out, &why);

	if (rc < 0)
		cli_fail(a->cli, text, rc, &why);
	return rc < 0 ? -1 : 0;
}

void
state_rc(struct state_args *a, int rc)
{
	struct epd_why none = {0};

	if (rc < 0)
		cli_fail(a->cli, a->store->path, rc, &none);
}

void
state_each(struct state_args *a, int (*fn)(void *arg, const char *workflow),
    void *arg)
{
	struct cli *c = a->cli;
	struct epd_ref ref;

	if (a->n == 0 && c->workflow) {
		if (state_ref(a, c->workflow, &ref) == 0)
			fn(arg, ref.workflow);
		return;
	}
	if (a->n == 0)
		state_rc(a, epd_workflow_each(a->store, fn, arg));
	for (int i = 0; i < a->n && !c->out_failed; i++) {
		const char *text = a->operand[i];
		struct epd_why why;

		/* Whether there is such a feature does not matter. */
		ref.kind = EPD_REF_FEATURE;
		if (strncmp(text, "f:", 2) != 0 && state_ref(a, text, &ref) < 0)
			continue;
		if (ref.kind != EPD_REF_WORKFLOW)
			cli_fail(c, text, EPD_EUSAGE, (epd_why(&why, EPD_EUSAGE,
			    "not a workflow"), &why));
		else
			fn(arg, ref.workflow);
	}
}

const char *
state_time(char out[32], uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;

	if (!ms || !localtime_r(&t, &tm) ||
	    !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(out, "-");
	return out;
}

/* ---- ls ---- */

struct lister {
	struct state_args *a;
	uint32_t state;		/* only this one; 0: all */
	int seen, headed;
};

static void
line_json(struct cli *c, const struct epd_state_line *l, const char *name)
{
	char parent[EPD_REF_TEXT];
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_str(&w, "state", name);
	epd_jw_uint(&w, "version", l->versions);
	epd_jw_str(&w, "status", l->status);
	epd_jw_str(&w, "tier", *l->tier ? l->tier : NULL);
	epd_jw_str(&w, "waits_for_tool", *l->tool ? l->tool : NULL);
	epd_jw_uint(&w, "tokens", l->tokens);
	epd_jw_uint(&w, "images", l->images);
	epd_jw_uint(&w, "pages", l->pages);
	epd_jw_uint(&w, "pages_missing", l->missing);
	epd_jw_uint(&w, "pages_nvme", l->below);
	epd_jw_uint(&w, "private_bytes", l->private_bytes);
	epd_jw_uint(&w, "shared_bytes", l->shared_bytes);
	epd_jw_uint(&w, "proportional_bytes", l->proportional_bytes);
	epd_jw_uint(&w, "created_ms", l->created_ms);
	epd_jw_uint(&w, "changed_ms", l->changed_ms);
	if (l->ttl_deadline_ms)
		epd_jw_uint(&w, "ttl_deadline_ms", l->ttl_deadline_ms);
	else
		epd_jw_str(&w, "ttl_deadline_ms", NULL);
	epd_jw_str(&w, "parent", l->parent_state ? epd_ref_format(parent,
	    l->workflow, l->parent_state, l->parent_version) : NULL);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
line_long(struct lister *x, const struct epd_state_line *l, const char *name)
{
	char bytes[24], time[32], text[256];
	struct cli *c = x->a->cli;

	if (!x->headed++)
		cli_line(c, "STATE            VERSION STATUS      TOKENS IMAGES"
		    "  PAGES MISSING   NVME     MEMORY CHANGED");
	snprintf(text, sizeof text, "%-16s %7u %-9s %8llu %6u %6llu %7llu "
	    "%6llu %10s %s", name, l->versions, l->status,
	    (unsigned long long)l->tokens, l->images,
	    (unsigned long long)l->pages, (unsigned long long)l->missing,
	    (unsigned long long)l->below,
	    cli_bytes(bytes, l->proportional_bytes),
	    state_time(time, l->changed_ms));
	cli_line(c, text);
}

static int
list_one(void *arg, const struct epd_state_line *l)
{
	struct lister *x = arg;
	struct cli *c = x->a->cli;
	char name[EPD_REF_TEXT];

	if (x->state && l->state != x->state)
		return 0;
	x->seen = 1;
	epd_ref_format(name, l->workflow, l->state, 0);
	if (c->json)
		line_json(c, l, name);
	else if (x->a->longer)
		line_long(x, l, name);
	else
		cli_line(c, name);
	return c->out_failed;
}

static int
list(struct lister *x, const char *workflow, const char *operand)
{
	struct epd_why why = {0};
	int rc;

	x->seen = 0;
	rc = epd_view_states(x->a->store, workflow, list_one, x, &why);
	if (rc == 0 && x->state && !x->seen)
		rc = EPD_ENOSTATE;
	if (rc < 0)
		cli_fail(x->a->cli, operand, rc, &why);
	return x->a->cli->out_failed;
}

static int
feature_one(void *arg, const struct epd_name *fp)
{
	struct state_args *a = arg;
	struct cli *c = a->cli;
	char hex[2 * EPD_NAME + 1], text[256], time[32], bytes[24];
	struct epd_feature_meta m;
	struct epd_buf b = {0};
	struct epd_ref ref = { .kind = EPD_REF_FEATURE, .feature = *fp };

	epd_hex_format(hex, fp->b, EPD_NAME);
	if (c->json) {
		if (epd_view_json(a->store, &ref, &b, NULL) == 0)
			cli_line(c, epd_buf_cstr(&b));
		epd_buf_free(&b);
	} else if (a->longer && epd_feature_meta(a->store->features, fp,
	    &m) == 0) {
		snprintf(text, sizeof text, "f:%s %6u tokens %10s %s", hex,
		    m.tokens, cli_bytes(bytes, m.bytes),
		    state_time(time, m.created_ms));
		cli_line(c, text);
	} else {
		snprintf(text, sizeof text, "f:%s", hex);
		cli_line(c, text);
	}
	return c->out_failed;
}

/* For completion: opens one workflow at most, and says nothing of errors. */
static void
names(struct state_args *a)
{
	const char *p = a->prefix, *slash = strchr(p, '/');
	char workflow[EPD_WORKFLOW], name[EPD_REF_TEXT];
	struct epd_workflow w;
	struct epd_state st;
	uint32_t after = 0;

	if (!strncmp(p, "f:", 2)) {
		state_rc(a, epd_feature_each(a->store->features, p + 2,
		    feature_one, a));
		return;
	}
	if (!slash || (size_t)(slash - p) >= sizeof workflow)
		return;
	snprintf(workflow, sizeof workflow, "%.*s", (int)(slash - p), p);
	if (epd_workflow_open(&w, a->store, workflow, 1, NULL) < 0)
		return;
	while (epd_shard_next(w.shard, after, &st) == 0) {
		after = st.id;
		epd_ref_format(name, workflow, st.id, 0);
		if (!strncmp(name, p, strlen(p)))
			cli_line(a->cli, name);
	}
	epd_workflow_close(&w);
}

void
state_ls(struct state_args *a)
{
	struct lister x = { .a = a };
	struct cli *c = a->cli;
	struct epd_ref ref;

	if (a->names) {
		names(a);
		return;
	}
	if (a->features) {
		if (a->n)
			cli_usage(c, "-f takes no operands");
		state_rc(a, epd_feature_each(a->store->features, "",
		    feature_one, a));
		return;
	}
	if (a->n == 0)
		list(&x, c->workflow, c->workflow);
	for (int i = 0; i < a->n && !c->out_failed; i++) {
		if (state_ref(a, a->operand[i], &ref) < 0)
			continue;
		if (ref.kind == EPD_REF_FEATURE) {
			feature_one(a, &ref.feature);
			continue;
		}
		x.state = ref.state;
		list(&x, ref.workflow, a->operand[i]);
	}
}

/* ---- tree ---- */

static int
tree_one(void *arg, const char *workflow)
{
	struct state_args *a = arg;
	struct cli *c = a->cli;
	struct lister x = { .a = a };
	struct epd_buf b = {0};
	struct epd_why why = {0};
	int rc;

	if (c->json)
		return list(&x, workflow, workflow);
	rc = epd_view_tree(a->store, workflow, &b, &why);
	if (rc == EPD_ENOTHING && a->n == 0)
		rc = 0;
	else if (rc < 0)
		cli_fail(c, workflow, rc, &why);
	else
		cli_out(c, epd_span(b.p, b.n));
	epd_buf_free(&b);
	return c->out_failed;
}

void
state_tree(struct state_args *a)
{
	state_each(a, tree_one, a);
}

/* ---- log ---- */

struct logger {
	struct state_args *a;
	const char *workflow;
	uint64_t records, first;	/* the number of the first of them */
};

/* What a record did, beside the state it is about. */
static const char *
record_what(char out[64], const struct epd_record *r)
{
	const unsigned long long lease = r->lease;
	const char *in_place = r->replaced ? ", replaced" : "";

	*out = '\0';
	if (r->count == 1)
		snprintf(out, 64, "-> s%u%s", r->first, in_place);
	else if (r->count)
		snprintf(out, 64, "-> s%u..s%u%s", r->first,
		    r->first + (r->count - 1), in_place);
	else if (lease)
		snprintf(out, 64, "lease %llu%s", lease,
		    !strcmp(r->kind, "lease") && lease != r->lsn ?
		    " goes on" : "");
	else if (*r->status && *r->tier)
		snprintf(out, 64, "%s %.40s", r->status, r->tier);
	else if (*r->status)
		snprintf(out, 64, "%s", r->status);
	else if (*r->owner)
		snprintf(out, 64, "to node %.50s", r->owner);
	else if (*r->tool)
		snprintf(out, 64, "for %.50s", r->tool);
	else if (r->tokens || r->pages)
		snprintf(out, 64, "%6u tokens %4u pages", r->tokens, r->pages);
	return out;
}

static void
record_text(struct cli *c, const struct epd_record *r, const char *name)
{
	char time[32], what[64], half[33], text[512];

	epd_hex_format(half, r->handoff, 16);
	half[8] = '\0';		/* as much as tells one from another */
	snprintf(text, sizeof text, "%6llu %s %-8s %-14s %-24s %8llu bytes"
	    "%s%s%s%.200s", (unsigned long long)r->lsn,
	    state_time(time, r->wall_ms), r->kind, name, record_what(what, r),
	    (unsigned long long)r->bytes, r->has_handoff ? " hand-off " : "",
	    r->has_handoff ? half : "", *r->reason ? " " : "", r->reason);
	cli_tidy(text, strlen(text));
	cli_line(c, text);
}

static void
record_json(struct logger *x, const struct epd_record *r)
{
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_uint(&w, "log_begins", x->first);
	epd_view_record(&w, x->workflow, r);
	cli_object_end(x->a->cli, &w);
	epd_buf_free(&b);
}

/* What a checkpoint let go of is not there to be told. */
static void
begins(struct logger *x, uint64_t lsn)
{
	struct cli *c = x->a->cli;

	x->first = lsn;
	if (lsn > 1 && !c->json && !c->quiet)
		cli_say(c, "%s: begins at record %llu, those before are in a "
		    "checkpoint (see state.log_keep)", x->workflow,
		    (unsigned long long)lsn);
}

static int
record(void *arg, const struct epd_record *r)
{
	char name[EPD_REF_TEXT] = "-";
	struct logger *x = arg;
	struct cli *c = x->a->cli;

	if (x->records++ == 0)
		begins(x, r->lsn);
	if (r->state)
		epd_ref_format(name, x->workflow, r->state, r->version);
	if (c->json)
		record_json(x, r);
	else
		record_text(c, r, name);
	return c->out_failed;
}

static void
log_fault(void *arg, const char *text)
{
	struct logger *x = arg;
	struct epd_why why;

	epd_why(&why, EPD_ECORRUPT, "%s", text);
	cli_fail(x->a->cli, x->workflow, EPD_ECORRUPT, &why);
}

static int
log_one(void *arg, const char *workflow)
{
	struct state_args *a = arg;
	struct logger x = { .a = a, .workflow = workflow };
	struct epd_why why = {0};
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, a->store, workflow, 1, &why);

	if (rc == EPD_ENOTHING && a->n == 0)
		return 0;
	if (rc == 0) {
		rc = epd_shard_walk(w.shard, record, &x, &why);
		if (rc == 0 && !x.records && epd_shard_lsn(w.shard))
			begins(&x, epd_shard_lsn(w.shard) + 1);
		if (rc == 0 && a->verify)
			rc = epd_shard_check(w.shard, log_fault, &x, &why);
		if (rc == 0 && a->verify && a->cli->verbose)
			cli_say(a->cli, "%s: %llu record%s, all obey", workflow,
			    (unsigned long long)x.records,
			    x.records == 1 ? "" : "s");
		epd_workflow_close(&w);
	}
	if (rc < 0)
		cli_fail(a->cli, workflow, rc, &why);
	return a->cli->out_failed;
}

void
state_log(struct state_args *a)
{
	state_each(a, log_one, a);
}
