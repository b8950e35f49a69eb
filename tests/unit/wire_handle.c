/*
 * wire_handle.c - transfers under way beside their callers: waited for, called off and
 * freed at any point, several at once; none is lost, and what each came to is told.
 */
#include "flow/handle.h"
#include "tests/check.h"
#include "tests/unit/depot_serve.h"

#ifdef __SANITIZE_THREAD__
enum { SANITIZERS = 1 };
#else
enum { SANITIZERS = 0 };
#endif

struct house {
	struct depot here, far;
	struct depot_server s;
	struct depot_health was;
	struct epd_store_options o;
	struct epd_transfer_policy policy;
	struct epd_name fp[64], page[64];	/* far: features; pages of w1/s1 */
	int fds, threads;
};

static int
threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void
up(struct house *h, const char *scheme)
{
	const struct group x = group(1, 60, NULL);
	struct epd_workflow w;
	char at[300];

	memset(h, 0, sizeof *h);
	h->fds = scratch_have("fd");
	h->threads = threads();
	depot_begin(&h->here);
	h->here.config.trust_peers = 1;
	depot_begin(&h->far);
	for (int i = 0; i < 64; i++)
		h->fp[i] = depot_feature(&h->far, i);
	group_state(&h->far, "w1", 1, 60);
	group_state(&h->here, "w1", 2, 60);
	for (uint32_t i = 0; i < x.n; i++)
		h->page[i] = x.page[i].name;
	depot_workflow(&h->here, "came", &w);
	epd_workflow_close(&w);
	snprintf(at, sizeof at, !strcmp(scheme, "tcp") ? "tcp://127.0.0.1:0" :
	    "unix://%s/serve", h->far.path);
	if (depot_serve(&h->far, at, &(struct depot_serving){ .slots = 16,
	    .trust = 1 },
	    &h->s))
		depot_die("server", "none");
	h->was = depot_health(&h->s);
	h->o = depot_options(&h->here);
	epd_transfer_policy_default(&h->policy, &h->here.config);
	h->policy.timeout_ms = 8000;
}

static int
down(struct house *h)
{
	struct depot_health now;
	int good = depot_settles(&h->s, &h->was, &now);

	depot_unserve(&h->s, 0);
	depot_sweep(&h->here);
	depot_sweep(&h->far);
	good = good && !depot_runs(&h->here, "came") &&
	    !depot_temporaries(h->here.dir) && !depot_temporaries(h->far.dir) &&
	    !depot_check(&h->here) && !depot_check(&h->far);
	depot_end(&h->here);
	depot_end(&h->far);
	/* One that was joined may be told of a little longer; a sanitizer has its own. */
	for (int i = 0; i < 100 && threads() > h->threads; i++)
		epd_clock_sleep_ns(MS);
	if (scratch_have("fd") != h->fds || threads() > h->threads + SANITIZERS)
		printf("# %d files, not %d, %d threads, not %d\n", scratch_have("fd"),
		    h->fds, threads(), h->threads);
	return good && scratch_have("fd") == h->fds &&
	    threads() <= h->threads + SANITIZERS;
}

/* The ith of many: features, pages from there, pages to there. */
static int
begin(struct house *h, int i, struct epd_transfer **t, struct epd_why *why)
{
	static struct epd_name mine[60];
	struct epd_pages_way way = { .from_workflow = "w1", .state = 1,
	    .n = 60, .page = h->page, .to_workflow = "came" };

	if (i % 3 == 0)
		return epd_transfer_feature_bundle(t, &h->o, h->fp + i % 64,
		    h->s.address, "", &h->policy, why);
	if (i % 3 == 1)
		return epd_transfer_kv_pages(t, &h->o, &way, h->s.address, "",
		    &h->policy, why);
	{
		const struct group x = group(2, 60, NULL);

		for (uint32_t k = 0; k < 60; k++)
			mine[k] = x.page[k].name;
	}
	way.page = mine;
	way.to_workflow = "sent";
	return epd_transfer_kv_pages(t, &h->o, &way, "", h->s.address,
	    &h->policy, why);
}

TEST(each_is_waited_for)
{
	struct epd_transfer_result r;
	struct epd_why why = {{0}};
	struct house h;

	for (int k = 0; k < 2; k++) {
		up(&h, k ? "shm" : "tcp");
		for (int i = 0; i < 6; i++) {
			struct epd_transfer *t;
			int rc;

			CHECK_INT(begin(&h, i, &t, &why), 0);
			/* One look may be too early, and never hurts. */
			rc = epd_transfer_wait(t, 0, &r, &why);
			CHECK(rc == 0 || rc == EPD_ETIMEOUT);
			/* Waited for twice it is the same. */
			for (int again = 0; again < 2; again++) {
				rc = epd_transfer_wait(t, in_ms(8000), &r,
				    &why);
				if (rc < 0)
					printf("# %s\n", why.text);
				CHECK_INT(rc, 0);
				CHECK_INT(r.moved.moved + r.moved.mapped +
				    r.moved.had, i % 3 ? 60 : 1);
				CHECK((r.nruns > 0) == (i % 3 != 0));
			}
			epd_transfer_cancel(t);		/* it is over */
			CHECK_INT(epd_transfer_wait(t, 0, &r, &why), 0);
			epd_transfer_free(t);
		}
		CHECK(depot_has_feature(&h.here, 0));
		CHECK(depot_has_feature(&h.here, 3));
		CHECK(down(&h));
	}
}

/* What came is safe from a sweep till the handle is freed. */
TEST(what_came_is_safe_until_it_is_freed)
{
	struct epd_transfer_result r;
	struct epd_transfer *t[2];
	struct epd_why why = {{0}};
	struct house h;

	up(&h, "tcp");
	for (int i = 0; i < 2; i++) {
		CHECK_INT(begin(&h, i + 1, t + i, &why), 0);
		CHECK_INT(epd_transfer_wait(t[i], in_ms(8000), &r, &why), 0);
	}
	depot_sweep(&h.here);
	depot_sweep(&h.far);
	CHECK(depot_runs(&h.here, "came") > 0);
	CHECK(depot_runs(&h.far, "sent") > 0);
	epd_transfer_free(t[0]);
	epd_transfer_free(t[1]);
	depot_sweep(&h.here);
	CHECK_INT(depot_runs(&h.here, "came"), 0);
	CHECK(down(&h));
}

/* Submitted are as many as are done or failed, whoever is called off when. */
TEST(kind11_none_is_lost)
{
	enum { AT_ONCE = 6, ROUNDS = 14 };
	int submitted = 0, done = 0, off = 0, failed = 0;
	unsigned seed = (unsigned)epd_clock_boot_ns();
	struct house h;

	printf("# seed %u\n", seed);
	for (int k = 0; k < 2; k++) {
		up(&h, k ? "shm" : "tcp");
		for (int round = 0; round < ROUNDS; round++) {
			struct epd_transfer *t[AT_ONCE];
			struct epd_transfer_result r;
			struct epd_why why = {{0}};

			for (int i = 0; i < AT_ONCE; i++) {
				CHECK_INT(begin(&h, rand_r(&seed) % 99, t + i,
				    &why), 0);
				submitted++;
			}
			for (int i = 0; i < AT_ONCE; i++) {
				epd_clock_sleep_ns((uint64_t)(rand_r(&seed) %
				    3000) * 1000);
				if (rand_r(&seed) % 2)
					epd_transfer_cancel(t[rand_r(&seed) %
					    AT_ONCE]);
			}
			for (int i = 0; i < AT_ONCE; i++) {
				int rc = -1;

				/* Freed unasked, it is over all the same. */
				if (rand_r(&seed) % 5)
					rc = epd_transfer_wait(t[i],
					    in_ms(10000), &r, &why);
				CHECK(rc != EPD_ETIMEOUT);
				done += rc == 0;
				off += rc == -ECANCELED;
				failed += rc < 0 && rc != -ECANCELED;
				if (rc < -1 && rc != -ECANCELED)
					printf("# %d %s\n", rc, why.text);
				epd_transfer_free(t[i]);
			}
		}
		CHECK(down(&h));
	}
	printf("# %d submitted: %d done, %d called off, %d freed or failed\n",
	    submitted, done, off, failed);
	CHECK_INT(submitted, done + off + failed);
	CHECK(done > 10);
}

/* A peer that says nothing: it is called off all the same, and soon. */
TEST(called_off_while_the_peer_is_stopped)
{
	struct epd_transfer *t[3];
	struct epd_transfer_result r;
	struct epd_why why = {{0}};
	struct house h;
	uint64_t from;
	int st;

	for (int k = 0; k < 2; k++) {
		up(&h, k ? "shm" : "tcp");
		kill(h.s.pid, SIGSTOP);
		CHECK(waitpid(h.s.pid, &st, WUNTRACED) == h.s.pid);
		h.policy.timeout_ms = 30000;
		for (int i = 0; i < 3; i++)
			CHECK_INT(begin(&h, i, t + i, &why), 0);
		epd_clock_sleep_ns(100 * MS);
		from = epd_clock_boot_ns();
		epd_transfer_cancel(t[0]);
		CHECK_INT(epd_transfer_wait(t[0], in_ms(5000), &r, &why),
		    -ECANCELED);
		CHECK(strlen(why.text) > 0);
		epd_transfer_free(t[0]);
		epd_transfer_free(t[1]);
		epd_transfer_free(t[2]);
		CHECK(epd_clock_boot_ns() - from < 2000 * MS);
		kill(h.s.pid, SIGCONT);
		CHECK(down(&h));
	}
}

/* Its deadline is a hard one. */
TEST(kind30_its_time_is_over)
{
	struct epd_transfer_result r;
	struct epd_transfer *t;
	struct epd_why why = {{0}};
	struct house h;
	int st;

	up(&h, "tcp");
	kill(h.s.pid, SIGSTOP);
	CHECK(waitpid(h.s.pid, &st, WUNTRACED) == h.s.pid);
	h.policy.timeout_ms = 300;
	for (int i = 0; i < 3; i++) {
		const uint64_t from = epd_clock_boot_ns();

		CHECK_INT(begin(&h, i, &t, &why), 0);
		CHECK_INT(epd_transfer_wait(t, from + 50 * MS, &r, &why),
		    EPD_ETIMEOUT);
		CHECK_INT(epd_transfer_wait(t, in_ms(5000), &r, &why),
		    EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - from < 1500 * MS);
		epd_transfer_free(t);
	}
	kill(h.s.pid, SIGCONT);
	CHECK(down(&h));
}

/* What it is told wrong is told at once, what it finds is told when it is over. */
TEST(errors_are_told)
{
	struct epd_pages_way way = { .from_workflow = "", .n = 1,
	    .to_workflow = "came" };
	struct epd_transfer_result r = { .nruns = 77 };
	struct epd_transfer *t = NULL;
	struct epd_why why = {{0}};
	struct epd_name none;
	struct house h;

	up(&h, "tcp");
	memset(none.b, 0x5c, EPD_NAME);
	way.page = &none;
	CHECK_INT(epd_transfer_feature_bundle(&t, &h.o, &none, "", "",
	    &h.policy, &why), EPD_EUSAGE);
	CHECK_INT(epd_transfer_feature_bundle(&t, &h.o, &none, h.s.address,
	    h.s.address, &h.policy, &why), EPD_EUSAGE);
	way.to_workflow = "";
	CHECK_INT(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "",
	    &h.policy, &why), EPD_EUSAGE);
	way.to_workflow = "../x";
	CHECK_INT(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "",
	    &h.policy, &why), EPD_EUSAGE);
	CHECK(t == NULL);
#define ENDS(begun, with) do { \
	CHECK_INT(begun, 0); \
	CHECK_INT(epd_transfer_wait(t, in_ms(10000), &r, &why), with); \
	CHECK(strlen(why.text) > 0); \
	CHECK_INT(r.nruns, 77); \
	epd_transfer_free(t); \
	t = NULL; } while (0)
	/* No such feature, peer, workflow here, state there, codec. */
	ENDS(epd_transfer_feature_bundle(&t, &h.o, &none, h.s.address, "",
	    &h.policy, &why), EPD_ENOTHING);
	ENDS(epd_transfer_feature_bundle(&t, &h.o, &none, "", h.s.address,
	    &h.policy, &why), EPD_ENOTHING);
	ENDS(epd_transfer_feature_bundle(&t, &h.o, h.fp, "", "ftp://x",
	    &h.policy, &why), EPD_EUSAGE);
	h.policy.timeout_ms = 300;
	ENDS(epd_transfer_feature_bundle(&t, &h.o, h.fp, "tcp://127.0.0.1:1",
	    "", &h.policy, &why), EPD_EPEER);
	h.policy.timeout_ms = 8000;
	way.to_workflow = "nowhere";
	ENDS(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "", &h.policy,
	    &why), EPD_ENOTHING);
	way.to_workflow = "came";
	way.from_workflow = "w1";
	way.state = 99;
	ENDS(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "", &h.policy,
	    &why), EPD_ENOSTATE);
	way.from_workflow = "nothing";
	ENDS(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "", &h.policy,
	    &why), EPD_ENOTHING);
	way.from_workflow = "";
	snprintf(h.policy.compression, sizeof h.policy.compression, "fp8");
	ENDS(epd_transfer_kv_pages(&t, &h.o, &way, h.s.address, "", &h.policy,
	    &why), EPD_EUSAGE);
#undef ENDS
	epd_transfer_free(NULL);
	CHECK(down(&h));
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	return check_main(argc, argv);
}
