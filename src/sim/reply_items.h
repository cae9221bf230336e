/* reply_items.h: the output items of a Responses answer as JSON: thoughts, a message, a call. */
#ifndef SIM_REPLY_ITEMS_H
#define SIM_REPLY_ITEMS_H

#include "sim/reply.h"

/* What a turn says behind its thoughts: a message, or the call's item. */
enum reply_item reply_items_answer(const struct genchoice *c);
/* Whether a turn has such an item when `end` bytes of its text are out: a search or a program is
 * none before it is whole. */
bool reply_items_has(const struct genchoice *c, enum reply_item item, uint32_t end);
/* `"id":"msg_…"`, drawn from the response's id and the item's place; of the server's own calls from
 * the call's id. */
void reply_items_put_id(const struct reply *r, const struct genchoice *c, const char *key,
                        enum reply_item item, uint32_t place, struct buf *out);
/* The item with bytes start..end of the turn's text when it is done, else with nothing yet.
 * `result`: with what the server's own tool gave, where its item says so. */
void reply_items_put(const struct reply *r, const struct genchoice *c, enum reply_item item,
                     uint32_t place, uint32_t start, uint32_t end, bool done, bool result,
                     struct buf *out);

#endif
