/* test_gentruth.c: what a line of the truth log says of the cache, here and elsewhere
 * (residence.c), of evictions, of chains and of each token; which writes hold output. */
#include <unistd.h>

#include "simtest.h"

static const char *temp_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/test_gentruth.%d", (int)getpid());
  return path;
}

static void post(struct simtest *t, size_t replica, const char *path, const char *body) {
  struct simtest_answer a = simtest_post(t->ports[replica], path, body);
  simtest_free(&a);
}

/* `n` bytes of text, which are as many tokens, with so many tokens of answer. */
static void ask(struct simtest *t, size_t replica, char c, int n, int outputs) {
  char text[512], body[700];
  memset(text, c, sizeof text);
  snprintf(body, sizeof body, "{\"prompt\":\"%.*s\",\"max_tokens\":%d,\"ignore_eos\":true}", n,
           text, outputs);
  post(t, replica, "/v1/completions", body);
}

static void check_residence(const struct value *line, int64_t captured, int64_t available,
                            const char *best) {
  assert_int_equal(simtest_int(line, "captured_tokens"), captured);
  assert_int_equal(simtest_int(line, "captured_pool_tokens"), captured);
  assert_int_equal(simtest_int(line, "available_tokens"), available);
  assert_int_equal(simtest_int(line, "available_pool_tokens"), available);
  const char *name = value_to_string(value_get(line, "available_replica"));
  if (best)
    assert_string_equal(name, best);
  else
    assert_null(name);
}

static void test_what_is_resident_where(void **state) {
  (void)state;
  struct simtest t;
  simtest_start(&t, 3, "fixed", NULL, NULL, temp_path());
  ask(&t, 1, 'a', 64, 1);  /* cold */
  ask(&t, 0, 'a', 64, 1);  /* r1 has it but for the last block */
  ask(&t, 2, 'a', 100, 1); /* r0 and r1 have 64: the first of them */
  ask(&t, 2, 'a', 130, 1); /* 96 of its own */
  simtest_stop(&t);
  struct value log = simtest_truth(temp_path());
  assert_int_equal(value_count(&log), 4);
  check_residence(value_at(&log, 0), 0, 0, NULL);
  check_residence(value_at(&log, 1), 0, 48, "r1");
  check_residence(value_at(&log, 2), 0, 64, "r0");
  check_residence(value_at(&log, 3), 96, 96, "r2");
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(simtest_int(value_at(&log, i), "block_size"), 16);
    assert_int_equal(simtest_int(value_at(&log, i), "evicted_blocks"), 0);
    assert_int_equal(simtest_int(value_at(&log, i), "prompts"), 1);
  }
  value_free(&log);
  unlink(temp_path());
}

/* Tiers count as resident: what was evicted from the pool is in CPU memory. */
static void test_tiers_count_as_resident(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"kv_blocks=40", "max_model_len=600", "offload_tokens=4096",
                                     NULL};
  simtest_start(&t, 2, "fixed", sets, NULL, temp_path());
  ask(&t, 0, 'a', 400, 1);
  ask(&t, 0, 'b', 500, 1); /* 32 blocks of 40: most of a's 25 go */
  ask(&t, 0, 'a', 400, 1);
  ask(&t, 1, 'a', 400, 1); /* r1 has none of it, nor r0's CPU memory */
  simtest_stop(&t);
  struct value log = simtest_truth(temp_path());
  const struct value *b = value_at(&log, 1), *again = value_at(&log, 2), *r1 = value_at(&log, 3);
  assert_int_equal(simtest_int(b, "evicted_blocks"), 17); /* 15 of 40 were never used or nameless */
  assert_int_equal(simtest_int(again, "captured_tokens"), 256);
  assert_true(simtest_int(again, "captured_pool_tokens") < 256);
  assert_int_equal(simtest_int(r1, "captured_tokens"), 0);
  assert_true(simtest_int(r1, "available_tokens") >= 384);
  assert_string_equal(value_to_string(value_get(r1, "available_replica")), "r0");
  value_free(&log);
  unlink(temp_path());
}

static void check_pair(const struct value *list, size_t i, int64_t first, int64_t second) {
  int64_t got[2] = {-1, -1};
  for (size_t k = 0; k < 2; k++)
    assert_true(value_to_int(value_at(value_at(list, i), k), &got[k]));
  if (got[0] != first || got[1] != second)
    fail_msg("chain %zu is [%lld,%lld]", i, (long long)got[0], (long long)got[1]);
}

static void test_chains_and_tokens(void **state) {
  (void)state;
  struct simtest t;
  static const char *const sets[] = {"ttft=20ms", "itl=5ms", NULL};
  simtest_start(&t, 2, "fixed", sets, NULL, temp_path());
  ask(&t, 0, 'a', 40, 9); /* 49 tokens: 3 blocks */
  ask(&t, 1, 'a', 40, 1); /* the same two of the prompt */
  post(&t, 0, "/v1/completions",
       "{\"prompt\":[\"aaaaaaaaaaaaaaaaaaaa\",\"b\"],\"n\":2,\"max_tokens\":3}");
  simtest_stop(&t);
  struct value log = simtest_truth(temp_path());
  const struct value *l = value_at(&log, 0), *chains = value_get(l, "chains");
  assert_int_equal(value_count(chains), 1);
  check_pair(chains, 0, 0, 3);
  check_pair(value_get(value_at(&log, 1), "chains"), 0, 2, 0);
  const struct value *many = value_at(&log, 2);
  assert_int_equal(simtest_int(many, "choices"), 4);
  assert_int_equal(simtest_int(many, "prompts"), 2);
  assert_int_equal(value_count(value_get(many, "chains")), 4);
  check_pair(value_get(many, "chains"), 1, 1, 0);
  check_pair(value_get(many, "chains"), 3, 0, 0);
  const struct value *tokens = value_at(value_get(l, "token_ns"), 0);
  assert_int_equal(value_count(tokens), 9);
  int64_t sum = 0, ns;
  for (size_t i = 0; i < 9; i++) {
    assert_true(value_to_int(value_at(tokens, i), &ns));
    assert_true(i == 0 ? ns == simtest_int(l, "first_token_ns") : ns > 0);
    sum += ns;
  }
  assert_int_equal(sum, simtest_int(l, "last_token_ns"));
  int64_t queued = simtest_int(l, "queued_ns");
  assert_true(simtest_int(l, "received_ns") <= queued && queued <= simtest_int(l, "scheduled_ns"));
  value_free(&log);
  unlink(temp_path());
}

/* "content content finish0": the kinds of a request's writes that hold output or could. */
static char *outputs_of(const struct value *line) {
  static char text[400];
  const struct value *writes = value_get(line, "writes");
  text[0] = '\0';
  for (size_t i = 0; i < value_count(writes); i++) {
    const struct value *w = value_at(writes, i);
    const char *kind = value_to_string(value_get(w, "kind"));
    int64_t n = -1;
    bool said = value_to_int(value_get(w, "outputs"), &n);
    if (strcmp(kind, "content") == 0 || strcmp(kind, "finish") == 0 || said)
      snprintf(text + strlen(text), sizeof text - strlen(text), said ? "%s%s%lld" : "%s%s",
               text[0] ? " " : "", kind, (long long)n);
  }
  return text;
}

static void test_which_writes_hold_output(void **state) {
  (void)state;
  struct simtest t;
  static const char *const faults[] = {"coalesce events=3 count=1 path=/v1/completions", NULL};
  simtest_start(&t, 1, "fixed", NULL, faults, temp_path());
  post(&t, 0, "/v1/chat/completions",
       "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":4,\"ignore_eos\":true,"
       "\"stream\":true}");
  post(&t, 0, "/v1/completions",
       "{\"prompt\":\"x\",\"max_tokens\":4,\"ignore_eos\":true,\"stream\":true}");
  simtest_stop(&t);
  struct value log = simtest_truth(temp_path());
  const struct value *chat = value_at(&log, 0), *writes = value_get(chat, "writes");
  assert_string_equal(outputs_of(chat), "content content content finish");
  /* behind headers and role */
  assert_int_equal(simtest_int(chat, "first_visible_ns"), simtest_int(value_at(writes, 2), "ns"));
  assert_string_equal(outputs_of(value_at(&log, 1)), "content3 finish");
  value_free(&log);
  unlink(temp_path());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_resident_where),
      cmocka_unit_test(test_tiers_count_as_resident),
      cmocka_unit_test(test_chains_and_tokens),
      cmocka_unit_test(test_which_writes_hold_output),
  };
  return cmocka_run_group_tests_name("gentruth", tests, NULL, NULL);
}
