/* test_reach.c: the nearest module, among those of the binary and of folders. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/reach.h"

static void check_meant(const char *name, const char *path, const char *want) {
  struct buf b;
  buf_init(&b, 1 << 12);
  reach_nearest(name, path, &b);
  assert_string_equal(b.len ? b.data : "", want);
  buf_free(&b);
}

static void knows_its_own(void **state) {
  (void)state;
  check_meant("perigee.chta", "", "perigee.chat");
  check_meant("perige", "", "perigee");
  check_meant("perigee.jsn", "", "perigee.json");
  check_meant("cjsn", "", "cjson");
  check_meant("nothing_like_it", NULL, "");
}

static void looks_into_folders(void **state) {
  (void)state;
  static const char *const folders[] = {"", "/pack", "/deep", "/deep/er"};
  static const char *const files[] = {"/agentlib.lua", "/pack/init.lua", "/deep/er/tools.lua",
                                      "/notes.txt"};
  char top[] = "/tmp/perigee-reach-XXXXXX", path[300], file[200];
  assert_non_null(mkdtemp(top));
  for (size_t i = 1; i < ARRAY_LEN(folders); i++) {
    snprintf(file, sizeof file, "%s%s", top, folders[i]);
    assert_int_equal(mkdir(file, 0700), 0);
  }
  for (size_t i = 0; i < ARRAY_LEN(files); i++) {
    snprintf(file, sizeof file, "%s%s", top, files[i]);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
  }
  snprintf(path, sizeof path, "/no/such/?.lua;plain.lua;%s/?.lua;%s/?/init.lua", top, top);
  check_meant("agentlibb", path, "agentlib");
  check_meant("AgentLib", path, "agentlib");
  check_meant("pakc", path, "pack");
  check_meant("deep.er.tolos", path, "deep.er.tools");
  check_meant("nots", path, ""); /* no Lua file */
  for (size_t i = 0; i < ARRAY_LEN(files); i++) {
    snprintf(file, sizeof file, "%s%s", top, files[i]);
    assert_int_equal(unlink(file), 0);
  }
  for (size_t i = ARRAY_LEN(folders); i-- > 0;) {
    snprintf(file, sizeof file, "%s%s", top, folders[i]);
    assert_int_equal(rmdir(file), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(knows_its_own),
      cmocka_unit_test(looks_into_folders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
