/* turn_stages.c: what a turn of a long conversation costs the client before anything is sent.
 *
 * Usage: turn_stages TEMPLATE TOKENIZER CHAT.json [REPEATS]. CHAT has a conversation's messages as
 * fixtures/chat has them, two of them a turn (user, assistant); TOKENIZER as tokens_load takes it.
 * Plays the conversation turn by turn, each time from an empty memory of it, through the very calls
 * bind/convprompt.c makes: the messages are prepared and rendered, the text tokenized, the block
 * hashes extended, the ids written as JSON and the body put together. Prints
 * {"turns": [{"turn", "tokens", "bytes", "prepare", "render", "tokenize", "hash", "body", "full",
 * "instructions"}]}: the medians of each stage in microseconds; `full` is one rendering of the
 * whole, without a memory; instructions are those of the turn, absent where the kernel does not
 * count them. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kv/blockhash_chain.h"
#include "text/chatmessages.h"
#include "text/json.h"
#include "text/promptids.h"
#include "text/template.h"

#include "readfile.h"

#define TURNS 200
#define STAGES 6
#define REPEATS_MAX 99
#define LOOSE_MARKS 3

static const char *const stage_names[STAGES] = {"prepare", "render", "tokenize",
                                                "hash",    "body",   "full"};

struct conversation {
  const struct template *tpl;
  const struct value *messages, *tools, *special;
  struct promptids_memo *sections;
  struct template_memo *memo;
  struct promptids prompt;
  struct blockhash_chain *chain;
  size_t hashed, stable;
  struct value *prepared;
  uint64_t *ids;
  size_t n;
  struct buf tail, whole;
};

static struct {
  double stages[TURNS][STAGES][REPEATS_MAX];
  double instructions[TURNS][REPEATS_MAX];
  size_t tokens[TURNS], bytes[TURNS];
} figures;

static void need(int rc, const struct err *err) {
  if (rc < 0) {
    fprintf(stderr, "turn_stages: %s\n", err->text);
    exit(1);
  }
}

static struct template *read_template(const char *path) {
  struct value config;
  struct template *tpl;
  struct err err;
  size_t len, n = strlen(path);
  char *text = read_file(path, &len);
  if (n > 5 && !strcmp(path + n - 5, ".json")) {
    need(json_parse(text, len, &config, &err), &err);
    const struct value *source = template_of_config(&config, true, &err);
    need(source ? 0 : err.code, &err);
    need(template_load(source->u.string.data, source->u.string.len, path, &tpl, &err), &err);
    value_free(&config);
  } else {
    need(template_load(text, len, path, &tpl, &err), &err);
  }
  mem_free(text);
  return tpl;
}

/* ---- instructions ---- */

static int open_counter(void) {
  struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                 .size = sizeof attr,
                                 .config = PERF_COUNT_HW_INSTRUCTIONS,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1};
  return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static double count(int fd) {
  uint64_t n = 0;
  if (fd < 0 || read(fd, &n, sizeof n) != sizeof n)
    return 0;
  return (double)n;
}

/* ---- a turn ---- */

static void prepare(struct conversation *c, size_t n) {
  struct err err;
  for (; c->n < n; c->n++) {
    struct value one = value_array(), prepared;
    struct buf json;
    buf_init(&json, BUF_MAX_OWN);
    json_write(&json, value_at(c->messages, c->n)); /* as it is kept for a body */
    need(json_parse(json.data, json.len, value_push(&one, value_null()), &err), &err);
    need(chatmessages_prepare(&one, &prepared, &err), &err);
    c->prepared[c->n] = *value_at(&prepared, 0);
    *value_at(&prepared, 0) = value_null();
    value_free(&prepared);
    value_free(&one);
    buf_free(&json);
  }
}

static size_t render(struct conversation *c) {
  static struct value room[2 * TURNS];
  static uint64_t ids[2 * TURNS];
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  struct value list = value_array();
  struct err err;
  size_t common;
  for (size_t i = 0; i < c->n; i++) {
    room[i] = c->prepared[i];
    ids[i] = i + 1;
  }
  list.u.array.items = room;
  list.u.array.n = c->n;
  struct template_chat chat = {
      .messages = &list, .tools = c->tools, .special = c->special, .add_generation_prompt = true};
  struct template_grown grown = {.chat = &chat,
                                 .ids = ids,
                                 .tools_id = c->tools ? 1 : 0,
                                 .old = promptids_text(&c->prompt),
                                 .old_len = c->prompt.len};
  buf_reset(&c->tail);
  need(template_render_grown(c->tpl, &c->memo, &grown, &opts, &c->tail, &common, &err), &err);
  return common;
}

static void hash(struct conversation *c) {
  struct err err;
  const uint32_t *ids = promptids_ids(&c->prompt);
  size_t firm = promptids_firm(&c->prompt, LOOSE_MARKS);
  if (c->prompt.kept < c->hashed)
    abort(); /* what is firm has changed */
  if (firm > c->hashed) {
    need(blockhash_chain_add(c->chain, ids + c->hashed, firm - c->hashed, &err), &err);
    c->hashed = firm;
  }
  struct blockhash_chain *all = blockhash_chain_fork(c->chain);
  need(blockhash_chain_add(all, ids + c->hashed, c->prompt.n - c->hashed, &err), &err);
  blockhash_chain_delete(all);
}

static size_t body(struct conversation *c) {
  size_t bytes = 0;
  (void)promptids_survived(&c->prompt);
  promptids_send(&c->prompt);
  promptids_write(&c->prompt);
  struct blob **parts = mem_calloc(c->prompt.n_parts, sizeof *parts);
  for (size_t i = 0; i < c->prompt.n_parts; i++) {
    parts[i] = blob_ref(c->prompt.parts[i].json);
    bytes += parts[i]->len;
  }
  for (size_t i = 0; i < c->prompt.n_parts; i++)
    blob_unref(parts[i]);
  mem_free(parts);
  return bytes;
}

static void full(struct conversation *c) {
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  struct value list = value_array();
  struct err err;
  list.u.array.items = c->prepared;
  list.u.array.n = c->n;
  struct template_chat chat = {
      .messages = &list, .tools = c->tools, .special = c->special, .add_generation_prompt = true};
  buf_reset(&c->whole);
  need(template_render_chat(c->tpl, &chat, &opts, &c->whole, &err), &err);
  if (c->whole.len != c->prompt.len ||
      memcmp(c->whole.data, promptids_text(&c->prompt), c->whole.len))
    abort();
}

static void turn(struct conversation *c, size_t at, size_t repeat, int counter, bool whole) {
  struct err err;
  uint64_t t[STAGES + 1];
  double before = count(counter);
  t[0] = clock_ns();
  prepare(c, 2 * at + 1);
  t[1] = clock_ns();
  size_t common = render(c);
  t[2] = clock_ns();
  need(promptids_set_tail(&c->prompt, c->sections, common, c->tail.len ? c->tail.data : "",
                          c->tail.len, &err),
       &err);
  t[3] = clock_ns();
  hash(c);
  t[4] = clock_ns();
  figures.bytes[at] = body(c);
  t[5] = clock_ns();
  figures.instructions[at][repeat] = count(counter) - before;
  if (whole)
    full(c);
  t[6] = clock_ns();
  figures.tokens[at] = c->prompt.n;
  for (size_t i = 0; i < STAGES; i++)
    figures.stages[at][i][repeat] = (double)(t[i + 1] - t[i]) / 1e3;
}

static void play(struct conversation *c, size_t repeat, int counter) {
  struct err err;
  c->memo = template_memo_new();
  c->hashed = c->n = 0;
  promptids_init(&c->prompt);
  need(blockhash_chain_open("ic-xxh3", NULL, &c->chain, &err), &err);
  for (size_t i = 0; i < TURNS; i++)
    turn(c, i, repeat, counter, i == 1 || i == 49 || i == 99 || i == 199);
  for (size_t i = 0; i < c->n; i++)
    value_free(&c->prepared[i]);
  blockhash_chain_delete(c->chain);
  promptids_free(&c->prompt);
  template_memo_unref(c->memo);
}

/* ---- figures ---- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* The median over repeats and, so that one odd turn says little, over five turns around it. */
static double median(size_t at, int stage, size_t repeats) {
  static double all[5 * REPEATS_MAX];
  size_t n = 0, from = at < 1 ? at : at + 5 > TURNS ? TURNS - 5 : at;
  for (size_t i = from; i < from + 5; i++)
    for (size_t r = 0; r < repeats; r++)
      all[n++] = stage < 0 ? figures.instructions[i][r] : figures.stages[i][stage][r];
  qsort(all, n, sizeof *all, by_size);
  return all[n / 2];
}

static double median_of_one(size_t at, int stage, size_t repeats) {
  qsort(figures.stages[at][stage], repeats, sizeof(double), by_size);
  return figures.stages[at][stage][repeats / 2];
}

static void print(size_t repeats, bool counted) {
  static const size_t shown[] = {2, 50, 100, 200};
  printf("{\"turns\": [");
  for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
    size_t at = shown[i] - 1;
    printf("%s{\"turn\": %zu, \"tokens\": %zu, \"bytes\": %zu", i ? ", " : "", shown[i],
           figures.tokens[at], figures.bytes[at]);
    for (int s = 0; s < STAGES - 1; s++)
      printf(", \"%s\": %.2f", stage_names[s], median(at, s, repeats));
    printf(", \"full\": %.2f", median_of_one(at, STAGES - 1, repeats));
    if (counted)
      printf(", \"instructions\": %.0f", median(at, -1, repeats));
    printf("}");
  }
  printf("]}\n");
}

int main(int argc, char **argv) {
  struct conversation c = {.hashed = 0};
  const struct tokens *tokens;
  struct value row;
  struct template_chat chat;
  struct err err;
  size_t len;
  if (argc < 4) {
    fprintf(stderr, "usage: turn_stages TEMPLATE TOKENIZER CHAT.json [REPEATS]\n");
    return 2;
  }
  size_t repeats = argc > 4 ? (size_t)atoi(argv[4]) : 9;
  repeats = repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : repeats;
  struct template *tpl = read_template(argv[1]);
  need(tokens_load(argv[2], NULL, &tokens, &err), &err);
  char *json = read_file(argv[3], &len);
  need(json_parse(json, len, &row, &err), &err);
  need(template_chat_read(&row, &chat, &err), &err);
  if (value_count(chat.messages) < 2 * TURNS) {
    fprintf(stderr, "turn_stages: %s has fewer than %d messages\n", argv[3], 2 * TURNS);
    return 1;
  }
  struct tokens_encoder *e = tokens_encoder_new(tokens);
  c.tpl = tpl;
  c.messages = chat.messages;
  c.tools = chat.tools;
  c.special = chat.special;
  c.prepared = mem_calloc(2 * TURNS, sizeof *c.prepared);
  buf_init(&c.tail, BUF_MAX_OWN);
  buf_init(&c.whole, BUF_MAX_OWN);
  int counter = open_counter();
  for (size_t i = 0; i < repeats; i++) {
    c.sections = promptids_memo_new(e, (size_t)8 << 20);
    play(&c, i, counter);
    promptids_memo_delete(c.sections);
  }
  print(repeats, count(counter) > 0);
  if (counter >= 0)
    close(counter);
  buf_free(&c.tail);
  buf_free(&c.whole);
  mem_free(c.prepared);
  tokens_encoder_delete(e);
  tokens_close(tokens);
  template_delete(tpl);
  value_free(&row);
  mem_free(json);
  return 0;
}
