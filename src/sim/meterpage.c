/* meterpage.c: see meterpage.h. */
#include "sim/meterpage.h"

#include <string.h>

#include "text/json.h"

void meterpage_label(struct buf *out, const char *text) {
  for (const char *p = text; *p; p++) {
    if (*p == '\\' || *p == '"')
      buf_putc(out, '\\');
    if (*p == '\n')
      buf_puts(out, "\\n");
    else
      buf_putc(out, *p);
  }
}

void meterpage_init(struct meterpage *w, const char *model, double created_s, struct buf *out) {
  *w = (struct meterpage){.out = out, .lead = "", .tail = "", .created_s = created_s};
  buf_init(&w->model, BUF_MAX_OWN);
  buf_puts(&w->model, "");
  meterpage_label(&w->model, model);
}

void meterpage_free(struct meterpage *w) {
  buf_free(&w->model);
}

/* A float as prometheus_client prints it: Python's repr, with an exponent from 1e+06 on. */
void meterpage_value(struct buf *out, double x) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write_double(&b, x);
  const char *dot = memchr(b.data, '.', b.len);
  size_t whole = dot ? (size_t)(dot - b.data) : 0;
  if (x > 0 && whole > 6 && !memchr(b.data, 'e', b.len)) {
    struct buf digits;
    buf_init(&digits, BUF_MAX_OWN);
    buf_put(&digits, b.data, whole);
    buf_put(&digits, dot + 1, b.len - whole - 1);
    size_t len = digits.len;
    while (len > 1 && digits.data[len - 1] == '0')
      len--;
    buf_putc(out, digits.data[0]);
    if (len > 1) {
      buf_putc(out, '.');
      buf_put(out, digits.data + 1, len - 1);
    }
    buf_printf(out, "e+%02zu", whole - 1);
    buf_free(&digits);
  } else {
    buf_put(out, b.data, b.len);
  }
  buf_free(&b);
}

void meterpage_head(struct meterpage *w, const char *name, const char *suffix, const char *type,
                    const char *help) {
  buf_printf(w->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

void meterpage_sample(struct meterpage *w, const char *name, const char *suffix, const char *before,
                      const char *after, double x) {
  size_t len = strlen(before);
  if (!w->plain)
    buf_printf(w->out, "%s%s{%s%smodel_name=\"%s\"%s%s} ", name, suffix, w->lead, before,
               w->model.data, after, w->tail);
  else if (len) /* its last comma has nothing behind it */
    buf_printf(w->out, "%s%s{%.*s} ", name, suffix, (int)len - 1, before);
  else
    buf_printf(w->out, "%s%s ", name, suffix);
  meterpage_value(w->out, x);
  buf_putc(w->out, '\n');
}

void meterpage_gauge(struct meterpage *w, const char *name, const char *help, double x) {
  meterpage_head(w, name, "", "gauge", help);
  meterpage_sample(w, name, "", "", "", x);
}

void meterpage_counters(struct meterpage *w, const char *name, const char *help,
                        const char *const *before, const char *const *after, const uint64_t *x,
                        size_t n) {
  const char *total = w->plain ? "" : "_total";
  meterpage_head(w, name, total, "counter", help);
  for (size_t i = 0; i < n; i++)
    meterpage_sample(w, name, total, before ? before[i] : "", after ? after[i] : "", (double)x[i]);
  if (w->plain)
    return;
  meterpage_head(w, name, "_created", "gauge", help);
  for (size_t i = 0; i < n; i++)
    meterpage_sample(w, name, "_created", before ? before[i] : "", after ? after[i] : "",
                     w->created_s);
}

void meterpage_counter(struct meterpage *w, const char *name, const char *help, uint64_t x) {
  meterpage_counters(w, name, help, NULL, NULL, &x, 1);
}

/* The samples of one label set. */
static void put_hist(struct meterpage *w, const char *name, const struct meter_edges *e,
                     const struct meter_counts *h, const char *labels) {
  uint64_t total = 0;
  struct buf le;
  buf_init(&le, BUF_MAX_OWN);
  for (uint32_t i = 0; i <= e->n; i++) {
    buf_reset(&le);
    buf_puts(&le, "le=\"");
    if (i < e->n)
      meterpage_value(&le, e->edges[i]);
    else
      buf_puts(&le, "+Inf");
    buf_puts(&le, "\",");
    total += h->buckets[i];
    meterpage_sample(w, name, "_bucket", le.data, labels, (double)total);
  }
  buf_free(&le);
  meterpage_sample(w, name, "_count", "", labels, (double)h->count);
  meterpage_sample(w, name, "_sum", "", labels, h->sum);
}

void meterpage_hists(struct meterpage *w, const struct meter_spec *spec,
                     const struct meter_edges *e, const struct meter_counts *const *h,
                     const char *const *after, size_t n) {
  meterpage_head(w, spec->name, "", "histogram", spec->help);
  for (size_t i = 0; i < n; i++)
    put_hist(w, spec->name, e, h[i], after ? after[i] : "");
  if (w->plain)
    return;
  meterpage_head(w, spec->name, "_created", "gauge", spec->help);
  for (size_t i = 0; i < n; i++)
    meterpage_sample(w, spec->name, "_created", "", after ? after[i] : "", w->created_s);
}

void meterpage_hist(struct meterpage *w, const struct meter_spec *spec, const struct meter_edges *e,
                    const struct meter_counts *h) {
  meterpage_hists(w, spec, e, &h, NULL, 1);
}
