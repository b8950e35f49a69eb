/*
 * mooncake_double.c - the functions of a Mooncake Store's C library over a
 * table in memory, as far as the tier calls them; built as a library of its
 * own, with the names and forms of the real one's store_c.h.  A test steers it
 * by double_of().
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mooncake_double.h"

enum { OBJECTS = 256, NOT_FOUND = -704, TOO_SMALL = -600, LEASED = -706 };

struct pin {
	size_t replicas;
	int at8, at12;
	const char **segments;
	size_t nsegments;
	int action, has_ttl;
	uint64_t ttl;
};

static struct {
	char key[256];
	void *p;
	size_t n;
} object[OBJECTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone_on = PTHREAD_COND_INITIALIZER;
static struct mooncake_double it = { .form = DOUBLE_NOW };
static char *room;
static size_t room_bytes;

struct mooncake_double *
double_of(void)
{
	return &it;
}

void
double_hang(int on)
{
	pthread_mutex_lock(&lock);
	it.hangs = on;
	pthread_cond_broadcast(&gone_on);
	pthread_mutex_unlock(&lock);
}

static int
find(const char *key)
{
	for (int i = 0; i < OBJECTS; i++)
		if (object[i].p && !strcmp(object[i].key, key))
			return i;
	return -1;
}

static void
forget(int i)
{
	free(object[i].p);
	object[i].p = NULL;
}

int
double_set(const char *key, const void *p, size_t n)
{
	int i = find(key);

	for (int k = 0; i < 0 && k < OBJECTS; k++)
		if (!object[k].p)
			i = k;
	if (i < 0)
		return -200;
	free(object[i].p);
	object[i].p = malloc(n ? n : 1);
	memcpy(object[i].p, p, n);
	object[i].n = n;
	strcpy(object[i].key, key);
	return 0;
}

size_t
double_get(const char *key, void *p, size_t room_of_p)
{
	const int i = find(key);

	if (i < 0 || object[i].n > room_of_p)
		return 0;
	memcpy(p, object[i].p, object[i].n);
	return object[i].n;
}

void
double_clear(void)
{
	for (int i = 0; i < OBJECTS; i++)
		forget(i);
	memset(&it, 0, sizeof it);
	it.form = DOUBLE_NOW;
}

/* Under the lock: as long as the library is to hang. */
static void
call(void)
{
	pthread_mutex_lock(&lock);
	it.calls++;
	while (it.hangs)
		pthread_cond_wait(&gone_on, &lock);
}

static int
done(int rc)
{
	pthread_mutex_unlock(&lock);
	return rc;
}

static int
is_registered(const void *p, size_t n)
{
	const char *at = p;

	return room && at >= room && at + n <= room + room_bytes;
}

static int
keep(const char *key, const void *p, size_t n, const struct pin *how)
{
	const int is_new = it.form == DOUBLE_NOW;

	if (how && is_new && (unsigned)how->action > 2)
		return -1;
	it.soft = how && (is_new ? how->action == 1 : how->at8);
	it.hard = how && (is_new ? how->at8 :
	    it.form == DOUBLE_THEN && how->at12);
	if (it.puts_fail)
		return it.puts_fail;
	return find(key) >= 0 ? 0 : double_set(key, p, n);
}

void *mooncake_store_create(void);
void mooncake_store_destroy(void *s);
int mooncake_store_setup(void *s, const char *host, const char *metadata,
    uint64_t segment, uint64_t buffer, const char *protocol,
    const char *device, const char *master);
int mooncake_store_put(void *s, const char *key, const void *p, size_t n,
    const struct pin *how);
int mooncake_store_batch_put_from(void *s, const char **key, void **p,
    const size_t *n, size_t count, const struct pin *how, int *rc);
int mooncake_store_batch_get_into(void *s, const char **key, void **p,
    const size_t *n, size_t count, int64_t *rc);
int mooncake_store_batch_is_exist(void *s, const char **key, size_t count,
    int *rc);
int mooncake_store_remove(void *s, const char *key, int force);
int mooncake_store_register_buffer(void *s, void *p, size_t n);
int mooncake_store_unregister_buffer(void *s, void *p);

void *
mooncake_store_create(void)
{
	call();
	it.handles++;
	done(0);
	return &it;
}

void
mooncake_store_destroy(void *s)
{
	(void)s;
	call();
	it.handles--;
	done(0);
}

int
mooncake_store_setup(void *s, const char *host, const char *metadata,
    uint64_t segment, uint64_t buffer, const char *protocol,
    const char *device, const char *master)
{
	call();
	return done(it.setup_fails ? -1 : s != &it || !*host || segment ||
	    !buffer || strcmp(metadata, "P2PHANDSHAKE") ||
	    strcmp(protocol, "tcp") || *device || !*master);
}

int
mooncake_store_put(void *s, const char *key, const void *p, size_t n,
    const struct pin *how)
{
	(void)s;
	call();
	return done(keep(key, p, n, how));
}

int
mooncake_store_batch_put_from(void *s, const char **key, void **p,
    const size_t *n, size_t count, const struct pin *how, int *rc)
{
	(void)s;
	call();
	for (size_t i = 0; i < count; i++)
		rc[i] = is_registered(p[i], n[i]) ?
		    keep(key[i], p[i], n[i], how) : -800;
	return done(0);
}

int
mooncake_store_batch_get_into(void *s, const char **key, void **p,
    const size_t *n, size_t count, int64_t *rc)
{
	(void)s;
	call();
	for (size_t i = 0; i < count; i++) {
		const int k = find(key[i]);

		rc[i] = k < 0 ? NOT_FOUND : object[k].n > n[i] ? TOO_SMALL :
		    !is_registered(p[i], n[i]) ? -800 : (int64_t)object[k].n;
		if (it.gets_fail)
			rc[i] = it.gets_fail;
		if (rc[i] >= 0)
			memcpy(p[i], object[k].p, object[k].n);
	}
	return done(0);
}

int
mooncake_store_batch_is_exist(void *s, const char **key, size_t count, int *rc)
{
	(void)s;
	call();
	for (size_t i = 0; i < count; i++) {
		if (it.forgets && find(key[i]) >= 0)
			forget(find(key[i]));
		rc[i] = find(key[i]) >= 0;
	}
	return done(0);
}

int
mooncake_store_remove(void *s, const char *key, int force)
{
	int i;

	(void)s;
	call();
	i = find(key);
	if (i < 0)
		return done(NOT_FOUND);
	if (it.leased && !force)
		return done(LEASED);
	forget(i);
	return done(0);
}

int
mooncake_store_register_buffer(void *s, void *p, size_t n)
{
	(void)s;
	call();
	if (it.registering_fails)
		return done(-1);
	room = p;
	room_bytes = n;
	it.registered++;
	return done(0);
}

int
mooncake_store_unregister_buffer(void *s, void *p)
{
	(void)s;
	call();
	if (p != room)
		return done(-1);
	room = NULL;
	it.registered--;
	return done(0);
}
