#if defined __x86_64__
#include "engine/kern/table.h"

const struct epd_kern epd_kern_avx2 = KERN_TABLE("avx2");
#else
typedef int epd_kern_no_avx2;
#endif
