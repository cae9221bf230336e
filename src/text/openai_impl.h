/* openai_impl.h: what the openai*.c files share. Private to them.
 *
 * openai.c is the stream: bytes in, events out of text/sse.c, errors, end. openai_apply.c puts what
 * a chat or completions object says into the result, openai_responses.c the same for Responses,
 * openai_result.c keeps the result's memory. */
#ifndef TEXT_OPENAI_IMPL_H
#define TEXT_OPENAI_IMPL_H

#include "base/mem.h"
#include "text/openai_frame.h"
#include "text/openai_repeat.h"

enum openai_probe { OPENAI_PROBE_START, OPENAI_PROBE_EVENTS, OPENAI_PROBE_RAW };

struct openai_priv {
  struct openai_options options;
  struct frame frame;
  struct repeat repeat;
  bool in_full; /* for tests: never take openai_repeat.h's short way */
  enum openai_probe probe;
  struct buf raw;     /* the start of a body without framing */
  size_t used_bytes;  /* of options.max_bytes */
  size_t event_bytes; /* output of the event being applied */
  uint64_t feed;      /* counts calls: output events of one call but the last are coalesced */
  uint64_t output_feed;
  uint64_t stamp_ns;
  int64_t completion; /* the last running count of completion tokens */
  bool running;       /* every output event so far came with one */
  bool several;       /* a choice other than 0 was seen: running counts are ambiguous */
  bool ended;         /* [DONE], finished, or a whole reply: no more bytes are looked at */
  int failed;         /* ERR_LIMIT, for good */
};

/* openai_result.c */

void openai_result_init(struct openai_result *r, enum openai_api api);
void openai_result_free(struct openai_result *r);
/* As after init, with the memory of every buffer kept. */
void openai_result_reset(struct openai_result *r);
/* The choice or tool call with that number; made, in its sorted place, when there is none yet.
 * NULL when there would be more than FRAME_MAX_ENTRIES. The pointer dies with the next one made. */
struct openai_choice *openai_result_choice(struct openai_result *r, int64_t index);
struct openai_tool_call *openai_result_tool(struct openai_result *r, int64_t choice, int64_t index);
/* The first error is kept: it is the cause. `message` may be NULL, `type` may be absent. */
void openai_result_error(struct openai_result *r, enum openai_error_kind kind,
                         const struct scan_str *message, const struct scan_str *type, int64_t code);
/* The same with a plain text, trimmed. */
void openai_result_error_text(struct openai_result *r, enum openai_error_kind kind,
                              const char *text, size_t len);
/* The same from an error object. */
void openai_result_error_frame(struct openai_result *r, enum openai_error_kind kind,
                               const struct frame_error *e);

/* openai_apply.c: all return 0 or ERR_LIMIT, with no text: max_bytes or FRAME_MAX_ENTRIES. */

/* Appends a string that counts as output to a buffer of the result. */
NODISCARD int openai_add_output(struct openai_priv *priv, struct buf *to,
                                const struct scan_str *str);
NODISCARD int openai_add_visible(struct openai_stream *s, int64_t choice,
                                 const struct scan_str *text);
/* Replaces the finish reason by a + b; nothing when a is empty. */
NODISCARD int openai_set_finish(struct openai_stream *s, int64_t choice, const struct scan_str *a,
                                const struct scan_str *b);
/* A fragment of a tool call. `whole`: its arguments are all of them, and only a repetition when
 * some are there already. */
NODISCARD int openai_add_tool(struct openai_stream *s, int64_t choice,
                              const struct frame_tool *tool, bool whole);
/* Counts and stamps the event being applied as one with output; tokens −1 = unknown. Here, since a
 * dry run does it for every token of every stream. */
NODISCARD static inline int openai_mark_output(struct openai_stream *s, bool visible,
                                               int64_t tokens) {
  struct openai_priv *priv = s->priv;
  struct openai_result *r = &s->result;
  int64_t index = (int64_t)r->sse_events;
  if (r->output_events++ == 0) {
    r->ttft_event_index = index;
    r->first_token_ns = priv->stamp_ns;
  } else if (priv->output_feed == priv->feed) {
    r->n_coalesced++;
    if (r->n_outputs)
      r->outputs[r->n_outputs - 1].coalesced = true;
  }
  priv->output_feed = priv->feed;
  r->last_token_ns = priv->stamp_ns;
  if (visible && r->first_visible_event_index < 0) {
    r->first_visible_event_index = index;
    r->first_visible_ns = priv->stamp_ns;
  }
  if (!priv->options.keep_outputs)
    return 0;
  if (sizeof *r->outputs > priv->options.max_bytes - priv->used_bytes)
    return ERR_LIMIT;
  priv->used_bytes += sizeof *r->outputs;
  MEM_GROW(r->outputs, r->n_outputs, r->cap_outputs);
  r->outputs[r->n_outputs++] =
      (struct openai_output){.stamp_ns = priv->stamp_ns,
                             .tokens = tokens > INT32_MAX ? -1 : (int32_t)tokens,
                             .text_len = (uint32_t)priv->event_bytes};
  return 0;
}
/* Takes the usage of an event or reply, the latest one standing; notes a count that shrank. */
void openai_set_usage(struct openai_stream *s, const struct openai_usage *u);
/* What openai_apply_choices does for a chunk of one choice that holds a text and no more. */
NODISCARD int openai_apply_text(struct openai_stream *s, int64_t choice, bool visible,
                                const struct scan_str *text);
NODISCARD int openai_apply_choices(struct openai_stream *s, const struct frame *f,
                                   bool whole_reply);

/* openai.c: whether it is complete by now. */
void openai_settle(struct openai_result *r);

/* openai_responses.c: the same for one event, named by its type, and for a whole reply. */
NODISCARD int openai_apply_responses_event(struct openai_stream *s, const struct frame *f,
                                           const struct scan_str *type);
NODISCARD int openai_apply_responses_reply(struct openai_stream *s, const struct frame *f);

#endif
