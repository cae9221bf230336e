/* ledger.c: see ledger.h. Causes are pieces of the prompt from its front: each figure takes the
 * tokens between what was taken before and itself. */
#include "out/ledger.h"

const char *ledger_cause_name(int cause) {
  static const char *const names[] = {[LEDGER_HBM] = "hbm",
                                      [LEDGER_OFFLOAD] = "offload",
                                      [LEDGER_SHARED] = "shared",
                                      [LEDGER_TRANSFER] = "transfer",
                                      [LEDGER_CACHED] = "cached",
                                      [LEDGER_RECOMPUTED] = "recomputed",
                                      [LEDGER_STALE_INDEX] = "stale_index",
                                      [LEDGER_WRONG_POD] = "wrong_pod",
                                      [LEDGER_EVICTED] = "evicted",
                                      [LEDGER_NEW] = "new",
                                      [LEDGER_UNKNOWN] = "unknown",
                                      [LEDGER_COLD] = "cold"};
  return names[cause];
}

static void cap(int64_t *figure, int64_t most) {
  if (*figure > most)
    *figure = most;
}

void ledger_cap(struct ledger *l) {
  int64_t most = l->prompt > 0 ? (l->prompt - 1) / l->block_size * l->block_size : 0;
  cap(&l->possible, most);
  cap(&l->available, most);
  cap(&l->captured, most);
  cap(&l->delivered, most);
  cap(&l->claimed, most);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The delivered tokens by source, as far as `end`: the pool's stand before what was loaded. */
static void split_delivered(const struct ledger *l, int64_t end, int64_t causes[LEDGER_CAUSES]) {
  bool told = l->offload >= 0 && l->shared >= 0 && l->transfer >= 0;
  if (!told) {
    causes[LEDGER_CACHED] = end;
    return;
  }
  int64_t loaded = l->offload + l->shared + l->transfer;
  int64_t left = end - least(end, l->delivered > loaded ? l->delivered - loaded : 0);
  causes[LEDGER_HBM] = end - left;
  causes[LEDGER_OFFLOAD] = least(left, l->offload);
  left -= causes[LEDGER_OFFLOAD];
  causes[LEDGER_SHARED] = least(left, l->shared);
  causes[LEDGER_TRANSFER] = left - causes[LEDGER_SHARED];
}

/* The causes of the first `end` tokens. */
static void assign(const struct ledger *l, int64_t end, int64_t causes[LEDGER_CAUSES]) {
  const struct {
    int64_t figure;
    enum ledger_cause cause;
  } rest[] = {{l->captured, LEDGER_RECOMPUTED},
              {l->claimed, LEDGER_STALE_INDEX},
              {l->available, LEDGER_WRONG_POD},
              {l->possible, LEDGER_EVICTED},
              {end, LEDGER_NEW}};
  for (int i = 0; i < LEDGER_CAUSES; i++)
    causes[i] = 0;
  if (l->delivered < 0) {
    causes[LEDGER_UNKNOWN] = end;
    return;
  }
  int64_t at = least(l->delivered, end);
  split_delivered(l, at, causes);
  for (size_t i = 0; i < ARRAY_LEN(rest); i++) {
    int64_t to = least(rest[i].figure, end);
    if (to <= at)
      continue;
    causes[rest[i].cause] = to - at;
    at = to;
  }
}

void ledger_causes(const struct ledger *l, int64_t causes[LEDGER_CAUSES]) {
  assign(l, l->prompt, causes);
}

int ledger_class(const struct ledger *l) {
  int64_t causes[LEDGER_CAUSES];
  if (l->possible < 0 || l->delivered < 0)
    return LEDGER_UNKNOWN;
  if (l->possible < 8 * l->block_size || 10 * l->possible < l->prompt)
    return LEDGER_COLD;
  assign(l, l->possible, causes);
  int largest = 0;
  for (int i = 1; i < LEDGER_CAUSES; i++)
    if (causes[i] > causes[largest])
      largest = i;
  return largest;
}
