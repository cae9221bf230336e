/* openai_repeat.c: the short way for events that differ only in their text; see openai_repeat.h. */
#include "text/openai_repeat.h"

#include "text/json_scan.h"

#include <string.h>

#define KEPT_MAX ((size_t)2048) /* longer events are rare, and comparing them saves less */

void repeat_init(struct repeat *r) {
  *r = (struct repeat){0};
  buf_init(&r->bytes, 2 * KEPT_MAX);
}

void repeat_free(struct repeat *r) {
  buf_free(&r->bytes);
}

void repeat_reset(struct repeat *r) {
  buf_reset(&r->bytes);
}

/* The one string of the choice; NULL when it says more than that, or nothing. */
static const struct scan_str *only_text(const struct frame_choice *c) {
  const struct scan_str *texts[] = {&c->content, &c->text, &c->reasoning, &c->reasoning_content};
  const struct scan_str *only = NULL;
  if (c->n_tools || c->finish.len || c->token_ids != OPENAI_ABSENT)
    return NULL;
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    if (!texts[i]->len)
      continue;
    if (only)
      return NULL;
    only = texts[i];
  }
  return only;
}

void repeat_learn(struct repeat *r, const struct frame *f) {
  if (f->n_choices != 1 || f->whole.len > KEPT_MAX || f->top.usage.present || f->top.error.there ||
      f->type.there || scan_equals(&f->object, "error"))
    return;
  const struct frame_choice *c = &f->choices[0];
  const struct scan_str *text = only_text(c);
  if (!text)
    return;
  buf_reset(&r->bytes);
  buf_put(&r->bytes, f->whole.p, f->whole.len);
  r->head = (size_t)(text->p - f->whole.p);
  r->tail = f->whole.len - r->head - text->len;
  r->choice = c->index;
  r->visible = text == &c->content || text == &c->text;
}

bool repeat_match(const struct repeat *r, const char *data, size_t len, struct scan_str *text) {
  size_t around = r->head + r->tail;
  if (!r->bytes.len || len <= around || memcmp(data, r->bytes.data, r->head) != 0 ||
      memcmp(data + len - r->tail, r->bytes.data + r->bytes.len - r->tail, r->tail) != 0)
    return false;
  const char *p = data + r->head, *end = data + len - r->tail;
  *text = (struct scan_str){.p = p, .len = len - around, .there = true};
  while ((p = json_string_run(p, end)) < end) {
    uint32_t cp;
    if (*p != '\\')
      return false;
    enum json_escape got = json_scan_escape(&p, end, &cp);
    if (got == JSON_ESCAPE_BAD || got == JSON_ESCAPE_CUT)
      return false;
    text->escaped = true;
  }
  return true;
}
