/* genopen.c: see genopen.h; generation_open and generation_adapters: generation.h. */
#include "sim/genopen.h"

#include <string.h>

#include "sim/generation.h"

size_t generation_open(const struct simhost *h) {
  size_t n = 0;
  for (const struct generation *x = h->open; x; x = x->next)
    n++;
  return n;
}

/* Adds the name to a list with commas, once. */
static void add_name(struct buf *list, const char *name) {
  size_t len = strlen(name);
  for (const char *p = list->data; list->len && p; p = strchr(p, ',')) {
    p += *p == ',';
    if (strncmp(p, name, len) == 0 && (!p[len] || p[len] == ','))
      return;
  }
  buf_printf(list, "%s%s", list->len ? "," : "", name);
}

void generation_adapters(const struct simhost *h, struct buf *running, struct buf *waiting) {
  for (const struct generation *x = h->open; x; x = x->next)
    for (uint32_t i = 0; x->gen.adapter && i < x->n_parts; i++)
      if (x->parts[i].in_engine)
        add_name(x->parts[i].seq.scheduled_ns ? running : waiting, x->gen.adapter);
}

int genopen_room(const struct generation *x, struct apierror *e) {
  const struct simhost_flags *f = &x->host->flags;
  uint64_t choices = 0, tokens = 0;
  if (!f->max_queued_reqs && !f->max_queued_tokens)
    return 0;
  for (const struct generation *o = x->host->open; o; o = o->next)
    for (uint32_t i = 0; o != x && o->has_gen && i < o->gen.n_choices; i++) {
      bool queued = !o->n_parts, in = o->n_parts > i && o->parts[i].in_engine;
      choices += queued || in;
      tokens += queued || (in && !o->parts[i].seq.first_ns) ? o->gen.choices[i].prompt_len : 0;
    }
  bool many = f->max_queued_reqs && choices + x->gen.n_choices > f->max_queued_reqs;
  if (!many && !(f->max_queued_tokens && tokens >= f->max_queued_tokens))
    return 0;
  replica_count_rejection(x->host->replica, many);
  return many ? apierror_set(e, 503, NULL,
                             "Too many requests are queued: %llu, the limit is %u. Please retry "
                             "later.",
                             (unsigned long long)choices, f->max_queued_reqs)
              : apierror_set(e, 503, NULL,
                             "Too many prompt tokens are queued: %llu, the limit is %u. Please "
                             "retry later.",
                             (unsigned long long)tokens, f->max_queued_tokens);
}
