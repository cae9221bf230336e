/* runparity.c: before a run's load: are the tokens that we would count the servers' own?
 *
 * One request for each server and renderer, of the run's own tokenizer and template: messages where
 * a template is known (--template), else a prompt. Only /tokenize and the render endpoints are
 * asked: a completion would leave a foreign prompt in a cache that is about to be measured. */
#include <string.h>

#include "base/log.h"
#include "cmd/paritycheck.h"
#include "cmd/runjob.h"
#include "text/tokens.h"

/* Whether our side can render a case: some templates take no system message. */
static bool can_render(const struct fleet *fleet, const struct chattemplate *chat,
                       const struct parity_case *c) {
  struct parity_local local = {.encoder = tokens_encoder_new(fleet->tokens), .chat = chat};
  struct parity_case now = *c;
  struct tokens_list ids = {0};
  struct err err;
  now.chat.has_now = true; /* whichever: only whether it works is asked */
  now.chat.now = (struct pytime){.year = 2026, .month = 1, .day = 1};
  int rc = parity_encode(&local, &now, &ids, &err);
  tokens_list_free(&ids);
  tokens_encoder_delete(local.encoder);
  return rc == 0;
}

/* The one case that is asked, out of the quick battery: that of the form, or, where the template
 * refuses it, a user's message alone. */
static struct paritycases one_case(struct paritycases *quick, const struct fleet *fleet,
                                   const struct chattemplate *chat) {
  static const char plain[] =
      "[{\"role\":\"user\",\"content\":\"Hello naïve 日本,  two  spaces\\n\\n12345\"}]";
  enum parity_form form = chat ? PARITY_MESSAGES : PARITY_PROMPT;
  size_t at = 0;
  struct err err;
  while (at + 1 < quick->n && quick->items[at].form != form)
    at++;
  if (chat && !can_render(fleet, chat, &quick->items[at]) &&
      !paritycases_add_messages(quick, "user", plain, sizeof plain - 1, &err))
    at = quick->n - 1;
  return (struct paritycases){.items = &quick->items[at], .n = 1};
}

/* One arm's servers with one renderer. Comparisons of arms call it once for each. */
static int compare(const struct fleet *fleet, const char *arm, struct value *out, struct err *err) {
  struct chattemplate *chat = NULL;
  if (fleet->template && chattemplate_load(fleet->template, fleet->tokenizer, &chat, err))
    return err_prefix(err, "--template");
  struct paritycases quick = paritycases_quick();
  struct paritycases cases = one_case(&quick, fleet, chat);
  struct paritycheck check = {
      .fleet = fleet, .arm = arm, .templates = &chat, .n_templates = chat != NULL, .cases = &cases};
  int rc = paritycheck_run(&check, out, err);
  paritycases_free(&quick);
  chattemplate_delete(chat);
  return rc;
}

static const struct value *first_differing(const struct value *list) {
  for (size_t i = 0; i < value_count(list); i++)
    if (strcmp(value_to_string(value_get(value_at(list, i), "verdict")), "differs") == 0)
      return value_at(list, i);
  return NULL;
}

int runparity_check(struct runjob *job, struct err *err) {
  if (!job->fleet.tokens)
    job->parity_missing = "no tokenizer is named (--tokenizer)";
  else if (job->options.no_preflight)
    job->parity_missing = "--no-preflight";
  if (job->parity_missing)
    return 0;
  job->parity = value_array();
  int rc = compare(&job->fleet, NULL, &job->parity, err);
  const struct value *worst = rc ? NULL : first_differing(&job->parity);
  if (worst)
    log_warn("tokens differ from the server's, and the run will not be valid: `perigee parity` "
             "says why server=%s",
             value_to_string(value_get(worst, "server")));
  return rc;
}
