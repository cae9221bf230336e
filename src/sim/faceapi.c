/* faceapi.c: see faceapi.h. */
#include "sim/faceapi.h"

#include <string.h>

#include "sim/genprompt.h"

/* Refused while blocks are in use. */
void faceapi_flush(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  bool done = replica_reset_cache(h->replica, false);
  a->status = done ? 200 : 400;
  a->content_type = "text/plain; charset=utf-8";
  buf_puts(&a->body, done ? "Cache flushed.\n" : "Cache not flushed: requests are running.\n");
  simhost_kick(h);
}

void faceapi_server_info(struct simhost *h, struct httpd_request *req, struct answer *a) {
  const struct engine_config *c = replica_config(h->replica);
  (void)req;
  buf_putc(&a->body, '{');
  reply_put_string("model_path", h->model->name, &a->body);
  buf_printf(&a->body,
             ",\"context_length\":%u,\"page_size\":%u,\"max_total_num_tokens\":%llu,"
             "\"enable_cache_report\":%s,\"simulated\":true}",
             h->model->max_model_len, c->block_size,
             (unsigned long long)(c->num_blocks - 1) * c->block_size,
             h->flags.no_cached ? "false" : "true");
}

void faceapi_tokenize(struct simhost *h, struct httpd_request *req, struct answer *a) {
  struct apierror e = {0};
  struct value body;
  struct tokens_list ids = {0};
  size_t len;
  const char *data = httpd_body(req, &len);
  int rc = reqfield_object(data, len, &body, &e);
  if (!rc) {
    const struct value *content = value_get(&body, "content");
    struct tokens_options options = {.special = true};
    struct err err;
    if (!content || content->kind != VALUE_STRING)
      rc = apierror_set(&e, 400, "content", "content: a string is required");
    else if (reqfield_bool(&body, "add_special", &options.add_special, &e))
      rc = ERR_INVALID;
    else if (genmodel_encode(h->model, content->u.string.data, content->u.string.len, &options,
                             &ids, &err))
      rc = apierror_set(&e, 400, "content", "%s", err.text);
    value_free(&body);
  }
  if (rc) {
    endpoint_error(a, &e);
  } else {
    buf_puts(&a->body, "{\"tokens\":");
    reply_put_ids(ids.ids, ids.n, &a->body);
    buf_putc(&a->body, '}');
  }
  tokens_list_free(&ids);
}

void faceapi_props(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  buf_printf(&a->body, "{\"default_generation_settings\":{\"n_ctx\":%u},\"total_slots\":%u,",
             h->model->max_model_len, replica_config(h->replica)->max_num_seqs);
  reply_put_string("model_path", h->model->name, &a->body);
  buf_puts(&a->body, ",\"simulated\":true}");
}

void faceapi_info(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  buf_putc(&a->body, '{');
  reply_put_string("model_id", h->model->name, &a->body);
  buf_printf(&a->body, ",\"max_total_tokens\":%u,\"version\":\"perigee-sim\",\"simulated\":true}",
             h->model->max_model_len);
}
