/*
 * safetensors.h - the tensors of a checkpoint directory, mapped read-only.
 * Format: u64 length, a JSON header of that length, data.  Source: the format
 * section of huggingface/safetensors' README.
 */
#ifndef EPD_ENGINE_MODEL_SAFETENSORS_H
#define EPD_ENGINE_MODEL_SAFETENSORS_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { EPD_TENSOR_DIMS = 8 };

struct epd_tensor {
	const char *name;
	const char *type;	/* "BF16", ... */
	int dims, file;
	int64_t dim[EPD_TENSOR_DIMS];
	const void *data;	/* at any address */
	size_t bytes;
};

struct epd_tensors;

/*
 * Open model.safetensors in dirfd, or the files model.safetensors.index.json
 * names; links among them are followed.  All of every header is checked: known
 * types, shapes that fit their bytes, no gap and no overlap.
 * Fails: EPD_EFORMAT, EPD_ETOOBIG (a header over 16 MiB), -ENOMEM, -errno.
 * Owns: the caller owns *out.
 */
int epd_tensors_open(struct epd_tensors **out, int dirfd, struct epd_why *why);
void epd_tensors_close(struct epd_tensors *t);

/* NULL if there is none of that name. */
const struct epd_tensor *epd_tensors_find(const struct epd_tensors *t,
    const char *name);
/* File i by name: its bytes; n 0 past the last. */
struct epd_span epd_tensors_file(const struct epd_tensors *t, int i,
    const char **name);

/*
 * Read a small file beside them, links followed.  Fails: EPD_ETOOBIG, -ENOENT
 * and other -errno.
 */
int epd_tensors_read(int dirfd, const char *name, size_t max,
    struct epd_buf *out, struct epd_why *why);

#endif
