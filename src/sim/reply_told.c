/* reply_told.c: see reply_told.h. The literals are those of reply_vllm.c, in its order. */
#include "sim/reply_told.h"

#include <string.h>

#include "text/json_scan.h"

#define LEN(literal) (sizeof(literal) - 1)

static bool is_plain(const char *text, size_t len) {
  return json_plain_run(text, text + len) == text + len;
}

bool reply_told_possible(const struct reply *r) {
  const struct genrequest *q = r->request;
  const struct genchoice *c = q->choices;
  return r->o.form == &reply_vllm && q->n_choices == 1 && !q->return_token_ids &&
         !q->continuous_usage && q->logprobs.output < 0 && q->logprobs.prompt < 0 &&
         !r->o.metrics && !r->o.hide && !c->call_name && !c->echo && !c->hidden &&
         (!c->stop || is_plain(c->stop, strlen(c->stop))) && is_plain(c->text, c->visible) &&
         is_plain(r->o.id, strlen(r->o.id)) && is_plain(r->o.model, strlen(r->o.model));
}

static size_t digits(uint64_t n) {
  size_t k = 1;
  while (n >= 10) {
    n /= 10;
    k++;
  }
  return k;
}

static bool is_chat(const struct reply *r) {
  return r->request->api == GEN_CHAT;
}

/* Around what makes an event: "data: ", the head, what ends it. */
static size_t frame_len(const struct reply *r) {
  size_t object = is_chat(r) ? LEN("chat.completion.chunk") : LEN("text_completion");
  return LEN("data: {\"id\":\"\",\"object\":\"\",\"created\":,\"model\":\"\",\"choices\":[") +
         strlen(r->o.id) + object + digits(r->o.created_s) + strlen(r->o.model) + LEN("}\n\n");
}

/* An event's choice without its text. */
static size_t choice_len(const struct reply *r) {
  return is_chat(r) ? LEN("{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":null}]")
                    : LEN("{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null,"
                          "\"stop_reason\":null}]");
}

/* The text's keys and quotes, which completions have always. */
static size_t delta_len(const struct reply *r, const struct openai_piece *p) {
  if (!is_chat(r))
    return 0;
  size_t thought = p->reasoning ? LEN("\"reasoning\":\"\"") : 0;
  size_t answer = p->visible || !p->reasoning ? LEN("\"content\":\"\"") : 0;
  return thought + answer + (thought && answer);
}

static size_t finish_len(const struct reply *r, const struct genchoice *c) {
  size_t stop = c->stop ? strlen(c->stop) + LEN("\"\"") : LEN("null");
  size_t key = is_chat(r) ? LEN(",\"stop_reason\":") + stop : stop - LEN("null");
  return strlen(c->finish) + LEN("\"\"") - LEN("null") + key;
}

static size_t usage_len(const struct openai_usage *u, uint32_t created) {
  size_t n = LEN("],\"usage\":{\"prompt_tokens\":,\"total_tokens\":,\"completion_tokens\":}") +
             digits((uint64_t)u->prompt) + digits((uint64_t)u->total) +
             digits((uint64_t)u->completion);
  if (u->cached != OPENAI_ABSENT)
    n += LEN(",\"prompt_tokens_details\":{\"cached_tokens\":,\"created_cache_tokens\":}") +
         digits((uint64_t)u->cached) + digits(created);
  if (u->reasoning != OPENAI_ABSENT)
    n += LEN(",\"completion_tokens_details\":{\"reasoning_tokens\":}") +
         digits((uint64_t)u->reasoning);
  return n;
}

static void fill_usage(const struct reply *r, const struct reply_facts *f, struct openai_usage *u) {
  uint32_t prompt = genrequest_prompt_tokens(r->request);
  uint32_t thoughts = reply_reasoning_tokens(r->request);
  *u = (struct openai_usage){.present = true,
                             .prompt = prompt,
                             .completion = f->completion,
                             .total = prompt + f->completion,
                             .cached = f->cached && !r->o.no_cached ? f->cached : OPENAI_ABSENT,
                             .reasoning = thoughts ? thoughts : OPENAI_ABSENT};
}

void reply_told_fill(const struct reply *r, bool first, const struct reply_facts *f,
                     struct openai_usage *usage, struct openai_told *t) {
  const struct genchoice *c = r->request->choices;
  size_t frame = frame_len(r), each = frame + choice_len(r);
  t->role = first && is_chat(r);
  t->bytes = t->n_pieces * each;
  for (size_t i = 0; i < t->n_pieces; i++)
    t->bytes += delta_len(r, &t->pieces[i]) + t->pieces[i].reasoning + t->pieces[i].visible;
  if (t->role)
    t->bytes += frame + LEN("{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                            "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null");
  if (!f)
    return;
  t->finish = c->finish;
  t->done = true;
  t->bytes += finish_len(r, c) + LEN("data: [DONE]\n\n");
  if (!r->request->include_usage || r->o.no_usage)
    return;
  fill_usage(r, f, usage);
  t->usage = usage;
  t->bytes += frame + usage_len(usage, f->created);
}
