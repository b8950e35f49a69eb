/* err.h - one int says how a call ended: 0, a count, -errno, or a code below -1000. */
#ifndef EPD_BASE_ERR_H
#define EPD_BASE_ERR_H

/*
 * The first seven are the RFC's error categories, under its names; the rest are
 * named after their enum without the EPD_E.  Exit statuses: 1 other, 2 usage,
 * 3 nothing changed and trying again may help, 4 no such thing, 5 damage or
 * unsure, 6 refused under --strict.
 */
/*        name            rc     errno       exit label                     text */
#define EPD_ERRS(X) \
	X(EPD_ESTALE,       -1001, ESTALE,     3, "STALE_DIRECTORY_ENTRY", "directory location is stale") \
	X(EPD_ENOSTATE,     -1002, ENOENT,     4, "STATE_NOT_FOUND",       "no such state") \
	X(EPD_EVERSION,     -1003, ESTALE,     3, "PAGE_VERSION_MISMATCH", "version is not the one expected") \
	X(EPD_ELEASE,       -1004, ETIME,      3, "LEASE_EXPIRED",         "the operation lost its lease") \
	X(EPD_EREUSE,       -1005, EPERM,      6, "REUSE_REJECTED",        "a validation gate rejected reuse") \
	X(EPD_ETIMEOUT,     -1006, ETIMEDOUT,  3, "TRANSFER_TIMEOUT",      "transfer exceeded its time-out") \
	X(EPD_EABORTED,     -1007, ECANCELED,  3, "A2A_ABORTED",           "hand-off aborted") \
	X(EPD_ECORRUPT,     -1011, EBADMSG,    5, "CORRUPT",     "stored bytes do not match their checksum") \
	X(EPD_ETOOBIG,      -1012, EMSGSIZE,   2, "TOO_BIG",     "larger than the format or a limit allows") \
	X(EPD_EUNSURE,      -1013, EIO,        5, "UNSURE",      "flush failed; reopen to learn what survived") \
	X(EPD_EPOISONED,    -1014, EROFS,      3, "POISONED",    "log had a failed flush and takes no more appends") \
	X(EPD_EKIND,        -1015, EPROTO,     5, "UNKNOWN_KIND", "written by a newer version, or of an unknown kind") \
	X(EPD_ELOCKED,      -1016, EBUSY,      3, "LOCKED",      "another process holds the lock") \
	X(EPD_EFORMAT,      -1017, EINVAL,     1, "FORMAT",      "input is not in the format it claims") \
	X(EPD_EUNSUPPORTED, -1018, ENOTSUP,    1, "UNSUPPORTED", "not supported") \
	X(EPD_EUSAGE,       -1019, EINVAL,     2, "USAGE",       "wrong use") \
	X(EPD_ENOTHING,     -1020, ENOENT,     4, "NOT_FOUND",   "no such thing") \
	X(EPD_EAMBIGUOUS,   -1021, EINVAL,     2, "AMBIGUOUS",   "more than one thing has a name that begins so") \
	X(EPD_ENUMERIC,     -1022, EDOM,       5, "NUMERIC",     "the computation gave a number that is not finite") \
	X(EPD_ESUSPECT,     -1023, EAGAIN,     5, "SUSPECT",     "the state's image or model cannot be reached now") \
	X(EPD_ESTATUS,      -1024, EPERM,      3, "STATUS",      "the state's status does not allow this move") \
	X(EPD_EMODEL,       -1025, EINVAL,     2, "MODEL_MISMATCH", "the model is not the one the state was made with") \
	X(EPD_ESTRICT,      -1026, EPERM,      6, "REFUSED",     "refused under --strict") \
	X(EPD_EAUTH,        -1027, EACCES,     1, "UNAUTHENTICATED", "the peer does not take us for who we say") \
	X(EPD_EPEER,        -1028, ECONNRESET, 3, "PEER_LOST",   "the peer cannot be reached") \
	X(EPD_ECREDIT,      -1029, EAGAIN,     3, "NO_CREDIT",   "what it takes is not granted now") \
	X(EPD_EPARTIAL,     -1030, EIO,        5, "PARTIAL",     "some of it has moved, and doing it again is not safe") \
	X(EPD_ENOPLAN,      -1031, EOPNOTSUPP, 6, "NO_PLAN",     "no path is both allowed and there")

enum epd_err {
#define X(name, rc, no, ex, label, text) name = rc,
	EPD_ERRS(X)
#undef X
};

/* Where a path, a line number or a figure helps; NUL-terminated, never NULL. */
struct epd_why {
	char text[240];
};

const char *epd_strerror(int rc);	/* never NULL, never freed */
const char *epd_errlabel(int rc);	/* "STATE_NOT_FOUND", "ENOSPC", ... */
int epd_errno(int rc);			/* for FUSE replies and perror */
int epd_exitcode(int rc);		/* for commands */

/* Write the sentence to why, if there is one, and return rc. */
int epd_why(struct epd_why *why, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
