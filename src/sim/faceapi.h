/* faceapi.h: endpoints that servers other than vLLM have: SGLang's POST /flush_cache and GET
 * /get_server_info, llama.cpp's POST /tokenize {content} and GET /props, TGI's GET /info. */
#ifndef SIM_FACEAPI_H
#define SIM_FACEAPI_H

#include "sim/endpoints.h"

endpoint_fn faceapi_flush, faceapi_server_info, faceapi_tokenize, faceapi_props, faceapi_info;

#endif
