/* eventshaping.h: what happens to a replica's KV events on their way out: late, or never.
 *
 * Set by actions.c (delay_events, drop_events), read by whoever publishes the events, per message:
 * a dropped message keeps its sequence number, so that a subscriber sees the gap. */
#ifndef SIM_EVENTSHAPING_H
#define SIM_EVENTSHAPING_H

#include "base/base.h"

struct eventshaping {
  uint64_t delay_ns;   /* 0 = none */
  double drop_p;       /* 0..1: of each message */
  uint64_t drop_count; /* so many more are dropped, whatever drop_p says */
  uint64_t dropped;    /* so far; the publisher counts */
  /* Which action set them: the end of an older one's time changes nothing. */
  uint64_t delay_serial, drop_serial;
};

#endif
