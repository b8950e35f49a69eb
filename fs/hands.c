#include "fs/hands.h"
#include <errno.h>
int epd_fs_find_fork(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name, struct epd_fs_at *out) { (void)fs; (void)dir; (void)name; (void)out; return -ENOENT; }
int epd_fs_list_forks(struct epd_fs *fs, const struct epd_fs_at *dir, epd_fs_entry_fn *fn, void *arg) { (void)fs; (void)dir; (void)fn; (void)arg; return 0; }
int epd_fs_hands_open(struct epd_fs_hands **out, struct epd_fs *fs, struct epd_why *why) { (void)fs; (void)why; *out = NULL; return 0; }
void epd_fs_hands_close(struct epd_fs_hands *h) { (void)h; }
int epd_fs_mkdir(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name) { (void)fs; (void)dir; (void)name; return -EPERM; }
int epd_fs_rmdir(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name) { (void)fs; (void)dir; (void)name; return -EPERM; }
int epd_fs_talk_open(struct epd_fs_talk **out, struct epd_fs *fs, const struct epd_fs_at *at) { (void)out; (void)fs; (void)at; return -EOPNOTSUPP; }
int epd_fs_talk_write(struct epd_fs_talk *t, const char *p, size_t n) { (void)t; (void)p; (void)n; return -EOPNOTSUPP; }
int epd_fs_talk_flush(struct epd_fs_talk *t) { (void)t; return 0; }
void epd_fs_talk_read(struct epd_fs_talk *t, size_t n, epd_fs_answer_fn *done, void *arg) { (void)t; (void)n; done(arg, 0, epd_span(NULL, 0)); }
void epd_fs_talk_cancel(struct epd_fs_talk *t, void *arg) { (void)t; (void)arg; }
int epd_fs_talk_ready(struct epd_fs_talk *t) { (void)t; return 1; }
void epd_fs_talk_close(struct epd_fs_talk *t) { (void)t; }
