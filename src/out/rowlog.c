/* rowlog.c: see rowlog.h. */
#include "out/rowlog.h"

#include <string.h>

#include "text/jsonfields.h"

#define STAMP_FIELD(key, stamp)                                                                    \
  { (key), sizeof(key) - 1, JSONFIELD_STAMP, (stamp) * sizeof(uint64_t), NULL }

static const char *read_times(const char *p, const char *end, void *out) {
  static const struct jsonfield fields[] = {
      STAMP_FIELD("sched", STAMP_SCHED),
      STAMP_FIELD("start", STAMP_START),
      STAMP_FIELD("connected", STAMP_CONNECTED),
      STAMP_FIELD("sent", STAMP_SENT),
      STAMP_FIELD("headers", STAMP_HEADERS),
      STAMP_FIELD("first_byte", STAMP_FIRST_BYTE),
      STAMP_FIELD("first_token", STAMP_FIRST_TOKEN),
      STAMP_FIELD("last_token", STAMP_LAST_TOKEN),
      STAMP_FIELD("done", STAMP_DONE),
  };
  return jsonfields_read(fields, ARRAY_LEN(fields), p, end, ((struct rowlog *)out)->t);
}

bool rowlog_read(struct jsonslice line, struct rowlog *r) {
#define FIELD(key, kind, member) JSONFIELD(key, JSONFIELD_##kind, struct rowlog, member)
  static const struct jsonfield fields[] = {
      FIELD("session", STAMP, session),
      FIELD("turn", INT, turn),
      FIELD("step", INT, step),
      JSONFIELD_BY("t", read_times),
      FIELD("error", STRING, error),
      FIELD("prompt_tokens", INT, prompt_tokens),
      FIELD("output_tokens", INT, output_tokens),
      FIELD("cached_tokens", INT, cached_tokens),
      FIELD("output_events", INT, output_events),
      FIELD("itl_ns", RAW, itl),
      FIELD("chosen", STRING, chosen),
      FIELD("served", STRING, served),
      FIELD("measured", TRUE, measured),
      FIELD("generation", TRUE, generation),
      FIELD("streamed", TRUE, streamed),
      FIELD("reconnects", INT, reconnects),
      FIELD("first_visible", STAMP, first_visible),
      FIELD("first_tokens", INT, first_tokens),
      FIELD("request_id", STRING, request_id),
  };
#undef FIELD
  *r = (struct rowlog){.first_visible = SAMPLE_NEVER};
  for (int i = 0; i < STAMP_COUNT; i++)
    r->t[i] = SAMPLE_NEVER;
  r->turn = r->step = r->prompt_tokens = r->output_tokens = r->cached_tokens = -1;
  r->first_tokens = r->output_events = -1;
  if (jsonfields_read(fields, ARRAY_LEN(fields), line.p, line.end, r) != line.end)
    return false;
  if (r->itl.p && *r->itl.p != '[')
    r->itl = (struct jsonslice){0};
  return true;
}

struct jsonslice rowlog_ledger(struct jsonslice line) {
  static const char nulls[] =
      "\"possible\":null,\"available\":null,\"captured\":null,\"delivered\":"
      "null,\"ledger_source\":null,\"causes\":null,\"class\":null";
  const char *at = memmem(line.p, (size_t)(line.end - line.p), nulls, sizeof nulls - 1);
  return at ? (struct jsonslice){at, at + sizeof nulls - 1} : (struct jsonslice){0};
}
