/* The searcher: embedded modules before everything on disk, PERIGEE_DEV instead of them. */
#include "check.h"
#include "lua_check.h"

#include <sys/stat.h>

static void test_embedded_files_are_found(void **state) {
  (void)state;
  const struct embed_file *f = bind_embed_find("lua/perigee/chat.lua");
  assert_non_null(f);
  assert_true(f->end > f->start);
  assert_null(bind_embed_find("lua/perigee/none.lua"));
  assert_non_null(bind_embed_find("lua/meta/perigee.lua"));
}

static void test_modules_load_under_their_own_names(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, "gen = require 'perigee.gen'");
  lua_check_string(L, "return debug.getinfo(gen.text, 'S').source", "@perigee/gen.lua");
  lua_check_string(L,
                   "package.loaded['perigee.gen'] = nil\n"
                   "return select(2, require 'perigee.gen')",
                   "built-in lua/perigee/gen.lua");
  lua_check_string(L, "return type(require 'perigee.json'.encode)", "function");
  lua_check_error(L, "require 'perigee.none'", "no built-in module 'perigee.none'");
  lua_check_error(L, "require 'perigeex'", "module 'perigeex' not found");
  lua_close(L);
}

static void test_built_in_wins_over_the_path(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_string(L, "package.path = 'tests/unit/?.c' return type(require 'perigee.route'.direct)",
                   "function");
  lua_close(L);
}

static void test_development_folder(void **state) {
  (void)state;
  char folder[] = "/tmp/perigee_dev_XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/gen.lua", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("return { from = 'disk', where = debug.getinfo(1, 'S').source }", f);
  fclose(f);
  setenv("PERIGEE_DEV", folder, 1);
  lua_State *L = lua_check_open();
  lua_check_string(L, "return require 'perigee.gen'.from", "disk");
  lua_check_string(L, "return require 'perigee.gen'.where", "@perigee/gen.lua");
  lua_check_error(L, "require 'perigee.chat'", "PERIGEE_DEV");
  lua_close(L);
  unsetenv("PERIGEE_DEV");
  remove(path);
  remove(folder);
}

/* Loading itself: each C module, and a Lua module that needs some of them. */
static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(
      "", "for _, name in ipairs { 'chat.core', 'completions.core', 'core', 'gen.core',\n"
          "                        'json', 'openai', 'stats' } do\n"
          "  assert(require('perigee.' .. name))\n"
          "end");
  lua_check_out_of_memory("", "assert(require 'perigee.gen'.text)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_embedded_files_are_found),
      cmocka_unit_test(test_modules_load_under_their_own_names),
      cmocka_unit_test(test_built_in_wins_over_the_path),
      cmocka_unit_test(test_development_folder),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
