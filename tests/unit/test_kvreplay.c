/* test_kvreplay.c: what is kept, and replays of it to clients that take them, slowly or not at all.
 */
#include "zmq_peer.h"

#include "sim/kvreplay.h"
#include "sim/kvwire.h"

struct rig {
  struct zmq_rig z;
  struct kvreplay *replay;
  void *client;
  struct zmq_frame frames[8];
  uint64_t next; /* the number that is to come */
  size_t n_got, n_ends, n_kept;
  bool reads;
};

/* Each begins with the last byte of its number. */
static void keep(struct rig *r, size_t n, size_t len) {
  char *bytes = calloc(1, len + 1);
  for (size_t i = 0; i < n; i++) {
    bytes[0] = (char)r->n_kept++;
    struct blob *b = blob_new(bytes, len);
    kvreplay_keep(r->replay, b);
    blob_unref(b);
  }
  free(bytes);
}

static void open_rig(struct rig *r, uint32_t steps, size_t max_bytes) {
  struct err err = {0};
  *r = (struct rig){.reads = true};
  zmq_rig_open(&r->z);
  r->replay = kvreplay_new(r->z.loop, steps, max_bytes);
  assert_string_equal(kvreplay_endpoint(r->replay), "");
  check_ok(kvreplay_listen(r->replay, r->z.hub, "tcp://127.0.0.1:0", &err), &err);
  r->client = zmq_peer(&r->z, ZMQ_DEALER, kvreplay_endpoint(r->replay), 1);
}

static void close_rig(struct rig *r) {
  if (r->client)
    zmq_close(r->client);
  kvreplay_delete(r->replay);
  zmq_rig_close(&r->z);
}

static void ask(void *client, uint64_t start) {
  uint8_t number[8];
  kvwire_put_sequence(number, start);
  zmq_send(client, "", 0, ZMQ_SNDMORE);
  zmq_send(client, number, 8, 0);
}

/* Takes what is there; numbers come without a gap. */
static bool has_end(void *user) {
  struct rig *r = user;
  while (r->reads) {
    size_t n = zmq_take(r->client, r->frames, 8);
    if (!n)
      break;
    assert_int_equal(n, 3);
    assert_int_equal(r->frames[0].len, 0);
    if (zmq_number(&r->frames[1]) == UINT64_MAX) {
      assert_int_equal(r->frames[2].len, 0);
      r->n_ends++;
      return true;
    }
    assert_int_equal(zmq_number(&r->frames[1]), r->next);
    assert_int_equal(r->frames[2].data[0], (uint8_t)r->next);
    r->next++;
    r->n_got++;
  }
  return false;
}

static size_t replay(struct rig *r, uint64_t start, uint64_t first) {
  size_t before = r->n_got;
  r->next = first;
  ask(r->client, start);
  zmq_rig_until(&r->z, has_end, r);
  return r->n_got - before;
}

static void test_replays(void **state) {
  (void)state;
  struct rig r;
  open_rig(&r, 100, 1 << 20);
  assert_int_equal(replay(&r, 0, 0), 0); /* nothing yet: the end marker alone */
  keep(&r, 10, 20);
  assert_int_equal(replay(&r, 0, 0), 10);
  assert_int_equal(replay(&r, 7, 7), 3);
  assert_int_equal(replay(&r, 10, 0), 0);
  assert_int_equal(replay(&r, UINT64_MAX, 0), 0);
  uint64_t replays, refused;
  kvreplay_counts(r.replay, &replays, &refused);
  assert_int_equal(replays, 5);
  assert_int_equal(refused, 0);
  kvreplay_end(r.replay);
  assert_int_equal(kvreplay_kept(r.replay), 0);
  close_rig(&r);
}

static void test_bounds(void **state) {
  (void)state;
  struct rig r;
  open_rig(&r, 100, 1000);
  keep(&r, 230, 5);
  assert_int_equal(kvreplay_kept(r.replay), 100);
  assert_int_equal(replay(&r, 0, 130), 100); /* from the oldest that is kept */
  struct blob *b = blob_new("", 0);
  kvreplay_keep(r.replay, b);
  blob_unref(b);
  r.n_kept++;
  assert_int_equal(kvreplay_kept(r.replay), 100);
  keep(&r, 3, 400); /* 1000 bytes: two of these, and 40 of the others stand before them */
  assert_int_equal(kvreplay_kept(r.replay), 2);
  keep(&r, 1, 2000); /* larger than all that may be kept */
  assert_int_equal(kvreplay_kept(r.replay), 0);
  keep(&r, 1, 1);
  assert_int_equal(kvreplay_kept(r.replay), 1);
  close_rig(&r);
  open_rig(&r, 0, 1000);
  keep(&r, 5, 5);
  assert_int_equal(kvreplay_kept(r.replay), 0);
  assert_int_equal(replay(&r, 0, 5), 0);
  close_rig(&r);
}

/* 3000 messages of 20 kB to a client that does not read at first: far beyond what libzmq and the
 * system take, none is lost, and another client is served meanwhile. */
static void test_a_slow_client_loses_nothing(void **state) {
  (void)state;
  enum { N = 3000 };
  struct rig r, other;
  open_rig(&r, 10000, 100 << 20);
  keep(&r, N, 20000);
  ask(r.client, 0);
  other = r;
  other.client = zmq_peer(&r.z, ZMQ_DEALER, kvreplay_endpoint(r.replay), 1000);
  other.next = N - 5;
  ask(other.client, N - 5);
  r.z.user = &r;
  zmq_rig_until(&r.z, has_end, &other);
  assert_int_equal(other.n_got, 5);
  zmq_close(other.client);
  ask(r.client, N - 2); /* answered behind the first */
  zmq_rig_until(&r.z, has_end, &r);
  assert_int_equal(r.n_got, N);
  r.next = N - 2;
  zmq_rig_until(&r.z, has_end, &r);
  assert_int_equal(r.n_got, N + 2);
  close_rig(&r);
}

static bool was_asked(void *user) {
  struct rig *r = user;
  uint64_t replays, refused;
  kvreplay_counts(r->replay, &replays, &refused);
  return replays + refused == r->n_ends;
}

/* What falls out while a client is slow is left out; a client that goes away is forgotten. */
static void test_clients_that_stop(void **state) {
  (void)state;
  struct rig r;
  open_rig(&r, 2000, 100 << 20);
  keep(&r, 2000, 20000);
  ask(r.client, 0);
  r.n_ends = 1;
  zmq_rig_until(&r.z, was_asked, &r);
  keep(&r, 2000, 1);
  size_t n;
  uint64_t last = 0, number;
  r.n_ends = 0;
  do { /* numbers go up, with one hole */
    while (!(n = zmq_take(r.client, r.frames, 8)))
      zmq_rig_until(&r.z, was_asked, (r.n_ends = 1, &r));
    number = zmq_number(&r.frames[1]);
    assert_true(number == UINT64_MAX || number < 2000);
    assert_true(number == 0 || number > last);
    last = number;
  } while (number != UINT64_MAX);
  keep(&r, 2000, 20000);
  ask(r.client, 0);
  r.n_ends = 2;
  zmq_rig_until(&r.z, was_asked, &r);
  zmq_close(r.client);
  r.client = zmq_peer(&r.z, ZMQ_DEALER, kvreplay_endpoint(r.replay), 1000);
  assert_int_equal(replay(&r, 5999, 5999), 1);
  close_rig(&r);
}

static void test_what_is_no_request(void **state) {
  (void)state;
  struct rig r;
  open_rig(&r, 10, 1000);
  zmq_send(r.client, "\0\0\0\0\0\0\0\0", 8, 0); /* without the empty frame: vLLM refuses it too */
  zmq_send(r.client, "", 0, ZMQ_SNDMORE);
  zmq_send(r.client, "123456789", 9, 0); /* no number */
  zmq_send(r.client, "", 0, ZMQ_SNDMORE);
  zmq_send(r.client, "", 0, ZMQ_SNDMORE);
  zmq_send(r.client, "x", 1, 0);
  r.n_ends = 3;
  zmq_rig_until(&r.z, was_asked, &r);
  uint64_t replays, refused;
  kvreplay_counts(r.replay, &replays, &refused);
  assert_int_equal(refused, 3);
  assert_int_equal(replays, 0);
  assert_int_equal(replay(&r, 0, 0), 0);
  close_rig(&r);
}

/* A heap of requests of one client: the first ones are answered, those beyond the bound are not. */
static void test_too_many(void **state) {
  (void)state;
  struct rig r;
  open_rig(&r, 2000, 100 << 20);
  keep(&r, 2000, 20000);
  for (int i = 0; i < 100; i++)
    ask(r.client, 0);
  r.n_ends = 100;
  zmq_rig_until(&r.z, was_asked, &r);
  uint64_t replays, refused;
  kvreplay_counts(r.replay, &replays, &refused);
  assert_int_equal(replays, KVREPLAY_MAX_PENDING);
  assert_int_equal(refused, 100 - KVREPLAY_MAX_PENDING);
  close_rig(&r); /* replays are under way */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replays),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_a_slow_client_loses_nothing),
      cmocka_unit_test(test_clients_that_stop),
      cmocka_unit_test(test_what_is_no_request),
      cmocka_unit_test(test_too_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
