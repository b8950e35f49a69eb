/* list.h - inside the feature room: the names in one folder of the fan. */
#ifndef EPD_FEATURE_LIST_H
#define EPD_FEATURE_LIST_H

#include "feature/inner.h"

struct epd_feature_found {
	struct epd_name fp;
	int has;		/* of EPD_HAS_META, EPD_HAS_BLOB, EPD_HAS_PIX */
};
struct epd_feature_list {
	struct epd_feature_found *at;
	size_t n, cap;
	char fan[3];
};
/* fan 0..255; in order, one entry a name; no folder is no names. */
int epd_feature_list(struct epd_features *c, int fan,
    struct epd_feature_list *out);
void epd_feature_list_free(struct epd_feature_list *l);

#endif
