/* checks_value.c: what the checks say together: a verdict, and a value for the summary. */
#include <math.h>

#include "out/checks.h"

bool checks_valid(const struct check checks[CHECK_COUNT]) {
  for (int i = 0; i < CHECK_COUNT; i++)
    if (!checks[i].ok)
      return false;
  return true;
}

struct value checks_value(const struct check checks[CHECK_COUNT]) {
  struct value list = value_array();
  for (int i = 0; i < CHECK_COUNT; i++) {
    const struct check *c = &checks[i];
    struct value *item = value_push(&list, value_object());
    value_set(item, "name", value_cstring(c->name));
    value_set(item, "figure", isnan(c->figure) ? value_null() : value_double(c->figure));
    value_set(item, "limit", value_double(c->limit));
    value_set(item, "minimum", value_bool(c->minimum));
    value_set(item, "unit", value_cstring(c->unit));
    value_set(item, "ok", value_bool(c->ok));
    value_set(item, "note", value_cstring(c->note[0] ? c->note : NULL));
    value_set(item, "meaning", value_cstring(c->meaning));
  }
  return list;
}
