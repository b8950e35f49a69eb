/*
 * mooncake_real.h - the service itself: its master and REST service, in a
 * network of this process's own, in which nobody listens or is listened to.
 */
#ifndef TESTS_MOONCAKE_REAL_H
#define TESTS_MOONCAKE_REAL_H

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/unit/mooncake.h"

#define REAL_URL "http://127.0.0.1:8081"
#define REAL_ADMIN "http://127.0.0.1:9003"
#define REAL_MASTER "127.0.0.1:50051"

static struct {
	char bin[4096], dir[4096];
	const char *lack;		/* why it cannot be had */
	pid_t master, rest;
	int lease_ms, segment_mb;
} real;

/* A network of our own, with a loopback. */
static inline int
real_network(void)
{
	struct ifreq r = { .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd, rc;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -1;
	strcpy(r.ifr_name, "lo");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	rc = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
	return rc;
}

/* Where the service is kept; before this process has another thread. */
static inline void
real_find(void)
{
	char self[4000];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	FILE *f;

	self[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 2 && strrchr(self, '/'); i++)
		*strrchr(self, '/') = '\0';
	setenv("B", self, 0);
	f = popen("tests/mooncake.sh", "r");
	while (f && fgets(real.bin, sizeof real.bin - 8, f))
		real.bin[strcspn(real.bin, "\n")] = '\0';
	if (!f || pclose(f) || !*real.bin)
		real.lack = "skip: no Mooncake Store to test with";
	else if (real_network())
		real.lack = "skip: no network of its own for a Mooncake Store";
	strcat(real.bin, "/bin");
}

static inline pid_t
real_run(const char *log, const char *const *arg)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = openat(moon_dir, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	setpgid(0, 0);
	execv(arg[0], (char *const *)(uintptr_t)arg);
	_exit(127);
}

static inline int
real_ask(const char *base, const char *method, const char *path,
    const char *body, struct epd_buf *answer)
{
	struct epd_http_request r = { .method = method, .path = path,
	    .deadline_ns = moon_in(1000), .most = 1 << 20 };
	struct epd_http_done d;
	struct epd_http *h;
	int rc = epd_http_open(&h, base, 1, NULL);

	if (rc)
		return rc;
	if (body)
		r.body = epd_span_str(body);
	rc = epd_http_do(h, &r, &d, NULL);
	if (!rc && answer)
		*answer = d.answer;
	else if (!rc)
		epd_buf_free(&d.answer);
	epd_http_close(h);
	return rc ? rc : (int)d.status;
}

static inline int
real_until(const char *base, const char *path, int status, int ms)
{
	for (const uint64_t till = moon_in((uint64_t)ms);
	    epd_clock_boot_ns() < till; epd_clock_sleep_ns(20 * MS))
		if (real_ask(base, "GET", path, NULL, NULL) == status)
			return 0;
	return -1;
}

static inline int
real_master(void)
{
	char path[4200], lease[64];
	const char *const arg[] = { path, "--rpc_address=127.0.0.1",
	    "--rpc_port=50051", "--rpc_thread_num=2",
	    "--metrics_host=127.0.0.1", "--metrics_port=9003",
	    "--enable_metric_reporting=false", lease, "--logtostderr", NULL };

	snprintf(path, sizeof path, "%s/mooncake_master", real.bin);
	snprintf(lease, sizeof lease, "--default_kv_lease_ttl=%d",
	    real.lease_ms);
	real.master = real_run("master.log", arg);
	return real_until(REAL_ADMIN, "/health", 200, 20000);
}

static inline int
real_rest(void)
{
	char path[4200], config[4200];
	const char *const arg[] = { path, "--config", config, "--port",
	    "8081", NULL };
	FILE *f;

	snprintf(path, sizeof path, "%s/mc_store_rest_server", real.bin);
	snprintf(config, sizeof config, "%s/c.json", real.dir);
	f = fopen(config, "w");
	if (!f)
		return -1;
	fprintf(f, "{\"local_hostname\":\"127.0.0.1\",\"metadata_server\":"
	    "\"P2PHANDSHAKE\",\"global_segment_size\":\"%dmb\","
	    "\"local_buffer_size\":\"64mb\",\"protocol\":\"tcp\","
	    "\"device_name\":\"\",\"master_server_address\":\"%s\"}",
	    real.segment_mb, REAL_MASTER);
	fclose(f);
	real.rest = real_run("rest.log", arg);
	return real_until(REAL_URL, "/api/exist/x", 200, 30000);
}

static inline void
real_kill(pid_t *pid)
{
	if (*pid > 0) {
		kill(*pid, SIGCONT);
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

static inline void
real_end(void)
{
	real_kill(&real.rest);
	real_kill(&real.master);
	moon_end();
}

/* 0: it serves.  real.lack says why it cannot, if it cannot be had at all. */
static inline int
real_begin(int lease_ms, int segment_mb)
{
	moon_begin();
	snprintf(real.dir, sizeof real.dir, "%s", scratch_path);
	real.lease_ms = lease_ms;
	real.segment_mb = segment_mb;
	if (!real.lack && !real_master() && !real_rest())
		return 0;
	real_end();
	return -1;
}

#define REAL(lease, segment) do { \
	if (real.lack) SKIP(real.lack); \
	CHECK(!real_begin(lease, segment)); } while (0)

#endif
