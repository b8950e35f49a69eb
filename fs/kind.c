/*
 * kind.c - the tree:
 *
 *	README  metrics  events
 *	workflows/W/			events log check leases
 *		handoffs/ID/		phase source target deadline decision
 *		states/sN/		state.json status version epoch reason ttl
 *					owner tier tool sampler text messages.json
 *					tokens parent say ctl
 *			children/sM	forks/NAME/ (a state)
 *			pages/0000	features/0
 *			versions/K/	version.json text messages.json tokens
 *					sampler pages/ features/
 *	pages/ID  features/ID/{meta.json,blob,image.png}
 *	tiers/T/{used,capacity,pages}
 */
#include "fs/kind.h"

#include <errno.h>
#include <string.h>

#include "fs/dir.h"
#include "fs/hands.h"
#include "fs/text.h"

struct epd_fs_at
epd_fs_in(const struct epd_fs_at *dir, enum epd_fs_id kind)
{
	struct epd_fs_at at = *dir;

	at.kind = kind;
	return at;
}

/* ---- the table ---- */

#define IN(k) ((uint64_t)1 << EPD_FS_##k)
#define STATED (IN(STATE) | IN(VERSION))
#define DIR_(name, in) { name, in, S_IFDIR | 0755, 0, NULL, NULL, NULL, NULL }
#define MANY(name, in, find, list) \
	{ name, in, S_IFDIR | 0755, 0, find, list, NULL, NULL }
#define FILE_(name, in, how, text, size) \
	{ name, in, S_IFREG | 0444, how, NULL, NULL, text, size }
#define HALF(name) FILE_(name, IN(HANDOFF), EPD_FS_ASIDE, epd_fs_half, \
	epd_fs_size_half)
#define LINK(name, in, how) \
	{ name, in, S_IFLNK | 0777, how, NULL, NULL, epd_fs_link, NULL }

static const struct epd_fs_kind kinds[EPD_FS_KINDS] = {
	[EPD_FS_ROOT] = DIR_(NULL, 0),
	[EPD_FS_README] = FILE_("README", IN(ROOT), 0, epd_fs_readme, NULL),
	[EPD_FS_METRICS] = FILE_("metrics", IN(ROOT), EPD_FS_ASIDE,
	    epd_fs_looked, epd_fs_looked_size),
	[EPD_FS_EVENTS] = FILE_("events", IN(ROOT) | IN(WORKFLOW),
	    EPD_FS_GROWS, NULL, epd_fs_size_events),
	[EPD_FS_WORKFLOWS] = MANY("workflows", IN(ROOT), epd_fs_find_workflow,
	    epd_fs_list_workflows),
	[EPD_FS_WORKFLOW] = DIR_(NULL, IN(WORKFLOWS)),
	[EPD_FS_LOG] = FILE_("log", IN(WORKFLOW), EPD_FS_GROWS, NULL,
	    epd_fs_size_log),
	[EPD_FS_CHECK] = FILE_("check", IN(WORKFLOW), EPD_FS_ASIDE,
	    epd_fs_proof, NULL),
	[EPD_FS_LEASES] = FILE_("leases", IN(WORKFLOW), EPD_FS_FLEETS,
	    epd_fs_leases, NULL),
	[EPD_FS_STATES] = MANY("states", IN(WORKFLOW), epd_fs_find_state,
	    epd_fs_list_states),
	[EPD_FS_HANDOFFS] = MANY("handoffs", IN(WORKFLOW), epd_fs_find_handoff,
	    epd_fs_list_handoffs),
	[EPD_FS_HANDOFF] = DIR_(NULL, IN(HANDOFFS)),
	[EPD_FS_PHASE] = HALF("phase"),
	[EPD_FS_SOURCE] = HALF("source"),
	[EPD_FS_TARGET] = HALF("target"),
	[EPD_FS_DEADLINE] = HALF("deadline"),
	[EPD_FS_DECISION] = HALF("decision"),
	[EPD_FS_STATE] = DIR_(NULL, IN(STATES) | IN(FORKS)),
	[EPD_FS_STATE_JSON] = FILE_("state.json", IN(STATE), EPD_FS_FLEETS,
	    epd_fs_json, NULL),
	[EPD_FS_STATUS] = FILE_("status", IN(STATE), EPD_FS_FLEETS,
	    epd_fs_field, NULL),
	[EPD_FS_VERSION_NO] = FILE_("version", IN(STATE), 0, epd_fs_field,
	    NULL),
	[EPD_FS_EPOCH] = FILE_("epoch", IN(STATE), 0, epd_fs_field, NULL),
	[EPD_FS_REASON] = FILE_("reason", IN(STATE), 0, epd_fs_field, NULL),
	[EPD_FS_TTL] = FILE_("ttl", IN(STATE), 0, epd_fs_field, NULL),
	[EPD_FS_OWNER] = FILE_("owner", IN(STATE), 0, epd_fs_field, NULL),
	[EPD_FS_REST] = { "tier", IN(STATE), S_IFREG | 0644, EPD_FS_WRITES,
	    NULL, NULL, epd_fs_field, NULL },
	[EPD_FS_TOOL] = FILE_("tool", IN(STATE), 0, epd_fs_field, NULL),
	[EPD_FS_PARENT] = LINK("parent", IN(STATE), EPD_FS_MAYBE),
	[EPD_FS_CHILDREN] = MANY("children", IN(STATE), epd_fs_find_child,
	    epd_fs_list_children),
	[EPD_FS_CHILD] = LINK(NULL, IN(CHILDREN), 0),
	[EPD_FS_FORKS] = MANY("forks", IN(STATE), epd_fs_find_fork,
	    epd_fs_list_forks),
	[EPD_FS_VERSIONS] = MANY("versions", IN(STATE), epd_fs_find_version,
	    epd_fs_list_versions),
	[EPD_FS_VERSION] = DIR_(NULL, IN(VERSIONS)),
	[EPD_FS_VERSION_JSON] = FILE_("version.json", IN(VERSION),
	    EPD_FS_FIXED, epd_fs_json, NULL),
	[EPD_FS_SAY] = { "say", IN(STATE), S_IFREG | 0600, EPD_FS_WRITES,
	    NULL, NULL, NULL, NULL },
	[EPD_FS_CTL] = { "ctl", IN(STATE), S_IFREG | 0600, EPD_FS_WRITES,
	    NULL, NULL, NULL, NULL },
	[EPD_FS_SAMPLER] = FILE_("sampler", STATED, 0, epd_fs_field, NULL),
	[EPD_FS_TEXT] = FILE_("text", STATED, EPD_FS_GROWS | EPD_FS_ASIDE,
	    epd_fs_words, epd_fs_words_size),
	[EPD_FS_MESSAGES] = FILE_("messages.json", STATED, EPD_FS_ASIDE,
	    epd_fs_words, epd_fs_words_size),
	[EPD_FS_TOKENS] = FILE_("tokens", STATED, 0, epd_fs_tokens, NULL),
	[EPD_FS_TABLE] = MANY("pages", STATED, epd_fs_find_part,
	    epd_fs_list_parts),
	[EPD_FS_TABLE_PAGE] = LINK(NULL, IN(TABLE), 0),
	[EPD_FS_BUNDLES] = MANY("features", STATED, epd_fs_find_part,
	    epd_fs_list_parts),
	[EPD_FS_BUNDLE] = LINK(NULL, IN(BUNDLES), 0),
	[EPD_FS_PAGES] = MANY("pages", IN(ROOT), epd_fs_find_page,
	    epd_fs_list_pages),
	[EPD_FS_PAGE] = FILE_(NULL, IN(PAGES), EPD_FS_FIXED, NULL,
	    epd_fs_size_page),
	[EPD_FS_FEATURES] = MANY("features", IN(ROOT), epd_fs_find_feature,
	    epd_fs_list_features),
	[EPD_FS_FEATURE] = DIR_(NULL, IN(FEATURES)),
	[EPD_FS_META] = FILE_("meta.json", IN(FEATURE), 0, epd_fs_meta, NULL),
	[EPD_FS_BLOB] = FILE_("blob", IN(FEATURE), EPD_FS_FIXED, NULL,
	    epd_fs_size_blob),
	[EPD_FS_IMAGE] = FILE_("image.png", IN(FEATURE), EPD_FS_FIXED |
	    EPD_FS_ASIDE, epd_fs_image, epd_fs_image_size),
	[EPD_FS_TIERS] = MANY("tiers", IN(ROOT), epd_fs_find_tier,
	    epd_fs_list_tiers),
	[EPD_FS_TIER] = DIR_(NULL, IN(TIERS)),
	[EPD_FS_USED] = FILE_("used", IN(TIER), EPD_FS_ASIDE, epd_fs_looked,
	    epd_fs_looked_size),
	[EPD_FS_CAPACITY] = FILE_("capacity", IN(TIER), 0, epd_fs_capacity,
	    NULL),
	[EPD_FS_TIER_PAGES] = FILE_("pages", IN(TIER), EPD_FS_ASIDE,
	    epd_fs_looked, epd_fs_looked_size),
};

const struct epd_fs_kind *
epd_fs_kind(enum epd_fs_id id)
{
	return kinds + id;
}

/* Those that may not be there are asked. */
static int
is_there(struct epd_fs *fs, const struct epd_fs_at *at)
{
	const struct epd_fs_kind *k = kinds + at->kind;
	struct epd_buf b = {0};
	int rc = 0;

	if (k->how & EPD_FS_WRITES && !k->text)
		return !fs->o.read_only;
	if (k->how & EPD_FS_MAYBE) {
		rc = k->text(fs, at, &b, NULL);
		epd_buf_free(&b);
	}
	return rc >= 0;
}

int
epd_fs_find(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	for (int i = 0; i < EPD_FS_KINDS; i++)
		if (kinds[i].in >> dir->kind & 1 && kinds[i].name &&
		    !strcmp(kinds[i].name, name)) {
			*out = epd_fs_in(dir, (enum epd_fs_id)i);
			return is_there(fs, out) ? 0 : -ENOENT;
		}
	return kinds[dir->kind].find ? kinds[dir->kind].find(fs, dir, name,
	    out) : -ENOENT;
}

int
epd_fs_list(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < EPD_FS_KINDS; i++)
		if (kinds[i].in >> dir->kind & 1 && kinds[i].name) {
			struct epd_fs_at at = epd_fs_in(dir,
			    (enum epd_fs_id)i);

			if (is_there(fs, &at))
				rc = fn(arg, kinds[i].name, &at);
		}
	return rc || !kinds[dir->kind].list ? rc : kinds[dir->kind].list(fs,
	    dir, fn, arg);
}
