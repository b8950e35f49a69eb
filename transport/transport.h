/*
 * transport.h - the door: the table of what this program can move bytes by, and the
 * data server.  base/transport.h and base/host.h say what they are.
 *
 * What is not built or not there has a row all the same, whose probe says why.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include "base/transport.h"
#include "transport/faulty.h"
#include "transport/rdma.h"
#include "transport/server.h"

const struct epd_transports *epd_transports(void);
/* Those alone that questions go over: who moves nothing links no libraries for it. */
const struct epd_transports *epd_transports_control(void);

/*
 * io_uring's calls, which go to the kernel and no server: address "file:///FOLDER".
 * OPEN: flags u32, size u64, then the name beneath the folder; its answer is
 * window u64, size u64, alignment u32.  SYNC: window u64; what was written is on
 * the disk; no answer.
 */
enum epd_file_verb { EPD_FILE_OPEN = 1, EPD_FILE_SYNC };
/* Flags: to be written too; made, of this size, and it may not be there. */
enum { EPD_FILE_WRITE = 1, EPD_FILE_CREATE = 2 };

/* Bytes that this link of shm's copied; 0 if all was mapped. */
uint64_t epd_shm_copied(const struct epd_link *l);

#endif
