/*
 * rope.h - angles for rotary positions, from IEEE double operations only: the C
 * library's sin() and pow() differ between processors in their last bit.
 */
#ifndef EPD_ENGINE_KERN_ROPE_H
#define EPD_ENGINE_KERN_ROPE_H

/* inv[i] = theta^(-2i/n) for i < n/2, n the rotated width. */
void epd_rope_inv(float *inv, long n, double theta);

/* cos and sin of pos * inv[i], the product rounded to f32 as HF has it. */
void epd_rope_angles(long pairs, const float *inv, float pos, float *cs,
    float *sn);

/* Within an ulp of double for |x| < 2^20, then rounded. */
void epd_sincos(float x, float *s, float *c);

#endif
