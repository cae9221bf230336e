/* harmony.h: prompts for gpt-oss in the Harmony format, as openai-harmony 0.0.8 renders them.
 *
 * A conversation becomes a list of segments: special tokens, and pieces of ordinary text that are
 * tokenized one by one, so that a special token's text inside a message stays text. The text of the
 * prompt is the segments one behind the other; the ids need the o200k_harmony tokenizer. Source:
 * the rows of shared/fixtures/harmony; shared/facts/tokenizers.md section 6. The Hugging Face
 * template of gpt-oss differs in places (there too) and is rendered like any other template. */
#ifndef TEXT_HARMONY_H
#define TEXT_HARMONY_H

#include "base/buf.h"
#include "text/tokens.h"
#include "text/value.h"

enum harmony_mode {
  HARMONY_COMPLETION,   /* the conversation, then the beginning of the assistant's answer */
  HARMONY_CONVERSATION, /* the conversation alone */
  HARMONY_TRAINING      /* the same; a final answer at its end ends with <|return|> */
};

struct harmony_options {
  enum harmony_mode mode;
  /* Leave analysis before the first final answer out when the last answer is a final one. */
  bool auto_drop_analysis;
};
#define HARMONY_DEFAULTS                                                                           \
  ((struct harmony_options){.mode = HARMONY_COMPLETION, .auto_drop_analysis = true})

struct harmony_segment {
  bool special;      /* one special token */
  size_t start, len; /* in the prompt's text */
};

struct harmony_prompt {
  struct buf text;
  struct harmony_segment *segments;
  size_t n, cap;
};

void harmony_init(struct harmony_prompt *p);
void harmony_free(struct harmony_prompt *p);

/* Renders a list of messages in Harmony's own JSON form: role, content (a text, or a list of parts
 * of type text, system_content, developer_content), and optional name, recipient, channel,
 * content_type. `p` is initialised and loses what it held. ERR_INVALID names the message and what
 * is wrong. */
NODISCARD int harmony_render(struct harmony_prompt *p, const struct value *messages,
                             const struct harmony_options *options, struct err *err);

/* Appends the prompt's ids; `e` is the thread's encoder of an o200k_harmony tokenizer. ERR_INVALID:
 * it does not know a special token of the prompt, or not as one token: another tokenizer. */
NODISCARD int harmony_encode(const struct harmony_prompt *p, struct tokens_encoder *e,
                             struct tokens_list *out, struct err *err);

/* Whether `e` is of a vocabulary that has Harmony's special tokens: gpt-oss's. */
bool harmony_knows(struct tokens_encoder *e);

/* ---- chat messages ---- */

struct harmony_chat {
  const struct value *tools;     /* as in a chat request; NULL or empty: none */
  const char *reasoning_effort;  /* "low", "medium", "high"; NULL: medium */
  const char *date;              /* "2026-08-01": the system message's date; NULL: none is said */
  const char *model_identity;    /* NULL: Harmony's own */
  const char *call_content_type; /* of tool calls; NULL: "json" */
};

/* Chat messages as vLLM (August 2026) turns them into a Harmony conversation:
 * - a system message with the defaults; then, when the first chat message is of the system or the
 *   developer or there are tools, a developer message with its text as instructions and the tools
 * as namespace `functions`;
 * - user messages, and system and developer messages further down, as they are;
 * - an assistant's reasoning (`reasoning`, else `reasoning_content`) goes to the analysis channel,
 * its content to final; with tool calls its content to commentary, then the reasoning, then each
 * call to functions.NAME on commentary;
 * - a tool's answer is a message of functions.NAME (found by tool_call_id, else its `name`) to the
 *   assistant on commentary;
 * - analysis before the last final answer is left out.
 * *out becomes a list for harmony_render (null on error). ERR_INVALID names message or tool. */
NODISCARD int harmony_from_chat(const struct value *messages, const struct harmony_chat *chat,
                                struct value *out, struct err *err);

/* ---- answers ---- */

/* What a model said behind "<|start|>assistant", special tokens written out: an object of
 * - reasoning: the analysis; content: the final answer, and commentary to nobody (a preamble);
 *   several of one kind are joined by line ends, and null stands for none;
 * - tool_calls: {name, arguments} for each message to a recipient; "functions." is left out.
 * The last message may be cut off anywhere; text in front of the first header (no <|channel|>, no
 * <|message|>) is content. ERR_INVALID: a header that is none. (harmony_parse.c) */
NODISCARD int harmony_parse(const char *text, size_t len, struct value *out, struct err *err);

/* Where the answer begins in what a model said: the first byte of what harmony_parse calls content,
 * or of a text that it refuses. False: there is none, only analysis and calls. */
bool harmony_answer_at(const char *text, size_t len, size_t *at);

/* ---- inside ---- */

/* Appends the section on tools: `namespaces` is an object of {name, description, tools}. */
NODISCARD int harmony_put_tools(struct buf *b, const struct value *namespaces, const char *where,
                                struct err *err);

#endif
