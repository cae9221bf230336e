/* meters_plain.c: see meters_plain.h. */
#include "sim/meters_plain.h"

static const double duration_edges[] = {0.00015000000000000001,
                                        0.00022500000000000002,
                                        0.0003375,
                                        0.00050625,
                                        0.000759375,
                                        0.0011390624999999999,
                                        0.0017085937499999998,
                                        0.0025628906249999996,
                                        0.0038443359374999994,
                                        0.00576650390625,
                                        0.008649755859375,
                                        0.0129746337890625,
                                        0.01946195068359375,
                                        0.029192926025390625,
                                        0.043789389038085935,
                                        0.0656840835571289,
                                        0.09852612533569335,
                                        0.14778918800354002,
                                        0.22168378200531003,
                                        0.33252567300796504,
                                        0.49878850951194753,
                                        0.7481827642679213,
                                        1.122274146401882,
                                        1.683411219602823,
                                        2.5251168294042348,
                                        3.787675244106352,
                                        5.681512866159528,
                                        8.52226929923929,
                                        12.783403948858936,
                                        19.175105923288406,
                                        28.76265888493261,
                                        43.143988327398915,
                                        64.71598249109837,
                                        97.07397373664756,
                                        145.61096060497135};

#define EDGES(a) a, ARRAY_LEN(a)

static const struct meter_spec tgi[METER_HISTS] = {
    [METER_E2E] = {"tgi_request_duration", "Arrival to last token, seconds.",
                   EDGES(duration_edges)},
    [METER_QUEUE] = {"tgi_request_queue_duration", "Time in the queue, seconds.",
                     EDGES(duration_edges)},
    [METER_INFERENCE] = {"tgi_request_inference_duration",
                         "First scheduling to last token, seconds.", EDGES(duration_edges)},
    [METER_TPOT] = {"tgi_request_mean_time_per_token_duration",
                    "Mean time per output token of a request, seconds.", EDGES(duration_edges)},
    [METER_PROMPT_TOKENS] = {"tgi_request_input_length", "Prompt tokens of a request.", NULL, 0},
    [METER_GENERATION_TOKENS] = {"tgi_request_generated_tokens", "Output tokens of a request.",
                                 NULL, 0},
    [METER_MAX_TOKENS] = {"tgi_request_max_new_tokens", "The max_tokens of a request.", NULL, 0},
};

const struct meter_spec *meters_tgi_spec(int which) {
  return tgi[which].name ? &tgi[which] : NULL;
}

static void put_tgi(const struct meters *m, const struct meters_now *now, struct meterpage *w) {
  uint64_t ended = m->finished[METER_STOP] + m->finished[METER_LENGTH];
  meterpage_counter(w, "tgi_request_count", "Requests, ended and under way.",
                    ended + m->finished[METER_ABORT] + now->running + now->waiting);
  meterpage_counter(w, "tgi_request_success", "Requests answered.", ended);
  meterpage_gauge(w, "tgi_queue_size", "Requests that wait.", now->waiting);
  meterpage_gauge(w, "tgi_batch_current_size", "Requests that run.", now->running);
  for (int i = 0; i < METER_HISTS; i++)
    if (tgi[i].name)
      meterpage_hist(w, &tgi[i], &m->edges[i], &m->hists[i]);
}

static double rate(double n, double seconds) {
  return seconds > 0 ? n / seconds : 0;
}

static void put_llamacpp(const struct meters *m, const struct meters_now *now,
                         struct meterpage *w) {
  double computed = (double)(m->prompt_tokens - m->cached_tokens);
  double prompt_s = m->hists[METER_PREFILL].sum, decode_s = m->hists[METER_DECODE].sum;
  double said = (double)m->generation_tokens;
  uint64_t steps = m->steps;
  const struct {
    const char *name, *type, *help;
    double x;
  } rows[] = {
      {"prompt_tokens_total", "counter", "Prompt tokens computed.", computed},
      {"prompt_seconds_total", "counter", "Time in prompts, seconds.", prompt_s},
      {"tokens_predicted_total", "counter", "Output tokens.", said},
      {"tokens_predicted_seconds_total", "counter", "Time in output, seconds.", decode_s},
      {"n_decode_total", "counter", "Steps.", (double)steps},
      {"n_busy_slots_per_decode", "gauge", "Mean outputs of a step.", rate(said, (double)steps)},
      {"prompt_tokens_seconds", "gauge", "Prompt tokens a second.", rate(computed, prompt_s)},
      {"predicted_tokens_seconds", "gauge", "Output tokens a second.", rate(said, decode_s)},
      {"requests_processing", "gauge", "Requests that run.", now->running},
      {"requests_deferred", "gauge", "Requests that wait.", now->waiting},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    meterpage_head(w, "llamacpp:", rows[i].name, rows[i].type, rows[i].help);
    meterpage_sample(w, "llamacpp:", rows[i].name, "", "", rows[i].x);
  }
}

void meters_write_plain(const struct meters *m, const struct meters_now *now, struct meterpage *w) {
  w->plain = true;
  if (m->style == METERS_TGI)
    put_tgi(m, now, w);
  else
    put_llamacpp(m, now, w);
}
