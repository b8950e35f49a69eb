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
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile uint8_t sum;

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char shard[] = "\x35\0\0\0\0\0\0\0{\"a\":{\"dtype\":"
	    "\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}xyz";
	static int dir = -1;
	struct epd_tensors *t = NULL;
	struct epd_why why = { "" };
	const char *name;
	int fd, rc;

	if (dir < 0) {
		dir = folder();
		folder_put(dir, "a.safetensors", shard, sizeof shard - 1);
	}
	if (n < 1)
		return 0;
	unlinkat(dir, "model.safetensors", 0);
	unlinkat(dir, "model.safetensors.index.json", 0);
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
