/* test_truth.c: the ground-truth log. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "sim/truth.h"

static char *temp_path(void) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/test_truth.%d", (int)getpid());
  return path;
}

static const struct truth_write writes[] = {
    {100, 0, 0, 0, TRUTH_HEADERS},   {18446744073709551615u, 231, 1, 0, TRUTH_ROLE},
    {120, 700, 3, 2, TRUTH_CONTENT}, {121, 9, 1, 1, TRUTH_CONTENT},
    {122, 9, 1, 0, TRUTH_FINISH},    {123, 9, 1, 1, TRUTH_ROLE},
    {124, 9, 1, 0, TRUTH_PIECE}};
static const struct chainlog_told chains[] = {{0, 5}, {3, 1}};
static const uint64_t first_tokens[] = {18446744073709551000u, 18446744073709551010u,
                                        18446744073709551040u};
static const struct truth_tokens tokens[] = {{first_tokens, 3}, {NULL, 0}};
static const struct truth_line line = {.replica = "r0",
                                       .id = "chatcmpl-1",
                                       .path = "/v1/chat/completions",
                                       .finish = "stop",
                                       .number = 7,
                                       .stream = true,
                                       .status = 200,
                                       .received_ns = 90,
                                       .queued_ns = 93,
                                       .first_visible_ns = 121,
                                       .scheduled_ns = 95,
                                       .first_token_ns = 110,
                                       .last_token_ns = 130,
                                       .choices = 2,
                                       .prompts = 1,
                                       .prompt_tokens = 40,
                                       .output_tokens = 4,
                                       .cached_tokens = 32,
                                       .offload_tokens = 8,
                                       .shared_tokens = 4,
                                       .transfer_tokens = 2,
                                       .preemptions = 1,
                                       .evicted_blocks = 6,
                                       .block_size = 16,
                                       .captured_tokens = 32,
                                       .captured_pool_tokens = 16,
                                       .available_tokens = 48,
                                       .available_pool_tokens = 47,
                                       .available_replica = "r2",
                                       .chains = chains,
                                       .tokens = tokens,
                                       .n_chains = 2,
                                       .writes = writes,
                                       .n_writes = 7};

static void test_line(void **state) {
  (void)state;
  struct err err = {0};
  struct truth *t = truth_open(temp_path(), &err);
  assert_non_null(t);
  truth_add(t, &line);
  size_t len;
  char *text = check_read_file(temp_path(), &len);
  assert_int_equal(len, 0); /* held */
  free(text);
  truth_flush(t);
  text = check_read_file(temp_path(), &len);
  assert_string_equal(
      text, "{\"replica\":\"r0\",\"number\":7,\"id\":\"chatcmpl-1\",\"request_id\":null,"
            "\"path\":\"/v1/chat/completions\",\"stream\":true,\"status\":200,\"fault\":null,"
            "\"received_ns\":90,\"queued_ns\":93,\"scheduled_ns\":95,\"first_token_ns\":110,\"last_"
            "token_ns\":130,"
            "\"choices\":2,\"prompts\":1,\"prompt_tokens\":40,\"output_tokens\":4,\"cached_"
            "tokens\":32,\"offload_"
            "tokens\":8,"
            "\"shared_tokens\":4,\"transfer_tokens\":2,\"preemptions\":1,"
            "\"evicted_blocks\":6,\"block_size\":16,\"captured_tokens\":32,"
            "\"captured_pool_tokens\":16,\"available_tokens\":48,\"available_pool_tokens\":47,"
            "\"available_replica\":\"r2\",\"chains\":[[0,5],[3,1]],"
            "\"token_ns\":[[18446744073709551000,10,30],[]],"
            "\"finish\":\"stop\",\"first_visible_ns\":121,\"writes\":[{\"ns\":100,\"bytes\":0,"
            "\"kind\":\"headers\"},"
            "{\"ns\":18446744073709551615,\"bytes\":231,\"kind\":\"role\"},"
            "{\"ns\":120,\"bytes\":700,\"kind\":\"content\",\"events\":3,\"outputs\":2},"
            "{\"ns\":121,\"bytes\":9,\"kind\":\"content\"},"
            "{\"ns\":122,\"bytes\":9,\"kind\":\"finish\",\"outputs\":0},"
            "{\"ns\":123,\"bytes\":9,\"kind\":\"role\",\"outputs\":1},"
            "{\"ns\":124,\"bytes\":9,\"kind\":\"piece\"}]}\n");
  free(text);
  assert_int_equal(truth_close(t), 0);
  unlink(temp_path());
}

static void test_absent_values_are_null(void **state) {
  (void)state;
  struct err err = {0};
  struct truth *t = truth_open(temp_path(), &err);
  struct truth_line l = {
      .replica = "r1", .id = "x", .request_id = "a\"b", .path = "/", .fault = "stall"};
  truth_add(t, &l);
  truth_close(t);
  char *text = check_read_file(temp_path(), NULL);
  check_has(text, "\"request_id\":\"a\\\"b\"");
  check_has(text,
            "\"fault\":\"stall\",\"received_ns\":null,\"queued_ns\":null,\"scheduled_ns\":null,"
            "\"first_token_ns\":null,\"last_token_ns\":null,");
  check_has(text, "\"available_replica\":null,\"chains\":[],\"token_ns\":[],\"finish\":null,"
                  "\"first_visible_ns\":null,\"writes\":[]}\n");
  free(text);
  unlink(temp_path());
}

static void test_large_logs_are_written_by_themselves(void **state) {
  (void)state;
  struct err err = {0};
  struct truth *t = truth_open(temp_path(), &err);
  struct stat st = {0};
  for (int i = 0; i < 400; i++)
    truth_add(t, &line);
  assert_int_equal(stat(temp_path(), &st), 0);
  assert_true(st.st_size >= 64 * 1024);
  truth_close(t);
  assert_int_equal(stat(temp_path(), &st), 0);
  size_t len;
  char *text = check_read_file(temp_path(), &len);
  size_t lines = 0;
  for (size_t i = 0; i < len; i++)
    lines += text[i] == '\n';
  assert_int_equal(lines, 400);
  free(text);
  unlink(temp_path());
}

static void test_bad_path_is_named(void **state) {
  (void)state;
  struct err err = {0};
  assert_null(truth_open("/nowhere/truth.jsonl", &err));
  assert_int_equal(err.code, ERR_IO);
  check_has(err.text, "cannot write the truth log /nowhere/truth.jsonl: No such file");
  assert_int_equal(truth_close(NULL), 0);
}

static void test_a_full_disk_is_told_at_the_end(void **state) {
  (void)state;
  struct err err = {0};
  struct truth *t = truth_open("/dev/full", &err);
  assert_non_null(t);
  log_set_stderr(false);
  truth_add(t, &line);
  truth_flush(t);
  truth_add(t, &line);
  assert_int_equal(truth_close(t), ERR_IO);
  log_set_stderr(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_line),
      cmocka_unit_test(test_absent_values_are_null),
      cmocka_unit_test(test_large_logs_are_written_by_themselves),
      cmocka_unit_test(test_bad_path_is_named),
      cmocka_unit_test(test_a_full_disk_is_told_at_the_end),
  };
  return cmocka_run_group_tests_name("truth", tests, NULL, NULL);
}
