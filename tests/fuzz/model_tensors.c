/*
 * model_tensors.c - a safetensors file, or an index, after the first byte:
 * whatever opens lies in its mapping and can be read.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char path[64];
static volatile uint8_t sum;

static void
clean(void)
{
	char name[128];

	snprintf(name, sizeof name, "%s/model.safetensors", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/model.safetensors.index.json", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/a.safetensors", path);
	unlink(name);
	rmdir(path);
}

static int
make(void)
{
	static const char shard[] = "\x35\0\0\0\0\0\0\0{\"a\":{\"dtype\":"
	    "\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}xyz";
	char name[128];
	int fd;

	strcpy(path, "/tmp/epd-fuzz-XXXXXX");
	if (!mkdtemp(path))
		abort();
	atexit(clean);
	snprintf(name, sizeof name, "%s/a.safetensors", path);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	if (write(fd, shard, sizeof shard - 1) < 0)
		abort();
	close(fd);
	return open(path, O_RDONLY | O_DIRECTORY);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static int dir = -1;
	struct epd_tensors *t = NULL;
	struct epd_why why = { "" };
	const char *name;
	int fd, rc;

	if (dir < 0)
		dir = make();
	if (n < 1)
		return 0;
	unlinkat(dir, "model.safetensors", 0);
	name = p[0] % 2 ? "model.safetensors.index.json" :
	    "model.safetensors";
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(fd, p + 1, n - 1) != (ssize_t)(n - 1))
		abort();
	close(fd);
	rc = epd_tensors_open(&t, dir, &why);
	if (rc < 0) {
		if (t || !*why.text)
			abort();
		return 0;
	}
	for (int i = 0; epd_tensors_file(t, i, &name).n > 0; i++) {
		struct epd_span s = epd_tensors_file(t, i, &name);

		sum = (uint8_t)(sum + ((const uint8_t *)s.p)[s.n - 1]);
		for (const char *at = "abw"; *at; at++) {
			const struct epd_tensor *x = epd_tensors_find(t,
			    (const char[]){ *at, 0 });
			const uint8_t *d = x ? x->data : NULL;

			if (x && x->bytes > 0)
				sum = (uint8_t)(sum + d[0] + d[x->bytes - 1]);
		}
	}
	epd_tensors_close(t);
	return 0;
}
