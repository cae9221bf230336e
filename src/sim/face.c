/* face.c: the table of faces, their ids and refusals; see face.h. */
#include "sim/face.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sim/babble.h"
#include "text/json.h"

static const struct face faces[FACE_KINDS] = {
    [FACE_VLLM] = {"vllm", "vLLM", "vllm", &reply_vllm, true, true, METERS_VLLM, 0},
    [FACE_SGLANG] = {"sglang", "SGLang", "sglang", &reply_sglang, false, true, METERS_SGLANG, 0},
    [FACE_TGI] = {"tgi", "TGI", "tgi", &reply_tgi, false, false, METERS_TGI, 15 * NS_PER_S},
    [FACE_LLAMACPP] = {"llamacpp", "llama.cpp", "llamacpp", &reply_llamacpp, false, true,
                       METERS_LLAMACPP, 30 * NS_PER_S},
    [FACE_TRTLLM] = {"trtllm", "TensorRT-LLM", "tensorrt_llm", &reply_trtllm, false, true,
                     METERS_VLLM, 0},
    [FACE_OLLAMA] = {"ollama", "Ollama", "library", &reply_ollama, false, false, METERS_VLLM, 0},
};

const struct face *face_get(enum face_kind kind) {
  return &faces[kind];
}

int face_find(const char *name, enum face_kind *out, struct err *err) {
  const char *names[FACE_KINDS];
  for (int i = 0; i < FACE_KINDS; i++) {
    names[i] = faces[i].name;
    if (strcmp(faces[i].name, name) == 0) {
      *out = (enum face_kind)i;
      return 0;
    }
  }
  const char *near = err_nearest(name, names, FACE_KINDS);
  return err_set(err, ERR_NOT_FOUND,
                 "no face \"%.40s\"%s%s%s; there are vllm, sglang, tgi, llamacpp, trtllm, ollama",
                 name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

void face_id(enum face_kind kind, const char *vllm, char *out, size_t size) {
  uint64_t hash = 0;
  const char *dash = strchr(vllm, '-');
  for (const char *p = vllm; *p; p++)
    hash = babble_mix(hash ^ (unsigned char)*p);
  if (kind == FACE_SGLANG) /* hex alone */
    snprintf(out, size, "%s", dash ? dash + 1 : vllm);
  else if (kind == FACE_TGI)
    snprintf(out, size, "%s", "");
  else if (kind == FACE_OLLAMA) /* a small number: they collide */
    snprintf(out, size, "%.*s%u", dash ? (int)(dash - vllm) + 1 : 0, vllm, (unsigned)(hash % 999));
  else
    snprintf(out, size, "%s", vllm);
}

int face_status(enum face_kind kind, int status) {
  return kind == FACE_TGI && status == 400 ? 422 : status;
}

/* What a server calls an error of a status. */
struct error_name {
  int status; /* 0: any other */
  const char *name;
};

static const char *name_of(const struct error_name *names, int status) {
  while (names->status && names->status != status)
    names++;
  return names->name;
}

static const struct error_name tgi_names[] = {{400, "validation"},
                                              {404, "validation"},
                                              {422, "validation"},
                                              {429, "overloaded"},
                                              {500, "incomplete_generation"},
                                              {0, "generation"}};
static const struct error_name llamacpp_names[] = {{400, "invalid_request_error"},
                                                   {401, "authentication_error"},
                                                   {403, "permission_error"},
                                                   {404, "not_found_error"},
                                                   {501, "not_supported_error"},
                                                   {503, "unavailable_error"},
                                                   {0, "server_error"}};
static const struct error_name ollama_names[] = {
    {400, "invalid_request_error"}, {404, "not_found_error"}, {0, "api_error"}};

void face_refusal(enum face_kind kind, const struct apierror *e, struct buf *out) {
  switch (kind) {
  case FACE_SGLANG:
  case FACE_TRTLLM:
    buf_puts(out, "{\"object\":\"error\",");
    reply_put_string("message", e->message, out);
    buf_printf(out, ",\"type\":\"%s\",\"param\":null,\"code\":%d}", apierror_type(e->status),
               e->status);
    break;
  case FACE_TGI:
    buf_putc(out, '{');
    reply_put_string("error", e->message, out);
    buf_printf(out, ",\"error_type\":\"%s\"}", name_of(tgi_names, e->status));
    break;
  case FACE_LLAMACPP:
    buf_printf(out, "{\"error\":{\"code\":%d,", e->status);
    reply_put_string("message", e->message, out);
    buf_printf(out, ",\"type\":\"%s\"}}", name_of(llamacpp_names, e->status));
    break;
  case FACE_OLLAMA:
    buf_puts(out, "{\"error\":{");
    reply_put_string("message", e->message, out);
    buf_printf(out, ",\"type\":\"%s\",\"param\":null,\"code\":null}}",
               name_of(ollama_names, e->status));
    break;
  default:
    apierror_write(e, out);
  }
}
