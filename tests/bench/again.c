/*
 * again.c - pages restored from the disk, and computed again: which is the faster, and
 * which the store would choose by what it measured.
 *
 *	again STORE DISK MODEL LONGEST ROUNDS
 *		states of 16 tokens and up, to LONGEST; one JSON line each, in seconds
 *
 * What a decode that draws nothing takes: it takes the state up, and no more.
 */
#include <dirent.h>
#include <string.h>

#include "epd.h"
#include "flow/inner.h"
#include "flow/rest.h"
#include "flow/room.h"

#include "tests/bench/measure.h"

static struct epd_config config;
static struct epd_store *s;
static struct epd_session *se;

static void
begin(const char *store, const char *disk, const char *model)
{
	struct epd_store_options o = { .path = store, .config = &config,
	    .tenant = "", .create = 1 };
	struct epd_session_options so = { .model = model };

	epd_config_default(&config);
	snprintf(config.tier_nvme_dir, sizeof config.tier_nvme_dir, "%s", disk);
	strcpy(config.tier_restore, "always");
	config.state_sync = 0;
	must(epd_store_open(&s, &o, &why), store);
	must(epd_session_open(&se, s, &so, &why), model);
}

static struct epd_ref
state_of(int tokens, unsigned seed)
{
	struct epd_prefilled done;
	struct epd_buf text = { 0 };
	struct epd_json *j = NULL;
	struct epd_prefill p = { .kind = EPD_PROMPT_TURN, .role = "user",
	    .workflow = "", .reuse = EPD_REUSE_NONE };
	struct epd_ref ref = { .kind = EPD_REF_STATE };

	epd_buf_str(&text, "\"");
	for (int i = 0; i < tokens; i++)
		epd_buf_fmt(&text, " %c", 'a' + (int)((seed + (unsigned)i *
		    7919u) % 26));
	epd_buf_str(&text, "\"");
	must(epd_json_parse(&j, epd_span(text.p, text.n), "text", &why), "text");
	p.content = j;
	must(epd_flow_prefill(se, &p, &done, &why), "prefill");
	memcpy(ref.workflow, done.workflow, sizeof ref.workflow);
	ref.state = done.state;
	epd_json_free(j);
	epd_buf_free(&text);
	return ref;
}

static double
take_up(const struct epd_ref *ref)
{
	const struct epd_decode d = { .states = ref, .n = 1, .most = 0 };
	double t = now();

	must(epd_flow_decode(se, &d, &why), "take up");
	return now() - t;
}

static int
by_time(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

static double
median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_time);
	return v[n / 2];
}

static void
one(int tokens, int rounds)
{
	double restore[64], compute[64], r, c;
	struct epd_offloaded off = { 0 };
	struct epd_again again;
	uint64_t bytes = 0;

	for (int i = 0; i < rounds; i++) {
		const struct epd_ref ref = state_of(tokens, (unsigned)i);
		const struct epd_offload o = { .state = ref,
		    .tier = EPD_TIER_NVME, .reason = "bench" };

		must(epd_flow_offload(s, &o, &off, &why), "offload");
		restore[i] = take_up(&ref);
		/* And with neither memory nor disk. */
		must(epd_memory_remove(s->memory, ref.workflow), "memory");
		must(epd_memory_remove(s->disk, ref.workflow), "disk");
		compute[i] = take_up(&ref);
		bytes = off.bytes;
		must(epd_flow_release(s, &ref, "bench", &why), "release");
	}
	r = median(restore, rounds);
	c = median(compute, rounds);
	epd_store_again(s, bytes, (uint64_t)tokens, &again);
	printf("{\"tokens\": %d, \"bytes\": %llu, \"restore\": %.9f, "
	    "\"recompute\": %.9f, \"restores\": %s}\n", tokens,
	    (unsigned long long)bytes, r, c, again.restore ? "true" : "false");
}

int
main(int argc, char **argv)
{
	int rounds, longest;

	if (argc != 6 || (rounds = atoi(argv[5])) < 1 || rounds > 64 ||
	    (longest = atoi(argv[4])) < 16) {
		fprintf(stderr, "usage: again STORE DISK MODEL LONGEST ROUNDS\n");
		return 2;
	}
	begin(argv[1], argv[2], argv[3]);
	for (int n = 16; n <= longest; n += n / 2)
		one(n, rounds);
	epd_session_close(se);
	epd_store_close(s);
	return 0;
}
