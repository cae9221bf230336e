/* openai_apply.c: what a chat or completions object says goes into the result here: text,
 * reasoning, tool calls, token counts, stamps. Bounded by options.max_bytes and FRAME_MAX_ENTRIES.
 */
#include "text/openai_impl.h"

#include <string.h>

/* Appends a string to the result, within max_bytes. */
static int add_string(struct openai_priv *priv, struct buf *to, const struct scan_str *str) {
  size_t before = to->len;
  int rc = scan_unescape(str, to);
  if (rc)
    return rc;
  size_t added = to->len - before;
  if (added > priv->options.max_bytes - priv->used_bytes) {
    to->len = before;
    to->data[before] = '\0';
    return ERR_LIMIT;
  }
  priv->used_bytes += added;
  return 0;
}

int openai_add_output(struct openai_priv *priv, struct buf *to, const struct scan_str *str) {
  size_t before = to->len;
  int rc = add_string(priv, to, str);
  priv->event_bytes += to->len - before;
  return rc;
}

int openai_add_visible(struct openai_stream *s, int64_t choice, const struct scan_str *text) {
  if (!text->len)
    return 0;
  struct openai_choice *c = openai_result_choice(&s->result, choice);
  return c ? openai_add_output(s->priv, &c->text, text) : ERR_LIMIT;
}

int openai_set_finish(struct openai_stream *s, int64_t choice, const struct scan_str *a,
                      const struct scan_str *b) {
  if (!a->len)
    return 0;
  struct openai_choice *c = openai_result_choice(&s->result, choice);
  if (!c)
    return ERR_LIMIT;
  s->priv->used_bytes -= c->finish_reason.len;
  buf_reset(&c->finish_reason);
  int rc = add_string(s->priv, &c->finish_reason, a);
  return rc || !b->len ? rc : add_string(s->priv, &c->finish_reason, b);
}

/* Name and arguments come in fragments; some servers repeat the whole name with each of them. */
int openai_add_tool(struct openai_stream *s, int64_t choice, const struct frame_tool *tool,
                    bool whole) {
  if (!tool->id.len && !tool->name.len && !tool->arguments.len)
    return 0;
  struct openai_tool_call *t = openai_result_tool(&s->result, choice, tool->index);
  if (!t)
    return ERR_LIMIT;
  int rc = 0;
  if (tool->id.len && !t->id.len)
    rc = add_string(s->priv, &t->id, &tool->id);
  if (rc == 0 && tool->name.len && !(t->name.len && scan_equals(&tool->name, t->name.data)))
    rc = openai_add_output(s->priv, &t->name, &tool->name);
  if (rc == 0 && tool->arguments.len && !(whole && t->arguments.len))
    rc = openai_add_output(s->priv, &t->arguments, &tool->arguments);
  return rc;
}

void openai_set_usage(struct openai_stream *s, const struct openai_usage *u) {
  struct openai_result *r = &s->result;
  bool shrank = r->usage.present && u->completion != OPENAI_ABSENT &&
                u->completion < r->usage.completion && !s->priv->several;
  r->usage_odd |= u->odd || shrank;
  r->usage = *u;
}

/* Tokens of an event by the running count in its usage, −1 when that cannot be told. A count that
 * is there only at times is a total, not a running one; and one that says 0 beside output (Ollama)
 * does not count yet. */
static int64_t running_tokens(struct openai_priv *priv, const struct openai_usage *u, bool output) {
  int64_t now = u->present ? u->completion : OPENAI_ABSENT, tokens = -1;
  bool counts = now != OPENAI_ABSENT && !(output && now == 0);
  if (counts && priv->running && !priv->several && now >= priv->completion)
    tokens = now - priv->completion;
  if (counts) {
    priv->running = true;
    priv->completion = now;
  } else if (output) {
    priv->running = false;
  }
  return tokens;
}

/* What the choices of one object held. */
struct seen {
  bool visible, output;
  int64_t token_ids;
};

static int apply_choice(struct openai_stream *s, const struct frame_choice *c,
                        const struct frame_tool *tools, struct seen *seen) {
  static const struct scan_str none = {0};
  /* Servers that went from one name to the other send both with the same text. */
  const struct scan_str *reasoning = c->reasoning.len ? &c->reasoning : &c->reasoning_content;
  seen->visible |= c->content.len || c->text.len;
  seen->output |= seen->visible || reasoning->len;
  int rc = openai_add_visible(s, c->index, &c->content);
  if (rc == 0)
    rc = openai_add_visible(s, c->index, &c->text);
  if (rc == 0 && reasoning->len)
    rc = openai_add_output(s->priv, &s->result.reasoning, reasoning);
  for (size_t i = 0; rc == 0 && i < c->n_tools; i++) {
    seen->output |= tools[i].name.len || tools[i].arguments.len;
    rc = openai_add_tool(s, c->index, &tools[i], false);
  }
  if (rc == 0)
    rc = openai_set_finish(s, c->index, &c->finish, &none);
  if (c->token_ids != OPENAI_ABSENT)
    seen->token_ids = (seen->token_ids == OPENAI_ABSENT ? 0 : seen->token_ids) + c->token_ids;
  s->priv->several |= c->index != 0;
  return rc;
}

int openai_apply_text(struct openai_stream *s, int64_t choice, bool visible,
                      const struct scan_str *text) {
  int rc = visible ? openai_add_visible(s, choice, text)
                   : openai_add_output(s->priv, &s->result.reasoning, text);
  if (rc)
    return rc;
  s->priv->running = false; /* output without a count */
  return openai_mark_output(s, visible, -1);
}

int openai_apply_choices(struct openai_stream *s, const struct frame *f, bool whole_reply) {
  struct openai_result *r = &s->result;
  struct seen seen = {.token_ids = OPENAI_ABSENT};
  for (size_t i = 0; i < f->n_choices; i++) {
    const struct frame_choice *c = &f->choices[i];
    int rc = apply_choice(s, c, c->n_tools ? f->tools + c->first_tool : NULL, &seen);
    if (rc)
      return rc;
  }
  seen.output |= seen.token_ids > 0;
  int64_t tokens = -1;
  if (whole_reply)
    tokens = f->top.usage.present && f->top.usage.completion >= 0 ? f->top.usage.completion : -1;
  else if (f->n_choices)
    tokens = running_tokens(s->priv, &f->top.usage, seen.output);
  if (seen.token_ids != OPENAI_ABSENT) {
    tokens = seen.token_ids;
    r->token_ids_total = seen.token_ids + (r->token_ids_total < 0 ? 0 : r->token_ids_total);
  }
  return seen.output ? openai_mark_output(s, seen.visible, tokens) : 0;
}
