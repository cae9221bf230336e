/* parityfix.c: what to do about each cause: the option of the engine, or of perigee, that makes the
 * two sides one. See parity.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/parity_impl.h"

#define SERVERS_TEMPLATE                                                                           \
  "give the server's own template with --template FILE, or start the server with yours (vLLM, "    \
  "SGLang: --chat-template FILE)"

static const struct {
  const char *name, *fix;
} fixes[] = {
    {"double_bos", "take bos_token out of the server's template (vLLM, SGLang: --chat-template "
                   "FILE), or say add_special_tokens = false in requests"},
    {"double_bos_here",
     "say add_special_tokens = false, or take bos_token out of the template that "
     "--template names"},
    {"bos_extra", SERVERS_TEMPLATE},
    {"bos_missing", "serve the model from a folder with its tokenizer_config.json, which names "
                    "bos_token, or say add_special_tokens = true in requests"},
    {"eos_extra", SERVERS_TEMPLATE},
    {"eos_missing", SERVERS_TEMPLATE},
    {"add_special_tokens", "say add_special_tokens in the request, so that both sides obey it; a "
                           "gateway in between may set it"},
    {"generation_prompt",
     "say add_generation_prompt in the request; a gateway in between may set it"},
    {"date", "--now DAY with the day that the server says (vLLM: VLLM_SYSTEM_START_DATE sets "
             "Harmony's)"},
    {"tojson", "give the server's own template with --template FILE; an engine that renders with "
               "another library than transformers' Jinja2 has another tojson"},
    {"tool_order", "send tools in one order; a gateway or client library in between may sort them"},
    {"tool_keys", "send each tool as type, function (name, description, parameters); a gateway or "
                  "client library in between may sort keys"},
    {"tools_ignored", "start the server with its tool parser and a template that has tools (vLLM: "
                      "--enable-auto-tool-choice --tool-call-parser NAME --chat-template FILE)"},
    {"as_sent", "take a newer engine, or send arguments and contents in the form that its template "
                "wants"},
    {"kwargs", "say it in the request's chat_template_kwargs, or start the server without defaults "
               "of its own (vLLM: --default-chat-template-kwargs)"},
    {"renderer", "--template with that one, or start the server with yours (vLLM, SGLang: "
                 "--chat-template FILE)"},
    {"trailing_newline", "take the line end at the end of the server's template file away"},
    {"special_text", "keep special tokens' text out of prompts and messages, or give the renderer "
                     "that the server has (--template)"},
    {"truncated", "leave truncate_prompt_tokens out, or start the server with a larger "
                  "--max-model-len"},
    {"vocabulary", "give the server's own tokenizer with --tokenizer: the tokenizer.json of the "
                   "folder that it serves"},
    {"tokenizer", "give the very file that the server has with --tokenizer, or serve the one that "
                  "is here (vLLM, SGLang: --tokenizer, --tokenizer-path)"},
    {"extra_text", SERVERS_TEMPLATE},
    {"missing_text", SERVERS_TEMPLATE},
    {"usage",
     "ask the servers without what is in front of them; where the server itself counts so, "
     "--limit token_parity=N lets runs pass"},
};

const char *parity_fix(const char *name) {
  for (size_t i = 0; i < ARRAY_LEN(fixes); i++)
    if (strcmp(fixes[i].name, name) == 0)
      return fixes[i].fix;
  return NULL;
}

void parity_fix_date(const struct parity_trial *t, struct parity_result *out) {
  struct paritydate server;
  char text[160];
  const char *bytes = t->server_text.data ? t->server_text.data : "";
  if (!t->decoded || !paritydate_find(bytes, t->server_text.len, t->common_bytes, &server))
    return;
  snprintf(text, sizeof text,
           "--now %04d-%02d-%02d, the server's day (vLLM: VLLM_SYSTEM_START_DATE sets Harmony's)",
           server.time.year, server.time.month, server.time.day);
  for (size_t i = 0; i < out->n_causes; i++)
    if (strcmp(out->causes[i].name, "date") == 0) {
      mem_free(out->causes[i].fix);
      out->causes[i].fix = mem_strdup(text);
    }
}
