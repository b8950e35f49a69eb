/* work.h - encode and prefill. */
#ifndef EPD_FLOW_WORK_H
#define EPD_FLOW_WORK_H

#include <signal.h>

#include "base/json.h"
#include "flow/session.h"

/* ---- encode ---- */

struct epd_encoded {
	struct epd_name fp;
	uint32_t grid[3];	/* patches, before merging */
	uint32_t tokens;
	int hit;		/* 1: the encoder did not run */
	int memo;		/* 1: the file was not even decoded */
	uint64_t ns;
};
/*
 * An image file to a committed, read-back feature.  Fails: EPD_EFORMAT,
 * EPD_ETOOBIG, EPD_EUNSUPPORTED, -errno (-ENOSPC: nothing is left behind).
 */
int epd_flow_encode(struct epd_session *s, const char *path,
    struct epd_encoded *out, struct epd_why *why);

/* ---- create_state ---- */

/*
 * A state from what the caller has: tokens, the images that lie among them, and
 * pages that hold the first of them, if any.  What pages it lacks is computed
 * when it is used.  Given pages are named by the tokens, are checked only
 * against what was given, and serve this workflow alone.
 */
struct epd_create_state {
	const char *workflow;		/* "" makes one */
	const int32_t *ids;
	uint32_t nids;			/* 1 or more */
	const struct epd_image_ref *images;	/* ascending, features of this store */
	uint32_t nimages;
	const void *const *pages;	/* [npages], each of the session's page_bytes */
	uint32_t npages;
	uint32_t rows;			/* of the last page; all others are full */
	uint64_t ttl_ms;		/* 0: none */
};
struct epd_created {
	char workflow[EPD_WORKFLOW];
	uint32_t state;
};
/*
 * Fails: EPD_EFORMAT (a token or an image that cannot be), EPD_ETOOBIG,
 * -EINVAL (pages that hold more than there is), -ENOSPC, as epd_shard_create.
 */
int epd_flow_create(struct epd_session *s, const struct epd_create_state *c,
    struct epd_created *out, struct epd_why *why);

/* ---- prefill ---- */

/* One image of a request: a file, or a feature of this store by name. */
struct epd_request_image {
	const char *path;	/* NULL: feature */
	struct epd_name feature;
};

enum epd_prompt_kind { EPD_PROMPT_TURN, EPD_PROMPT_MESSAGES, EPD_PROMPT_RAW, EPD_PROMPT_CONTINUE };

enum epd_reuse_policy {
	EPD_REUSE_CONFIGURED, EPD_REUSE_NONE, EPD_REUSE_EXACT_PREFIX,
};

struct epd_prefill {
	enum epd_prompt_kind kind;
	enum epd_reuse_policy reuse;
	/* TURN: one message's content (parts; each image part takes the next of images) */
	const struct epd_json *content;
	const char *role;		/* "user" */
	const char *system;		/* a system turn before it, or NULL; first turn only */
	/* MESSAGES: the usual chat array; its images are resolved beneath image_dir */
	const struct epd_json *messages;
	const struct epd_json *tools;	/* TURN on a new state and MESSAGES, or NULL */
	/*
	 * RAW, CONTINUE: text, whose special tokens count in RAW only.  RAW: each
	 * image pad takes the next image; with no pad all images come first.
	 */
	struct epd_span text;
	const struct epd_request_image *images;
	int nimages;
	int vision_id;			/* "Picture 1: " before images */
	int no_generation;		/* leave out the assistant's opening */
	/* where to: state 0 makes one in workflow ("" makes one of those too) */
	const char *workflow;
	uint32_t state;
	uint32_t expect;		/* version it must have, 0: whatever it has */
	uint64_t key;			/* idempotency */
	uint64_t ttl_ms;		/* of a new state; 0: none */
	const volatile sig_atomic_t *stop;	/* nonzero: give up before the next chunk; may be NULL */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

struct epd_prefilled {
	char workflow[EPD_WORKFLOW];
	uint32_t state, version;
	uint64_t tokens;	/* of the state now */
	uint64_t fresh;		/* computed here */
	uint64_t reused;	/* found in pages, */
	uint64_t borrowed;	/* of them in other states' */
	uint64_t lost;		/* pages found missing and computed again */
	uint32_t images, encoded, hits;
	uint64_t ns;
};
/*
 * Fails: EPD_EFORMAT, EPD_ETOOBIG (past the model's positions), EPD_ENOSTATE,
 * EPD_EVERSION, EPD_EMODEL, EPD_ESUSPECT, EPD_EUSAGE (unknown template: --raw),
 * -EINTR (stopped).  On failure no state has changed.
 */
int epd_flow_prefill(struct epd_session *s, const struct epd_prefill *p,
    struct epd_prefilled *out, struct epd_why *why);

#endif
