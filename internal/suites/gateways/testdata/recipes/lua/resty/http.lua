-- Stands for lua-resty-http, which Kong brings and Debian does not have, as far as the recipe uses it. Where that is
-- in LUA_PATH, the tests use it.

local caseless = {
	__index = function(headers, name)
		for other, value in next, headers do
			if other:lower() == name:lower() then
				return value
			end
		end
	end,
}

local client = {}
client.__index = client

local function new()
	return setmetatable({ socket = ngx.socket.tcp() }, client)
end

function client:set_timeouts(...)
	self.socket:settimeouts(...)
end

local function receive(socket)
	local line, err = socket:receive("*l")
	if not line then
		return nil, err
	end
	local answer = { status = tonumber(line:sub(10, 12)), headers = setmetatable({}, caseless) }
	for header in
		function()
			return assert(socket:receive("*l"))
		end
	do
		local name, value = header:match("^([^:]+):%s*(.*)$")
		if not name then
			break
		end
		answer.headers[name] = value
	end
	answer.body = assert(socket:receive(tonumber(answer.headers["content-length"])))
	return answer
end

function client:request_uri(url, params)
	local host, port, path = url:match("^http://([^:/]+):(%d+)(/.*)$")
	local ok, err = self.socket:connect(host, tonumber(port), { pool_size = params.keepalive_pool })
	if not ok then
		return nil, err
	end
	local request = { "GET " .. path .. " HTTP/1.1\r\n" }
	for name, values in pairs(params.headers) do
		for _, value in ipairs(type(values) == "table" and values or { values }) do
			request[#request + 1] = name .. ": " .. value .. "\r\n"
		end
	end
	request[#request + 1] = "\r\n"
	ok, err = self.socket:send(table.concat(request))
	if not ok then
		return nil, err
	end
	local answer
	ok, answer, err = pcall(receive, self.socket)
	if not ok or not answer then
		self.socket:close()
		return nil, not ok and answer or err
	end
	self.socket:setkeepalive(params.keepalive_timeout, params.keepalive_pool)
	return answer
end

return { new = new }
