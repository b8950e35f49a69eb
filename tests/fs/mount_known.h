/*
 * mount_known.h - a workflow "known" of which every byte is known: from what was
 * put into it, or from the store's own files, never from the mount.
 */
#ifndef TESTS_MOUNT_KNOWN_H
#define TESTS_MOUNT_KNOWN_H

#include "tests/fs/mount.h"

enum { MT_T = 16, MT_VOCAB = 500, MT_KNOWN = 1024, MT_DIRS = 64 };
#define MT_MODEL "examples/tiny-vlm/model"

struct mt_file {
	char path[200];
	uint8_t *p;		/* what it holds, or where a link leads */
	size_t n;
	uint64_t sum;		/* of a page */
	int is_page, is_link, is_fixed;
};
struct mt_folder {
	char path[200];
	char (*name)[72];	/* in the order they come */
	int n, grows;		/* what others do shows in it */
};
static struct mt_file mt_file[MT_KNOWN];
static struct mt_folder mt_folder[MT_DIRS];
static int mt_files, mt_folders;
static struct epd_tokenizer *mt_tongue;

/* ---- what is put in ---- */

static inline int32_t
mt_id(uint64_t of, uint64_t i)
{
	return (int32_t)(mt_mix(of * 1000003 + i) % MT_VOCAB);
}

/* A page's bytes follow from its name. */
static inline void
mt_page(void *p, size_t bytes, const struct epd_name *name)
{
	uint8_t *to = p;
	uint64_t x;

	memcpy(&x, name->b, sizeof x);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v = mt_mix(x + i);

		memcpy(to + i, &v, bytes - i < 8 ? bytes - i : 8);
	}
}

/* n full pages of ids behind `up`, published; ref and *run are told. */
static inline int
mt_publish(int runs, const struct epd_run_shape *shape,
    const struct epd_name *up, const int32_t *ids, uint32_t n,
    struct epd_page_ref *ref, uint64_t *run)
{
	struct epd_page_entry *e = calloc(n, sizeof *e);
	struct epd_run *r = NULL;
	int rc = e ? epd_run_new(&r, runs, shape) : -ENOMEM;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		void *page;

		if ((rc = epd_run_add(r, &page)) < 0)
			break;
		epd_page_name(&e[i].name, up, ids + i * MT_T, MT_T, NULL, 0);
		e[i].rows = MT_T;
		up = &e[i].name;
		mt_page(page, shape->bytes, up);
	}
	if (rc == 0 && (rc = epd_run_id(run)) == 0)
		rc = epd_run_publish(r, *run, e, n);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		ref[i] = (struct epd_page_ref){ e[i].name, MT_T, e[i].sum };
	epd_run_close(r);
	free(e);
	return rc;
}

/* ---- what is known of it ---- */

static inline struct mt_file *
mt_add(const void *p, size_t n, const char *path)
{
	struct mt_file *f = mt_file + mt_files;

	if (mt_files == MT_KNOWN)
		return f - 1;
	mt_files++;
	*f = (struct mt_file){ .p = malloc(n + 1) };
	snprintf(f->path, sizeof f->path, "%s", path);
	memcpy(f->p, p, n);
	f->n = n;
	return f;
}

/* When the test's process ends. */
__attribute__((destructor)) static void
mt_forget(void)
{
	while (mt_files)
		free(mt_file[--mt_files].p);
}

static inline struct mt_folder *
mt_add_folder(const char *path)
{
	struct mt_folder *d = mt_folder + mt_folders++;

	snprintf(d->path, sizeof d->path, "%s", path);
	d->n = d->grows = 0;
	return d;
}

static inline void
mt_add_name(struct mt_folder *d, const char *name)
{
	d->name = realloc(d->name, (size_t)(d->n + 1) * sizeof *d->name);
	snprintf(d->name[d->n++], sizeof *d->name, "%s", name);
}

/* tokens, text and messages.json of all ids up to a version. */
static inline void
mt_know_words(const char *dir, const int32_t *ids, size_t n, int fixed)
{
	static const char *const name[] = { "text", "messages.json" };
	struct epd_buf b = {0};
	char path[200];

	for (size_t i = 0; i < n; i++)
		epd_buf_fmt(&b, "%d\n", ids[i]);
	snprintf(path, sizeof path, "%.150s/tokens", dir);
	mt_add(b.p, b.n, path)->is_fixed = fixed;
	for (int k = 0; k < 2; k++) {
		b.n = 0;
		epd_transcript(&b, mt_tongue, ids, n, k ?
		    EPD_TRANSCRIPT_MESSAGES : EPD_TRANSCRIPT_TEXT);
		snprintf(path, sizeof path, "%.150s/%s", dir, name[k]);
		mt_add(b.p, b.n, path)->is_fixed = fixed;
	}
	epd_buf_free(&b);
}

/* Links of a version to its pages, and the folder of them. */
static inline void
mt_know_table(const char *dir, const struct epd_page_ref *ref, uint32_t n,
    int up)
{
	struct mt_folder *d;
	char path[200], name[16], to[160], hex[2 * EPD_NAME + 1];

	snprintf(path, sizeof path, "%.150s/pages", dir);
	d = mt_add_folder(path);
	for (uint32_t i = 0; i < n; i++) {
		int len = 0;

		for (int k = 0; k < up; k++)
			len += snprintf(to + len, sizeof to - (size_t)len,
			    "../");
		epd_hex_format(hex, ref[i].name.b, EPD_NAME);
		len += snprintf(to + len, sizeof to - (size_t)len, "pages/%s",
		    hex);
		snprintf(name, sizeof name, "%04u", i);
		snprintf(path, sizeof path, "%.150s/pages/%s", dir, name);
		mt_add(to, (size_t)len, path)->is_link = 1;
		mt_add_name(d, name);
	}
}

static inline void
mt_know_page(const struct epd_page_ref *ref, size_t bytes)
{
	char path[200], hex[2 * EPD_NAME + 1];
	uint8_t *p = malloc(bytes);
	struct mt_file *f;

	mt_page(p, bytes, &ref->name);
	epd_hex_format(hex, ref->name.b, EPD_NAME);
	snprintf(path, sizeof path, "pages/%s", hex);
	f = mt_add(p, bytes, path);
	f->is_page = f->is_fixed = 1;
	f->sum = ref->sum;
	free(p);
}

/* ---- filling ---- */

struct mt_making {
	struct epd_workflow w;
	struct epd_state st;
	int32_t ids[2048];
	struct epd_page_ref ref[128];
	uint32_t n, pages;		/* so far */
	uint32_t state;
};

/* One version more: so many pages, all full. */
static inline int
mt_version(struct mt_making *m, uint32_t pages, int lengths)
{
	const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, EPD_BF16,
	    MT_T, m->st.page_bytes };
	const uint32_t had = m->n;
	struct epd_version v = { .ids = m->ids + had,
	    .pages = m->ref + m->pages, .npages = pages,
	    .first_page = m->pages, .nids = pages * MT_T + !had,
	    .turn = EPD_TURN_IS_RAW };
	char dir[200];
	uint32_t k = 1;
	int rc;

	for (uint32_t i = 0; i < v.nids; i++)
		m->ids[had + i] = mt_id(m->st.page_bytes, had + i);
	rc = mt_publish(m->w.runs, &shape, m->pages ?
	    &m->ref[m->pages - 1].name : &m->st.base,
	    m->ids + m->pages * MT_T, pages, m->ref + m->pages, &v.run);
	m->n += v.nids;
	m->pages += pages;
	v.next_pos = m->n;
	if (lengths) {
		v.has_lengths = 1;
		v.text_bytes = epd_transcript_size(mt_tongue, m->ids, m->n,
		    EPD_TRANSCRIPT_TEXT);
		v.messages_bytes = epd_transcript_size(mt_tongue, m->ids, m->n,
		    EPD_TRANSCRIPT_MESSAGES);
	}
	if (rc == 0)
		rc = had ? epd_shard_advance(m->w.shard, m->state,
		    m->st.versions, 0, &v, &k, &mt_why) :
		    epd_shard_create(m->w.shard, &m->st, &v, &m->state,
		    &mt_why);
	m->st.versions = k;
	snprintf(dir, sizeof dir, "workflows/known/states/s%u/versions/%u",
	    m->state, k);
	mt_know_words(dir, m->ids, m->n, 1);
	mt_know_table(dir, m->ref, m->pages, 7);
	return rc;
}

/* A state of such pages, in versions of so many each. */
static inline int
mt_state(struct mt_making *m, uint64_t bytes, const uint32_t *pages)
{
	static char model[600];
	struct mt_folder *d;
	char dir[200], name[16];
	int rc = 0;

	if (!realpath(MT_MODEL, model))
		return -errno;
	m->st = (struct epd_state){ .page_tokens = MT_T, .kv_type = EPD_BF16,
	    .page_bytes = bytes, .model_path = model, .tenant = "",
	    .fingerprint = "{}" };
	m->st.base.b[0] = (uint8_t)(bytes >> 4);
	m->n = m->pages = 0;
	for (; rc == 0 && *pages; pages++)
		rc = mt_version(m, *pages, m->pages & 1);
	for (uint32_t i = 0; i < m->pages; i++)
		mt_know_page(m->ref + i, bytes);
	snprintf(dir, sizeof dir, "workflows/known/states/s%u", m->state);
	mt_know_words(dir, m->ids, m->n, 0);
	mt_know_table(dir, m->ref, m->pages, 5);
	snprintf(dir, sizeof dir, "workflows/known/states/s%u/versions",
	    m->state);
	d = mt_add_folder(dir);
	for (uint32_t k = 1; k <= m->st.versions; k++) {
		snprintf(name, sizeof name, "%u", k);
		mt_add_name(d, name);
	}
	return rc;
}

/* A feature; what its blob holds is what lies in the store. */
static inline int
mt_feature(void)
{
	static const struct epd_model_parts parts = { .tenant = "",
	    .snapshot = "00ff", .family = "qwen2_5_vl", .numeric = "x",
	    .processor = "fast/1", .dtype = "f32", .quantisation = "none",
	    .adapter = "", .resampler = "fast", .exif = "applied",
	    .alpha = "white", .arithmetic = 1, .merge = 2, .patch = 14,
	    .temporal = 2, .min_pixels = 3136, .max_pixels = 12845056 };
	static float rows[400 * 256];
	static uint8_t rgb[28 * 56 * 3];
	struct epd_feature f = { .parts = &parts, .grid = { 1, 40, 40 },
	    .layers = 1, .tokens = 400, .hidden = 256, .dtype = "f32" };
	struct epd_buf b = {0};
	char hex[2 * EPD_NAME + 1], path[200];
	int rc, fd;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		rows[i] = (float)i / 64;
	for (size_t i = 0; i < sizeof rgb; i++)
		rgb[i] = (uint8_t)(i * 31);
	epd_model_fingerprint(&f.model, &parts);
	epd_image_fingerprint(&f.fp, &f.model, f.grid, 28, 56, rgb);
	rc = epd_feature_commit(mt.s->features, &f, rows, rgb, 28, 56);
	fd = rc ? -1 : epd_feature_blob(mt.s->features, &f.fp);
	if (fd < 0)
		return rc ? rc : fd;
	rc = epd_file_slurp(fd, 64 << 20, &b);
	close(fd);
	epd_hex_format(hex, f.fp.b, EPD_NAME);
	snprintf(path, sizeof path, "features/%s/blob", hex);
	mt_add(b.p, b.n, path)->is_fixed = 1;
	epd_buf_free(&b);
	return rc;
}

static inline int
mt_fill(void)
{
	static struct mt_making m;
	static const uint32_t small[] = { 8, 7, 9, 0 }, big[] = { 3, 1, 0 },
	    odd[] = { 12, 1, 1, 1, 1, 0 };
	struct mt_folder *d;
	char name[EPD_WORKFLOW];
	int rc, dir = open(MT_MODEL, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	rc = dir < 0 ? -errno : epd_tokenizer_open(&mt_tongue, dir, &mt_why);
	if (dir >= 0)
		close(dir);
	if (rc == 0)
		rc = epd_workflow_make(mt.s, "known", name, &mt_why);
	if (rc == 0)
		rc = epd_workflow_open(&m.w, mt.s, name, 0, &mt_why);
	if (rc < 0)
		return rc;
	mt_files = mt_folders = 0;
	rc = mt_state(&m, 4096, small);
	if (rc == 0)
		rc = mt_state(&m, 2500000, big);	/* more than one read of it */
	if (rc == 0)
		rc = mt_state(&m, 12296, odd);
	epd_workflow_close(&m.w);
	if (rc == 0)
		rc = mt_feature();
	d = mt_add_folder("workflows/known/states");
	for (int i = 1; i <= 3; i++) {
		snprintf(name, sizeof name, "s%d", i);
		mt_add_name(d, name);
	}
	d = mt_add_folder("pages");
	for (int i = 0; i < mt_files; i++)
		if (mt_file[i].is_page)
			mt_add_name(d, mt_file[i].path + strlen("pages/"));
	d->grows = 1;
	mt_add_name(mt_add_folder("tiers"), "cpu");
	if (rc < 0)
		printf("# fill: %s: %s\n", epd_strerror(rc), mt_why.text);
	return rc;
}

#endif
