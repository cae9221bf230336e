/* runparity.c: before a run's load: are the tokens that we would count the servers' own?
 *
 * The quick battery (text/paritycases.h) for each server, of the run's own tokenizer and template:
 * messages where a template is known (--template), and a prompt. They are asked of /tokenize and
 * the render endpoints, which leave nothing in the cache that is about to be measured. One short
 * completion of one token is asked for as well, for what the server counts (usage.prompt_tokens);
 * not of our own simulated fleet, which counts as we do. */
#include <string.h>

#include "base/log.h"
#include "cmd/paritycheck.h"
#include "cmd/runjob.h"
#include "text/tokens.h"

/* One arm's servers with one renderer. Comparisons of arms call it once for each. */
static int compare(const struct runjob *job, const char *arm, struct value *out, struct err *err) {
  const struct fleet *fleet = &job->fleet;
  struct chattemplate *chat = NULL;
  if (fleet->template && chattemplate_load(fleet->template, fleet->tokenizer, &chat, err))
    return err_prefix(err, "--template");
  struct paritycheck check = {.fleet = fleet,
                              .arm = arm,
                              .templates = &chat,
                              .n_templates = chat != NULL,
                              .count = !job->own_fleet};
  int rc = paritycheck_run(&check, out, err);
  chattemplate_delete(chat);
  return rc;
}

/* The first cause that was found of what differs in an entry; "not known". */
static const char *cause_of(const struct value *entry) {
  const struct value *cases = value_get(entry, "cases");
  for (size_t i = 0; i < value_count(cases); i++) {
    const struct value *cause = value_at(value_get(value_at(cases, i), "causes"), 0);
    if (cause)
      return value_to_string(value_get(cause, "name"));
  }
  return "not known";
}

static const struct value *first_differing(const struct value *list) {
  for (size_t i = 0; i < value_count(list); i++)
    if (strcmp(value_to_string(value_get(value_at(list, i), "verdict")), "differs") == 0)
      return value_at(list, i);
  return NULL;
}

int runparity_check(struct runjob *job, struct err *err) {
  if (job->is_dry)
    job->parity_missing = "virtual time: the fleet tokenizes in this process, with the same files";
  else if (!job->fleet.tokens)
    job->parity_missing = "no tokenizer is named (--tokenizer)";
  else if (job->options.no_preflight)
    job->parity_missing = "--no-preflight";
  if (job->parity_missing)
    return 0;
  job->parity = value_array();
  int rc = compare(job, NULL, &job->parity, err);
  const struct value *worst = rc ? NULL : first_differing(&job->parity);
  if (worst)
    log_warn("tokens differ from the server's, and the run will not be valid: `perigee parity` "
             "says why server=%s cause=%s",
             value_to_string(value_get(worst, "server")), cause_of(worst));
  return rc;
}
