/* fuzz_simprofile.c: any table as a profile file. What is refused says why and names the file; what
 * is accepted makes a fleet's configuration, with steps of finite times, and an engine if it is
 * small. */
#include <stdlib.h>
#include <string.h>

#include "sim/simconfig.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static void check_engine(const struct simconfig *c) {
  if (c->engine.num_blocks > 4096)
    return;
  struct err err;
  struct engine *e = engine_new(&c->engine, &err);
  require(e != NULL);
  engine_delete(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value table;
  struct simconfig c;
  struct err err = {0};
  if (json_parse((const char *)data, size, &table, &err))
    return 0;
  if (simprofile_read(&c, "profile.lua", &table, &err)) {
    require(strncmp(err.text, "profile.lua: ", 13) == 0 && err.text[13]);
  } else {
    require(simconfig_check(&c, &err) == 0);
    require(c.time.name[0] && c.time.decode_base_ns >= 0 && c.time.decode_seq_ns >= 0);
    require(steptime_step_ns(&c.time, 8192, 256, 1 << 20) <= STEPTIME_MAX_NS);
    check_engine(&c);
  }
  value_free(&table);
  return 0;
}
