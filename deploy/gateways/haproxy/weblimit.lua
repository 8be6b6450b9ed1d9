-- Asks weblimit whether a request may pass: http-request lua.weblimit <policy>
--
-- Allowed: sets txn.weblimit_ratelimit and txn.weblimit_policy, for the response.
-- Denied: answers with the limiter's status, headers and body.
-- Away: sets txn.weblimit to "away", and the configuration decides.

local frontend = "abns@weblimit_ask" -- of the configuration, which asks the limiter
local timeout = 500 -- milliseconds; the backend of the limiter has shorter ones

-- More header lines than this are answered with 431. HAProxy 2.6 crashes if a script's request has more than
-- tune.http.maxhdr, which is 101 by default.
local most_lines = 80

-- Headers of the client that the limiter does not get: those of the connection and of the body, and
-- those that are set below.
local dropped = {}
for _, name in ipairs({
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
	"content-length", "expect", "host", "weblimit-token",
	"x-forwarded-for", "x-forwarded-method", "x-forwarded-uri", "x-forwarded-host",
}) do
	dropped[name] = true
end

-- Headers of the limiter's answer that a denied client gets.
local passed = {
	"content-type", "content-language", "cache-control", "retry-after", "www-authenticate", "vary",
	"ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
}

-- headers_of returns the headers of the subrequest, or nothing if there are too many.
local function headers_of(txn)
	local headers, lines = {}, 0
	for name, values in pairs(txn.http:req_get_headers()) do
		if not dropped[name] then
			local list = {}
			for i = 0, #values do
				list[#list + 1] = values[i]
				lines = lines + 1
			end
			headers[name] = list
		end
	end
	if lines > most_lines then
		return nil
	end
	headers["x-forwarded-for"] = { txn.f:src() }
	headers["x-forwarded-method"] = { txn.f:method() }
	local target = txn.f:pathq()
	if not target or target == "" then
		target = txn.f:url() -- "*", or an authority
	end
	headers["x-forwarded-uri"] = { target }
	local host = txn.f:req_hdr("host", -1)
	if host and host ~= "" then
		headers["x-forwarded-host"] = { host }
	end
	return headers
end

core.register_action("weblimit", { "http-req" }, function(txn, policy)
	local headers = headers_of(txn)
	if not headers then
		txn:done(txn:reply({ status = 431 }))
	end
	local answer = core.httpclient():get({
		url = "http://weblimit/v1/auth/" .. policy,
		dst = frontend,
		headers = headers,
		timeout = timeout,
	})
	local status = answer and answer.status or 0
	headers = answer and answer.headers or {}
	local kind = headers["content-type"] and headers["content-type"][0]
	local allowed = headers["weblimit-status"] and headers["weblimit-status"][0] == "200"
	-- HAProxy's own 502, 503 and 504 are pages, and those of the limiter are problems. Who else answers 200 is not the limiter.
	if status < 200 or status == 200 and not allowed or status >= 502 and kind ~= "application/problem+json" then
		txn:set_var("txn.weblimit", "away")
	elseif status == 200 then
		if headers["ratelimit"] then
			txn:set_var("txn.weblimit_ratelimit", headers["ratelimit"][0])
			txn:set_var("txn.weblimit_policy", headers["ratelimit-policy"][0])
		end
	else
		local reply = txn:reply({ status = status, body = answer.body })
		for _, name in ipairs(passed) do
			local values = headers[name] or {}
			for i = 0, #values do
				if values[i] then
					reply:add_header(name, values[i])
				end
			end
		end
		txn:done(reply)
	end
end, 1)
