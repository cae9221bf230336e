/* fuzz_kvevents.c: any bytes as a request for a replay, and as a setting of KV events (vLLM's JSON
 * among them). The first byte chooses. What is accepted must be consistent; what is refused must
 * say why and change nothing. */
#include "sim/kvconfig.h"
#include "sim/kvreplay.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

/* Frames are separated by a byte 0xfe. */
static void request(const uint8_t *data, size_t size) {
  struct zmqsock_message m;
  uint64_t start = 0;
  zmqsock_message_init(&m);
  for (size_t i = 0; i <= size; i++) {
    if (i < size && data[i] != 0xfe) {
      if (m.n < ZMQSOCK_MAX_FRAMES)
        buf_put(&m.bytes, data + i, 1);
      continue;
    }
    if (m.n < ZMQSOCK_MAX_FRAMES)
      m.ends[m.n] = m.bytes.len;
    m.n++;
  }
  bool is_one = kvreplay_read_request(&m, &start);
  require(!is_one || m.n == 3);
  if (is_one) {
    uint8_t number[KVWIRE_SEQUENCE_BYTES];
    size_t len;
    const uint8_t *frame = zmqsock_frame(&m, 2, &len);
    kvwire_put_sequence(number, start);
    require(len <= sizeof number && memcmp(number + sizeof number - len, frame, len) == 0);
  }
  zmqsock_message_free(&m);
}

static void setting(size_t key, const char *text) {
  struct kvconfig c, before;
  struct err err = {0};
  size_t n = 0;
  while (kvconfig_name(n))
    n++;
  kvconfig_init(&c);
  before = c;
  if (kvconfig_set(&c, kvconfig_name(key % n), text, &err)) {
    require(err.text[0] && memcmp(&c, &before, sizeof c) == 0);
    return;
  }
  for (size_t replicas = 1; replicas <= 4096; replicas *= 64) {
    if (kvconfig_check(&c, replicas, &err)) {
      require(err.text[0]);
      continue;
    }
    for (int replay = 0; replay < 2; replay++) {
      struct kvconfig_endpoint e;
      kvconfig_endpoint(&c, "127.0.0.1", replicas - 1, replay, &e);
      require(strncmp(e.text, "tcp://", 6) == 0 || strncmp(e.text, "ipc://", 6) == 0);
      require(strlen(e.text) < sizeof e.text - 1);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size)
    return 0;
  if (data[0] == 0xff) {
    request(data + 1, size - 1);
    return 0;
  }
  char *text = malloc(size);
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  setting(data[0], text);
  free(text);
  return 0;
}
