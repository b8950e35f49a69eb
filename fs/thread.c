/* thread.c - /proc/THREAD/status. */
#include "fs/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

static FILE *
status(pid_t thread)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
	return fopen(path, "re");
}

pid_t
epd_fs_thread_process(pid_t thread)
{
	FILE *f = status(thread);
	char line[128];
	int process = 0;

	while (f && fgets(line, sizeof line, f) &&
	    sscanf(line, "Tgid: %d", &process) != 1)
		;
	if (f)
		fclose(f);
	return process;
}

int
epd_fs_thread_is_dying(pid_t thread)
{
	unsigned long long set, kill = 1ull << (SIGKILL - 1);
	FILE *f = status(thread);
	char line[128];
	int dying = 0;

	if (!f)
		return thread > 0 && (errno == ENOENT || errno == ESRCH);
	while (!dying && fgets(line, sizeof line, f))
		dying = (sscanf(line, "SigPnd: %llx", &set) == 1 ||
		    sscanf(line, "ShdPnd: %llx", &set) == 1) && set & kill;
	fclose(f);
	return dying;
}
