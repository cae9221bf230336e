/* The block pool: queue order, copies of a name, and the table under heavy clustering. */
#include "check.h"

#include "base/rng.h"
#include "kv/pool.h"

static void check_queue(const struct pool *p, const uint32_t *want, uint32_t n) {
  uint32_t id = 0;
  for (uint32_t i = 0; i < n; i++) {
    id = pool_next(p, id);
    if (id != want[i])
      fail_msg("queue[%u] = %u, expected %u", i, id, want[i]);
  }
  assert_int_equal(pool_next(p, id), 0);
  assert_int_equal(p->num_free, n);
}
#define CHECK_QUEUE(p, ...)                                                                        \
  do {                                                                                             \
    const uint32_t want_[] = {__VA_ARGS__};                                                        \
    check_queue((p), want_, (uint32_t)ARRAY_LEN(want_));                                           \
  } while (0)

/* Takes n blocks into ids; none may have had a name. */
static void take(struct pool *p, uint32_t *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint64_t lost;
    assert_false(pool_take(p, &ids[i], &lost));
  }
}

static void queue_begins_in_order(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 5);
  CHECK_QUEUE(&p, 1, 2, 3, 4);
  uint32_t ids[4];
  take(&p, ids, 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(ids[i], i + 1);
  check_queue(&p, NULL, 0);
  pool_release(&p, ids, 4);
  CHECK_QUEUE(&p, 4, 3, 2, 1); /* nameless, tail first */
  pool_free(&p);

  pool_init(&p, 2); /* the smallest */
  CHECK_QUEUE(&p, 1);
  pool_free(&p);
}

/* Nameless ones go before the whole queue as a group, named ones behind it; each tail first. */
static void release_in_two_groups(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 9);
  uint32_t ids[5];
  take(&p, ids, 5);
  pool_name(&p, 1, 100);
  pool_name(&p, 3, 300);
  pool_release(&p, ids, 5);
  CHECK_QUEUE(&p, 5, 4, 2, 6, 7, 8, 3, 1);
  assert_int_equal(p.num_names, 2);
  pool_free(&p);
}

static void release_into_an_empty_queue(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 5);
  uint32_t ids[4];
  take(&p, ids, 4);
  pool_name(&p, 4, 400);
  pool_name(&p, 2, 200);
  pool_release(&p, ids, 4);
  CHECK_QUEUE(&p, 3, 1, 4, 2);
  pool_free(&p);
}

static void touch_takes_out_of_the_middle(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 6);
  pool_touch(&p, 3);
  CHECK_QUEUE(&p, 1, 2, 4, 5);
  pool_touch(&p, 1); /* the front */
  pool_touch(&p, 5); /* the back */
  CHECK_QUEUE(&p, 2, 4);
  pool_touch(&p, 3); /* held twice: two releases free it */
  const uint32_t id = 3;
  pool_release(&p, &id, 1);
  CHECK_QUEUE(&p, 2, 4);
  pool_release(&p, &id, 1);
  CHECK_QUEUE(&p, 3, 2, 4);
  pool_free(&p);
}

static void names_and_copies(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 6);
  uint32_t ids[5], id;
  uint64_t lost = 0;
  take(&p, ids, 5);
  assert_int_equal(pool_find(&p, 7), 0);
  pool_name(&p, 4, 7); /* the oldest copy has not the lowest number */
  pool_name(&p, 1, 7);
  pool_name(&p, 2, 0); /* 0 is a name like any other */
  pool_name(&p, 5, 7);
  assert_int_equal(p.num_names, 2);
  assert_int_equal(pool_find(&p, 7), 4);
  assert_int_equal(pool_find(&p, 0), 2);

  pool_release(&p, ids, 5); /* 3 | 5 4 2 1 */
  assert_false(pool_take(&p, &id, &lost));
  assert_int_equal(id, 3);
  assert_true(pool_take(&p, &id, &lost)); /* the newest copy goes; others remain */
  assert_int_equal(id, 5);
  assert_int_equal(lost, 7);
  assert_int_equal(pool_find(&p, 7), 4);
  assert_true(pool_take(&p, &id, &lost)); /* the oldest goes */
  assert_int_equal(id, 4);
  assert_int_equal(pool_find(&p, 7), 1);
  pool_name(&p, 4, 7); /* comes back as the newest */
  assert_int_equal(pool_find(&p, 7), 1);
  assert_true(pool_take(&p, &id, &lost));
  assert_int_equal(id, 2);
  assert_int_equal(lost, 0);
  assert_int_equal(pool_find(&p, 0), 0);
  assert_true(pool_take(&p, &id, &lost));
  assert_int_equal(id, 1);
  assert_int_equal(pool_find(&p, 7), 4);
  assert_int_equal(p.num_names, 1);
  pool_free(&p);
}

/* The copy in the middle goes first: both neighbours must still know each other. */
static void middle_copy_goes(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 5);
  uint32_t ids[4], id;
  uint64_t lost;
  take(&p, ids, 4);
  pool_name(&p, 1, 7);
  pool_name(&p, 2, 7);
  pool_name(&p, 3, 7);
  pool_release(&p, &ids[1], 1);
  pool_release(&p, &ids[0], 1);
  pool_release(&p, &ids[2], 1);
  assert_true(pool_take(&p, &id, &lost));
  assert_int_equal(id, 2);
  assert_true(pool_take(&p, &id, &lost));
  assert_int_equal(id, 1);
  assert_int_equal(pool_find(&p, 7), 3);
  assert_true(pool_take(&p, &id, &lost));
  assert_int_equal(pool_find(&p, 7), 0);
  assert_int_equal(p.num_names, 0);
  pool_free(&p);
}

static void clear_only_when_all_are_free(void **state) {
  (void)state;
  struct pool p;
  pool_init(&p, 5);
  assert_true(pool_clear(&p)); /* empty already */
  uint32_t ids[3], id;
  uint64_t lost;
  take(&p, ids, 3);
  pool_name(&p, 1, 10);
  pool_name(&p, 2, 10);
  assert_false(pool_clear(&p));
  assert_int_equal(pool_find(&p, 10), 1);
  pool_release(&p, ids, 3);
  CHECK_QUEUE(&p, 3, 4, 2, 1);
  assert_true(pool_clear(&p));
  CHECK_QUEUE(&p, 3, 4, 2, 1);
  assert_int_equal(pool_find(&p, 10), 0);
  assert_int_equal(p.num_names, 0);
  for (int i = 0; i < 4; i++)
    assert_false(pool_take(&p, &id, &lost));
  pool_free(&p);
}

/* ---------------------------------------------------------------- against a plain list of blocks
 */

enum { N = 48 };
struct model {
  uint32_t refs[N], queue[N], n_free;
  bool named[N];
  uint64_t name[N], since[N], clock;
};

static void model_remove(struct model *m, uint32_t id) {
  uint32_t i = 0;
  while (m->queue[i] != id)
    i++;
  memmove(&m->queue[i], &m->queue[i + 1], (--m->n_free - i) * sizeof *m->queue);
}

static uint32_t model_find(const struct model *m, uint64_t name) {
  uint32_t best = 0;
  for (uint32_t id = 1; id < N; id++)
    if (m->named[id] && m->name[id] == name && (!best || m->since[id] < m->since[best]))
      best = id;
  return best;
}

/* All names have one home slot or its two neighbours, the last slot of the table included, so
 * clusters wrap; and half of them differ from the others in the upper half alone. */
enum { NUM_NAMES = 60 };
static uint64_t model_name(uint64_t k) {
  return (k % 2 << 32) + k / 2 % 10 * 4096 + 127 - k / 20;
}

static void random_operation(struct pool *p, struct model *m, struct rng *r) {
  uint32_t id = (uint32_t)rng_int(r, 1, N - 1);
  uint64_t name = model_name((uint64_t)rng_int(r, 0, NUM_NAMES - 1));
  switch (rng_int(r, 0, 3)) {
  case 0:
    if (m->n_free) {
      uint64_t lost = 1;
      uint32_t front = m->queue[0], got;
      bool had = pool_take(p, &got, &lost);
      assert_int_equal(got, front);
      assert_int_equal(had, m->named[front]);
      if (had)
        assert_int_equal(lost, m->name[front]);
      model_remove(m, front);
      m->named[front] = false;
      m->refs[front] = 1;
    }
    break;
  case 1:
    pool_touch(p, id);
    if (!m->refs[id]++)
      model_remove(m, id);
    break;
  case 2:
    if (m->refs[id] && !m->named[id]) {
      pool_name(p, id, name);
      m->named[id] = true;
      m->name[id] = name;
      m->since[id] = ++m->clock;
    }
    break;
  default:
    if (m->refs[id]) {
      pool_release(p, &id, 1);
      if (!--m->refs[id]) {
        uint32_t at = m->named[id] ? m->n_free : 0;
        memmove(&m->queue[at + 1], &m->queue[at], (m->n_free++ - at) * sizeof *m->queue);
        m->queue[at] = id;
      }
    }
  }
}

static void agrees_with_a_plain_model(void **state) {
  (void)state;
  struct rng r;
  rng_init(&r, 1, 1);
  for (int round = 0; round < 20; round++) {
    struct pool p;
    static struct model m;
    memset(&m, 0, sizeof m);
    for (uint32_t id = 1; id < N; id++)
      m.queue[m.n_free++] = id;
    pool_init(&p, N);
    assert_int_equal(p.slot_mask, 127);
    for (int i = 0; i < 2000; i++) {
      random_operation(&p, &m, &r);
      check_queue(&p, m.queue, m.n_free);
      for (uint64_t k = 0; k < NUM_NAMES; k++)
        assert_int_equal(pool_find(&p, model_name(k)), model_find(&m, model_name(k)));
    }
    pool_free(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queue_begins_in_order),
      cmocka_unit_test(release_in_two_groups),
      cmocka_unit_test(release_into_an_empty_queue),
      cmocka_unit_test(touch_takes_out_of_the_middle),
      cmocka_unit_test(names_and_copies),
      cmocka_unit_test(middle_copy_goes),
      cmocka_unit_test(clear_only_when_all_are_free),
      cmocka_unit_test(agrees_with_a_plain_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
