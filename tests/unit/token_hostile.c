/* token_hostile.c - files that are refused, caches that are damaged, no memory. */
#include "tests/unit/token.h"

#include "base/clock.h"

#define SMALL GOLDEN "checkpoints/qwen2vl-tiny/tokenizer.json"

/* The small tokenizer.json on one line, the first `from` made `to`. */
static struct epd_buf
changed(const char *from, const char *to)
{
	struct epd_buf line = {0}, out = {0};
	struct epd_json *j = golden_json(SMALL);
	const char *p, *at;

	epd_json_dump(&line, j);
	epd_json_free(j);
	p = epd_buf_cstr(&line);
	at = strstr(p, from);
	if (!at)
		golden_die(SMALL, from);
	epd_buf_put(&out, p, (size_t)(at - p));
	epd_buf_str(&out, to);
	epd_buf_str(&out, at + strlen(from));
	epd_buf_free(&line);
	return out;
}

static int
parse(struct epd_tokenizer **t, const char *from, const char *to,
    struct epd_why *why)
{
	struct epd_buf json = changed(from, to);
	int rc = epd_tokenizer_parse(t, epd_span(json.p, json.n), NULL, why);

	epd_buf_free(&json);
	return rc;
}

/* One change, what comes of it, and what the sentence names. */
static const struct {
	const char *from, *to;
	int rc;
	const char *names;
} changes[] = {
	{ "\"1.0\"", "\"2.0\"", EPD_EUNSUPPORTED, "version is \"2.0\"" },
	{ "\"truncation\": null", "\"truncation\": {\"max_length\": 5}",
	    EPD_EUNSUPPORTED, "truncation is {" },
	{ "\"padding\": null", "\"padding\": {}", EPD_EUNSUPPORTED,
	    "padding is {}" },
	{ "\"version\"", "\"more\": 1, \"version\"", EPD_EUNSUPPORTED,
	    "more is not known" },
	{ "\"NFC\"", "\"NFKC\"", EPD_EUNSUPPORTED, "normalizer.type" },
	{ "{\"type\": \"NFC\"}", "null", EPD_EFORMAT, "normalizer" },
	{ "\"Sequence\"", "\"Other\"", EPD_EUNSUPPORTED, "pre_tokenizer.type" },
	{ "(?i:'s|'t", "(?i:'t|'s", EPD_EUNSUPPORTED, "pattern is not known" },
	{ "\"Regex\"", "\"String\"", EPD_EUNSUPPORTED, "String" },
	{ "\"Isolated\"", "\"Removed\"", EPD_EUNSUPPORTED, "behavior" },
	{ "\"invert\": false", "\"invert\": true", EPD_EUNSUPPORTED, "invert" },
	{ "\"add_prefix_space\": false", "\"add_prefix_space\": true",
	    EPD_EUNSUPPORTED, "add_prefix_space is true" },
	{ "\"dropout\": null", "\"dropout\": 0.1", EPD_EUNSUPPORTED,
	    "dropout is 0.1" },
	{ "\"unk_token\": null", "\"unk_token\": \"<unk>\"", EPD_EUNSUPPORTED,
	    "unk_token" },
	{ "\"byte_fallback\": false", "\"byte_fallback\": true",
	    EPD_EUNSUPPORTED, "byte_fallback" },
	{ "\"ignore_merges\": false", "\"ignore_merges\": true",
	    EPD_EUNSUPPORTED, "ignore_merges" },
	{ "\"ignore_merges\": false", "\"fuse\": 1", EPD_EUNSUPPORTED,
	    "model.fuse is not known" },
	{ "\"continuing_subword_prefix\": null",
	    "\"continuing_subword_prefix\": \"##\"", EPD_EUNSUPPORTED,
	    "continuing_subword_prefix" },
	{ "\"BPE\"", "\"Unigram\"", EPD_EUNSUPPORTED, "model.type" },
	{ "\"lstrip\": false", "\"lstrip\": true", EPD_EUNSUPPORTED,
	    "added_tokens[0].lstrip" },
	{ "\"rstrip\": false", "\"rstrip\": true", EPD_EUNSUPPORTED, "rstrip" },
	{ "\"single_word\": false", "\"single_word\": true", EPD_EUNSUPPORTED,
	    "single_word" },
	{ "\"normalized\": false", "\"normalized\": true", EPD_EUNSUPPORTED,
	    "normalized" },
	{ "\"special\": true", "\"special\": 1", EPD_EUNSUPPORTED, "special" },
	{ "\"id\": 512", "\"id\": 900", EPD_EUNSUPPORTED, "id is 900, not 512" },
	{ "\"id\": 512", "\"id\": \"512\"", EPD_EUNSUPPORTED, "not 512" },
	{ "\"<|endoftext|>\"", "\"\"", EPD_EFORMAT, "no content" },
	{ "\"<|im_end|>\"", "\"<|im_start|>\"", EPD_EFORMAT,
	    "<|im_start|> twice" },
	{ "\"!\": 0", "\"!\": 700", EPD_EUNSUPPORTED, "no id from 0" },
	{ "\"!\": 0", "\"!\": -1", EPD_EUNSUPPORTED, "no id from 0" },
	{ "\"!\": 0", "\"!\": 1", EPD_EFORMAT, "two tokens the id 1" },
	{ "\"!\": 0", "\"! \": 0", EPD_EUNSUPPORTED, "not spelled in bytes" },
	{ "\"!\": 0", "\"!!\": 0", EPD_EFORMAT, "no token for the byte 33" },
	{ "\"merges\": [", "\"merges\": [7, ", EPD_EFORMAT, "merges[0]" },
	{ "\"merges\": [", "\"merges\": [[\"a\"], ", EPD_EFORMAT, "merges[0]" },
	{ "\"merges\": [", "\"merges\": [\"a  b\", ", EPD_EFORMAT, "merges[0]" },
	{ "\"merges\": [", "\"merges\": [\"a \", ", EPD_EFORMAT, "merges[0]" },
	{ "\"merges\": [", "\"merges\": [[\"q\", \"!\"], ", EPD_EFORMAT,
	    "merges[0] is not two tokens that make a third" },
	{ "\"merges\": [", "\"merges\": [[\"h\", \"e\"], ", EPD_EFORMAT,
	    "merges[0] comes again" },
	{ "\"version\"", "version", EPD_EFORMAT, "tokenizer.json" },
};

TEST(refuses_by_name)
{
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct epd_tokenizer *t = NULL;
		struct epd_why why = {0};
		int rc = parse(&t, changes[i].from, changes[i].to, &why);

		if (rc != changes[i].rc || t ||
		    !strstr(why.text, changes[i].names))
			CHECK_FAIL("%s: %d, \"%s\"", changes[i].to, rc,
			    why.text);
	}
}

TEST(takes_merges_either_way)
{
	struct epd_tokenizer *a, *b;
	struct epd_ids x = {0}, y = {0};
	struct epd_why why;
	struct epd_span text = epd_span_str("the theme of that thesis");

	CHECK_INT(parse(&a, "\"1.0\"", "\"1.0\"", &why), 0);
	CHECK_INT(parse(&b, "[\"h\", \"e\"]", "\"h e\"", &why), 0);
	CHECK_INT(epd_tokenizer_encode(a, text, &x), 0);
	CHECK_INT(epd_tokenizer_encode(b, text, &y), 0);
	CHECK(x.n == y.n && !memcmp(x.v, y.v, x.n * sizeof *x.v));
	epd_ids_free(&x);
	epd_ids_free(&y);
	epd_tokenizer_close(a);
	epd_tokenizer_close(b);
}

/* The longest of several added tokens wins, wherever it stands in the list. */
TEST(added_tokens_leftmost_longest)
{
	struct epd_tokenizer *t;
	struct epd_ids out = {0};
	struct epd_why why;

	CHECK_INT(parse(&t, "\"<|im_start|>\"", "\"<|endoftext|>>\"", &why), 0);
	CHECK_INT(epd_tokenizer_encode_special(t,
	    epd_span_str("<|endoftext|>><|endoftext|>"), &out), 0);
	CHECK_INT(out.n, 2);
	CHECK_INT(out.v[0], 513);
	CHECK_INT(out.v[1], 512);
	epd_ids_free(&out);
	epd_tokenizer_close(t);
}

TEST(parsing_without_memory)
{
	struct epd_buf json = golden_read(SMALL);
	struct epd_tokenizer *t = NULL;
	struct epd_why why;
	int rc = -ENOMEM;

	for (int n = 0; rc && n < 3000; n++) {
		token_fail_at(n);
		rc = epd_tokenizer_parse(&t, epd_span(json.p, json.n), NULL,
		    &why);
		token_fail_at(-1);
		CHECK(!rc == !!t);
		CHECK(!rc || rc == -ENOMEM);
	}
	CHECK_INT(rc, 0);
	epd_tokenizer_close(t);
	epd_buf_free(&json);
}

static struct epd_buf
small_flat(void)
{
	struct epd_buf json = golden_read(SMALL), flat = {0};
	struct epd_why why;

	if (epd_flat_compile(&flat, epd_span(json.p, json.n), NULL, &why))
		golden_die(SMALL, why.text);
	epd_buf_free(&json);
	return flat;
}

static void
keep(void *base, size_t n)
{
	(void)base;
	(void)n;
}

TEST(any_flipped_byte_is_found)
{
	struct epd_buf flat = small_flat();
	struct epd_tokenizer *t;

	for (size_t i = 0; i < flat.n; i++) {
		flat.p[i] ^= (uint8_t)(1 << i % 8);
		CHECK_INT(epd_flat_adopt(&t, flat.p, flat.n, keep),
		    EPD_ECORRUPT);
		flat.p[i] ^= (uint8_t)(1 << i % 8);
	}
	for (size_t n = 0; n < flat.n; n++)
		CHECK_INT(epd_flat_adopt(&t, flat.p, n, keep), EPD_ECORRUPT);
	CHECK_INT(epd_flat_adopt(&t, flat.p, flat.n, keep), 0);
	epd_tokenizer_close(t);
	epd_buf_free(&flat);
}

/* With a sum made to fit, any byte may lie: ids may differ, and no more. */
TEST(a_lying_form_does_no_harm)
{
	struct epd_buf flat = small_flat();
	struct epd_flat_head *head = (void *)flat.p;
	struct epd_span text = epd_span_str("the <|im_end|> and other words");

	for (size_t i = 16; i < flat.n; i += i < 2600 ? 1 : 5) {
		uint8_t was = flat.p[i];
		struct epd_tokenizer *t;
		struct epd_ids out = {0};

		flat.p[i] = (uint8_t)(i % 3 ? 0xff : was ^ 1);
		head->sum = epd_flat_sum(flat.p, flat.n);
		if (!epd_flat_adopt(&t, flat.p, flat.n, keep)) {
			epd_tokenizer_encode_special(t, text, &out);
			for (size_t k = 0; k < out.n; k++)
				CHECK(out.v[k] >= 0 &&
				    out.v[k] < epd_tokenizer_size(t));
			epd_tokenizer_close(t);
		}
		epd_ids_free(&out);
		flat.p[i] = was;
	}
	epd_buf_free(&flat);
}

static int
is_mapped(const struct epd_tokenizer *t)
{
	return t->drop != epd_flat_free;
}

/* Files this young are not trusted to keep their times; wait them out. */
static void
settle(void)
{
	epd_clock_sleep_ns(80000000);
}

static int
open_cached(int dir, int cache)
{
	struct epd_tokenizer *t;
	struct epd_why why = {0};
	int rc = epd_tokenizer_open_cached(&t, dir, cache, "tok", &why);

	if (rc)
		return rc;
	rc = is_mapped(t);
	epd_tokenizer_close(t);
	return rc;
}

TEST(caches_what_it_made)
{
	struct epd_buf json = changed("1.0", "1.0"), other;
	struct epd_buf flat = {0};
	char path[64];
	int dir = token_new_dir(path), fd;

	token_write(dir, "tokenizer.json", json.p, json.n);
	settle();
	CHECK_INT(open_cached(dir, -1), 0);
	CHECK_INT(open_cached(dir, dir), 0);
	CHECK_INT(open_cached(dir, dir), 1);
	/* Damage, and a file of another kind: as if there were none. */
	CHECK_INT(epd_file_read(dir, "tok", 1 << 20, &flat), 0);
	flat.p[flat.n / 2] ^= 4;
	token_write(dir, "tok", flat.p, flat.n);
	CHECK_INT(open_cached(dir, dir), 0);
	CHECK_INT(open_cached(dir, dir), 1);
	token_write(dir, "tok", "", 0);
	CHECK_INT(open_cached(dir, dir), 0);
	CHECK_INT(open_cached(dir, dir), 1);
	/* Another file of the same name and size. */
	other = changed("<|endoftext|>", "<|beginsome|>");
	CHECK_INT(other.n, json.n);
	token_write(dir, "tokenizer.json", other.p, other.n);
	settle();
	CHECK_INT(open_cached(dir, dir), 0);
	CHECK_INT(open_cached(dir, dir), 1);
	/* Written in place, which only its times tell. */
	fd = openat(dir, "tokenizer.json", O_WRONLY);
	CHECK_INT(epd_file_pwrite(fd, json.p, json.n, 0), 0);
	close(fd);
	settle();
	CHECK_INT(open_cached(dir, dir), 0);
	/* Where no cache can be written. */
	CHECK_INT(epd_file_remove(dir, "tok"), 0);
	CHECK_INT(mkdirat(dir, "tok", 0700), 0);
	CHECK_INT(open_cached(dir, dir), 0);
	CHECK_INT(open_cached(dir, dir), 0);
	epd_buf_free(&json);
	epd_buf_free(&other);
	epd_buf_free(&flat);
	token_drop_dir(dir, path);
}

TEST(follows_links_and_refuses_the_rest)
{
	struct epd_buf json = golden_read(SMALL);
	char path[64];
	int dir = token_new_dir(path);

	CHECK_INT(open_cached(dir, -1), -ENOENT);
	token_write(dir, "blob", json.p, json.n);
	CHECK_INT(symlinkat("blob", dir, "tokenizer.json"), 0);
	CHECK_INT(open_cached(dir, -1), 0);
	CHECK_INT(epd_file_remove(dir, "tokenizer.json"), 0);
	CHECK_INT(mkfifoat(dir, "tokenizer.json", 0600), 0);
	CHECK_INT(open_cached(dir, -1), EPD_EFORMAT);
	epd_buf_free(&json);
	token_drop_dir(dir, path);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
