/* reply_faces.c: chat and completions as SGLang, TGI, llama.cpp, TensorRT-LLM and Ollama write them
 * (facts/interfaces.md §9, fixtures/sse 09 to 15).
 *
 * One set of functions, since they differ in framing, key order and in what comes when: which event
 * has the role, where the finish reason and usage stand, which nulls are written. A function call
 * comes whole, in one event. */
#include <string.h>

#include "sim/face.h"
#include "text/json.h"

static enum face_kind kind_of(const struct reply *r) {
  return (enum face_kind)r->o.form->kind;
}

static bool is_chat(const struct reply *r) {
  return r->request->api == GEN_CHAT;
}

/* ---- framing ---- */

static void begin_data(const struct reply *r, struct events *ev) {
  buf_puts(&ev->bytes, kind_of(r) == FACE_TGI ? "data:" : "data: ");
}

static void end_data(enum truth_kind kind, struct events *ev) {
  buf_puts(&ev->bytes, "\n\n");
  events_end(ev, kind);
}

static const char *object_of(const struct reply *r) {
  return !is_chat(r)          ? "text_completion"
         : r->request->stream ? "chat.completion.chunk"
                              : "chat.completion";
}

/* The keys before `choices`, and those behind it where the server writes them there. */
static void put_front(const struct reply *r, struct buf *out) {
  enum face_kind k = kind_of(r);
  buf_putc(out, '{');
  if (k == FACE_LLAMACPP)
    return;
  if (k == FACE_TGI)
    buf_printf(out, "\"object\":\"%s\",", object_of(r));
  reply_put_string("id", r->o.id, out);
  if (k != FACE_TGI)
    buf_printf(out, ",\"object\":\"%s\"", object_of(r));
  buf_printf(out, ",\"created\":%llu,", (unsigned long long)r->o.created_s);
  if (k == FACE_TGI && !is_chat(r))
    return;
  reply_put_string("model", r->o.model, out);
  if (k == FACE_TGI)
    buf_puts(out, ",\"system_fingerprint\":\"3.0.1-native\"");
  if (k == FACE_OLLAMA)
    buf_puts(out, ",\"system_fingerprint\":\"fp_ollama\"");
  buf_putc(out, ',');
}

static void put_back(const struct reply *r, bool usage, struct buf *out) {
  enum face_kind k = kind_of(r);
  if (k == FACE_LLAMACPP) {
    buf_printf(out, ",\"created\":%llu,", (unsigned long long)r->o.created_s);
    reply_put_string("id", r->o.id, out);
    buf_putc(out, ',');
    reply_put_string("model", r->o.model, out);
    buf_printf(out, "%s,\"object\":\"%s\"", usage ? "" : ",\"system_fingerprint\":\"b9864\"",
               object_of(r));
  } else if (k == FACE_TGI && !is_chat(r)) {
    buf_putc(out, ',');
    reply_put_string("model", r->o.model, out);
    buf_puts(out, ",\"system_fingerprint\":\"3.0.1-native\"");
  }
}

/* ---- usage ---- */

static void put_usage(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  uint32_t n = genrequest_prompt_tokens(r->request), done = f->completion;
  enum face_kind k = kind_of(r);
  if (k == FACE_LLAMACPP)
    buf_printf(out, "{\"completion_tokens\":%u,\"prompt_tokens\":%u,\"total_tokens\":%u", done, n,
               n + done);
  else if (k == FACE_TGI || k == FACE_OLLAMA)
    buf_printf(out, "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u", n, done,
               n + done);
  else
    buf_printf(out, "{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u", n,
               n + done, done);
  if (face_get(k)->says_cached && !r->o.no_cached)
    buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%u}", f->cached);
  else if (k == FACE_SGLANG)
    buf_puts(out, ",\"prompt_tokens_details\":null");
  if (k == FACE_SGLANG)
    buf_printf(out, ",\"reasoning_tokens\":%u", reply_reasoning_tokens(r->request));
  buf_putc(out, '}');
}

/* The `usage` of an event that is not the last. */
static void put_no_usage(const struct reply *r, struct buf *out) {
  enum face_kind k = kind_of(r);
  if (k == FACE_SGLANG)
    buf_puts(out, ",\"usage\":null,\"sglext\":null");
  else if (k == FACE_TGI && is_chat(r))
    buf_puts(out, ",\"usage\":null");
  else if (k == FACE_OLLAMA && !is_chat(r) && r->request->include_usage && !r->o.no_usage)
    buf_puts(out, ",\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0}");
}

/* ---- choices ---- */

/* What a delta or a message holds: bytes start..end of the text. */
struct piece {
  uint32_t choice, start, end;
  bool role;                             /* the first event of a server that has one */
  bool finish;                           /* with the finish reason */
  bool whole;                            /* a message of a whole reply */
  const struct reply_progress *progress; /* NULL */
};

static void put_call(const struct genchoice *c, struct buf *out) {
  buf_puts(out, "\"tool_calls\":[{");
  reply_put_string("id", c->call_id, out);
  buf_puts(out, ",\"index\":0,\"type\":\"function\",\"function\":{");
  reply_put_string("name", c->call_name, out);
  buf_puts(out, ",\"arguments\":");
  reply_put_part(c, 0, reply_shown(c, c->output_len), false, out);
  buf_puts(out, "}}]");
}

static void put_text_or_null(const struct genchoice *c, const struct piece *p, bool thoughts,
                             bool null, struct buf *out) {
  if (null && !reply_has_part(c, p->start, p->end, thoughts))
    buf_puts(out, "null");
  else
    reply_put_part(c, p->start, p->end, thoughts, out);
}

/* SGLang writes all of a delta's keys. */
static void put_sglang(const struct genchoice *c, const struct piece *p, bool call,
                       struct buf *out) {
  static const struct piece nothing = {0};
  buf_puts(out, p->role || p->whole ? "\"role\":\"assistant\",\"content\":"
                                    : "\"role\":null,\"content\":");
  if (p->role)
    buf_puts(out, "\"\"");
  else
    put_text_or_null(c, call ? &nothing : p, false, !p->whole || call, out);
  buf_puts(out, ",\"reasoning_content\":");
  put_text_or_null(c, p, true, true, out);
  buf_puts(out, p->whole ? "," : ",\"hidden_states\":null,");
  if (call)
    put_call(c, out);
  else
    buf_puts(out, "\"tool_calls\":null");
}

static void put_delta(const struct reply *r, const struct piece *p, struct buf *out) {
  const struct genchoice *c = &r->request->choices[p->choice];
  enum face_kind k = kind_of(r);
  bool call = c->call_name && p->end > p->start, thinks = reply_has_part(c, p->start, p->end, true);
  if (k == FACE_SGLANG) {
    put_sglang(c, p, call, out);
    return;
  }
  if (p->role && k == FACE_TRTLLM) {
    buf_puts(out, "\"role\":\"assistant\"");
    return;
  }
  if (p->role) { /* llama.cpp */
    buf_puts(out, "\"role\":\"assistant\",\"content\":null");
    return;
  }
  if (k == FACE_LLAMACPP && p->finish && !p->whole)
    return;
  if (k == FACE_TGI || k == FACE_OLLAMA || p->whole)
    buf_puts(out, "\"role\":\"assistant\",");
  buf_puts(out, "\"content\":");
  if (call)
    buf_puts(out, k == FACE_OLLAMA ? "\"\"" : "null");
  else
    reply_put_part(c, p->start, p->end, false, out);
  if (thinks || (k == FACE_TRTLLM && !p->whole)) {
    buf_puts(out, k == FACE_OLLAMA ? ",\"reasoning\":" : ",\"reasoning_content\":");
    reply_put_part(c, p->start, p->end, true, out);
  }
  if (!call)
    return;
  buf_putc(out, ',');
  put_call(c, out);
}

static const char *finish_of(const struct reply *r, const struct genchoice *c) {
  bool natural = strcmp(c->finish, "stop") == 0 && !c->stop;
  return kind_of(r) == FACE_TGI && !is_chat(r) && natural ? "eos_token" : c->finish;
}

static void put_finish(const struct reply *r, const struct genchoice *c, bool last,
                       struct buf *out) {
  enum face_kind k = kind_of(r);
  if (last)
    buf_printf(out, "\"finish_reason\":\"%s\"", finish_of(r, c));
  else
    buf_puts(out,
             k == FACE_TGI && !is_chat(r) ? "\"finish_reason\":\"\"" : "\"finish_reason\":null");
  if (k != FACE_SGLANG)
    return;
  buf_puts(out, ",\"matched_stop\":");
  bool ended = last && strcmp(c->finish, "stop") == 0;
  if (ended && c->stop)
    json_write_string(out, c->stop, strlen(c->stop));
  else if (ended && c->output_len) /* the token that ended it */
    buf_put_uint(out, c->output[c->output_len - 1]);
  else
    buf_puts(out, "null");
}

static void put_choice(const struct reply *r, const struct piece *p, struct buf *out) {
  const struct genchoice *c = &r->request->choices[p->choice];
  enum face_kind k = kind_of(r);
  buf_putc(out, '{');
  if (k == FACE_LLAMACPP) {
    put_finish(r, c, p->finish, out);
    buf_putc(out, ',');
  }
  buf_printf(out, "\"index\":%u,", p->choice);
  if (is_chat(r)) {
    buf_puts(out, p->whole ? "\"message\":{" : "\"delta\":{");
    put_delta(r, p, out);
    buf_putc(out, '}');
  } else {
    buf_puts(out, "\"text\":");
    reply_put_part(c, p->start, p->end, false, out);
  }
  if (k == FACE_SGLANG || k == FACE_TGI)
    buf_puts(out, ",\"logprobs\":null");
  if (k != FACE_LLAMACPP && (k != FACE_TRTLLM || p->finish)) {
    buf_putc(out, ',');
    put_finish(r, c, p->finish, out);
  }
  buf_putc(out, '}');
}

/* ---- the form ---- */

/* One event: a piece of a choice or, with `p` NULL, none; with usage, or NULL. */
static void put_event(const struct reply *r, const struct piece *p, const struct reply_facts *usage,
                      enum truth_kind kind, struct events *ev) {
  struct buf *out = &ev->bytes;
  begin_data(r, ev);
  put_front(r, out);
  buf_puts(out, "\"choices\":[");
  if (p)
    put_choice(r, p, out);
  buf_putc(out, ']');
  put_back(r, !p, out);
  if (usage) {
    buf_puts(out, ",\"usage\":");
    put_usage(r, usage, out);
  } else {
    put_no_usage(r, out);
  }
  if (usage && !p && kind_of(r) == FACE_LLAMACPP)
    reply_put_timings(r, usage, out);
  if (p && p->progress)
    reply_put_progress(p->progress, out);
  buf_puts(out, p && p->role && kind_of(r) == FACE_TRTLLM ? "} " : "}");
  if (p && !p->role)
    reply_say(&r->request->choices[p->choice], p->start, p->end, false, ev);
  end_data(kind, ev);
}

static void first(struct reply *r, const struct reply_facts *f, struct events *ev) {
  enum face_kind k = kind_of(r);
  (void)f;
  for (uint32_t i = 0; is_chat(r) && k != FACE_TGI && k != FACE_OLLAMA && i < r->request->n_choices;
       i++)
    put_event(r, &(struct piece){.choice = i, .role = true}, NULL, TRUTH_ROLE, ev);
}

/* Each of these has the role, and so has what comes first afterwards. */
static void progress(struct reply *r, uint32_t choice, const struct reply_progress *p,
                     struct events *ev) {
  put_event(r, &(struct piece){.choice = choice, .role = is_chat(r), .progress = p}, NULL,
            TRUTH_ROLE, ev);
}

static void tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                   const struct reply_facts *f, struct events *ev) {
  const struct genchoice *c = &r->request->choices[choice];
  enum face_kind k = kind_of(r);
  uint32_t start = reply_shown(c, from), end = reply_shown(c, to);
  if (r->o.hide)
    end = start;
  if (c->call_name) { /* whole, with the last token */
    start = 0;
    end = last && !r->o.hide ? end : 0;
  }
  struct piece p = {.choice = choice, .start = start, .end = end};
  bool chat = is_chat(r), quiet = r->o.hide || c->call_name;
  /* TGI's and TensorRT-LLM's finish reason comes with the last token, as do completions'. */
  bool together = k == FACE_TRTLLM || k == FACE_TGI || !chat;
  if (end > start ? !last || !together : !last && !quiet)
    put_event(r, &p, NULL, TRUTH_CONTENT, ev);
  if (!last)
    return;
  p.finish = true;
  if (!together)
    p.start = p.end;
  bool usage = k == FACE_TGI && !r->o.no_usage;
  put_event(r, &p, usage ? f : NULL, TRUTH_FINISH, ev);
}

static void end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  if (r->request->include_usage && !r->o.no_usage && kind_of(r) != FACE_TGI)
    put_event(r, NULL, f, TRUTH_USAGE, ev);
  begin_data(r, ev);
  buf_puts(&ev->bytes, "[DONE]");
  end_data(TRUTH_DONE, ev);
}

static void error(struct reply *r, const struct apierror *e, struct events *ev) {
  enum face_kind k = kind_of(r);
  struct reply_facts none = {0};
  if (k == FACE_TGI && is_chat(r)) /* it drops them: the stream just ends */
    return;
  begin_data(r, ev);
  if (k == FACE_SGLANG)
    buf_puts(&ev->bytes, "{\"error\":");
  face_refusal(k, e, &ev->bytes);
  if (k == FACE_SGLANG)
    buf_putc(&ev->bytes, '}');
  end_data(TRUTH_ERROR, ev);
  if (k == FACE_SGLANG && r->request->include_usage)
    put_event(r, NULL, &none, TRUTH_USAGE, ev);
  if (k == FACE_LLAMACPP || k == FACE_TGI)
    return;
  begin_data(r, ev);
  buf_puts(&ev->bytes, "[DONE]");
  end_data(TRUTH_DONE, ev);
}

static void whole(struct reply *r, const struct reply_facts *f, struct buf *out) {
  put_front(r, out);
  buf_puts(out, "\"choices\":[");
  for (uint32_t i = 0; i < r->request->n_choices; i++) {
    const struct genchoice *c = &r->request->choices[i];
    struct piece p = {.choice = i,
                      .end = r->o.hide ? 0 : reply_shown(c, c->output_len),
                      .finish = true,
                      .whole = true};
    buf_puts(out, i ? "," : "");
    put_choice(r, &p, out);
  }
  buf_putc(out, ']');
  put_back(r, false, out);
  if (!r->o.no_usage) {
    buf_puts(out, ",\"usage\":");
    put_usage(r, f, out);
  }
  buf_putc(out, '}');
}

#define FORM(kind_, name_)                                                                         \
  {                                                                                                \
    .name = name_, .kind = kind_, .first = first, .tokens = tokens, .end = end, .error = error,    \
    .whole = whole                                                                                 \
  }

const struct reply_form reply_sglang = FORM(FACE_SGLANG, "sglang");
const struct reply_form reply_tgi = FORM(FACE_TGI, "tgi");
const struct reply_form reply_llamacpp = {.name = "llamacpp",
                                          .kind = FACE_LLAMACPP,
                                          .first = first,
                                          .progress = progress,
                                          .tokens = tokens,
                                          .end = end,
                                          .error = error,
                                          .whole = whole};
const struct reply_form reply_trtllm = FORM(FACE_TRTLLM, "trtllm");
const struct reply_form reply_ollama = FORM(FACE_OLLAMA, "ollama");
