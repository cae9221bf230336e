/* kvconfig.h: how a simulated fleet publishes its KV events: settings by name, and endpoints.
 *
 * Names as in `perigee sim --set`; those behind `kv_events_` are the fields of vLLM's
 * --kv-events-config, with its defaults unless said otherwise:
 *
 *   kv_events             off; on, as the server that is played does (map, or sglang); map (vLLM
 *                         since June 2026); array (before); sglang (its fields and hashes). Any
 *                         kv_events_ key means on
 *   kv_events_port        port of the first replica's publisher, on the fleet's address, the others
 *                         follow; 0 (default) = any free ones
 *   kv_events_replay_port the same of replay sockets
 *   kv_events_endpoint    in the port's stead, as vLLM takes it: with *, :: or ipc:// it is bound
 *                         (replica i: port + i), else every replica connects to it
 *   kv_events_replay_endpoint  bound always; off = no replay
 *   kv_events_topic       {id}, {model} and {address} (host:port of its HTTP) stand for the
 *                         replica's; default ""
 *   kv_events_buffer_steps (10000), kv_events_hwm (100000)
 *   kv_events_max_queue_size (100000)  batches that wait while events are delayed
 *   kv_events_hashes      int (default): a digest's last 8 bytes; bytes: all of it, as with
 *                         VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0
 *   kv_events_config      all of these as vLLM's JSON
 *   hash_scheme           vllm-sha256 (default) or another of kv/pubhash.h's
 *   hash_seed             the text of PYTHONHASHSEED. Not set: as newest vLLM, "vllm-none-hash" for
 *                         sha256, and for xxhash a text that no client knows, another each replica
 */
#ifndef SIM_KVCONFIG_H
#define SIM_KVCONFIG_H

#include "base/err.h"
#include "sim/kvwire.h"

struct kvconfig {
  bool on, raw_hashes, replay, seed_set;
  bool encoding_set; /* by its name: kvconfig_play_sglang leaves it */
  enum kvwire_encoding encoding;
  uint32_t port, replay_port;
  uint32_t buffer_steps, hwm, max_queue_size;
  char endpoint[128], replay_endpoint[128]; /* "" = the port */
  char topic[128], scheme[32], seed[64];
};

void kvconfig_init(struct kvconfig *c);
/* Name i, NULL behind the last. */
const char *kvconfig_name(size_t i);
/* One setting; the name is one of kvconfig_name's. ERR_INVALID, ERR_NOT_FOUND (a scheme) name it
 * and say what would do. */
NODISCARD int kvconfig_set(struct kvconfig *c, const char *name, const char *text, struct err *err);
/* A fleet plays SGLang, and nobody said how events look. */
void kvconfig_play_sglang(struct kvconfig *c);
/* The hashes' scheme: SGLang's events have its own. */
const char *kvconfig_scheme(const struct kvconfig *c);
/* What depends on several: ports that do not suffice for `n_replicas`, or overlap. */
NODISCARD int kvconfig_check(const struct kvconfig *c, size_t n_replicas, struct err *err);

struct kvconfig_endpoint {
  char text[160];
  bool connect;
};
/* The endpoint of a replica's publisher, or replay socket; `host` is the fleet's address. */
void kvconfig_endpoint(const struct kvconfig *c, const char *host, size_t replica, bool replay,
                       struct kvconfig_endpoint *out);
/* The seed text of a replica's hashes, at most 64 bytes with its NUL; `seed` is the replica's. */
void kvconfig_seed(const struct kvconfig *c, uint64_t seed, char out[64]);

#endif
