-- Stands for Kong in nginx: the functions of its plugin development kit that the recipe calls, and the sandbox of
-- its plugin pre-function. The argument of pre_function is a folder with a file for each phase.

local shared = {}

kong = {
	client = {
		get_forwarded_ip = function()
			return ngx.var.remote_addr
		end,
	},
	vault = {
		get = function(reference)
			local name = reference:match("^{vault://env/([%w-]+)}$")
			return os.getenv((name:upper():gsub("-", "_")))
		end,
	},
	log = {
		err = function(...)
			ngx.log(ngx.ERR, ...)
		end,
	},
	ctx = {
		shared = setmetatable({}, {
			__index = function(_, key)
				return (ngx.ctx[shared] or {})[key]
			end,
			__newindex = function(_, key, value)
				ngx.ctx[shared] = ngx.ctx[shared] or {}
				ngx.ctx[shared][key] = value
			end,
		}),
	},
	response = {
		set_header = function(name, value)
			ngx.header[name] = value
		end,
		exit = function(status, body, headers)
			ngx.status = status
			for name, value in pairs(headers or {}) do
				ngx.header[name] = value
			end
			ngx.header["Content-Length"] = #body
			ngx.print(body)
			return ngx.exit(status)
		end,
	},
}

-- What code may use by the default of untrusted_lua, and what untrusted_lua_sandbox_requires adds.
local environment = {
	require = function(name)
		assert(name == "resty.http", name .. " is not allowed within the sandbox")
		return require(name)
	end,
	kong = kong, ngx = ngx, string = string, table = table, math = math,
	assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, pcall = pcall, print = print,
	select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, xpcall = xpcall,
}

local functions = {}

function pre_function(folder)
	for _, phase in ipairs({ "access", "header_filter" }) do
		local chunk = assert(loadfile(folder .. "/" .. phase .. ".lua"))
		functions[phase] = setfenv(chunk, environment)()
	end
end

function run(phase)
	functions[phase]()
end
