/* test_store.c: shared trees, one builder per name, no deadlock. */
#include "check.h"

#include <pthread.h>

#include "base/clock.h"
#include "run/store.h"

static void trees_hold_and_find(void **state) {
  (void)state;
  struct shared t = {.kind = SHARED_OBJECT};
  const char *keys[] = {"zeta", "alpha", "al", "", "m\0n"};
  const size_t lens[] = {4, 5, 2, 0, 3};
  for (size_t i = 0; i < 5; i++) {
    struct shared *v = shared_add(&t, keys[i], lens[i]);
    *v = (struct shared){.kind = SHARED_INT, .u.integer = (int64_t)i};
  }
  struct shared *list = shared_add(&t, "list", 4);
  *list = (struct shared){.kind = SHARED_ARRAY};
  shared_set_string(shared_push(list), "text");
  *shared_push(list) = (struct shared){.kind = SHARED_OBJECT};
  shared_seal(&t);
  for (size_t i = 0; i < 5; i++) {
    const struct shared *v = shared_get(&t, keys[i], lens[i]);
    assert_non_null(v);
    assert_int_equal(v->u.integer, (int64_t)i);
  }
  assert_null(shared_get(&t, "alp", 3));
  assert_null(shared_get(&t, "m", 1));
  const struct shared *l = shared_get(&t, "list", 4);
  assert_int_equal(l->u.array.n, 2);
  assert_string_equal(l->u.array.items[0].u.blob->data, "text");
  assert_null(shared_get(&l->u.array.items[1], "x", 1));
  assert_string_equal(t.u.object.pairs[0].key, "zeta"); /* order of adding is kept */
  shared_free(&t);
  assert_int_equal(t.kind, SHARED_NULL);
}

struct job {
  struct store *store;
  const char *first, *second;
  int built;
  int64_t sum;
  int rc;
  struct err err;
};

static int64_t use(struct job *job, const char *name) {
  enum store_answer answer;
  const struct shared *tree;
  int rc = store_enter(job->store, name, job, &answer, &tree, &job->err);
  if (rc) {
    job->rc = rc;
    return 0;
  }
  if (answer == STORE_BUILD) {
    clock_sleep_ns(20 * NS_PER_MS);
    job->built++;
    struct shared t = {.kind = SHARED_INT, .u.integer = 5};
    tree = store_put(job->store, name, &t);
  }
  return tree->u.integer;
}

static void *run_job(void *arg) {
  struct job *job = arg;
  job->sum = use(job, job->first);
  return NULL;
}

static void one_builds_others_wait(void **state) {
  (void)state;
  struct store *s = store_new();
  struct job jobs[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    jobs[i] = (struct job){.store = s, .first = "x"};
    pthread_create(&threads[i], NULL, run_job, &jobs[i]);
  }
  int built = 0;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    built += jobs[i].built;
    assert_int_equal(jobs[i].rc, 0);
    assert_int_equal(jobs[i].sum, 5);
  }
  assert_int_equal(built, 1);
  store_delete(s);
}

static void failure_reaches_everyone(void **state) {
  (void)state;
  struct store *s = store_new();
  enum store_answer answer;
  const struct shared *tree;
  struct err err;
  int a, b;
  check_ok(store_enter(s, "x", &a, &answer, &tree, &err), &err);
  assert_int_equal(answer, STORE_BUILD);
  assert_int_equal(store_enter(s, "x", &a, &answer, &tree, &err), ERR_INVALID);
  assert_string_equal(err.text, "shared 'x' needs itself to be made");
  store_fail(s, "x", "f.lua:3: no file");
  assert_int_equal(store_enter(s, "x", &b, &answer, &tree, &err), ERR_INVALID);
  assert_string_equal(err.text, "f.lua:3: no file");
  store_delete(s);
}

/* Each builds its own, then asks for the other's: one of the two must be told. */
static void *cross(void *arg) {
  struct job *job = arg;
  enum store_answer answer;
  const struct shared *tree;
  int rc = store_enter(job->store, job->first, job, &answer, &tree, &job->err);
  assert(rc == 0 && answer == STORE_BUILD);
  clock_sleep_ns(50 * NS_PER_MS);
  job->rc = store_enter(job->store, job->second, job, &answer, &tree, &job->err);
  if (job->rc) {
    store_fail(job->store, job->first, job->err.text);
  } else {
    struct shared t = {.kind = SHARED_INT, .u.integer = 1};
    store_put(job->store, job->first, &t);
  }
  return NULL;
}

static void a_circle_is_an_error(void **state) {
  (void)state;
  struct store *s = store_new();
  struct job a = {.store = s, .first = "a", .second = "b"};
  struct job b = {.store = s, .first = "b", .second = "a"};
  pthread_t x, y;
  pthread_create(&x, NULL, cross, &a);
  pthread_create(&y, NULL, cross, &b);
  pthread_join(x, NULL);
  pthread_join(y, NULL);
  assert_int_equal(a.rc, ERR_INVALID);
  assert_int_equal(b.rc, ERR_INVALID); /* what it waited for failed */
  check_has(a.err.text, "needs itself to be made");
  assert_string_equal(a.err.text, b.err.text);
  store_delete(s);
}

static void words_are_one_copy(void **state) {
  (void)state;
  struct store *s = store_new();
  char word[] = "least_inflight";
  const char *one = store_word(s, word);
  word[0] = 'x';
  assert_string_equal(one, "least_inflight");
  assert_ptr_equal(store_word(s, "least_inflight"), one);
  assert_ptr_not_equal(store_word(s, "other"), one);
  store_delete(s);
  store_delete(NULL);
}

static void sources_are_what_was_read_first(void **state) {
  (void)state;
  struct store *s = store_new();
  assert_null(store_source(s, "a.lua"));
  assert_null(store_source_path(s, 0));
  const struct blob *one = store_keep_source(s, "a.lua", "return 1", 8);
  assert_string_equal(one->data, "return 1");
  assert_ptr_equal(store_keep_source(s, "a.lua", "edited", 6), one);
  assert_ptr_equal(store_source(s, "a.lua"), one);
  assert_int_equal(store_keep_source(s, "empty.lua", "", 0)->len, 0);
  assert_string_equal(store_source_path(s, 0), "a.lua");
  assert_string_equal(store_source_path(s, 1), "empty.lua");
  assert_null(store_source_path(s, 2));
  store_delete(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_hold_and_find),      cmocka_unit_test(one_builds_others_wait),
      cmocka_unit_test(failure_reaches_everyone), cmocka_unit_test(a_circle_is_an_error),
      cmocka_unit_test(words_are_one_copy),       cmocka_unit_test(sources_are_what_was_read_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
