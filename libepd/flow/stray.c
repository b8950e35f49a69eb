/*
 * stray.c - what lies in the store's own folders and is not the store's.
 *
 * A store is durable, and a person may have put something there: what nobody here
 * made is told and left.  Only what has the name of a cache is taken where it is
 * no file, since a cache can be made again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "flow/litter.h"
#include "flow/tiers.h"

enum known {
	FOREIGN,
	OURS,		/* what it is others look at */
	FOLDER,		/* ours if it is one */
	FAN,		/* ours, and has to be one */
	CACHE		/* ours, and has to be a file */
};

struct walk {
	const struct epd_teller *t;
	enum known (*know)(const struct walk *k, const char *name);
	const char *above;	/* the folder's path in the store, or "" */
	int dirfd;
};

static int
is_hex(const char *s, size_t n)
{
	return strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

static int
is_one_of(const char *name, const char *const *of)
{
	while (*of && strcmp(*of, name))
		of++;
	return *of != NULL;
}

/* ---- what each folder has ---- */

/* A tier's folder may have been put into the store; own is where it is otherwise. */
static int
has_tier(const struct epd_store *s, const char *dir, const char *own,
    const char *name)
{
	const size_t n = strlen(s->path), m = strlen(name);

	if (!*dir)
		return !strcmp(name, own);
	if (strncmp(dir, s->path, n) || dir[n] != '/')
		return 0;
	dir += n + strspn(dir + n, "/");
	return !strncmp(dir, name, m) && (!dir[m] || dir[m] == '/');
}

static enum known
of_store(const struct walk *k, const char *name)
{
	static const char *const ours[] = {
		"store", "procs", "metrics", "features", "cache", "w", "serve",
		NULL
	};

	const struct epd_store *s = k->t->s;

	return is_one_of(name, ours) ||
	    has_tier(s, s->config.memory_dir, "memory", name) ||
	    has_tier(s, s->config.tier_nvme_dir, EPD_DISK, name) ? OURS :
	    FOREIGN;
}

static enum known
of_cache(const struct walk *k, const char *name)
{
	const char *hex = strchr(name, '-');

	(void)k;
	return (!strncmp(name, "weights-", 8) ||
	    !strncmp(name, "tokenizer-", 10)) && *++hex &&
	    is_hex(hex, strlen(hex)) ? CACHE : FOREIGN;
}

static enum known
of_features(const struct walk *k, const char *name)
{
	static const char *const ours[] = { "busy", "memo", NULL };

	(void)k;
	return is_one_of(name, ours) ? OURS : is_hex(name, 2) ? FAN : FOREIGN;
}

static enum known
of_fan(const struct walk *k, const char *name)
{
	static const char *const ends[] = { ".meta", ".blob", ".pix", NULL };
	char hex[2 * EPD_NAME + 1];

	if (strlen(name) < 2 * EPD_NAME)
		return FOREIGN;
	snprintf(hex, sizeof hex, "%s", name);
	return is_hex(hex, 2 * EPD_NAME) && is_one_of(name + 2 * EPD_NAME,
	    ends) && !strncmp(strchr(k->above, '/') + 1, hex, 2) ? OURS :
	    FOREIGN;
}

static enum known
of_workflows(const struct walk *k, const char *name)
{
	(void)k;
	return epd_workflow_name_ok(name) ? FOLDER : FOREIGN;
}

static enum known
of_workflow(const struct walk *k, const char *name)
{
	static const char *const ours[] = {
		"tip", "checkpoint", "lock", "unsure", NULL
	};

	(void)k;
	return is_one_of(name, ours) || (!strncmp(name, "log.", 4) &&
	    strlen(name) == 12 && strspn(name + 4, "0123456789") == 8) ?
	    OURS : FOREIGN;
}

/* ---- told and taken ---- */

static int look(const struct epd_teller *t, const char *above,
    enum known (*know)(const struct walk *k, const char *name));

static int
one(void *arg, const char *name)
{
	const struct walk *k = arg;
	const char *slash = *k->above ? "/" : "";
	enum known what = k->know(k, name);
	char fan[32];
	struct stat st;

	if (what == OURS || epd_is_temp(name) || fstatat(k->dirfd, name, &st,
	    AT_SYMLINK_NOFOLLOW) < 0 || (what != FOREIGN && what != CACHE &&
	    what != FAN && S_ISDIR(st.st_mode)))
		return 0;
	if (what == FAN && S_ISDIR(st.st_mode)) {
		snprintf(fan, sizeof fan, "features/%.2s", name);
		return look(k->t, fan, of_fan);
	}
	if (what == FAN)
		epd_tell(k->t, EPD_FAULT, "%s%s%s: %s where a folder should "
		    "be", k->above, slash, name, epd_kind_of(st.st_mode));
	else if (what == CACHE && !S_ISREG(st.st_mode))
		epd_tell(k->t, EPD_LITTER, "%s%s%s: no plain file", k->above,
		    slash, name);
	else if (what != CACHE)
		epd_tell(k->t, EPD_FOREIGN, "%s%s%.120s: %s that is not the "
		    "store's; left alone", k->above, slash, name,
		    epd_kind_of(st.st_mode));
	return 0;
}

/* What cannot be looked into others tell of. */
static int
may_pass(int rc)
{
	return rc != -ENOMEM && rc != -EMFILE && rc != -ENFILE;
}

static int
look(const struct epd_teller *t, const char *above,
    enum known (*know)(const struct walk *k, const char *name))
{
	struct walk k = { t, know, above, -1 };
	int rc;

	k.dirfd = epd_file_open(t->s->dirfd, *above ? above : ".",
	    O_RDONLY | O_DIRECTORY, 0);
	if (k.dirfd < 0)
		return may_pass(k.dirfd) ? 0 : k.dirfd;
	rc = epd_dir_each(k.dirfd, one, &k);
	close(k.dirfd);
	return rc;
}

static int
in_workflow(void *arg, const char *name)
{
	char above[EPD_WORKFLOW + 2];

	snprintf(above, sizeof above, "w/%s", name);
	return look(arg, above, of_workflow);
}

int
epd_stray_tell(const struct epd_teller *t, const char *workflow)
{
	struct epd_teller whole = *t;
	int rc;

	if (workflow)
		return in_workflow(&whole, workflow);
	if ((rc = look(t, "", of_store)) < 0 ||
	    (rc = look(t, "cache", of_cache)) < 0 ||
	    (rc = look(t, "features", of_features)) < 0 ||
	    (rc = look(t, "w", of_workflows)) < 0)
		return rc;
	return epd_workflow_each(t->s, in_workflow, &whole);
}

struct taking {
	struct epd_store *s;
	struct epd_swept *out;
};

static int
take(void *arg, const char *name)
{
	const struct taking *k = arg;
	struct stat st;

	if (of_cache(NULL, name) == CACHE && fstatat(k->s->cache, name, &st,
	    AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		epd_litter_remove(k->s->cache, name, &k->out->temporaries,
		    &k->out->temporary_bytes);
	return 0;
}

int
epd_stray_take(struct epd_store *s, struct epd_swept *out)
{
	struct taking k = { s, out };

	return s->cache < 0 ? 0 : epd_dir_each(s->cache, take, &k);
}
