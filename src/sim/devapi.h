/* devapi.h: the endpoints that vLLM has with VLLM_SERVER_DEV_MODE=1: resets, sleep, load.
 *
 * POST /reset_prefix_cache?reset_running_requests=&reset_external=   200 without a body, also when
 *      blocks are in use and nothing was reset; with reset_running_requests those start anew
 * POST /reset_mm_cache, /reset_encoder_cache                         200; there is nothing in them
 * POST /sleep?level=1|2&mode=abort|keep    what runs ends as "abort" (keep: starts anew after the
 *      waking), the prefix cache is lost, requests wait
 * POST /v1/load_lora_adapter {lora_name, lora_path}, /v1/unload_lora_adapter {lora_name}: of this
 *      replica, as with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1
 * POST /wake_up?tags=weights|kv_cache (repeated; none: both), GET /is_sleeping, GET /load */
#ifndef SIM_DEVAPI_H
#define SIM_DEVAPI_H

#include "sim/endpoints.h"

endpoint_fn devapi_load, devapi_reset_prefix, devapi_nothing, devapi_sleep, devapi_wake_up,
    devapi_is_sleeping, devapi_load_adapter, devapi_unload_adapter;

#endif
