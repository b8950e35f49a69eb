/* base_config.c - the YAML configuration: each key, each way to be wrong. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/file.h"

static struct epd_why why;

static int
refuse_all(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return 1;
}

static int
parse(struct epd_config *c, const char *s)
{
	return epd_config_parse(c, epd_span_str(s), "epd.yaml", &why);
}

/* What is wrong with s; "" if nothing is. */
static const char *
fault(const char *s)
{
	struct epd_config c, before;
	int rc;

	epd_config_default(&c);
	before = c;
	why.text[0] = '\0';
	rc = parse(&c, s);
	if (rc && rc != EPD_EUSAGE)
		return "another error";
	if (rc && memcmp(&c, &before, sizeof c))
		return "touched";
	return why.text;
}

TEST(defaults_are_those_of_the_table)
{
	struct epd_config c;

	epd_config_default(&c);
	CHECK_INT(c.page_tokens, 16);
	CHECK_INT(c.memory_cap, 4294967296);
	CHECK_STR(c.kv_dtype, "bf16");
	CHECK_STR(c.reuse_policy, "exact_prefix");
	CHECK(c.max_quality_delta == 0.01);
	CHECK_STR(c.queues[0], "INTERACTIVE");
	CHECK_STR(c.queues[2], "THINKING");
}

/* Write a value of each kind that is not the default. */
static void
put_B(struct epd_buf *b, const void *field, int64_t lo, int64_t hi)
{
	(void)lo;
	(void)hi;
	epd_buf_str(b, *(const int *)field ? "false" : "true");
}

static void
put_I(struct epd_buf *b, const void *field, int64_t lo, int64_t hi)
{
	const int64_t *v = field;

	epd_buf_fmt(b, "%lld", (long long)(*v == hi ? lo : hi));
}

static void
put_R(struct epd_buf *b, const void *field, int64_t lo, int64_t hi)
{
	(void)field;
	epd_buf_fmt(b, "%lld.25e-1", (long long)(lo + hi));
}

static void
put_S(struct epd_buf *b, const void *field, const char *begins, int64_t hi)
{
	(void)hi;
	epd_buf_fmt(b, "\"%.*s/x %s\"", (int)strcspn(begins, "|"), begins,
	    (const char *)field);
}

static void
put_E(struct epd_buf *b, const void *field, const char *choices, int64_t hi)
{
	const char *last = strrchr(choices, '|') + 1;
	size_t n = strcspn(choices, "|");

	(void)hi;
	if (strcmp(last, field))
		epd_buf_str(b, last);
	else
		epd_buf_put(b, choices, n);
}

static int
same_B(int a, int b, const char *text)
{
	return a != b && !strcmp(text, a ? "true" : "false");
}

static int
same_I(int64_t a, int64_t b, const char *text)
{
	return a != b && a == strtoll(text, NULL, 10);
}

static int
same_R(double a, double b, const char *text)
{
	return a != b && a == strtod(text, NULL);
}

static int
same_S(const char *a, const char *b, const char *text)
{
	return strcmp(a, b) && !strncmp(text + 1, a, strlen(a));
}

static int
same_E(const char *a, const char *b, const char *text)
{
	return strcmp(a, b) && !strcmp(text, a);
}

#define ADDRESS_B(f) &f
#define ADDRESS_I(f) &f
#define ADDRESS_R(f) &f
#define ADDRESS_S(f) f
#define ADDRESS_E(f) f

TEST(every_key_goes_there_and_back)
{
	struct epd_config dflt;
	int n = 0;

	epd_config_default(&dflt);
#define X(section, key, kind, field, d, lo, hi) { \
	struct epd_config c = dflt; \
	struct epd_buf b = { 0 }, v = { 0 }; \
	put_##kind(&v, ADDRESS_##kind(dflt.field), lo, hi); \
	epd_buf_fmt(&b, section ":\n  " key ": %s\n", epd_buf_cstr(&v)); \
	if (parse(&c, epd_buf_cstr(&b))) \
		CHECK_FAIL("%s: %s", epd_buf_cstr(&b), why.text); \
	if (!same_##kind(c.field, dflt.field, epd_buf_cstr(&v))) \
		CHECK_FAIL(section "." key " is lost"); \
	memcpy(&c.field, &dflt.field, sizeof c.field); \
	if (memcmp(&c, &dflt, sizeof c)) \
		CHECK_FAIL(section "." key " goes elsewhere"); \
	epd_buf_free(&b); \
	epd_buf_free(&v); \
	n++; \
}
	/* 64 is both the largest and the other one of the two page sizes. */
	EPD_CONFIG(X)
#undef X
	CHECK(n > 40);
}

TEST(a_whole_file)
{
	struct epd_config c;

	epd_config_default(&c);
	CHECK_INT(parse(&c, "%YAML 1.1\n---\n# all of it\nstate:\n"
	    "  ttl_ms: 5   # short\n  sync: false\n"
	    "scheduler:\n  queues: [THINKING, 'HYBRID']\n"
	    "reuse: {max_quality_delta: 1, default_policy: none}\n"
	    "feature:\nengine:\n  # threads: 3\n...\n"), 0);
	CHECK_INT(c.state_ttl_ms, 5);
	CHECK_INT(c.state_sync, 0);
	CHECK_STR(c.queues[0], "THINKING");
	CHECK_STR(c.queues[1], "HYBRID");
	CHECK_STR(c.queues[2], "");
	CHECK(c.max_quality_delta == 1.0);
	CHECK_STR(c.reuse_policy, "none");
	CHECK_INT(c.page_tokens, 16);
	/* What a file does not say stays. */
	CHECK_INT(parse(&c, "page:\n  tokens: +64\n"), 0);
	CHECK_INT(c.state_ttl_ms, 5);
	CHECK_INT(c.page_tokens, 64);
}

TEST(nothing_is_a_configuration)
{
	CHECK_STR(fault(""), "");
	CHECK_STR(fault("# only words\n"), "");
	CHECK_STR(fault("---\n"), "");
	CHECK_STR(fault("{}"), "");
	CHECK_STR(fault("state: {}\n"), "");
	CHECK_STR(fault("\xef\xbb\xbfstate:\n  sync: true\n"), "");
}

TEST(faults_name_file_line_and_key)
{
	static const struct { const char *text, *want; } t[] = {
		{ "state:\n  ttl: 5\n", "2: unknown key state.ttl" },
		{ "\nstat:\n  ttl: 5\n", "2: unknown section stat" },
		{ "state:\n  queues: []\n", "2: unknown key state.queues" },
		{ "state:\n  sync: 1\n", "2: state.sync: wants true or false" },
		{ "state:\n  sync: yes\n",
		    "2: state.sync: wants true or false" },
		{ "state:\n  sync: 'true'\n",
		    "2: state.sync: wants true or false" },
		{ "state:\n  sync:\n", "2: state.sync: wants true or false" },
		{ "state:\n  sync: true\n  sync: true\n",
		    "3: state.sync stands twice" },
		{ "state:\n  ttl_ms: 1.5\n",
		    "2: state.ttl_ms: wants a whole number" },
		{ "state:\n  ttl_ms: '15'\n",
		    "2: state.ttl_ms: wants a whole number" },
		{ "state:\n  ttl_ms: 0x10\n",
		    "2: state.ttl_ms: wants a whole number" },
		{ "state:\n  ttl_ms: +-1\n",
		    "2: state.ttl_ms: wants a whole number" },
		{ "state:\n  ttl_ms:\n",
		    "2: state.ttl_ms: wants a whole number" },
		{ "state:\n  ttl_ms: -1\n",
		    "2: state.ttl_ms: wants 0 to 9223372036854775807" },
		{ "state:\n  ttl_ms: 9223372036854775808\n",
		    "2: state.ttl_ms: wants 0 to 9223372036854775807" },
		{ "state:\n  lock_timeout_ms: 600001\n",
		    "2: state.lock_timeout_ms: wants 1 to 600000" },
		{ "page:\n  tokens: 32\n", "2: page.tokens: wants 16 or 64" },
		{ "page:\n  tokens: 8\n", "2: page.tokens: wants 16 or 64" },
		{ "page:\n  memory_dir: shm\n",
		    "2: page.memory_dir: has to begin with /" },
		{ "transfer:\n  address: file:///x\n",
		    "2: transfer.address: has to begin with tcp://|unix:///" },
		{ "directory:\n  prefix: \"\"\n",
		    "2: directory.prefix: has to begin with /" },
		{ "tier:\n  low_water: 0.6\n  high_water: 0.5\n",
		    " tier.low_water is above tier.high_water" },
		{ "transfer:\n  address: foo\n",
		    "2: transfer.address: has to begin with tcp://|unix:///" },
		{ "page:\n  dtype: fp8\n",
		    "2: page.dtype: wants one of bf16|f32" },
		{ "page:\n  dtype: bf\n",
		    "2: page.dtype: wants one of bf16|f32" },
		{ "page:\n  dtype: ''\n",
		    "2: page.dtype: wants one of bf16|f32" },
		{ "page:\n  dtype: bf16|f32\n",
		    "2: page.dtype: wants one of bf16|f32" },
		{ "page:\n  dtype: [f32]\n",
		    "2: page.dtype: wants a single value" },
		{ "page:\n  dtype: {a: b}\n",
		    "2: page.dtype: wants a single value" },
		{ "page:\n  memory_dir: \"a\\0b\"\n",
		    "2: page.memory_dir: wants a single value" },
		{ "reuse:\n  max_quality_delta: 1.01\n",
		    "2: reuse.max_quality_delta: wants 0 to 1" },
		{ "reuse:\n  max_quality_delta: .nan\n",
		    "2: reuse.max_quality_delta: wants a number" },
		{ "reuse:\n  max_quality_delta: nan\n",
		    "2: reuse.max_quality_delta: wants a number" },
		{ "reuse:\n  max_quality_delta: 0x1p-3\n",
		    "2: reuse.max_quality_delta: wants a number" },
		{ "reuse:\n  max_quality_delta: 1e999\n",
		    "2: reuse.max_quality_delta: wants 0 to 1" },
		{ "scheduler:\n  queues: HYBRID\n",
		    "2: scheduler.queues: wants a list" },
		{ "scheduler:\n  queues: []\n",
		    "2: scheduler.queues: wants one at least" },
		{ "scheduler:\n  queues:\n  - HYBRID\n  - HYBRID\n",
		    "4: scheduler.queues: HYBRID stands twice" },
		{ "scheduler:\n  queues: [SLOW]\n", "2: scheduler.queues: "
		    "wants INTERACTIVE, HYBRID or THINKING" },
		{ "scheduler:\n  queues: [[HYBRID]]\n", "2: scheduler.queues: "
		    "wants INTERACTIVE, HYBRID or THINKING" },
		{ "scheduler:\n  queues: [HYBRID]\n  queues: [HYBRID]\n",
		    "3: scheduler.queues stands twice" },
		{ "state: 5\n", "1: state: wants keys with values" },
		{ "state: [a]\n", "1: state: wants keys with values" },
		{ "state: ''\n", "1: state: wants keys with values" },
		{ "state:\n  [a]: 1\n", "2: state: wants keys with values" },
		{ "[a]: 1\n", "1: wants the name of a section" },
		{ "- a\n", "1: wants sections with keys" },
		{ "word\n", "1: wants sections with keys" },
		{ "state: {}\n---\nstate: {}\n", "2: more than one document" },
		{ "page:\n  dtype: &x f32\n", "2: anchors are not taken" },
		{ "page: &x\n  dtype: f32\n", "1: anchors are not taken" },
		{ "scheduler:\n  queues: &q [HYBRID]\n",
		    "2: anchors are not taken" },
		{ "page:\n  dtype: *x\n", "2: aliases are not taken" },
		{ "page:\n  <<: *x\n", "2: unknown key page.<<" },
		{ "page:\n  dtype: !!str f32\n", "2: tags are not taken" },
		{ "page: !x\n  dtype: f32\n", "1: tags are not taken" },
		{ "scheduler:\n  queues: !!seq [HYBRID]\n",
		    "2: tags are not taken" },
		{ "%TAG !e! tag:x,2000:\n---\n{}\n", "1: tags are not taken" },
	};
	char want[256];

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		snprintf(want, sizeof want, "epd.yaml:%s", t[i].want);
		CHECK_STR(fault(t[i].text), want);
	}
}

TEST(what_is_no_yaml_is_refused_with_a_line)
{
	static const char *const t[] = {
		"state:\n  sync: true\n bad\n", "state:\n\tsync: true\n",
		"state:\n  sync: \"tru\n", "state: {\n", "state: [\n\n",
		"state:\n  sync: @x\n", "state:\n  sync: \x01\n",
		"state:\n  sync: \xff\xfe\n", "\xff\xfes\0t\0",
		"state:\n  - }\n", "%FOO\nx", "? ? ? ?\n", "key: 'a\n--- b",
	};

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		const char *said = fault(t[i]);

		if (strncmp(said, "epd.yaml:", 9) || atoi(said + 9) < 1)
			CHECK_FAIL("%s: %s", t[i], said);
	}
	CHECK(!strncmp(fault("state:\n  sync: true\n  \xff\n"),
	    "epd.yaml:3: ", 12));
}

TEST(bombs_are_refused_at_once)
{
	static char big[70000];
	struct epd_config c;

	CHECK_STR(fault("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n"),
	    "epd.yaml:1: unknown section a");
	memset(big, '[', sizeof big - 1);
	epd_config_default(&c);
	CHECK_INT(parse(&c, big), EPD_EUSAGE);
	CHECK_STR(why.text, "epd.yaml: larger than 64 KiB");
	big[65536] = '\0';
	CHECK_STR(fault(big), "epd.yaml:1: wants sections with keys");
	memcpy(big, "state:\n  sync: ", 15);
	CHECK_STR(fault(big), "epd.yaml:2: state.sync: wants a single value");
	memset(big, 'a', 65536);
	CHECK_STR(fault(big), "epd.yaml:1: wants sections with keys");
	memcpy(big, "page:\n  memory_dir: ", 20);
	CHECK_STR(fault(big),
	    "epd.yaml:2: page.memory_dir: longer than 255 bytes");
	memcpy(big, "page:\n  bbb: ccc\n  ", 19);
	big[60000] = ':';
	CHECK_STR(fault(big), "epd.yaml:2: unknown key page.bbb");
}

TEST(numbers_do_not_go_by_locale)
{
	struct epd_config c;

	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") &&
	    !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
		SKIP("no locale with a decimal comma here");
	epd_config_default(&c);
	CHECK_INT(parse(&c, "reuse:\n  max_quality_delta: 0.5\n"), 0);
	CHECK(c.max_quality_delta == 0.5);
	setlocale(LC_NUMERIC, "C");
}

TEST(reading_a_file)
{
	const char *t = getenv("TMPDIR");
	struct epd_config c, before;
	char path[300], want[400];
	int fd;

	snprintf(path, sizeof path, "%s/epd-config.XXXXXX", t ? t : "/tmp");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	epd_config_default(&c);
	before = c;
	CHECK_INT(epd_config_read(&c, path, &why), 0);
	CHECK_INT(epd_file_pwrite(fd, "page:\n  tokens: 64\n", 19, 0), 0);
	CHECK_INT(epd_config_read(&c, path, &why), 0);
	CHECK_INT(c.page_tokens, 64);
	CHECK_INT(epd_file_pwrite(fd, "page:\n  tokenz: 64\n", 19, 0), 0);
	CHECK_INT(epd_config_read(&c, path, &why), EPD_EUSAGE);
	snprintf(want, sizeof want, "%s:2: unknown key page.tokenz", path);
	CHECK_STR(why.text, want);
	CHECK_INT(ftruncate(fd, 65537), 0);
	CHECK_INT(epd_config_read(&c, path, &why), EPD_EUSAGE);
	epd_alloc_hook(refuse_all, NULL);
	CHECK_INT(epd_config_read(&c, path, &why), -ENOMEM);
	epd_alloc_hook(NULL, NULL);
	close(fd);
	unlink(path);
	CHECK_INT(epd_config_read(&c, path, &why), -ENOENT);
	snprintf(want, sizeof want, "%s: No such file or directory", path);
	CHECK_STR(why.text, want);
	CHECK_INT(epd_config_read(&c, "/", &why), -EISDIR);
	CHECK_INT(epd_config_read(&c, path, NULL), -ENOENT);
	c.page_tokens = before.page_tokens;
	CHECK(!memcmp(&c, &before, sizeof c));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
