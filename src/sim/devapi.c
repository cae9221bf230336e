/* devapi.c: see devapi.h. */
#include "sim/devapi.h"

#include <string.h>

#include "sim/generation.h"

void devapi_load(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  buf_printf(&a->body, "{\"server_load\":%zu}", generation_open(h));
}

void devapi_reset_prefix(struct simhost *h, struct httpd_request *req, struct answer *a) {
  a->content_type = NULL;
  replica_reset_cache(h->replica, endpoint_flag(httpd_query(req), "reset_running_requests"));
  if (endpoint_flag(httpd_query(req), "reset_external"))
    engine_reset_offload(replica_engine(h->replica));
  simhost_kick(h);
}

void devapi_nothing(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)h;
  (void)req;
  a->content_type = NULL;
}

static void refuse(struct answer *a, const char *param, const char *text) {
  struct apierror e = {0};
  apierror_set(&e, 400, param, "%s", text);
  endpoint_error(a, &e);
}

void devapi_sleep(struct simhost *h, struct httpd_request *req, struct answer *a) {
  char level[8] = "1", mode[8] = "abort";
  const char *query = httpd_query(req);
  a->content_type = NULL;
  endpoint_param(query, "level", level, sizeof level);
  endpoint_param(query, "mode", mode, sizeof mode);
  bool keep = strcmp(mode, "keep") == 0, two = strcmp(level, "2") == 0;
  if (!two && strcmp(level, "1") != 0)
    refuse(a, "level", "level should be 1 or 2");
  else if (!keep && strcmp(mode, "abort") != 0)
    refuse(a, "mode", "mode should be abort or keep");
  else if (!h->asleep) /* already asleep: nothing changes */
    simhost_sleep(h, two ? 2 : 1, keep);
}

void devapi_wake_up(struct simhost *h, struct httpd_request *req, struct answer *a) {
  static const char name[] = "tags=";
  unsigned what = 0;
  bool some = false;
  a->content_type = NULL;
  for (const char *p = httpd_query(req); p && *p; p = strchr(p, '&')) {
    p += *p == '&';
    if (strncmp(p, name, sizeof name - 1) != 0)
      continue;
    const char *tag = p + sizeof name - 1;
    size_t len = strcspn(tag, "&");
    bool weights = len == 7 && memcmp(tag, "weights", len) == 0;
    if (!weights && !(len == 8 && memcmp(tag, "kv_cache", len) == 0)) {
      refuse(a, "tags", "tags should be weights or kv_cache");
      return;
    }
    what |= weights ? SIMHOST_WEIGHTS : SIMHOST_KV_CACHE;
    some = true;
  }
  simhost_wake(h, some ? what : SIMHOST_WEIGHTS | SIMHOST_KV_CACHE);
}

void devapi_is_sleeping(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  buf_puts(&a->body, h->asleep ? "{\"is_sleeping\":true}" : "{\"is_sleeping\":false}");
}

/* ---- adapters ---- */

/* 0 with the names (of the body, which the caller frees), or an error that is answered. */
static int read_adapter(struct httpd_request *req, struct answer *a, struct value *body,
                        const char **name, const char **path) {
  struct apierror e = {0};
  size_t len;
  const char *data = httpd_body(req, &len);
  int rc = reqfield_object(data, len, body, &e);
  if (rc)
    endpoint_error(a, &e);
  *name = rc ? NULL : value_to_string(value_get(body, "lora_name"));
  *path = rc ? NULL : value_to_string(value_get(body, "lora_path"));
  return rc;
}

static void say_done(struct answer *a, const char *name, const char *what) {
  a->content_type = "text/plain; charset=utf-8";
  buf_printf(&a->body, "Success: LoRA adapter '%s' %s successfully.", name, what);
}

static void say_error(struct answer *a, int status, const char *name, const char *text) {
  struct apierror e = {0};
  apierror_set(&e, status, "lora_name", "The lora adapter '%.200s' %s", name, text);
  endpoint_error(a, &e);
}

void devapi_load_adapter(struct simhost *h, struct httpd_request *req, struct answer *a) {
  struct value body;
  const char *name, *path;
  if (read_adapter(req, a, &body, &name, &path))
    return;
  if (!name || !path || !*name || !*path)
    refuse(a, "lora_name", "Both 'lora_name' and 'lora_path' must be provided.");
  else if (adapters_find(&h->adapters, name) || strcmp(name, h->model->name) == 0)
    say_error(a, 400, name, "has already been loaded.");
  else {
    adapters_put(&h->adapters, name, path);
    say_done(a, name, "added");
  }
  value_free(&body);
}

void devapi_unload_adapter(struct simhost *h, struct httpd_request *req, struct answer *a) {
  struct value body;
  const char *name, *path;
  if (read_adapter(req, a, &body, &name, &path))
    return;
  if (!name)
    refuse(a, "lora_name", "Either 'lora_name' and 'lora_int_id' needs to be provided.");
  else if (!adapters_remove(&h->adapters, name))
    say_error(a, 404, name, "cannot be found.");
  else
    say_done(a, name, "removed");
  value_free(&body);
}
