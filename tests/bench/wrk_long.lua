-- wrk: one POST with a body of BODY bytes: what sending so much costs by itself.
wrk.method = "POST"
wrk.path = "/v1/chat/completions?whole=1"
wrk.headers["Content-Type"] = "application/json"
wrk.body = ("x"):rep(tonumber(os.getenv "BODY"))
