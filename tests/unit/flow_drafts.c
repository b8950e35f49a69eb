/*
 * flow_drafts.c - what a decode lets out can be read along until it is committed,
 * is gone at every end, and makes no difference to anything else.
 */
#include <sys/wait.h>

#include "flow/draft.h"
#include "tests/unit/fault.h"
#include "tests/unit/flow_hand.h"
#include "tests/unit/reuse.h"

enum { LANES = 3 };

/* A decode that is looked at from outside while it draws. */
static struct along {
	struct kit *k;
	uint32_t state[LANES], version[LANES];
	int n, tokens, wrong, gone;	/* gone: without a draft, and right so */
	int stop_at, kill_at;
	char text[LANES][1024];
	int32_t ids[LANES][64];
	size_t nids[LANES];
	void (*at_token)(struct along *a);
	enum epd_finish finish[LANES];
} along;

/* The workflow's folder, opened by somebody else. */
static int
folder(struct kit *k)
{
	int fd = epd_memory_find(k->s->memory, k->workflow);

	if (fd < 0)
		golden_die("memory folder", epd_strerror(fd));
	return fd;
}

/* Names of drafts in the folder. */
static int
count(void *arg, const char *name)
{
	*(int *)arg += epd_memory_is_draft(name);
	return 0;
}

static int
drafts(struct kit *k)
{
	int fd = folder(k), n = 0;

	epd_dir_each(fd, count, &n);
	close(fd);
	return n;
}

/* Whether the draft of a lane is what its tokens said. */
static int
agrees(struct along *a, int lane)
{
	const size_t n = a->nids[lane];
	struct epd_ids ids = {0};
	int fd = folder(a->k), rc;

	epd_ids_put(&ids, &(int32_t){ 7 }, 1);
	rc = epd_draft_read(fd, a->state[lane], a->version[lane], &ids);
	close(fd);
	rc = rc == 0 && ids.n == n + 1 && ids.v[0] == 7 &&
	    !memcmp(ids.v + 1, a->ids[lane], n * sizeof *ids.v);
	epd_ids_free(&ids);
	return rc;
}

static int
absent(struct along *a, int lane)
{
	struct epd_ids ids = {0};
	int fd = folder(a->k);
	int rc = epd_draft_read(fd, a->state[lane], a->version[lane], &ids) ==
	    -ENOENT && ids.n == 0;

	close(fd);
	epd_ids_free(&ids);
	return rc;
}

static int
said_one(void *arg, const struct epd_token_event *e)
{
	struct along *a = arg;
	char *text = a->text[e->which];
	size_t n = strlen(text);

	snprintf(text + n, sizeof *a->text - n, "%.*s", (int)e->text.n,
	    (const char *)e->text.p);
	a->ids[e->which][a->nids[e->which]++] = e->id;
	if (a->gone)
		a->wrong += !absent(a, e->which);
	else
		a->wrong += !agrees(a, e->which);
	a->tokens++;
	if (a->tokens == a->kill_at)
		kill(getpid(), SIGKILL);
	if (a->at_token)
		a->at_token(a);
	return a->stop_at && a->tokens >= a->stop_at;
}

/* Committed, and the draft is gone. */
static void
ended(void *arg, const struct epd_decode_end *e)
{
	struct along *a = arg;

	a->finish[e->which] = e->finish;
	a->wrong += !absent(a, e->which);
	a->wrong += e->rc == 0 && e->fresh &&
	    e->version != a->version[e->which] + 1;
	a->version[e->which] = e->version;
}

/* Of n states, each at the version told. */
static int
decode(struct along *a, int n, int most, const char *stop)
{
	struct epd_ref ref[LANES];
	const struct epd_decode d = {
		.states = ref, .n = n, .most = most, .has_temp = 1,
		.has_top_k = 1, .has_top_p = 1, .has_penalty = 1,
		.sampler = { .top_p = 1, .penalty = 1 }, .ignore_eos = 1,
		.stop = &stop, .nstop = stop != NULL, .token = said_one,
		.end = ended, .arg = a,
	};

	a->n = n;
	a->tokens = a->wrong = 0;
	memset(a->text, 0, sizeof a->text);
	memset(a->nids, 0, sizeof a->nids);
	for (int i = 0; i < n; i++)
		ref[i] = hand_ref(a->k->workflow, a->state[i]);
	return epd_flow_decode(a->k->se, &d, kit_why(a->k));
}

/* A store with states to decode. */
static struct along *
begin(struct kit *k, int n)
{
	struct epd_prefilled p;

	kit_start(k, QWEN3);
	along = (struct along){ .k = k };
	for (int i = 0; i < n; i++) {
		if (kit_say(k, 0, i ? "And now?" : "Look.", NULL, &p) < 0)
			golden_die("prefill", k->why.text);
		along.state[i] = p.state;
		along.version[i] = p.version;
	}
	return &along;
}

/* What a state of the store that begin makes says, in so many tokens. */
static void
unbroken(char out[1024], int most)
{
	struct along *a;
	struct kit k;

	a = begin(&k, 1);
	if (decode(a, 1, most, NULL) < 0 || a->wrong)
		golden_die("decode", k.why.text);
	memcpy(out, a->text[0], sizeof a->text[0]);
	kit_end(&k);
}

TEST(grows_with_each_token)
{
	struct along *a;
	struct kit k;

	a = begin(&k, LANES);
	for (int turn = 0; turn < 2; turn++) {
		CHECK_INT(decode(a, LANES, 12, NULL), 0);
		CHECK_INT(a->tokens, 12 * LANES);
		CHECK_INT(a->wrong, 0);
		CHECK(*a->text[0] && *a->text[1]);
		CHECK_INT(drafts(&k), 0);
	}
	CHECK_INT(a->version[0], 3);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Before each write of the commit, the record's among them, it is there still. */
static int writes, missing;

static void
still_there(void)
{
	writes++;
	missing += !agrees(&along, 0);
	fault_arm(1, 0, FAULT_HOOK);
}

static void
watch_the_commit(struct along *a)
{
	if (a->tokens != 12)
		return;
	writes = missing = 0;
	fault.hook = still_there;
	fault.only = "pwrite";
	fault_arm(1, 0, FAULT_HOOK);
}

TEST(there_until_it_is_committed)
{
	struct along *a;
	struct kit k;

	a = begin(&k, 1);
	a->at_token = watch_the_commit;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	fault_calls();
	CHECK_INT(a->wrong, 0);
	CHECK(writes > 1);
	CHECK_INT(missing, 0);
	kit_end(&k);
}

TEST(gone_at_every_end)
{
	char all[1024], stop[8];
	struct along *a;
	struct kit k;

	unbroken(all, 12);
	CHECK(strlen(all) > 8);
	snprintf(stop, sizeof stop, "%.3s", all + 4);
	a = begin(&k, 1);
	CHECK_INT(decode(a, 1, 0, NULL), 0);
	CHECK_INT(a->version[0], 1);
	CHECK_INT(a->wrong, 0);
	CHECK_INT(decode(a, 1, 12, stop), 0);
	CHECK_INT(a->finish[0], EPD_FINISH_STOP);
	CHECK_INT(a->wrong, 0);
	CHECK_INT(drafts(&k), 0);
	a->stop_at = 3;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_INT(a->finish[0], EPD_FINISH_INTERRUPT);
	CHECK_INT(a->wrong, 0);
	CHECK_INT(drafts(&k), 0);
	kit_end(&k);
}

static void
log_is_full(struct along *a)
{
	if (a->tokens != 4)
		return;
	/* All from here on: the draft's own, the run's, the log's. */
	fault.only = "pwrite";
	fault_arm(1, ENOSPC, FAULT_ON);
	a->gone = 1;
}

TEST(gone_after_a_failure)
{
	char all[1024];
	struct along *a;
	struct kit k;

	unbroken(all, 12);
	a = begin(&k, 1);
	a->at_token = log_is_full;
	CHECK_INT(decode(a, 1, 12, NULL), -ENOSPC);
	fault_calls();
	CHECK_INT(a->tokens, 12);
	CHECK_INT(a->wrong, 0);
	CHECK_STR(a->text[0], all);
	CHECK_INT(a->version[0], 1);
	CHECK_INT(drafts(&k), 0);
	a->at_token = NULL;
	a->gone = 0;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_STR(a->text[0], all);
	CHECK_INT(a->wrong, 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

static void
no_room(struct along *a)
{
	a->gone |= a->tokens >= 4;
	if (a->tokens == 4) {
		fault.only = "pwrite";
		fault_arm(1, ENOSPC, 0);
	}
}

/* One write that fails, or none that is possible: the decode is the same. */
TEST(given_up_it_is_missed_by_nobody)
{
	char all[1024], name[64], path[400];
	struct along *a;
	struct kit k;
	struct stat st;
	int fd;

	unbroken(all, 12);
	a = begin(&k, 1);
	a->at_token = no_room;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK(fault_calls() > 1);
	CHECK_INT(a->wrong, 0);
	CHECK_STR(a->text[0], all);
	CHECK_INT(drafts(&k), 0);
	kit_end(&k);
	for (int what = 0; what < 4; what++) {
		a = begin(&k, 1);
		fd = folder(&k);
		snprintf(name, sizeof name, EPD_DRAFT_PREFIX "%u.%u",
		    a->state[0], a->version[0]);
		snprintf(path, sizeof path, "%s/precious", k.path);
		close(open(path, O_CREAT | O_WRONLY, 0600));
		CHECK_INT(truncate(path, 9), 0);
		if (what == 0)
			CHECK_INT(mkdirat(fd, name, 0700), 0);
		else if (what == 1)
			CHECK_INT(symlinkat(path, fd, name), 0);
		else if (what == 2)
			CHECK_INT(mkfifoat(fd, name, 0600), 0);
		else
			CHECK_INT(linkat(AT_FDCWD, path, fd, name, 0), 0);
		a->gone = 1;
		CHECK_INT(decode(a, 1, 12, NULL), 0);
		CHECK_STR(a->text[0], all);
		CHECK_INT(epd_draft_read(fd, a->state[0], 1,
		    &(struct epd_ids){0}), what == 0 || what == 2 ? -EINVAL :
		    what == 1 ? -ELOOP : -ENOENT);
		CHECK(!stat(path, &st) && st.st_size == 9);
		close(fd);
		kit_end(&k);
	}
}

TEST(a_full_file_system)
{
	char all[1024];
	struct along *a;
	struct kit k;

	unbroken(all, 12);
	for (unsigned kib = 48; kib <= 160; kib += 16) {
		struct epd_prefilled p;
		char size[48];
		int rc;

		kit_begin(&k, QWEN3);
		mkdir(k.config.memory_dir, 0700);
		snprintf(size, sizeof size, "size=%uk,mode=700", kib);
		if (mount("tmpfs", k.config.memory_dir, "tmpfs", 0, size)) {
			kit_end(&k);
			SKIP("mounting a small tmpfs takes root");
		}
		along = (struct along){ .k = &k };
		a = &along;
		rc = kit_try_open(&k);
		if (rc == 0)
			rc = kit_say(&k, 0, "Look.", NULL, &p);
		if (rc == 0) {
			a->state[0] = p.state;
			a->version[0] = 1;
			rc = decode(a, 1, 12, NULL);
			CHECK_INT(drafts(&k), 0);
			CHECK(rc || !strcmp(a->text[0], all));
		}
		CHECK(rc == 0 || rc == -ENOSPC);
		kit_close(&k);
		umount(k.config.memory_dir);
		kit_end(&k);
	}
}

/* ---- dead ones ---- */

/* A process decodes the first state and is killed at its nth token. */
static void
killed_at(struct kit *k, int nth)
{
	struct kit mine = *k;
	pid_t pid;

	fflush(stdout);
	if ((pid = fork()) == 0) {
		struct along a = along;

		mine.s = NULL;
		mine.se = NULL;
		if (kit_try_open(&mine) < 0)
			_exit(1);
		a.k = &mine;
		a.kill_at = nth;
		(void)decode(&a, 1, 40, NULL);
		_exit(2);
	}
	if (scratch_wait(pid) != -SIGKILL)
		golden_die("a decode", "was not killed");
}

static struct found {
	int litter, drafts, faults;
} found;

static void
lies(void *arg, enum epd_finding what, const char *text)
{
	(void)arg;
	found.litter += what == EPD_LITTER;
	found.drafts += strstr(text, " of decodes that died, ") != NULL;
	found.faults += what != EPD_LITTER;
}

static struct found
look(struct kit *k)
{
	const struct epd_findings f = { .fault = kit_fault, .litter = lies };
	struct epd_proof proof = {0};

	found = (struct found){ 0 };
	found.faults = epd_flow_prove(k->s, "", &f, &proof, kit_why(k));
	return found;
}

TEST(killed_it_is_litter)
{
	char all[1024];
	struct epd_swept swept;
	struct along *a;
	struct found f;
	struct kit k;
	uint64_t used, now = 0;

	unbroken(all, 12);
	a = begin(&k, 1);
	CHECK_INT(epd_memory_used(k.s->memory, &used), 0);
	killed_at(&k, 5);
	/* It lies there, and is no decode's that lives. */
	CHECK_INT(drafts(&k), 1);
	CHECK(absent(a, 0));
	f = look(&k);
	CHECK(!f.faults && f.litter == 1 && f.drafts == 1);
	CHECK_INT(epd_memory_used(k.s->memory, &now), 0);
	CHECK_INT(now, used);
	/* The next begins it anew. */
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_INT(a->wrong, 0);
	CHECK_STR(a->text[0], all);
	CHECK_INT(drafts(&k), 0);
	killed_at(&k, 3);
	CHECK_INT(drafts(&k), 1);
	CHECK_INT(epd_flow_gc(k.s, &swept, kit_why(&k)), 0);
	CHECK_INT(swept.temporaries, 1);
	CHECK_INT(drafts(&k), 0);
	f = look(&k);
	CHECK(!f.faults && !f.litter);
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_INT(a->wrong, 0);
	kit_end(&k);
}

static void
sweep(struct along *a)
{
	struct epd_store_options so = {
		.path = a->k->store, .config = &a->k->config,
	};
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	char name[64];
	struct epd_swept swept;
	struct kit other = *a->k;
	struct found f;
	int fd;

	if (a->tokens != 5)
		return;
	fd = folder(a->k);
	snprintf(name, sizeof name, EPD_DRAFT_PREFIX "%u.%u", a->state[0],
	    a->version[0]);
	a->wrong += utimensat(fd, name, old, 0) != 0;
	close(fd);
	a->wrong += epd_store_open(&other.s, &so, &other.why) != 0;
	f = look(&other);
	a->wrong += f.faults || f.drafts;
	a->wrong += epd_flow_gc(other.s, &swept, &other.why) != 0;
	a->wrong += epd_memory_sweep(a->k->config.memory_dir, NULL, NULL) != 0;
	epd_store_close(other.s);
	a->wrong += !agrees(a, 0);
}

TEST(a_live_one_is_not_swept)
{
	struct along *a;
	struct kit k;

	a = begin(&k, 1);
	a->at_token = sweep;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_INT(a->wrong, 0);
	CHECK_INT(a->tokens, 12);
	CHECK_INT(drafts(&k), 0);
	kit_end(&k);
}

/* Another's that lives is left alone: this one goes without. */
TEST(anothers_is_left_alone)
{
	struct epd_draft d;
	struct epd_ids ids = {0};
	struct along *a;
	struct kit k;
	int fd;

	a = begin(&k, 1);
	fd = folder(&k);
	epd_draft_begin(&d, fd, a->state[0], 1);
	epd_draft_put(&d, fd, 151645);
	CHECK_INT(decode(a, 1, 4, NULL), 0);
	CHECK_INT(epd_draft_read(fd, a->state[0], 1, &ids), 0);
	CHECK(ids.n == 1 && ids.v[0] == 151645);
	/* As long as it may be, and no longer. */
	CHECK_INT(ftruncate(d.fd, EPD_DRAFT_MAX), 0);
	CHECK_INT(epd_draft_read(fd, a->state[0], 1, &ids), 0);
	CHECK_INT(ids.n, 1 + EPD_DRAFT_MAX / 4);
	CHECK_INT(ftruncate(d.fd, EPD_DRAFT_MAX + 1), 0);
	CHECK_INT(epd_draft_read(fd, a->state[0], 1, &ids), EPD_ETOOBIG);
	d.bytes = EPD_DRAFT_MAX - 3;
	epd_draft_put(&d, fd, 4);
	CHECK(!d.on);
	CHECK_INT(drafts(&k), 0);
	epd_draft_end(&d, fd);
	epd_ids_free(&ids);
	close(fd);
	kit_end(&k);
}

/* Its folder wiped and made anew, it leaves what lies there alone. */
static struct epd_draft others;

static void
wipe(struct along *a)
{
	int fd;

	if (a->tokens != 3)
		return;
	kit_lose(a->k, 1);
	fd = epd_memory_dir(a->k->s->memory, a->k->workflow);
	epd_draft_begin(&others, fd, a->state[0], 1);
	close(fd);
}

TEST(a_folder_that_was_wiped)
{
	struct along *a;
	struct kit k;

	a = begin(&k, 1);
	a->at_token = wipe;
	CHECK_INT(decode(a, 1, 12, NULL), 0);
	CHECK_INT(a->tokens, 12);
	CHECK(others.on);
	CHECK_INT(drafts(&k), 1);
	epd_draft_end(&others, -1);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
