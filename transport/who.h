/* who.h - whose the other end of a connection on this machine is. */
#ifndef TRANSPORT_WHO_H
#define TRANSPORT_WHO_H

#include <sys/types.h>

/* And which process it was when it connected; 0: none that is seen from here.  Fails: -errno. */
int epd_who_unix(int fd, uid_t *out, pid_t *pid);
/*
 * Of a connection over loopback, as the kernel's table has it.
 * Fails: -ENOENT (it is not there, or its process has let go of it), -errno.
 */
int epd_who_loopback(int fd, uid_t *out);

#endif
