/* test_planfiles.c: the files behind a plan (planfiles.c): what was read as Lua source, sorted,
 * perigee's own left out; and that every later state gets the same bytes. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "bind/plan.h"
#include "run/store.h"

static void put(const char *dir, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void lists_modules_from_disk(void **state) {
  (void)state;
  char dir[] = "/tmp/perigee-files-XXXXXX", lib[64], script[64];
  assert_non_null(mkdtemp(dir));
  snprintf(lib, sizeof lib, "%s/lib", dir);
  assert_int_equal(mkdir(lib, 0700), 0);
  put(dir, "zeta.lua", "return {}\n");
  put(dir, "data.lua", "return 1\n");
  put(dir, "lib/alpha.lua", "return require 'zeta'\n");
  put(dir, "s.lua",
      "local perigee = require 'perigee'\nrequire 'alpha'\nrequire 'cjson'\n"
      "dofile(debug.getinfo(1).source:sub(2, -6) .. 'data.lua')\n"
      "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 },\n"
      "  session = function() end }\n");
  snprintf(script, sizeof script, "%s/s.lua", dir);
  struct err err = {0};
  struct store *store = store_new();
  struct plan_info plan;
  const struct plan_source source = {.script = script, .store = store};
  check_ok(bind_plan_load(&source, &plan, &err), &err);
  assert_int_equal(plan.n_files, 3);
  check_has(plan.files[0], "/data.lua");
  check_has(plan.files[1], "/lib/alpha.lua");
  check_has(plan.files[2], "/zeta.lua");
  assert_string_equal(store_source(store, plan.files[2])->data, "return {}\n");
  plan_info_free(&plan);
  put(dir, "zeta.lua", "error 'edited while it ran'\n");
  put(dir, "s.lua", "error 'edited too'\n");
  check_ok(bind_plan_load(&source, &plan, &err), &err);
  assert_int_equal(plan.n_files, 3);
  plan_info_free(&plan);
  store_delete(store);
  static const char *const names[] = {"lib/alpha.lua", "zeta.lua", "data.lua", "s.lua"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    unlink(path);
  }
  rmdir(lib);
  rmdir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lists_modules_from_disk)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
