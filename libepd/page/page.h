/*
 * page.h - KV pages as bytes: run files on the memory tier, and the names that
 * decide what is in them.  This room has never heard of a state.
 *
 * A run file holds the pages that one version adds.  It is written nameless,
 * published once under its run id, and from then on never written, truncated,
 * punched or reused: it is freed by unlink, and mappings outlive it.  Who else
 * has its pages, or some, links the file under an id of its own.
 */
#ifndef EPD_PAGE_H
#define EPD_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "page/codec.h"
#include "page/name.h"
#include "page/share.h"

/* Stands in the run file and in the log; both must agree. */
struct epd_page_entry {
	struct epd_name name;
	uint32_t rows;		/* tokens computed, 1..T; the rest is zero */
	uint64_t sum;		/* XXH3-64 of the page's bytes */
};

struct epd_run;

/*
 * Begin a nameless run in dirfd.  Its pages are asked for one by one: room is
 * allocated before it is mapped, so that a full tmpfs is -ENOSPC and never a
 * SIGBUS.  Owns: the caller owns *out; close without publish leaves nothing.
 */
int epd_run_new(struct epd_run **out, int dirfd,
    const struct epd_run_shape *shape);
/* The next page, zeroed, writable until publish; stays where it is.  -ENOSPC, -ENOMEM. */
int epd_run_add(struct epd_run *r, void **page);
long epd_run_count(const struct epd_run *r);
/* Said before publish: these pages were not computed here but given. */
void epd_run_given(struct epd_run *r);
int epd_run_is_given(const struct epd_run *r);

/*
 * Compute the checksums (sum is filled in), write the table and give the file
 * its name.  run must be fresh: epd_run_id().  Afterwards the pages are
 * read-only for this process too.  Fails: -EEXIST, -errno; still nameless then.
 */
int epd_run_publish(struct epd_run *r, uint64_t run,
    struct epd_page_entry *entry, long n);
/* A random run id, never 0.  -errno when the kernel gives no randomness. */
int epd_run_id(uint64_t *run);
/* The file's name, 16 lower-case hex digits, and back: -EINVAL if it is none. */
enum { EPD_RUN_NAME = 17 };
void epd_run_format(char out[EPD_RUN_NAME], uint64_t run);
int epd_run_parse(const char *name, uint64_t *run);

/*
 * Map a published run for reading.  Its shape must be the one given and each
 * entry must equal the one expected (n of them; NULL takes what is there).
 * Under the id it was published under, a run is taken whole.  Under another,
 * which needs expect, the n may be some of its pages, one after another: that
 * part alone is mapped, and count, entries, page and verify go by it.
 * That counts as a use, by which the memory tier evicts.
 * Fails: -ENOENT (lost), EPD_ECORRUPT, EPD_EKIND, -ELOOP (a symlink), -errno.
 * Owns: the caller owns *out.
 */
int epd_run_open(struct epd_run **out, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_why *why);
/* The same to look only: its times stay, and verify survives a file cut since. */
int epd_run_look(struct epd_run **out, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_why *why);
/* The entries alone, all of the file's, whatever its shape and id: no page is there. */
int epd_run_table(struct epd_run **out, int dirfd, uint64_t run,
    struct epd_run_shape *shape, struct epd_why *why);
/* The id it was published under, by which one file of many names is known. */
uint64_t epd_run_origin_id(const struct epd_run *r);
long epd_run_first(const struct epd_run *r);	/* where in the file page 0 is */
const struct epd_page_entry *epd_run_entries(const struct epd_run *r);
const void *epd_run_page(const struct epd_run *r, long i);
/* 0, or EPD_ECORRUPT if page i's bytes are not what its checksum says.  Once per open run and page. */
int epd_run_verify(struct epd_run *r, long i);
/* The same once more of all pages that verify found to be good. */
int epd_run_again(struct epd_run *r);
void epd_run_close(struct epd_run *r);

/*
 * Say when a run was last used, by the wall clock in ns: eviction goes by it, and by
 * epd_run_open's.  Of two that are used together the one to go first is told earlier.
 */
void epd_run_used(int dirfd, uint64_t run, uint64_t wall_ns);
/* Unlink a run; absent is fine. */
int epd_run_free(int dirfd, uint64_t run);
/* Hard-link a run under the id as; done already is fine.  -EEXIST (another file), -EXDEV, -errno. */
int epd_run_link(int fromfd, uint64_t run, int dirfd, uint64_t as);
/* Call fn for each published run in dirfd with its size in bytes. */
int epd_run_each(int dirfd, int (*fn)(void *arg, uint64_t run, uint64_t bytes),
    void *arg);
int epd_run_sweep(int dirfd);	/* what writers that died left with a name; a count */

#endif
