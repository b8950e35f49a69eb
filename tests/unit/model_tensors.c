/* model_tensors.c - safetensors files, good and hostile. */
#include <errno.h>

#include "engine/model/safetensors.h"
#include "tests/unit/model_dir.h"

/* A file of this header, padded as given, and n bytes counting up. */
static void
put(struct dir *d, const char *name, const char *head, uint64_t claimed,
    size_t n)
{
	struct epd_buf b = { 0 };

	epd_pack_u64(&b, claimed == 0 ? strlen(head) : claimed);
	epd_buf_str(&b, head);
	for (size_t i = 0; i < n; i++)
		epd_pack_u8(&b, (uint8_t)i);
	dir_put(d, name, b.p, b.n);
	epd_buf_free(&b);
}

#define T(name, type, shape, from, to) "\"" name "\":{\"dtype\":\"" type \
	"\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

TEST(reads_tensors)
{
	struct dir d = dir_new();
	struct epd_tensors *t = NULL;
	const struct epd_tensor *x;
	const char *name;

	put(&d, "model.safetensors", "{\"__metadata__\":{\"format\":\"pt\"},"
	    T("b", "BF16", "[2,3]", "4", "16") "," T("a", "F32", "[]", "0",
	    "4") "," T("none", "U8", "[0,7]", "16", "16") "}  ", 0, 16);
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), 0);
	x = epd_tensors_find(t, "b");
	CHECK(x && x->dims == 2 && x->dim[0] == 2 && x->dim[1] == 3);
	CHECK_STR(x->type, "BF16");
	CHECK_INT(x->bytes, 12);
	CHECK_INT(*(const uint8_t *)x->data, 4);
	CHECK(epd_tensors_find(t, "a")->dims == 0);
	CHECK(epd_tensors_find(t, "none")->bytes == 0);
	CHECK(!epd_tensors_find(t, "__metadata__"));
	CHECK(epd_tensors_file(t, 0, &name).n > 16);
	CHECK_STR(name, "model.safetensors");
	CHECK_INT(epd_tensors_file(t, 1, &name).n, 0);
	epd_tensors_close(t);
	dir_free(&d);
}

TEST(refuses_bad_files)
{
	static const struct {
		const char *head;
		uint64_t claimed;
		size_t data;
		int rc;
		const char *says;
	} bad[] = {
		{ "{}", 3, 0, EPD_EFORMAT, "cut short" },
		{ "{}", UINT64_MAX, 0, EPD_ETOOBIG, "header of" },
		{ "{}", (uint64_t)1 << 40, 0, EPD_ETOOBIG, "header of" },
		{ "{}", 0, 1, EPD_EFORMAT, "belong to no tensor" },
		{ "[]", 0, 0, EPD_EFORMAT, "bad header" },
		{ "null", 0, 0, EPD_EFORMAT, "bad header" },
		{ "{\"a\"", 0, 0, EPD_EFORMAT, "" },
		{ "{\"a\":1}", 0, 4, EPD_EFORMAT, "bad dtype" },
		{ "{\"a\":null}", 0, 4, EPD_EFORMAT, "bad dtype" },
		{ "{" T("a", "F33", "[1]", "0", "4") "}", 0, 4, EPD_EFORMAT,
		    "bad dtype" },
		{ "{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 0,
		    4, EPD_EFORMAT, "bad dtype" },
		{ "{" T("a", "F32", "{\"0\":1}", "0", "4") "}", 0, 4,
		    EPD_EFORMAT, "bad dtype" },
		{ "{" T("a", "F32", "[-1]", "0", "4") "}", 0, 4, EPD_EFORMAT,
		    "shape" },
		{ "{" T("a", "F32", "[1.0]", "0", "4") "}", 0, 4, EPD_EFORMAT,
		    "shape" },
		/* 2^31 x 2^31 x 4 bytes are 0 modulo 2^64. */
		{ "{" T("a", "F32", "[2147483648,2147483648]", "0", "0") "}",
		    0, 0, EPD_EFORMAT, "shape" },
		{ "{" T("a", "F32", "[1]", "0", "8") "}", 0, 4, EPD_EFORMAT,
		    "not in the file" },
		{ "{" T("a", "F32", "[1]", "-4", "0") "}", 0, 4, EPD_EFORMAT,
		    "not in the file" },
		{ "{" T("a", "F32", "[1]", "4", "0") "}", 0, 4, EPD_EFORMAT,
		    "not in the file" },
		{ "{" T("a", "F32", "[1]", "0", "18446744073709551620") "}",
		    0, 4, EPD_EFORMAT, "not in the file" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":"
		    "[0,4,4]}}", 0, 4, EPD_EFORMAT, "not in the file" },
		{ "{" T("a", "F32", "[2]", "0", "4") "}", 0, 4, EPD_EFORMAT,
		    "for a shape of" },
		{ "{" T("a", "F32", "[1]", "4", "8") "}", 0, 8, EPD_EFORMAT,
		    "a gap" },
		{ "{" T("a", "F32", "[1]", "0", "4") ","
		    T("b", "F32", "[1]", "8", "12") "}", 0, 12, EPD_EFORMAT,
		    "a gap" },
		{ "{" T("a", "F32", "[2]", "0", "8") ","
		    T("b", "F32", "[1]", "4", "8") "}", 0, 8, EPD_EFORMAT,
		    "an overlap" },
		{ "{" T("a", "F32", "[1]", "0", "4") ","
		    T("b", "F32", "[1]", "0", "4") "}", 0, 4, EPD_EFORMAT,
		    "an overlap" },
	};
	struct dir d = dir_new();
	struct epd_tensors *t = NULL;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct epd_why why = { "" };
		int rc;

		put(&d, "model.safetensors", bad[i].head, bad[i].claimed,
		    bad[i].data);
		rc = epd_tensors_open(&t, d.fd, &why);
		if (rc != bad[i].rc || !strstr(why.text, bad[i].says))
			CHECK_FAIL("%s: %d %s", bad[i].head, rc, why.text);
		CHECK(!t);
	}
	dir_free(&d);
}

TEST(every_cut_is_refused)
{
	const char *head = "{" T("a", "F32", "[2]", "0", "8") ","
	    T("b", "U8", "[1]", "8", "9") "}";
	struct dir d = dir_new();
	struct epd_tensors *t = NULL;
	struct epd_buf whole;
	char path[400];

	put(&d, "model.safetensors", head, 0, 9);
	snprintf(path, sizeof path, "%s/model.safetensors", d.path);
	whole = golden_read(path);
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), 0);
	epd_tensors_close(t);
	t = NULL;
	for (size_t n = 0; n < whole.n; n++) {
		struct epd_why why = { "" };

		dir_put(&d, "model.safetensors", whole.p, n);
		CHECK_INT(epd_tensors_open(&t, d.fd, &why), EPD_EFORMAT);
		CHECK(*why.text && !t);
	}
	epd_buf_free(&whole);
	dir_free(&d);
}

#define INDEX(map) "{\"metadata\":{},\"weight_map\":" map "}"

TEST(indexes_name_files)
{
	struct dir d = dir_new();
	struct epd_tensors *t = NULL;
	const char *name;

	put(&d, "b.safetensors", "{" T("x", "U8", "[1]", "0", "1") ","
	    T("z", "U8", "[2]", "1", "3") "}", 0, 3);
	put(&d, "a.safetensors", "{" T("x", "U8", "[1]", "0", "1") ","
	    T("y", "U8", "[1]", "1", "2") "}", 0, 2);
	dir_text(&d, "model.safetensors.index.json", INDEX(
	    "{\"z\":\"b.safetensors\",\"y\":\"a.safetensors\","
	    "\"x\":\"b.safetensors\"}"));
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), 0);
	epd_tensors_file(t, 0, &name);
	CHECK_STR(name, "a.safetensors");
	epd_tensors_file(t, 1, &name);
	CHECK_STR(name, "b.safetensors");
	/* Both files have an x; the index says whose counts. */
	CHECK_INT(epd_tensors_find(t, "x")->file, 1);
	CHECK_INT(epd_tensors_find(t, "y")->file, 0);
	epd_tensors_close(t);

	/* One whole file wins over an index, as in the reference. */
	t = NULL;
	put(&d, "model.safetensors", "{" T("w", "U8", "[1]", "0", "1") "}",
	    0, 1);
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), 0);
	CHECK(epd_tensors_find(t, "w") && !epd_tensors_find(t, "x"));
	epd_tensors_close(t);
	dir_free(&d);
}

TEST(indexes_that_lie)
{
	static const struct {
		const char *index;
		int rc;
		const char *says;
	} bad[] = {
		{ INDEX("{\"x\":\"../a.safetensors\"}"), EPD_EFORMAT,
		    "not the name of a file" },
		{ INDEX("{\"x\":\"/etc/passwd\"}"), EPD_EFORMAT,
		    "not the name of a file" },
		{ INDEX("{\"x\":\"\"}"), EPD_EFORMAT,
		    "not the name of a file" },
		{ INDEX("{\"x\":7}"), EPD_EFORMAT, "not the name of a file" },
		{ INDEX("{\"x\":\"..\"}"), EPD_EFORMAT,
		    "not the name of a file" },
		{ INDEX("{\"x\":\".\"}"), EPD_EFORMAT, "not a regular file" },
		{ INDEX("{\"x\":\"c.safetensors\"}"), -ENOENT,
		    "c.safetensors" },
		{ INDEX("{\"q\":\"a.safetensors\"}"), EPD_EFORMAT,
		    "says so" },
		{ INDEX("[1]"), EPD_EFORMAT, "weight_map" },
		{ "{}", EPD_EFORMAT, "weight_map" },
		{ "", EPD_EFORMAT, "" },
	};
	struct dir d = dir_new();
	struct epd_tensors *t = NULL;

	put(&d, "a.safetensors", "{" T("x", "U8", "[1]", "0", "1") "}", 0, 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct epd_why why = { "" };
		int rc;

		dir_text(&d, "model.safetensors.index.json", bad[i].index);
		rc = epd_tensors_open(&t, d.fd, &why);
		if (rc != bad[i].rc || !strstr(why.text, bad[i].says))
			CHECK_FAIL("%s: %d %s", bad[i].index, rc, why.text);
		CHECK(!t);
	}
	unlinkat(d.fd, "model.safetensors.index.json", 0);
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), -ENOENT);
	CHECK_INT(mkfifoat(d.fd, "model.safetensors", 0600), 0);
	CHECK_INT(epd_tensors_open(&t, d.fd, NULL), EPD_EFORMAT);
	dir_free(&d);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
