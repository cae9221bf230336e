/* openai_repeat.h: events that repeat the last one but for their text.
 *
 * Nearly every event of a chat stream is the same JSON as the one before with another string in one
 * place. Once such an event was read in full, its bytes before and behind that string are kept; an
 * event that begins and ends with just these bytes and has a valid string between them means the
 * same with that string, whatever its keys are, and need not be walked again. Four times faster;
 * what does not match is read in full. Private to openai*.c. */
#ifndef TEXT_OPENAI_REPEAT_H
#define TEXT_OPENAI_REPEAT_H

#include "text/openai_frame.h"

struct repeat {
  struct buf bytes;  /* of the event that is repeated; empty = none */
  size_t head, tail; /* bytes before and behind its text, quotes included */
  int64_t choice;
  bool visible; /* content or text; else reasoning */
};

void repeat_init(struct repeat *r);
void repeat_free(struct repeat *r);
void repeat_reset(struct repeat *r);
/* Keeps the event that was just read into f when all it says is one text for one choice. */
void repeat_learn(struct repeat *r, const struct frame *f);
/* Whether this event is the kept one with another text, which is not empty; *text views it. */
bool repeat_match(const struct repeat *r, const char *data, size_t len, struct scan_str *text);

#endif
