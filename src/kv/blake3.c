/* blake3.c: chunks of 1024 bytes, each a chain of 64-byte blocks, joined in a binary tree whose
 * left subtrees are always full. */
#include "kv/blake3.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");

#define CHUNK_BLOCKS 16 /* of 64 bytes */

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Which message word each of the 16 places of a round takes. */
static const uint8_t schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

/* The last input of a node, before it is known whether it is the root. */
struct node {
  uint32_t cv[8];
  uint8_t block[64];
  uint64_t counter;
  uint32_t len, flags;
};

static inline uint32_t rotr(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static inline void quarter(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
  v[a] += v[b] + x;
  v[d] = rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotr(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = rotr(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = rotr(v[b] ^ v[c], 7);
}

static void compress(uint32_t cv[8], const uint8_t block[64], uint64_t counter, uint32_t len,
                     uint32_t flags) {
  uint32_t m[16];
  memcpy(m, block, sizeof m);
  uint32_t v[16] = {cv[0],
                    cv[1],
                    cv[2],
                    cv[3],
                    cv[4],
                    cv[5],
                    cv[6],
                    cv[7],
                    iv[0],
                    iv[1],
                    iv[2],
                    iv[3],
                    (uint32_t)counter,
                    (uint32_t)(counter >> 32),
                    len,
                    flags};
  for (int r = 0; r < 7; r++) {
    const uint8_t *s = schedule[r];
    quarter(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    quarter(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    quarter(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    quarter(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    quarter(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    quarter(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    quarter(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    quarter(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (int i = 0; i < 8; i++)
    cv[i] = v[i] ^ v[i + 8];
}

static void start_chunk(struct blake3 *h) {
  memcpy(h->cv, iv, sizeof iv);
  h->n_block = h->n_blocks = 0;
}

void blake3_init(struct blake3 *h) {
  h->chunks = 0;
  h->depth = 0;
  start_chunk(h);
}

static uint32_t start_flag(const struct blake3 *h) {
  return h->n_blocks == 0 ? CHUNK_START : 0;
}

static void parent_of(const uint32_t left[8], const uint32_t right[8], struct node *out) {
  memcpy(out->cv, iv, sizeof iv);
  memcpy(out->block, left, 32);
  memcpy(out->block + 32, right, 32);
  out->counter = 0;
  out->len = 64;
  out->flags = PARENT;
}

/* A chunk is full and more follows: closes it, and every subtree that it completes. */
static void end_chunk(struct blake3 *h) {
  compress(h->cv, h->block, h->chunks, 64, CHUNK_END | start_flag(h));
  h->chunks++;
  for (uint64_t done = h->chunks; (done & 1) == 0; done >>= 1) {
    struct node n;
    parent_of(h->stack[--h->depth], h->cv, &n);
    compress(n.cv, n.block, 0, 64, PARENT);
    memcpy(h->cv, n.cv, sizeof n.cv);
  }
  memcpy(h->stack[h->depth++], h->cv, sizeof h->cv);
  start_chunk(h);
}

void blake3_add(struct blake3 *h, const void *data, size_t len) {
  const uint8_t *p = data;
  while (len) {
    if (h->n_block == 64) { /* kept back until it is known that it is not the last */
      if (h->n_blocks == CHUNK_BLOCKS - 1) {
        end_chunk(h);
      } else {
        compress(h->cv, h->block, h->chunks, 64, start_flag(h));
        h->n_blocks++;
        h->n_block = 0;
      }
    }
    size_t room = (size_t)64 - h->n_block, take = len < room ? len : room;
    memcpy(h->block + h->n_block, p, take);
    h->n_block = (uint8_t)(h->n_block + take);
    p += take;
    len -= take;
  }
}

void blake3_digest(const struct blake3 *h, uint8_t out[BLAKE3_DIGEST]) {
  struct node n = {.counter = h->chunks, .len = h->n_block, .flags = CHUNK_END | start_flag(h)};
  memcpy(n.cv, h->cv, sizeof n.cv);
  memcpy(n.block, h->block, h->n_block);
  for (size_t i = h->depth; i-- > 0;) {
    compress(n.cv, n.block, n.counter, n.len, n.flags);
    uint32_t right[8];
    memcpy(right, n.cv, sizeof right);
    parent_of(h->stack[i], right, &n);
  }
  compress(n.cv, n.block, 0, n.len, n.flags | ROOT);
  memcpy(out, n.cv, BLAKE3_DIGEST);
}

void blake3(const void *data, size_t len, uint8_t out[BLAKE3_DIGEST]) {
  struct blake3 h;
  blake3_init(&h);
  blake3_add(&h, data, len);
  blake3_digest(&h, out);
}
