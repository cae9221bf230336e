/* perigee.core: options with the nearest word, quantities, counts, files, embedded bytes. */
#include "check.h"
#include "lua_check.h"

static int open_core(void **state) {
  lua_State *L = lua_check_open();
  lua_check_run(L, "core = require 'perigee.core'");
  *state = L;
  return 0;
}

static int close_core(void **state) {
  lua_close(*state);
  return 0;
}

static void test_options(void **state) {
  lua_State *L = *state;
  lua_check_string(L, "return type(core.options(nil, 'f', { 'a' }))", "table");
  lua_check_string(L, "local t = { a = 1 } return core.options(t, 'f', { 'a', 'b' }) == t", "true");
  lua_check_error(L, "core.options({ tokns = 1 }, 'f', { 'seed', 'tokens' })",
                  "f: unknown option 'tokns' (did you mean 'tokens'?)");
  lua_check_error(L, "core.options({ zzzzzz = 1 }, 'f', { 'seed', 'tokens' })",
                  "f: unknown option 'zzzzzz' (known: seed, tokens)");
  lua_check_error(L, "core.options({ 1 }, 'f', { 'a' })", "f: option names are words");
  lua_check_error(L, "core.options(3, 'f', { 'a' })", "f: options must be a table, got number");
}

static void test_words(void **state) {
  lua_State *L = *state;
  lua_check_string(L, "return core.word('live', 'f', 'history', { 'scripted', 'live' })", "live");
  lua_check_error(L, "core.word('life', 'f', 'history', { 'scripted', 'live' })",
                  "f: unknown history 'life' (did you mean 'live'?)");
  lua_check_error(L, "core.word('qqqqq', 'f', 'history', { 'scripted', 'live' })",
                  "(known: scripted, live)");
  lua_check_error(L, "core.word(1, 'f', 'history', { 'a' })",
                  "history must be a string, got number");
  lua_check_string(L, "return core.nearest('tfft', { 'ttft', 'itl' })", "ttft");
  lua_check_string(L, "return core.nearest('elephant', { 'ttft', 'itl' })", "nil");
}

static void test_quantities(void **state) {
  lua_State *L = *state;
  lua_check_string(L, "return core.seconds('250ms', 'x')", "0.25");
  lua_check_string(L, "return core.seconds(2, 'x')", "2.0");
  lua_check_string(L, "return core.ratio('5%', 'x')", "0.05");
  lua_check_string(L, "return core.quantity('64KiB', 'x')", "65536.0");
  lua_check_error(L, "core.seconds('64KiB', 'latency')", "latency: \"64KiB\" is not a time");
  lua_check_error(L, "core.seconds({}, 'latency')",
                  "latency must be a number or a string with a unit, got table");
  lua_check_error(L, "core.ratio(1/0, 'x')", "x must be a finite number");
  lua_check_string(L, "return core.count(2.5, 'x')", "3");
  lua_check_string(L, "return core.count(-7, 'x')", "1");
  lua_check_error(L, "core.count('3', 'tokens')", "tokens must be a number, got the string \"3\"");
  lua_check_error(L, "core.count(2e9, 'tokens')", "tokens must be a number up to 1e9, got 2e+09");
}

static void test_raise_has_a_line(void **state) {
  lua_State *L = *state;
  lua_check_error(L, "\n\ncore.raise('text')", "]:3: text");
}

static void test_files(void **state) {
  lua_State *L = *state;
  char folder[] = "/tmp/perigee_core_XXXXXX";
  assert_non_null(mkdtemp(folder));
  char path[3][64];
  snprintf(path[0], sizeof path[0], "%s/b.lua", folder);
  snprintf(path[1], sizeof path[1], "%s/a.lua", folder);
  snprintf(path[2], sizeof path[2], "%s/.hidden", folder);
  for (int i = 0; i < 3; i++) {
    FILE *f = fopen(path[i], "w");
    assert_non_null(f);
    fclose(f);
  }
  lua_pushstring(L, folder);
  lua_setglobal(L, "folder");
  lua_check_string(L, "return table.concat(core.files(folder), ' ')", "a.lua b.lua");
  lua_check_string(L, "for _, f in ipairs(core.files('/')) do if f == 'tmp/' then return f end end",
                   "tmp/");
  lua_check_string(L, "return (core.files(folder .. '/none'))", "nil");
  lua_check_string(L, "return (select(2, core.files(folder .. '/none')):gsub('^.*: ', ''))",
                   "No such file or directory");
  for (int i = 0; i < 3; i++)
    remove(path[i]);
  remove(folder);
}

static void test_embedded(void **state) {
  lua_State *L = *state;
  lua_check_string(L, "return core.embedded('lua/perigee/gen.lua'):sub(1, 17)",
                   "-- Generated text");
  lua_check_string(L, "return core.embedded('lua/perigee/none.lua')", "nil");
}

static void test_metrics(void **state) {
  lua_State *L = *state;
  lua_check_string(L,
                   "for _, m in ipairs(core.metrics()) do\n"
                   "  assert(#m.name > 0 and #m.meaning > 0 and m.unit)\n"
                   "  if m.name == 'ttft' then return m.unit end\n"
                   "end",
                   "s");
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("core = require 'perigee.core'",
                          "core.options({ a = 1 }, 'f', { 'a' }) core.files('/')\n"
                          "pcall(core.options, { q = 1 }, 'f', { 'aaaaaa', 'bbbbbb' })\n"
                          "pcall(core.word, 'q', 'f', 'w', { 'aaaaaa', 'bbbbbb' })");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_options, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_words, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_quantities, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_raise_has_a_line, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_files, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_embedded, open_core, close_core),
      cmocka_unit_test_setup_teardown(test_metrics, open_core, close_core),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
