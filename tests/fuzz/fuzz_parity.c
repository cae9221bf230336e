/* fuzz_parity.c: ids and texts that a server may answer with, held against ours: the verdict and
 * the first difference are what a plain comparison gives, and a date that is found lies where it
 * was asked for. The first bytes change our own ids into the server's; the rest is the text. */
#include "fuzz_model.h"

#include <unistd.h>

#include "text/parity_impl.h"
#include "text/paritycases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const char source[] =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im|>{{ m.role }} "
    "{{ strftime_now('%d %b %Y') }}\n{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im|>{% endif %}";

static struct parity_local local;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char path[] = "/tmp/perigee-fuzz-parity.XXXXXX";
  struct chattemplate *chat;
  struct err err;
  (void)argc, (void)argv;
  int fd = mkstemp(path);
  require(fd >= 0 && write(fd, source, sizeof source - 1) == (ssize_t)sizeof source - 1);
  close(fd);
  require(chattemplate_load(path, NULL, &chat, &err) == 0);
  unlink(path);
  local = (struct parity_local){.encoder = tokens_encoder_new(fuzz_model_tokens("split_qwen2")),
                                .chat = chat};
  return 0;
}

/* Six bytes: what to do, where, with which id; 0 ends. */
static void change(struct tokens_list *ids, const uint8_t *edits, size_t n) {
  for (size_t i = 0; i + 2 < n && edits[i]; i += 3) {
    size_t at = ids->n ? edits[i + 1] % (ids->n + 1) : 0;
    uint32_t id = edits[i + 2] == 255 ? 151644 : edits[i + 2];
    if (edits[i] % 3 == 0 && at < ids->n) {
      ids->ids[at] = id;
    } else if (edits[i] % 3 == 1) {
      tokens_list_reserve(ids, 1);
      memmove(ids->ids + at + 1, ids->ids + at, (ids->n - at) * sizeof *ids->ids);
      ids->ids[at] = id;
      ids->n++;
    } else if (at < ids->n) {
      memmove(ids->ids + at, ids->ids + at + 1, (ids->n - at - 1) * sizeof *ids->ids);
      ids->n--;
    }
  }
}

static void judge(const struct parity_case *c, const struct tokens_list *ours,
                  const struct tokens_list *server) {
  struct parity_result r;
  static const uint32_t none[1];
  size_t common = parity_common(ours->ids, ours->n, server->ids, server->n);
  bool same = common == ours->n && common == server->n;
  parity_compare(&local, c, ours, server->ids ? server->ids : none, server->n, &r);
  require((r.verdict == PARITY_EQUAL) == same);
  require(r.has_difference == !same && (same || r.index == common));
  require(same || (common < ours->n ? r.local_id == (int64_t)ours->ids[common] : r.local_id == -1));
  require(r.n_causes <= PARITY_MAX_CAUSES);
  struct value v = parity_difference_value(&r);
  value_free(&v);
  parity_result_free(&r);
  parity_compare(&local, c, ours, NULL, server->n, &r);
  require((r.verdict == PARITY_COUNT) == (ours->n == server->n));
  parity_result_free(&r);
}

static void find_dates(const char *text, size_t len) {
  struct paritydate d;
  for (size_t near = 0; near <= len; near++)
    if (paritydate_find(text, len, near, &d))
      require(d.start <= near && d.len >= 10 && d.start + d.len >= near && d.start + d.len <= len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct paritycases cases = {0};
  struct buf json;
  struct err err;
  if (size < 7 || size > 300)
    return 0;
  const char *text = (const char *)data + 6;
  size_t len = size - 6;
  find_dates(text, len);
  buf_init(&json, BUF_MAX_OWN);
  buf_puts(&json, "{\"messages\":[{\"role\":\"user\",\"content\":");
  json_write_string(&json, text, len);
  buf_puts(&json, "}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":");
  json_write_string(&json, text, len);
  buf_puts(&json, "}}]}");
  require(paritycases_add_messages(&cases, "chat", json.data, json.len, &err) == 0);
  paritycases_add_prompt(&cases, "prompt", text, len);
  paritycases_set_now(&cases, &(struct pytime){.year = 2026, .month = 8, .day = 1});
  const struct parity_case *c = &cases.items[data[5] % cases.n];
  struct tokens_list ours = {0}, server = {0};
  if (parity_encode(&local, c, &ours, &err) == 0 && parity_encode(&local, c, &server, &err) == 0) {
    change(&server, data, 6);
    judge(c, &ours, &server);
  }
  tokens_list_free(&ours);
  tokens_list_free(&server);
  buf_free(&json);
  paritycases_free(&cases);
  return 0;
}
