/* ledger.h: the token ledger of one request: where its prompt's tokens came from, and why not from
 * a cache (DESIGN.md, "The token ledger and the outcome classes"). Pure. */
#ifndef OUT_LEDGER_H
#define OUT_LEDGER_H

#include "base/base.h"

/* In the order in which they are assigned. */
enum ledger_cause {
  LEDGER_HBM,         /* delivered from the replica's own GPU memory */
  LEDGER_OFFLOAD,     /* … from its CPU memory */
  LEDGER_SHARED,      /* … from storage that replicas share */
  LEDGER_TRANSFER,    /* … from the replica that did the prefill */
  LEDGER_CACHED,      /* … and it is not known from where */
  LEDGER_RECOMPUTED,  /* captured, not delivered */
  LEDGER_STALE_INDEX, /* claimed by the router, the claim followed, not captured */
  LEDGER_WRONG_POD,   /* available, not captured */
  LEDGER_EVICTED,     /* possible, not available */
  LEDGER_NEW,         /* nobody ever had it */
  LEDGER_UNKNOWN,     /* what was delivered is not known */
  LEDGER_CAUSES
};
#define LEDGER_COLD LEDGER_CAUSES /* a class, no cause: hardly anything was possible */
/* "hbm" … "unknown", "cold". */
const char *ledger_cause_name(int cause);

#define LEDGER_ABSENT (-1)

/* Tokens, LEDGER_ABSENT where not known. */
struct ledger {
  int64_t prompt; /* n */
  int64_t block_size;
  int64_t possible, available, captured, delivered;
  int64_t claimed;                   /* by the router, and followed */
  int64_t offload, shared, transfer; /* of the delivered, where from; all absent: not reported */
};

/* Cuts the four figures to whole blocks before the prompt's last token. */
void ledger_cap(struct ledger *l);
/* Each token's cause; they sum to l->prompt (after ledger_cap). A figure that is not known, or
 * below the ones before it, takes nothing. */
void ledger_causes(const struct ledger *l, int64_t causes[LEDGER_CAUSES]);
/* The largest cause among the possible tokens (the first of equals), LEDGER_COLD when fewer than
 * eight blocks, or 10 % of the prompt, were possible; LEDGER_UNKNOWN when that or `delivered` is
 * not known. */
int ledger_class(const struct ledger *l);

#endif
