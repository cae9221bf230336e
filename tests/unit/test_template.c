#include "check.h"

#include "text/json.h"
#include "text/template.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct value parse(const char *json) {
  struct value v;
  struct err err;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  return v;
}

static struct template *load(const char *source) {
  struct template *tpl;
  struct err err;
  check_ok(template_load(source, strlen(source), "t.jinja", &tpl, &err), &err);
  return tpl;
}

/* Renders a chat row; "!" and the whole error when it fails. Lives until the next call. */
static const char *chat(const char *source, const char *row) {
  static char text[4096];
  struct template *tpl = load(source);
  struct template_chat c;
  struct err err;
  struct buf out;
  struct value v = parse(row);
  buf_init(&out, sizeof text - 1);
  int rc = template_chat_read(&v, &c, &err);
  if (rc == 0)
    rc = template_render_chat(tpl, &c, NULL, &out, &err);
  snprintf(text, sizeof text, "%s%s", rc < 0 ? "!" : "",
           rc < 0    ? err.text
           : out.len ? out.data
                     : "");
  buf_free(&out);
  value_free(&v);
  template_delete(tpl);
  return text;
}

#define LIST                                                                                       \
  "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}\n{% endfor %}"                        \
  "{% if add_generation_prompt %}<assistant>{% endif %}"

static void test_chat(void **state) {
  (void)state;
  assert_string_equal(chat(LIST, "{\"messages\":[{\"role\":\"user\",\"content\":\" a \"}],"
                                 "\"add_generation_prompt\":true}"),
                      "<user>a\n<assistant>");
  assert_string_equal(
      chat("{{ tools }}{{ documents }}{{ bos }}{{ x }}",
           "{\"messages\":[],\"special\":{\"bos\":\"B\",\"x\":1},\"kwargs\":{\"x\":2}}"),
      "NoneNoneB2");
  assert_string_equal(chat("{{ tools|tojson }}{{ messages|length }}",
                           "{\"messages\":[],\"tools\":[{\"b\":1,\"a\":18446744073709551615}],"
                           "\"kwargs\":{\"messages\":[1,2]}}"),
                      "[{\"b\": 1, \"a\": 18446744073709551615}]2");
  check_has(chat("", "{}"), "messages are missing");
  check_has(chat("", "{\"messages\":1}"), "messages must be a list of messages");
  check_has(chat("", "{\"messages\":[],\"add_generation_prompt\":1}"), "true or false");
  check_has(chat("", "{\"messages\":[],\"special\":[]}"), "special must be an object");
  check_has(chat("", "[]"), "must be one JSON object");
}

static void test_continue(void **state) {
  (void)state;
#define OPEN "\"continue_final_message\":true"
  const char *plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
  assert_string_equal(
      chat(plain, "{\"messages\":[{\"content\":\"a\"},{\"content\":\"b c \"}]," OPEN "}"),
      "[a][b c ");
  assert_string_equal(
      chat(LIST, "{\"messages\":[{\"role\":\"user\",\"content\":\"b c  \"}]," OPEN "}"),
      "<user>b c");
  assert_string_equal(
      chat("{% for p in messages[0].content %}{{ p.text }};{% endfor %}",
           "{\"messages\":[{\"content\":[{\"text\":\"x\"},{\"text\":\"y\"},{\"image\":1}]}]," OPEN
           "}"),
      "x;y");
  check_has(chat("nothing", "{\"messages\":[{\"content\":\"b\"}]," OPEN "}"),
            "ValueError: continue_final_message is set but the final message does not appear");
  check_has(chat(plain, "{\"messages\":[{\"content\":null}]," OPEN "}"), "TypeError");
  check_has(chat(plain, "{\"messages\":[{\"content\":[{\"a\":1}]}]," OPEN "}"), "find any text");
  check_has(chat(plain, "{\"messages\":[]," OPEN "}"), "IndexError");
  check_has(chat(plain, "{\"messages\":[{}]," OPEN "}"), "KeyError");
  check_has(chat(plain, "{\"messages\":[],\"add_generation_prompt\":true," OPEN "}"),
            "are not compatible");
}

/* Renders with limits; the code, the error's text in *err. */
static int limited(const char *source, const struct template_options *opts, struct err *err) {
  struct template *tpl = load(source);
  struct value v = parse("{}");
  struct buf out;
  buf_init(&out, 1 << 20);
  buf_puts(&out, "kept");
  int rc = template_render(tpl, &v, opts, &out, err);
  if (rc < 0)
    assert_string_equal(out.data, "kept");
  assert_int_equal(out.max, 1 << 20);
  buf_free(&out);
  value_free(&v);
  template_delete(tpl);
  return rc;
}

static void test_limits(void **state) {
  (void)state;
  struct err err;
  struct template_options out = {.max_output_bytes = 10}, steps = {.max_steps = 1000},
                          memory = {.max_memory_bytes = 1 << 20};
  assert_int_equal(limited("0123456789", &out, &err), 0);
  assert_int_equal(limited("01234567890", &out, &err), ERR_LIMIT);
  check_has(err.text, "template 't.jinja' line 1: the text is longer than");
  assert_int_equal(limited("{% for i in range(100000) %}{% endfor %}", &steps, &err), ERR_LIMIT);
  check_has(err.text, "runs too long");
  assert_int_equal(limited("\n{{ 'x' * 10000000 }}", &memory, &err), ERR_LIMIT);
  check_has(err.text, "line 2");
  assert_int_equal(limited("{% set x = [1] * 100000000 %}", &memory, &err), ERR_LIMIT);
  assert_int_equal(limited("{{ 'x' * 9223372036854775807 }}", NULL, &err), ERR_LIMIT);
  assert_int_equal(limited("{{ 2 ** 100000000 }}", NULL, &err), ERR_LIMIT);
  assert_int_equal(limited("{{ '%1000000000000d' % 1 }}", NULL, &err), ERR_LIMIT);
  assert_int_equal(limited("{{ '{:.99999999f}'.format(1.5) }}", NULL, &err), ERR_LIMIT);
  assert_int_equal(limited("{{ 'x' * 2000000 }}", NULL, &err), ERR_LIMIT);
  assert_int_equal(limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, &err),
                   ERR_INVALID);
  check_has(err.text, "RecursionError");
  assert_int_equal(limited("{% set ns = namespace(x=[]) %}{% for i in range(9000) %}"
                           "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
                           NULL, &err),
                   ERR_INVALID);
  check_has(err.text, "RecursionError");
  assert_int_equal(limited("{% set x = 'a' * 1000000 %}{% set y = 'a' * 500000 + 'b' %}"
                           "{{ x.rfind(y) }}{{ x.rsplit(y) }}",
                           &(struct template_options){.max_steps = 5000000}, &err),
                   ERR_LIMIT);
  check_has(err.text, "runs too long");
  assert_int_equal(limited("{{ '\\ud800' }}", NULL, &err), ERR_INVALID);
  check_has(err.text, "UnicodeEncodeError");
  assert_int_equal(limited("{{ strftime_now('%Y') }}", NULL, &err), ERR_INVALID);
  check_has(err.text, "no time is given");
}

static long peak_kb(void) {
  struct rusage u;
  assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
  return u.ru_maxrss;
}

/* Whatever makes long text or lists is refused before it makes them. */
static void test_growth_is_refused_beforehand(void **state) {
  (void)state;
  static const char *const sources[] = {"{{ 'a'.center(1000000000)|length }}",
                                        "{{ 'a'.ljust(1000000000)|length }}",
                                        "{{ 'a'.rjust(400000000, 'é')|length }}",
                                        "{{ '7'.zfill(1000000000)|length }}",
                                        "{{ '\t'.expandtabs(1000000000)|length }}",
                                        "{{ '%1000000000d' % 1 }}",
                                        "{{ '%01000000000d' % 1 }}",
                                        "{{ '%.1000000000d' % 1 }}",
                                        "{{ '%*d' % (1000000000, 1) }}",
                                        "{{ '%1000000000s' % 'a' }}",
                                        "{{ '%-1000000000c' % 'a' }}",
                                        "{{ '%1000000000.2f' % 1.5 }}",
                                        "{{ '{:>1000000000}'.format(1) }}",
                                        "{{ '{:01000000000,}'.format(1) }}",
                                        "{{ '{:{}}'.format('a', 1000000000) }}",
                                        "{{ '{:=^1000000000.3f}'.format(2.5) }}",
                                        "{{ 'a'|center(1000000000) }}",
                                        "{{ 'a'|indent(1000000000) }}",
                                        "{{ [1]|tojson(indent=1000000000) }}",
                                        "{{ 'a' * 10000000000 }}",
                                        "{{ 'ab' * 400000000 }}",
                                        "{{ [1] * 100000000 }}",
                                        "{{ (1, 2) * 30000000 }}",
                                        "{{ range(100000)|list * 1000 }}",
                                        "{{ strftime_now('%c' * 1000000) }}"};
  struct template_options opts = {.has_now = true, .now = {2026, 8, 22, 12, 34, 56, 0}};
  long before = peak_kb();
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    struct err err;
    if (limited(sources[i], &opts, &err) != ERR_LIMIT)
      fail_msg("%s: %s", sources[i], err.text);
    check_has(err.text, "too long");
  }
  assert_in_range(peak_kb() - before, 0, 64 << 10);
}

/* Work without statements costs steps: these would go on for minutes. */
static void test_work_is_bounded(void **state) {
  (void)state;
  static const char *const sources[] = {
      "{% set s = ' ' * 100000 %}{% for i in range(99999) %}{{ s.isspace() }}{% endfor %}",
      "{% for i in range(99999) %}{{ (s ~ i)|upper|length }}{% endfor %}",
      "{% for i in range(99999) %}{{ s|wordcount }}{% endfor %}",
      "{% for i in range(99999) %}{{ s.split()|length }}{% endfor %}",
      "{% for i in range(99999) %}{{ s.rfind('b') }}{% endfor %}",
      "{% for i in range(99999) %}{{ s.count('a') }}{% endfor %}",
      "{% for i in range(99999) %}{{ s|wordwrap(1)|length }}{% endfor %}",
      "{% for i in range(99999) %}{{ (s ~ i)[-1] }}{% endfor %}",
      "{% set l = range(99999)|list %}{% for i in range(99999) %}{{ l == l[:] }}{% endfor %}",
      "{% set l = range(99999)|list %}{% for i in range(99999) %}{{ l.count(1) }}{% endfor %}",
      "{% set b = 3 ** 100000 %}{% for i in range(99999) %}{{ b // 7 > 1 }}{% endfor %}",
      "{% set b = 3 ** 100000 %}{% for i in range(99999) %}{{ ('%x' % b)|length }}{% endfor %}",
      ("{% set n = namespace(s=''.join([''] * 100000 + ['a' * 200])) %}{% for i in range(19) %}"
       "{% set n.s = n.s + n.s %}{% endfor %}{{ n.s.isalpha() }}")};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    struct err err;
    char source[400];
    snprintf(source, sizeof source, "{%% set s = 'a' * 100000 ~ 'é' %%}%s", sources[i]);
    if (limited(source, &(struct template_options){.max_steps = 2000000}, &err) != ERR_LIMIT)
      fail_msg("%s: %s", source, err.text);
  }
}

static const char *stop_after(void *user) {
  int *left = user;
  return --*left > 0 ? NULL : "there is no time left";
}

static void test_stop(void **state) {
  (void)state;
  struct err err;
  int left = 3;
  struct template_options opts = {.stop = stop_after, .stop_user = &left};
  assert_int_equal(
      limited("{{ 1 }}\n{% for i in range(99999) %}{{ '' }}{{ '' }}{{ '' }}{% endfor %}", &opts,
              &err),
      ERR_LIMIT);
  assert_string_equal(err.text, "template 't.jinja' line 2: there is no time left");
  left = 1000000;
  assert_int_equal(limited("{% for i in range(99999) %}{{ '' }}{% endfor %}", &opts, &err), 0);
  assert_in_range(left, 1000000 - 20, 1000000 - 1);
}

/* Characters of a long text that is not ASCII are found without looking through it. */
static void test_characters_of_long_text(void **state) {
  (void)state;
  struct err err;
  assert_int_equal(limited("{% set s = 'aé' * 1000000 %}{% set n = namespace(k=0) %}"
                           "{% for i in range(100000) %}"
                           "{% if s[i * 19] != ('é' if i % 2 else 'a') or s[-1 - i] != "
                           "('a' if i % 2 else 'é') or s[i:i + 3]|length != 3 %}"
                           "{{ raise_exception(i ~ s[i * 19] ~ s[-1 - i]) }}{% endif %}"
                           "{% endfor %}",
                           NULL, &err),
                   0);
}

static void test_load(void **state) {
  (void)state;
  struct template *tpl;
  struct err err;
  assert_int_equal(template_load("a\n{% x %}", 9, "n", &tpl, &err), ERR_INVALID);
  assert_null(tpl);
  assert_string_equal(err.text,
                      "template 'n' line 2: TemplateSyntaxError: Encountered unknown tag 'x'.");
  assert_int_equal(template_load("a\xff", 2, "n", &tpl, &err), ERR_INVALID);
  check_has(err.text, "byte 1 is not UTF-8");
  assert_int_equal(template_load("", TEMPLATE_MAX_SOURCE + 1, "n", &tpl, &err), ERR_LIMIT);
  char deep[2000];
  memset(deep, '(', sizeof deep);
  memcpy(deep, "{{", 2);
  assert_int_equal(template_load(deep, sizeof deep, "n", &tpl, &err), ERR_INVALID);
  check_has(err.text, "too deeply");
  enum { TERMS = 100000 };
  char *chain = calloc(1, TERMS * 2 + 10);
  strcpy(chain, "{{a");
  for (int i = 0; i < TERMS; i++)
    memcpy(chain + 3 + 2 * (size_t)i, "+a", 2);
  strcpy(chain + 3 + (size_t)TERMS * 2, "}}");
  assert_int_equal(template_load(chain, strlen(chain), "n", &tpl, &err), ERR_INVALID);
  check_has(err.text, "more than 1000 steps");
  free(chain);
  struct template *named = load("");
  assert_string_equal(template_name(named), "t.jinja");
  template_delete(named);
  template_delete(NULL);
}

static void test_config(void **state) {
  (void)state;
  struct err err;
  struct value a = parse("{\"chat_template\":\"x\"}");
  struct value b = parse("{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
                         "{\"name\":\"tool_use\",\"template\":\"t\"}]}");
  struct value c = parse("{\"chat_template\":[{\"name\":\"rag\",\"template\":\"r\"}]}"),
               d = parse("{}");
  assert_string_equal(value_to_string(template_of_config(&a, true, &err)), "x");
  assert_string_equal(value_to_string(template_of_config(&b, true, &err)), "t");
  assert_string_equal(value_to_string(template_of_config(&b, false, &err)), "d");
  assert_null(template_of_config(&c, false, &err));
  check_has(err.text, "\"default\"");
  assert_null(template_of_config(&d, false, &err));
  check_has(err.text, "no chat_template");
  value_free(&a);
  value_free(&b);
  value_free(&c);
  value_free(&d);
}

static void *render_many(void *arg) {
  struct value v = parse("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
  struct template_chat c;
  struct err err;
  check_ok(template_chat_read(&v, &c, &err), &err);
  for (int i = 0; i < 300; i++) {
    struct buf out;
    buf_init(&out, 1000);
    check_ok(template_render_chat(arg, &c, NULL, &out, &err), &err);
    assert_string_equal(out.data, "<user>a\n");
    buf_free(&out);
  }
  value_free(&v);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  struct template *tpl = load(LIST);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, render_many, tpl), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  template_delete(tpl);
}

/* ---- fixtures */

struct tally {
  size_t same, all;
};

static void check_row(const char *dir, const struct value *row, struct tally *tally) {
  const struct value *context = value_get(row, "context"), *want = value_get(row, "text");
  const char *name = value_to_string(value_get(row, "template"));
  const char *now = value_to_string(value_get(row, "now"));
  if (value_get(row, "skip"))
    return;
  struct template_options opts = {.has_now = true};
  struct template *tpl = NULL;
  struct err err;
  struct buf out;
  buf_init(&out, 1 << 24);
  now = now ? now : "2026-08-22T12:34:56";
  check_ok(pytime_parse(now, strlen(now), &opts.now, &err), &err);
  char path[1000], *source;
  size_t len = strlen(name);
  if (context) {
    source = strdup(name);
    len = value_get(row, "template")->u.string.len;
  } else {
    snprintf(path, sizeof path, "%s/templates/%s.jinja", dir, name);
    source = check_read_file(path, &len);
  }
  int rc = template_load(source, len, name, &tpl, &err);
  struct template_chat c;
  if (rc == 0 && context)
    rc = template_render(tpl, context, &opts, &out, &err);
  else if (rc == 0 && (rc = template_chat_read(row, &c, &err)) == 0)
    rc = template_render_chat(tpl, &c, &opts, &out, &err);
  bool same = want ? rc == 0 && out.len == want->u.string.len &&
                         (!out.len || !memcmp(out.data, want->u.string.data, out.len))
                   : rc < 0;
  tally->all++;
  tally->same += same;
  if (!same)
    print_error("%s: %s\n  got  %s\n  want %s\n", name, value_to_string(value_get(row, "name")),
                rc < 0 ? err.text : out.data, want ? want->u.string.data : "an error");
  free(source);
  template_delete(tpl);
  buf_free(&out);
}

static void check_file(const char *dir, const char *path, struct tally *tally) {
  size_t len;
  char *text = check_read_file(path, &len);
  for (char *line = text, *next; *line; line = next) {
    char *end = strchr(line, '\n');
    next = end ? end + 1 : line + strlen(line);
    struct value row;
    struct err err;
    check_ok(json_parse(line, end ? (size_t)(end - line) : strlen(line), &row, &err), &err);
    check_row(dir, &row, tally);
    value_free(&row);
  }
  free(text);
}

static void test_jinja_rows(void **state) {
  (void)state;
  struct tally tally = {0};
  check_file("", "tests/data/jinja/micro.jsonl", &tally);
  assert_int_equal(tally.same, tally.all);
  assert_true(tally.all >= 297);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chat),
      cmocka_unit_test(test_continue),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_growth_is_refused_beforehand),
      cmocka_unit_test(test_work_is_bounded),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_characters_of_long_text),
      cmocka_unit_test(test_load),
      cmocka_unit_test(test_config),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_jinja_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
