/*
 * shard_flat.c - what a fork costs does not see the context: the instructions of
 * eight branches, counted by callgrind, of a state of 1,024 tokens and of one of
 * 131,072, made by create_state.  This program runs itself under it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shard/shard.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"

enum { T = 16, FORKS = 20, BRANCHES = 8 };

/* A state of so many tokens, all whole pages but the last token's. */
static int
create(struct epd_shard *s, uint32_t tokens, uint32_t *id)
{
	const struct epd_state st = {
		.page_tokens = T, .kv_type = 1, .page_bytes = 4096,
		.model_path = "model", .tenant = "", .fingerprint = "{}",
	};
	int32_t *ids = calloc(tokens, sizeof *ids);
	struct epd_page_ref *pages = calloc(tokens / T, sizeof *pages);
	struct epd_version v = {
		.ids = ids, .nids = tokens, .pages = pages,
		.npages = tokens / T, .run = 7,
	};
	int rc = -1;

	for (uint32_t i = 0; ids && pages && i < v.npages; i++) {
		memcpy(pages[i].name.b, &i, sizeof i);
		pages[i].rows = T;
	}
	if (ids && pages)
		rc = epd_shard_create(s, &st, &v, id, NULL);
	free(pages);
	free(ids);
	return rc;
}

/* In DIR: make the state, fork it again and again.  Also what is measured. */
static int
work(const char *path, uint32_t tokens)
{
	const struct epd_shard_options o = {
		.lock_timeout_ms = 10000, .checkpoint_bytes = 64 << 20,
	};
	struct epd_fork_ask ask = {
		.branches = BRANCHES, .reason = "agent_branch",
	};
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
	struct epd_shard *s;
	uint32_t first;

	if (dir < 0 || epd_shard_open(&s, dir, &o, NULL))
		return 1;
	rc = create(s, tokens, &ask.state);
	for (int i = 0; !rc && i < FORKS; i++)
		rc = epd_shard_fork(s, &ask, &first, NULL);
	epd_shard_close(s);
	close(dir);
	return rc != 0;
}

static off_t
log_bytes(const char *path)
{
	char name[4200];
	struct stat st;

	snprintf(name, sizeof name, "%s/log.00000001", path);
	return stat(name, &st) ? -1 : st.st_size;
}

/*
 * Instructions of all forks in this program's own code: what malloc does goes by
 * what was freed before.  In callgrind's file "ob=(N) path" says whose code
 * follows, "cob=" whose is called, with the path the first time; a line behind
 * "calls=" is another's.
 */
static long long
counted(const char *file, const char *self)
{
	long long n = 0, own = -1, ob = -2, cost, id;
	char line[8192], path[4096];
	int skip = 0;
	FILE *f = fopen(file, "r");

	while (f && fgets(line, sizeof line, f)) {
		const char *at = line + (*line == 'c');

		*path = '\0';
		if (sscanf(at, "ob=(%lld) %4095s", &id, path) > 0) {
			own = strcmp(path, self) ? own : id;
			ob = at == line ? id : ob;
		} else if (skip) {
			skip = 0;
		} else if (!strncmp(line, "calls=", 6)) {
			skip = 1;
		} else if (ob == own &&
		    sscanf(line, "%*[0-9+*-] %lld", &cost) == 1) {
			n += cost;
		}
	}
	if (f)
		fclose(f);
	return n ? n : -1;
}

static long long
measure(const char *dir, const char *tokens)
{
	char self[4096], out[4200], option[4300];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	int status;
	pid_t pid;

	if (n < 0 || mkdir(dir, 0700))
		return -1;
	self[n] = '\0';
	snprintf(out, sizeof out, "%s.callgrind", dir);
	snprintf(option, sizeof option, "--callgrind-out-file=%s", out);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(126);
		execlp("valgrind", "valgrind", "--tool=callgrind", option,
		    "--toggle-collect=epd_shard_fork", self, "--work", dir,
		    tokens, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status) == 127 ? -2 : status ? -1 : counted(out, self);
}

TEST(a_fork_costs_the_same_at_any_length)
{
	char few[4096], many[4096];
	long long a, b;
	off_t x, y;
	int dir = scratch_open();

	snprintf(few, sizeof few, "%s/few", scratch_path);
	snprintf(many, sizeof many, "%s/many", scratch_path);
	a = measure(few, "1024");
	b = a < 0 ? a : measure(many, "131072");
	x = log_bytes(few);
	y = log_bytes(many);
	scratch_close(dir);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	SKIP("valgrind runs nothing that is sanitized");
#endif
	if (a == -2)
		SKIP("no valgrind to count with");
	CHECK(a > 0 && b > 0);
	printf("# %d branches: %lld instructions of ours at 1,024 tokens, "
	    "%lld at 131,072\n", BRANCHES, a / FORKS, b / FORKS);
	/* Ids and times differ between two runs, and no more. */
	CHECK(llabs(a - b) < a / 50);
	/* The logs differ by what create_state wrote alone. */
	CHECK_INT(y - x, (131072 - 1024) * 4 + (131072 - 1024) / T * 44);
}

int
main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--work"))
		return work(argv[2], (uint32_t)atol(argv[3]));
	return check_main(argc, argv);
}
