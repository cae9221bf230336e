/* test_coord.c: three ranks on one loop agree through the six calls. */
#include "check.h"

#include "base/mem.h"
#include "run/coord.h"

enum { RANKS = 3 };

struct rank {
  struct coord_wait join, aborted, wait, watch;
  char said[200]; /* what was done, in order */
};

static struct loop *loop;
static struct coord *coord;
static struct rank ranks[RANKS];

static void say(struct rank *r, const char *what) {
  size_t len = strlen(r->said);
  snprintf(r->said + len, sizeof r->said - len, "%s ", what);
}

static void joined(struct coord_wait *w) {
  struct rank *r = CONTAINER_OF(w, struct rank, join);
  char text[40];
  snprintf(text, sizeof text, "joined:%u/%u", w->rank, w->ranks);
  say(r, text);
}

static void aborted(struct coord_wait *w) {
  char text[100];
  snprintf(text, sizeof text, "aborted:%s", w->text);
  say(CONTAINER_OF(w, struct rank, aborted), text);
}

static void passed(struct coord_wait *w) {
  say(CONTAINER_OF(w, struct rank, wait), "passed");
}

static void asked(struct coord_wait *w) {
  say(CONTAINER_OF(w, struct rank, wait), w->mine ? "mine" : "other's");
}

static void saw(struct coord_wait *w) {
  char text[40];
  snprintf(text, sizeof text, "saw:%d", (int)w->value->u.integer);
  say(CONTAINER_OF(w, struct rank, watch), text);
}

static void stop(struct loop_timer *timer) {
  (void)timer;
  loop_stop(loop);
}

/* Everything that is due. */
static void turn(void) {
  struct loop_timer timer;
  loop_timer_init(&timer, stop);
  loop_timer_set(loop, &timer, loop_now(loop) + 5 * NS_PER_MS);
  loop_run(loop);
}

static int set_up(void **state) {
  (void)state;
  struct err err;
  loop = loop_new(&err);
  assert_non_null(loop);
  coord = coord_local_new(loop, RANKS);
  for (size_t i = 0; i < RANKS; i++)
    ranks[i] = (struct rank){
        .join.done = joined, .aborted.done = aborted, .wait.done = passed, .watch.done = saw};
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  coord_delete(coord);
  loop_delete(loop);
  return 0;
}

static void join_all(void) {
  for (size_t i = 0; i < RANKS; i++)
    coord_join(coord, &ranks[i].join, &ranks[i].aborted);
  turn();
  for (size_t i = 0; i < RANKS; i++)
    ranks[i].said[0] = '\0';
}

static void joining_waits_for_the_last_one(void **state) {
  (void)state;
  coord_join(coord, &ranks[0].join, &ranks[0].aborted);
  coord_join(coord, &ranks[1].join, &ranks[1].aborted);
  turn();
  assert_string_equal(ranks[0].said, "");
  coord_join(coord, &ranks[2].join, &ranks[2].aborted);
  assert_string_equal(ranks[2].said, ""); /* never from inside a call */
  turn();
  assert_string_equal(ranks[0].said, "joined:0/3 ");
  assert_string_equal(ranks[1].said, "joined:1/3 ");
  assert_string_equal(ranks[2].said, "joined:2/3 ");
}

static void a_barrier_opens_for_all(void **state) {
  (void)state;
  join_all();
  coord_barrier(coord, "start", &ranks[2].wait);
  coord_barrier(coord, "start", &ranks[0].wait);
  turn();
  assert_string_equal(ranks[2].said, "");
  coord_barrier(coord, "start", &ranks[1].wait);
  turn();
  for (size_t i = 0; i < RANKS; i++)
    assert_string_equal(ranks[i].said, "passed ");
  coord_barrier(coord, "other", &ranks[0].wait); /* names are apart */
  turn();
  assert_string_equal(ranks[0].said, "passed ");
}

static void one_does_it_and_all_see_the_value(void **state) {
  (void)state;
  join_all();
  for (size_t i = 0; i < RANKS; i++)
    ranks[i].wait.done = asked;
  coord_once(coord, "setup", &ranks[1].wait);
  coord_once(coord, "setup", &ranks[0].wait);
  coord_watch(coord, "setup", &ranks[0].watch);
  coord_watch(coord, "setup", &ranks[1].watch);
  turn();
  assert_string_equal(ranks[1].said, "mine ");
  assert_string_equal(ranks[0].said, "other's ");
  struct shared value = {.kind = SHARED_INT, .u.integer = 42};
  coord_publish(coord, "setup", &value);
  assert_int_equal(value.kind, SHARED_NULL); /* taken over */
  turn();
  assert_string_equal(ranks[0].said, "other's saw:42 ");
  assert_string_equal(ranks[1].said, "mine saw:42 ");
  coord_watch(coord, "setup", &ranks[2].watch); /* too late to wait */
  coord_once(coord, "setup", &ranks[2].wait);
  turn();
  assert_string_equal(ranks[2].said, "saw:42 other's ");
  assert_ptr_equal(ranks[2].watch.value, ranks[0].watch.value);
}

static void an_abort_ends_all_waiting(void **state) {
  (void)state;
  join_all();
  coord_barrier(coord, "start", &ranks[0].wait);
  coord_watch(coord, "setup", &ranks[1].watch);
  ranks[2].wait.done = asked;
  coord_once(coord, "setup", &ranks[2].wait); /* due, and not done any more */
  coord_abort(coord, "no");
  coord_abort(coord, "again");
  coord_barrier(coord, "start", &ranks[1].wait);
  coord_watch(coord, "setup", &ranks[0].watch);
  struct shared value = {.kind = SHARED_INT, .u.integer = 1};
  coord_publish(coord, "setup", &value);
  turn();
  for (size_t i = 0; i < RANKS; i++)
    assert_string_equal(ranks[i].said, "aborted:no ");
}

static void who_joins_late_hears_of_the_abort(void **state) {
  (void)state;
  coord_join(coord, &ranks[0].join, &ranks[0].aborted);
  coord_abort(coord, "early");
  coord_join(coord, &ranks[1].join, &ranks[1].aborted);
  turn();
  assert_string_equal(ranks[0].said, "aborted:early ");
  assert_string_equal(ranks[1].said, "aborted:early ");
  coord_abort(coord, "x");
}

static void deleting_drops_what_is_due(void **state) {
  (void)state;
  struct coord *other = coord_local_new(loop, 1);
  struct rank r = {.join.done = joined, .aborted.done = aborted};
  coord_join(other, &r.join, &r.aborted);
  struct shared value = {.kind = SHARED_STRING};
  shared_set_string(&value, "text");
  coord_publish(other, "unseen", &value);
  coord_delete(other);
  turn();
  assert_string_equal(r.said, "");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      T(joining_waits_for_the_last_one),    T(a_barrier_opens_for_all),
      T(one_does_it_and_all_see_the_value), T(an_abort_ends_all_waiting),
      T(who_joins_late_hears_of_the_abort), T(deleting_drops_what_is_due),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
