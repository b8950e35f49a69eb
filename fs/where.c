/* where.c - what is mounted on a path, without asking who serves it (proc(5), mountinfo). */
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fs/fs.h"

enum { LINE = 16384, PATH = 4096 };

/* Spaces and the like are written in octal. */
static void
plain(char *s)
{
	char *to = s;

	for (; *s; to++)
		if (*s == '\\' && s[1] && s[2] && s[3]) {
			*to = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 +
			    (s[3] - '0'));
			s += 4;
		} else {
			*to = *s++;
		}
	*to = '\0';
}

int
epd_fs_mounted(const char *path, dev_t *dev)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[LINE], at[PATH], type[64];
	unsigned maj, min;
	int is = 0;

	/* The last one there lies on top. */
	while (f && fgets(line, sizeof line, f)) {
		const char *rest = strstr(line, " - ");

		if (!rest || sscanf(rest, " - %63s", type) != 1 ||
		    sscanf(line, "%*d %*d %u:%u %*s %4095s", &maj, &min,
		    at) != 3)
			continue;
		plain(at);
		if (strcmp(at, path))
			continue;
		is = !strcmp(type, "fuse.epd");
		*dev = makedev(maj, min);
	}
	if (f)
		fclose(f);
	return is;
}
