/* verifycmd.c: `perigee verify RUN TRUTH`: a finished run against the log of a `perigee sim` that
 * ran on the same host: what `perigee run --verify` does with the built-in fleet. Nothing is
 * changed. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bind/script.h"
#include "cmd/cmd.h"
#include "out/checks.h"
#include "out/verify.h"
#include "text/json.h"

struct verify_options {
  struct options_list limits;
  bool json;
};

static const struct options_spec specs[] = {
    {"--limit", "CHECK=VALUE", OPTIONS_LIST, offsetof(struct verify_options, limits),
     "limit of measurement_error_p99 (default 1ms) or ground_truth (0 requests)"},
    {"--json", NULL, OPTIONS_FLAG, offsetof(struct verify_options, json),
     "print {verify, ledger, checks} (src/out/ROW.md)"},
};

static const struct options_command command = {
    .name = "verify",
    .summary = "hold a run against the log of the simulated fleet that answered it",
    .usage = "RUN TRUTH [options]",
    .about =
        "RUN is a run's folder, TRUTH the file that `perigee sim --truth FILE` wrote on the same\n"
        "host. Requests are joined by their X-Request-Id: how far off the client's stamps are,\n"
        "whether token counts differ, who answered. `perigee run --verify` does the same with the\n"
        "built-in fleet and writes the token ledger into its rows; gaps are compared when the run\n"
        "kept them (--itl).\n"
        "\n"
        "Exit status: 0 fine, 1 the files cannot be read or are not of one run and one host,\n"
        "2 wrong usage, 98 a limit is broken.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .min_args = 2,
    .max_args = 2,
};

/* The run's zero on CLOCK_MONOTONIC, and whether it never came to its end. */
static int read_run(const char *folder, uint64_t *zero_ns, bool *unfinished, struct err *err) {
  char path[4200];
  struct linefile f;
  struct value run = value_null();
  int64_t zero = 0;
  snprintf(path, sizeof path, "%s/run.json", folder);
  int rc = linefile_open(&f, path, err);
  if (rc)
    return rc;
  rc = json_parse(f.data, f.len, &run, err);
  if (rc)
    err_prefix(err, "%s", path);
  else if (!value_to_int(value_get(&run, "zero_monotonic_ns"), &zero) || zero <= 0)
    rc = err_set(err, ERR_INVALID, "%s has no zero_monotonic_ns: it is not a run's", path);
  *zero_ns = (uint64_t)zero;
  const struct value *open = value_get(&run, "unfinished");
  *unfinished = open && open->kind == VALUE_BOOL && open->u.boolean;
  value_free(&run);
  linefile_close(&f);
  return rc;
}

static int read_limits(const struct options_list *list, struct checks_limits *limits,
                       struct err *err) {
  *limits = checks_default_limits();
  for (size_t i = 0; i < list->n; i++) {
    char name[80];
    size_t len = strcspn(list->items[i], "=");
    if (!list->items[i][len])
      return err_set(err, ERR_INVALID, "--limit: \"%s\" is not CHECK=VALUE", list->items[i]);
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1),
             list->items[i]);
    if (checks_set_limit(limits, name, list->items[i] + len + 1, err))
      return err_prefix(err, "--limit");
  }
  return 0;
}

/* The two checks that such a join feeds; *valid: both hold. */
static struct value judge(const struct verify *v, const struct checks_limits *limits, bool *valid) {
  static const enum check_id fed[] = {CHECK_MEASUREMENT_ERROR, CHECK_GROUND_TRUTH};
  struct checks_truth truth;
  struct check all[CHECK_COUNT];
  struct table *t = table_new(0);
  verify_checks(v, &truth);
  struct checks_input in = {
      .limits = *limits, .truth = &truth, .clock_step_ns = SAMPLE_ABSENT, .closed_loop = true};
  table_finish(t);
  checks_run(t, &in, all);
  table_free(t);
  struct value list = checks_value(all), out = value_array();
  *valid = true;
  for (size_t i = 0; i < ARRAY_LEN(fed); i++) {
    *valid = *valid && all[fed[i]].ok;
    value_push(&out, value_copy(value_at(&list, fed[i])));
  }
  value_free(&list);
  return out;
}

static int print(const struct verify *v, const struct value *checks, bool unfinished, bool json,
                 struct err *err) {
  struct value said = verify_value(v);
  value_set(&said, "unfinished", value_bool(unfinished));
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  int rc = 0;
  if (json) {
    struct value all = value_object();
    value_set(&all, "verify", value_copy(&said));
    value_set(&all, "ledger", verify_ledger_value(v));
    value_set(&all, "checks", value_copy(checks));
    json_write_pretty(&text, &all);
    buf_putc(&text, '\n');
    value_free(&all);
  } else {
    const struct value *args[] = {&said, checks};
    rc = script_text("perigee.report_verify", "text", args, 2, &text, err);
  }
  if (!rc)
    fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  value_free(&said);
  return rc;
}

static int verify(const struct verify_options *o, const struct options_list *args) {
  struct err err = {0};
  struct checks_limits limits;
  struct verify v;
  char samples[4200];
  uint64_t zero_ns;
  bool valid = false, unfinished = false;
  if (read_limits(&o->limits, &limits, &err))
    return cmd_fail("verify", EXIT_USAGE, &err);
  snprintf(samples, sizeof samples, "%s/samples.jsonl", args->items[0]);
  if (read_run(args->items[0], &zero_ns, &unfinished, &err) ||
      verify_open(&v, samples, args->items[1], zero_ns, &err))
    return cmd_fail("verify", EXIT_FAILED, &err);
  struct value checks = judge(&v, &limits, &valid);
  int status = valid ? 0 : EXIT_NOT_VALID;
  if (print(&v, &checks, unfinished, o->json, &err))
    status = cmd_fail("verify", EXIT_FAILED, &err);
  value_free(&checks);
  verify_close(&v);
  return status;
}

int cmd_verify(int argc, char **argv) {
  struct verify_options o = {0};
  struct options_list args;
  struct err err = {0};
  int rc = options_parse(&command, argc, argv, &o, &args, &err);
  int status = rc < 0 ? cmd_fail("verify", EXIT_USAGE, &err) : 0;
  if (rc == 0)
    status = verify(&o, &args);
  options_free(&command, &o, &args);
  return cmd_flush(status);
}
