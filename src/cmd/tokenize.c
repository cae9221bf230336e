/* tokenize.c: `perigee tokenize`: texts to token ids and back, for a person or a pipe.
 *
 * Every argument is a text of its own; without arguments the whole of standard input is one, byte
 * for byte, or each of its lines with --lines. Each text gives one line of output. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/cmd.h"
#include "text/json.h"
#include "text/json_scan.h"
#include "text/tokens.h"

#define INPUT_MAX ((size_t)800 << 20)

struct tokenize_options {
  const char *tokenizer, *family;
  bool decode, count, add_special, no_special, json, lines;
};

static const struct options_spec specs[] = {
    {"--tokenizer", "NAME|PATH", OPTIONS_TEXT, offsetof(struct tokenize_options, tokenizer),
     "bytes; qwen3, o200k_base, o200k_harmony, cl100k_base (from `make deps`); or a "
     "tokenizer.json, a "
     "folder with one, a tiktoken rank file. Needed"},
    {"--family", "NAME", OPTIONS_TEXT, offsetof(struct tokenize_options, family),
     "whose rank file it is: cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2"},
    {"--decode", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, decode),
     "the input is token ids, with blanks, commas or brackets between; print their text"},
    {"--count", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, count),
     "print how many ids there are, not which"},
    {"--add-special", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, add_special),
     "with the tokens that the model puts around a text"},
    {"--no-special", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, no_special),
     "special tokens written out in the text are text"},
    {"--json", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, json),
     "an object a text: tokenizer, count, ids, tokens (each id's text); with --decode: text"},
    {"--lines", NULL, OPTIONS_FLAG, offsetof(struct tokenize_options, lines),
     "each line of standard input is a text of its own"},
};

static const struct options_command command = {
    .name = "tokenize",
    .summary = "token ids of a text, and back",
    .usage = "--tokenizer NAME|PATH [options] [TEXT]...",
    .about =
        "Each TEXT gives a line of ids. Without TEXT standard input is one text, byte for byte.\n"
        "Bytes that are not UTF-8 count as U+FFFD, as a server's JSON reader has them.\n"
        "\n"
        "Examples:\n"
        "  perigee tokenize --tokenizer qwen3 'Hello, world'\n"
        "  perigee tokenize --tokenizer qwen3 --count <prompt.txt\n"
        "  perigee tokenize --tokenizer qwen3 --decode 9707 1879",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .max_args = SIZE_MAX};

struct tokenize {
  const struct tokenize_options *o;
  struct tokens_encoder *encoder;
  struct tokens_list ids;
  struct buf out;
  size_t wrong; /* bytes so far that were no UTF-8 */
};

/* Empties the buffer onto standard output; what goes wrong there cmd_flush says. */
static void print(struct buf *b) {
  if (b->len)
    (void)fwrite(b->data, 1, b->len, stdout);
  buf_reset(b);
}

static size_t wrong_bytes(const char *text, size_t len) {
  size_t wrong = 0;
  for (size_t at = 0; at < len;) {
    at += json_utf8_valid(text + at, len - at);
    if (at < len) {
      at++;
      wrong++;
    }
  }
  return wrong;
}

/* The text of each id, as a list. Parts of characters show as U+FFFD. */
static int put_tokens(struct tokenize *k, struct err *err) {
  struct buf one;
  int rc = 0;
  buf_init(&one, BUF_MAX_OWN);
  buf_puts(&k->out, ",\"tokens\":[");
  for (size_t i = 0; i < k->ids.n && !rc; i++) {
    buf_reset(&one);
    buf_put(&one, "", 0);
    rc = tokens_decode(k->encoder->tokens, &k->ids.ids[i], 1, &one, err);
    if (i)
      buf_putc(&k->out, ',');
    json_write_string(&k->out, one.data, one.len);
  }
  buf_puts(&k->out, "]");
  buf_free(&one);
  return rc;
}

static void put_ids(struct tokenize *k, char between) {
  for (size_t i = 0; i < k->ids.n; i++) {
    if (i)
      buf_putc(&k->out, between);
    buf_put_uint(&k->out, k->ids.ids[i]);
  }
}

static void put_head(struct tokenize *k) {
  const char *name = k->encoder->tokens->name;
  buf_puts(&k->out, "{\"tokenizer\":");
  json_write_string(&k->out, name, strlen(name));
  buf_printf(&k->out, ",\"count\":%zu", k->ids.n);
}

static int encode_one(struct tokenize *k, const char *text, size_t len, struct err *err) {
  struct tokens_options options = {k->o->add_special, !k->o->no_special};
  k->ids.n = 0;
  int rc = tokens_encoder_encode(k->encoder, text, len, &options, &k->ids, err);
  if (rc)
    return rc;
  if (k->encoder->tokens->kind != TOKENS_BYTES)
    k->wrong += wrong_bytes(text, len);
  if (k->o->json) {
    put_head(k);
    if (!k->o->count) {
      buf_puts(&k->out, ",\"ids\":[");
      put_ids(k, ',');
      buf_putc(&k->out, ']');
      rc = put_tokens(k, err);
    }
    buf_putc(&k->out, '}');
  } else if (k->o->count) {
    buf_put_uint(&k->out, k->ids.n);
  } else {
    put_ids(k, ' ');
  }
  buf_putc(&k->out, '\n');
  return rc;
}

/* Reads ids: numbers, and between them blanks, commas and brackets. */
static int read_ids(struct tokenize *k, const char *text, size_t len, struct err *err) {
  const char *p = text, *end = text + len;
  while (p < end) {
    if (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || *p == ',' || *p == '[' ||
        *p == ']') {
      p++;
      continue;
    }
    struct json_number n;
    const char *q = json_scan_number(p, end, &n);
    if (!q || !n.is_int || n.integer < 0 || n.integer > UINT32_MAX)
      return err_set(err, ERR_INVALID, "--decode: \"%.*s\" is no token id",
                     (int)(end - p < 20 ? end - p : 20), p);
    tokens_list_reserve(&k->ids, 1);
    k->ids.ids[k->ids.n++] = (uint32_t)n.integer;
    p = q;
  }
  return 0;
}

static int decode_ids(struct tokenize *k, bool line, struct err *err) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  buf_put(&text, "", 0);
  int rc = tokens_decode(k->encoder->tokens, k->ids.ids, k->ids.n, &text, err);
  if (!rc && k->o->json) {
    put_head(k);
    buf_puts(&k->out, ",\"text\":");
    json_write_string(&k->out, text.data, text.len);
    buf_puts(&k->out, "}\n");
  } else if (!rc) {
    buf_put(&k->out, text.data, text.len);
    if (line)
      buf_putc(&k->out, '\n');
  }
  buf_free(&text);
  return rc;
}

static int one_text(struct tokenize *k, const char *text, size_t len, bool line, struct err *err) {
  int rc;
  if (k->o->decode) {
    k->ids.n = 0;
    rc = read_ids(k, text, len, err);
    if (!rc)
      rc = decode_ids(k, line, err);
  } else {
    rc = encode_one(k, text, len, err);
  }
  if (!rc)
    print(&k->out);
  return rc;
}

static int read_input(struct buf *in, struct err *err) {
  ssize_t n = 1;
  while (n > 0) {
    if (buf_reserve(in, 1 << 20))
      return err_set(err, ERR_LIMIT, "standard input: more than %zu MiB", in->max >> 20);
    do
      n = read(STDIN_FILENO, in->data + in->len, 1 << 20);
    while (n < 0 && errno == EINTR);
    if (n < 0)
      return err_set(err, ERR_IO, "standard input: %s", strerror(errno));
    in->len += (size_t)n;
  }
  return 0;
}

static int from_input(struct tokenize *k, struct err *err) {
  struct buf in;
  buf_init(&in, INPUT_MAX);
  int rc = read_input(&in, err);
  if (!rc && !k->o->lines) {
    rc = one_text(k, in.data, in.len, false, err);
  } else if (!rc) {
    const char *p = in.data, *end = p + in.len;
    for (size_t line = 1; p < end && !rc; line++) {
      const char *stop = memchr(p, '\n', (size_t)(end - p));
      rc = one_text(k, p, (size_t)((stop ? stop : end) - p), true, err);
      if (rc)
        err_prefix(err, "line %zu", line);
      p = stop ? stop + 1 : end;
    }
  }
  buf_free(&in);
  return rc;
}

/* With --decode the arguments are the ids of one text: 1 2 3 needs no quotes. */
static int from_arguments(struct tokenize *k, const struct options_list *args, struct err *err) {
  int rc = 0;
  if (k->o->lines)
    return err_set(err, ERR_INVALID,
                   "--lines is for standard input; each argument is a text anyway");
  k->ids.n = 0;
  for (size_t i = 0; i < args->n && !rc; i++)
    rc = k->o->decode ? read_ids(k, args->items[i], strlen(args->items[i]), err)
                      : one_text(k, args->items[i], strlen(args->items[i]), true, err);
  if (!rc && k->o->decode) {
    rc = decode_ids(k, true, err);
    print(&k->out);
  }
  return rc;
}

static int run(const struct tokenize_options *o, const struct options_list *args, struct err *err) {
  struct tokens_load_options load = {.family = o->family};
  const struct tokens *t = NULL;
  struct tokenize k = {.o = o};
  int rc = 0;
  if (!o->tokenizer || !*o->tokenizer)
    return err_set(err, ERR_INVALID,
                   "--tokenizer is needed: bytes, qwen3, o200k_base, …, or a path; "
                   "see `perigee tokenize --help`");
  if (o->decode && (o->count || o->add_special || o->no_special))
    return err_set(err, ERR_INVALID, "--decode goes with --json and --lines alone");
  rc = tokens_open(o->tokenizer, &load, &t, err);
  if (rc) /* a file's fault, but for a family that does not go with it */
    return rc == ERR_INVALID && !o->family ? ERR_UNSUPPORTED : rc;
  k.encoder = tokens_encoder_new(t);
  buf_init(&k.out, BUF_MAX_OWN);
  rc = args->n ? from_arguments(&k, args, err) : from_input(&k, err);
  if (!rc && k.wrong)
    fprintf(stderr, "perigee tokenize: %zu bytes are not UTF-8: they count as U+FFFD\n", k.wrong);
  buf_free(&k.out);
  tokens_list_free(&k.ids);
  tokens_encoder_delete(k.encoder);
  tokens_close(t);
  return rc;
}

int cmd_tokenize(int argc, char **argv) {
  struct err err = {0};
  struct options_list args;
  struct tokenize_options o = {0};
  int rc = options_parse(&command, argc, argv, &o, &args, &err);
  if (rc == 0)
    rc = run(&o, &args, &err);
  options_free(&command, &o, &args);
  if (rc == 1)
    return 0; /* --help */
  if (rc)
    return cmd_flush(cmd_fail("tokenize", rc == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED, &err));
  return cmd_flush(0);
}
