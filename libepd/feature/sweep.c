/*
 * sweep.c - what nobody needs is taken out, and all that stays is checked.
 *
 * What is incomplete is a commit under way or what a dead one left.  A sweep has
 * the lock of `busy` alone for an instant: nobody was committing then, so
 * whatever is older than that instant is nobody's.  If somebody always is, only
 * what is older than an hour is taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "feature/list.h"

enum { QUIET_MS = 2000, UNSURE_MS = 3600000 };

struct sweep {
	struct epd_features *c;
	uint64_t before_ms;	/* wall clock */
	int (*keep)(void *arg, const struct epd_name *fp);
	void *arg;
	struct epd_feature_swept gone;
	int dir;	/* of the fan, while its temporaries are looked at */
};

static int
old(const struct sweep *s, const struct stat *st)
{
	uint64_t ms = (uint64_t)st->st_mtim.tv_sec * 1000 +
	    (uint64_t)st->st_mtim.tv_nsec / 1000000;

	return ms <= s->before_ms;
}

static int
old_file(const struct sweep *s, const struct epd_name *fp, int which)
{
	char path[EPD_FEATURE_PATH];
	struct stat st;

	epd_feature_path(path, fp, which);
	return !fstatat(s->c->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) &&
	    old(s, &st);
}

static int
sweep_temp(void *arg, const char *name)
{
	struct sweep *s = arg;
	struct stat st;

	if (!epd_is_temp(name) ||
	    fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) || !old(s, &st))
		return 0;
	if (unlinkat(s->dir, name, 0))
		return errno == ENOENT ? 0 : -errno;
	s->gone.orphans++;
	s->gone.bytes += (uint64_t)st.st_size;
	return 0;
}

static int
wanted(const struct sweep *s, const struct epd_name *fp)
{
	return s->keep && s->keep(s->arg, fp);
}

/* Something else than a file stands under a name of ours. */
static int
is_odd(int rc)
{
	return rc == -EINVAL || rc == -EISDIR || rc == -ELOOP ||
	    rc == -ESPIPE || rc == -ENXIO;
}

/* A pair whose two files are there: 1 if it stays. */
static int
sweep_pair(struct sweep *s, const struct epd_name *fp)
{
	const int pair = EPD_HAS_META | EPD_HAS_BLOB;
	struct epd_feature_meta m;
	int rc = epd_feature_meta(s->c, fp, &m);

	/* Gone meanwhile, a newer program's, or nobody's: check names it. */
	if (rc == -ENOENT || rc == EPD_EKIND || is_odd(rc))
		return 1;
	if (rc == EPD_ECORRUPT) {
		epd_count(s->c->metrics, EPD_M_CORRUPT_META, 1);
		s->gone.orphans++;
	} else if (rc) {
		return rc;
	} else if (epd_feature_expired(s->c, fp, m.deadline_ms)) {
		epd_count(s->c->metrics, EPD_M_MM_EXPIRED, 1);
		s->gone.expired++;
	} else {
		return 1;
	}
	return epd_feature_unlink(s->c, fp, pair, &s->gone.bytes);
}

static int
sweep_one(struct sweep *s, const struct epd_feature_found *f)
{
	int stays = 0, lone = f->has & (EPD_HAS_META | EPD_HAS_BLOB), rc;

	if (lone == (EPD_HAS_META | EPD_HAS_BLOB)) {
		stays = sweep_pair(s, &f->fp);
		if (stays < 0)
			return stays;
	} else if (lone) {
		stays = !old_file(s, &f->fp, lone);
		if (!stays) {
			rc = epd_feature_unlink(s->c, &f->fp, lone,
			    &s->gone.bytes);
			if (rc)
				return rc;
			s->gone.orphans++;
		}
	}
	if (stays || !(f->has & EPD_HAS_PIX) || wanted(s, &f->fp) ||
	    !old_file(s, &f->fp, EPD_HAS_PIX))
		return 0;
	if (f->has == EPD_HAS_PIX)
		s->gone.orphans++;
	return epd_feature_unlink(s->c, &f->fp, EPD_HAS_PIX, &s->gone.bytes);
}

static int
sweep_temps(struct sweep *s, const char *fan)
{
	int rc;

	s->dir = epd_file_open(s->c->dirfd, fan, O_RDONLY | O_DIRECTORY, 0);
	if (s->dir < 0)
		return s->dir == -ENOENT ? 0 : s->dir;
	rc = epd_dir_each(s->dir, sweep_temp, s);
	close(s->dir);
	return rc;
}

int
epd_feature_sweep(struct epd_features *c, uint64_t grace_ms,
    int (*keep)(void *arg, const struct epd_name *fp), void *arg,
    struct epd_feature_swept *out)
{
	struct sweep s = { .c = c, .keep = keep, .arg = arg };
	int rc = epd_lock_wait(c->busy, QUIET_MS);

	s.before_ms = epd_clock_wall_ms();
	if (rc == 0)
		epd_lock_drop(c->busy);
	else if (rc != EPD_ELOCKED)
		return rc;
	else if (grace_ms < UNSURE_MS)
		grace_ms = UNSURE_MS;
	s.before_ms -= grace_ms < s.before_ms ? grace_ms : s.before_ms;
	rc = 0;
	for (int fan = 0; !rc && fan < 256; fan++) {
		struct epd_feature_list l = { .at = NULL };

		rc = epd_feature_list(c, fan, &l);
		for (size_t i = 0; !rc && i < l.n; i++)
			rc = sweep_one(&s, &l.at[i]);
		if (!rc && l.fan[0])
			rc = sweep_temps(&s, l.fan);
		epd_feature_list_free(&l);
	}
	if (!rc)
		*out = s.gone;
	return rc;
}

/* ---- check ---- */

struct check {
	struct epd_features *c;
	void (*fn)(void *arg, const char *fault);
	void *arg;
	int faults;
};

static void
fault(struct check *k, const struct epd_name *fp, const char *what)
{
	char hex[2 * EPD_NAME + 1];
	struct epd_why text;

	k->faults++;
	epd_hex_format(hex, fp->b, EPD_NAME);
	epd_why(&text, 0, "f:%s: %s", hex, what);
	if (k->fn)
		k->fn(k->arg, text.text);
}

static int
check_meta(struct check *k, const struct epd_name *fp)
{
	struct epd_why why = { "" };
	struct epd_feature_meta m;
	struct epd_buf b = { 0 };
	uint64_t sum = 0;
	int rc = epd_meta_read(k->c, fp, &b);

	if (rc == -ENOENT)
		return 0;
	if (!rc)
		rc = epd_meta_parse(epd_span(b.p, b.n), &m, &sum, &why);
	epd_buf_free(&b);
	if (!rc && !epd_name_equal(&m.fp, fp))
		rc = epd_why(&why, EPD_ECORRUPT, "meta: of another feature");
	if (!rc)
		rc = epd_blob_read(k->c, fp, m.bytes, sum, NULL, &why);
	/* Deleted meanwhile, meta first, is no fault. */
	if (rc == -ENOENT && epd_feature_has(k->c, fp, EPD_HAS_META))
		rc = epd_why(&why, EPD_ECORRUPT, "blob: missing");
	if (is_odd(rc))
		fault(k, fp, "one of its names is no plain file's");
	else if (rc == EPD_ECORRUPT || rc == EPD_EKIND || rc == EPD_ETOOBIG)
		fault(k, fp, why.text[0] ? why.text : epd_strerror(rc));
	else if (rc && rc != -ENOENT)
		return rc;
	return 0;
}

static int
check_pix(struct check *k, const struct epd_name *fp)
{
	struct epd_why why = { "" };
	uint8_t *rgb = NULL;
	uint32_t h, w;
	int rc = epd_pix_read(k->c, fp, &rgb, &h, &w, &why);

	epd_free(rgb);
	if (is_odd(rc))
		fault(k, fp, "its picture is no plain file");
	else if (rc == EPD_ECORRUPT)
		fault(k, fp, why.text[0] ? why.text : epd_strerror(rc));
	return rc == EPD_ECORRUPT || rc == -ENOENT || is_odd(rc) ? 0 : rc;
}

int
epd_feature_check(struct epd_features *c,
    void (*fn)(void *arg, const char *fault), void *arg)
{
	struct check k = { .c = c, .fn = fn, .arg = arg };
	int rc = 0;

	for (int fan = 0; !rc && fan < 256; fan++) {
		struct epd_feature_list l = { .at = NULL };

		rc = epd_feature_list(c, fan, &l);
		for (size_t i = 0; !rc && i < l.n; i++) {
			if (l.at[i].has & EPD_HAS_META)
				rc = check_meta(&k, &l.at[i].fp);
			if (!rc && l.at[i].has & EPD_HAS_PIX)
				rc = check_pix(&k, &l.at[i].fp);
		}
		epd_feature_list_free(&l);
	}
	return rc ? rc : k.faults;
}
