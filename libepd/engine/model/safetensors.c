/*
 * safetensors.c - files in order of name; their tensors in one table in order
 * of name, then file.
 *
 *  1. A tensor's bytes lie in its mapped file, and are as many as its shape
 *     and type say.
 *  2. The tensors of a file cover its data from first byte to last, each once.
 *  3. With an index, the table holds what the index lists and no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/model/safetensors.h"

#define INDEX "model.safetensors.index.json"

enum { FILES = 4096, TENSORS = 1 << 20, HEADER = 16 << 20 };

static const struct {
	const char *name;
	int64_t bytes;
} types[] = {
	{ "BF16", 2 }, { "F16", 2 }, { "F32", 4 }, { "F64", 8 }, { "BOOL", 1 },
	{ "U8", 1 }, { "I8", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 },
	{ "F8_E8M0", 1 }, { "I16", 2 }, { "U16", 2 }, { "I32", 4 },
	{ "U32", 4 }, { "I64", 8 }, { "U64", 8 }, { "C64", 8 },
};

struct file {
	char *name, *names;	/* its own, and those of its tensors */
	void *map;
	size_t size;
};

struct epd_tensors {
	struct file *file;
	int files;
	struct epd_tensor *at;
	size_t n;
};

/* Open a regular file that name's directory holds or links to. */
static int
open_here(int dirfd, const char *name, struct stat *st, struct epd_why *why)
{
	int fd;

	if (!*name || strchr(name, '/') || !strcmp(name, ".."))
		return epd_why(why, EPD_EFORMAT,
		    "%.80s is not the name of a file here", name);
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return epd_why(why, -errno, "%.80s: %s", name,
		    strerror(errno));
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	close(fd);
	return epd_why(why, EPD_EFORMAT, "%.80s is not a regular file", name);
}

int
epd_tensors_read(int dirfd, const char *name, size_t max, struct epd_buf *out,
    struct epd_why *why)
{
	struct stat st;
	int rc, fd = open_here(dirfd, name, &st, why);

	if (fd < 0)
		return fd;
	rc = epd_file_slurp(fd, max, out);
	close(fd);
	return rc < 0 ? epd_why(why, rc, "%.80s: %s", name, epd_strerror(rc)) :
	    0;
}

/* Shape and type into t; its bytes, or -1 if that is no tensor. */
static int64_t
measure(struct epd_tensor *t, const struct epd_json *j)
{
	const char *type = epd_json_str(epd_json_get(j, "dtype"), "");
	const struct epd_json *shape = epd_json_get(j, "shape");
	size_t dims = epd_json_count(shape), i;
	int64_t n;

	for (i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(type, types[i].name))
			break;
	if (i == sizeof types / sizeof *types || dims > EPD_TENSOR_DIMS ||
	    epd_json_type(shape) != EPD_JSON_ARRAY)
		return -1;
	t->type = types[i].name;
	t->dims = (int)dims;
	n = types[i].bytes;
	for (i = 0; i < dims; i++) {
		t->dim[i] = epd_json_int(epd_json_at(shape, i), -1);
		if (t->dim[i] < 0 || __builtin_mul_overflow(n, t->dim[i], &n))
			return -1;
	}
	return n;
}

static int
read_entry(struct epd_tensor *t, const struct epd_json *j, const char *data,
    size_t size, const char *file, struct epd_why *why)
{
	const struct epd_json *o = epd_json_get(j, "data_offsets");
	int64_t from = epd_json_int(epd_json_at(o, 0), -1);
	int64_t to = epd_json_int(epd_json_at(o, 1), -1);
	int64_t n = measure(t, j);

	if (n < 0)
		return epd_why(why, EPD_EFORMAT, "%.80s: %.80s: bad dtype or "
		    "shape", file, t->name);
	if (epd_json_type(o) != EPD_JSON_ARRAY || epd_json_count(o) != 2 ||
	    from < 0 || to < from || (uint64_t)to > size)
		return epd_why(why, EPD_EFORMAT, "%.80s: %.80s: data_offsets "
		    "are not in the file", file, t->name);
	if (to - from != n)
		return epd_why(why, EPD_EFORMAT, "%.80s: %.80s: %lld bytes "
		    "for a shape of %lld", file, t->name,
		    (long long)(to - from), (long long)n);
	t->data = data + from;
	t->bytes = (size_t)n;
	return 0;
}

static int
by_place(const void *a, const void *b)
{
	const struct epd_tensor *x = a, *y = b;

	if (x->data != y->data)
		return (const char *)x->data < (const char *)y->data ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int
by_name(const void *a, const void *b)
{
	const struct epd_tensor *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->file - y->file;
}

/* Invariant 2 of the n tensors of a file. */
static int
covered(struct epd_tensor *t, size_t n, const char *data, size_t size,
    const char *file, struct epd_why *why)
{
	const char *at = data;

	qsort(t, n, sizeof *t, by_place);
	for (size_t i = 0; i < n; at += t[i++].bytes)
		if (t[i].data != at)
			return epd_why(why, EPD_EFORMAT,
			    "%.80s: %.80s: %s before its data", file,
			    t[i].name, (const char *)t[i].data > at ?
			    "a gap" : "an overlap");
	if (at != data + size)
		return epd_why(why, EPD_EFORMAT,
		    "%.80s: %zu bytes belong to no tensor", file,
		    (size_t)(data + size - at));
	return 0;
}

/* Append the tensors of file f, whose header is head and data follows it. */
static int
read_header(struct epd_tensors *t, int f, struct epd_span head,
    struct epd_why *why)
{
	struct file *file = &t->file[f];
	const char *data = (const char *)head.p + head.n;
	size_t size = file->size - head.n - 8, n = 0;
	struct epd_json_iter it;
	struct epd_tensor *at;
	struct epd_json *j;
	char *name;
	int rc = epd_json_parse(&j, head, file->name, why);

	if (rc < 0)
		return rc;
	rc = -ENOMEM;
	/* A name takes no more bytes, NUL and all, than it does in JSON. */
	if (!(name = file->names = epd_malloc(head.n + 1)))
		goto out;
	if (epd_json_type(j) != EPD_JSON_OBJECT ||
	    epd_json_count(j) + t->n > TENSORS) {
		rc = epd_why(why, EPD_EFORMAT, "%.80s: bad header",
		    file->name);
		goto out;
	}
	at = epd_realloc(t->at, (t->n + epd_json_count(j) + 1) * sizeof *at);
	if (!at)
		goto out;
	t->at = at;
	at += t->n;
	rc = 0;
	for (it = epd_json_begin(j); rc == 0 && epd_json_next(&it);) {
		if (!strcmp(it.key, "__metadata__"))
			continue;
		at[n] = (struct epd_tensor){ .name = name, .file = f };
		name = stpcpy(name, it.key) + 1;
		rc = read_entry(&at[n++], it.value, data, size, file->name,
		    why);
	}
	if (rc == 0)
		rc = covered(at, n, data, size, file->name, why);
	t->n += n;
out:
	epd_json_free(j);
	return rc;
}

static int
map(struct epd_tensors *t, int f, int dirfd, struct epd_why *why)
{
	struct file *file = &t->file[f];
	uint64_t head = 0;
	struct stat st;
	int fd = open_here(dirfd, file->name, &st, why);
	void *p;

	if (fd < 0)
		return fd;
	if (st.st_size < 8) {
		close(fd);
		return epd_why(why, EPD_EFORMAT, "%.80s: %lld bytes are no "
		    "safetensors file", file->name, (long long)st.st_size);
	}
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return epd_why(why, -errno, "%.80s: %s", file->name,
		    strerror(errno));
	file->map = p;
	file->size = (size_t)st.st_size;
	for (int i = 7; i >= 0; i--)
		head = head << 8 | ((uint8_t *)p)[i];
	if (head > HEADER)
		return epd_why(why, EPD_ETOOBIG, "%.80s: a header of %llu "
		    "bytes", file->name, (unsigned long long)head);
	if (head > file->size - 8)
		return epd_why(why, EPD_EFORMAT, "%.80s: the header ends past "
		    "the file, which may be cut short", file->name);
	return read_header(t, f, epd_span((char *)p + 8, (size_t)head), why);
}

static int
file_of(const struct epd_tensors *t, const char *name)
{
	for (int i = 0; i < t->files; i++)
		if (!strcmp(t->file[i].name, name))
			return i;
	return -1;
}

static int
add_file(struct epd_tensors *t, const char *name, struct epd_why *why)
{
	struct file *f;

	if (t->files == FILES)
		return epd_why(why, EPD_EFORMAT, INDEX ": too many files");
	f = epd_realloc(t->file, (size_t)(t->files + 1) * sizeof *f);
	if (!f)
		return -ENOMEM;
	t->file = f;
	f[t->files] = (struct file){ .name = epd_strdup(name) };
	return f[t->files].name ? t->files++ : -ENOMEM;
}

static int
by_file(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static struct epd_tensor *
find(const struct epd_tensors *t, const char *name, int file)
{
	struct epd_tensor key = { .name = name, .file = file };

	return t->n == 0 ? NULL :
	    bsearch(&key, t->at, t->n, sizeof key, by_name);
}

/* Invariant 3. */
static int
sift(struct epd_tensors *t, const struct epd_json *list, struct epd_why *why)
{
	struct epd_json_iter it;
	struct epd_tensor *at;
	uint8_t *listed = epd_calloc(t->n + 1, 1);
	size_t n = 0;
	int rc = 0;

	if (!listed)
		return -ENOMEM;
	for (it = epd_json_begin(list); rc == 0 && epd_json_next(&it);) {
		at = find(t, it.key, file_of(t, epd_json_str(it.value, "")));
		if (at)
			listed[at - t->at] = 1;
		else
			rc = epd_why(why, EPD_EFORMAT, "%.80s: %.80s is not "
			    "in it, though " INDEX " says so",
			    epd_json_str(it.value, ""), it.key);
	}
	for (size_t i = 0; i < t->n; i++)
		if (listed[i])
			t->at[n++] = t->at[i];
	t->n = n;
	epd_free(listed);
	return rc;
}

static int
open_index(struct epd_tensors *t, int dirfd, struct epd_why *why)
{
	const struct epd_json *list;
	struct epd_buf buf = { 0 };
	struct epd_json_iter it;
	struct epd_json *j = NULL;
	int last = -1, rc = epd_tensors_read(dirfd, INDEX, HEADER, &buf, why);

	if (rc < 0)
		goto out;
	rc = epd_json_parse(&j, epd_span(buf.p, buf.n), INDEX, why);
	if (rc < 0)
		goto out;
	list = epd_json_get(j, "weight_map");
	if (epd_json_type(list) != EPD_JSON_OBJECT) {
		rc = epd_why(why, EPD_EFORMAT, INDEX ": no weight_map");
		goto out;
	}
	for (it = epd_json_begin(list); rc >= 0 && epd_json_next(&it);) {
		const char *name = epd_json_str(it.value, "");

		/* Tensors of a file mostly follow one another. */
		if (last >= 0 && !strcmp(t->file[last].name, name))
			continue;
		if ((last = file_of(t, name)) < 0)
			rc = last = add_file(t, name, why);
	}
	if (rc >= 0 && t->files > 0)
		qsort(t->file, (size_t)t->files, sizeof *t->file, by_file);
	for (int i = 0; rc >= 0 && i < t->files; i++)
		rc = map(t, i, dirfd, why);
	if (rc >= 0 && t->n > 0)
		qsort(t->at, t->n, sizeof *t->at, by_name);
	if (rc >= 0)
		rc = sift(t, list, why);
out:
	epd_json_free(j);
	epd_buf_free(&buf);
	return rc;
}

int
epd_tensors_open(struct epd_tensors **out, int dirfd, struct epd_why *why)
{
	static const char name[] = "model.safetensors";
	struct epd_tensors *t = epd_calloc(1, sizeof *t);
	int rc;

	if (!t)
		return -ENOMEM;
	if (faccessat(dirfd, name, F_OK, 0) < 0 &&
	    faccessat(dirfd, INDEX, F_OK, 0) == 0) {
		rc = open_index(t, dirfd, why);
	} else if ((rc = add_file(t, name, why)) >= 0) {
		rc = map(t, 0, dirfd, why);
		if (rc >= 0 && t->n > 0)
			qsort(t->at, t->n, sizeof *t->at, by_name);
	}
	if (rc < 0) {
		epd_tensors_close(t);
		return rc;
	}
	*out = t;
	return 0;
}

void
epd_tensors_close(struct epd_tensors *t)
{
	if (!t)
		return;
	for (int i = 0; i < t->files; i++) {
		if (t->file[i].map)
			munmap(t->file[i].map, t->file[i].size);
		epd_free(t->file[i].names);
		epd_free(t->file[i].name);
	}
	epd_free(t->file);
	epd_free(t->at);
	epd_free(t);
}

const struct epd_tensor *
epd_tensors_find(const struct epd_tensors *t, const char *name)
{
	/* Names are unique once sifted, but their files may be any. */
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = strcmp(name, t->at[mid].name);

		if (c == 0)
			return &t->at[mid];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

struct epd_span
epd_tensors_file(const struct epd_tensors *t, int i, const char **name)
{
	if (i < 0 || i >= t->files)
		return epd_span(NULL, 0);
	if (name)
		*name = t->file[i].name;
	return epd_span(t->file[i].map, t->file[i].size);
}
