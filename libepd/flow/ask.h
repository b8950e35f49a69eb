/*
 * ask.h - what stores ask each other over a link (base/transport.h), as bytes: the
 * verbs of calls, their questions and answers.  FORMATS.md (Asking) draws them.
 * Both ends pack and unpack here, so that they cannot differ.
 *
 * Unpacking fails: EPD_EFORMAT.  Spans and strings are lent from the bytes.
 */
#ifndef EPD_FLOW_ASK_H
#define EPD_FLOW_ASK_H

#include "base/host.h"
#include "flow/handoff.h"

enum epd_ask {
	EPD_ASK_NODE = 1,	/* who are you, what do you grant */
	EPD_ASK_HAVE,		/* which of these pages */
	EPD_ASK_READ_PAGES, EPD_ASK_WRITE_PAGES, EPD_ASK_KEEP_PAGES,
	EPD_ASK_HAS_FEATURE, EPD_ASK_READ_FEATURE, EPD_ASK_WRITE_FEATURE,
	EPD_ASK_KEEP_FEATURE,
	/* the other half of a hand-off */
	EPD_ASK_MAKE, EPD_ASK_UNMAKE, EPD_ASK_STATE, EPD_ASK_REACH,
	EPD_ASK_LOOK, EPD_ASK_PREPARE, EPD_ASK_READY, EPD_ASK_SYNC,
	EPD_ASK_COMMIT, EPD_ASK_ROLLBACK, EPD_ASK_FORGET, EPD_ASK_STATUS,
	EPD_ASK_HAD,
	EPD_ASK_ADOPT_PAGES,	/* files of a process on this machine */
	EPD_ASK_OFFER,		/* begin one, to a workflow of who asks */
	EPD_ASK_STANDING,	/* which halves here have their other one in my store */
	EPD_ASKS
};
enum {
	EPD_ASK_FILES = 1024,
	EPD_ASK_PAGES = 1 << 18,	/* of one question, at most */
	EPD_ASK_HALVES = 256,		/* of one answer to STANDING */
	EPD_ASK_VERSION = 1,
};

/* What a server says of itself. */
struct epd_node_facts {
	uint8_t uuid[16];
	struct epd_credits credits;
	uint64_t most;			/* bytes of credit that it has in all */
};
/* party: random, one for all links of a peer's that belong together. */
void epd_ask_node_pack(struct epd_buf *b, const char *tenant,
    const uint8_t party[16]);
int epd_ask_node_unpack(struct epd_cur *c, char tenant[64], uint8_t party[16]);
void epd_node_facts_pack(struct epd_buf *b, const struct epd_node_facts *f);
int epd_node_facts_unpack(struct epd_cur *c, struct epd_node_facts *f);

int epd_ask_no_answer(struct epd_why *why);	/* what came is none: EPD_EPEER */
/* Strings: u32 length without a NUL, bytes; at most max - 1. */
void epd_ask_str(struct epd_buf *b, const char *s);
int epd_ask_take_str(struct epd_cur *c, char *out, size_t max);

/* A page as it is asked for, and as it is answered. */
struct epd_page_ask {
	struct epd_page_entry entry;
	uint64_t bytes, packed_sum;	/* as it travels; of raw ones the page's */
	uint8_t there;
};
/* n, then each.  Owns: the caller frees *out. */
void epd_ask_pages_pack(struct epd_buf *b, const struct epd_page_ask *p,
    uint32_t n);
int epd_ask_pages_unpack(struct epd_cur *c, struct epd_page_ask **out,
    uint32_t *n);

/* Names, rows and sums alone.  Owns: the caller frees *out. */
void epd_ask_refs_pack(struct epd_buf *b, const struct epd_page_ref *p,
    uint32_t n);
int epd_ask_refs_unpack(struct epd_cur *c, struct epd_page_ref **out,
    uint32_t *n);

/* Which pages, of what, how. */
struct epd_pages_ask {
	char workflow[EPD_WORKFLOW];	/* READ: of a state; "": by name alone */
	uint8_t uuid[16];		/* WRITE: the workflow it must be */
	uint32_t state, version;
	struct epd_run_shape shape;	/* WRITE; in READ's answer */
	char codec[EPD_CODEC_NAME];	/* "none": as they are */
	uint64_t window;		/* in answers; 0: no page is there */
	struct epd_page_ask *page;
	uint32_t n;
	const struct epd_name *as;	/* [n] names they get there, or NULL; not packed */
};
void epd_pages_ask_pack(struct epd_buf *b, const struct epd_pages_ask *a);
int epd_pages_ask_unpack(struct epd_cur *c, struct epd_pages_ask *a);
void epd_pages_ask_free(struct epd_pages_ask *a);

/* A half, its workflow, and what is to be done with it. */
struct epd_half_ask {
	char workflow[EPD_WORKFLOW];
	uint8_t uuid[16];
	uint8_t id[16];
	uint64_t lsn;			/* what is decided is about the half that has it */
	uint32_t state, version;	/* STATE, STATUS; OFFER */
	char reason[256];		/* ROLLBACK */
	struct epd_handoff h;		/* PREPARE, READY; LOOK's answer */
	char store[4096], peer[EPD_WORKFLOW];	/* h's strings */
	uint8_t expired;		/* LOOK's answer */
	uint8_t had;			/* HAD's */
	uint32_t status;		/* STATUS's: an enum epd_status */
	uint64_t timeout_ms;		/* OFFER: how long it may take */
};
void epd_half_ask_pack(struct epd_buf *b, const struct epd_half_ask *a);
int epd_half_ask_unpack(struct epd_cur *c, struct epd_half_ask *a);
/* STANDING: with the store home, in a workflow ("": in any).  Answer: n, then halves. */
void epd_standing_ask_pack(struct epd_buf *b, const uint8_t home[16],
    const char *workflow);
int epd_standing_ask_unpack(struct epd_cur *c, uint8_t home[16],
    char workflow[EPD_WORKFLOW]);

/*
 * Answer what is asked of a hand-off's half here (MAKE to HAD).  is_kept: whether a
 * run is one that whoever asks has written.  answer is as it was on failure.
 */
int epd_ask_answer(struct epd_store *s, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, int (*is_kept)(void *arg, const char *workflow,
    uint64_t run), void *arg, struct epd_why *why);

#endif
