/*
 * crew.h - threads for what takes long, so that those that answer the kernel are
 * free.  Of one workflow one thing at a time, in order; others go on meanwhile.
 */
#ifndef EPD_FS_CREW_H
#define EPD_FS_CREW_H

struct epd_fs_crew;

/* -ENOMEM, -errno.  Owns: the caller owns *out. */
int epd_fs_crew_open(struct epd_fs_crew **out);
/* What is under way is waited for; what waits is told that it is too late. */
void epd_fs_crew_close(struct epd_fs_crew *c);
/*
 * Have fn called once, by another thread, or by this one if there is no memory;
 * late: it is to do nothing but answer.  workflow "": in no order.
 */
void epd_fs_crew_do(struct epd_fs_crew *c, const char *workflow,
    void (*fn)(void *arg, int late), void *arg);

#endif
