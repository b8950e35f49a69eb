/*
 * mooncake_worker.c - the library's calls, and who waits for them.
 *
 * 1. in->job says whose the worker is: the thread's while there is one, else
 *    the caller's.
 * 2. The thread frees all if it was left, else whoever closes does.  The
 *    library's handle is the thread's alone.
 * 3. The library stays loaded once it is: its threads do not end with its
 *    handle.
 *
 * What a put is to be pinned by is a struct of the library's that has had three
 * forms, none of which says which it is:
 *
 *	offset	first		then		now
 *	 0	replicas	replicas	replicas
 *	 8	soft pin	soft pin	hard pin
 *	12			hard pin
 *	16	segments, and how many
 *	32					what of the soft pin
 *
 * A hard pin is told by 8 and 12, which is the most that each form has.  Where
 * a soft pin is told must be found out: only the last refuses what it does not
 * know at 32.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/thread.h"
#include "tier/mooncake_worker.h"

#define SECOND UINT64_C(1000000000)
#define LIBRARY "libmooncake_store.so"
/* Beside what is registered the library wants some memory of its own. */
enum { LOCAL_BYTES = 16 << 20 };

struct pin {
	size_t replicas;
	int32_t at8, at12;
	const char **segments;
	size_t nsegments;
	int32_t soft_action, has_soft_ms;
	uint64_t soft_ms, spare[4];
};
enum { SOFT_ENABLE = 1, SOFT_UNKNOWN = 99, REFUSED = -1 };

/* What is called of the library, by its name without "mooncake_store_". */
#define CALLS(X) \
	X(void *, create, (void)) \
	X(void, destroy, (void *)) \
	X(int, setup, (void *, const char *, const char *, uint64_t, \
	    uint64_t, const char *, const char *, const char *)) \
	X(int, put, (void *, const char *, const void *, size_t, \
	    const struct pin *)) \
	X(int, batch_put_from, (void *, const char **, void **, \
	    const size_t *, size_t, const struct pin *, int *)) \
	X(int, batch_get_into, (void *, const char **, void **, \
	    const size_t *, size_t, int64_t *)) \
	X(int, batch_is_exist, (void *, const char **, size_t, int *)) \
	X(int, remove, (void *, const char *, int)) \
	X(int, register_buffer, (void *, void *, size_t)) \
	X(int, unregister_buffer, (void *, void *))

struct calls {
#define X(type, name, args) type (*name) args;
	CALLS(X)
#undef X
};

struct epd_worker_in {
	struct calls call;
	void *store;
	char *host, *master;
	char probe[EPD_MOONCAKE_KEY];
	enum epd_mooncake_pin pin;
	struct pin how;

	pthread_mutex_t lock;
	pthread_cond_t turn;
	pthread_t thread;
	enum epd_worker_job job;
	int rc, ending, ended, left;
};

static int
load(struct calls *c, const char *library, struct epd_why *why)
{
	void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	int rc = 0;

	if (!so)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "%.100s cannot be loaded here", library);
#define X(type, name, args) \
	c->name = (type (*) args)dlsym(so, "mooncake_store_" #name); \
	if (!c->name) \
		rc = epd_why(why, EPD_EUNSUPPORTED, "%.100s has no " \
		    "mooncake_store_" #name, library);
	CALLS(X)
#undef X
	dlclose(so);
	return rc;
}

/* Where in the struct the pin is to be told. */
static void
set_pin(struct epd_worker_in *in)
{
	struct pin probe = { .replicas = 1, .soft_action = SOFT_UNKNOWN };
	int rc;

	in->how.replicas = 1;
	if (in->pin == EPD_MOONCAKE_PIN_HARD) {
		in->how.at8 = in->how.at12 = 1;
		return;
	}
	rc = in->call.put(in->store, in->probe, "?", 1, &probe);
	in->how.at8 = !rc;
	in->how.soft_action = rc == REFUSED ? SOFT_ENABLE : 0;
	if (!rc)
		in->call.remove(in->store, in->probe, 1);
}

static int
setup(struct epd_worker_in *in)
{
	in->store = in->call.create();
	if (!in->store || in->call.setup(in->store, in->host, "P2PHANDSHAKE", 0,
	    LOCAL_BYTES, "tcp", "", in->master))
		return EPD_EPEER;
	if (in->pin != EPD_MOONCAKE_PIN_NONE)
		set_pin(in);
	return 0;
}

static int
make_room(struct epd_worker *w)
{
	struct calls *c = &w->in->call;

	if (w->room)
		c->unregister_buffer(w->in->store, w->room);
	epd_free(w->room);
	w->room = epd_alloc_aligned(4096, w->want);
	if (!w->room)
		return -ENOMEM;
	/* Its pages exist before the library may want to hold them. */
	memset(w->room, 0, w->want);
	if (!c->register_buffer(w->in->store, w->room, w->want))
		return 0;
	epd_free(w->room);
	w->room = NULL;
	return EPD_EPEER;
}

static int
do_job(struct epd_worker *w, enum epd_worker_job job)
{
	struct epd_worker_in *in = w->in;
	const struct pin *how = in->pin ? &in->how : NULL;
	const char *key[EPD_WORKER_KEYS];
	int rc = 0, is[EPD_WORKER_KEYS];
	const size_t n = (size_t)w->n;

	if (job == EPD_WORKER_SETUP)
		return setup(in);
	if (job == EPD_WORKER_ROOM)
		return make_room(w);
	for (size_t i = 0; i < n; i++) {
		key[i] = w->key[i];
		is[i] = -1;
		w->result[i] = -1;
	}
	if (job == EPD_WORKER_GET)
		return in->call.batch_get_into(in->store, key, w->buffer,
		    w->size, n, w->result) ? EPD_EPEER : 0;
	if (job == EPD_WORKER_PUT)
		rc = in->call.batch_put_from(in->store, key, w->buffer,
		    w->size, n, how, is);
	else if (job == EPD_WORKER_EXIST)
		rc = in->call.batch_is_exist(in->store, key, n, is);
	else for (size_t i = 0; i < n; i++)
		is[i] = in->call.remove(in->store, key[i],
		    job == EPD_WORKER_REMOVE);
	for (size_t i = 0; i < n; i++)
		w->result[i] = is[i];
	return rc ? EPD_EPEER : 0;
}

static void
give_back(struct epd_worker *w)
{
	pthread_mutex_destroy(&w->in->lock);
	pthread_cond_destroy(&w->in->turn);
	epd_free(w->in->host);
	epd_free(w->in->master);
	epd_free(w->in);
	epd_free(w->room);
	epd_free(w);
}

static void *
work(void *arg)
{
	struct epd_worker *w = arg;
	struct epd_worker_in *in = w->in;
	int left;

	pthread_mutex_lock(&in->lock);
	while (!in->ending || in->job) {
		const enum epd_worker_job job = in->job;
		int rc;

		if (!job) {
			pthread_cond_wait(&in->turn, &in->lock);
			continue;
		}
		pthread_mutex_unlock(&in->lock);
		rc = do_job(w, job);
		pthread_mutex_lock(&in->lock);
		in->rc = rc;
		in->job = EPD_WORKER_NOTHING;
		pthread_cond_broadcast(&in->turn);
	}
	pthread_mutex_unlock(&in->lock);
	if (in->store && w->room)
		in->call.unregister_buffer(in->store, w->room);
	if (in->store)
		in->call.destroy(in->store);
	pthread_mutex_lock(&in->lock);
	in->ended = 1;
	left = in->left;
	pthread_cond_broadcast(&in->turn);
	pthread_mutex_unlock(&in->lock);
	if (left)
		give_back(w);
	return NULL;
}

/* Under the lock, for a moment at most; 0 once it is too late. */
static int
wait_till(struct epd_worker_in *in, uint64_t deadline_ns)
{
	const uint64_t now = epd_clock_boot_ns(), slice = SECOND / 50;
	uint64_t ns = slice;
	struct timespec t;

	if (now >= deadline_ns)
		return 0;
	if (deadline_ns - now < ns)
		ns = deadline_ns - now;
	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(ns / SECOND);
	t.tv_nsec = (long)(ns % SECOND);
	pthread_cond_timedwait(&in->turn, &in->lock, &t);
	return 1;
}

int
epd_worker_is_busy(struct epd_worker *w)
{
	int is;

	pthread_mutex_lock(&w->in->lock);
	is = w->in->job != EPD_WORKER_NOTHING;
	pthread_mutex_unlock(&w->in->lock);
	return is ? EPD_EPEER : 0;
}

int
epd_worker_ask(struct epd_worker *w, enum epd_worker_job job,
    uint64_t deadline_ns)
{
	struct epd_worker_in *in = w->in;
	int rc = 0;

	pthread_mutex_lock(&in->lock);
	if (in->job) {
		rc = EPD_EPEER;
	} else {
		in->job = job;
		pthread_cond_broadcast(&in->turn);
		while (in->job && !epd_is_stopped() &&
		    wait_till(in, deadline_ns))
			;
		rc = !in->job ? in->rc : epd_is_stopped() ? -ECANCELED :
		    EPD_ETIMEOUT;
	}
	pthread_mutex_unlock(&in->lock);
	return rc;
}

static int
begin(struct epd_worker *w)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&w->in->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->in->turn, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return w->in->host && w->in->master ?
	    epd_thread_begin(&w->in->thread, work, w) : -ENOMEM;
}

int
epd_worker_open(struct epd_worker **out, const struct epd_mooncake *m,
    uint64_t deadline_ns, struct epd_why *why)
{
	const char *library = m->library ? m->library : LIBRARY;
	struct epd_worker *w;
	struct calls call;
	int rc;

	if ((rc = load(&call, library, why)))
		return rc;
	w = epd_calloc(1, sizeof *w);
	if (!w || !(w->in = epd_calloc(1, sizeof *w->in))) {
		epd_free(w);
		return -ENOMEM;
	}
	w->in->call = call;
	w->in->pin = m->pin;
	w->in->host = epd_strdup(m->host ? m->host : "127.0.0.1");
	w->in->master = epd_strdup(m->master);
	snprintf(w->in->probe, sizeof w->in->probe, "epd1-pin-%s", m->store);
	rc = begin(w);
	if (!rc) {
		rc = epd_worker_ask(w, EPD_WORKER_SETUP, deadline_ns);
		if (!rc)
			*out = w;
		else
			epd_worker_close(w);
		return !rc ? 0 : epd_why(why, rc, "%.80s does not reach the "
		    "master at %.80s: %s", library, m->master,
		    epd_strerror(rc));
	}
	give_back(w);
	return rc;
}

void
epd_worker_close(struct epd_worker *w)
{
	const uint64_t till = epd_clock_boot_ns() + SECOND;
	struct epd_worker_in *in;
	int ended;

	if (!w)
		return;
	in = w->in;
	pthread_mutex_lock(&in->lock);
	in->ending = 1;
	pthread_cond_broadcast(&in->turn);
	while (!in->ended && wait_till(in, till))
		;
	ended = in->ended;
	in->left = !ended;
	if (!ended)
		pthread_detach(in->thread);
	pthread_mutex_unlock(&in->lock);
	if (!ended)
		return;
	pthread_join(in->thread, NULL);
	give_back(w);
}
