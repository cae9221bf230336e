/* tokenize_speed.c: how fast a tokenizer is, on one thread.
 * Usage: tokenize_speed FILE FAMILY|- text TEXTFILE SECONDS [DOC_BYTES]   -> {"mbs", "tokens",
 * "fnv"} tokenize_speed FILE FAMILY|- worst KIND SECONDS   -> {"ns_per_byte": [1 KB, 10 KB ... 10
 * MB]} tokenize_speed FILE FAMILY|- load 1 1             -> {"seconds"} The text is encoded in
 * documents of DOC_BYTES (4096), over and over, by one encoder; MB are 10^6 bytes, time is the
 * thread's CPU. KIND is a string that is repeated, or @random for letters. */
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

static void worst(const struct tokens *t, const char *kind, double seconds) {
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct tokens_list ids = {0};
  struct err err;
  size_t max = 10000000, piece = strlen(kind);
  char *text = mem_alloc(max);
  uint32_t x = 12345;
  for (size_t i = 0; i < max; i++) {
    x = x * 1664525 + 1013904223;
    text[i] = strcmp(kind, "@random") == 0 ? (char)('a' + (x >> 16) % 26) : kind[i % piece];
  }
  printf("{\"ns_per_byte\": [");
  for (size_t size = 1000; size <= max; size *= 10) {
    uint64_t start = clock_thread_cpu_ns(), spent = 0, bytes = 0;
    size_t len = size; /* whole characters */
    while (len && ((unsigned char)text[len] & 0xc0) == 0x80 && len < max)
      len--;
    do {
      ids.n = 0;
      must(tokens_encoder_encode(e, text, len, &with_special, &ids, &err), &err);
      bytes += len;
      spent = clock_thread_cpu_ns() - start;
    } while (spent < (uint64_t)(seconds * 1e9));
    printf("%s%.2f", size == 1000 ? "" : ", ", (double)spent / (double)bytes);
  }
  printf("]}\n");
  mem_free(text);
  tokens_list_free(&ids);
  tokens_encoder_delete(e);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr,
            "usage: tokenize_speed FILE FAMILY|- text|worst|load WHAT SECONDS [DOC_BYTES]\n");
    return 2;
  }
  struct tokens_load_options options = {strcmp(argv[2], "-") == 0 ? NULL : argv[2]};
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
