#include "check.h"

#include "text/json.h"

#include <locale.h>
#include <math.h>

/* Doubles and what Python 3.11's json.dumps prints for them: forms, limits, subnormals, powers of
 * two whose shortest digits are not the correctly rounded ones, random bits. */
static const struct {
  double value;
  const char *text;
} python[] = {
    {0x0.0p+0, "0.0"},
    {-0x0.0p+0, "-0.0"},
    {0x1.0000000000000p+0, "1.0"},
    {-0x1.0000000000000p+0, "-1.0"},
    {0x1.999999999999ap-4, "0.1"},
    {0x1.0000000000000p-1, "0.5"},
    {0x1.8000000000000p+0, "1.5"},
    {0x1.9000000000000p+6, "100.0"},
    {0x1.e240c9fbe76c9p+16, "123456.789"},
    {0x1.c6bf526340000p+49, "1000000000000000.0"},
    {0x1.0000000000000p+53, "9007199254740992.0"},
    {0x1.0000000000000p+53, "9007199254740992.0"},
    {0x1.1c37937e08000p+53, "1e+16"},
    {0x1.550f7dca70000p+53, "1.2e+16"},
    {0x1.b69b4ba630f35p+56, "1.2345678901234568e+17"},
    {0x1.6345785d8a000p+56, "1e+17"},
    {0x1.1c37937e07fffp+53, "9999999999999998.0"},
    {0x1.c6bf52633ffffp+49, "999999999999999.9"},
    {0x1.b1ae4d6e2ef50p+69, "1e+21"},
    {0x1.0f0cf064dd592p+73, "1e+22"},
    {0x1.52d02c7e14af6p+76, "1e+23"},
    {0x1.249ad2594c37dp+332, "1e+100"},
    {0x1.fffffffffffffp+1023, "1.7976931348623157e+308"},
    {0x1.0000000000000p-1022, "2.2250738585072014e-308"},
    {0x0.fffffffffffffp-1022, "2.225073858507201e-308"},
    {0x0.0000000000001p-1022, "5e-324"},
    {0x0.0000000000002p-1022, "1e-323"},
    {0x0.0000000000003p-1022, "1.5e-323"},
    {0x1.fffffffffffffp-1022, "4.4501477170144023e-308"},
    {0x1.a36e2eb1c432dp-14, "0.0001"},
    {0x1.4f8b588e368f1p-17, "1e-05"},
    {0x1.02e4b6ce5dc68p-13, "0.00012345"},
    {0x1.9e3abe16fc70dp-17, "1.2345e-05"},
    {0x1.421f5f40d8376p-23, "1.5e-07"},
    {0x1.921fb54442d18p+1, "3.141592653589793"},
    {0x1.5555555555555p-1, "0.6666666666666666"},
    {0x1.3333333333334p-2, "0.30000000000000004"},
    {0x1.b7cdfd9d7bdbbp-34, "1e-10"},
    {0x1.a36e2eb1c432dp-15, "5e-05"},
    {0x1.0000000000000p-20, "9.5367431640625e-07"},
    {0x1.0000000000000p-44, "5.684341886080802e-14"},
    {0x1.0000000000000p-1022, "2.2250738585072014e-308"},
    {0x0.0000000000001p-1022, "5e-324"},
    {0x1.0000000000000p+70, "1.1805916207174113e+21"},
    {0x1.0000000000000p-20, "9.5367431640625e-07"},
    {0x1.2533fe68fd3d2p-35, "3.3333333333333335e-11"},
    {0x1.1666666666666p+2, "4.35"},
    {0x1.3333333333333p-2, "0.3"},
    {0x1.1de784a000000p+28, "299792458.0"},
    {0x1.fe185ca57c517p+78, "6.02214076e+23"},
    {0x1.b860bde023111p-111, "6.62607015e-34"},
    {0x1.199999999999ap+0, "1.1"},
    {0x1.4000000000000p+1, "2.5"},
    {0x1.7e43c8800759cp+996, "1e+300"},
    {0x1.9cb8320b15070p-17, "1.23e-05"},
    {0x1.0d1eb851eb852p+3, "8.41"},
    {0x1.0000000000000p+56, "7.205759403792794e+16"},
    {0x1.fffffffffffffp+52, "9007199254740991.0"},
    {0x0.0000000002788p-1022, "5e-320"},
    {0x1.0000000000000p-1017, "7.120236347223045e-307"},
    {0x1.0000000000000p-1007, "7.291122019556398e-304"},
    {0x1.0000000000000p-957, "8.209073602596753e-289"},
    {0x1.0000000000000p-921, "5.641232424577593e-278"},
    {0x1.0000000000000p-808, "5.858190679279809e-244"},
    {0x1.0000000000000p-791, "7.678447687145631e-239"},
    {0x1.0000000000000p-788, "6.142758149716505e-238"},
    {0x1.0000000000000p-778, "6.290184345309701e-235"},
    {0x1.0000000000000p-705, "5.940911144672375e-213"},
    {0x1.0000000000000p-695, "6.083493012144512e-210"},
    {0x1.0000000000000p-662, "5.225680706521042e-200"},
    {0x1.0000000000000p-652, "5.351097043477547e-197"},
    {0x1.0000000000000p-549, "5.426657103235053e-166"},
    {0x1.0000000000000p-509, "5.966672584960166e-154"},
    {0x1.0000000000000p-496, "4.887898181599368e-150"},
    {0x1.0000000000000p-489, "6.256509672447191e-148"},
    {0x1.0000000000000p-383, "5.075883674631299e-116"},
    {0x1.0000000000000p-366, "6.653062250012736e-111"},
    {0x1.0000000000000p-296, "7.854549544476363e-90"},
    {0x1.0000000000000p-140, "7.174648137343064e-43"},
    {0x1.0000000000000p-97, "6.310887241768095e-30"},
    {0x1.0000000000000p-77, "6.617444900424222e-24"},
    {0x1.0000000000000p-44, "5.684341886080802e-14"},
    {0x1.0000000000000p-24, "5.960464477539063e-08"},
    {0x1.0000000000000p+89, "6.189700196426902e+26"},
    {0x1.0000000000000p+122, "5.316911983139664e+36"},
    {0x1.0000000000000p+132, "5.444517870735016e+39"},
    {0x1.0000000000000p+172, "5.986310706507379e+51"},
    {0x1.0000000000000p+182, "6.129982163463556e+54"},
    {0x1.0000000000000p+275, "6.070840288205404e+82"},
    {0x1.0000000000000p+305, "6.518515124270356e+91"},
    {0x1.0000000000000p+345, "7.167183174968974e+103"},
    {0x1.0000000000000p+378, "6.156563468186638e+113"},
    {0x1.0000000000000p+398, "6.455624695217272e+119"},
    {0x1.0000000000000p+405, "8.263199609878108e+121"},
    {0x1.0000000000000p+481, "6.243497100631985e+144"},
    {0x1.0000000000000p+534, "5.623642243178996e+160"},
    {0x1.0000000000000p+544, "5.758609657015292e+163"},
    {0x1.0000000000000p+554, "5.896816288783659e+166"},
    {0x1.0000000000000p+574, "6.183260036827614e+172"},
    {0x1.0000000000000p+594, "6.483618076376552e+178"},
    {0x1.0000000000000p+710, "5.386379163185535e+213"},
    {0x1.0000000000000p+803, "5.334411546303884e+241"},
    {0x1.0000000000000p+863, "6.150157786156811e+259"},
    {0x1.0000000000000p+896, "5.282945311356653e+269"},
    {0x1.0000000000000p+976, "6.386688990511104e+293"},
    {-0x1.74de452e6b438p+811, "-1.989032661366619e+244"},
    {0x1.3270e269e0d37p+594, "7.761117632285041e+178"},
    {0x1.c7fd0a6a3a450p-826, "3.980498358697587e-249"},
    {-0x1.f0824128b2f33p+292, "-1.5432835417340557e+88"},
    {0x1.8e811892f902bp-638, "1.3647584518757569e-192"},
    {-0x1.1985d5d9dc9f8p-684, "-1.3701135617873088e-206"},
    {-0x1.25d940ed90475p+655, "-1.7160537630466207e+197"},
    {0x1.675cc81e74ef5p-144, "6.294675241195386e-44"},
    {0x1.0a35a099950d8p-671, "1.0613447212142254e-202"},
    {0x1.d549b6f03675ap+689, "4.708325160387546e+207"},
    {0x1.c172411e20b8fp-38, "6.387016158513563e-12"},
    {-0x1.16ece1738f7d9p-814, "-9.973130378568733e-246"},
    {0x1.1ddb66cad4a26p-781, "8.779753225680271e-236"},
    {-0x1.192cfd3ac94afp-755, "-5.795503248498993e-228"},
    {-0x1.c105d1fb17c23p+809, "-5.988180159386011e+243"},
    {-0x1.0b33839263059p-488, "-1.306052388527796e-147"},
    {-0x1.f48f1a09f76b5p-684, "-2.436117699484841e-206"},
    {0x1.630f1f29d0da9p-770, "2.233386999150174e-232"},
    {-0x1.60af593bd04cfp-673, "-3.51527970626667e-203"},
    {0x1.1e29c658cda14p-820, "1.5987381841032883e-247"},
    {0x1.8d190f9ebdaccp-118, "4.6678633181812096e-36"},
    {-0x1.1973e0becd7b0p-791, "-8.441872792105456e-239"},
    {0x1.7beaddbc496cbp-478, "1.9015657400796622e-144"},
    {0x1.cb2424a23d596p+693, "7.370437700706684e+208"},
    {0x1.2e865bb08db60p-13, "0.00014425508335743752"},
    {0x1.a95d2500958cdp+35, "57091368964.67344"},
    {0x1.4e490d22eb255p-4, "0.08161263591200314"},
    {0x1.7fe9960bb9763p+36, "103055712443.59135"},
    {0x1.f326b19be8c69p+15, "63891.34689261841"},
    {0x1.bb101e5cb522ep+49, "974305759947333.8"},
    {0x1.51188295db4ecp-21, "6.278897497332315e-07"},
    {0x1.272ab1c963703p+29, "619009593.1735538"},
};

static void check_double(double d, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write_double(&b, d);
  if (strcmp(b.data, want) != 0)
    fail_msg("%a is written as %s, expected %s", d, b.data, want);
  buf_free(&b);
}

static void test_doubles(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(python); i++)
    check_double(python[i].value, python[i].text);
  check_double(INFINITY, "null");
  check_double(-INFINITY, "null");
  check_double(NAN, "null");
}

/* And back again, through the parser. */
static void test_round_trip(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(python); i++) {
    struct value v;
    struct err err;
    check_ok(json_parse(python[i].text, strlen(python[i].text), &v, &err), &err);
    assert_int_equal(v.kind, VALUE_DOUBLE);
    if (memcmp(&v.u.number, &python[i].value, 8) != 0)
      fail_msg("%s is read as %a, expected %a", python[i].text, v.u.number, python[i].value);
  }
}

/* A script may set a locale with a decimal comma; bodies must not change. */
static void test_locale(void **state) {
  (void)state;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE")) {
    print_message("no locale with a decimal comma here\n");
    return;
  }
  test_doubles(state);
  test_round_trip(state);
  setlocale(LC_NUMERIC, "C");
}

static void check_string(const char *s, size_t len, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write_string(&b, s, len);
  if (b.len != strlen(want) || strcmp(b.data, want) != 0)
    fail_msg("written as %s, expected %s", b.data, want);
  buf_free(&b);
}

static void test_strings(void **state) {
  (void)state;
  check_string(NULL, 0, "\"\"");
  check_string("plain / \x7f text, longer than eight", 33,
               "\"plain / \x7f text, longer than eight\"");
  check_string("\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
  check_string("\0\x01\x0b\x1f", 4, "\"\\u0000\\u0001\\u000b\\u001f\"");
  check_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80", 9,
               "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80\"");
  check_string("\xe2\x80\xa8", 3, "\"\xe2\x80\xa8\""); /* U+2028 stays */
}

#define FFFD "\xef\xbf\xbd"

/* One U+FFFD per maximal part, as bytes.decode("utf-8", "replace") has it. */
static void test_bad_utf8(void **state) {
  (void)state;
  check_string("a\xff"
               "b",
               3, "\"a" FFFD "b\"");
  check_string("\xc3", 1, "\"" FFFD "\"");
  check_string("\xc3(", 2, "\"" FFFD "(\"");
  check_string("\xe2\x82", 2, "\"" FFFD "\"");
  check_string("\xe2\x82x", 3, "\"" FFFD "x\"");
  check_string("\xf0\x9f\x9a", 3, "\"" FFFD "\"");
  check_string("\xf0\x9f\x9a\n", 4, "\"" FFFD "\\n\"");
  check_string("\xf0\x9f\"", 3, "\"" FFFD "\\\"\"");
  check_string("\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\""); /* a surrogate */
  check_string("\xc0\xaf", 2, "\"" FFFD FFFD "\"");          /* overlong */
  check_string("\xe0\x80\x80", 3, "\"" FFFD FFFD FFFD "\"");
  check_string("\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\"");
  check_string("\x80\xc3\xa9", 3, "\"" FFFD "\xc3\xa9\"");
}

static void test_values(void **state) {
  (void)state;
  static const char text[] =
      "{ \"b\" : [1, -2.50, true, null, {}, [] , [[]]], \"a\":{\"\":\"x\", \"y\":false} }";
  struct value v;
  struct err err;
  check_ok(json_parse(text, strlen(text), &v, &err), &err);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &v);
  assert_string_equal(b.data,
                      "{\"b\":[1,-2.5,true,null,{},[],[[]]],\"a\":{\"\":\"x\",\"y\":false}}");
  buf_reset(&b);
  json_write_pretty(&b, &v);
  assert_string_equal(b.data,
                      "{\n  \"b\": [\n    1,\n    -2.5,\n    true,\n    null,\n    {},\n    "
                      "[],\n    [\n      []\n    ]\n  ],\n  \"a\": {\n    \"\": \"x\",\n    "
                      "\"y\": false\n  }\n}");
  value_free(&v);
  buf_reset(&b);
  v = value_int(INT64_MIN);
  json_write(&b, &v);
  assert_string_equal(b.data, "-9223372036854775808");
  buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_doubles),  cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_locale),   cmocka_unit_test(test_strings),
      cmocka_unit_test(test_bad_utf8), cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
