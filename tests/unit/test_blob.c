/* test_blob.c: shared bytes, counted from several threads. */
#include "check.h"

#include <pthread.h>

#include "base/blob.h"
#include "base/buf.h"

static void *take_and_drop(void *arg) {
  struct blob *b = arg;
  for (int i = 0; i < 100000; i++)
    blob_unref(blob_ref(b));
  blob_unref(b);
  return NULL;
}

static void counts_across_threads(void **state) {
  (void)state;
  struct blob *b = blob_new("hello", 5);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    blob_ref(b);
    assert_int_equal(pthread_create(&threads[i], NULL, take_and_drop, b), 0);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(b->refs, 1);
  assert_string_equal(b->data, "hello");
  blob_unref(b);
  blob_unref(NULL);
}

static void takes_a_buffer(void **state) {
  (void)state;
  struct buf buf;
  buf_init(&buf, 100);
  buf_put(&buf, "a\0b", 3);
  struct blob *b = blob_from_buf(&buf);
  assert_int_equal(b->len, 3);
  assert_memory_equal(b->data, "a\0b", 4);
  assert_int_equal(buf.len, 0);
  blob_unref(b);
  b = blob_from_buf(&buf);
  assert_int_equal(b->len, 0);
  blob_unref(b);
  buf_free(&buf);
}

static void bytes_are_counted_until_the_last_reference_goes(void **state) {
  (void)state;
  struct blob_count *c = blob_count_new();
  struct blob *a = blob_new("hello", 5), *b = blob_new("you", 3);
  blob_count_in(a, c);
  blob_count_in(a, c); /* once */
  blob_count_in(b, c);
  assert_int_equal(blob_count_bytes(c), 8);
  blob_ref(a);
  blob_unref(a);
  assert_int_equal(blob_count_bytes(c), 8);
  blob_unref(a);
  assert_int_equal(blob_count_bytes(c), 3);
  blob_count_unref(c); /* the blob may outlive the owner */
  blob_unref(b);
  b = blob_new("x", 1);
  blob_count_in(b, NULL);
  blob_unref(b);
  blob_count_unref(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_across_threads),
      cmocka_unit_test(takes_a_buffer),
      cmocka_unit_test(bytes_are_counted_until_the_last_reference_goes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
