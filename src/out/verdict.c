/* verdict.c: the exit status of a run and the sentence that goes with it. */
#include "out/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(struct verdict *out, enum verdict_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static void say(struct verdict *out, enum verdict_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(out->reason, sizeof out->reason, fmt, args);
  va_end(args);
  out->status = (int)status;
}

/* More than VERDICT_MAX_FAILED failed. */
static bool too_many(uint64_t ok, uint64_t failed) {
  return failed > 0 && (double)failed > VERDICT_MAX_FAILED * (double)(ok + failed);
}

/* No session went well, and none failed otherwise. Where every request failed too, the servers may
 * be why. */
static bool script_is_wrong(const struct verdict_input *in) {
  return in->only_script && in->sessions_failed && !in->sessions_ok &&
         (in->requests_ok || !in->requests_failed);
}

/* `why`: the class of most of them, "" where it is not known. */
static void say_failed(struct verdict *out, const char *what, uint64_t ok, uint64_t failed,
                       const char *why) {
  const char *colon = why[0] ? ": " : "";
  if (!ok && failed == 1)
    say(out, VERDICT_NOT_MET, "the only %s failed%s%s", what, colon, why);
  else if (!ok)
    say(out, VERDICT_NOT_MET, "all %llu %ss failed%s%s", (unsigned long long)failed, what, colon,
        why);
  else
    say(out, VERDICT_NOT_MET,
        "%.1f %% of %ss failed (%llu of %llu); without expectations 5 %% are allowed",
        100 * (double)failed / (double)(ok + failed), what, (unsigned long long)failed,
        (unsigned long long)ok + failed);
}

void verdict_decide(const struct verdict_input *in, struct verdict *out) {
  bool bare = in->expectations == 0;
  if (in->script_error)
    say(out, VERDICT_USAGE, "%s", in->script_error);
  else if (in->interrupted)
    say(out, VERDICT_INTERRUPTED, "the figures are of what was measured until then");
  else if (in->run_error)
    say(out, VERDICT_FAILED, "%s", in->run_error);
  else if (script_is_wrong(in))
    say(out, VERDICT_USAGE,
        "no session went well, %llu of %llu ended in an error of the script: %s",
        (unsigned long long)in->sessions_failed, (unsigned long long)in->sessions_failed,
        in->session_class);
  else if (!in->valid && !in->sessions_ok && in->sessions_failed && in->session_class[0])
    say(out, VERDICT_INVALID, "%s %llu session%s failed: %s; and the measurement is not valid%s%s",
        in->sessions_failed == 1 ? "the only" : "all", (unsigned long long)in->sessions_failed,
        in->sessions_failed == 1 ? "" : "s", in->session_class, in->broken[0] ? ": " : "",
        in->broken);
  else if (!in->valid)
    say(out, VERDICT_INVALID, "a check of the measurement itself does not hold%s%s",
        in->broken[0] ? ": " : "", in->broken);
  else if (in->requests_failed &&
           (!in->requests_ok || (bare && too_many(in->requests_ok, in->requests_failed))))
    say_failed(out, "request", in->requests_ok, in->requests_failed, in->request_class);
  else if (in->sessions_failed &&
           (!in->sessions_ok || (bare && too_many(in->sessions_ok, in->sessions_failed))))
    say_failed(out, "session", in->sessions_ok, in->sessions_failed, in->session_class);
  else if (!in->requests_ok && !in->sessions_ok && !in->values)
    say(out, VERDICT_NOT_MET,
        "nothing was measured: no request and no session ended in the window");
  else if (in->expectations_met < in->expectations)
    say(out, VERDICT_NOT_MET, "%llu of %llu expectation%s not met",
        (unsigned long long)in->expectations - in->expectations_met,
        (unsigned long long)in->expectations, in->expectations == 1 ? "" : "s");
  else if (bare && in->checks_false)
    say(out, VERDICT_OK,
        "the plan has no expectations, not even of vu:check, which was false %llu times of %llu: "
        "\"checks share > 99%%\" would be one",
        (unsigned long long)in->checks_false, (unsigned long long)in->checks);
  else if (bare)
    say(out, VERDICT_OK, "the plan has no expectations");
  else if (in->expectations == 1)
    say(out, VERDICT_OK, "its expectation is met");
  else
    say(out, VERDICT_OK, "all %llu expectations met", (unsigned long long)in->expectations);
}

int verdict_bisect(int status) {
  switch (status) {
  case VERDICT_FAILED:
  case VERDICT_USAGE:
  case VERDICT_INVALID:
    return 125;
  case VERDICT_NOT_MET:
    return 1;
  default:
    return status;
  }
}

static uint64_t count_at(const struct value *object, const char *key) {
  int64_t n = 0;
  return value_to_int(value_get(object, key), &n) && n > 0 ? (uint64_t)n : 0;
}

static bool is_true(const struct value *v) {
  return v && v->kind == VALUE_BOOL && v->u.boolean;
}

/* Of the checks that do not hold, as many as there is room for. */
static void name_broken(const struct value *checks, char *out, size_t size) {
  size_t len = 0;
  for (size_t i = 0; i < value_count(checks); i++) {
    const struct value *check = value_at(checks, i);
    const char *name = value_to_string(value_get(check, "name"));
    if (!name || is_true(value_get(check, "ok")) || len + strlen(name) + 3 > size)
      continue;
    len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "", name);
  }
}

/* "script: …": the class of most failures, and what the first of it said. */
static void name_class(const struct value *group, char *out, size_t size) {
  const struct value *classes = value_get(group, "by_error");
  const char *name = NULL;
  uint64_t most = 0;
  for (size_t i = 0; classes && i < classes->u.object.n; i++) {
    const char *key = classes->u.object.pairs[i].key;
    if (count_at(classes, key) > most) {
      most = count_at(classes, key);
      name = key;
    }
  }
  const char *detail = name ? value_to_string(value_get(value_get(group, "detail"), name)) : NULL;
  if (name)
    snprintf(out, size, "%s%s%.500s", name, detail ? ": " : "", detail ? detail : "");
}

void verdict_input_from(const struct value *summary, struct verdict_input *in) {
  const struct value *requests = value_get(summary, "requests");
  const struct value *sessions = value_get(summary, "sessions");
  const struct value *expectations = value_get(summary, "expectations");
  *in = (struct verdict_input){
      .interrupted = is_true(value_get(summary, "interrupted")),
      .run_error = value_to_string(value_get(summary, "write_error")),
      .script_error = value_to_string(value_get(summary, "script_error")),
      .valid = is_true(value_get(summary, "valid")),
      .expectations = value_count(expectations),
      .requests_ok = count_at(requests, "ok"),
      .requests_failed = count_at(requests, "failed"),
      .sessions_ok = count_at(sessions, "ok"),
      .sessions_failed = count_at(sessions, "failed"),
      .values = count_at(summary, "values"),
  };
  const struct value *checks = value_get(summary, "script_checks");
  for (size_t i = 0; checks && i < checks->u.object.n; i++) {
    uint64_t failed = count_at(&checks->u.object.pairs[i].value, "failed");
    in->checks += failed + count_at(&checks->u.object.pairs[i].value, "passed");
    in->checks_false += failed;
  }
  in->only_script = count_at(value_get(sessions, "by_error"), "script") == in->sessions_failed;
  name_class(requests, in->request_class, sizeof in->request_class);
  name_class(sessions, in->session_class, sizeof in->session_class);
  name_broken(value_get(summary, "checks"), in->broken, sizeof in->broken);
  for (size_t i = 0; i < value_count(expectations); i++)
    in->expectations_met += is_true(value_get(value_at(expectations, i), "met"));
}

void verdict_store(struct value *summary, const struct verdict *verdict) {
  struct value *o = value_set(summary, "outcome", value_object());
  value_set(o, "status", value_int(verdict->status));
  value_set(o, "reason", value_cstring(verdict->reason));
}
