/* openai_frame.h: what one JSON object of a response says, as views of its bytes.
 *
 * The same walk serves a stream's events and whole replies of chat, completions and Responses: all
 * fields of interest are taken, the caller decides by API which count. Nothing is applied before
 * the whole text has been checked, so a broken event leaves no trace in the result. Private to
 * openai*.c. */
#ifndef TEXT_OPENAI_FRAME_H
#define TEXT_OPENAI_FRAME_H

#include "text/openai.h"
#include "text/openai_json.h"

/* Choices, tool calls, items or parts in one event; more is an attack on our memory. */
#define FRAME_MAX_ENTRIES 4096

struct frame_tool {
  int64_t index; /* its place in the array when the server gave none */
  struct scan_str id, name, arguments;
};

struct frame_choice {
  int64_t index;
  struct scan_str text, content, reasoning, reasoning_content, finish;
  int64_t token_ids;          /* how many; OPENAI_ABSENT without the array */
  size_t first_tool, n_tools; /* of frame.tools */
};

/* An item of a Responses output. */
struct frame_item {
  int64_t index;
  struct scan_str type, id, call_id, name, arguments;
};

/* A text part of an item, in a whole reply. */
struct frame_part {
  bool visible; /* else reasoning */
  struct scan_str text;
};

struct frame_error {
  bool there;
  struct scan_str message, type, code_text; /* code_text: a code that is a word */
  int64_t code;
  struct scan_str raw; /* the whole value, for want of a message */
};

/* The fields that a whole reply and the `response` of an event share. */
struct frame_reply {
  struct scan_str id, status, reason;
  struct openai_usage usage;
  struct frame_error error;
};

/* Every string, and everything behind a `there` or `present`, means something only when that is
 * true; `response` only with has_response. */
struct frame {
  struct scan_str whole; /* the text itself */
  struct scan_str object, type, message, delta, arguments;
  struct scan_str code_text;
  int64_t code, output_index;
  struct frame_reply top, response;
  bool has_response;
  bool cut;  /* not JSON, because it ends too early */
  bool full; /* more than FRAME_MAX_ENTRIES of something: given up */
  struct frame_choice *choices;
  struct frame_tool *tools;
  struct frame_item *items;
  struct frame_part *parts;
  size_t n_choices, n_tools, n_items, n_parts;
  size_t cap_choices, cap_tools, cap_items, cap_parts;
  struct buf key; /* see scan_init */
};

void frame_init(struct frame *f);
void frame_free(struct frame *f);
/* Reads a whole JSON text; false when it is not one (then only cut, full, and what the error fields
 * hold, mean anything). The views live as long as `text`. `whole_reply`: take the `output` array
 * too, which events only repeat. */
bool frame_read(struct frame *f, const char *text, size_t len, bool whole_reply);

#endif
