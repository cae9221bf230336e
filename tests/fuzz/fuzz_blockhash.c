/* fuzz_blockhash.c: any scheme, options and input. Options that are refused must say why; an input
 * in pieces, or through a fork, must give what it gives as a whole.
 *
 * Input: scheme, piece length, length of the options, the options (JSON), then ids or text. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv/blockhash_chain.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

/* What makes every scheme open when the fuzzer's own options do not. */
static const char *const usual[] = {
    "{\"block_size\":3}",
    ("{\"block_size\":2,\"seed\":\"0\",\"lora_name\":\"l\",\"mm_form\":\"tuple\","
     "\"mm\":[{\"identifier\":\"a\",\"offset\":1,\"length\":5}]}"),
    "{\"block_size\":2,\"seed\":\"0\",\"algorithm\":\"sha256\",\"save_unfull_chunk\":true}",
    "{\"block_size\":2,\"none_hash\":\"0\",\"save_unfull_chunk\":true}",
    "{\"block_size\":2,\"seed\":\"0\"}",
    "{\"block_size\":2,\"model\":\"m\"}",
    "{\"block_size\":8,\"model\":\"m\",\"variant\":\"gie-v0.5\"}",
    "{\"block_size\":3,\"seed\":7}",
    "{\"block_size\":5,\"variant\":\"python\"}",
    "{}",
};

static struct blockhash_chain *open_any(const char *scheme, const uint8_t *json, size_t len) {
  struct blockhash_chain *c = NULL;
  struct value options;
  struct err err = {0};
  if (json_parse((const char *)json, len, &options, &err) == 0) {
    err.text[0] = '\0';
    if (blockhash_chain_open(scheme, &options, &c, &err))
      require(c == NULL && err.text[0]);
    value_free(&options);
  }
  for (size_t i = 0; !c && i < ARRAY_LEN(usual); i++) {
    require(json_parse(usual[i], strlen(usual[i]), &options, &err) == 0);
    if (blockhash_chain_open(scheme, &options, &c, &err))
      require(err.text[0] != '\0');
    value_free(&options);
  }
  require(c != NULL);
  return c;
}

/* Ids or text, whichever the scheme takes; false: it cannot be hashed, and why is said. */
static bool add(struct blockhash_chain *c, const uint8_t *data, size_t len) {
  struct err err = {0};
  int rc;
  if (strcmp(blockhash_scheme_input(blockhash_chain_scheme(c)), "text") == 0) {
    rc = blockhash_chain_add_text(c, (const char *)data, len, &err);
  } else {
    size_t n = len / sizeof(uint32_t);
    uint32_t *ids = mem_calloc(n, sizeof *ids);
    memcpy(ids, data, n * sizeof *ids);
    rc = blockhash_chain_add(c, ids, n, &err);
    mem_free(ids);
  }
  require(rc == 0 || (rc == ERR_INVALID && err.text[0]));
  return rc == 0;
}

static void require_same(struct blockhash_chain *a, struct blockhash_chain *b) {
  char x[BLOCKHASH_MAX_TEXT], y[BLOCKHASH_MAX_TEXT];
  const struct blockhash_scheme *s = blockhash_chain_scheme(a);
  size_t n = blockhash_chain_count(a);
  require(n == blockhash_chain_count(b));
  const char *name = "block_hashes";
  for (size_t k = 0; name; name = blockhash_scheme_field(s, k++)) {
    struct err err;
    int field;
    bool list;
    require(blockhash_chain_field(a, name, &field, &list, &err) == 0);
    for (size_t i = 0; i < (list ? n : 1); i++) {
      size_t len = blockhash_chain_text(a, field, i, x);
      require(len == strlen(x) && len < sizeof x);
      blockhash_chain_text(b, field, i, y);
      require(strcmp(x, y) == 0);
    }
  }
}

/* The input's first `len` bytes may be cut here: between ids, between characters. */
static size_t cut_at(const uint8_t *data, size_t size, size_t at) {
  at -= at % sizeof(uint32_t);
  while (at < size && (data[at] & 0xc0) == 0x80)
    at++;
  return at < size ? at : size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3)
    return 0;
  size_t n_schemes = 0;
  while (blockhash_scheme_at(n_schemes))
    n_schemes++;
  const char *scheme = blockhash_scheme_name(blockhash_scheme_at(data[0] % n_schemes));
  size_t piece = data[1] + (size_t)1, n_options = data[2];
  data += 3;
  size -= 3;
  if (n_options > size)
    n_options = size;
  struct blockhash_chain *whole = open_any(scheme, data, n_options);
  struct blockhash_chain *parts = blockhash_chain_fork(whole);
  data += n_options;
  size -= n_options;
  bool text = strcmp(blockhash_scheme_input(blockhash_chain_scheme(whole)), "text") == 0;
  if (!text)
    size -= size % sizeof(uint32_t);
  if (add(whole, data, size)) {
    for (size_t at = 0, end; at < size; at = end) {
      end = text ? cut_at(data, size, at + piece + 3) : at + piece * sizeof(uint32_t);
      if (end > size)
        end = size;
      require(add(parts, data + at, end - at));
      if (piece % 2)
        blockhash_chain_count(parts);
      if (piece % 3 == 0) { /* go on with a fork; what it leaves takes another way */
        struct blockhash_chain *f = blockhash_chain_fork(parts);
        require(add(parts, (const uint8_t *)"abcdabcd", 8));
        blockhash_chain_delete(parts);
        parts = f;
      }
    }
    require_same(whole, parts);
  }
  blockhash_chain_delete(whole);
  blockhash_chain_delete(parts);
  return 0;
}
