#if defined __x86_64__
#include "engine/kern/table.h"

const struct epd_kern epd_kern_avx512 = KERN_TABLE("avx512");
#else
typedef int epd_kern_no_avx512;
#endif
