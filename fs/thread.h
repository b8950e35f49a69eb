/* thread.h - who asks, as /dev/fuse names him: by a thread (proc(5), status). */
#ifndef EPD_FS_THREAD_H
#define EPD_FS_THREAD_H

#include <sys/types.h>

/* Its process, or 0: it cannot be told. */
pid_t epd_fs_thread_process(pid_t thread);
/* It is to die, or is gone: of a signal that kills, SIGKILL is pending on it. */
int epd_fs_thread_is_dying(pid_t thread);

#endif
