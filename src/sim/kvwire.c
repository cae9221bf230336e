/* kvwire.c: see kvwire.h. */
#include "sim/kvwire.h"

#include <msgpack.h>
#include <string.h>

#include "base/mem.h"
#include "kv/pubhash.h"

static int put(void *data, const char *bytes, size_t len) {
  buf_put(data, bytes, len);
  return 0;
}

static msgpack_packer packer(struct buf *b) {
  msgpack_packer pk;
  msgpack_packer_init(&pk, b, put);
  return pk;
}

static void put_text(msgpack_packer *pk, const char *text) {
  if (!text) {
    msgpack_pack_nil(pk);
    return;
  }
  size_t len = strlen(text);
  msgpack_pack_str(pk, len);
  msgpack_pack_str_body(pk, text, len);
}

static void put_hash(msgpack_packer *pk, const struct kvwire *w, const uint8_t *hash) {
  if (!hash) {
    msgpack_pack_nil(pk);
  } else if (w->encoding == KVWIRE_SGLANG) {
    msgpack_pack_int64(pk, pubhash_sglang_number(hash));
  } else if (w->raw_hashes) {
    msgpack_pack_bin(pk, w->width);
    msgpack_pack_bin_body(pk, hash, w->width);
  } else {
    uint64_t number = 0;
    for (size_t i = w->width - 8; i < w->width; i++)
      number = number << 8 | hash[i];
    msgpack_pack_uint64(pk, number);
  }
}

static void put_hashes(msgpack_packer *pk, const struct kvwire *w, const uint8_t *hashes,
                       size_t n) {
  msgpack_pack_array(pk, n);
  for (size_t i = 0; i < n; i++)
    put_hash(pk, w, hashes + i * w->width);
}

/* One entry a block: what its hash was made of beside tokens. */
static void put_extra_keys(msgpack_packer *pk, const struct kvwire_stored *s) {
  msgpack_pack_array(pk, s->n_hashes);
  for (size_t i = 0; i < s->n_hashes; i++) {
    const char *salt = i == 0 ? s->salt : NULL;
    size_t n = (s->lora_name ? 1u : 0u) + (salt ? 1u : 0u);
    if (!n) {
      msgpack_pack_nil(pk);
      continue;
    }
    msgpack_pack_array(pk, n);
    if (s->lora_name)
      put_text(pk, s->lora_name);
    if (salt)
      put_text(pk, salt);
  }
}

/* An event of n fields: the head of its map or array, with the tag. */
static void put_head(msgpack_packer *pk, const struct kvwire *w, const char *tag, size_t n) {
  if (w->encoding == KVWIRE_MAP) {
    msgpack_pack_map(pk, n + 1);
    put_text(pk, "type");
  } else {
    msgpack_pack_array(pk, n + 1);
  }
  put_text(pk, tag);
}

static void put_name(msgpack_packer *pk, const struct kvwire *w, const char *name) {
  if (w->encoding == KVWIRE_MAP)
    put_text(pk, name);
}

/* An array of 3, a float64, an array: the time lies behind two bytes. */
enum { TIME_AT = 2 };

void kvwire_begin(struct buf *b, size_t n) {
  msgpack_packer pk = packer(b);
  msgpack_pack_array(&pk, 3);
  msgpack_pack_double(&pk, 0);
  msgpack_pack_array(&pk, n);
}

void kvwire_set_time(struct buf *b, size_t at, double seconds) {
  uint64_t bits;
  memcpy(&bits, &seconds, sizeof bits);
  assert(at + TIME_AT + sizeof bits <= b->len);
  kvwire_put_sequence((uint8_t *)b->data + at + TIME_AT, bits);
}

void kvwire_add_stored(struct buf *b, const struct kvwire *w, const struct kvwire_stored *s) {
  msgpack_packer pk = packer(b);
  bool sglang = w->encoding == KVWIRE_SGLANG;
  put_head(&pk, w, "BlockStored", sglang ? (s->salt ? 7 : 6) : s->has_keys ? 10 : 7);
  put_name(&pk, w, "block_hashes");
  put_hashes(&pk, w, s->hashes, s->n_hashes);
  put_name(&pk, w, "parent_block_hash");
  put_hash(&pk, w, s->parent);
  put_name(&pk, w, "token_ids");
  size_t n_tokens = s->n_hashes * s->block_size;
  msgpack_pack_array(&pk, n_tokens);
  for (size_t i = 0; i < n_tokens; i++)
    msgpack_pack_uint32(&pk, s->tokens[i]);
  put_name(&pk, w, "block_size");
  msgpack_pack_uint32(&pk, s->block_size);
  put_name(&pk, w, "lora_id");
  if (s->lora_id)
    msgpack_pack_uint32(&pk, s->lora_id);
  else
    msgpack_pack_nil(&pk);
  put_name(&pk, w, "medium");
  put_text(&pk, s->medium);
  if (sglang) { /* what is a default at the end is left out */
    if (s->salt) {
      msgpack_pack_map(&pk, 1);
      put_text(&pk, "cache_salt");
      put_text(&pk, s->salt);
    }
    return;
  }
  put_name(&pk, w, "lora_name");
  put_text(&pk, s->lora_name);
  if (!s->has_keys)
    return;
  put_name(&pk, w, "extra_keys");
  put_extra_keys(&pk, s);
  put_name(&pk, w, "group_idx");
  msgpack_pack_uint32(&pk, 0);
  put_name(&pk, w, "kv_cache_spec_kind");
  put_text(&pk, "full_attention");
}

void kvwire_add_removed(struct buf *b, const struct kvwire *w, const uint8_t *hashes,
                        size_t n_hashes, const char *medium, bool has_group) {
  msgpack_packer pk = packer(b);
  has_group = has_group && w->encoding != KVWIRE_SGLANG;
  put_head(&pk, w, "BlockRemoved", has_group ? 3 : 2);
  put_name(&pk, w, "block_hashes");
  put_hashes(&pk, w, hashes, n_hashes);
  put_name(&pk, w, "medium");
  put_text(&pk, medium);
  if (!has_group)
    return;
  put_name(&pk, w, "group_idx");
  msgpack_pack_uint32(&pk, 0);
}

void kvwire_add_cleared(struct buf *b, const struct kvwire *w) {
  msgpack_packer pk = packer(b);
  put_head(&pk, w, "AllBlocksCleared", 0);
}

void kvwire_end(struct buf *b, uint32_t data_parallel_rank) {
  msgpack_packer pk = packer(b);
  msgpack_pack_uint32(&pk, data_parallel_rank);
}

/* ---- replay ---- */

void kvwire_put_sequence(uint8_t out[KVWIRE_SEQUENCE_BYTES], uint64_t sequence) {
  sequence = __builtin_bswap64(sequence);
  memcpy(out, &sequence, sizeof sequence);
}

bool kvwire_read_sequence(const uint8_t *frame, size_t len, uint64_t *out) {
  if (len > KVWIRE_SEQUENCE_BYTES)
    return false;
  *out = 0;
  for (size_t i = 0; i < len; i++)
    *out = *out << 8 | frame[i];
  return true;
}
