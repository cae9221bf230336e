/* rowlog.c: see rowlog.h. */
#include "out/rowlog.h"

#include <string.h>

static bool is_key(struct jsonslice key, const char *name, size_t len) {
  return (size_t)(key.end - key.p) == len + 2 && memcmp(key.p + 1, name, len) == 0;
}
#define IS(key, name) is_key((key), (name), sizeof(name) - 1)

static bool read_times(struct rowlog *r, struct jsonslice t) {
  static const char *const names[STAMP_COUNT] = {"sched",       "start",      "connected",
                                                 "sent",        "headers",    "first_byte",
                                                 "first_token", "last_token", "done"};
  struct jsonwalk w;
  struct jsonslice key, value;
  int more;
  if (!jsonwalk_begin(&w, t, '{'))
    return false;
  while ((more = jsonwalk_next(&w, &key, &value)) > 0)
    for (int i = 0; i < STAMP_COUNT; i++)
      if (jsonwalk_is(key, names[i]))
        r->t[i] = linefile_stamp(value, SAMPLE_NEVER);
  return more == 0;
}

static void read_counts(struct rowlog *r, struct jsonslice key, struct jsonslice value) {
  const struct {
    const char *name;
    int64_t *to;
  } counts[] = {{"turn", &r->turn},
                {"step", &r->step},
                {"prompt_tokens", &r->prompt_tokens},
                {"output_tokens", &r->output_tokens},
                {"cached_tokens", &r->cached_tokens},
                {"first_tokens", &r->first_tokens},
                {"output_events", &r->output_events},
                {"reconnects", &r->reconnects}};
  for (size_t i = 0; i < ARRAY_LEN(counts); i++)
    if (jsonwalk_is(key, counts[i].name))
      *counts[i].to = linefile_int(value, -1);
}

bool rowlog_read(struct jsonslice line, struct rowlog *r) {
  struct jsonwalk w;
  struct jsonslice key, value;
  int more;
  *r = (struct rowlog){.first_visible = SAMPLE_NEVER};
  for (int i = 0; i < STAMP_COUNT; i++)
    r->t[i] = SAMPLE_NEVER;
  r->turn = r->step = r->prompt_tokens = r->output_tokens = r->cached_tokens = -1;
  r->first_tokens = r->output_events = -1;
  if (!jsonwalk_begin(&w, line, '{'))
    return false;
  while ((more = jsonwalk_next(&w, &key, &value)) > 0) {
    if (IS(key, "request_id"))
      r->request_id = linefile_string(value);
    else if (IS(key, "error"))
      r->error = linefile_string(value);
    else if (IS(key, "chosen"))
      r->chosen = linefile_string(value);
    else if (IS(key, "served"))
      r->served = linefile_string(value);
    else if (IS(key, "itl_ns"))
      r->itl = *value.p == '[' ? value : (struct jsonslice){0};
    else if (IS(key, "session"))
      r->session = linefile_stamp(value, 0);
    else if (IS(key, "first_visible"))
      r->first_visible = linefile_stamp(value, SAMPLE_NEVER);
    else if (IS(key, "measured"))
      r->measured = linefile_true(value);
    else if (IS(key, "generation"))
      r->generation = linefile_true(value);
    else if (IS(key, "streamed"))
      r->streamed = linefile_true(value);
    else if (IS(key, "t") && !read_times(r, value))
      return false;
    else
      read_counts(r, key, value);
  }
  return more == 0;
}

struct jsonslice rowlog_ledger(struct jsonslice line) {
  static const char nulls[] =
      "\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":"
      "null,\"ledger_source\":null,\"causes\":null,\"class\":null";
  const char *at = memmem(line.p, (size_t)(line.end - line.p), nulls, sizeof nulls - 1);
  return at ? (struct jsonslice){at, at + sizeof nulls - 1} : (struct jsonslice){0};
}
