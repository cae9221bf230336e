/* blockhash_scheme.c: the list of all schemes, and what can be asked about one. */
#include "kv/blockhash_scheme.h"

static const struct blockhash_scheme *const families[] = {
    blockhash_schemes_xxh3,  blockhash_schemes_vllm,   blockhash_schemes_llmd,
    blockhash_schemes_xxh64, blockhash_schemes_digest, blockhash_schemes_python,
};

const struct blockhash_scheme *blockhash_scheme_at(size_t i) {
  for (size_t f = 0; f < ARRAY_LEN(families); f++)
    for (const struct blockhash_scheme *s = families[f]; s->name; s++)
      if (i-- == 0)
        return s;
  return NULL;
}

const struct blockhash_scheme *blockhash_scheme_find(const char *name) {
  const struct blockhash_scheme *s;
  for (size_t i = 0; (s = blockhash_scheme_at(i)); i++)
    if (strcmp(s->name, name) == 0)
      return s;
  return NULL;
}

const char *blockhash_scheme_name(const struct blockhash_scheme *s) {
  return s->name;
}

const char *blockhash_scheme_about(const struct blockhash_scheme *s) {
  return s->about;
}

const char *blockhash_scheme_input(const struct blockhash_scheme *s) {
  if (!(s->takes & TAKES_TEXT))
    return "tokens";
  return s->takes & TAKES_TOKENS ? "tokens or text" : "text";
}

uint32_t blockhash_scheme_block_size(const struct blockhash_scheme *s) {
  return s->block_size;
}

const char *blockhash_scheme_field(const struct blockhash_scheme *s, size_t i) {
  for (const struct blockhash_field *f = s->fields; f && f->name; f++)
    if (i-- == 0)
      return f->name;
  return NULL;
}
