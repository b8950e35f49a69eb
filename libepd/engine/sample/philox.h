/*
 * philox.h - Philox 4x32-10 of Salmon et al. 2011: four words from a counter
 * and a key.
 */
#ifndef EPD_ENGINE_SAMPLE_PHILOX_H
#define EPD_ENGINE_SAMPLE_PHILOX_H

#include <stdint.h>

void epd_philox(const uint32_t counter[4], const uint32_t key[2],
    uint32_t out[4]);

#endif
