/*
 * state.c - what is told of a state, or of one of its versions.  A version's files
 * leave out what may change: who else uses its pages, and where they are.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "fs/text.h"
#include "fs/tongue.h"

struct sheet {
	const struct epd_fs_at *at;
	struct epd_fs_workflow *w;
	struct epd_buf *out;
};

/* ---- json ---- */

static void
sampling(struct epd_jw *w, const struct epd_sampling *s)
{
	epd_jw_begin(w, "sampling", '{');
	epd_jw_real(w, "temp", s->temp);
	epd_jw_int(w, "top_k", s->top_k);
	epd_jw_real(w, "top_p", s->top_p);
	epd_jw_real(w, "repeat_penalty", s->penalty);
	epd_jw_uint(w, "seed", s->seed);
	epd_jw_end(w, '}');
}

static int
page_name(void *arg, const struct epd_page_sight *p)
{
	struct epd_jw *w = arg;

	epd_jw_begin(w, NULL, '{');
	epd_jw_hex(w, "kv_page_id", p->ref->name.b, EPD_NAME);
	epd_jw_uint(w, "rows", p->ref->rows);
	epd_jw_end(w, '}');
	return 0;
}

static int
version_json(void *arg, const struct epd_sight *v)
{
	struct sheet *x = arg;
	struct epd_jw w = { .out = x->out };
	char name[EPD_REF_TEXT];
	int rc;

	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", 1);
	epd_jw_str(&w, "kind", "version");
	epd_jw_str(&w, "state_id", epd_ref_format(name, v->line.workflow,
	    v->line.state, 0));
	epd_jw_uint(&w, "version_id", v->version);
	epd_jw_uint(&w, "written_ms", v->head->wall_ms);
	epd_jw_uint(&w, "tokens", v->line.tokens);
	epd_jw_int(&w, "next_position", v->head->next_pos);
	epd_jw_str(&w, "turn", epd_turn_name(v->head->turn));
	epd_jw_str(&w, "finish", epd_finish_name(v->head->finish));
	sampling(&w, &v->head->sampling);
	epd_jw_begin(&w, "images", '[');
	for (uint32_t i = 0; i < v->line.images; i++) {
		epd_jw_begin(&w, NULL, '{');
		epd_jw_hex(&w, "image_id", v->images[i].fp.b, EPD_NAME);
		epd_jw_uint(&w, "at", v->images[i].at);
		epd_jw_end(&w, '}');
	}
	epd_jw_end(&w, ']');
	epd_jw_begin(&w, "kv_pages", '[');
	rc = epd_watch_table(x->w->watch, x->at->state, x->at->version,
	    page_name, &w, NULL);
	epd_jw_end(&w, ']');
	epd_jw_end(&w, '}');
	return rc < 0 ? rc : epd_fs_told(x->out);
}

/* The workflow, if there is anything in it. */
static int
open_sheet(struct epd_fs *fs, struct sheet *x, struct epd_why *why)
{
	int rc = (x->at->kind == EPD_FS_REASON ? epd_fs_followed :
	    epd_fs_workflow)(fs, x->at, &x->w, why);

	return rc < 0 ? rc : x->w->watch ? 0 : EPD_ENOSTATE;
}

int
epd_fs_json(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct sheet x = { .at = at, .out = out };
	int rc = open_sheet(fs, &x, why);

	if (rc == 0 && at->kind == EPD_FS_VERSION_JSON)
		rc = epd_watch_state(x.w->watch, at->state, at->version,
		    version_json, &x, why);
	else if (rc == 0)
		rc = epd_watch_json(x.w->watch, at->state, at->version, out,
		    why);
	if (rc == 0)
		epd_buf_str(out, "\n");
	return rc < 0 ? rc : epd_fs_told(out);
}

/* ---- fields ---- */

static void
time_left(struct epd_buf *out, uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	if (ms && gmtime_r(&t, &tm) &&
	    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
		epd_buf_fmt(out, "%s\n", text);
	else
		epd_buf_str(out, "never\n");
}

static int
field(void *arg, const struct epd_sight *v)
{
	struct sheet *x = arg;
	const struct epd_sampling *s = &v->head->sampling;
	struct epd_buf *out = x->out;
	const char *reason;
	uint8_t shard[16];
	char hex[33];

	switch (x->at->kind) {
	case EPD_FS_STATUS:
		epd_buf_fmt(out, "%s\n", v->line.status);
		break;
	case EPD_FS_VERSION_NO:
		epd_buf_fmt(out, "%u\n", v->version);
		break;
	case EPD_FS_EPOCH:
		epd_buf_fmt(out, "%llu\n", (unsigned long long)v->state->epoch);
		break;
	case EPD_FS_REASON:
		reason = epd_fs_reason(x->w, x->at->state);
		epd_buf_fmt(out, "%s\n", *reason ? reason : "-");
		break;
	case EPD_FS_TTL:
		time_left(out, v->line.ttl_deadline_ms);
		break;
	case EPD_FS_REST:
		epd_buf_fmt(out, "%s\n", *v->line.tier ? v->line.tier :
		    "memory");
		break;
	case EPD_FS_TOOL:
		epd_buf_fmt(out, "%s\n", *v->line.tool ? v->line.tool : "-");
		break;
	case EPD_FS_OWNER:
		epd_shard_uuid(epd_watch_shard(x->w->watch), shard);
		epd_hex_format(hex, shard, sizeof shard);
		epd_buf_fmt(out, "%s\n", hex);
		break;
	default:
		epd_buf_fmt(out, "temp %g\ntop_k %d\ntop_p %g\n"
		    "repeat_penalty %g\nseed %llu\n", (double)s->temp,
		    s->top_k, (double)s->top_p, (double)s->penalty,
		    (unsigned long long)s->seed);
		break;
	}
	return epd_fs_told(out);
}

int
epd_fs_field(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct sheet x = { .at = at, .out = out };
	int rc = open_sheet(fs, &x, why);

	return rc < 0 ? rc : epd_watch_state(x.w->watch, at->state,
	    at->version, field, &x, why);
}

/* ---- tokens and words ---- */

int
epd_fs_tokens(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct sheet x = { .at = at, .out = out };
	int32_t *ids = NULL;
	uint64_t n = 0;
	int rc = open_sheet(fs, &x, why);

	if (rc == 0)
		rc = epd_watch_tokens(x.w->watch, at->state, at->version, &ids,
		    &n, why);
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		epd_buf_fmt(out, "%d\n", ids[i]);
	epd_free(ids);
	return rc < 0 ? rc : epd_fs_told(out);
}

/* The words of a state are its tokens, and those that a decode at it has drawn. */
struct words {
	struct sheet x;
	struct epd_state st;
	struct epd_ids drawn;
};

/* Under the lock. */
static int
open_words(struct epd_fs *fs, struct words *w, struct epd_why *why)
{
	const struct epd_fs_at *at = w->x.at;
	int rc = open_sheet(fs, &w->x, why), runs;

	if (rc == 0)
		rc = epd_shard_state(epd_watch_shard(w->x.w->watch), at->state,
		    &w->st);
	if (rc < 0 || at->kind != EPD_FS_TEXT || at->version)
		return rc;
	runs = epd_watch_runs(w->x.w->watch);
	if (runs >= 0)
		(void)epd_draft_read(runs, at->state, w->st.versions,
		    &w->drawn);
	return 0;
}

/* All of them, under the lock.  Owns: the caller's. */
static int
all_ids(const struct words *w, struct epd_ids *out, struct epd_why *why)
{
	int32_t *ids = NULL;
	uint64_t n = 0;
	int rc = epd_watch_tokens(w->x.w->watch, w->x.at->state,
	    w->x.at->version, &ids, &n, why);

	if (rc < 0)
		return rc;
	*out = (struct epd_ids){ .v = ids, .n = n, .cap = n };
	epd_ids_put(out, w->drawn.v, w->drawn.n);
	return out->failed ? -ENOMEM : 0;
}

static enum epd_transcript_kind
kind_of(const struct epd_fs_at *at)
{
	return at->kind == EPD_FS_TEXT ? EPD_TRANSCRIPT_TEXT :
	    EPD_TRANSCRIPT_MESSAGES;
}

static int
gather(struct epd_fs *fs, const struct epd_fs_at *at, struct epd_ids *ids,
    char **model, struct epd_why *why)
{
	struct words w = { .x = { .at = at } };
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = open_words(fs, &w, why);
	if (rc == 0)
		rc = all_ids(&w, ids, why);
	if (rc == 0 && !(*model = epd_strdup(w.st.model_path)))
		rc = -ENOMEM;
	pthread_mutex_unlock(&fs->lock);
	epd_ids_free(&w.drawn);
	return rc;
}

int
epd_fs_words_first(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_tongue **t, struct epd_buf *out, struct epd_why *why)
{
	struct epd_ids ids = {0};
	char *model = NULL;
	int rc = gather(fs, at, &ids, &model, why);

	if (rc == 0 && (rc = epd_fs_tongue_get(fs, model, t, why)) == 0) {
		rc = epd_transcript(out, epd_fs_tongue_of(*t), ids.v, ids.n,
		    kind_of(at));
		if (rc < 0) {
			epd_fs_tongue_put(fs, *t);
			*t = NULL;
		}
	}
	epd_ids_free(&ids);
	epd_free(model);
	return rc;
}

int
epd_fs_words_on(struct epd_fs *fs, const struct epd_fs_at *at,
    const struct epd_fs_tongue *t, struct epd_buf *out)
{
	struct epd_ids ids = {0};
	char *model = NULL;
	int rc = gather(fs, at, &ids, &model, NULL);

	if (rc == 0)
		rc = epd_transcript(out, epd_fs_tongue_of(t), ids.v, ids.n,
		    kind_of(at));
	epd_ids_free(&ids);
	epd_free(model);
	return rc < 0 ? rc : epd_fs_told(out);
}

void
epd_fs_words_want(struct epd_fs *fs, const struct epd_fs_at *at)
{
	struct words w = { .x = { .at = at } };
	struct epd_fs_tongue *t;
	char *model = NULL;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	if (open_words(fs, &w, NULL) == 0)
		model = epd_strdup(w.st.model_path);
	pthread_mutex_unlock(&fs->lock);
	epd_ids_free(&w.drawn);
	if (model && epd_fs_tongue_get(fs, model, &t, NULL) == 0)
		epd_fs_tongue_put(fs, t);
	epd_free(model);
}

int
epd_fs_words(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why)
{
	struct epd_fs_tongue *t;
	int rc = epd_fs_words_first(fs, at, &t, out, why);

	if (rc < 0)
		return rc;
	epd_fs_tongue_put(fs, t);
	return epd_fs_told(out);
}

/* What is being drawn is left out while the tokenizer is not there. */
int
epd_fs_words_size(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	struct words w = { .x = { .at = at } };
	struct epd_fs_tongue *t = NULL;
	struct epd_ids ids = {0};
	struct epd_shard *s;
	struct epd_glance g;
	uint64_t node;
	int rc = open_words(fs, &w, NULL);

	if (rc < 0)
		return rc;
	s = epd_watch_shard(w.x.w->watch);
	if ((rc = epd_shard_holds(s, at->state, at->version, &node)) < 0 ||
	    (rc = epd_shard_glance(s, node, &g)) < 0) {
		epd_ids_free(&w.drawn);
		return rc;
	}
	*out = !g.has_lengths ? 0 : at->kind == EPD_FS_TEXT ? g.text_bytes :
	    g.messages_bytes;
	if (w.drawn.n || !g.has_lengths)
		t = epd_fs_tongue_kept(fs, w.st.model_path);
	if (t && all_ids(&w, &ids, NULL) == 0)
		*out = epd_transcript_size(epd_fs_tongue_of(t), ids.v, ids.n,
		    kind_of(at));
	else if (w.drawn.n || !g.has_lengths)
		rc = -EAGAIN;
	if (t)
		epd_fs_tongue_put(fs, t);
	epd_ids_free(&ids);
	epd_ids_free(&w.drawn);
	return rc;
}
