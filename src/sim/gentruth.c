/* gentruth.c: see gentruth.h. */
#include "sim/gentruth.h"

#include "base/mem.h"

void gentruth_arrived(struct generation *x) {
  const struct genchoice *c = x->gen.choices;
  struct engine_prefix prompt;
  if (!x->host->truth)
    return;
  engine_prefix_init(&prompt, replica_config(x->host->replica), c->tokens, c->prompt_len,
                     x->gen.salt, x->gen.adapter);
  residence_ask(x->host, &prompt, &x->residence);
  engine_prefix_free(&prompt);
}

void gentruth_token(struct gen_part *part, uint64_t now_ns) {
  if (!part->owner->host->truth)
    return;
  MEM_GROW(part->token_ns, part->n_tokens, part->cap_tokens);
  part->token_ns[part->n_tokens++] = now_ns;
}

/* ---- the line ---- */

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
  uint32_t n = 0;
  for (uint32_t i = 0; i < (x->gen.api == GEN_RESPONSES ? x->n_parts : x->n_parts > 0); i++)
    n += x->parts[i].seq.engine.num_loaded[from];
  return n;
}

/* One after the other: requests of the engine's that the server's tools lie between. */
static struct truth_turn *make_turns(const struct generation *x, struct truth_line *line) {
  if (x->gen.api != GEN_RESPONSES || x->n_parts < 2)
    return NULL;
  struct truth_turn *turns = mem_calloc(x->n_parts, sizeof *turns);
  for (uint32_t i = 0; i < x->n_parts; i++) {
    const struct replica_seq *seq = &x->parts[i].seq;
    turns[i] = (struct truth_turn){.queued_ns = seq->queued_ns,
                                   .scheduled_ns = seq->scheduled_ns,
                                   .first_token_ns = seq->first_ns,
                                   .last_token_ns = seq->last_ns,
                                   .prompt_tokens = seq->engine.prompt_len,
                                   .output_tokens = seq->engine.num_output,
                                   .cached_tokens = x->gen.choices[i].cached};
  }
  line->turns = turns;
  line->n_turns = x->n_parts;
  line->choices = line->prompts = 1;
  return turns;
}

static void add_parts(const struct generation *x, struct truth_line *line) {
  for (uint32_t i = 0; i < x->n_parts; i++) {
    const struct replica_seq *seq = &x->parts[i].seq;
    line->queued_ns = earlier(line->queued_ns, seq->queued_ns);
    line->scheduled_ns = earlier(line->scheduled_ns, seq->scheduled_ns);
    line->first_token_ns = earlier(line->first_token_ns, seq->first_ns);
    if (seq->last_ns > line->last_token_ns)
      line->last_token_ns = seq->last_ns;
    line->output_tokens += seq->engine.num_output;
    line->preemptions += seq->engine.num_preemptions;
    line->evicted_blocks += seq->engine.num_evicted;
  }
}

static void add_residence(const struct generation *x, struct truth_line *line) {
  const struct residence *r = &x->residence;
  line->captured_tokens = r->captured;
  line->captured_pool_tokens = r->captured_pool;
  line->available_tokens = r->available;
  line->available_pool_tokens = r->available_pool;
  line->available_replica = r->best[0] ? r->best : NULL;
}

/* What each choice said and was told, and when: told here, so the line must follow. */
struct choices {
  struct chainlog_told *chains;
  struct truth_tokens *tokens;
};

static struct choices tell_choices(const struct generation *x, struct truth_line *line) {
  struct engine_config blocks = *replica_config(x->host->replica);
  uint32_t n = x->has_gen ? x->gen.n_choices : 0;
  struct choices all = {mem_calloc(n, sizeof *all.chains), mem_calloc(n, sizeof *all.tokens)};
  blocks.tiers = (struct engine_tiers){0};
  for (uint32_t i = 0; i < n; i++) {
    const struct genchoice *c = &x->gen.choices[i];
    const struct gen_part *part = i < x->n_parts ? &x->parts[i] : NULL;
    uint32_t outputs = part ? part->seq.engine.num_output : 0;
    struct engine_prefix names;
    engine_prefix_init(&names, &blocks, c->tokens, c->prompt_len + outputs, x->gen.salt,
                       x->gen.adapter);
    all.chains[i] = truth_tell(x->host->truth, names.blocks, names.n_blocks);
    engine_prefix_free(&names);
    if (part)
      all.tokens[i] = (struct truth_tokens){part->token_ns, part->n_tokens};
  }
  line->chains = all.chains;
  line->tokens = all.tokens;
  line->n_chains = n;
  return all;
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
      .prompts = x->has_gen ? x->gen.n_choices / x->gen.n : 0,
      .prompt_tokens = x->has_gen ? genrequest_prompt_tokens(&x->gen) : 0,
      .cached_tokens = generation_cached(x),
      .offload_tokens = loaded_of(x, ENGINE_OFFLOAD),
      .shared_tokens = loaded_of(x, ENGINE_SHARED),
      .transfer_tokens = loaded_of(x, ENGINE_TRANSFER),
      .block_size = replica_config(h->replica)->block_size,
      .first_visible_ns = x->delivery.first_visible_ns,
      .writes = x->delivery.writes,
      .n_writes = x->delivery.n_writes,
  };
  add_parts(x, &line);
  add_residence(x, &line);
  struct choices told = tell_choices(x, &line);
  struct truth_turn *turns = make_turns(x, &line);
  truth_add(h->truth, &line);
  mem_free(turns);
  mem_free(told.chains);
  mem_free(told.tokens);
  buf_free(&names);
}
