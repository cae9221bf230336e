/* residence.c: see residence.h. */
#include "sim/residence.h"

#include <stdio.h>

static uint32_t ask(const struct simhost *h, const struct engine_prefix *prompt, bool tiers) {
  return engine_peek_prefix(replica_engine(h->replica), prompt, tiers);
}

void residence_ask(const struct simhost *h, const struct engine_prefix *prompt,
                   struct residence *out) {
  *out =
      (struct residence){.captured = ask(h, prompt, true), .captured_pool = ask(h, prompt, false)};
  out->available = out->captured;
  out->available_pool = out->captured_pool;
  const struct simhost *best = out->captured ? h : NULL, *other;
  for (size_t i = 0; h->peer && (other = h->peer(h->peer_user, i)); i++) {
    if (other == h || simhost_gone(other))
      continue;
    uint32_t all = ask(other, prompt, true), pool = ask(other, prompt, false);
    if (pool > out->available_pool)
      out->available_pool = pool;
    if (all <= out->available)
      continue;
    out->available = all;
    best = other;
  }
  if (best)
    snprintf(out->best, sizeof out->best, "%s", best->id);
}
