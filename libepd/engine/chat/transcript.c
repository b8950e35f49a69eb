/*
 * transcript.c - turns, and what is outside them, one after the other.
 *
 * 1. A text is let out as it is known: nothing of it depends on later ids, but
 *    what they decide is held back until they have.
 * 2. A message needs to know before its content whether that has pictures, so
 *    its end is looked for first.  It is begun by the first thing in it, or by
 *    its end.
 * 3. Without out bytes are only counted.
 */
#include "engine/chat/transcript.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/token/text.h"

enum {
	PIECE = 16,		/* bytes of broken UTF-8 looked at together, */
	GROWN = 10 * PIECE	/* which come to no more than this */
};

/* Special tokens; one that the tokenizer lacks is no id. */
struct marks {
	int32_t start, end, vision, vision_end, image, video;
};

struct writer {
	const struct epd_tokenizer *t;
	const int32_t *id;
	size_t n;
	struct marks is;
	struct epd_buf *out;	/* NULL: counted only */
	uint64_t bytes;
	struct epd_utf8 utf8;
	int json, images, messages;
	char last;		/* byte of the text */
	/* of the turn, or of what is outside */
	size_t role, role_end;	/* ids of its name; 0: outside */
	size_t role_part;	/* bytes of id[role_end] that are in it too */
	int begun, parts, in_text;
};

static void
put(struct writer *w, const void *p, size_t n)
{
	if (!n)
		return;
	w->bytes += n;
	w->last = ((const char *)p)[n - 1];
	if (w->out)
		epd_buf_put(w->out, p, n);
}

static void
put_str(struct writer *w, const char *s)
{
	put(w, s, strlen(s));
}

/* In a JSON string; p is well-formed. */
static void
put_escaped(struct writer *w, const uint8_t *p, size_t n)
{
	static const char named[] = "\b\t\n\f\r\"\\", letter[] = "btnfr\"\\";
	size_t from = 0;

	for (size_t i = 0; i < n; i++) {
		const char *at;
		char e[8] = { '\\' };

		if (p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
			continue;
		put(w, p + from, i - from);
		from = i + 1;
		at = p[i] ? strchr(named, p[i]) : NULL;
		if (at)
			e[1] = letter[at - named];
		else
			snprintf(e, sizeof e, "\\u%04x", p[i]);
		put(w, e, at ? 2 : 6);
	}
	put(w, p + from, n - from);
}

/* ---- characters ---- */

typedef void put_fn(struct writer *w, const uint8_t *p, size_t n);

/* Most tokens are: a loop of our own is cheaper than asking epd_utf8_valid. */
static int
is_ascii(const uint8_t *p, size_t n)
{
	uint8_t all = 0;

	for (size_t i = 0; i < n; i++)
		all |= p[i];
	return all < 0x80;
}

/* Whole characters to fn; what is broken, or not whole yet, by way of utf8. */
static void
characters(struct writer *w, struct epd_span s, put_fn *fn)
{
	const uint8_t *p = s.p;

	if (!w->utf8.n && (is_ascii(p, s.n) || epd_utf8_valid(s))) {
		fn(w, p, s.n);
		return;
	}
	for (size_t i = 0, k; i < s.n; i += k) {
		uint8_t room[GROWN];
		struct epd_buf b = { .p = room, .cap = sizeof room };

		k = s.n - i < PIECE ? s.n - i : PIECE;
		epd_utf8_put(&w->utf8, epd_span(p + i, k), &b);
		if (b.n)
			fn(w, room, b.n);
	}
}

/* Half a character that nothing will complete. */
static void
characters_end(struct writer *w, put_fn *fn)
{
	uint8_t room[GROWN];
	struct epd_buf b = { .p = room, .cap = sizeof room };

	epd_utf8_end(&w->utf8, &b);
	if (b.n)
		fn(w, room, b.n);
}

/* ---- a turn's head and end ---- */

static void
put_role(struct writer *w, const uint8_t *p, size_t n)
{
	if (w->json)
		put_escaped(w, p, n);
	else
		put(w, p, n);
}

/* An empty line between what is there and what comes. */
static void
separate(struct writer *w)
{
	if (w->bytes && w->last != '\n')
		put(w, "\n", 1);
	if (w->bytes)
		put(w, "\n", 1);
}

/* Let the role's name out; half a character stays held if the ids end in it. */
static void
name_role(struct writer *w)
{
	for (size_t i = w->role; i < w->role_end; i++) {
		struct epd_span s = epd_tokenizer_bytes(w->t, w->id[i]);

		if (s.n)
			characters(w, s, put_role);
	}
	if (w->role_part)
		characters(w, epd_span(epd_tokenizer_bytes(w->t,
		    w->id[w->role_end]).p, w->role_part), put_role);
}

static void
begin(struct writer *w)
{
	w->begun = 1;
	if (!w->json) {
		separate(w);
		return;
	}
	put_str(w, w->messages++ ? ",\n{\"role\": \"" : "[\n{\"role\": \"");
	if (w->role) {
		const struct epd_utf8 held = w->utf8;

		/* The content may be half way in a character by now. */
		w->utf8.n = 0;
		name_role(w);
		characters_end(w, put_role);
		w->utf8 = held;
	} else {
		put_str(w, "raw");
	}
	put_str(w, w->parts ? "\", \"content\": [" : "\", \"content\": \"");
}

static void
end_text(struct writer *w)
{
	if (w->in_text)
		put_str(w, "\"}");
	w->in_text = 0;
}

/* The comma between two parts: the first comes behind a bracket. */
static void
next_part(struct writer *w)
{
	end_text(w);
	if (w->last == '}')
		put_str(w, ", ");
}

static void
put_content(struct writer *w, const uint8_t *p, size_t n)
{
	if (!w->begun)
		begin(w);
	if (!w->json) {
		put(w, p, n);
		return;
	}
	if (w->parts && !w->in_text) {
		next_part(w);
		put_str(w, "{\"type\": \"text\", \"text\": \"");
		w->in_text = 1;
	}
	put_escaped(w, p, n);
}

/* closed: by its own mark; else by the next turn's beginning. */
static void
end(struct writer *w, int closed)
{
	characters_end(w, put_content);
	if (w->role && !w->begun)
		begin(w);
	if (!w->json && closed)
		put(w, "\n", 1);
}

/* What is there of a message is whole, though its turn may go on. */
static void
end_message(struct writer *w)
{
	if (!w->json || !w->begun)
		return;
	end_text(w);
	put_str(w, w->parts ? "]}" : "\"}");
}

/* ---- content ---- */

static int
is_pad(const struct writer *w, size_t i)
{
	return w->id[i] == w->is.image || w->id[i] == w->is.video;
}

static int
is_edge(const struct writer *w, size_t i)
{
	return w->id[i] == w->is.start || (w->role && w->id[i] == w->is.end);
}

static void
put_item(struct writer *w, int32_t pad)
{
	char s[96];

	characters_end(w, put_content);
	if (!w->begun)
		begin(w);
	if (w->json)
		next_part(w);
	if (pad == w->is.video)
		snprintf(s, sizeof s, w->json ? "{\"type\": \"video\"}" :
		    "[video]");
	else
		snprintf(s, sizeof s, w->json ? "{\"type\": \"image\", "
		    "\"image\": \"features/%d/image.png\"}" : "[image %d]",
		    w->images++);
	put_str(w, s);
}

/* A picture or a video that begins at i, with its marks; how many ids it is. */
static size_t
item(struct writer *w, size_t i)
{
	const int marked = w->id[i] == w->is.vision;
	size_t at = i + (size_t)marked, to = at;

	while (to < w->n && w->id[to] == w->id[at])
		to++;
	put_item(w, w->id[at]);
	if (marked && to < w->n && w->id[to] == w->is.vision_end)
		to++;
	return to - i;
}

/* Ids from i on, of whose first so many bytes are done; to the edge. */
static size_t
content(struct writer *w, size_t i, size_t done)
{
	for (; i < w->n && !is_edge(w, i); i++, done = 0) {
		struct epd_span s;

		if (w->id[i] == w->is.vision) {
			if (i + 1 == w->n)
				return w->n;
			if (is_pad(w, i + 1)) {
				i += item(w, i) - 1;
				continue;
			}
		} else if (is_pad(w, i)) {
			i += item(w, i) - 1;
			continue;
		}
		s = epd_tokenizer_bytes(w->t, w->id[i]);
		if (s.n > done)
			characters(w, epd_span((const char *)s.p + done,
			    s.n - done), put_content);
	}
	return i;
}

/* Whether there are pictures from i to the edge; texts need not know. */
static int
has_parts(const struct writer *w, size_t i)
{
	for (; w->json && i < w->n && !is_edge(w, i); i++)
		if (is_pad(w, i))
			return 1;
	return 0;
}

/* The first line of a turn; whether it is whole, and where the rest begins. */
static int
find_role(struct writer *w, size_t i, size_t *rest)
{
	const char *p, *nl = NULL;
	struct epd_span s;

	w->role = i;
	w->role_part = 0;
	for (; i < w->n && !is_edge(w, i); i++) {
		s = epd_tokenizer_bytes(w->t, w->id[i]);
		p = s.p;
		if (s.n && (nl = memchr(p, '\n', s.n))) {
			w->role_part = (size_t)(nl - p);
			break;
		}
	}
	w->role_end = i;
	*rest = i;
	return nl != NULL;
}

static size_t
turn(struct writer *w, size_t i)
{
	const int whole = find_role(w, i, &i);
	size_t done = w->role_part + 1;

	w->begun = w->in_text = 0;
	w->parts = whole && has_parts(w, i);
	if (!w->json) {
		begin(w);
		name_role(w);
		if (whole || i < w->n) {
			characters_end(w, put_role);
			put_str(w, ": ");
		}
	}
	if (whole)
		i = content(w, i, done);
	if (i < w->n)
		end(w, w->id[i] == w->is.end);
	end_message(w);
	return i < w->n && w->id[i] == w->is.end ? i + 1 : i;
}

/* The line break behind a turn, if it is there, is not shown. */
static size_t
outside(struct writer *w, size_t i)
{
	struct epd_span s = epd_tokenizer_bytes(w->t, w->id[i]);
	const int broken = i && s.n && *(const char *)s.p == '\n' &&
	    w->id[i - 1] == w->is.end && w->role;

	w->role = 0;
	w->begun = w->in_text = 0;
	w->parts = has_parts(w, i);
	i = content(w, i, (size_t)broken);
	if (i < w->n)
		end(w, 0);
	end_message(w);
	return i;
}

static int32_t
mark(const struct epd_tokenizer *t, const char *text)
{
	int32_t id = epd_tokenizer_special(t, text);

	return id < 0 ? INT32_MIN : id;
}

static void
walk(struct writer *w)
{
	const struct epd_tokenizer *t = w->t;

	w->is = (struct marks){
		.start = mark(t, "<|im_start|>"),
		.end = mark(t, "<|im_end|>"),
		.vision = mark(t, "<|vision_start|>"),
		.vision_end = mark(t, "<|vision_end|>"),
		.image = mark(t, "<|image_pad|>"),
		.video = mark(t, "<|video_pad|>"),
	};
	for (size_t i = 0; i < w->n; )
		i = w->id[i] == w->is.start ? turn(w, i + 1) : outside(w, i);
	if (w->json)
		put_str(w, w->messages ? "\n]\n" : "[\n]\n");
}

int
epd_transcript(struct epd_buf *out, const struct epd_tokenizer *t,
    const int32_t *id, size_t n, enum epd_transcript_kind kind)
{
	const size_t before = out->n;
	struct writer w = {
		.t = t, .id = id, .n = n, .out = out,
		.json = kind == EPD_TRANSCRIPT_MESSAGES,
	};

	walk(&w);
	if (!out->failed)
		return 0;
	out->n = before;
	return -ENOMEM;
}

uint64_t
epd_transcript_size(const struct epd_tokenizer *t, const int32_t *id, size_t n,
    enum epd_transcript_kind kind)
{
	struct writer w = {
		.t = t, .id = id, .n = n,
		.json = kind == EPD_TRANSCRIPT_MESSAGES,
	};

	walk(&w);
	return w.bytes;
}
