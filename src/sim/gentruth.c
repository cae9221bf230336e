/* gentruth.c: see gentruth.h. */
#include "sim/gentruth.h"

static const char *fault_names(const struct fault_plan *plan, struct buf *b) {
  if (!plan->kinds)
    return NULL;
  for (int k = 0; k < FAULT_KINDS; k++)
    if (plan->kinds & 1u << k) {
      buf_puts(b, b->len ? " " : "");
      buf_puts(b, faults_kind_name((enum fault_kind)k));
    }
  return b->data;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
  return !a || (b && b < a) ? b : a;
}

static uint32_t loaded_of(const struct generation *x, enum engine_source from) {
  return x->n_parts ? x->parts[0].seq.engine.num_loaded[from] : 0;
}

static void add_parts(const struct generation *x, struct truth_line *line) {
  for (uint32_t i = 0; i < x->n_parts; i++) {
    const struct replica_seq *seq = &x->parts[i].seq;
    line->scheduled_ns = earlier(line->scheduled_ns, seq->scheduled_ns);
    line->first_token_ns = earlier(line->first_token_ns, seq->first_ns);
    if (seq->last_ns > line->last_token_ns)
      line->last_token_ns = seq->last_ns;
    line->output_tokens += seq->engine.num_output;
    line->preemptions += seq->engine.num_preemptions;
  }
}

void gentruth_log(struct generation *x) {
  struct simhost *h = x->host;
  if (!h->truth)
    return;
  struct buf names;
  buf_init(&names, BUF_MAX_OWN);
  struct truth_line line = {
      .replica = h->id,
      .id = x->id,
      .request_id = x->request_id,
      .path = x->path,
      .fault = fault_names(&x->delivery.plan, &names),
      .finish = x->finish,
      .number = x->number,
      .stream = x->gen.stream,
      .status = x->delivery.status,
      .received_ns = x->received_ns,
      .choices = x->n_parts,
      .prompt_tokens = x->has_gen ? genrequest_prompt_tokens(&x->gen) : 0,
      .cached_tokens = generation_cached(x),
      .offload_tokens = loaded_of(x, ENGINE_OFFLOAD),
      .shared_tokens = loaded_of(x, ENGINE_SHARED),
      .transfer_tokens = loaded_of(x, ENGINE_TRANSFER),
      .writes = x->delivery.writes,
      .n_writes = x->delivery.n_writes,
  };
  add_parts(x, &line);
  truth_add(h->truth, &line);
  buf_free(&names);
}
