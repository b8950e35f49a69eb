/*
 * flow_reuse_hints.c - hints that lead nowhere make way for the one before them,
 * what was reused is told as it was, and files of many names are mapped once and
 * weigh what they weigh in their store.
 */
#include "tests/check.h"
#include "tests/unit/reuse.h"

/* A state's pages as entries, put in the index under another run. */
static void
lie(struct kit *k, const struct kit_log *l, const char *workflow, uint64_t run)
{
	struct epd_page_entry e[64];

	for (long i = 0; i < l->npages; i++)
		e[i] = (struct epd_page_entry){ l->page[i].name,
		    l->page[i].rows, l->page[i].sum };
	epd_index_put(epd_store_index(k->s), workflow, run, 16, e, l->npages);
}

/* Whatever the newest hint leads to, the other one is asked. */
TEST(the_second_hint_is_asked)
{
	const char *text = words(30, 0, 0);

	for (int how = 0; how < 3; how++) {
		struct epd_prefilled p, q, r;
		struct kit_log a, b;
		uint64_t whole;
		struct kit k;

		kit_start(&k, QWEN2);
		CHECK_INT(raw(&k, in(&k, "one"), text, NULL, &p), 0);
		a = kit_read(&k, p.state, 0);
		alone(&k, words(0, 7, 30), NULL, &q);
		b = kit_read(&k, q.state, 0);
		/* Other pages; nothing; a run that is damaged. */
		if (how < 2) {
			lie(&k, &a, "one", how ? 1234567 : b.run[0]);
		} else {
			char path[200], hex[33];
			int fd;

			in(&k, "bad");
			alone(&k, text, NULL, &r);
			kit_log_free(&b);
			b = kit_read(&k, r.state, 0);
			epd_hex_format(hex, k.s->uuid, 16);
			snprintf(path, sizeof path,
			    "memory/epd-%s/w/bad/%016llx", hex,
			    (unsigned long long)b.run[0]);
			CHECK(fchmodat(k.dir, path, 0600, 0) == 0);
			fd = openat(k.dir, path, O_RDWR);
			CHECK(pwrite(fd, "rubbish", 7, 4096 + 50) == 7);
			close(fd);
			kit_reopen(&k);
		}
		whole = (p.tokens - 1) / 16 * 16;
		in(&k, "two");
		CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
		CHECK_INT(q.reused, whole);
		CHECK(right(&k, q.state));
		CHECK_INT(kit_count(&k, EPD_M_REUSE_FALLBACKS), 1);
		/* It is forgotten: nobody is led astray again. */
		in(&k, "three");
		CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
		CHECK_INT(q.reused, whole);
		CHECK_INT(kit_count(&k, EPD_M_REUSE_FALLBACKS), 1);
		kit_log_free(&a);
		kit_log_free(&b);
		kit_end(&k);
	}
}

/* In the same workflow one that is gone is counted, and computed. */
TEST(a_candidate_that_is_gone_is_a_fallback)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(kit_count(&k, EPD_M_REUSE_FALLBACKS), 0);
	kit_lose(&k, 0);
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, 0);
	CHECK(kit_count(&k, EPD_M_REUSE_FALLBACKS) > 0);
	CHECK(right(&k, p.state));
	kit_end(&k);
}

/* ---- what is told ---- */

TEST(kind21_decoding_tells_what_was_there)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 5, &said), 0);
	CHECK_INT(said.end.found, p.tokens - 1);
	CHECK_INT(said.end.computed, 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK_INT(said.end.found, p.tokens + 4);
	CHECK_INT(said.end.computed, 0);
	kit_lose(&k, 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK_INT(said.end.found, 0);
	CHECK_INT(said.end.computed, p.tokens + 7);
	CHECK_INT(said.end.fresh, 3);
	CHECK(said.end.lost > 0);
	kit_end(&k);
}

TEST(a_branch_taken_up_is_timed_once)
{
	struct epd_prefilled p;
	struct epd_forked f;
	struct kit_said said;
	uint64_t ns;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK_INT(kit_count(&k, EPD_M_CLONE_STATE_NS), 0);
	CHECK_INT(epd_flow_fork(k.s, &(struct epd_fork_request){
	    .from = kit_ref(p.state), .branches = 2, .reason = "test" }, &f,
	    kit_why(&k)), 0);
	CHECK_INT(kit_decode(&k, &f.first, 1, 3, &said), 0);
	ns = kit_count(&k, EPD_M_CLONE_STATE_NS);
	CHECK(ns > 0);
	CHECK_INT(kit_decode(&k, &f.first, 1, 3, &said), 0);
	CHECK_INT(kit_count(&k, EPD_M_CLONE_STATE_NS), ns);
	CHECK_INT(raw(&k, f.first + 1, "x", NULL, &p), 0);
	CHECK(kit_count(&k, EPD_M_CLONE_STATE_NS) > ns);
	kit_end(&k);
}

/* ---- files of many names ---- */

/* Ids that fall on one place of the table; a link is opened first. */
TEST(a_file_is_mapped_once_wherever_its_names_fall)
{
	const uint64_t origin = 64 * 5 + 3, name = 64 * 9 + 3;
	struct epd_page_entry e = { .rows = 16 };
	struct epd_run *run, *a = NULL, *b = NULL;
	struct epd_run_shape shape;
	struct epd_runs *runs;
	long at;
	void *page;
	struct kit k;
	int fd;

	kit_start(&k, QWEN2);
	epd_seq_shape(k.se, &shape);
	fd = epd_memory_dir(k.s->memory, "w1");
	CHECK(fd >= 0);
	CHECK_INT(epd_run_new(&run, fd, &shape), 0);
	CHECK_INT(epd_run_add(run, &page), 0);
	e.name.b[0] = 7;
	CHECK_INT(epd_run_publish(run, origin, &e, 1), 0);
	epd_run_close(run);
	CHECK_INT(epd_run_link(fd, origin, fd, name), 0);
	CHECK_INT(epd_runs_new(&runs), 0);
	CHECK_INT(epd_runs_get(runs, fd, name, &shape, &e, 1, &a, &at,
	    kit_why(&k)), 0);
	CHECK_INT(epd_runs_get(runs, fd, origin, &shape, &e, 1, &b, &at,
	    kit_why(&k)), 0);
	CHECK(a && a == b);
	epd_runs_free(runs);
	close(fd);
	kit_end(&k);
}

/* A name in another store's folder is none of this one's. */
TEST(other_stores_names_bear_nothing)
{
	struct epd_prefilled p, q;
	struct epd_workflow w;
	char path[80], hex[33];
	struct kit_log l;
	struct kit k;
	int fd;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "one"), words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(raw(&k, in(&k, "two"), words(30, 0, 0), NULL, &q), 0);
	CHECK(q.reused > 16);
	CHECK(balanced(&k));
	k.workflow = "one";
	l = kit_read(&k, p.state, 0);
	epd_hex_format(hex, (const uint8_t *)"another store's", 16);
	snprintf(path, sizeof path, "memory/epd-%s", hex);
	CHECK(mkdirat(k.dir, path, 0700) == 0);
	fd = openat(k.dir, path, O_RDONLY | O_DIRECTORY);
	CHECK_INT(epd_workflow_open(&w, k.s, "one", 1, kit_why(&k)), 0);
	for (uint64_t i = 1; i <= 5; i++) {
		CHECK_INT(epd_run_link(w.runs, l.run[0], fd, i), 0);
		CHECK(balanced(&k));
	}
	epd_workflow_close(&w);
	kit_log_free(&l);
	for (uint64_t i = 1; i <= 5; i++)
		CHECK_INT(epd_run_free(fd, i), 0);
	close(fd);
	CHECK(unlinkat(k.dir, path, AT_REMOVEDIR) == 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
