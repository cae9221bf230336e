-- wrk: one POST, formatted once: wrk at its fastest. The same bytes as `http_load` and lua_http.lua send.
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer bench"
wrk.headers["X-Request-Id"] = "1-1"
wrk.headers["X-Session"] = "1"
wrk.body = '{"max_tokens":64,"messages":[{"content":"You are a helpful assistant.","role":"system"},'
  .. '{"content":"Which of the three replicas keeps the longest prefix of this conversation in its cache, and why?",'
  .. '"role":"user"}],"model":"bench","stream":false,"temperature":0.5}'
