/* jinja_tests.c: what stands behind `is`. */
#include "text/jinja.h"

#include <string.h>

static void no_args(struct jst *st, const char *who, const struct jargs *args) {
  struct jv unused[1];
  jbind(st, who, "", args, unused);
}

#define TYPE_TEST(name, condition)                                                                 \
  static struct jv t_##name(struct jst *st, struct jv v, const struct jargs *args) {               \
    no_args(st, "test_" #name, args);                                                              \
    return jbool(condition);                                                                       \
  }

TYPE_TEST(defined, v.type != J_UNDEF)
TYPE_TEST(undefined, v.type == J_UNDEF)
TYPE_TEST(none, v.type == J_NONE)
TYPE_TEST(boolean, v.type == J_BOOL)
TYPE_TEST(false, v.type == J_BOOL && !v.u.b)
TYPE_TEST(true, v.type == J_BOOL && v.u.b)
TYPE_TEST(integer, v.type == J_INT || v.type == J_BIG)
TYPE_TEST(float, v.type == J_FLOAT)
TYPE_TEST(number, jis_number(v))
TYPE_TEST(string, v.type == J_STR)
TYPE_TEST(mapping, jis_dict(v))
TYPE_TEST(iterable, jiter_try(st, v) != NULL)
TYPE_TEST(callable, jcallable(v))
TYPE_TEST(escaped, v.type == J_STR && v.flags & JF_MARKUP)
TYPE_TEST(lower, jis_class(st, jto_str(st, v), "islower"))
TYPE_TEST(upper, jis_class(st, jto_str(st, v), "isupper"))
TYPE_TEST(sequence,
          v.type == J_STR || jis_seq(v) || jis_dict(v) || v.type == J_RANGE || v.type == J_UNDEF)

/* value % n == rest */
static struct jv modulo_is(struct jst *st, struct jv v, struct jv n, int64_t rest) {
  return jbool(jequal(st, jbinary(st, OP_MOD, v, n), jint(rest)));
}

static struct jv t_odd(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "test_odd", args);
  return modulo_is(st, v, jint(2), 1);
}

static struct jv t_even(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "test_even", args);
  return modulo_is(st, v, jint(2), 0);
}

static struct jv t_divisibleby(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv n;
  jbind(st, "test_divisibleby", "num", args, &n);
  return modulo_is(st, v, n, 0);
}

static struct jv known(struct jst *st, struct jv v, bool filter) {
  if (v.type != J_STR) {
    (void)jhash(st, v);
    return jbool(false);
  }
  const char *name = jbytes(st, v);
  return jbool(filter ? jfilter_find(name, v.len) != NULL : jtest_find(name, v.len) != NULL);
}

static struct jv t_filter(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "test_filter", args);
  return known(st, v, true);
}

static struct jv t_test(struct jst *st, struct jv v, const struct jargs *args) {
  no_args(st, "test_test", args);
  return known(st, v, false);
}

static struct jv t_sameas(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv other;
  jbind(st, "test_sameas", "other", args, &other);
  /* CPython keeps one object for every ASCII character and for the empty str. */
  bool tiny = v.type == J_STR && other.type == J_STR && v.len < 2 && other.len == v.len &&
              !((v.flags | other.flags) & JF_MARKUP) && jstr_eq(st, v, other);
  bool empty = v.type == J_TUPLE && other.type == J_TUPLE && !jseq_len(v) && !jseq_len(other);
  return jbool(tiny || empty || jis_same(v, other));
}

static struct jv t_in(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv seq;
  jbind(st, "test_in", "seq", args, &seq);
  return jbool(jcontains(st, seq, v));
}

#define COMPARE_TEST(name, op)                                                                     \
  static struct jv t_##name(struct jst *st, struct jv v, const struct jargs *args) {               \
    struct jv other;                                                                               \
    jbind(st, #name, "b/", args, &other);                                                          \
    return jbool(jcompare(st, op, v, other));                                                      \
  }
COMPARE_TEST(eq, CMP_EQ)
COMPARE_TEST(ne, CMP_NE)
COMPARE_TEST(lt, CMP_LT)
COMPARE_TEST(le, CMP_LE)
COMPARE_TEST(gt, CMP_GT)
COMPARE_TEST(ge, CMP_GE)

static const struct jfilter_def TESTS[] = {{"defined", t_defined},
                                           {"undefined", t_undefined},
                                           {"none", t_none},
                                           {"string", t_string},
                                           {"mapping", t_mapping},
                                           {"iterable", t_iterable},
                                           {"boolean", t_boolean},
                                           {"false", t_false},
                                           {"true", t_true},
                                           {"integer", t_integer},
                                           {"float", t_float},
                                           {"number", t_number},
                                           {"sequence", t_sequence},
                                           {"callable", t_callable},
                                           {"escaped", t_escaped},
                                           {"lower", t_lower},
                                           {"upper", t_upper},
                                           {"odd", t_odd},
                                           {"even", t_even},
                                           {"divisibleby", t_divisibleby},
                                           {"filter", t_filter},
                                           {"test", t_test},
                                           {"sameas", t_sameas},
                                           {"in", t_in},
                                           {"==", t_eq},
                                           {"eq", t_eq},
                                           {"equalto", t_eq},
                                           {"!=", t_ne},
                                           {"ne", t_ne},
                                           {">", t_gt},
                                           {"gt", t_gt},
                                           {"greaterthan", t_gt},
                                           {">=", t_ge},
                                           {"ge", t_ge},
                                           {"<", t_lt},
                                           {"lt", t_lt},
                                           {"lessthan", t_lt},
                                           {"<=", t_le},
                                           {"le", t_le}};

const struct jfilter_def *jtest_find(const char *name, size_t len) {
  for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++)
    if (strlen(TESTS[i].name) == len && !memcmp(TESTS[i].name, name, len))
      return &TESTS[i];
  return NULL;
}
