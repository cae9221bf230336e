/* fuzz_prom.c: any bytes as a metrics page: what is told lies inside the page and is counted, and
 * the first byte says which format. */
#include "text/prom.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static void on_sample(void *user, const struct prom_sample *s) {
  size_t *n = user;
  ++*n;
  require(s->name.len > 0 || s->name.data[0] == '\0');
  require(s->n_labels <= PROM_MAX_LABELS);
  for (size_t i = 0; i < s->n_labels; i++) {
    require(s->labels[i].name.data[s->labels[i].name.len] == '\0');
    require(s->labels[i].value.data[s->labels[i].value.len] == '\0');
  }
}

static void on_type(void *user, const struct prom_text *family, const struct prom_text *type) {
  (void)user;
  require(family->data[family->len] == '\0' && type->data[type->len] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1)
    return 0;
  size_t told = 0, lines = 1;
  const char *text = (const char *)data + 1;
  for (size_t i = 1; i < size; i++)
    lines += data[i] == '\n';
  struct prom_handler handler = {on_sample, on_type, &told};
  struct prom_counts counts = prom_parse(text, size - 1, data[0] & 1, &handler);
  require(counts.samples == told && counts.samples + counts.error_lines <= lines);
  require((counts.first_error > 0) == (counts.error_lines > 0) && counts.first_error <= lines);
  return 0;
}
