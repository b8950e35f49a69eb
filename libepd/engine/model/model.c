/* model.c - a checkpoint's directory opened, and what it says of itself. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/model/inside.h"

enum { SMALL = 4 << 20 };	/* the most a configuration file may hold */

/* Read the first of two files that is there; an empty buffer if neither is. */
static int
read_first(int dirfd, const char *a, const char *b, struct epd_buf *out,
    struct epd_why *why)
{
	int rc = epd_tensors_read(dirfd, a, SMALL, out, NULL);

	if (rc != -ENOENT)
		return rc < 0 ? epd_why(why, rc, "%s: %s", a,
		    epd_strerror(rc)) : 0;
	if (!b)
		return 0;
	return read_first(dirfd, b, NULL, out, why);
}

static void
describe(struct epd_model_info *i, const struct epd_arch *a)
{
	*i = (struct epd_model_info){
		.family = a->rules->family,
		.model_type = a->rules->model_type,
		.hidden = a->text.hidden, .layers = a->text.layers,
		.heads = a->text.heads, .kv_heads = a->text.kv_heads,
		.head_dim = a->text.dim, .vocab = a->text.vocab,
		.max_position = a->text.max_position,
		.deepstack = a->vision.deep,
		.image_id = a->image_id, .video_id = a->video_id,
		.vision_start = a->vision_start, .vision_end = a->vision_end,
		.pad = a->pad, .n_eos = a->n_eos,
		.top_p = 1, .penalty = 1,
	};
	memcpy(i->eos, a->eos, sizeof i->eos);
}

static int
read_configs(struct epd_model *m, struct epd_why *why)
{
	struct epd_buf buf = { 0 };
	int rc = epd_tensors_read(m->dirfd, "config.json", SMALL, &buf, why);

	if (rc == 0)
		rc = epd_arch_parse(&m->arch, epd_span(buf.p, buf.n), why);
	if (rc < 0)
		goto out;
	describe(&m->info, &m->arch);
	buf.n = 0;
	rc = read_first(m->dirfd, "preprocessor_config.json",
	    "processor_config.json", &buf, why);
	if (rc == 0)
		rc = epd_processor_parse(&m->info.processor, &m->arch.vision,
		    epd_span(buf.p, buf.n), why);
	if (rc < 0)
		goto out;
	buf.n = 0;
	rc = read_first(m->dirfd, "generation_config.json", NULL, &buf, why);
	if (rc == 0 && buf.n > 0)
		rc = epd_generation_parse(&m->info, epd_span(buf.p, buf.n),
		    why);
out:
	epd_buf_free(&buf);
	return rc;
}

int
epd_model_open(struct epd_model **out, const char *dir, struct epd_why *why)
{
	struct epd_model *m = epd_calloc(1, sizeof *m);
	char path[PATH_MAX];
	int rc;

	if (!m)
		return -ENOMEM;
	m->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->dirfd < 0 || !realpath(dir, path)) {
		rc = epd_why(why, -errno, "%.150s: %s", dir, strerror(errno));
		goto fail;
	}
	rc = -ENOMEM;
	if (!(m->path = epd_strdup(path)))
		goto fail;
	if ((rc = read_configs(m, why)) < 0 ||
	    (rc = epd_tensors_open(&m->tensors, m->dirfd, why)) < 0 ||
	    (rc = epd_weights_bind(&m->weights, &m->arch, m->tensors,
	    why)) < 0)
		goto fail;
	*out = m;
	return 0;
fail:
	epd_model_close(m);
	return rc;
}

void
epd_model_close(struct epd_model *m)
{
	if (!m)
		return;
	epd_weights_free(&m->weights);
	epd_tensors_close(m->tensors);
	if (m->dirfd >= 0)
		close(m->dirfd);
	epd_free(m->path);
	epd_free(m);
}

const struct epd_model_info *
epd_model_info(const struct epd_model *m)
{
	return &m->info;
}

int
epd_model_dirfd(const struct epd_model *m)
{
	return m->dirfd;
}

const char *
epd_model_path(const struct epd_model *m)
{
	return m->path;
}

struct epd_span
epd_model_file(const struct epd_model *m, int i, const char **name)
{
	return epd_tensors_file(m->tensors, i, name);
}
