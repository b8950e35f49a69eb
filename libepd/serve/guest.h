/* guest.h - one guest and its windows.  Not for outsiders. */
#ifndef EPD_SERVE_GUEST_H
#define EPD_SERVE_GUEST_H

#include <pthread.h>

#include "serve/serve.h"

enum epd_window_kind {
	EPD_WINDOW_PAGES_OUT = 1, EPD_WINDOW_PAGES_IN,
	EPD_WINDOW_FEATURE_OUT, EPD_WINDOW_FEATURE_IN,
};

struct epd_window {
	struct epd_window *next;
	uint64_t id;
	enum epd_window_kind kind;
	struct epd_extent *extent;
	uint32_t n;
	uint64_t charged;		/* bytes of credit */
	uint32_t open;			/* files, of the guest's */
	/* one of these, by kind */
	struct epd_gift *gift;
	struct epd_arrival *arrival;
	struct epd_feature_files files;
	uint8_t *part[EPD_PARTS];
	uint64_t part_bytes[EPD_PARTS];
	struct epd_name fp;
	char workflow[EPD_WORKFLOW];
	uint64_t unnamed;		/* bytes taken from the list of what is kept */
};

/* A run that a guest wrote and no record names yet; 0: one it is about to write. */
struct epd_kept {
	char workflow[EPD_WORKFLOW];
	uint64_t run, bytes;
	const struct epd_guest *by;
	uint8_t party[16];
	struct epd_arrival *arrival;	/* marks its folder; NULL: the guest's mark does */
};
struct epd_kept_list {
	pthread_mutex_t lock;
	struct epd_kept *v;
	size_t n, room;
	uint64_t most;			/* bytes of them all: the tier's cap */
};
/*
 * Room for one run of so many bytes, before it is written.  Fails: EPD_ETOOBIG (its party
 * would have more than one may), EPD_ECREDIT (all would), -ENOMEM.
 */
int epd_kept_take(struct epd_kept_list *l, const struct epd_guest *g,
    uint64_t bytes, struct epd_why *why);
/* It is not written after all. */
void epd_kept_give(struct epd_kept_list *l, const struct epd_guest *g,
    uint64_t bytes);
/* It is this run, of so many bytes, for which room was taken. */
void epd_kept_add(struct epd_kept_list *l, const struct epd_kept *kept);
/* Bytes that one party may have there: three quarters. */
uint64_t epd_kept_share(const struct epd_kept_list *l);
/* Whether one of the guest's party wrote it. */
int epd_kept_has(struct epd_kept_list *l, const struct epd_guest *g,
    const char *workflow, uint64_t run);
/* A half names those n now. */
void epd_kept_let_go(struct epd_kept_list *l, struct epd_store *s,
    const char *workflow, const uint64_t *run, size_t n);
/* All that a guest wrote and nobody named, and its marks. */
void epd_kept_end(struct epd_kept_list *l, struct epd_guest *g);

struct epd_guest {
	struct epd_serving *of;
	struct epd_store *s;
	pid_t near;			/* its process, if it is here and this user's; else 0 */
	struct epd_window *window;
	uint64_t next_id;
	uint32_t files;			/* open, of windows that are read */
	int met;			/* it said whose it is, and that is who is served */
	uint8_t party[16];		/* who else is the same peer's */
	/* folders marked so that no sweep takes what no record names */
	struct { char workflow[EPD_WORKFLOW]; int fd; } *mark;
	size_t nmarks, mark_room;
	uint64_t *claimed;		/* runs that the READY in hand names */
	size_t nclaimed, claimed_room;
};
/* Whether one more window or folder may be open: 0, or EPD_ECREDIT. */
int epd_guest_room(const struct epd_guest *g, struct epd_why *why);
/* A window has so many files open, until it is freed. */
void epd_guest_holds(struct epd_guest *g, struct epd_window *w, uint32_t files);
/* The folder's descriptor, the guest's.  -errno, EPD_ELOCKED, EPD_ECREDIT. */
int epd_guest_mark(struct epd_guest *g, const char *workflow);

/* A window with room for n extents; the guest's once it is entered. */
struct epd_window *epd_window_new(enum epd_window_kind kind, uint32_t n);
void epd_window_free(struct epd_guest *g, struct epd_window *w);
/* Tell the server of it; its id is in answers. */
void epd_window_enter(struct epd_guest *g, struct epd_window *w,
    struct epd_opened *out);
struct epd_window *epd_window_find(struct epd_guest *g, uint64_t id);

/* Bytes and a slot of the receiver's, whole or EPD_ECREDIT; EPD_ETOOBIG: never. */
int epd_serving_take(struct epd_serving *s, uint64_t bytes, struct epd_why *why);
void epd_serving_give(struct epd_serving *s, uint64_t bytes);
void epd_serving_credits(struct epd_serving *s, struct epd_credits *out);

struct epd_kept_list *epd_serving_kept(struct epd_serving *s);

/* ---- answers, by what they are about ---- */

int epd_guest_pages(struct epd_guest *g, enum epd_ask verb, struct epd_cur *c,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why);
int epd_guest_feature(struct epd_guest *g, enum epd_ask verb, struct epd_cur *c,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why);

#endif
