/* tongue.c - tokenizers, the one used last first; those beyond a few go. */
#include "fs/tongue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { KEPT = 8 };

struct epd_fs_tongue {
	struct epd_fs_tongue *next;
	struct epd_tokenizer *t;
	dev_t dev;			/* its file, */
	ino_t ino;
	struct timespec changed;
	unsigned uses;			/* those who have it, and the list */
	char model[];
};

/* Under the lock of tongues, as all up to find. */
static void
let_go(struct epd_fs_tongue *t)
{
	if (--t->uses)
		return;
	epd_tokenizer_close(t->t);
	epd_free(t);
}

static void
take_off(struct epd_fs_tongue **at)
{
	struct epd_fs_tongue *t = *at;

	*at = t->next;
	let_go(t);
}

static void
put_first(struct epd_fs *fs, struct epd_fs_tongue *t)
{
	struct epd_fs_tongue **at = &fs->tongue;

	t->next = fs->tongue;
	fs->tongue = t;
	for (int i = 0; i < KEPT && *at; i++)
		at = &(*at)->next;
	while (*at)
		take_off(at);
}

/* The model's, moved to the front; st NULL: whatever its file is by now. */
static struct epd_fs_tongue *
find(struct epd_fs *fs, const char *model, const struct stat *st)
{
	struct epd_fs_tongue **at = &fs->tongue, *t;

	while ((t = *at) && strcmp(t->model, model))
		at = &t->next;
	if (!t)
		return NULL;
	if (st && (t->ino != st->st_ino || t->dev != st->st_dev ||
	    t->changed.tv_sec != st->st_mtim.tv_sec ||
	    t->changed.tv_nsec != st->st_mtim.tv_nsec)) {
		take_off(at);
		return NULL;
	}
	*at = t->next;
	put_first(fs, t);
	t->uses++;
	return t;
}

static int
load(struct epd_fs_tongue **out, const char *model, int fd,
    const struct stat *st, struct epd_why *why)
{
	struct epd_fs_tongue *t = epd_calloc(1, sizeof *t + strlen(model) + 1);
	int rc;

	if (!t)
		return -ENOMEM;
	strcpy(t->model, model);
	t->dev = st->st_dev;
	t->ino = st->st_ino;
	t->changed = st->st_mtim;
	t->uses = 2;
	if ((rc = epd_tokenizer_open(&t->t, fd, why)) < 0)
		epd_free(t);
	else
		*out = t;
	return rc;
}

int
epd_fs_tongue_get(struct epd_fs *fs, const char *model,
    struct epd_fs_tongue **out, struct epd_why *why)
{
	struct epd_fs_tongue *t = NULL;
	struct stat st;
	int fd = open(model, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	/* Gone out of reach is no damage: the words come back with it. */
	if (fd < 0 || fstatat(fd, "tokenizer.json", &st, 0) < 0)
		rc = epd_why(why, -ENODATA, "%s: %s", model, strerror(errno));
	if (rc == 0) {
		pthread_mutex_lock(&fs->tongues);
		t = find(fs, model, &st);
		pthread_mutex_unlock(&fs->tongues);
	}
	if (rc == 0 && !t && (rc = load(&t, model, fd, &st, why)) == 0) {
		pthread_mutex_lock(&fs->tongues);
		put_first(fs, t);
		pthread_mutex_unlock(&fs->tongues);
	}
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		*out = t;
	return rc;
}

struct epd_fs_tongue *
epd_fs_tongue_kept(struct epd_fs *fs, const char *model)
{
	struct epd_fs_tongue *t;

	pthread_mutex_lock(&fs->tongues);
	t = find(fs, model, NULL);
	pthread_mutex_unlock(&fs->tongues);
	return t;
}

const struct epd_tokenizer *
epd_fs_tongue_of(const struct epd_fs_tongue *t)
{
	return t->t;
}

void
epd_fs_tongue_put(struct epd_fs *fs, struct epd_fs_tongue *t)
{
	pthread_mutex_lock(&fs->tongues);
	let_go(t);
	pthread_mutex_unlock(&fs->tongues);
}

void
epd_fs_tongues_close(struct epd_fs *fs)
{
	while (fs->tongue)
		take_off(&fs->tongue);
}
