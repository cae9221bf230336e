/* jinja_check.h: rows of template, context and what Jinja2 3.1 on Python 3.11 makes of them. */
#ifndef JINJA_CHECK_H
#define JINJA_CHECK_H

#include "text/json.h"
#include "text/template.h"

struct jinja_row {
  const char *template, *context; /* a JSON object; NULL is {} */
  const char *want;               /* the text; "!" and an error's class and text, or "!CLASS: " */
};

/* The text, or "!" and the error behind "line n: "; lives until the next call. */
static inline const char *jinja_render(const char *source, const char *context) {
  static char text[1 << 16];
  struct template *tpl;
  struct value v;
  struct err err;
  struct buf out;
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  buf_init(&out, sizeof text - 1);
  assert_int_equal(json_parse(context ? context : "{}", strlen(context ? context : "{}"), &v, &err),
                   0);
  int rc = template_load(source, strlen(source), "t", &tpl, &err);
  if (rc == 0)
    rc = template_render(tpl, &v, &opts, &out, &err);
  if (rc < 0) {
    const char *reason = strstr(err.text, "line ");
    reason = reason ? strstr(reason, ": ") : NULL;
    snprintf(text, sizeof text, "!%s", reason ? reason + 2 : err.text);
  } else {
    snprintf(text, sizeof text, "%s", out.len ? out.data : "");
  }
  template_delete(tpl);
  value_free(&v);
  buf_free(&out);
  return text;
}

static inline void jinja_check(const struct jinja_row *rows, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const char *got = jinja_render(rows[i].template, rows[i].context), *want = rows[i].want;
    size_t n_want = strlen(want);
    bool class_only = *want == '!' && n_want > 1 && want[n_want - 1] == ' ';
    if (class_only ? strncmp(got, want, n_want) != 0 : strcmp(got, want) != 0)
      fail_msg("%s with %s\n  got  %s\n  want %s", rows[i].template,
               rows[i].context ? rows[i].context : "{}", got, rows[i].want);
  }
}

#endif
