/* prom.h: what a /metrics page says: Prometheus text 0.0.4 and, near enough to read it,
 * OpenMetrics.
 *
 * Pure, one pass: each sample and each TYPE line is told as it is found, with the wire name of the
 * series kept. The reader is lenient, as a scrape has to be: a line that is none is counted and
 * skipped, the rest holds. Rules: shared/fixtures/prometheus/README.md. Families, units, exemplars
 * and what a strict reader would refuse are not told. */
#ifndef TEXT_PROM_H
#define TEXT_PROM_H

#include "base/base.h"

#define PROM_MAX_LABELS 64 /* of one sample; a line with more is an error line */

struct prom_text {
  const char *data; /* unescaped; followed by a NUL, and may hold others */
  size_t len;
};

struct prom_label {
  struct prom_text name, value;
};

struct prom_sample {
  struct prom_text name;
  const struct prom_label *labels; /* in the line's order */
  size_t n_labels;
  double value; /* NaN and the infinities included */
  bool has_time;
  int64_t time_ms; /* since 1970 */
};

struct prom_handler {
  /* What they get dies with the call. NULL: not told. */
  void (*on_sample)(void *user, const struct prom_sample *sample);
  void (*on_type)(void *user, const struct prom_text *family, const struct prom_text *type);
  void *user;
};

struct prom_counts {
  size_t samples, error_lines, first_error; /* first_error: 1-based line, 0 = none */
};

/* Reads the whole page. `openmetrics`: timestamps are seconds, and `# EOF` ends it. Samples of a
 * series that was there already are told too: the first one holds. */
struct prom_counts prom_parse(const char *text, size_t len, bool openmetrics,
                              const struct prom_handler *handler);

/* The label's value, NULL when there is none of that name. */
const char *prom_label_value(const struct prom_sample *s, const char *name);

#endif
