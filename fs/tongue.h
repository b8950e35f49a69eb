/*
 * tongue.h - models' tokenizers, kept while their files are as they were.  Opening
 * one may wait for a file system, and for this mount itself, so it has a lock of
 * its own, and nothing is opened under any.
 */
#ifndef EPD_FS_TONGUE_H
#define EPD_FS_TONGUE_H

#include "fs/world.h"

struct epd_fs_tongue;

/*
 * As the model's tokenizer is now.  Under no lock.  -ENODATA: the model is out of
 * reach, with the reason; EPD_ECORRUPT, -errno.
 */
int epd_fs_tongue_get(struct epd_fs *fs, const char *model,
    struct epd_fs_tongue **out, struct epd_why *why);
/* As it was last found; NULL: it was not, or long ago.  Under any lock. */
struct epd_fs_tongue *epd_fs_tongue_kept(struct epd_fs *fs, const char *model);
const struct epd_tokenizer *epd_fs_tongue_of(const struct epd_fs_tongue *t);
/* Who got one lets it go. */
void epd_fs_tongue_put(struct epd_fs *fs, struct epd_fs_tongue *t);
void epd_fs_tongues_close(struct epd_fs *fs);

#endif
