/*
 * mount.h - a store in a folder of its own, mounted by epd-mount as a process of
 * ours, and what is needed to be rough with it.  All is bounded: a guard, which
 * outlives us, kills the daemon and takes the mount away when we end or are late.
 */
#ifndef TESTS_MOUNT_H
#define TESTS_MOUNT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/engine.h"
#include "epd.h"
#include "page/page.h"
#include "tests/check.h"

enum { MT_FUSE = 0x65735546, MT_BAD_SHOWN = 12 };

/* What processes share, zero to begin with. */
struct mt_shared {
	atomic_int daemon;		/* for the guard */
	atomic_int stop;		/* to loops that run till told */
	atomic_int go;
	atomic_uint bad;		/* mismatches */
	atomic_ullong ops, done[64];	/* all, and by kind */
};

struct mt {
	char dir[96], store[112], at[112], err[112], bin[512];
	pid_t daemon;
	struct epd_config config;
	struct epd_store *s;
	struct mt_shared *sh;
	uint64_t seed;
	int slow;			/* the daemon has a sanitizer */
};
static struct mt mt;
static struct epd_why mt_why;

/* ---- small things ---- */

static inline uint64_t
mt_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline long
mt_env(const char *name, long dflt)
{
	const char *v = getenv(name);

	return v && *v ? strtol(v, NULL, 0) : dflt;
}

static inline uint64_t
mt_ms(void)
{
	return epd_clock_boot_ns() / 1000000;
}

/* "12,345"; good for eight calls. */
static inline const char *
mt_n(unsigned long long n)
{
	static char text[8][32];
	static unsigned turn;
	char plain[24], *out = text[turn++ % 8], *at = out;
	int len = snprintf(plain, sizeof plain, "%llu", n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*at++ = ',';
		*at++ = plain[i];
	}
	*at = '\0';
	return out;
}

static inline void *
mt_share(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED |
	    MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Something is not as it must be; the first few are told. */
__attribute__((format(printf, 1, 2))) static inline void
mt_bad(const char *fmt, ...)
{
	va_list ap;

	if (atomic_fetch_add(&mt.sh->bad, 1) >= MT_BAD_SHOWN)
		return;
	printf("# bad: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* A path beneath the mount; good for the next call. */
__attribute__((format(printf, 1, 2))) static inline const char *
mt_path(const char *fmt, ...)
{
	static char path[1024];
	int n = snprintf(path, sizeof path, "%s/", mt.at);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path + n, sizeof path - (size_t)n, fmt, ap);
	va_end(ap);
	return path;
}

/* Read whole; -errno. */
static inline int
mt_slurp(const char *path, struct epd_buf *out)
{
	char buf[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf, sizeof buf)) > 0)
		epd_buf_put(out, buf, (size_t)n);
	if (n < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* ---- processes ---- */

/* A child that ends with us. */
static inline pid_t
mt_fork(void)
{
	const pid_t us = getpid();
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != us)
			_exit(1);
		setvbuf(stdout, NULL, _IOLBF, 0);
	}
	return pid;
}

/* Exit status, -signal, or -ETIMEDOUT; then it is still there. */
static inline int
mt_wait(pid_t pid, int ms)
{
	const uint64_t until = mt_ms() + (uint64_t)ms;
	int status;

	do {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status) ? -WTERMSIG(status) :
			    WEXITSTATUS(status);
		usleep(1000);
	} while (mt_ms() < until);
	return -ETIMEDOUT;
}

/* 'R', 'S', 'D', 'Z', ...; 0: no such process. */
static inline char
mt_proc_state(pid_t pid)
{
	char path[32], text[512], *p;
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (!(f = fopen(path, "re")))
		return 0;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] ? p[2] : 0;
}

/* Children of a process and its threads; how many. */
static inline int
mt_children(pid_t pid, pid_t *out, int room)
{
	char path[64];
	struct dirent *e;
	DIR *d;
	int n = 0, child;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	if (!(d = opendir(path)))
		return 0;
	while ((e = readdir(d))) {
		char of[352];
		FILE *f;

		snprintf(of, sizeof of, "%s/%s/children", path, e->d_name);
		if (*e->d_name == '.' || !(f = fopen(of, "re")))
			continue;
		while (n < room && fscanf(f, "%d", &child) == 1)
			out[n++] = child;
		fclose(f);
	}
	closedir(d);
	return n;
}

/* How many descriptors it has, of files whose name holds this ("": of all). */
static inline int
mt_fds(pid_t pid, const char *of)
{
	char path[64], link[512];
	struct dirent *e;
	DIR *d;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	if (!(d = opendir(path)))
		return 0;
	while ((e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, link,
		    sizeof link - 1);

		if (len < 0)
			continue;
		link[len] = '\0';
		n += strstr(link, of) != NULL;
	}
	closedir(d);
	return n;
}

static inline long
mt_rss_kib(pid_t pid)
{
	char path[32], line[256];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (!(f = fopen(path, "re")))
		return 0;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* A command of $B/bin; its exit status, or what mt_wait says.  out: NULL or a file. */
static inline int
mt_run(const char *out, int ms, const char *const *argv)
{
	char path[600];
	pid_t pid = mt_fork();
	int rc;

	if (pid == 0) {
		int fd = open(out ? out : "/dev/null", O_WRONLY | O_CREAT |
		    O_TRUNC, 0600);

		dup2(fd, 1);
		if (!out)
			dup2(fd, 2);
		snprintf(path, sizeof path, "%s/%s", mt.bin, argv[0]);
		execv(path, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	rc = mt_wait(pid, ms);
	if (rc == -ETIMEDOUT) {
		kill(pid, SIGKILL);
		mt_wait(pid, 1000);
	}
	return rc;
}
#define MT_RUN(out, ms, ...) \
	mt_run(out, ms, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- the mount ---- */

static inline int
mt_mounted(void)
{
	struct statfs s;

	return statfs(mt.at, &s) == 0 && s.f_type == MT_FUSE;
}

/* Whether it has a sanitizer in it. */
static inline int
mt_is_slow(pid_t pid)
{
	char path[32], line[512];
	int slow = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	if (!(f = fopen(path, "re")))
		return 0;
	while (!slow && fgets(line, sizeof line, f))
		slow = strstr(line, "asan.so") || strstr(line, "tsan.so");
	fclose(f);
	return slow;
}

/* Start the daemon and wait until it serves. */
static inline int
mt_up(void)
{
	const uint64_t until = mt_ms() + 30000;
	char path[600];

	if ((mt.daemon = mt_fork()) == 0) {
		int fd = open(mt.err, O_WRONLY | O_CREAT | O_APPEND, 0600);

		prctl(PR_SET_PDEATHSIG, 0);	/* it is the guard's */
		dup2(fd, 1);
		dup2(fd, 2);
		snprintf(path, sizeof path, "%s/epd-mount", mt.bin);
		execl(path, "epd-mount", "-f", mt.at, (char *)NULL);
		_exit(127);
	}
	atomic_store(&mt.sh->daemon, mt.daemon);
	while (!mt_mounted()) {
		if (mt_ms() > until || mt_proc_state(mt.daemon) == 'Z')
			return -1;
		usleep(2000);
	}
	mt.slow = mt_is_slow(mt.daemon);
	return 0;
}

/*
 * What the daemon complained of is told, but for what libfuse says when the kernel
 * finds that memory it was to be answered from is gone.
 */
static inline int
mt_said(void)
{
	struct epd_buf b = {0};
	int said = 0;
	char *at = NULL;

	if (mt_slurp(mt.err, &b) == 0 && b.n)
		for (char *line = strtok_r((char *)(uintptr_t)epd_buf_cstr(&b),
		    "\n", &at); line; line = strtok_r(NULL, "\n", &at))
			if (!strstr(line, "writing device: Bad address") &&
			    said++ < 40)
				printf("# daemon: %s\n", line);
	epd_buf_free(&b);
	unlink(mt.err);
	return said;
}

/* Unmount as a person would; the daemon ends by itself.  0 if all was well. */
static inline int
mt_down(int lazy)
{
	int rc = lazy ? MT_RUN(NULL, 10000, "epd-mount", "-u", "--lazy",
	    mt.at) : MT_RUN(NULL, 10000, "epd-mount", "-u", mt.at), end;

	if (rc)
		printf("# epd-mount -u: %d\n", rc);
	end = mt_wait(mt.daemon, 10000);
	if (end) {
		printf("# the daemon ended with %d\n", end);
		if (end == -ETIMEDOUT) {
			kill(mt.daemon, SIGKILL);
			mt_wait(mt.daemon, 5000);
		}
	}
	if (mt_mounted())
		umount2(mt.at, MNT_DETACH);
	atomic_store(&mt.sh->daemon, 0);
	mt.daemon = 0;
	return mt_said() || rc || end;
}

static inline void
mt_fault(void *arg, const char *text)
{
	(void)arg;
	printf("# fault: %s\n", text);
}

/* What `epd-state check` does: a count of faults. */
static inline int
mt_check(void)
{
	int rc = epd_flow_check(mt.s, "", mt_fault, NULL, &mt_why);

	if (rc < 0)
		printf("# check: %s\n", *mt_why.text ? mt_why.text :
		    epd_strerror(rc));
	return rc;
}

/* ---- begin and end ---- */

static inline void
mt_remove(const char *path)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	epd_file_remove(fd, path + 1);
	close(fd);
}

/* Ends what is left of us, whatever became of us. */
static inline void
mt_guard(int pipe_, int limit_s)
{
	struct pollfd p = { .fd = pipe_, .events = POLLIN };
	int daemon;

	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	while (poll(&p, 1, limit_s * 1000) < 0 && errno == EINTR)
		;
	daemon = atomic_load(&mt.sh->daemon);
	if (daemon > 0)
		kill(daemon, SIGKILL);
	if (!(p.revents))
		fprintf(stderr, "# beyond %d s: ended by the guard\n", limit_s);
	while (umount2(mt.at, MNT_DETACH) == 0)
		;
	if (p.revents)
		mt_remove(mt.dir);
	_exit(0);
}

static inline int
mt_open_store(void)
{
	struct epd_store_options o = { .path = mt.store, .config = &mt.config,
	    .tenant = "", .create = 1 };
	int rc = epd_store_open(&mt.s, &o, &mt_why);

	if (rc < 0)
		printf("# %s: %s\n", mt.store, mt_why.text);
	return rc;
}

static inline int
mt_write_config(void)
{
	char path[128], text[512];
	int n = snprintf(text, sizeof text, "page:\n  memory_dir: %s/memory\n"
	    "state:\n  log_keep: 1000000\n  sync: false\n", mt.dir);
	int fd;

	snprintf(path, sizeof path, "%s/config.yaml", mt.dir);
	setenv("EPD_CONFIG", path, 1);
	setenv("EPD_STORE", mt.store, 1);
	unsetenv("EPD_TENANT");
	unsetenv("EPD_LOG");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, (size_t)n) != n || close(fd))
		return -1;
	epd_config_default(&mt.config);
	mt.config.log_keep = 1000000;
	mt.config.state_sync = 0;
	snprintf(mt.config.memory_dir, sizeof mt.config.memory_dir,
	    "%s/memory", mt.dir);
	return mkdir(mt.config.memory_dir, 0700);
}

/* Where the commands are: in $B/bin, or beside the folder we are in. */
static inline void
mt_find_bin(const char *self)
{
	const char *b = getenv("B"), *slash = strrchr(self, '/');
	char cwd[256], path[600];

	if (!getcwd(cwd, sizeof cwd))
		*cwd = '\0';
	if (b && *b)
		snprintf(mt.bin, sizeof mt.bin, "%s%s%.200s/bin",
		    *b == '/' ? "" : cwd, *b == '/' ? "" : "/", b);
	else
		snprintf(mt.bin, sizeof mt.bin, "%.*s/../bin",
		    slash ? (int)(slash - self) : 1, slash ? self : ".");
	snprintf(path, sizeof path, "%s/epd-mount", mt.bin);
}

/* Why nothing can be mounted here, or NULL. */
static inline const char *
mt_cannot(void)
{
	char path[600];

	snprintf(path, sizeof path, "%s/epd-mount", mt.bin);
	if (access("/dev/fuse", F_OK))
		return "no /dev/fuse here";
	if (access(path, X_OK))
		return "epd-mount is not built: no fuse3";
	return geteuid() ? "not root: umount2 is asked of the kernel" : NULL;
}

/* A folder, an empty store, a place to mount it.  -1: say why and give up. */
static inline int
mt_begin(int limit_s)
{
	static int pipe_[2] = { -1, -1 };
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	snprintf(mt.dir, sizeof mt.dir, "%.60s/epd-mount.XXXXXX", tmp);
	if (!(mt.sh = mt_share(sizeof *mt.sh)) || !mkdtemp(mt.dir))
		return -1;
	snprintf(mt.store, sizeof mt.store, "%s/store", mt.dir);
	snprintf(mt.at, sizeof mt.at, "%s/m", mt.dir);
	snprintf(mt.err, sizeof mt.err, "%s/err", mt.dir);
	if (pipe_[1] >= 0)
		close(pipe_[1]);	/* the guard of the test before */
	if (pipe2(pipe_, O_CLOEXEC) < 0)
		return -1;
	fflush(stdout);
	if (fork() == 0) {
		close(pipe_[1]);
		mt_guard(pipe_[0], limit_s);
	}
	close(pipe_[0]);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!mt.seed)
		mt.seed = (uint64_t)mt_env("SEED", (long)(mt_ms() & 0xffffff));
	return mt_write_config() < 0 || mkdir(mt.at, 0700) < 0 ||
	    mt_open_store() < 0 ? -1 : 0;
}

/* All of it, but for the guard, which sees that we end. */
static inline void
mt_end(void)
{
	epd_store_close(mt.s);
	mt.s = NULL;
	while (mt_mounted() && umount2(mt.at, MNT_DETACH) == 0)
		;
	mt_remove(mt.dir);
	munmap(mt.sh, sizeof *mt.sh);
	mt.sh = NULL;
}

/* A test that needs a mount. */
#define MT_BEGIN(limit_s) do { \
	const char *mt_no = mt_cannot(); \
	if (mt_no) \
		SKIP(mt_no); \
	CHECK_INT(mt_begin(limit_s), 0); \
	} while (0)

#endif
