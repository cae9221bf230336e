/* test_smallmem.c: small blocks: none overlaps another, all keep their bytes, freed ones come
 * again. */
#include "check.h"

#include "base/mem.h"
#include "base/rng.h"
#include "run/smallmem.h"

#define BLOCKS 3000

struct block {
  unsigned char *p;
  size_t size;
  unsigned char mark;
};

static void check_block(const struct block *b) {
  for (size_t i = 0; i < b->size; i++)
    if (b->p[i] != b->mark)
      fail_msg("byte %zu of a block of %zu is %d, expected %d", i, b->size, b->p[i], b->mark);
}

static void fill(struct block *b, unsigned char mark) {
  b->mark = mark;
  memset(b->p, mark, b->size);
}

/* Random sizes around the classes and beyond, resized and released at random. */
static void test_blocks_keep_their_bytes(void **state) {
  (void)state;
  struct smallmem m = {0};
  struct rng rng;
  struct block *blocks = mem_calloc(BLOCKS, sizeof *blocks);
  rng_init(&rng, 1, 1);
  for (int i = 0; i < 100000; i++) {
    struct block *b = &blocks[rng_int(&rng, 0, BLOCKS - 1)];
    size_t size = (size_t)rng_int(&rng, 1, 700);
    if (b->p && rng_int(&rng, 0, 2) == 0) {
      check_block(b);
      smallmem_release(&m, b->p, b->size);
      b->p = NULL;
      b->size = 0;
      continue;
    }
    size_t old = b->size;
    b->p = smallmem_resize(&m, b->p, old, size);
    assert_int_equal((uintptr_t)b->p % 16, 0);
    b->size = old < size ? old : size;
    check_block(b);
    b->size = size;
    fill(b, (unsigned char)rng_int(&rng, 0, 255));
  }
  for (int i = 0; i < BLOCKS; i++) {
    check_block(&blocks[i]);
    smallmem_release(&m, blocks[i].p, blocks[i].size);
  }
  smallmem_free(&m);
  assert_null(m.pages);
  mem_free(blocks);
}

static size_t count_pages(const struct smallmem *m);

/* What was released is used again: the same work over and over takes no more memory. */
static void test_released_blocks_come_again(void **state) {
  (void)state;
  struct smallmem m = {0};
  void *blocks[200];
  size_t pages = 0;
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < 200; i++)
      blocks[i] = smallmem_resize(&m, NULL, 0, i + 1);
    for (size_t i = 0; i < 200; i++)
      smallmem_release(&m, blocks[i], i + 1);
    if (round == 0)
      pages = count_pages(&m);
  }
  assert_int_equal(count_pages(&m), pages);
  smallmem_free(&m);
}

static void test_release_of_nothing(void **state) {
  (void)state;
  struct smallmem m = {0};
  smallmem_release(&m, NULL, 0);
  smallmem_free(&m);
  assert_null(m.pages);
}

/* struct smallmem_page is private; it begins with the pointer to the next. */
static size_t count_pages(const struct smallmem *m) {
  size_t n = 0;
  for (const void *page = m->pages; page; memcpy(&page, page, sizeof page))
    n++;
  return n;
}

/* malloc has nothing so large: that is said, not died of, and what there was stays. */
static void test_no_memory_is_null(void **state) {
  (void)state;
  if (CHECK_SANITIZED)
    skip(); /* it reports whatever it cannot allocate, asked for or not */
  struct smallmem m = {0};
  char *small = smallmem_resize(&m, NULL, 0, 100), *large = smallmem_resize(&m, NULL, 0, 10000);
  volatile size_t most = PTRDIFF_MAX - 4096;
  small[99] = large[9999] = 7;
  assert_null(smallmem_resize(&m, NULL, 0, most));
  assert_null(smallmem_resize(&m, small, 100, most));
  assert_null(smallmem_resize(&m, large, 10000, most));
  assert_int_equal(small[99] + large[9999], 14);
  smallmem_release(&m, small, 100);
  smallmem_release(&m, large, 10000);
  smallmem_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blocks_keep_their_bytes),
      cmocka_unit_test(test_no_memory_is_null),
      cmocka_unit_test(test_released_blocks_come_again),
      cmocka_unit_test(test_release_of_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
