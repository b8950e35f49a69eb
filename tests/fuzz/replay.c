/* replay.c - run a fuzz target over the files of its corpus, one TAP line in all. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static long
one(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *p = NULL;
	size_t n = 0, got;

	if (!f)
		return 0;
	do {
		uint8_t *q = realloc(p, n + 65536);

		if (!q)
			abort();
		p = q;
		got = fread(p + n, 1, 65536, f);
		n += got;
	} while (got);
	fclose(f);
	/* An exact copy, so that a read past the end is seen. */
	uint8_t *exact = malloc(n ? n : 1);

	if (!exact)
		abort();
	memcpy(exact, p, n);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	free(p);
	return 1;
}

int
main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	char dir[512], path[1024];
	struct dirent *e;
	long n = 0;
	DIR *d;

	for (int i = 1; i < argc; i++)
		n += one(argv[i]);
	if (argc > 1)
		return 0;
	snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s",
	    name ? name + 1 : argv[0]);
	if (!(d = opendir(dir))) {
		printf("not ok 1 - %s: no corpus\n1..1\n", dir);
		return 1;
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		n += one(path);
	}
	closedir(d);
	printf("%sok 1 - %ld inputs of %s\n1..1\n", n ? "" : "not ", n, dir);
	return n == 0;
}
