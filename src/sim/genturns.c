/* genturns.c: see genturns.h. */
#include "sim/genturns.h"

#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"
#include "sim/respitems.h"

bool genturns_go_on(const struct genrequest *r) {
  const struct genchoice *c = &r->choices[r->n_choices - 1];
  return r->api == GEN_RESPONSES && c->call != GEN_CALL_FUNCTION &&
         strcmp(c->finish, "tool_calls") == 0;
}

/* result_tokens tokens of text, drawn from what was asked for. */
static char *make_result(const struct genchoice *c, const struct genmodel *model) {
  uint32_t n = model->tools.result_tokens ? model->tools.result_tokens : 1;
  uint64_t key = babble_mix(babble_key(c->output, c->output_len, model->seed));
  if (model->speech) {
    struct speech_ask say = {.key = key, .natural = n, .most = n};
    struct speech_answer a;
    speech_say(model->speech, &say, &a);
    mem_free(a.ids);
    mem_free(a.shown);
    return a.text;
  }
  char *text = mem_alloc(n + 1u);
  babble_text(key, text, n);
  text[n] = '\0';
  return text;
}

/* The turn's call and result at the end of a list of messages. */
static void add_turn(struct value *messages, const struct genchoice *c) {
  respitems_add_call(messages, c->call_id, c->call_name, c->text + c->thought);
  if (c->thought)
    value_set(value_at(messages, value_count(messages) - 1), "reasoning",
              value_string(c->text, c->thought));
  respitems_add_result(messages, c->call_id, c->call_result);
}

int genturns_next(struct response_ask *ask, struct genrequest *r, const struct genmodel *model,
                  struct apierror *e) {
  struct genchoice *c = &r->choices[r->n_choices - 1];
  c->call_result = make_result(c, model);
  add_turn(value_get(&ask->chat, "messages"), c);
  add_turn(&ask->messages, c);
  ask->kept_items += c->thought ? 2 : 1;
  ask->calls++;
  responses_bound_calls(ask);
  int rc = genrequest_next(r, &ask->chat, model, e);
  if (!rc)
    responses_mark_call(ask, r);
  return rc;
}
