/* adapters.h: the LoRA adapters that a replica serves beside its base model.
 *
 * A request whose `model` is an adapter's name runs with it: its blocks are its own (kv/engine.h),
 * answers are drawn as from the base model. All of them may run at once (vLLM's max_loras is as
 * many as there are). One thread. */
#ifndef SIM_ADAPTERS_H
#define SIM_ADAPTERS_H

#include "base/err.h"

struct adapter {
  char *name, *path;
  uint32_t id; /* vLLM's lora_int_id: from 1 on, never used again */
};

struct adapters {
  struct adapter *items;
  size_t n, cap;
  uint32_t last_id;
};

/* A name that a model or an adapter may have: it is shown, in JSON too. UTF-8 without control
 * characters. */
bool adapters_name_ok(const char *name, size_t len);
/* "NAME=PATH", or a name alone, which is its path then. ERR_INVALID without a name, and for one
 * that is there. */
NODISCARD int adapters_add(struct adapters *a, const char *text, struct err *err);
/* The same, of a name that is not there. */
void adapters_put(struct adapters *a, const char *name, const char *path);
/* False when there is none of that name. */
bool adapters_remove(struct adapters *a, const char *name);
/* NULL when there is none. */
const struct adapter *adapters_find(const struct adapters *a, const char *name);
/* Adds those of another list, none of which may be there. */
void adapters_copy(struct adapters *to, const struct adapters *from);
void adapters_free(struct adapters *a);

#endif
