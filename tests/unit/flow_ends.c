/* flow_ends.c - how decoding and prefill end: eos, length, stop, interrupt. */
#include "tests/check.h"
#include "tests/unit/flow.h"

/* Greedy under these settings, the kit's listeners. */
static struct epd_decode
greedy(const struct epd_ref *ref, int64_t most, struct kit_said *said)
{
	memset(said, 0, sizeof *said);
	return (struct epd_decode){
		.states = ref, .n = 1, .most = most, .has_temp = 1,
		.has_penalty = 1, .sampler = { .top_p = 1, .penalty = 1 },
		.token = kit_token, .end = kit_ended, .arg = said,
	};
}

/* Whether the state's pages are right, and right again after a loss. */
static int
sound(struct kit *k, uint32_t state)
{
	struct epd_prefilled p;
	struct kit_log l = kit_read(k, state, 0);
	struct kit_said said;
	int ok = kit_recount(k, &l) && kit_replay(k, &l);

	kit_log_free(&l);
	for (int wipe = 0; ok && wipe < 2; wipe++) {
		kit_lose(k, wipe);
		ok = wipe ? kit_decode(k, &state, 1, 2, &said) == 0 :
		    kit_say(k, state, "More.", NULL, &p) == 0;
		if (!ok)
			printf("# %s\n", k->why.text);
		l = kit_read(k, state, 0);
		ok = ok && kit_recount(k, &l) && kit_replay(k, &l);
		kit_log_free(&l);
	}
	return ok && kit_check(k) == 0;
}

/* The last of the tokens that none before is; 0 if there is none. */
static int
last_new(const struct kit_said *s)
{
	for (int j = s->n - 1; j > 0; j--) {
		int i = 0;

		while (s->id[i] != s->id[j])
			i++;
		if (i == j)
			return j;
	}
	return 0;
}

/*
 * An end of text that is not the turn's mark is not kept, so the page of the
 * last token is there before the token after it.
 */
static int
ends_early(const char *text, int wipe, int more, uint64_t *tokens)
{
	struct epd_prefilled p;
	struct kit_said said, again;
	const struct epd_ref ref = kit_ref(1);
	struct epd_decode d;
	struct kit_log l;
	struct kit k;
	char eos[64];
	int at, ok;

	kit_start(&k, QWEN2);
	k.alone = 1;
	if (kit_say(&k, 0, text, NULL, &p) < 0 ||
	    kit_say(&k, 0, text, NULL, &p) < 0 ||
	    kit_decode(&k, &p.state, 1, 40, &said) < 0)
		golden_die("answer", k.why.text);
	k.alone = 0;
	kit_close(&k);
	at = last_new(&said);
	snprintf(eos, sizeof eos, "514, %d,", said.id[at]);
	k.model = kit_model(&k, QWEN2, "generation_config.json", "514,", eos);
	kit_open(&k);
	d = greedy(&ref, -1, &again);
	ok = epd_flow_decode(k.se, &d, kit_why(&k)) == 0 &&
	    again.end.finish == EPD_FINISH_EOS && again.n == at &&
	    again.end.fresh == (uint64_t)at;
	l = kit_read(&k, 1, 0);
	ok = ok && l.head.turn == EPD_TURN_IS_OPEN &&
	    l.n == again.end.tokens && kit_replay(&k, &l);
	*tokens = l.n;
	kit_log_free(&l);
	/* It ends at once the next time, and nothing changes. */
	ok = ok && epd_flow_decode(k.se, &d, kit_why(&k)) == 0 &&
	    again.end.finish == EPD_FINISH_EOS && again.end.version == 2;
	kit_lose(&k, wipe);
	ok = ok && kit_decode(&k, &(uint32_t){ 1 }, 1, more, &again) == 0 &&
	    again.id[0] == said.id[at] &&
	    again.logprob[0] == said.logprob[at] && sound(&k, 1);
	if (!ok)
		printf("# \"%s\": eos at %d: %s\n", text, at, k.why.text);
	kit_end(&k);
	return ok;
}

TEST(eos_that_is_not_kept)
{
	int full[2] = { 0 };

	/* So that the last page is part full, and full. */
	for (int i = 0; i < 36; i++) {
		char text[64] = "Hello";
		uint64_t n;

		for (int j = 0; j < i / 2; j++)
			strcat(text, j % 2 ? "Z" : "7");
		CHECK(ends_early(text, i / 2 % 2, 1 + 2 * (i % 2), &n));
		full[i % 2] += n % 16 == 0;
	}
	CHECK(full[0] && full[1]);
}

TEST(the_last_position)
{
	struct epd_prefilled p, q;
	struct kit_said said;
	struct kit_log l;
	struct kit k;
	int runs;

	for (int most = 60; most <= 66; most++) {
		char config[64];
		uint64_t n;

		kit_begin(&k, QWEN2);
		snprintf(config, sizeof config, "embeddings\": %d", most);
		k.model = kit_model(&k, QWEN2, "config.json",
		    "embeddings\": 32768", config);
		kit_open(&k);
		CHECK_INT(kit_say(&k, 0, "How many?", NULL, &p), 0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 60, &said), 0);
		CHECK_INT(said.end.finish, EPD_FINISH_LENGTH);
		CHECK_INT(said.end.tokens, most);
		n = said.end.tokens;
		kit_reopen(&k);
		kit_lose(&k, 0);
		CHECK_INT(kit_decode(&k, &p.state, 1, 60, &said), 0);
		CHECK_INT(said.end.finish, EPD_FINISH_LENGTH);
		CHECK_INT(said.end.fresh, 0);
		CHECK_INT(said.end.tokens, n);
		CHECK_INT(said.end.version, 2);
		runs = kit_runs(&k);
		CHECK_INT(kit_say(&k, p.state, "Why?", NULL, &q), EPD_ETOOBIG);
		CHECK(strstr(k.why.text, "positions"));
		CHECK_INT(kit_say(&k, 0, "A text that is longer than all that, "
		    "with many words in it, more than the model has room for.",
		    NULL, &q), EPD_ETOOBIG);
		CHECK_INT(kit_runs(&k), runs);
		l = kit_read(&k, p.state, 0);
		CHECK_INT(l.n, n);
		CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
		kit_log_free(&l);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

/* Stop after so many tokens, and again; what was drawn is kept. */
struct stopper {
	struct kit_said said;
	int after;
	volatile sig_atomic_t flag;
};

static int
stop_later(void *arg, const struct epd_token_event *e)
{
	struct stopper *s = arg;

	kit_token(&s->said, e);
	if (s->said.n == s->after)
		s->flag = 1;
	return s->said.n == -s->after;
}

static void
stopped(void *arg, const struct epd_decode_end *e)
{
	kit_ended(&((struct stopper *)arg)->said, e);
}

TEST(interrupted)
{
	for (int after = -3; after <= 3; after++) {
		struct stopper s = { .after = after, .flag = after == 0 };
		const struct epd_ref ref = kit_ref(1);
		struct epd_prefilled p;
		struct kit_said whole, rest;
		struct epd_decode d;
		struct kit k;
		int n = after < 0 ? -after : after;

		kit_start(&k, QWEN3);
		for (k.alone = 0; k.alone < 2; k.alone++)
			CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
		k.alone = 0;
		CHECK_INT(kit_decode(&k, &p.state, 1, 6, &whole), 0);
		d = greedy(&ref, -1, &rest);
		d.ignore_eos = 1;
		d.token = stop_later;
		d.end = stopped;
		d.arg = &s;
		d.interrupt = &s.flag;
		CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), 0);
		CHECK_INT(s.said.end.finish, EPD_FINISH_INTERRUPT);
		CHECK_INT(s.said.end.fresh, n);
		CHECK_INT(s.said.end.tokens, p.tokens + (uint64_t)n);
		CHECK_INT(s.said.end.version, n ? 2 : 1);
		CHECK_INT(kit_decode(&k, &(uint32_t){ 1 }, 1, 6 - n, &rest), 0);
		for (int i = n; i < 6; i++)
			CHECK(rest.id[i - n] == whole.id[i] &&
			    rest.logprob[i - n] == whole.logprob[i]);
		CHECK(sound(&k, 1));
		kit_end(&k);
	}
}

/* While lost pages are computed nothing can be kept, and nothing changes. */
TEST(interrupted_while_loading)
{
	struct stopper s = { .flag = 1 };
	const struct epd_ref ref = kit_ref(1);
	struct epd_prefilled p;
	struct epd_decode d;
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	kit_lose(&k, 0);
	d = greedy(&ref, 5, &said);
	d.interrupt = &s.flag;
	CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), 0);
	CHECK_INT(said.ended, 1);
	CHECK_INT(said.end.finish, EPD_FINISH_INTERRUPT);
	CHECK_INT(said.end.fresh, 0);
	CHECK_INT(said.end.version, 1);
	CHECK_INT(said.end.tokens, p.tokens);
	CHECK_INT(kit_runs(&k), 0);
	l = kit_read(&k, 1, 0);
	CHECK_INT(l.n, p.tokens);
	kit_log_free(&l);
	kit_end(&k);
}

static volatile sig_atomic_t stop;

static void
stop_now(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	stop = done > 16 && done < total;
}

TEST(prefill_given_up)
{
	struct epd_json *j = kit_json("\"A longer text that takes several "
	    "chunks, of which some are computed and the others are not.\"");
	struct epd_prefilled p = { .version = 99 };
	struct epd_prefill r = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = "w1", .progress = stop_now, .stop = &stop,
	};
	struct kit_log l;
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.chunk = 10;
	kit_open(&k);
	stop = 0;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), -EINTR);
	CHECK_INT(p.version, 99);
	CHECK_INT(kit_runs(&k), 0);
	CHECK_INT(kit_check(&k), 0);
	stop = 0;
	r.progress = NULL;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	stop = 0;
	r.progress = stop_now;
	r.state = p.state;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), -EINTR);
	CHECK_INT(kit_runs(&k), 1);
	l = kit_read(&k, p.state, 0);
	CHECK_INT(l.head.node, 1);
	kit_log_free(&l);
	CHECK_INT(kit_check(&k), 0);
	epd_json_free(j);
	kit_end(&k);
}

/* A stop string's text is not shown; its tokens are kept. */
TEST(stop_strings)
{
	static char one[64];
	const char *const strings[] = { "never so", one };
	const struct epd_ref ref = kit_ref(1);
	struct epd_prefilled p;
	struct kit_said whole, said;
	struct epd_decode d;
	struct kit k;
	char shown[512];
	size_t n;

	kit_start(&k, "examples/tiny-vlm/model");
	for (k.alone = 0; k.alone < 2; k.alone++)
		CHECK_INT(kit_say(&k, 0, "What is this?", NULL, &p), 0);
	k.alone = 0;
	CHECK_INT(kit_decode(&k, &p.state, 1, 12, &whole), 0);
	n = strlen(whole.text);
	CHECK(n > 6);
	snprintf(one, sizeof one, "%.3s", whole.text + n - 5);
	snprintf(shown, sizeof shown, "%.*s",
	    (int)(strstr(whole.text, one) - whole.text), whole.text);
	d = greedy(&ref, 12, &said);
	d.ignore_eos = 1;
	d.stop = strings;
	d.nstop = 2;
	CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), 0);
	CHECK_INT(said.end.finish, EPD_FINISH_STOP);
	CHECK_STR(said.text, shown);
	CHECK(said.end.fresh > 0 && said.end.fresh <= 12);
	CHECK_INT(said.end.fresh, said.n);
	CHECK(sound(&k, 1));
	kit_end(&k);
}

/* What may be put onto what. */
TEST(kinds_of_turn)
{
	struct epd_json *j = kit_json("\"Hello.\"");
	struct epd_prefilled p;
	struct epd_prefill r = {
		.kind = EPD_PROMPT_CONTINUE, .workflow = "w1", .role = "user",
		.content = j, .text = epd_span_str(" and so on"),
	};
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN3);
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), EPD_EUSAGE);
	CHECK_INT(kit_messages(&k, 0, "[{\"role\":\"user\",\"content\":\"Hi\"}]",
	    NULL, 1, &p), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), EPD_EUSAGE);
	r.state = p.state;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), EPD_EUSAGE);
	r.kind = EPD_PROMPT_TURN;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	r.kind = EPD_PROMPT_CONTINUE;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK(sound(&k, p.state));
	/* Raw text begins a state of its own kind. */
	r.state = 0;
	r.kind = EPD_PROMPT_RAW;
	r.text = epd_span_str("x<|im_start|><|image_pad|>");
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), EPD_EUSAGE);
	r.text = epd_span_str("x<|im_start|><|video_pad|>");
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)),
	    EPD_EUNSUPPORTED);
	r.text = epd_span_str("x<|im_start|>y");
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(p.tokens, 3);
	l = kit_read(&k, p.state, 0);
	CHECK_INT(l.head.turn, EPD_TURN_IS_RAW);
	kit_log_free(&l);
	CHECK_INT(kit_say(&k, p.state, "And?", NULL, &p), EPD_EUSAGE);
	r.state = p.state;
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(p.version, 3);
	l = kit_read(&k, p.state, 0);
	CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
	kit_log_free(&l);
	CHECK_INT(kit_check(&k), 0);
	epd_json_free(j);
	kit_end(&k);
}

/* A prompt of one token has no page; nor has what follows until there is one. */
TEST(no_pages)
{
	struct epd_prefilled p;
	struct epd_prefill r = {
		.kind = EPD_PROMPT_RAW, .workflow = "w1", .role = "user",
		.text = epd_span_str("x"),
	};
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(p.tokens, 1);
	CHECK_INT(p.fresh, 0);
	CHECK_INT(kit_runs(&k), 0);
	l = kit_read(&k, p.state, 0);
	CHECK_INT(l.npages, 0);
	CHECK_INT(l.head.run, 0);
	kit_log_free(&l);
	CHECK_INT(kit_decode(&k, &p.state, 1, 0, &said), 0);
	CHECK_INT(said.end.version, 1);
	CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
	CHECK_INT(said.end.lost, 0);
	l = kit_read(&k, p.state, 0);
	CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
	kit_log_free(&l);
	kit_lose(&k, 0);
	r.state = p.state;
	CHECK_INT(epd_flow_prefill(k.se, &r, &p, kit_why(&k)), 0);
	CHECK_INT(p.lost, 1);
	CHECK_INT(p.reused, 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Each state of a batch ends for itself. */
TEST(a_batch_of_all_sorts)
{
	struct kit_said said[6], alone;
	struct epd_prefilled p;
	struct epd_ref ref[6];
	const struct epd_decode d = {
		.states = ref, .n = 6, .most = 4, .has_temp = 1,
		.has_penalty = 1, .sampler = { .top_p = 1, .penalty = 1 },
		.ignore_eos = 1, .token = kit_token, .end = kit_ended,
		.arg = said,
	};
	static const int want[] = {
		0, EPD_ENOSTATE, EPD_EUSAGE, EPD_ELOCKED, EPD_ENOTHING,
		EPD_EUSAGE,
	};
	char pid[32];
	struct kit k;

	kit_start(&k, QWEN2);
	k.alone = 1;
	for (int i = 0; i < 3; i++)
		CHECK_INT(kit_messages(&k, 0, "[{\"role\":\"user\",\"content\":"
		    "\"Hi\"}]", NULL, i == 1, &p), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 4, &alone), 0);
	ref[0] = ref[3] = kit_ref(1);	/* twice: one has it */
	ref[1] = kit_ref(99);
	ref[2] = kit_ref(2);		/* its turn is finished */
	ref[4] = kit_ref(1);
	strcpy(ref[4].workflow, "w99");
	ref[5] = kit_ref(3);		/* is at @2 */
	ref[5].version = 1;
	memset(said, 0, sizeof said);
	CHECK_INT(epd_flow_decode(k.se, &d, kit_why(&k)), EPD_ENOSTATE);
	CHECK(strstr(k.why.text, "w1/s99"));
	for (int i = 0; i < 6; i++) {
		CHECK_INT(said[i].ended, 1);
		CHECK_INT(said[i].end.rc, want[i]);
		CHECK(!want[i] == !*said[i].end.why.text);
		CHECK_INT(said[i].end.fresh, want[i] ? 0 : 4);
	}
	CHECK_INT(said[0].end.version, 2);
	snprintf(pid, sizeof pid, "process %d", (int)getpid());
	CHECK(strstr(said[3].end.why.text, pid));
	CHECK_INT(said[3].n, 0);
	for (int i = 0; i < 4; i++)
		CHECK(said[0].logprob[i] == alone.logprob[i]);
	CHECK_INT(kit_runs(&k), 5);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
