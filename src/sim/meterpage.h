/* meterpage.h: a page of metrics as prometheus_client prints it: floats with a point, `_total` and
 * a
 * `_created` gauge for counters, `_created` for histograms. */
#ifndef SIM_METERPAGE_H
#define SIM_METERPAGE_H

#include "base/buf.h"
#include "sim/meters.h"

struct meterpage {
  struct buf *out;
  struct buf model;        /* the model's name with label escapes */
  const char *lead, *tail; /* labels of every sample before and behind all others, with commas */
  bool plain;              /* no labels but `before`, no _total, no _created */
  double created_s;
};

void meterpage_init(struct meterpage *w, const char *model, double created_s, struct buf *out);
void meterpage_free(struct meterpage *w);

/* A label's value with its escapes. */
void meterpage_label(struct buf *out, const char *text);
/* A sample's value. */
void meterpage_value(struct buf *out, double x);
void meterpage_head(struct meterpage *w, const char *name, const char *suffix, const char *type,
                    const char *help);
/* One sample. `before` and `after` are labels that stand before and behind model_name, with commas.
 */
void meterpage_sample(struct meterpage *w, const char *name, const char *suffix, const char *before,
                      const char *after, double x);
void meterpage_gauge(struct meterpage *w, const char *name, const char *help, double x);
/* A counter with one label set per entry of `before` and `after` (name and value pairs ready made;
 * NULL: none). */
void meterpage_counters(struct meterpage *w, const char *name, const char *help,
                        const char *const *before, const char *const *after, const uint64_t *x,
                        size_t n);
void meterpage_counter(struct meterpage *w, const char *name, const char *help, uint64_t x);
/* A histogram with one label set per entry of `after`, as above; NULL: one, of none. */
void meterpage_hists(struct meterpage *w, const struct meter_spec *spec,
                     const struct meter_edges *e, const struct meter_counts *const *h,
                     const char *const *after, size_t n);
void meterpage_hist(struct meterpage *w, const struct meter_spec *spec, const struct meter_edges *e,
                    const struct meter_counts *h);

#endif
