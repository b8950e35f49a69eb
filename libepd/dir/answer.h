/*
 * answer.h - what etcd says, taken apart.  Nothing of it is trusted: numbers come as
 * strings or not at all, keys and values as base64, and a value under our prefix may be
 * anybody's.  Outside this room include dir/dir.h.
 */
#ifndef EPD_DIR_ANSWER_H
#define EPD_DIR_ANSWER_H

#include "base/base64.h"
#include "base/json.h"
#include "dir/hint.h"

enum {
	EPD_ETCD_KEY = 512,
	EPD_ETCD_ANSWER = 256 << 10,	/* bytes that are read of one */
	EPD_ETCD_SCHEMA = 1,		/* major of the values */
	EPD_ETCD_OWNER = 50,
};

struct epd_etcd_kv {
	char key[EPD_ETCD_KEY];		/* no NUL within */
	struct epd_buf value;
	uint64_t created, changed;	/* revisions */
	uint64_t lease;			/* 0: none */
};

/*
 * An answer to a question, as a tree, and the revision it was given at (0: untold).
 * Fails: EPD_EFORMAT (no object, or it says no), EPD_ELEASE (etcd knows no such
 * lease), EPD_EPEER (it cannot answer now), -ENOMEM.
 */
int epd_etcd_answer(struct epd_json **out, uint64_t *revision, long status,
    struct epd_span text, struct epd_why *why);
/* A number of etcd's: a string of digits, or one; 0 if it is neither. */
uint64_t epd_etcd_number(const struct epd_json *j);
/* One of kvs.  Owns: the caller frees out->value.  Fails: EPD_EFORMAT, -ENOMEM. */
int epd_etcd_kv(struct epd_etcd_kv *out, const struct epd_json *j);

/*
 * Values, of keys that begin with prefix.  A value that says another key or owner
 * than its key does is not it.  Fails: EPD_EFORMAT, EPD_EKIND (another major).
 */
int epd_hint_parse(struct epd_hint *out, const struct epd_etcd_kv *kv,
    const char *prefix);
int epd_node_parse(struct epd_node_info *out, const struct epd_etcd_kv *kv,
    const char *prefix);
/* Of a shard's owner: the node and its term. */
int epd_owner_parse(struct epd_node_info *out, uint64_t *term,
    const struct epd_etcd_kv *kv);
/* The highest term that was ever given. */
int epd_term_parse(uint64_t *term, const struct epd_etcd_kv *kv);

/* How the keys of a node end. */
void epd_etcd_node_id(char out[EPD_ETCD_OWNER], const struct epd_node_info *n);
void epd_hint_format(struct epd_buf *out, const struct epd_hint *h);
void epd_node_format(struct epd_buf *out, const struct epd_node_info *n);
void epd_owner_format(struct epd_buf *out, const struct epd_node_info *n,
    uint64_t term);
void epd_term_format(struct epd_buf *out, uint64_t term);
/* "state/..." of a kind and key.  Fails: EPD_EUSAGE. */
int epd_hint_path(char out[EPD_ETCD_KEY], enum epd_hint_kind kind,
    const char *key);

/* A line of a watch. */
struct epd_watched {
	int created;
	int over;		/* it was cancelled: read anew */
	uint64_t revision;	/* all up to it has come; 0: untold */
};
/*
 * fn: a key that changed, or went, and when; not of keys that are none.
 * Fails: EPD_EFORMAT, -ENOMEM; then all may have changed.
 */
int epd_watch_line(struct epd_watched *out, struct epd_span line,
    void (*fn)(void *arg, const char *key, uint64_t revision), void *arg);

#endif
