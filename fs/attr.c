/*
 * attr.c - attributes.  Times are those of the log: a state's last change, a
 * version's own, a page's first; so they are the same at every mount.
 */
#include "fs/attr.h"

#include <errno.h>
#include <string.h>

enum { BLOCK = 512 };

/* When what at shows was made and when it changed last; -errno if it is gone. */
static int
state_times(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *made,
    uint64_t *changed)
{
	struct epd_outline o;
	struct epd_watch *w;
	struct epd_shard *s;
	struct epd_state st;
	uint64_t node;
	int rc = epd_fs_watch(fs, at, &w, NULL);

	if (rc < 0)
		return rc;
	s = epd_watch_shard(w);
	if ((rc = epd_shard_state(s, at->state, &st)) < 0 ||
	    (rc = epd_shard_holds(s, at->state, at->version, &node)) < 0 ||
	    (rc = epd_shard_outline(s, node, &o)) < 0)
		return rc;
	*made = at->version ? o.wall_ms : st.created_ms;
	*changed = at->version ? o.wall_ms : st.changed_ms;
	return 0;
}

static int
handoff_stands(struct epd_fs *fs, const struct epd_fs_at *at)
{
	struct epd_handoff h;
	struct epd_watch *w;
	int rc = epd_fs_watch(fs, at, &w, NULL);

	if (rc == 0)
		rc = epd_shard_handoff(epd_watch_shard(w), at->id.b, &h);
	return rc == -ENOENT ? EPD_ENOTHING : rc;
}

static int
times(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *made,
    uint64_t *changed, uint32_t *links)
{
	struct epd_fs_workflow *w;
	struct epd_feature_meta m;
	struct epd_fs_page p;
	int rc = 0;

	*made = *changed = fs->began_ms;
	switch (at->kind) {
	case EPD_FS_PAGE:
		if ((rc = epd_fs_page(fs, &at->id, &p, &w)) == 0) {
			*made = *changed = p.wall_ms;
			*links = p.states;
		}
		return rc;
	case EPD_FS_FEATURE: case EPD_FS_META: case EPD_FS_BLOB:
	case EPD_FS_IMAGE:
		rc = epd_feature_meta(fs->store->features, &at->id, &m);
		if (rc == 0)
			*made = *changed = m.created_ms;
		return rc == EPD_ECORRUPT ? 0 : rc;
	default:
		break;
	}
	if (at->kind == EPD_FS_CHILD) {
		struct epd_fs_at child = *at;

		/* The link is there for as long as what it leads to. */
		child.state = at->index;
		if ((rc = state_times(fs, &child, made, changed)) < 0)
			return rc;
	}
	if (at->state)
		return state_times(fs, at, made, changed);
	if (*at->workflow && !epd_name_zero(&at->id) &&
	    (rc = handoff_stands(fs, at)) < 0)
		return rc;
	if (*at->workflow) {
		rc = epd_fs_workflow(fs, at, &w, NULL);
		if (rc == 0 && (w->changed_ms || w->made_ms))
			*changed = w->changed_ms ? w->changed_ms : w->made_ms;
		/* One that is damaged is there all the same. */
		return rc == EPD_ENOTHING ? rc : 0;
	}
	return 0;
}

static int
is_gone(int rc)
{
	return rc == EPD_ENOSTATE || rc == EPD_ENOTHING || rc == -ENOENT;
}

static int
size(struct epd_fs *fs, const struct epd_fs_at *at, struct epd_fs_node *node,
    uint64_t *out)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);
	const uint64_t now = k->how & EPD_FS_FLEETS ? 0 :
	    epd_fs_stamp(fs, at);
	struct epd_buf b = {0};
	int rc = -EAGAIN;

	*out = 0;
	if (k->size)
		rc = k->size(fs, at, out);
	if (node)
		node->untold = k->size && rc == -EAGAIN;
	if (rc != -EAGAIN)
		return rc;
	if (!k->text || k->how & EPD_FS_ASIDE)
		return 0;
	if (node && now && node->stamp == now) {
		*out = node->size;
		return 0;
	}
	/* What cannot be told now has no bytes; opening it says why. */
	rc = k->text(fs, at, &b, NULL);
	*out = rc < 0 ? 0 : b.n;
	epd_buf_free(&b);
	if (node)
		node->untold = rc < 0;
	if (node && rc >= 0) {
		node->stamp = now;
		node->size = *out;
	}
	return is_gone(rc) || rc == -ENOMEM ? rc : 0;
}

static struct timespec
moment(uint64_t ms)
{
	return (struct timespec){ (time_t)(ms / 1000),
	    (long)(ms % 1000) * 1000000 };
}

int
epd_fs_attr(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t ino,
    struct epd_fs_node *node, struct stat *out)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);
	uint64_t made, changed, bytes;
	uint32_t links = 1;
	int rc = times(fs, at, &made, &changed, &links);

	if (rc == 0)
		rc = size(fs, at, node, &bytes);
	if (node)
		node->gone = is_gone(rc);
	if (rc == 0 && node) {
		node->bytes = bytes;
		node->changed_ms = changed;
	} else if (is_gone(rc) && node && node->opens) {
		/* One that is open outlives its name. */
		bytes = node->bytes;
		changed = node->changed_ms;
		links = 0;
		rc = 0;
	}
	if (rc < 0)
		return rc;
	*out = (struct stat){
		.st_ino = ino, .st_mode = k->mode, .st_nlink = links,
		.st_uid = fs->uid, .st_gid = fs->gid, .st_size = (off_t)bytes,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)((bytes + BLOCK - 1) / BLOCK),
		.st_atim = moment(changed), .st_mtim = moment(changed),
		.st_ctim = moment(changed),
	};
	if (fs->o.read_only)
		out->st_mode &= ~(mode_t)0222;
	return 0;
}

/* ---- extended ---- */

#define PREFIX "user.epd."
static const char *const names[] = {
	"tokens", "checksum", "tier", "layout", "leases", "states",
};

static void
value(const struct epd_fs_page *p, const char *name, int on_disk,
    struct epd_buf *out)
{
	if (!strcmp(name, "tokens"))
		epd_buf_fmt(out, "%u", p->rows);
	else if (!strcmp(name, "checksum"))
		epd_buf_fmt(out, "%016llx", (unsigned long long)p->sum);
	else if (!strcmp(name, "tier"))
		epd_buf_str(out, p->in_memory ? "cpu" : on_disk ? "nvme" :
		    "none");
	else if (!strcmp(name, "layout"))
		epd_buf_fmt(out, "%s [layers][kv_heads]{ K [%u/16][head_dim]"
		    "[16], V [%u][head_dim] }", p->kv_dtype, p->page_tokens,
		    p->page_tokens);
	else if (!strcmp(name, "leases"))
		epd_buf_fmt(out, "%u", p->leases);
	else if (!strcmp(name, "states"))
		epd_buf_fmt(out, "%u", p->states);
}

int
epd_fs_xattr_waits(const struct epd_fs_at *at, const char *name)
{
	const int why = !*name || !strcmp(name, PREFIX "error");

	/* Where a page rests is looked for on a disk. */
	return at->kind == EPD_FS_PAGE ? why || !strcmp(name, PREFIX "tier") :
	    why && epd_fs_kind(at->kind)->how & EPD_FS_ASIDE;
}

/* Whether the tier on the disk has a page of that workflow's.  Not under the lock. */
static int
rests(struct epd_fs *fs, const char *workflow, uint64_t run)
{
	struct epd_store *s;
	int is;

	if (epd_fs_another(fs, 1, &s, NULL) < 0)
		return 0;
	is = epd_fs_page_rests(s, workflow, run);
	epd_store_close(s);
	return is;
}

static int
page_trouble(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_why *why)
{
	char name[EPD_WORKFLOW] = "";
	struct epd_fs_workflow *w;
	struct epd_pin *pin = NULL;
	struct epd_fs_page p;
	int rc;

	pthread_mutex_lock(&fs->lock);
	rc = epd_fs_page(fs, &at->id, &p, &w);
	if (rc == 0)
		strcpy(name, w->name);
	if (rc == 0 && w->watch)
		rc = epd_watch_pin(w->watch, p.node, p.k, &pin, why);
	pthread_mutex_unlock(&fs->lock);
	epd_pin_free(pin);
	/* Opening it brings it back. */
	return rc == -ENODATA && fs->hands && rests(fs, name, p.run) ? 0 : rc;
}

/* Why it cannot be read, if it cannot. */
static int
trouble(struct epd_fs *fs, const struct epd_fs_at *at, struct epd_buf *out)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);
	const int aside = k->how & EPD_FS_ASIDE || at->kind == EPD_FS_PAGE;
	struct epd_why why = {{0}};
	struct epd_buf b = {0};
	int rc = 0;

	/* Of a proof one reads why it could not be. */
	if (at->kind == EPD_FS_CHECK)
		return -ENODATA;
	if (!aside)
		pthread_mutex_lock(&fs->lock);
	if (at->kind == EPD_FS_PAGE)
		rc = page_trouble(fs, at, &why);
	else if (k->text)
		rc = k->text(fs, at, &b, &why);
	if (!aside)
		pthread_mutex_unlock(&fs->lock);
	epd_buf_free(&b);
	if (rc >= 0)
		return -ENODATA;
	epd_buf_str(out, *why.text ? why.text : epd_strerror(rc));
	return 0;
}

int
epd_fs_xattr(struct epd_fs *fs, const struct epd_fs_at *at, const char *name,
    struct epd_buf *out)
{
	char workflow[EPD_WORKFLOW] = "";
	struct epd_fs_workflow *w;
	struct epd_fs_page p;
	const size_t had = out->n;
	int rc, on_disk = 0;

	/* Who asks for labels and lists of access once need not ask again. */
	if (strncmp(name, "user.", 5))
		return -EOPNOTSUPP;
	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return -ENODATA;
	name += strlen(PREFIX);
	if (!strcmp(name, "error"))
		return trouble(fs, at, out);
	if (at->kind != EPD_FS_PAGE)
		return -ENODATA;
	pthread_mutex_lock(&fs->lock);
	rc = epd_fs_page(fs, &at->id, &p, &w);
	if (rc == 0)
		strcpy(workflow, w->name);
	pthread_mutex_unlock(&fs->lock);
	if (rc < 0)
		return rc;
	if (!strcmp(name, "tier") && !p.in_memory)
		on_disk = rests(fs, workflow, p.run);
	value(&p, name, on_disk, out);
	return out->failed ? -ENOMEM : out->n > had ? 0 : -ENODATA;
}

int
epd_fs_xattrs(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out)
{
	struct epd_buf why = {0};

	if (at->kind == EPD_FS_PAGE)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			epd_buf_str(out, PREFIX);
			epd_buf_put(out, names[i], strlen(names[i]) + 1);
		}
	if (trouble(fs, at, &why) == 0)
		epd_buf_put(out, PREFIX "error", sizeof PREFIX "error");
	epd_buf_free(&why);
	return out->failed ? -ENOMEM : 0;
}
