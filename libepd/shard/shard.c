/*
 * shard.c - opening a workflow, keeping up with its log, and its checkpoints.
 *
 * Loading begins at the checkpoint and goes on in the segment that names; with
 * no checkpoint, or a damaged one, at the log's first record if that is kept.
 * A reader may find a segment gone because a newer checkpoint made it needless:
 * it loads again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "shard/checkpoint.h"
#include "shard/shard_in.h"

void
epd_shard_lend(struct epd_shard *s)
{
	epd_arena_free(&s->lent);
	s->lending++;
}

int
epd_shard_replay(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	struct epd_shard *s = arg;
	int rc = epd_apply(s->table, r, why);

	/* Whoever wrote the record was told what it freed. */
	s->table->freed = NULL;
	return rc;
}

/* From the log's first record, damaged telling why not from the checkpoint. */
static int
load_log(struct epd_shard *s, int damaged, struct epd_table **out,
    const struct epd_why *damage, struct epd_why *why)
{
	uint32_t first, last;
	int rc = epd_wal_seek(s->wal, 1, 0, why);

	if (!rc)
		return epd_table_new(out);
	if (rc != -ENOENT)
		return rc;
	if (damaged)
		return epd_why(why, damaged, "%s, and the log's first records "
		    "are gone", damage->text);
	rc = epd_wal_range(s->dirfd, &first, &last);
	if (rc)
		return rc;
	return epd_why(why, -ESTALE, "log.%08u: the log begins here, and there "
	    "is no checkpoint", first);
}

static int
load_once(struct epd_shard *s, struct epd_table **out, struct epd_why *why)
{
	struct epd_why damage = { "" };
	uint8_t uuid[16];
	uint32_t segment;
	uint64_t size = 0;
	int rc;

	rc = epd_checkpoint_read(s->dirfd, out, &segment, &size, &damage);
	if (rc == -ENOENT || rc == EPD_ECORRUPT) {
		rc = load_log(s, rc == -ENOENT ? 0 : rc, out, &damage, why);
		if (!rc)
			epd_wal_uuid(s->wal, (*out)->uuid);
		return rc;
	}
	if (rc)
		return epd_why(why, rc, "%s", *damage.text ? damage.text :
		    epd_strerror(rc));
	rc = epd_wal_seek(s->wal, segment, (*out)->lsn, why);
	epd_wal_uuid(s->wal, uuid);
	if (!rc && memcmp(uuid, (*out)->uuid, 16))
		rc = epd_why(why, EPD_ECORRUPT, "checkpoint: of another "
		    "workflow");
	if (rc)
		epd_table_free(*out);
	if (!rc) {
		s->checkpoint_size = size;
		s->checkpoint_segment = segment;
	}
	return rc == -ENOENT ? epd_why(why, -ESTALE, "checkpoint: the log goes "
	    "on in log.%08u, which is gone", segment) : rc;
}

int
epd_shard_load(struct epd_shard *s, struct epd_why *why)
{
	struct epd_table *t;
	int rc;

	/* A record that is gone, or another now, freed nothing. */
	epd_shard_forget_untold(s);
	for (int i = 0; ; i++) {
		rc = load_once(s, &t, why);
		if (rc != -ESTALE || i == EPD_SHARD_TRIES)
			break;
		epd_clock_sleep_ns(200000);
	}
	if (rc)
		return rc == -ESTALE ? EPD_ECORRUPT : rc;
	epd_table_free(s->table);
	s->table = t;
	s->stale = 0;
	return 0;
}

int
epd_shard_catch_up(struct epd_shard *s, struct epd_why *why)
{
	int rc;

	epd_shard_lend(s);
	for (int i = 0; ; i++) {
		rc = s->stale ? -ESTALE :
		    epd_wal_read(s->wal, epd_shard_replay, s, why);
		if (rc != -ESTALE || i == EPD_SHARD_TRIES)
			break;
		s->stale = 1;
		rc = epd_shard_load(s, why);
		if (rc)
			break;
	}
	return rc == -ESTALE ? EPD_ECORRUPT : rc;
}

/* There was no log: none at all, lost, or begun since. */
static int
load_late(struct epd_shard *s, struct epd_why *why)
{
	struct epd_why lost = { "" };
	int gone = epd_wal_lost(s->wal, &lost), rc = epd_shard_load(s, why);

	if (rc != -ENOENT)
		return rc;
	return gone ? epd_why(why, gone, "%s", lost.text) :
	    epd_why(why, rc, "no log here");
}

static int
removed(struct epd_why *why)
{
	return epd_why(why, EPD_ESTALE, "the workflow was empty, and was "
	    "removed meanwhile");
}

/*
 * The lock, if it is the workflow's still: who unmade that took its name, and
 * others may have one of their own by now.
 */
static int
take(struct epd_shard *s, struct epd_why *why)
{
	const uint64_t ms = s->vain < EPD_SHARD_ONCE ?
	    s->o.lock_timeout_ms >> 2 * s->vain : 0;
	int rc = epd_lock_take(s->lockfd, ms, why);

	if (rc == EPD_ELOCKED)
		s->vain += s->vain < EPD_SHARD_ONCE;
	if (rc)
		return rc;
	s->vain = 0;
	if (!epd_wal_unlinked(s->lockfd))
		return 0;
	epd_lock_drop(s->lockfd);
	return removed(why);
}

/* It is another node's by now: what this one writes would be too late. */
static int
fence(const struct epd_shard *s, struct epd_why *why)
{
	const char *owner = s->table->owner, *self = s->o.owner;

	if (!self || !*self || !*owner || !strcmp(self, owner))
		return 0;
	epd_count(s->o.metrics, EPD_M_DIR_FENCED, 1);
	return epd_why(why, EPD_ELEASE, "it is node %.60s's since term %llu, and "
	    "this is node %.60s", owner, (unsigned long long)s->table->term,
	    self);
}

int
epd_shard_begin(struct epd_shard *s, struct epd_why *why)
{
	int rc;

	if (s->o.read_only)
		return epd_why(why, -EROFS, "opened for reading only");
	/* A child has its parent's locks: to it they are no locks. */
	if (s->pid != getpid())
		return epd_why(why, -EPERM, "opened by process %d; a child of "
		    "fork opens it again", (int)s->pid);
	pthread_mutex_lock(&s->mutex);
	rc = take(s, why);
	if (rc) {
		pthread_mutex_unlock(&s->mutex);
		return rc;
	}
	epd_shard_lend(s);
	rc = s->stale ? -ESTALE :
	    epd_wal_adopt(s->wal, epd_shard_replay, s, why);
	if (rc == -ESTALE) {
		s->stale = 1;
		rc = load_late(s, why);
		if (rc == -ENOENT)
			rc = removed(why);
		else if (!rc)
			rc = epd_wal_adopt(s->wal, epd_shard_replay, s, why);
	}
	if (!rc && !s->owning)
		rc = fence(s, why);
	if (rc)
		epd_shard_leave(s);
	return rc;
}

int
epd_shard_own(struct epd_shard *s, const char *node, uint64_t term,
    struct epd_why *why)
{
	const struct epd_term t = { term, "owned by a node", node };
	int rc;

	s->owning = 1;
	rc = epd_shard_begin(s, why);
	s->owning = 0;
	if (rc)
		return rc;
	if (term <= s->table->term) {
		rc = epd_why(why, EPD_ESTALE, "term %llu is over",
		    (unsigned long long)term);
	} else {
		epd_frame_begin(&s->frame);
		epd_term_pack(&s->frame, &t);
		rc = epd_shard_append(s, why);
	}
	return epd_shard_end(s, rc, why);
}

const char *
epd_shard_owner(const struct epd_shard *s)
{
	return s->table->owner;
}

void
epd_shard_leave(struct epd_shard *s)
{
	epd_lock_drop(s->lockfd);
	pthread_mutex_unlock(&s->mutex);
}

/* Under the lock, so that of two makers one finds what the other made. */
static int
make(struct epd_shard *s, struct epd_why *why)
{
	int rc = take(s, why);

	if (rc)
		return rc;
	rc = epd_shard_load(s, why);
	if (rc == -ENOENT) {
		rc = epd_wal_begin(s->wal, why);
		if (!rc)
			rc = epd_table_new(&s->table);
		if (!rc)
			epd_wal_uuid(s->wal, s->table->uuid);
	}
	epd_lock_drop(s->lockfd);
	return rc;
}

/* Read what is published; settle the rest if this handle may write. */
static int
start(struct epd_shard *s, struct epd_why *why)
{
	const unsigned vain = s->vain;
	struct epd_why busy = { "" };
	int rc = epd_shard_load(s, why), damaged;

	if (rc == -ENOENT)
		rc = s->o.read_only ? load_late(s, why) : make(s, why);
	if (rc)
		return rc;
	rc = epd_shard_catch_up(s, why);
	if (s->o.read_only)
		return rc;
	damaged = rc == EPD_ECORRUPT && epd_wal_tipless(s->wal);
	if ((rc && !damaged) || !epd_wal_unsettled(s->wal))
		return rc;
	/* The verb that follows waits for the lock, and settles it as well. */
	s->vain = damaged ? vain : EPD_SHARD_ONCE;
	rc = epd_shard_begin(s, &busy);
	s->vain = rc == EPD_ELOCKED ? vain : s->vain;
	if (!rc) {
		rc = epd_wal_settle(s->wal, &busy);
		epd_shard_leave(s);
	}
	if (rc && (rc != EPD_ELOCKED || damaged))
		return epd_why(why, rc, "%s", *busy.text ? busy.text :
		    epd_strerror(rc));
	return 0;
}

int
epd_shard_open(struct epd_shard **out, int dirfd,
    const struct epd_shard_options *o, struct epd_why *why)
{
	int flags = (o->read_only ? EPD_WAL_READ : 0) |
	    (o->sync ? 0 : EPD_WAL_RELAXED);
	struct epd_shard *s = epd_calloc(1, sizeof *s);
	int rc;

	if (!s)
		return -ENOMEM;
	s->dirfd = dirfd;
	s->lockfd = -1;
	s->pid = getpid();
	s->o = *o;
	s->vain = o->vain < EPD_SHARD_ONCE ? o->vain : EPD_SHARD_ONCE;
	pthread_mutex_init(&s->mutex, NULL);
	epd_group_init(&s->group);
	rc = epd_wal_open(&s->wal, dirfd, flags, o->metrics);
	if (!rc && !o->read_only) {
		s->lockfd = epd_file_open(dirfd, "lock", O_RDWR | O_CREAT,
		    0600);
		if (s->lockfd < 0)
			rc = epd_why(why, s->lockfd, "lock: %s",
			    epd_strerror(s->lockfd));
	}
	if (!rc)
		rc = start(s, why);
	if (rc) {
		epd_shard_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void
epd_shard_close(struct epd_shard *s)
{
	if (!s)
		return;
	epd_group_free(&s->group);
	pthread_mutex_destroy(&s->mutex);
	epd_table_free(s->table);
	epd_wal_close(s->wal);
	if (s->lockfd >= 0)
		close(s->lockfd);
	epd_arena_free(&s->lent);
	epd_arena_free(&s->pass);
	epd_buf_free(&s->frame);
	epd_buf_free(&s->untold);
	epd_free(s);
}

unsigned
epd_shard_vain(const struct epd_shard *s)
{
	return s->vain;
}

int
epd_shard_unsettled(struct epd_shard *s)
{
	return epd_wal_unsettled(s->wal);
}

uint64_t
epd_shard_lsn(const struct epd_shard *s)
{
	return s->table->lsn;
}

uint64_t
epd_shard_term(const struct epd_shard *s)
{
	return s->table->term;
}

void
epd_shard_uuid(const struct epd_shard *s, uint8_t uuid[16])
{
	memcpy(uuid, s->table->uuid, 16);
}

static int
body_of(void *arg, const struct epd_node *n, struct epd_span *out)
{
	return epd_shard_body(arg, n, out);
}

int
epd_shard_save(struct epd_shard *s, struct epd_why *why)
{
	struct epd_table *t;
	uint32_t segment;
	uint64_t size;
	int rc = epd_wal_rotate(s->wal, why);

	if (rc)
		return rc;
	segment = epd_wal_pos(s->wal)->segment;
	rc = epd_checkpoint_write(s->dirfd, s->table, segment, body_of, s,
	    &size);
	if (rc)
		return epd_why(why, rc, "checkpoint: %s", epd_strerror(rc));
	epd_count(s->o.metrics, EPD_M_CHECKPOINTS, 1);
	epd_log(s->o.log, "op=checkpoint lsn=%llu segment=%u bytes=%llu",
	    (unsigned long long)s->table->lsn, segment,
	    (unsigned long long)size);
	epd_wal_sweep(s->wal, s->o.log_keep < 0 ||
	    s->o.log_keep >= segment ? 0 : segment - (uint32_t)s->o.log_keep);
	/* From the file the bodies need no memory; without it all goes on. */
	s->checkpoint_size = size;
	s->checkpoint_segment = segment;
	if (!epd_checkpoint_read(s->dirfd, &t, &segment, &size, NULL)) {
		epd_table_free(s->table);
		s->table = t;
	}
	return 0;
}

int
epd_shard_checkpoint(struct epd_shard *s, struct epd_why *why)
{
	int rc = epd_shard_begin(s, why);

	if (rc)
		return rc;
	rc = epd_shard_save(s, why);
	epd_shard_leave(s);
	return rc;
}

int
epd_shard_sync(struct epd_shard *s, struct epd_why *why)
{
	int rc = epd_shard_begin(s, why);

	if (rc)
		return rc;
	rc = epd_wal_flush(s->wal, why);
	epd_shard_leave(s);
	return rc;
}
