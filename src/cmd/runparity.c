/* runparity.c: before a run's load: are the tokens that we would count the servers' own?
 *
 * One request for each server and renderer, of the run's own tokenizer and template: messages where
 * a template is known (--template), else a prompt. Only /tokenize and the render endpoints are
 * asked: a completion would leave a foreign prompt in a cache that is about to be measured. */
#include <string.h>

#include "base/log.h"
#include "cmd/paritycheck.h"
#include "cmd/runjob.h"

/* The quick battery's case of one form. */
static struct paritycases one_case(struct paritycases *quick, enum parity_form form) {
  struct paritycases one = {0};
  for (size_t i = 0; i < quick->n; i++)
    if (quick->items[i].form == form)
      one = (struct paritycases){.items = &quick->items[i], .n = 1};
  return one;
}

/* One arm's servers with one renderer. Comparisons of arms call it once for each. */
static int compare(const struct fleet *fleet, const char *arm, struct value *out, struct err *err) {
  struct chattemplate *chat = NULL;
  if (fleet->template && chattemplate_load(fleet->template, fleet->tokenizer, &chat, err))
    return err_prefix(err, "--template");
  struct paritycases quick = paritycases_quick();
  struct paritycases cases = one_case(&quick, chat ? PARITY_MESSAGES : PARITY_PROMPT);
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
