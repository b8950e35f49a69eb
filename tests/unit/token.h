/*
 * token.h - for the tests of engine/token and engine/chat: the published
 * tokenizer, files of JSON lines, directories of a test's own, and an
 * allocator that fails at the nth.
 */
#ifndef TESTS_UNIT_TOKEN_H
#define TESTS_UNIT_TOKEN_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "engine/token/flat.h"
#include "tests/check.h"
#include "tests/golden.h"

#define QWEN3 "tests/data/qwen3-tokenizer/tokenizer.json.zst"

/* Owns: the caller frees by epd_buf_free. */
static inline struct epd_buf
token_qwen3(void)
{
	struct epd_buf packed = golden_read(QWEN3), out = {0};
	unsigned long long n = ZSTD_getFrameContentSize(packed.p, packed.n);
	void *to = n < 64 << 20 ? epd_buf_add(&out, (size_t)n) : NULL;

	if (!to || ZSTD_decompress(to, out.n, packed.p, packed.n) != n)
		golden_die(QWEN3, "cannot be unpacked");
	epd_buf_free(&packed);
	return out;
}

/* The published tokenizer, made once; it lasts as long as the program. */
static inline const struct epd_tokenizer *
token_published(void)
{
	static struct epd_tokenizer *t;
	struct epd_why why = {0};

	if (!t) {
		struct epd_buf json = token_qwen3();

		if (epd_tokenizer_parse(&t, epd_span(json.p, json.n), NULL,
		    &why))
			golden_die(QWEN3, why.text);
		epd_buf_free(&json);
	}
	return t;
}

/* Calls fn for each line; stops when a check has failed. */
static inline void
token_lines(const char *path, void (*fn)(const struct epd_json *line))
{
	struct epd_buf file = golden_read(path);
	const char *p = (const char *)file.p, *end = p + file.n;

	while (p < end && !check_failed) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl : end) - p);
		struct epd_json *line;
		struct epd_why why = {0};

		if (epd_json_parse(&line, epd_span(p, n), path, &why))
			golden_die(path, why.text);
		fn(line);
		epd_json_free(line);
		p += n + 1;
	}
	epd_buf_free(&file);
}

static inline int
token_open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		golden_die(path, "cannot be opened");
	return fd;
}

static inline struct epd_tokenizer *
token_open(const char *path)
{
	int fd = token_open_dir(path);
	struct epd_tokenizer *t = NULL;
	struct epd_why why = {0};

	if (epd_tokenizer_open(&t, fd, &why))
		golden_die(path, why.text);
	close(fd);
	return t;
}

/* A new directory; token_drop_dir removes it. */
static inline int
token_new_dir(char path[64])
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, 64, "%s/epd-token-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(path))
		golden_die(path, "cannot be made");
	return token_open_dir(path);
}

static inline void
token_drop_dir(int fd, const char *path)
{
	close(fd);
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	epd_file_remove(fd, path + 1);
	close(fd);
}

static inline void
token_write(int dirfd, const char *name, const void *p, size_t n)
{
	struct epd_span part = epd_span(p, n);

	if (epd_file_replace(dirfd, name, &part, 1, 0))
		golden_die(name, "cannot be written");
}

static int token_left;

static inline int
token_refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return token_left-- == 0;
}

/* From here on the nth allocation fails, once; below 0 none. */
static inline void
token_fail_at(int n)
{
	token_left = n;
	epd_alloc_hook(n < 0 ? NULL : token_refuse, NULL);
}

/* Whether out holds just the integers of a JSON array. */
static inline int
token_same_ids(const struct epd_ids *out, const struct epd_json *want)
{
	if (out->n != epd_json_count(want))
		return 0;
	for (size_t i = 0; i < out->n; i++)
		if (out->v[i] != epd_json_int(epd_json_at(want, i), -1))
			return 0;
	return 1;
}

static inline int
token_same_text(const struct epd_buf *b, const struct epd_json *want)
{
	struct epd_span s = epd_json_bytes(want);

	return s.p && !b->failed && b->n == s.n &&
	    (!s.n || !memcmp(b->p, s.p, s.n));
}

#endif
