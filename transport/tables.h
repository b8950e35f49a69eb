/* tables.h - the rows of the table. */
#ifndef TRANSPORT_TABLES_H
#define TRANSPORT_TABLES_H

#include "base/transport.h"

extern const struct epd_transport epd_transport_tcp, epd_transport_shm;
extern const struct epd_transport epd_transport_uring, epd_transport_rdma;
/* Not built: probe and open say so, the rest is NULL. */
extern const struct epd_transport epd_transport_no_rdma, epd_transport_no_nvlink;
extern const struct epd_transport epd_transport_no_gds, epd_transport_no_uring;

#endif
