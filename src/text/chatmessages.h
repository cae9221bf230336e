/* chatmessages.h: chat messages and tools as vLLM hands them to a model's chat template.
 *
 * What a client writes is not what the template sees: content parts become one text, the arguments
 * of tool calls become objects, missing fields of tools become null. A renderer that leaves this
 * out differs from the server in its tokens. Source: vLLM vllm/entrypoints/chat_utils.py (content
 * format "string") and openai/engine/protocol.py (tools), August 2026. */
#ifndef TEXT_CHATMESSAGES_H
#define TEXT_CHATMESSAGES_H

#include "text/value.h"

/* A new list of messages into *out (null on error), each with role, content and what its role adds:
 * - content: a text stays, null and none become "", text parts are joined by line ends;
 * - assistant: tool_calls, when not empty, their arguments parsed (none, null and "" become {});
 *   reasoning, else reasoning_content, under both names;
 * - tool: tool_call_id; developer: tools; all: name.
 * ERR_INVALID names the message ("messages[2].content: …"). */
NODISCARD int chatmessages_prepare(const struct value *messages, struct value *out,
                                   struct err *err);

/* The tools of a request: type, then function with name, description and parameters (null where
 * missing) before its other fields. Null for none and for an empty list. ERR_INVALID names the tool
 * ("tools[0].function: …"). */
NODISCARD int chatmessages_tools(const struct value *tools, struct value *out, struct err *err);

#endif
