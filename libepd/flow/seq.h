/*
 * seq.h - a sequence being worked on: a state's tokens and images, the pages
 * found for them, and a run of new pages behind those; publish.h has what becomes of
 * it.  Not for outsiders.
 *  1. Pages hold tokens [0, rows); page i lies at page[i] for i * T < rows.
 *  2. Pages from first on are in fresh, which nobody else sees until it is
 *     published; all before are read-only mappings.  Those from taken_at on are
 *     others' that it takes up; publishing links their runs under ids of its own.
 *  3. A page table's pointers are equal for sequences that share a run and came
 *     from the same struct epd_runs, so that attention reads it once.  A run
 *     that was lost and mended is put among those.
 */
#ifndef EPD_FLOW_SEQ_H
#define EPD_FLOW_SEQ_H

#include "flow/inner.h"
#include "flow/runs.h"

struct epd_seq {
	struct epd_session *s;
	struct epd_workflow *w;
	struct epd_runs *runs;
	int32_t *ids;
	uint64_t n, cap;
	struct epd_image_ref *images;
	struct epd_anchor *anchors;	/* the same images, as the engine has them */
	struct epd_visual *visual;	/* rows NULL until needed */
	uint32_t nimages;
	void **own;			/* rows loaded here; others are on loan */
	int nown, nkept;
	void **page;
	struct epd_name *name;		/* of page i */
	long npages, pcap, npos;
	uint64_t rows;
	struct epd_run *fresh;
	long first;
	struct epd_taken *take;		/* pages from taken_at on (reuse.h) */
	struct epd_run_link *link;	/* [ntakes] their own runs, once published */
	uint32_t ntakes;
	long taken_at;
	long asked;			/* pages the memory tier was asked to hold */
	struct epd_run **kept;		/* computed, not to be published */
	uint64_t found;			/* tokens whose pages were there */
	uint64_t borrowed;		/* of them, in others' pages */
	struct epd_name base;		/* parent's name of page 0 */
	int lossy;			/* some pages came by a codec (lossy.h): */
	char codec[EPD_CODEC_NAME];	/* by this one, or "": by more than one */
	struct epd_seq *exact;		/* the same as they were before; or NULL */
	uint64_t used_ns;		/* when its path was taken up, wall clock */
	uint64_t lost, computed;	/* pages computed again; tokens computed */
	const volatile sig_atomic_t *stop;	/* as in struct epd_prefill */
	int given;			/* a caller's or a peer's pages are among them */
	int (*beat)(void *arg, struct epd_why *why);	/* while it computes; < 0 ends it */
	void *beat_arg;
	int32_t (*pos)[3];
	struct epd_version head;	/* of the version loaded; its arrays are void */
};

void epd_seq_begin(struct epd_seq *q, struct epd_session *s,
    struct epd_workflow *w, struct epd_runs *runs);
void epd_seq_free(struct epd_seq *q);

/*
 * Take up version `version` (0: newest) of a state: its tokens, images and
 * pages.  Those missing or damaged are computed again, checked against the log and
 * published under their old run; in given ones' stead, they may serve q alone.
 * Those that a codec brought are made by it again, or else are lost.
 * Fails: EPD_ENOSTATE, EPD_EMODEL, EPD_ESUSPECT, EPD_ECORRUPT (a recomputed
 * page differs from the record), and as the engine.
 */
int epd_seq_load(struct epd_seq *q, uint32_t state, uint32_t version,
    struct epd_why *why);
/*
 * Put ids and images (absolute at) behind; rows[i], if rows is given, is lent
 * until the sequence is freed.  -ENOMEM, EPD_ETOOBIG, EPD_EFORMAT (an image astray).
 */
int epd_seq_extend(struct epd_seq *q, const int32_t *ids, size_t n,
    const struct epd_image_ref *images, void *const *rows, size_t nimages,
    struct epd_why *why);

int epd_seq_table(struct epd_seq *q, long n);
void epd_seq_shape(const struct epd_session *s, struct epd_run_shape *out);

/* Fresh pages for tokens [rows, upto).  -ENOSPC, -ENOMEM. */
int epd_seq_room(struct epd_seq *q, uint64_t upto, struct epd_why *why);
/* Make room and rows for tokens [rows, upto), and say them to the engine. */
int epd_seq_chunk(struct epd_seq *q, uint64_t upto, struct epd_chunk *out,
    struct epd_why *why);
/*
 * Compute up to there, in chunks of the configured size.  p, for its progress,
 * may be NULL.  -EINTR once stop is set.
 */
int epd_seq_compute(struct epd_seq *q, uint64_t upto,
    const struct epd_prefill *p, struct epd_why *why);

#endif
