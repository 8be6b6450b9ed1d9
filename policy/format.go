package policy

import (
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// The format of policy files. Each field has its line here, and a reader of its own in build.go,
// limit.go, key.go or condition.go.

var (
	limitName  = &text{what: "a name of 1 to 64 letters, digits and . _ -", pattern: regexp.MustCompile(`^[A-Za-z0-9._-]+$`), most: 64}
	policyName = limitName
	anyText    = &text{what: "text"}
	longText   = &text{what: "text", most: 2000}
	headerName = &text{what: "the name of a header", pattern: regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")}
	appName    = &text{what: "a name that the application has given in policy.Options", pattern: regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`), most: 64}
	units      = &integer{1, 1 << 51}
	levels     = &list{of: &number{least: 0, most: 1}, most: 20}
	networks   = &list{of: &text{what: "a network such as 192.0.2.0/24, or private, loopback or cloudflare", pattern: regexp.MustCompile(`^[0-9A-Za-z:./]+$`)}, most: 1000}
	reference  = &text{
		what:    "a reference to where it is kept, ${env:NAME} or ${file:/path}",
		pattern: regexp.MustCompile(`^\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^}]+)\}$`), secret: true, most: 1024,
	}
	limitText = &text{what: "a limit such as 100/minute", measure: true, valid: func(s string) error {
		_, err := core.ParseLimit(s)
		if of := (*store.ConfigError)(nil); errors.As(err, &of) {
			return of.Err // a file does not call ParseLimit
		}
		return err
	}}
)

// key is whose bucket: a name, several together, or a name with what it reads.
var key = &either{
	ref:    "key",
	what:   "a key such as ip, a list of keys, or one such as {header: X-Tenant}",
	text:   &text{what: "a key", pattern: appName.pattern, most: 64},
	list:   &list{of: oneKey, most: 8},
	object: keyObject,
}

// oneKey is a key in a list, which does not hold another list.
var oneKey = &either{ref: "oneKey", what: "a key such as ip, or one such as {header: X-Tenant}", text: &text{what: "a key", pattern: appName.pattern, usual: keyNames, most: 64}, object: keyObject}

// keyObject holds keys in its field first, so its fields are set in init.
var keyObject = &object{ref: "keyOf", one: true}

var keyFields = []field{
	{name: "user", of: anyText, doc: "The user whom authentication has stored under this name. The word user alone stands for {user: user}."},
	{name: "tenant", of: anyText, doc: "The tenant that middleware has stored under this name. The word tenant alone stands for {tenant: tenant}."},
	{name: "api_key", of: &list{of: &text{what: "a header, or ? and a query parameter", pattern: regexp.MustCompile("^\\??[A-Za-z0-9!#$%&'*+.^_`|~-]+$")}, most: 8}, doc: "The API key in one of these headers or ?parameters. The word api_key alone reads X-API-Key and Authorization."},
	{name: "header", of: headerName, doc: "The value of this header. A client can write any."},
	{name: "cookie", of: anyText, doc: "The value of this cookie. A client can write any."},
	{name: "query", of: anyText, doc: "The value of this query parameter."},
	{name: "param", of: anyText, doc: "The value of this parameter of the route, such as id of /users/:id."},
}

// Conditions hold each other, so they are put together in init.
var condition = &object{ref: "condition", some: true, like: "as in {methods: [POST]}", doc: "Holds if all of its fields hold.", hints: map[string]string{ //nolint:gosec // G101: fields, and no credentials
	"path": "write paths: [/healthz]", "route": "write routes: [GET /healthz]", "method": "write methods: [POST]",
	"cidr": "write from: [192.0.2.0/24]", "ip": "write from: [192.0.2.0/24]", "token": "write tokens: {header: …, values: […]}",
	"plan": "write value: {of: plan, is: [free]}",
}}

func init() {
	keyObject.fields = slices.Concat(keyFields, []field{{name: "first", of: &list{of: oneKey, most: 8}, doc: "The first of these keys that the request has."}})
	several := &list{of: condition, most: 100}
	condition.fields = []field{
		{name: "routes", of: &list{of: &text{what: "a route", most: 512}, most: 1000}, doc: "The route is one of these templates, as they are registered, with a method in front or alone: GET /users/:id."},
		{name: "paths", of: &list{of: &text{what: "a path", most: 512}, most: 1000}, doc: "The path is one of these; /api/* is everything below /api. For gateways: within an application use routes."},
		{name: "methods", of: &list{of: &text{what: "a method in capitals", pattern: regexp.MustCompile(`^[A-Z][A-Z-]*$`), most: 32}, most: 50, unique: true}, doc: "The method is one of these. GET includes HEAD."},
		{name: "from", of: networks, doc: "The client's address, as client_ip finds it, is in one of these networks."},
		{name: "tokens", of: &object{secret: true, fields: []field{
			{name: "header", of: headerName, required: true, doc: "The header that holds the token; Authorization stands for its Bearer token."},
			{name: "values", of: &list{of: reference, most: 1000}, required: true, doc: "Where the tokens are kept: ${env:NAME} or ${file:/path}."},
		}}, doc: "The request carries one of these secret tokens."},
		{name: "header", of: &object{fields: []field{
			{name: "name", of: headerName, required: true, doc: "The name of the header."},
			{name: "is", of: &list{of: anyText, most: 1000, unique: true}, doc: "Its value is one of these. Defaults to any value."},
		}}, doc: "The request has this header. A client can write any."},
		{name: "value", of: &object{fields: []field{
			{name: "of", of: value, required: true, doc: "What is compared, such as plan."},
			{name: "is", of: &list{of: anyText, most: 1000, unique: true}, required: true, doc: "It is one of these."},
		}}, doc: "What the application knows of the request is one of these values."},
		// Not share, which is a part of 1 as in keep_free: 0.2 would be read as either.
		{name: "percent", of: &object{hints: map[string]string{"share": "write up_to: 10 for ten percent"}, fields: []field{
			{name: "of", of: key, required: true, doc: "Of whom: the limit's own key."},
			{name: "up_to", of: &number{least: 0, most: 100, from: true}, required: true, doc: "How many percent: 0, or from 1 to 100."},
		}}, doc: "The request is of so many percent of all clients, always the same ones."},
		{name: "preflight", of: only{}, doc: "The request is a CORS preflight that no route answers."},
		{name: "condition", of: appName, doc: "A condition of the application, from policy.Options."},
		{name: "all", of: several, doc: "All of these hold."},
		{name: "any", of: several, doc: "At least one of these holds."},
		{name: "not", of: condition, doc: "This does not hold."},
	}
}

// value is something that the application or a header says of a request, such as its plan.
var value = &either{
	ref: "value", what: "the name of a value, such as plan, or {header: X-Plan}",
	text: appName,
	object: &object{one: true, fields: []field{
		{name: "header", of: headerName, doc: "The value of this header. Only for headers that a gateway in front sets itself: a client can write any."},
		{name: "stored", of: anyText, doc: "The text that middleware has stored under this name."},
	}},
}

var limitObject = &object{
	ref: "limit", like: "as in {limit: 5/15m, by: ip}", doc: "One limit: so many units per window, for each key.",
	apart: [][]string{{"cost", "cost_by", "estimate", "estimate_by"}, {"keep_free", "classes"}, {"tiers", "fair"}, {"penalty", "fair"}},
	hints: map[string]string{
		"rate": "write limit: 100/minute", "quota": "write limit: 100/minute", "requests_per_unit": "write limit: 100/minute", "unit": "write limit: 100/minute", "window": "write limit: 100/minute", "per": "write limit: 100/minute",
		"burst": "it is part of limit: 100/minute burst 20", "algorithm": "it is part of limit: 100/minute sliding", "jitter": "it is part of limit: 100/hour fixed jitter", "from_first_use": "it is part of limit: 100/5h from first use",
		"wait": "it is part of limit: 10/second wait 500ms", "lease": "it is part of limit: concurrent 2 lease 30s", "soft": "it is part of limit: 1000/month UTC soft 800", "debt": "it is part of limit: 1000/minute debt 5000", "concurrent": "write limit: concurrent 2",
		"key": "write by: ip", "reserve": "it is now keep_free: {share: 0.2, for: {methods: [POST]}}", "name": "the name of a limit is its field in limits", "region": "write regions: leased, each or home", "shadow_mode": "write shadow: true", "routes": "write when: {routes: […]}", "paths": "write when: {paths: […]}", "methods": "write when: {methods: […]}",
	},
	fields: []field{
		{name: "description", of: longText, doc: "For readers of the file."},
		{name: "limit", of: limitText, required: true, doc: "The numbers, as in 100/minute burst 20, 5/15m log, 100/5h from first use, 1000/day Europe/Berlin, concurrent 2 lease 30s."},
		{name: "by", of: key, required: true, doc: "Whose requests are counted together: ip, user, tenant, api_key, route, host, method, basic_auth_user, everyone, a name of the application's, {header: X-Tenant}, or a list of these."},
		{name: "on_missing_key", of: &text{words: missingKeys, what: "what happens"}, doc: "What happens to a request without the key: share (one bucket for all of them), deny, or skip this limit. Defaults to share."},
		{name: "when", of: condition, doc: "The limit applies to requests for which this holds. Defaults to all."},
		{name: "unless", of: condition, doc: "The limit does not apply to requests for which this holds."},
		{name: "cost", of: units, doc: "How many units a request takes. Defaults to 1."},
		{name: "cost_by", of: appName, doc: "A function of the application, from policy.Options, that returns the cost of a request."},
		{name: "estimate", of: units, doc: "What a request is charged before the handler says what it has cost."},
		{name: "estimate_by", of: appName, doc: "A function of the application that returns the estimate for a request."},
		{name: "up_to_burst", of: boolean{}, doc: "An estimate above the burst takes the burst, and is not denied for good. Defaults to false."},
		{name: "spill_over", of: boolean{}, doc: "Costs beyond the estimate for which the limit has no room go on to the next limit of its choice. Defaults to false."},
		{name: "once_per", of: &object{fields: []field{
			{name: "key", of: key, required: true, doc: "What names an operation, such as {header: Idempotency-Key}."},
			{name: "for", of: duration(time.Second, 31*24*time.Hour), required: true, doc: "How long an operation is remembered, such as 24h."},
			{name: "repeats", of: &integer{1, 1000}, doc: "How many repeats of an operation are free."},
		}}, doc: "Repeats of an operation are charged once."},
		{name: "tiers", of: &object{fields: []field{
			{name: "by", of: value, required: true, doc: "What chooses the tier, such as plan, or {header: X-Plan} behind a gateway that sets it."},
			{name: "limits", of: &named{of: limitText, name: anyText, most: 500}, required: true, doc: "The numbers for each value. Another value has those of the limit itself."},
		}}, doc: "Other numbers for some requests, such as those of a plan."},
		{name: "scale", of: appName, doc: "A function of the application, from policy.Options, that returns by what the numbers are multiplied now."},
		{name: "fair", of: fairObject, doc: "Clients divide the limit: while units are scarce, those who have used more than their share are denied, and the others are not."},
		{name: "keep_free", of: &object{fields: []field{
			{name: "share", of: &number{least: 0, most: 1, open: true}, required: true, doc: "The part of the limit that is kept free, such as 0.2."},
			{name: "for", of: condition, required: true, doc: "The requests that may use all of it."},
		}}, doc: "Keeps a part of the limit free for some requests."},
		{name: "classes", of: &list{most: 8, of: &object{ref: "class", like: "as in {name: crawl}", fields: []field{
			{name: "name", of: limitName, required: true, doc: "The name of the class in logs and metrics."},
			{name: "when", of: condition, doc: "The requests of the class, unless they are of a class before. The last class has all others, and no when."},
			{name: "keep", of: &number{least: 0, most: 1, open: true}, doc: "The part of the limit that is kept free for this class and those before it, such as 0.2. The last class has none."},
		}}}, doc: "Classes of requests by priority, from the highest to the lowest, that share the limit. Each can use what is not kept free for those before it."},
		{name: "refund_on", of: &list{of: &text{words: refundWords, what: "an outcome"}, most: 4, unique: true}, doc: "Outcomes after which the request is not charged: server_errors, failures, successes, canceled."},
		{name: "slow_down", of: &object{fields: []field{
			{name: "from", of: &number{least: 0, most: 1, open: true}, required: true, doc: "The level of use from which on requests are delayed, such as 0.8."},
			{name: "up_to", of: duration(time.Microsecond, time.Hour), required: true, doc: "The delay at the limit itself, such as 2s."},
		}}, doc: "Delays requests more and more as the limit comes near."},
		{name: "warn_at", of: levels, doc: "Levels of use at which clients are warned, such as [0.8, 0.95]."},
		{name: "penalty", of: &object{fields: []field{
			{name: "after", of: &integer{1, 1 << 31}, required: true, doc: "How many denials begin a block."},
			{name: "within", of: duration(time.Microsecond, 3650*24*time.Hour), required: true, doc: "How long a denial counts, such as 10m."},
			{name: "for", of: duration(time.Microsecond, 3650*24*time.Hour), required: true, doc: "How long the first block lasts, such as 15m."},
			{name: "factor", of: &integer{1, 1000}, doc: "How many times longer each further block is. Defaults to 2."},
			{name: "max", of: duration(time.Microsecond, 3650*24*time.Hour), doc: "The longest block. Defaults to 24h, or to for if that is longer."},
		}}, doc: "Blocks clients that exceed the limit again and again."},
		{name: "on_outage", of: &text{words: outages, what: "a policy"}, doc: "How requests are decided while the store does not answer: local, allow or deny. Defaults to local."},
		{name: "regions", of: &text{words: regionModes, what: "where a limit is decided"}, doc: "Where the limit is decided on a store of several regions: leased (each region decides, within units that it leases from home), each (each region has the whole limit) or home (home decides each request). Defaults to leased. Another store refuses each and home."},
		{name: "overdraft", of: &integer{0, 1 << 51}, doc: "How many units each region may grant in a period beyond those that it has leased, at most the quota. Defaults to 0. A store without regions refuses it."},
		{name: "hidden", of: boolean{}, doc: "Clients are not told of the limit: it is in no header, and in no problem but by when to try again. Defaults to false."},
		{name: "status", of: &integer{400, 499}, doc: "The status of denials by the limit, such as 402 for a plan that is used up. Defaults to 429."},
		{name: "shadow", of: boolean{}, doc: "The limit is judged and reported, and never enforced. Defaults to false."},
	},
}

// fairObject says how clients divide a limit.
var fairObject = &object{
	ref: "fair", like: "as in {by: tenant}", doc: "How clients divide a limit.",
	hints: map[string]string{"weights": "write shares: {pro: {weight: 4}}", "minimum": "write shares: {pro: {minimum: 100}}", "maximum": "write shares: {pro: {maximum: 100}}", "plan": "write of: plan"},
	fields: []field{
		{name: "by", of: key, required: true, doc: "What tells the clients apart, such as tenant. It must be something that costs: whoever can make up clients can take the limit."},
		{name: "within", of: key, doc: "What tells users of one client apart. They divide its share evenly. Defaults to none."},
		{name: "of", of: value, doc: "What chooses among shares, such as plan, or {header: X-Plan} behind a gateway that sets it. It must be the same for all requests of a client."},
		{name: "shares", of: &named{name: anyText, most: 500, of: &object{ref: "share", some: true, like: "as in {weight: 4}", fields: []field{
			{name: "weight", of: &integer{1, store.MaxWeight}, doc: "How large the share is beside those of others. Defaults to 1."},
			{name: "minimum", of: units, doc: "Units per window that a client can use whatever others do, of what is guaranteed. Defaults to none."},
			{name: "maximum", of: units, doc: "Units per window that a client can use, however much is idle. Defaults to the limit itself."},
		}}}, doc: "The share of a client for each value. Clients of another value weigh 1."},
		{name: "guaranteed", of: units, doc: "How many units are kept free for clients with a minimum, below the burst. Let it be the sum of their minima. Defaults to none."},
	},
}

var limits = &named{of: limitObject, name: limitName, most: store.MaxChecks}

// clientIP is how the address of a client is found.
var clientIP = &object{
	ref: "client_ip", doc: "How the address of a client is found. Defaults to the peer of the connection.",
	apart: [][]string{{"trusted_proxies", "forwarded", "x_real_ip", "cloudflare", "hops", "header"}},
	fields: []field{
		{name: "trusted_proxies", of: networks, doc: "X-Forwarded-For is read, from these proxies."},
		{name: "forwarded", of: networks, doc: "Forwarded (RFC 7239) is read, from these proxies."},
		{name: "x_real_ip", of: networks, doc: "X-Real-IP is read, from these proxies."},
		{name: "cloudflare", of: &either{ref: "cloudflare", what: "{} or {between: […]}", object: &object{fields: []field{{name: "between", of: networks, doc: "Your own proxies between Cloudflare and this service."}}}}, doc: "CF-Connecting-IP is read, from Cloudflare."},
		{name: "hops", of: &integer{1, 100}, doc: "X-Forwarded-For is read, and so many proxies have appended to it, whatever their addresses. Only if nobody can come past them."},
		{name: "header", of: &object{fields: []field{
			{name: "name", of: headerName, required: true, doc: "The header in which a CDN says the address."},
			{name: "from", of: networks, required: true, doc: "The networks of the CDN."},
		}}, doc: "Another header is read, from these networks."},
		{name: "ipv6_prefix", of: &integer{32, 128}, doc: "How many bits of an IPv6 address make a client. Defaults to 64."},
	},
}

// settings are what a policy, and the defaults of all policies, can set.
var settings = []field{
	{name: "client_ip", of: clientIP, doc: "How the address of a client is found. Defaults to the peer of the connection, or to that of the file."},
	{name: "key_secret", of: reference, doc: "Where a secret is kept under which all keys are hashed, as ${env:NAME} or ${file:/path}. Keys that were counted without it begin anew."},
	{name: "bypass", of: &list{of: condition, most: 100}, doc: "Requests for which one of these holds are not limited. Those of the application hold, too."},
	{name: "headers", of: &list{of: &text{words: dialects, what: "a dialect"}, most: len(dialects), unique: true}, doc: "The dialects of the rate limit headers. Defaults to draft11."},
	{name: "headers_when", of: &text{words: headersWhens, what: "when"}, doc: "Which responses have these headers: always, near_limit, on_denial or never. Defaults to always."},
	{name: "missing_key", of: &object{some: true, fields: []field{
		{name: "status", of: &integer{400, 499}, doc: "The status. Defaults to 401 where a credential is missing, and to 400 elsewhere."},
		{name: "challenge", of: anyText, doc: "The WWW-Authenticate header of a 401."},
	}}, doc: "The answer to requests without the key of a limit with on_missing_key: deny."},
	{name: "denial_texts", of: &named{of: longText, name: &text{what: "a language such as de or pt-BR", pattern: regexp.MustCompile(`^[A-Za-z0-9]{1,8}(-[A-Za-z0-9]{1,8})*$`), most: 64}, most: 100}, doc: "The detail of a denial in each language. {limit} is the limit's name, {retry_after} the seconds to wait. Defaults to English."},
	{name: "timeout", of: duration(time.Millisecond, time.Minute), doc: "How long the store may take to decide. Defaults to 100ms."},
	{name: "replicas", of: &integer{1, 100_000}, doc: "How many processes share the store: in an outage each grants its share. Defaults to 1."},
	{name: "fallback", of: &named{of: limitObject, name: limitName, most: store.MaxChecks}, doc: "Limits that apply instead while the store does not answer, in each process whole."},
	{name: "max_waiting", of: &integer{1, 1_000_000}, doc: "How many requests wait for their turn at a time, under limits with wait. Defaults to 1024."},
	{name: "max_waiting_per_key", of: &integer{1, 1_000_000}, doc: "How many of them have the same key. Defaults to the number of free places."},
	{name: "silence", of: &list{of: &text{what: "a kind of advice such as WL001", pattern: regexp.MustCompile(`^WL0[0-9]{2}$`)}, most: 100, unique: true}, doc: "Kinds of advice that are not logged."},
	{name: "shadow", of: boolean{}, doc: "All limits are judged and reported, and none is enforced. Defaults to false."},
}

var policyObject = &object{
	ref: "policy", some: true, like: "as in {limits: {client: {limit: 100/minute, by: ip}}}",
	hints: map[string]string{"by": "it belongs to a limit in limits", "limit": "it belongs to a limit in limits", "rules": "write limits", "routes": "write groups, each with when and limits"},
	fields: append([]field{
		{name: "description", of: longText, doc: "For readers of the file."},
		{name: "limits", of: limits, doc: "The limits by their names. All of them are decided together: all are charged, or none is."},
		choicesField,
		{name: "groups", of: &named{of: groupObject, name: limitName, most: store.MaxChecks}, doc: "Further limits, for some of the requests."},
	}, settings...),
}

var groupObject = &object{
	ref: "group", like: "with when and limits", doc: "Limits for the requests for which when holds.",
	fields: []field{
		{name: "description", of: longText, doc: "For readers of the file."},
		{name: "when", of: condition, required: true, doc: "The requests to which the limits apply, such as {routes: [POST /login]}."},
		{name: "shadow", of: boolean{}, doc: "None of the limits is enforced. Defaults to false."},
		{name: "limits", of: limits, required: true, doc: "The limits by their names, which are those of the policy, too."},
	},
}

// maxPolicies bounds how many policies a file has.
const maxPolicies = 10_000

var fileObject = &object{
	like: "with policies",
	fields: []field{
		{name: "$schema", of: anyText, doc: "The address of this schema, for editors."},
		{name: "version", of: &text{what: "a version of letters, digits and . _ : + / -", most: 64, pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+/-]*$`)}, doc: "The file's own version, for logs. Put it in quotes. A hash of the file is added to it."},
		{name: "defaults", of: &object{fields: settings}, doc: "What policies have that do not say otherwise."},
		{name: "policies", of: &named{of: policyObject, name: policyName, most: maxPolicies}, required: true, doc: "the policies by their names"},
	},
	hints: map[string]string{"limits": "limits belong to a policy: policies: {api: {limits: …}}", "domain": "this is a file of envoyproxy/ratelimit; its domains are policies here", "descriptors": "this is a file of envoyproxy/ratelimit; its descriptors are limits here"},
}
