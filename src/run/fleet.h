/* fleet.h: where requests go: the effective fleet of a run, plain read-only data shared by all
 * workers. */
#ifndef RUN_FLEET_H
#define RUN_FLEET_H

#include "base/err.h"
#include "text/value.h"

struct tokens;
struct tokens_shared;

#define FLEET_ID_MAX 100        /* bytes of a replica's id */
#define FLEET_REPLICAS_MAX 4096 /* more are a mistake, and each is asked before the run */

struct fleet_replica {
  char *id, *url;              /* url without a trailing slash */
  char *metrics;               /* NULL = url + "/metrics" */
  char *kv_events, *kv_replay; /* endpoints of the built-in fleet's KV events; NULL: none */
  char *admin_id; /* what the admin port calls it; NULL: the same, or there is no such port */
};

struct fleet {
  struct fleet_replica *replicas;
  size_t n_replicas;
  size_t n_spares; /* the last so many of them are down, and out of rotation until they are added */
  char *gateway;   /* URL, NULL = none: then requests go to replicas */
  char *admin, *admin_token; /* URL of a simulated fleet's admin port, and its secret; NULL */
  char *model;               /* NULL = asked of /v1/models by the command before the run */
  char *tenant;
  char *tokenizer;     /* "bytes", a path or a name; NULL when none is known */
  char *family;        /* of a rank file; NULL */
  char *template;      /* "harmony", or where a chat template is; NULL when none is known */
  char *hash_scheme;   /* how its engines hash blocks (kv/blockhash_chain.h); NULL: not said */
  uint32_t block_size; /* tokens of a block of its engines' caches; 0: not known */
  char *now; /* the servers' present, for templates and Harmony (pytime_parse); NULL: the clock's */
  const struct tokens *tokens;  /* the tokenizer once it is loaded, for all workers */
  struct tokens_shared *shared; /* where else it may be needed; borrowed, NULL: nowhere */
  char *headers; /* extra header lines "Name: value\r\n"…, keys included: never logged */
  char *ca_file, *cert_file, *key_file;
  char *proxy; /* NULL = none */
  bool insecure, http2;
  /* By URL what a server says of itself in /v1/models, as far as it does: {root, tokenizer,
   * tokenizer_hash, template, template_hash, now}; null: nobody says anything. */
  struct value announced;
  /* What was not given and is a simulated server's word: {tokenizer, template, now}: its URL. */
  struct value taken;
  bool verify;         /* count each chat prompt on this side too, with the template */
  bool simulated;      /* the built-in fleet: every report says so */
  bool reports_cached; /* known to report cached_tokens */
};

void fleet_free(struct fleet *f);
/* "id=http://host:port", "http://host:port" (id r0, r1 …), or "id|url". Appends. */
NODISCARD int fleet_add_replica(struct fleet *f, const char *text, struct err *err);

/* Loads the tokenizer that is named, if one is and has not been loaded yet. Errors of
 * tokens_load. */
NODISCARD int fleet_load_tokens(struct fleet *f, struct err *err);

#endif
