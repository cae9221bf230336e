/* value.h: one ordered value type for everything that is JSON.
 *
 * Templates, request bodies, tool schemas, results and summaries are made of it. Integers stay
 * integers (int64; a larger whole number is a double that keeps its digits), key order is kept, an
 * empty array and an empty object differ. Values form a tree with one owner; strings carry their
 * length and may hold NUL. */
#ifndef TEXT_VALUE_H
#define TEXT_VALUE_H

#include "base/err.h"

enum value_kind {
  VALUE_NULL,
  VALUE_BOOL,
  VALUE_INT,
  VALUE_DOUBLE,
  VALUE_STRING,
  VALUE_ARRAY,
  VALUE_OBJECT
};

struct value {
  enum value_kind kind;
  union {
    bool boolean;
    int64_t integer;
    struct {
      double number;
      char *digits; /* of a whole number beyond int64, as written, "-" first; NULL for others */
    };
    struct {
      char *data; /* len bytes and a NUL */
      size_t len;
    } string;
    struct {
      struct value *items;
      size_t n, cap;
    } array;
    struct {
      struct value_pair *pairs; /* in insertion order */
      size_t n, cap;
      uint32_t *index; /* hash index once n > 8, else NULL */
    } object;
  } u;
};

struct value_pair {
  char *key; /* key_len bytes and a NUL */
  size_t key_len;
  struct value value;
};

/* Frees what v holds and makes it null; v itself is the caller's. */
void value_free(struct value *v);
struct value value_copy(const struct value *v);
/* Structural equality; 1 and 1.0 differ, key order does not matter. */
bool value_equal(const struct value *a, const struct value *b);

struct value value_null(void);
struct value value_bool(bool b);
struct value value_int(int64_t i);
struct value value_double(double d);
/* A whole number too large for int64: sign and decimal digits (copied). */
struct value value_big(const char *digits, size_t len);
struct value value_string(const char *s, size_t len); /* copies */
struct value value_cstring(const char *s);            /* copies; NULL gives null */
struct value value_array(void);
struct value value_object(void);

/* Appends; the array owns `item` from here on. The pointer returned dies with the next append. */
struct value *value_push(struct value *array, struct value item);
/* Sets or replaces key; the object owns `item`. The pointer dies with the next insertion. */
struct value *value_set(struct value *object, const char *key, struct value item);
struct value *value_set_len(struct value *object, const char *key, size_t key_len,
                            struct value item);

/* NULL when v is no object (v may be NULL), or has no such key. */
struct value *value_get(const struct value *v, const char *key);
struct value *value_get_len(const struct value *v, const char *key, size_t key_len);
/* Element i of an array, NULL when out of range or no array. */
struct value *value_at(const struct value *v, size_t i);
/* Number of items of an array or object, 0 for others. */
size_t value_count(const struct value *v);
/* Whether v is a number that is whole; *out gets it. */
bool value_to_int(const struct value *v, int64_t *out);
/* Whether v is a number; *out gets it. */
bool value_to_double(const struct value *v, double *out);
/* The string's bytes, NULL when v is no string. */
const char *value_to_string(const struct value *v);

#endif
