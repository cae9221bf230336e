/* fuzz_grown.c: conversations that grow, fork, change and are cut, rendered by Harmony or by a
 * renderer that gives what is new: each prompt is that of the whole, whatever happened before.
 *
 * The first byte chooses which, the tokenizer and the memo's size; each further one is a choice of
 * tests/unit/harmony_steps.h and render_steps.h. */
#include "../unit/render_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const struct tokens *models[2];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  struct err err;
  (void)argc, (void)argv;
  models[0] = steps_tokenizer(true);
  steps_require(tokens_open("bytes", NULL, &models[1], &err) == 0, "bytes");
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2 || size > 1000)
    return 0;
  struct steps_source choices = {.data = data + 1, .size = size - 1};
  size_t memo = data[0] & 2 ? (size_t)1 << 20 : 600;
  if (data[0] & 1)
    (void)steps_random(models[0], choices, 200, memo);
  else
    (void)talk_random(models[data[0] >> 2 & 1], choices, 200, memo);
  return 0;
}
