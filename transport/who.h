/* who.h - whose the other end of a connection on this machine is. */
#ifndef TRANSPORT_WHO_H
#define TRANSPORT_WHO_H

#include <sys/types.h>

/* Fails: -errno. */
int epd_who_unix(int fd, uid_t *out);
/*
 * Of a connection over loopback, as the kernel's table has it.
 * Fails: -ENOENT (it is not there, or its process has let go of it), -errno.
 */
int epd_who_loopback(int fd, uid_t *out);

#endif
