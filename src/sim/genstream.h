/* genstream.h: what a generation request sends: its events one by one with the comments between
 * them, or its whole reply at the end. */
#ifndef SIM_GENSTREAM_H
#define SIM_GENSTREAM_H

#include "sim/genlife.h"

/* Counts silence from now on: a comment goes out after too much of it, where the face or an option
 * says so. */
void genstream_stay_alive(struct generation *x);
/* Of x->alive_timer. */
void genstream_on_silence(struct loop_timer *t);

/* The head is out: decides how events go out. In virtual time most streams are told without bytes:
 * the stamps of tokens are kept, and the events made of them when the client looks or the answer
 * ends. */
void genstream_begin(struct generation *x);
/* Of httpd_on_look; x is the generation. */
void genstream_on_look(struct httpd_request *req, void *x);
/* Tells what there is, and has everything from here on made as bytes. */
void genstream_untell(struct generation *x);

/* What the engine did for it so far. */
struct reply_facts genstream_facts(const struct generation *x);
/* Headers of every answer, with a content type: GENERATION_HEAD_MAX bytes. */
void genstream_make_head(const struct generation *x, const char *type, char *head);

/* Hands on what is in the host's list of events; false when the answer ended by one of them. */
bool genstream_push(struct generation *x);
/* The next tokens of a choice, when it is time for an event. Returns whether the answer is open. */
bool genstream_tokens(struct generation *x, struct gen_part *part, bool last);
/* Some of a choice's prompt was computed. */
void genstream_progress(struct generation *x, const struct gen_part *part, uint64_t now_ns);
/* Usage and end marker; the same. */
bool genstream_end(struct generation *x);
/* The whole reply. */
void genstream_send_whole(struct generation *x);
/* What is left of the answer, once its last choice has ended in whatever way. */
void genstream_conclude(struct generation *x);
/* The last choice is through: counts and stores it, and sends what is left. */
void genstream_finish(struct generation *x);
/* Of delivery.write_error: how the face says an error in mid-stream. */
void genstream_write_error(struct delivery *d, const struct apierror *e, struct events *out);

#endif
