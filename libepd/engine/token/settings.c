/*
 * settings.c - every setting of tokenizer.json is one of the values below or is
 * refused by name: a setting that is passed over would give other ids in silence.
 */
#include "engine/token/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/token/split.h"

/* A key, and as JSON the values it may have: "" absent or null, "*" any. */
struct rule {
	const char *key, *ok[4];
};

static const struct rule file_rules[] = {
	{ "version", { "\"1.0\"" } },
	{ "truncation", { "" } },
	{ "padding", { "" } },
	{ "added_tokens", { "*" } },
	{ "normalizer", { "*" } },
	{ "pre_tokenizer", { "*" } },
	{ "post_processor", { "*" } },
	{ "decoder", { "*" } },
	{ "model", { "*" } },
	{ NULL, { NULL } },
}, nfc_rules[] = {
	{ "type", { "\"NFC\"" } },
	{ NULL, { NULL } },
}, sequence_rules[] = {
	{ "type", { "\"Sequence\"" } },
	{ "pretokenizers", { "*" } },
	{ NULL, { NULL } },
}, split_rules[] = {
	{ "type", { "\"Split\"" } },
	{ "pattern", { "*" } },
	{ "behavior", { "\"Isolated\"" } },
	{ "invert", { "false" } },
	{ NULL, { NULL } },
}, pattern_rules[] = {
	{ "Regex", { "*" } },
	{ NULL, { NULL } },
}, bytes_rules[] = {
	{ "type", { "\"ByteLevel\"" } },
	{ "add_prefix_space", { "false" } },
	{ "trim_offsets", { "*" } },
	{ "use_regex", { "false" } },
	{ NULL, { NULL } },
}, trimming_rules[] = {	/* the same in places where it touches offsets only */
	{ "type", { "\"ByteLevel\"" } },
	{ "add_prefix_space", { "*" } },
	{ "trim_offsets", { "*" } },
	{ "use_regex", { "*" } },
	{ NULL, { NULL } },
}, frame_rules[] = {	/* a frame that adds nothing to one text */
	{ "type", { "\"TemplateProcessing\"" } },
	{ "single", { "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]" } },
	{ "pair", { "*" } },
	{ "special_tokens", { "*" } },
	{ NULL, { NULL } },
}, model_rules[] = {
	{ "type", { "\"BPE\"" } },
	{ "dropout", { "" } },
	{ "unk_token", { "" } },
	{ "continuing_subword_prefix", { "\"\"", "" } },
	{ "end_of_word_suffix", { "\"\"", "" } },
	{ "fuse_unk", { "false", "" } },
	{ "byte_fallback", { "false", "" } },
	{ "ignore_merges", { "false", "" } },
	{ "vocab", { "*" } },
	{ "merges", { "*" } },
	{ NULL, { NULL } },
}, added_rules[] = {
	{ "id", { "*" } },
	{ "content", { "*" } },
	{ "single_word", { "false" } },
	{ "lstrip", { "false" } },
	{ "rstrip", { "false" } },
	{ "normalized", { "false" } },
	{ "special", { "true", "false" } },
	{ NULL, { NULL } },
};

static int
is_allowed(const struct rule *r, const char *value)
{
	for (int i = 0; i < 4 && r->ok[i]; i++)
		if (!strcmp(r->ok[i], "*") || !strcmp(r->ok[i], value))
			return 1;
	return 0;
}

/* One rule against one object; nothing is said of keys that have no rule. */
static int
check_rule(const struct epd_json *o, const char *where, const struct rule *r,
    struct epd_why *why)
{
	const struct epd_json *v = epd_json_get(o, r->key);
	struct epd_buf text = { 0 };
	int rc = 0;

	if (!strcmp(r->ok[0], "*") || (!v && is_allowed(r, "")))
		return 0;
	epd_json_dump(&text, v);
	if (text.failed)
		rc = -ENOMEM;
	else if (!is_allowed(r, epd_buf_cstr(&text)))
		rc = epd_why(why, EPD_EUNSUPPORTED,
		    "tokenizer.json: %s%s%s is %.80s", where, *where ? "." : "",
		    r->key, epd_buf_cstr(&text));
	epd_buf_free(&text);
	return rc;
}

/* Object o, called where, is as the rules say and has no other key. */
static int
check(const struct epd_json *o, const char *where, const struct rule *rules,
    struct epd_why *why)
{
	struct epd_json_iter it;
	int rc;

	if (epd_json_type(o) != EPD_JSON_OBJECT)
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json: %s is not an object", *where ? where : "it");
	for (const struct rule *r = rules; r->key; r++) {
		rc = check_rule(o, where, r, why);
		if (rc)
			return rc;
	}
	it = epd_json_begin(o);
	while (epd_json_next(&it)) {
		const struct rule *r = rules;

		while (r->key && strcmp(r->key, it.key))
			r++;
		if (!r->key)
			return epd_why(why, EPD_EUNSUPPORTED,
			    "tokenizer.json: %s%s%.80s is not known", where,
			    *where ? "." : "", it.key);
	}
	return 0;
}

static int
check_split(const struct epd_json *o, uint32_t *split, struct epd_why *why)
{
	const struct epd_json *pattern = epd_json_get(o, "pattern");
	struct epd_span regex = epd_json_bytes(epd_json_get(pattern, "Regex"));
	int rc, which;

	rc = check(o, "pre_tokenizer.Split", split_rules, why);
	if (!rc)
		rc = check(pattern, "pre_tokenizer.Split.pattern",
		    pattern_rules, why);
	if (rc)
		return rc;
	which = regex.p ? epd_split_find(regex) : -1;
	if (which < 0)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "tokenizer.json: pre_tokenizer.Split.pattern is not known: "
		    "%.*s", (int)(regex.n < 120 ? regex.n : 120),
		    regex.p ? (const char *)regex.p : "");
	*split = (uint32_t)which;
	return 0;
}

static int
check_pieces(const struct epd_json *o, uint32_t *split, struct epd_why *why)
{
	const struct epd_json *list = epd_json_get(o, "pretokenizers");
	int rc = check(o, "pre_tokenizer", sequence_rules, why);

	if (rc)
		return rc;
	if (epd_json_type(list) != EPD_JSON_ARRAY || epd_json_count(list) != 2)
		return epd_why(why, EPD_EUNSUPPORTED, "tokenizer.json: "
		    "pre_tokenizer is not Split and ByteLevel");
	rc = check_split(epd_json_at(list, 0), split, why);
	return rc ? rc : check(epd_json_at(list, 1), "pre_tokenizer.ByteLevel",
	    bytes_rules, why);
}

int
epd_settings_check(const struct epd_json *root, uint32_t *split,
    struct epd_why *why)
{
	const struct epd_json *post = epd_json_get(root, "post_processor");
	int rc = check(root, "", file_rules, why);

	if (!rc)
		rc = check(epd_json_get(root, "normalizer"), "normalizer",
		    nfc_rules, why);
	if (!rc)
		rc = check_pieces(epd_json_get(root, "pre_tokenizer"), split,
		    why);
	if (!rc && epd_json_type(post) != EPD_JSON_NULL)
		rc = check(post, "post_processor",
		    !strcmp(epd_json_str(epd_json_get(post, "type"), ""),
		    "TemplateProcessing") ? frame_rules : trimming_rules, why);
	if (!rc)
		rc = check(epd_json_get(root, "decoder"), "decoder",
		    trimming_rules, why);
	if (!rc)
		rc = check(epd_json_get(root, "model"), "model", model_rules,
		    why);
	return rc;
}

int
epd_settings_added(const struct epd_json *token, size_t i, struct epd_why *why)
{
	char where[48];

	snprintf(where, sizeof where, "added_tokens[%zu]", i);
	return check(token, where, added_rules, why);
}
