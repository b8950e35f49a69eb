/*
 * backend.h - what bytes may travel by and lie in: the names that plans, policies
 * and transports have in common.  The order is the order of preference where
 * nobody says otherwise.
 */
#ifndef EPD_BASE_BACKEND_H
#define EPD_BASE_BACKEND_H

#include "base/words.h"

/*
 * Some are other engines' and are known here only to plan by; which there is code
 * for, the table of transports says.
 */
#define EPD_BACKENDS(X) \
	X(MNNVL,     "mnnvl") \
	X(NVLINK,    "nvlink") \
	X(RDMA,      "rdma") \
	X(SUNRISE,   "sunrise_link") \
	X(ASCEND,    "ascend_direct") \
	X(SHM,       "shm") \
	X(TCP,       "tcp") \
	X(GDS,       "gds") \
	X(MPCOMM,    "mpcomm") \
	X(TPU,       "tpu") \
	X(IO_URING,  "io_uring") \
	X(COPY,      "copy")		/* within a machine, between its memories */ \
	X(RECOMPUTE, "recompute")	/* nothing moves: the engine makes it again */

enum epd_backend {
	EPD_VIA_NONE,
#define X(id, name) EPD_VIA_##id,
	EPD_BACKENDS(X)
#undef X
	EPD_VIA_COUNT
};
extern const struct epd_words epd_backends;
const char *epd_backend_name(enum epd_backend b);	/* "none" if it is none */
enum epd_backend epd_backend_parse(const char *name);	/* EPD_VIA_NONE */

#define EPD_MEDIA(X) \
	X(CPU,  "cpu") X(CUDA, "cuda") X(ROCM, "rocm") X(TPU, "tpu") X(FILE, "file")

enum epd_medium {
	EPD_IN_NONE,
#define X(id, name) EPD_IN_##id,
	EPD_MEDIA(X)
#undef X
	EPD_IN_COUNT
};
extern const struct epd_words epd_media;
const char *epd_medium_name(enum epd_medium m);
enum epd_medium epd_medium_parse(const char *name);

enum epd_op { EPD_OP_READ = 1, EPD_OP_WRITE };	/* from there, to there */
extern const struct epd_words epd_ops;

/* RFC's TransferPolicy.priority. */
enum epd_priority { EPD_PRIO_LOW, EPD_PRIO_NORMAL, EPD_PRIO_HIGH };
extern const struct epd_words epd_priorities;

#endif
