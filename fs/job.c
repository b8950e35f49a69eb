/*
 * job.c - commands as jobs.
 *
 *  1. Two threads of its own take what is queued, oldest first, but of a state
 *     only one at a time.  Each waits for its own child and no other, and lets it
 *     be reaped under the lock, so that a signal never goes to a stranger.
 *  2. What a command says with -j is one object a line; the last is its result.
 *     The last line of its errors is the sentence.
 */
#include "fs/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "fs/child.h"

enum {
	WORKERS = 2,			/* at once: they share the processors */
	QUEUE = 1024, QUEUED_BYTES = 64 << 20,
	KEEP = 1000,			/* that are over */
	PATIENCE = 5,			/* seconds from asking to end to ending */
	WORDS = 64
};

struct job {
	struct epd_fs_job is;
	struct job *next;
	struct epd_buf text, words;
	int has_text;
	const char *command;
	pid_t pid;			/* a child not yet reaped, or 0 */
	int cancel;			/* it is asked to end */
};

struct epd_fs_jobs {
	struct epd_fs *fs;
	void (*over)(void *arg);
	void *arg;
	char **env;
	pthread_mutex_t lock;		/* of all below */
	pthread_cond_t more;		/* something is queued, over or closing */
	pthread_t worker[WORKERS];
	int workers;
	struct job *first, **last;	/* all there are, by number */
	size_t live, gone;		/* not yet over; over */
	size_t bytes;			/* of text that is queued */
	uint64_t number;
	int closing;
};

/* ---- telling ---- */

static const char *const words_for[] = {
	[EPD_FS_QUEUED] = "queued", [EPD_FS_RUNNING] = "running",
	[EPD_FS_DONE] = "done", [EPD_FS_FAILED] = "failed",
	[EPD_FS_CANCELLED] = "cancelled",
};

void
epd_fs_job_line(const struct epd_fs_job *job, int verb, struct epd_buf *out)
{
	epd_buf_fmt(out, "j%llu%s%s %s", (unsigned long long)job->number,
	    verb ? " " : "", verb ? job->verb : "", words_for[job->status]);
	if (job->status == EPD_FS_FAILED)
		epd_buf_fmt(out, " %d: %s", job->exit, job->error);
	else if (*job->result)
		epd_buf_fmt(out, " %s", job->result);
	epd_buf_str(out, "\n");
}

/* A line of events.  Under the lock, so that they are in order. */
static void
tell(struct epd_fs_jobs *j, const struct epd_fs_job *job)
{
	struct epd_fs_workflow *w;
	struct epd_buf b = {0};
	struct epd_jw jw = { .out = &b };
	char text[EPD_REF_TEXT];

	epd_jw_begin(&jw, NULL, '{');
	epd_jw_int(&jw, "schema_version", 1);
	epd_jw_str(&jw, "event", "job");
	snprintf(text, sizeof text, "j%llu", (unsigned long long)job->number);
	epd_jw_str(&jw, "job", text);
	epd_jw_str(&jw, "workflow", job->at.workflow);
	epd_jw_str(&jw, "state", epd_ref_format(text, job->at.workflow,
	    job->at.state, 0));
	epd_jw_str(&jw, "verb", job->verb);
	epd_jw_str(&jw, "status", words_for[job->status]);
	if (job->status == EPD_FS_DONE || job->status == EPD_FS_FAILED)
		epd_jw_int(&jw, "exit", job->exit);
	if (*job->result)
		epd_jw_str(&jw, "result", job->result);
	if (*job->error)
		epd_jw_str(&jw, "error", job->error);
	epd_jw_end(&jw, '}');
	pthread_mutex_lock(&j->fs->lock);
	epd_fs_sync(j->fs);	/* what it did is told before its end is */
	if (epd_fs_workflow(j->fs, &job->at, &w, NULL) < 0)
		w = NULL;
	if (!b.failed)
		epd_fs_say(j->fs, w, epd_span(b.p, b.n));
	pthread_mutex_unlock(&j->fs->lock);
	epd_buf_free(&b);
}

/* ---- the list; under the lock ---- */

static int
is_of(const struct epd_fs_job *job, const struct epd_fs_at *at)
{
	return job->at.state == at->state && job->at.life == at->life &&
	    !strcmp(job->at.workflow, at->workflow);
}

static void
free_job(struct job *x)
{
	epd_buf_free(&x->text);
	epd_buf_free(&x->words);
	epd_free(x);
}

/* The oldest that are over; the one just ended may be waited for. */
static void
forget(struct epd_fs_jobs *j, const struct job *but)
{
	struct job **at = &j->first, *x;

	/* Those that are left at the end go after that. */
	while (!j->closing && j->gone > KEEP && (x = *at)) {
		if (x == but || !epd_fs_job_is_over(&x->is)) {
			at = &x->next;
			continue;
		}
		if (!(*at = x->next))
			j->last = at;
		free_job(x);
		j->gone--;
	}
}

static void
end(struct epd_fs_jobs *j, struct job *x, enum epd_fs_job_status status)
{
	x->is.status = status;
	if (status != EPD_FS_FAILED)
		*x->is.error = '\0';
	j->bytes -= x->text.n;
	epd_buf_free(&x->text);
	epd_buf_free(&x->words);
	j->live--;
	j->gone++;
	tell(j, &x->is);
	forget(j, x);
	pthread_cond_broadcast(&j->more);
}

static struct job *
find(const struct epd_fs_jobs *j, uint64_t number)
{
	struct job *x = j->first;

	while (x && x->is.number != number)
		x = x->next;
	return x;
}

/* The oldest that is queued and has no older one of its state before it. */
static struct job *
pick(const struct epd_fs_jobs *j)
{
	for (struct job *x = j->first, *old; x; x = x->next) {
		if (x->is.status != EPD_FS_QUEUED)
			continue;
		for (old = j->first; old != x; old = old->next)
			if (!epd_fs_job_is_over(&old->is) &&
			    is_of(&old->is, &x->is.at))
				break;
		if (old == x)
			return x;
	}
	return NULL;
}

/* ---- one command ---- */

/* Where the state is now, by what the command said. */
static void
take_result(struct epd_fs_job *is, const struct epd_buf *said)
{
	struct epd_json *j = NULL;
	const char *state, *to;
	int64_t version;
	size_t n;

	if (!said->n || epd_json_parse(&j, epd_span(said->p, said->n), "result",
	    NULL) < 0)
		return;
	to = epd_json_str(epd_json_get(j, "to"), NULL);
	state = epd_json_str(epd_json_get(j, "state"), to);
	version = epd_json_int(epd_json_get(j, "version"), 0);
	if (state && (n = strlen(state)) + 16 < sizeof is->result) {
		strcpy(is->result, state);
		if (version > 0)
			snprintf(is->result + n, sizeof is->result - n,
			    "@%lld", (long long)version);
	}
	epd_json_free(j);
}

static void
take_end(struct epd_fs_job *is, const char *path, int status,
    const struct epd_fs_child *c)
{
	const struct epd_buf *s = &c->sentence.line;

	take_result(is, &c->said.line);
	is->exit = WIFEXITED(status) ? WEXITSTATUS(status) :
	    128 + WTERMSIG(status);
	if (WIFSIGNALED(status))
		snprintf(is->error, sizeof is->error, "%s: killed by signal %d",
		    strrchr(path, '/') + 1, WTERMSIG(status));
	else if (is->exit)
		snprintf(is->error, sizeof is->error, "%.*s", s->n ?
		    (int)s->n : 99, s->n ? (const char *)s->p :
		    "it did not say why");
}

/* Run it to its end; 0, or it did not begin. */
static int
run_child(struct epd_fs_jobs *j, struct job *x, char *const argv[],
    struct epd_fs_child *c)
{
	siginfo_t info;
	int status = 0, rc;

	pthread_mutex_lock(&j->lock);
	rc = x->cancel ? -ECANCELED : epd_fs_child_spawn(c, argv, j->env,
	    &x->pid);
	pthread_mutex_unlock(&j->lock);
	if (rc < 0)
		return rc;
	epd_fs_child_listen(c);
	while (waitid(P_PID, (id_t)x->pid, &info, WEXITED | WNOWAIT) < 0 &&
	    errno == EINTR)
		;
	pthread_mutex_lock(&j->lock);
	while (waitpid(x->pid, &status, 0) < 0 && errno == EINTR)
		;
	x->pid = 0;
	take_end(&x->is, argv[0], status, c);
	pthread_mutex_unlock(&j->lock);
	return 0;
}

/* A command goes by names: what they lead to must be what was meant. */
static int
is_there(struct epd_fs *fs, const struct epd_fs_at *at)
{
	struct epd_fs_workflow *w;
	int rc = epd_fs_same_store(fs);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = epd_fs_workflow(fs, at, &w, NULL);
	pthread_mutex_unlock(&fs->lock);
	return rc == EPD_ENOTHING ? -ESTALE : 0;
}

/* One command of a job; 1 if it did what it was to. */
static int
step(struct epd_fs_jobs *j, struct job *x, const char *command,
    struct epd_buf *words, const struct epd_buf *text)
{
	char *argv[WORDS + 3] = { NULL, (char *)(uintptr_t)"-j" };
	struct epd_buf path = {0};
	struct epd_fs_child c;
	int n = 2, rc;

	epd_buf_fmt(&path, "%s/%s", j->fs->o.bin ? j->fs->o.bin : "", command);
	argv[0] = (char *)(uintptr_t)epd_buf_cstr(&path);
	for (size_t i = 0; i < words->n;
	    i += strlen(argv[n++]) + 1)
		argv[n] = (char *)words->p + i;
	rc = path.failed ? -ENOMEM : is_there(j->fs, &x->is.at);
	if (rc == 0)
		rc = epd_fs_child_open(&c, text);
	if (rc == 0) {
		rc = run_child(j, x, argv, &c);
		epd_fs_child_close(&c);
	}
	if (rc < 0 && rc != -ECANCELED) {
		pthread_mutex_lock(&j->lock);
		x->is.exit = epd_exitcode(rc);
		snprintf(x->is.error, sizeof x->is.error, "%s: %s", command,
		    epd_strerror(rc));
		pthread_mutex_unlock(&j->lock);
	}
	epd_buf_free(&path);
	return rc == 0 && x->is.exit == 0;
}

static void
run(struct epd_fs_jobs *j, struct job *x)
{
	static const char file[] = "-f\0/dev/stdin\0--";
	struct epd_buf words = {0};
	char ref[EPD_REF_TEXT];
	int good = 1;

	if (x->has_text) {
		epd_ref_format(ref, x->is.at.workflow, x->is.at.state, 0);
		epd_buf_put(&words, file, sizeof file);
		epd_buf_put(&words, ref, strlen(ref) + 1);
		good = !words.failed && step(j, x, "epd-prefill", &words,
		    &x->text);
		epd_buf_free(&words);
	}
	if (good && x->command)
		good = step(j, x, x->command, &x->words, NULL);
	pthread_mutex_lock(&j->lock);
	end(j, x, good ? EPD_FS_DONE : x->cancel ? EPD_FS_CANCELLED :
	    EPD_FS_FAILED);
	pthread_mutex_unlock(&j->lock);
	j->over(j->arg);
}

static void *
work(void *arg)
{
	struct epd_fs_jobs *j = arg;
	struct job *x;

	pthread_mutex_lock(&j->lock);
	while (!j->closing) {
		if (!(x = pick(j))) {
			pthread_cond_wait(&j->more, &j->lock);
			continue;
		}
		x->is.status = EPD_FS_RUNNING;
		tell(j, &x->is);
		pthread_mutex_unlock(&j->lock);
		run(j, x);
		pthread_mutex_lock(&j->lock);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

/* ---- asked from without ---- */

int
epd_fs_job_put(struct epd_fs_jobs *j, const struct epd_fs_task *t,
    uint64_t *number, struct epd_why *why)
{
	struct job *x = epd_calloc(1, sizeof *x);
	size_t words = 0;
	int rc = 0;

	for (size_t i = 0; i < t->words.n; i++)
		words += !((const char *)t->words.p)[i];
	if (words > WORDS) {
		epd_free(x);
		return epd_why(why, -E2BIG, "more than %d words", WORDS);
	}
	if (!x)
		return -ENOMEM;
	x->is.at = *t->at;
	x->is.verb = t->verb;
	x->command = t->command;
	x->has_text = t->text.p != NULL;
	epd_buf_put(&x->text, t->text.p, t->text.n);
	epd_buf_put(&x->words, t->words.p, t->words.n);
	pthread_mutex_lock(&j->lock);
	if (x->text.failed || x->words.failed)
		rc = -ENOMEM;
	else if (j->closing || j->live >= QUEUE ||
	    j->bytes + x->text.n > QUEUED_BYTES)
		rc = epd_why(why, -EAGAIN, "%zu jobs wait already", j->live);
	if (rc == 0) {
		*number = x->is.number = ++j->number;
		*j->last = x;
		j->last = &x->next;
		j->live++;
		j->bytes += x->text.n;
		tell(j, &x->is);
		pthread_cond_signal(&j->more);
	}
	pthread_mutex_unlock(&j->lock);
	if (rc < 0)
		free_job(x);
	return rc;
}

/* Under the lock.  1: it is over by that. */
static int
cancel(struct epd_fs_jobs *j, struct job *x)
{
	const int again = x->cancel;

	x->cancel = 1;
	if (x->is.status == EPD_FS_QUEUED) {
		end(j, x, EPD_FS_CANCELLED);
		return 1;
	}
	/* One that was stopped hears of it too. */
	if (x->pid) {
		(void)kill(x->pid, again ? SIGKILL : SIGINT);
		(void)kill(x->pid, SIGCONT);
	}
	return 0;
}

int
epd_fs_job_cancel(struct epd_fs_jobs *j, uint64_t number)
{
	struct job *x;
	int rc, was_queued = 0;

	pthread_mutex_lock(&j->lock);
	x = find(j, number);
	rc = !x ? -ENOENT : epd_fs_job_is_over(&x->is) ? -ESRCH : 0;
	if (rc == 0)
		was_queued = cancel(j, x);
	pthread_mutex_unlock(&j->lock);
	if (was_queued)
		j->over(j->arg);
	return rc;
}

int
epd_fs_job_find(struct epd_fs_jobs *j, uint64_t number, struct epd_fs_job *out)
{
	struct job *x;

	pthread_mutex_lock(&j->lock);
	if ((x = find(j, number)))
		*out = x->is;
	pthread_mutex_unlock(&j->lock);
	return x ? 0 : -ENOENT;
}

void
epd_fs_job_told(struct epd_fs_jobs *j, uint64_t number)
{
	struct job *x;

	pthread_mutex_lock(&j->lock);
	if ((x = find(j, number)))
		x->is.told = 1;
	pthread_mutex_unlock(&j->lock);
}

int
epd_fs_job_next(struct epd_fs_jobs *j, const struct epd_fs_at *at,
    uint64_t after, struct epd_fs_job *out)
{
	struct job *x;

	pthread_mutex_lock(&j->lock);
	for (x = j->first; x && (x->is.number <= after || !is_of(&x->is, at));)
		x = x->next;
	if (x)
		*out = x->is;
	pthread_mutex_unlock(&j->lock);
	return x ? 0 : -ENOENT;
}

/* ---- all of it ---- */

static int
start(struct epd_fs_jobs *j)
{
	pthread_condattr_t clock;
	int rc = 0;

	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&j->more, &clock);
	pthread_condattr_destroy(&clock);
	while (rc == 0 && j->workers < WORKERS)
		if ((rc = epd_thread_begin(j->worker + j->workers, work,
		    j)) == 0)
			j->workers++;
	return rc;
}

int
epd_fs_jobs_open(struct epd_fs_jobs **out, struct epd_fs *fs,
    void (*over)(void *arg), void *arg, struct epd_why *why)
{
	struct epd_fs_jobs *j = epd_calloc(1, sizeof *j);
	int rc;

	if (!j)
		return epd_why(why, -ENOMEM, "no memory");
	j->fs = fs;
	j->over = over;
	j->arg = arg;
	j->last = &j->first;
	if ((rc = start(j)) == 0)
		rc = epd_fs_child_env(&j->env, &fs->o);
	if (rc < 0) {
		epd_fs_jobs_close(j);
		return epd_why(why, rc, "jobs: %s", epd_strerror(rc));
	}
	*out = j;
	return 0;
}

void
epd_fs_jobs_end(struct epd_fs_jobs *j)
{
	pthread_mutex_lock(&j->lock);
	/* From now on none is forgotten, so the list stays. */
	j->closing = 1;
	for (struct job *x = j->first; x; x = x->next)
		if (!epd_fs_job_is_over(&x->is) && !x->cancel)
			(void)cancel(j, x);
	pthread_cond_broadcast(&j->more);
	pthread_mutex_unlock(&j->lock);
}

/* Nothing lives when it returns.  Under the lock. */
static void
wait_for_all(struct epd_fs_jobs *j)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE;
	while (j->live && pthread_cond_timedwait(&j->more, &j->lock,
	    &until) == 0)
		;
	for (struct job *x = j->first; x; x = x->next)
		if (x->pid)
			(void)kill(x->pid, SIGKILL);
}

void
epd_fs_jobs_close(struct epd_fs_jobs *j)
{
	struct job *x;

	if (!j)
		return;
	epd_fs_jobs_end(j);
	pthread_mutex_lock(&j->lock);
	wait_for_all(j);
	pthread_mutex_unlock(&j->lock);
	for (int i = 0; i < j->workers; i++)
		pthread_join(j->worker[i], NULL);
	j->over(j->arg);
	while ((x = j->first)) {
		j->first = x->next;
		free_job(x);
	}
	epd_fs_child_env_free(j->env);
	pthread_cond_destroy(&j->more);
	pthread_mutex_destroy(&j->lock);
	epd_free(j);
}
