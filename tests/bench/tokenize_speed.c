/* tokenize_speed.c: how fast a tokenizer is, on one thread. FILE FAMILY|- and then
 *   text TEXTFILE SECONDS [DOC_BYTES]   -> {"mbs", "tokens", "fnv"}
 *   worst KIND SECONDS                  -> {"ns_per_byte": [1 KB, 10 KB ... 10 MB]}
 *   load 1 1                            -> {"seconds"}
 * MB are 10^6 bytes, time is the thread's CPU. `text` encodes the file in documents of DOC_BYTES
 * (4096), over and over, by one encoder: SECONDS 0 is one pass. `worst` makes one text per size of
 * KIND, a string that is repeated, or @random for letters. Every run of it is cold: by a new
 * encoder, which remembers no piece, after another text has gone through, so that no branch is
 * foreseen from the run before; only the encoding is timed. A figure is the quickest of the runs
 * that SECONDS allow, 2 to 31. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/tokens.h"

#include "readfile.h"

static struct tokens_options with_special = {.special = true};

static void must(int rc, const struct err *err) {
  if (!rc)
    return;
  fprintf(stderr, "tokenize_speed: %s\n", err->text);
  exit(1);
}

static void text_speed(const struct tokens *t, const char *path, double seconds, size_t doc) {
  size_t len, bytes = 0, n = 0;
  char *text = read_file(path, &len);
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct tokens_list ids = {0};
  struct err err;
  uint64_t fnv = UINT64_C(0xcbf29ce484222325), start = clock_thread_cpu_ns(), spent = 0;
  for (int pass = 0; pass == 0 || spent < (uint64_t)(seconds * 1e9); pass++) {
    for (size_t at = 0; at < len;) {
      size_t end = at + doc < len ? at + doc : len;
      while (end < len && ((unsigned char)text[end] & 0xc0) == 0x80)
        end++;
      ids.n = 0;
      must(tokens_encoder_encode(e, text + at, end - at, &with_special, &ids, &err), &err);
      if (pass == 0) {
        n += ids.n;
        for (size_t i = 0; i < ids.n; i++)
          fnv = (fnv ^ ids.ids[i]) * UINT64_C(0x100000001b3);
      }
      at = end;
    }
    bytes += len;
    spent = clock_thread_cpu_ns() - start;
  }
  printf("{\"mbs\": %.2f, \"tokens\": %zu, \"fnv\": \"%016llx\"}\n",
         (double)bytes * 1e3 / (double)spent, n, (unsigned long long)fnv);
  tokens_list_free(&ids);
  tokens_encoder_delete(e);
  mem_free(text);
}

static void letters(char *text, size_t n, uint32_t x) {
  for (size_t i = 0; i < n; i++) {
    x = x * 1664525 + 1013904223;
    text[i] = (char)('a' + (x >> 16) % 26);
  }
}

/* One cold run over a text: nanoseconds. */
static uint64_t cold(const struct tokens *t, const char *text, size_t len,
                     struct tokens_list *ids) {
  static char other[5000];
  static uint32_t seed;
  struct err err;
  struct tokens_encoder *e = tokens_encoder_new(t);
  ids->n = 0;
  letters(other, sizeof other, seed++);
  must(tokens_encoder_encode(e, other, sizeof other, &with_special, ids, &err), &err);
  tokens_encoder_delete(e);
  e = tokens_encoder_new(t);
  ids->n = 0;
  uint64_t start = clock_thread_cpu_ns();
  must(tokens_encoder_encode(e, text, len, &with_special, ids, &err), &err);
  uint64_t spent = clock_thread_cpu_ns() - start;
  tokens_encoder_delete(e);
  return spent;
}

static void worst(const struct tokens *t, const char *kind, double seconds) {
  struct tokens_list ids = {0};
  size_t max = 10000000, piece = strlen(kind);
  char *text = mem_alloc(max);
  for (size_t i = 0; i < max; i++)
    text[i] = kind[i % piece];
  bool random = strcmp(kind, "@random") == 0;
  if (random)
    letters(text, max, 12345);
  printf("{\"ns_per_byte\": [");
  for (size_t size = 1000; size <= max; size *= 10) {
    uint64_t spent = 0, quickest = UINT64_MAX;
    size_t len = size; /* whole characters */
    while (len && ((unsigned char)text[len] & 0xc0) == 0x80 && len < max)
      len--;
    for (int n = 0; n < 2 || (n < 31 && spent < (uint64_t)(seconds * 1e9)); n++) {
      size_t at = random ? (size_t)n * 999983 % (max - len + 1) : 0; /* each run another text */
      uint64_t one = cold(t, text + at, len, &ids);
      quickest = one < quickest ? one : quickest;
      spent += one;
    }
    printf("%s%.2f", size == 1000 ? "" : ", ", (double)quickest / (double)len);
  }
  printf("]}\n");
  mem_free(text);
  tokens_list_free(&ids);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: tokenize_speed FILE FAMILY|- text|worst|load WHAT SECONDS [DOC_BYTES]\n");
    return 2;
  }
  struct tokens_load_options options = {.family = strcmp(argv[2], "-") == 0 ? NULL : argv[2]};
  const struct tokens *t;
  struct err err;
  uint64_t start = clock_thread_cpu_ns();
  must(tokens_load(argv[1], &options, &t, &err), &err);
  double loaded = (double)(clock_thread_cpu_ns() - start) / 1e9;
  if (strcmp(argv[3], "load") == 0)
    printf("{\"seconds\": %.4f}\n", loaded);
  else if (strcmp(argv[3], "worst") == 0)
    worst(t, argv[4], atof(argv[5]));
  else
    text_speed(t, argv[4], atof(argv[5]), argc > 6 ? (size_t)atol(argv[6]) : 4096);
  tokens_close(t);
  return 0;
}
