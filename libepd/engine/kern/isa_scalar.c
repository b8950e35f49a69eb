#include "engine/kern/table.h"

const struct epd_kern epd_kern_scalar = KERN_TABLE("scalar");
