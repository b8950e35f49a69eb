/*
 * split.c - the known split patterns, and the same in PCRE2's words.
 *
 * Hugging Face matches with Oniguruma and the tables of Unicode 16, where \s is
 * White_Space.  PCRE2's \s has U+180E besides, so it is spelled out.  Every
 * pattern takes any character, so an anchored match at each offset leaves no
 * gaps.
 */
#include "engine/token/split.h"

#include <errno.h>
#include <string.h>

#define SPACE "\\x09-\\x0d\\x{85}\\p{Z}"

/* What Unicode 15 and 16 added to \p{L} and \p{N}: PCRE2 may be older. */
#define NEW_LETTERS \
	"\\x{1c89}-\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}" \
	"\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}" \
	"\\x{10ec2}-\\x{10ec4}\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}" \
	"\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}" \
	"\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}" \
	"\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}" \
	"\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}" \
	"\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}" \
	"\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{1e4eb}\\x{1e5d0}-\\x{1e5ed}" \
	"\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NEW_NUMBERS \
	"\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}" \
	"\\x{11f50}-\\x{11f59}\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}" \
	"\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}\\x{1e4f0}-\\x{1e4f9}" \
	"\\x{1e5f1}-\\x{1e5fa}"
#define LETTER "\\p{L}" NEW_LETTERS
#define NUMBER "\\p{N}" NEW_NUMBERS

static const struct {
	const char *file, *pcre;
} known[EPD_SPLITS] = {
	{	/* Qwen2 to Qwen3 */
		"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
		"\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
		"\\s+(?!\\S)|\\s+",
		"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
		"[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|"
		"[" NUMBER "]| ?[^" SPACE LETTER NUMBER "]+[\\r\\n]*|"
		"[" SPACE "]*[\\r\\n]+|"
		"[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+",
	},
};

int
epd_split_find(struct epd_span pattern)
{
	for (int i = 0; i < EPD_SPLITS; i++)
		if (strlen(known[i].file) == pattern.n &&
		    !memcmp(known[i].file, pattern.p, pattern.n))
			return i;
	return -1;
}

int
epd_split_compile(pcre2_code **out, uint32_t which,
    pcre2_general_context *memory)
{
	pcre2_compile_context *c = pcre2_compile_context_create(memory);
	pcre2_code *code;
	PCRE2_SIZE at;
	int no;

	if (!c)
		return -ENOMEM;
	code = pcre2_compile((PCRE2_SPTR)known[which].pcre,
	    PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED |
	    PCRE2_NEVER_BACKSLASH_C, &no, &at, c);
	pcre2_compile_context_free(c);
	if (!code)
		return -ENOMEM;
	/* Where code may not be made at run time it is interpreted. */
	(void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	*out = code;
	return 0;
}
