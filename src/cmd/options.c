/* options.c: reading argv by a table, and printing that table as help. */
#include "cmd/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/units.h"

static void list_add(struct options_list *list, const char *item) {
  MEM_GROW(list->items, list->n, list->cap);
  list->items[list->n++] = item;
}

static const struct options_spec *find(const struct options_command *cmd, const char *name,
                                       size_t len) {
  for (size_t i = 0; i < cmd->n_specs; i++)
    if (strlen(cmd->specs[i].name) == len && memcmp(cmd->specs[i].name, name, len) == 0)
      return &cmd->specs[i];
  return NULL;
}

static int unknown(const struct options_command *cmd, const char *name, size_t len,
                   struct err *err) {
  const char **names = mem_calloc(cmd->n_specs + 1, sizeof *names);
  for (size_t i = 0; i < cmd->n_specs; i++)
    names[i] = cmd->specs[i].name;
  names[cmd->n_specs] = "--help";
  char *word = mem_strndup(name, len);
  const char *near = NULL;
  for (size_t i = 0; i < cmd->n_hints && !near; i++)
    near = strcmp(cmd->hints[i].name, word) == 0 ? cmd->hints[i].says : NULL;
  if (!near)
    near = err_nearest(word, names, cmd->n_specs + 1);
  int rc = err_set(err, ERR_INVALID, "unknown option %s%s%s%s; see `perigee %s --help`", word,
                   near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", cmd->name);
  mem_free(word);
  mem_free(names);
  return rc;
}

static struct options_range range_of(const struct options_command *cmd,
                                     const struct options_spec *s) {
  for (size_t i = 0; i < cmd->n_ranges; i++)
    if (strcmp(cmd->ranges[i].name, s->name) == 0)
      return cmd->ranges[i];
  return (struct options_range){s->name, 0, HUGE_VAL};
}

#define MOST_WHOLE 9007199254740992.0 /* 2^53: above it a double skips whole numbers */

static void put_quantity(struct buf *out, enum options_kind kind, double x) {
  char text[32];
  snprintf(text, sizeof text, kind == OPTIONS_COUNT ? "%.0f" : "%.15g", x);
  if (kind == OPTIONS_SECONDS)
    units_format_seconds(x, text, sizeof text);
  buf_puts(out, text);
}

/* "1 to 1024", "0 or more" */
static void put_range(struct buf *out, enum options_kind kind, const struct options_range *r) {
  put_quantity(out, kind, r->least);
  buf_puts(out, r->most < HUGE_VAL ? " to " : " or more");
  if (r->most < HUGE_VAL)
    put_quantity(out, kind, r->most);
}

/* Not a number of its kind, or one that is out of its range. */
static int refuse_number(const struct options_spec *s, const struct options_range *r,
                         const char *value, bool in_kind, struct err *err) {
  const char *what = s->kind == OPTIONS_SECONDS
                         ? "a time, as in 50ms, 2s, 3m or a number of seconds"
                     : s->kind == OPTIONS_RATIO ? "a share, as in 5% or a number from 0 to 1"
                                                : "a whole number";
  struct buf range;
  buf_init(&range, BUF_MAX_OWN);
  put_range(&range, s->kind, r);
  int rc = in_kind ? err_set(err, ERR_INVALID, "%s: %.60s is out of range (%s)", s->name, value,
                             range.data)
                   : err_set(err, ERR_INVALID, "%s: \"%.60s\" is not %s (%s)", s->name, value, what,
                             range.data);
  buf_free(&range);
  return rc;
}

static int set_number(const struct options_command *cmd, const struct options_spec *s,
                      const char *value, void *field, struct err *err) {
  enum units_kind want = s->kind == OPTIONS_SECONDS ? UNITS_TIME
                         : s->kind == OPTIONS_RATIO ? UNITS_RATIO
                                                    : UNITS_NONE;
  struct options_range range = range_of(cmd, s);
  double x;
  if (units_parse(value, strlen(value), want, &x, NULL, NULL))
    return refuse_number(s, &range, value, false, err);
  bool whole = s->kind == OPTIONS_COUNT;
  if (whole && x != floor(x))
    return refuse_number(s, &range, value, false, err);
  if (whole && x > MOST_WHOLE && range.most > MOST_WHOLE)
    range.most = MOST_WHOLE;
  if (x < range.least || x > range.most)
    return refuse_number(s, &range, value, true, err);
  if (whole)
    *(int64_t *)field = (int64_t)x;
  else
    *(double *)field = x;
  return 0;
}

static int set_value(const struct options_command *cmd, const struct options_spec *s,
                     const char *value, char *dest, struct err *err) {
  void *field = dest + s->offset;
  if (s->kind != OPTIONS_FLAG && s->kind != OPTIONS_OPTIONAL_TEXT && !*value)
    return err_set(err, ERR_INVALID, "%s: the value is empty; write %s %s", s->name, s->name,
                   s->arg);
  switch (s->kind) {
  case OPTIONS_FLAG:
    *(bool *)field = true;
    return 0;
  case OPTIONS_TEXT:
  case OPTIONS_OPTIONAL_TEXT:
    *(const char **)field = value;
    return 0;
  case OPTIONS_ONE_TEXT:
    if (*(const char **)field)
      return err_set(err, ERR_INVALID, "%s is given twice, and there can be one", s->name);
    *(const char **)field = value;
    return 0;
  case OPTIONS_LIST:
    list_add(field, value);
    return 0;
  case OPTIONS_COUNT:
  case OPTIONS_SECONDS:
  case OPTIONS_RATIO:
    return set_number(cmd, s, value, field, err);
  }
  return err_set(err, ERR_INVALID, "%s has no kind", s->name);
}

static int check_args(const struct options_command *cmd, const struct options_list *args,
                      struct err *err) {
  size_t n = args->n;
  for (size_t i = 0; i < n; i++)
    if (!*args->items[i])
      return err_set(err, ERR_INVALID, "argument %zu is empty; usage: perigee %s %s", i + 1,
                     cmd->name, cmd->usage);
  if (n < cmd->min_args)
    return err_set(err, ERR_INVALID, "missing argument; usage: perigee %s %s", cmd->name,
                   cmd->usage);
  if (n > cmd->max_args)
    return err_set(err, ERR_INVALID, "too many arguments; usage: perigee %s%s%s", cmd->name,
                   *cmd->usage ? " " : "", cmd->usage);
  return 0;
}

int options_parse(const struct options_command *cmd, int argc, char **argv, void *dest,
                  struct options_list *args, struct err *err) {
  *args = (struct options_list){0};
  bool only_args = false;
  for (int i = 0; i < argc; i++) {
    const char *a = argv[i];
    if (only_args || a[0] != '-' || !a[1]) {
      list_add(args, a);
      continue;
    }
    if (strcmp(a, "--") == 0) {
      only_args = true;
      continue;
    }
    if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
      options_print_help(cmd);
      return 1;
    }
    const char *eq = strchr(a, '=');
    size_t len = eq ? (size_t)(eq - a) : strlen(a);
    const struct options_spec *s = find(cmd, a, len);
    if (!s)
      return unknown(cmd, a, len, err);
    const char *value = eq ? eq + 1 : NULL;
    if (s->kind == OPTIONS_FLAG && value)
      return err_set(err, ERR_INVALID, "%s takes no value", s->name);
    if (s->kind == OPTIONS_OPTIONAL_TEXT && !value)
      value = "";
    if (s->kind != OPTIONS_FLAG && !value) {
      if (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0)
        return err_set(err, ERR_INVALID, "%s needs a value: %s %s", s->name, s->name, s->arg);
      value = argv[++i];
    }
    int rc = set_value(cmd, s, value, dest, err);
    if (rc)
      return rc;
  }
  return check_args(cmd, args, err);
}

void options_free(const struct options_command *cmd, void *dest, struct options_list *args) {
  for (size_t i = 0; i < cmd->n_specs; i++)
    if (cmd->specs[i].kind == OPTIONS_LIST) {
      struct options_list *list = (void *)((char *)dest + cmd->specs[i].offset);
      mem_free(list->items);
      *list = (struct options_list){0};
    }
  mem_free(args->items);
  *args = (struct options_list){0};
}

/* Columns that a text takes, which are not its bytes. */
static int columns_of(const char *text) {
  int n = 0;
  for (; *text; text++)
    n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

/* Prints `text` wrapped to 80 columns behind an indent; the first line begins where the caller
 * stands. */
static void print_wrapped(const char *text, int indent, int column) {
  const int width = 92;
  while (*text) {
    size_t word = strcspn(text, " \n");
    printf("%.*s", (int)word, text);
    column += (int)word;
    text += word;
    if (*text == '\n') {
      printf("\n%*s", indent, "");
      column = indent;
      text++;
    } else if (*text == ' ') {
      text++;
      if (column + 1 + (int)strcspn(text, " \n") <= width) {
        putchar(' ');
        column++;
      } else {
        printf("\n%*s", indent, "");
        column = indent;
      }
    }
  }
  putchar('\n');
}

void options_print_help(const struct options_command *cmd) {
  printf("perigee %s: %s\n\nUsage: perigee %s%s%s\n", cmd->name, cmd->summary, cmd->name,
         *cmd->usage ? " " : "", cmd->usage);
  if (cmd->about)
    printf("\n%s\n", cmd->about);
  printf("\nOptions:\n");
  for (size_t i = 0; i < cmd->n_specs; i++) {
    const struct options_spec *s = &cmd->specs[i];
    char left[64];
    if (s->kind == OPTIONS_OPTIONAL_TEXT)
      snprintf(left, sizeof left, "%s[=%s]", s->name, s->arg);
    else
      snprintf(left, sizeof left, "%s%s%s", s->name, s->arg ? " " : "", s->arg ? s->arg : "");
    int wide = columns_of(left), space = wide < 24 ? 24 - wide : 0;
    printf("  %s%*s  ", left, space, "");
    int n = wide + space + 4;
    struct buf help;
    buf_init(&help, BUF_MAX_OWN);
    buf_puts(&help, s->help);
    struct options_range range = range_of(cmd, s);
    if (range.least > 0 || range.most < HUGE_VAL) {
      buf_puts(&help, "; ");
      put_range(&help, s->kind, &range);
    }
    print_wrapped(help.data, 28, n);
    buf_free(&help);
  }
  printf("  %-24s  this text\n", "--help");
}
