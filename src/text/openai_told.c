/* openai_told.c: events of a stream that a dry run does not make bytes of; see openai.h. What each
 * counts as is decided where it is for bytes: openai_apply.c. */
#include <string.h>

#include "text/openai_impl.h"

#define ROOM_FOR_FINISH 64 /* a reason is a word */

bool openai_stream_takes(const struct openai_stream *s, size_t text, size_t events) {
  const struct openai_priv *p = s->priv;
  enum openai_api api = s->result.api;
  if ((api != OPENAI_CHAT && api != OPENAI_COMPLETIONS) || p->failed || p->ended ||
      p->probe == OPENAI_PROBE_RAW)
    return false;
  size_t room = p->options.max_bytes - p->used_bytes, each = sizeof(struct openai_output);
  return events < room / each && text < room - events * each &&
         room - events * each - text > ROOM_FOR_FINISH;
}

/* One more event has been read. */
static void begin_event(struct openai_stream *s, uint64_t stamp_ns) {
  struct openai_priv *p = s->priv;
  struct openai_result *r = &s->result;
  if (!r->any_bytes)
    r->first_byte_ns = stamp_ns;
  r->any_bytes = true;
  r->end_ns = p->stamp_ns = stamp_ns;
  p->probe = OPENAI_PROBE_EVENTS;
  p->feed++;
}

/* The texts of all pieces, at once where they are of one kind. */
static int add_texts(struct openai_stream *s, const struct openai_told *t) {
  const char *at = t->text;
  for (size_t i = 0, n; i < t->n_pieces; i = n) {
    struct scan_str thought = {.p = at, .len = t->pieces[i].reasoning, .there = true};
    for (n = i + 1; n < t->n_pieces && !t->pieces[n - 1].visible; n++)
      thought.len += t->pieces[n].reasoning;
    struct scan_str text = {.p = at + thought.len, .len = t->pieces[n - 1].visible, .there = true};
    for (; n < t->n_pieces && !t->pieces[n].reasoning; n++)
      text.len += t->pieces[n].visible;
    at = text.p + text.len;
    int rc = thought.len ? openai_add_output(s->priv, &s->result.reasoning, &thought) : 0;
    if (!rc)
      rc = openai_add_visible(s, 0, &text);
    if (rc)
      return rc;
  }
  return 0;
}

static int mark_pieces(struct openai_stream *s, const struct openai_told *t) {
  struct openai_priv *p = s->priv;
  struct openai_result *r = &s->result;
  int rc = 0;
  if (p->options.keep_outputs && r->n_outputs + t->n_pieces > r->cap_outputs) {
    r->cap_outputs = r->n_outputs + t->n_pieces;
    r->outputs = mem_resize(r->outputs, r->cap_outputs, sizeof *r->outputs);
  }
  for (size_t i = 0; i < t->n_pieces && !rc; i++) {
    const struct openai_piece *piece = &t->pieces[i];
    begin_event(s, piece->stamp_ns);
    p->event_bytes = (size_t)piece->reasoning + piece->visible;
    if (p->event_bytes) {
      p->running = false; /* output without a count */
      rc = openai_mark_output(s, piece->visible > 0, -1);
    }
    r->sse_events++;
  }
  return rc;
}

void openai_stream_tell(struct openai_stream *s, const struct openai_told *t) {
  struct openai_result *r = &s->result;
  uint64_t first_ns = t->pieces[0].stamp_ns, last_ns = t->pieces[t->n_pieces - 1].stamp_ns;
  if (t->role) {
    begin_event(s, first_ns);
    r->sse_events++;
  }
  int rc = add_texts(s, t);
  if (!rc)
    rc = mark_pieces(s, t);
  if (!rc && t->finish) {
    const struct scan_str reason = {.p = t->finish, .len = strlen(t->finish), .there = true};
    rc = openai_set_finish(s, 0, &reason, &(struct scan_str){0});
  }
  assert(rc == 0); /* there is room */
  (void)rc;
  if (t->usage) {
    begin_event(s, last_ns);
    openai_set_usage(s, t->usage);
    r->sse_events++;
  }
  if (t->done) {
    begin_event(s, last_ns);
    r->sse_events++;
    r->done_marker = true;
    s->priv->ended = true;
  }
  openai_settle(r);
}
