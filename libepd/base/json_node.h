/* json_node.h - what the parts of json.h share; not for others. */
#ifndef EPD_BASE_JSON_NODE_H
#define EPD_BASE_JSON_NODE_H

#include <stddef.h>
#include <stdint.h>

/* Ends the text of a real that was written as an integer too large for one. */
#define EPD_JSON_BIG "e000"

#define EPD_UTF8_BAD UINT32_MAX

/*
 * Decode one character of n > 0 bytes and return its length; *code is
 * EPD_UTF8_BAD for a broken one, whose length is that of the longest part that
 * could have begun a character (Unicode 15, section 3.9), at least 1.
 */
static inline size_t
epd_utf8_next(const uint8_t *p, size_t n, uint32_t *code)
{
	uint8_t lo = 0x80, hi = 0xbf;
	uint32_t c = p[0];
	size_t len;

	*code = c;
	if (c < 0x80)
		return 1;
	*code = EPD_UTF8_BAD;
	if (c < 0xc2 || c > 0xf4)
		return 1;
	len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	/* By the second byte: overlong forms, surrogates, above U+10FFFF. */
	if (c == 0xe0)
		lo = 0xa0;
	else if (c == 0xed)
		hi = 0x9f;
	else if (c == 0xf0)
		lo = 0x90;
	else if (c == 0xf4)
		hi = 0x8f;
	c &= 0xffu >> (len + 1);
	for (size_t i = 1; i < len; i++) {
		if (i >= n || p[i] < lo || p[i] > hi)
			return i;
		c = c << 6 | (p[i] & 0x3fu);
		lo = 0x80;
		hi = 0xbf;
	}
	*code = c;
	return len;
}

#endif
