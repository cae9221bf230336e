/* paritycmd.c: `perigee parity`: do servers make the same token ids of a prompt as we do?
 *
 * Asks each server for the ids of a battery of requests (paritycheck.h), holds them against those
 * made here, and says what differs and why. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bind/script.h"
#include "cmd/cmd.h"
#include "cmd/fleetopts.h"
#include "cmd/paritycheck.h"
#include "cmd/probe.h"
#include "cmd/simchild.h"
#include "net/http.h"
#include "text/json.h"
#include "text/tokenizer.h"

#define FILE_MAX ((size_t)256 << 20)

struct parity_options {
  struct fleet_options fleet;
  int64_t sim;
  struct options_list renderers, messages, prompts;
  double timeout_s;
  bool no_battery, no_completions, json;
};

#define AT(field) offsetof(struct parity_options, field)

static const struct options_spec specs[] = {
    FLEET_OPTIONS_SPECS(struct parity_options, fleet),
    {"--sim", "N", OPTIONS_COUNT, AT(sim),
     "compare with N replicas of the built-in fleet, started with this tokenizer and template"},
    {"--renderer", "PATH", OPTIONS_LIST, AT(renderers),
     "one more chat template to compare with (as --template); repeat for more. Which one the "
     "server "
     "uses is then said as a cause"},
    {"--messages", "FILE", OPTIONS_LIST, AT(messages),
     "a case of your own: JSON, a list of messages or an object with messages, tools, "
     "chat_template_kwargs, add_generation_prompt, ..."},
    {"--prompt", "FILE", OPTIONS_LIST, AT(prompts), "a case of your own: a text"},
    {"--no-battery", NULL, OPTIONS_FLAG, AT(no_battery), "your own cases alone"},
    {"--no-completions", NULL, OPTIONS_FLAG, AT(no_completions),
     "never ask for a completion (of one token): what inference does is then not compared, nor "
     "servers without /tokenize"},
    {"--timeout", "TIME", OPTIONS_SECONDS, AT(timeout_s), "of one request (default 10s)"},
    {"--json", NULL, OPTIONS_FLAG, AT(json), "print the comparisons as JSON"},
};

static const struct options_range ranges[] = {{"--sim", 1, 4096}, {"--timeout", 1e-3, 3600}};

static const struct options_command command = {
    .name = "parity",
    .summary = "compare token ids and counts with those of servers",
    .usage = "[URL...] --tokenizer NAME [options]",
    .about =
        "Sends the same prompts and conversations to each server's /tokenize and tokenizes and\n"
        "renders them here. Where there is no /tokenize, vLLM's render endpoints answer, else a\n"
        "completion of one token (its prompt_token_ids, or usage.prompt_tokens: the count alone).\n"
        "What is not given (--tokenizer, --template, --now) is what a simulated server says of "
        "itself;\n"
        "without one, messages are rendered with the template that comes with the tokenizer, and "
        "today\n"
        "is the clock's. The first line says what was taken from whom.\n"
        "\n"
        "  perigee parity http://10.0.0.1:8000 --tokenizer qwen3\n"
        "  perigee parity http://gpt:8000 --tokenizer o200k_harmony --template harmony \\\n"
        "      --renderer ./chat_template.jinja --messages agent.json\n"
        "\n"
        "A difference is told with the first token that differs, the text around it, and causes "
        "that\n"
        "were tried: a double first token, add_special_tokens, the generation prompt, a date, the\n"
        "order of tools and their keys, the spacing of tojson, another renderer, and more.\n"
        "\n"
        "Exit status: 0 all equal, 1 a server cannot be reached or a file cannot be used, 2 wrong\n"
        "usage, 98 a server could not be compared (to the end), 99 something differs, 130 "
        "interrupted.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .min_args = 0,
    .max_args = 4096,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
};

struct job {
  struct parity_options o;
  struct options_list args;
  struct fleet fleet;
  struct simchild sim;
  struct chattemplate **templates;
  size_t n_templates;
  struct paritycases cases;
  struct value list;
};

/* ---- what is compared ---- */

static int load_template(struct job *j, const char *path, const char *option, struct err *err) {
  struct chattemplate *t = NULL;
  int rc = path ? chattemplate_load(path, j->fleet.tokenizer, &t, err)
                : chattemplate_default(j->fleet.tokenizer, j->fleet.family, &t, err);
  if (rc)
    return option ? err_prefix(err, "%s", option) : rc;
  if (!t)
    return 0;
  j->templates = mem_resize(j->templates, j->n_templates + 1, sizeof(struct chattemplate *));
  j->templates[j->n_templates++] = t;
  return 0;
}

static int load_templates(struct job *j, struct err *err) {
  int rc = load_template(j, j->fleet.template, j->fleet.template ? "--template" : NULL, err);
  for (size_t i = 0; i < j->o.renderers.n && !rc; i++)
    rc = load_template(j, j->o.renderers.items[i], "--renderer", err);
  return rc;
}

static int read_file(const char *path, const char *option, struct buf *out, struct err *err) {
  buf_init(out, FILE_MAX);
  int rc = tokenfile_read(path, out, err);
  if (rc) {
    buf_free(out);
    return err_prefix(err, "%s", option);
  }
  if (!out->data)
    buf_puts(out, "");
  return 0;
}

static int add_own(struct job *j, struct err *err) {
  struct buf text;
  int rc = 0;
  for (size_t i = 0; i < j->o.prompts.n && !rc; i++) {
    rc = read_file(j->o.prompts.items[i], "--prompt", &text, err);
    if (rc)
      return rc;
    if (!text.len)
      rc = err_set(err, ERR_INVALID, "--prompt: %s is empty, which proves nothing",
                   j->o.prompts.items[i]);
    else if (json_utf8_valid(text.data, text.len) < text.len)
      rc = err_set(err, ERR_INVALID, "--prompt: %s is not UTF-8", j->o.prompts.items[i]);
    else
      paritycases_add_prompt(&j->cases, j->o.prompts.items[i], text.data, text.len);
    buf_free(&text);
  }
  for (size_t i = 0; i < j->o.messages.n && !rc; i++) {
    rc = read_file(j->o.messages.items[i], "--messages", &text, err);
    if (rc)
      return rc;
    rc = paritycases_add_messages(&j->cases, j->o.messages.items[i], text.data, text.len, err);
    if (rc)
      err_prefix(err, "--messages: %s", j->o.messages.items[i]);
    buf_free(&text);
  }
  return rc;
}

/* ---- with whom ---- */

/* Options that make no sense together, and the fleet they describe; ERR_INVALID is wrong usage. */
static int find_fleet(struct job *j, struct err *err) {
  int rc = fleet_options_build(&j->o.fleet, &j->fleet, err);
  for (size_t i = 0; i < j->args.n && !rc; i++)
    rc = fleet_add_replica(&j->fleet, j->args.items[i], err);
  if (rc)
    return rc;
  bool given = j->fleet.n_replicas || j->fleet.gateway;
  if (given && j->o.sim)
    return err_set(err, ERR_INVALID, "--sim is for the built-in fleet, and servers are given");
  if (!given && !j->o.sim)
    return err_set(err, ERR_INVALID,
                   "no server: give its URL, or --sim 1 to try the built-in fleet");
  if (j->o.no_battery && !j->o.prompts.n && !j->o.messages.n)
    return err_set(err, ERR_INVALID, "--no-battery leaves nothing; add --messages or --prompt");
  return j->o.sim ? 0 : fleet_options_check(&j->fleet, err);
}

static int need_tokenizer(struct job *j, struct err *err) {
  if (!j->fleet.tokenizer) /* a simulated server says so itself, and probe_models has heard it */
    return err_set(err, ERR_INVALID,
                   "--tokenizer is needed: the model's tokenizer.json or its folder, a rank file, "
                   "qwen3, bytes, ...");
  return fleet_load_tokens(&j->fleet, err);
}

/* ---- the command ---- */

static int print(const struct job *j, struct err *err) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  int rc = 0;
  if (j->o.json) {
    json_write_pretty(&text, &j->list);
    buf_putc(&text, '\n');
  } else {
    const struct value *args[] = {&j->list};
    rc = script_text("perigee.parity", "terminal", args, 1, &text, err);
  }
  if (!rc)
    fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  return rc;
}

static int status_of(const struct value *list) {
  int status = 0;
  for (size_t i = 0; i < value_count(list); i++) {
    const char *verdict = value_to_string(value_get(value_at(list, i), "verdict"));
    if (strcmp(verdict, "differs") == 0)
      return EXIT_NOT_MET;
    if (strcmp(verdict, "unknown") == 0)
      status = EXIT_NOT_VALID;
  }
  return status;
}

static int compare(struct job *j, struct err *err) {
  struct paritycheck check = {.fleet = &j->fleet,
                              .templates = j->templates,
                              .n_templates = j->n_templates,
                              .cases = &j->cases,
                              .generate = !j->o.no_completions,
                              .timeout_ns = (uint64_t)(j->o.timeout_s * (double)NS_PER_S)};
  j->list = value_array();
  int rc = paritycheck_run(&check, &j->list, err);
  return rc ? rc : print(j, err);
}

/* Returns the exit status. */
static int run(struct job *j, struct err *err) {
  if (find_fleet(j, err))
    return cmd_fail("parity", EXIT_USAGE, err);
  if (!j->o.no_battery)
    j->cases = paritycases_all();
  if (add_own(j, err))
    return cmd_fail("parity", err->code == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED, err);
  if (http_global_init(err))
    return cmd_fail("parity", EXIT_FAILED, err);
  cmd_end_on_signals();
  struct simopts wish = {.replicas = j->o.sim};
  if (j->o.sim && simchild_start_fleet(&j->sim, &wish, 1, 0, &j->fleet, err))
    return cmd_fail("parity", err->code == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED, err);
  if (probe_models(&j->fleet, (uint64_t)(j->o.timeout_s * (double)NS_PER_S), err))
    return cmd_fail("parity", EXIT_FAILED, err);
  if (need_tokenizer(j, err))
    return cmd_fail("parity", EXIT_USAGE, err);
  if (load_templates(j, err) || compare(j, err))
    return cmd_fail("parity", EXIT_FAILED, err);
  return status_of(&j->list);
}

int cmd_parity(int argc, char **argv) {
  struct err err = {0};
  struct job j = {.o = {.timeout_s = 10}};
  char how[80];
  int rc = options_parse(&command, argc, argv, &j.o, &j.args, &err);
  int status = rc == 1 ? 0 : rc ? cmd_fail("parity", EXIT_USAGE, &err) : run(&j, &err);
  if (j.sim.pid)
    simchild_stop(&j.sim, how, sizeof how);
  for (size_t i = 0; i < j.n_templates; i++)
    chattemplate_delete(j.templates[i]);
  mem_free(j.templates);
  paritycases_free(&j.cases);
  value_free(&j.list);
  fleet_free(&j.fleet);
  options_free(&command, &j.o, &j.args);
  return cmd_flush(status);
}
