/* model_dir.h - checkpoint directories made for one test, and removed. */
#ifndef TESTS_UNIT_MODEL_DIR_H
#define TESTS_UNIT_MODEL_DIR_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/check.h"
#include "tests/golden.h"

struct dir {
	char path[300];
	int fd;
};

static inline struct dir
dir_new(void)
{
	const char *tmp = getenv("TMPDIR");
	struct dir d;

	snprintf(d.path, sizeof d.path, "%s/epd-model-XXXXXX",
	    tmp ? tmp : "/tmp");
	if (!mkdtemp(d.path) ||
	    (d.fd = open(d.path, O_RDONLY | O_DIRECTORY)) < 0)
		golden_die(d.path, "cannot be made");
	return d;
}

static inline void
dir_free(struct dir *d)
{
	static const char *const known[] = { "config.json",
	    "generation_config.json", "preprocessor_config.json",
	    "model.safetensors", "model.safetensors.index.json",
	    "a.safetensors", "b.safetensors" };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		unlinkat(d->fd, known[i], 0);
	close(d->fd);
	if (rmdir(d->path) < 0)
		printf("# %s: something is left\n", d->path);
}

static inline void
dir_put(struct dir *d, const char *name, const void *p, size_t n)
{
	const struct epd_span part = epd_span(p, n);

	if (epd_file_replace(d->fd, name, &part, 1, 0) < 0)
		golden_die(name, "cannot be written");
}

static inline void
dir_text(struct dir *d, const char *name, const char *text)
{
	dir_put(d, name, text, strlen(text));
}

/* A link to a golden checkpoint's file, as hub caches are made of. */
static inline void
dir_link(struct dir *d, const char *checkpoint, const char *name)
{
	char cwd[300], path[700];

	if (!getcwd(cwd, sizeof cwd))
		golden_die(name, "no working directory");
	snprintf(path, sizeof path, "%s/" GOLDEN "checkpoints/%s/%s", cwd,
	    checkpoint, name);
	unlinkat(d->fd, name, 0);
	if (symlinkat(path, d->fd, name) < 0)
		golden_die(path, "cannot be linked");
}

/* The golden checkpoint's config.json with one text put for another. */
static inline void
dir_config(struct dir *d, const char *checkpoint, const char *was,
    const char *is)
{
	char path[300];
	struct epd_buf b, out = { 0 };
	const char *at;

	snprintf(path, sizeof path, GOLDEN "checkpoints/%s/config.json",
	    checkpoint);
	b = golden_read(path);
	if (!(at = strstr(epd_buf_cstr(&b), was)))
		golden_die(was, "is not in the config");
	epd_buf_put(&out, b.p, (size_t)(at - (const char *)b.p));
	epd_buf_str(&out, is);
	epd_buf_str(&out, at + strlen(was));
	dir_put(d, "config.json", out.p, out.n);
	epd_buf_free(&b);
	epd_buf_free(&out);
}

#endif
