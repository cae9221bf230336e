/* tokenpost.c: post-processors of a tokenizer.json: the ids that add_special puts around a text.
 *
 * In a Sequence the reference takes what one of them made for several texts, so only one may add
 * tokens. Only the form for a single text is read: pairs of texts are nothing a prompt has. */
#include "text/tokenizer.h"

#include "base/mem.h"

static void put(struct tokens_list *list, uint32_t id) {
  tokens_list_reserve(list, 1);
  list->ids[list->n++] = id;
}

static int get_id(const struct value *v, const char *where, uint32_t *id, struct err *err) {
  int64_t n;
  if (!value_to_int(v, &n) || n < 0 || n >= BPE_MAX_IDS)
    return err_set(err, ERR_INVALID, "post_processor: %s: must be a token id", where);
  *id = (uint32_t)n;
  return 0;
}

/* The ids of a SpecialToken piece, from the table beside the template. */
static int put_special(const struct value *v, const char *name, struct tokens_list *list,
                       struct err *err) {
  const struct value *ids = value_get(value_get(value_get(v, "special_tokens"), name), "ids");
  if (!ids || ids->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID,
                   "post_processor: TemplateProcessing: special_tokens lacks the ids of \"%s\"",
                   name);
  int rc = 0;
  for (size_t i = 0; i < value_count(ids) && !rc; i++) {
    uint32_t id = 0;
    rc = get_id(value_at(ids, i), "special_tokens: ids", &id, err);
    if (!rc)
      put(list, id);
  }
  return rc;
}

/* Hands the lists over; refuses a second pair of them. */
static int take(struct tokenizer *t, const struct value *v, struct tokens_list *before,
                struct tokens_list *after, struct err *err) {
  if (t->before.n || t->after.n)
    return err_set(err, ERR_UNSUPPORTED,
                   "post_processor: %s: a second one that adds tokens is not supported",
                   value_to_string(value_get(v, "type")));
  t->before = *before;
  t->after = *after;
  *before = *after = (struct tokens_list){0};
  return 0;
}

static int template_processing(struct tokenizer *t, const struct value *v, struct err *err) {
  const struct value *single = value_get(v, "single");
  struct tokens_list before = {0}, after = {0};
  bool text = false;
  int rc = single && single->kind == VALUE_ARRAY
               ? 0
               : err_set(err, ERR_INVALID,
                         "post_processor: TemplateProcessing: single: must be a list of pieces");
  for (size_t i = 0; i < value_count(single) && !rc; i++) {
    const struct value *piece = value_at(single, i);
    const char *name = value_to_string(value_get(value_get(piece, "SpecialToken"), "id"));
    const char *sequence = value_to_string(value_get(value_get(piece, "Sequence"), "id"));
    if (name)
      rc = put_special(v, name, text ? &after : &before, err);
    else if (sequence && strcmp(sequence, "A") == 0 && !text)
      text = true;
    else
      rc = err_set(err, ERR_UNSUPPORTED,
                   "post_processor: TemplateProcessing: single: piece %zu is neither a special "
                   "token nor the one text A",
                   i + 1);
  }
  if (!rc && !text)
    rc = err_set(err, ERR_UNSUPPORTED,
                 "post_processor: TemplateProcessing: single: leaves the text out");
  if (!rc)
    rc = take(t, v, &before, &after, err);
  tokens_list_free(&before);
  tokens_list_free(&after);
  return rc;
}

/* Bert and Roberta: one token before, one behind, given as ["text", id]. */
static int cls_and_sep(struct tokenizer *t, const struct value *v, struct err *err) {
  struct tokens_list before = {0}, after = {0};
  uint32_t cls = 0, sep = 0;
  int rc = get_id(value_at(value_get(v, "cls"), 1), "cls", &cls, err);
  if (!rc)
    rc = get_id(value_at(value_get(v, "sep"), 1), "sep", &sep, err);
  if (!rc) {
    put(&before, cls);
    put(&after, sep);
    rc = take(t, v, &before, &after, err);
  }
  tokens_list_free(&before);
  tokens_list_free(&after);
  return rc;
}

int tokenparts_post_processor(struct tokenizer *t, const struct value *v, struct err *err) {
  if (!v || v->kind == VALUE_NULL)
    return 0;
  const char *type = value_to_string(value_get(v, "type"));
  if (!type)
    return err_set(err, ERR_INVALID, "post_processor: must be an object with a type, or null");
  if (strcmp(type, "ByteLevel") == 0) /* moves offsets, which nobody asks for here */
    return 0;
  if (strcmp(type, "TemplateProcessing") == 0)
    return template_processing(t, v, err);
  if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
    return cls_and_sep(t, v, err);
  if (strcmp(type, "Sequence") != 0)
    return err_set(err, ERR_UNSUPPORTED,
                   "post_processor: type \"%s\" is not supported (known: Sequence ByteLevel "
                   "TemplateProcessing BertProcessing RobertaProcessing)",
                   type);
  const struct value *items = value_get(v, "processors");
  int rc = 0;
  for (size_t i = 0; i < value_count(items) && !rc; i++)
    rc = tokenparts_post_processor(t, value_at(items, i), err);
  return rc;
}
