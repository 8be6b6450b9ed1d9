// Package keyfuncs reads requests for rate limits. It has three kinds of values:
//
//   - a [Func] makes the key of the bucket that a request is charged to;
//   - a [Condition] decides which requests are exempt, or to which a limit applies;
//   - a [Strategy] finds the address of the client.
//
// Which Func to use:
//
//   - [ClientIP] for traffic without accounts. It reads no header unless given a
//     Strategy;
//   - [User] behind your authentication: a user ID is the hardest to change;
//   - [Tenant] for what all users of one customer share;
//   - [APIKey] for API clients, together with a limit by IP (see its security note);
//   - [BasicAuthUser] for the name of Basic authentication, before it is checked;
//   - [Header] and [Cookie] for values that something you trust has set or checked;
//   - [Param] and [Query] for a resource that the request names, such as an account;
//   - [Route] and [Method], joined with one of the above, for a bucket per endpoint;
//   - [Host] for a bucket per host name that the server answers for;
//   - [Everyone] for one bucket over all requests;
//   - [Join] for each combination of keys, and [First] for the first that is present,
//     such as "user, else IP";
//   - [Lookup] for the country or network of an address;
//   - the Key function of your adapter for anything in the framework's own request, and
//     [Custom] for anything else.
//
// Which Strategy to use:
//
//   - [TrustedProxies] behind proxies with known addresses, which write X-Forwarded-For;
//   - [Forwarded], [XRealIP] and [SingleHeader] behind proxies that write another header;
//   - [HopCount] behind a fixed number of proxies with unknown addresses, or on a unix socket;
//   - [Cloudflare] behind Cloudflare;
//   - [Framework] for what the framework is configured to find;
//   - [Peer], the default, without a proxy, and [CustomAddr] for anything else.
//
// Which Condition to use:
//
//   - [Routes] and [Methods] for parts of the application, such as health checks;
//   - [Tokens] for monitoring and partners that hold a secret;
//   - [Paths] where no router knows the route, as in a gateway;
//   - [FromCIDR] and [Strategy.FromCIDR] for networks;
//   - [Preflight] for CORS preflights that no route answers;
//   - [Percent] for a part of all clients, while a limit is introduced;
//   - [Not], [All] and [Any] to combine, and [Matches] for anything else.
//
// Functions of yours that get a [Request] read it by [HeaderOf], [QueryOf], [CookieOf] and
// [ParamOf]. Code without HTTP makes one of plain [Values].
//
// # Missing and ambiguous keys
//
// A request may lack what a Func reads: no user, no such header, an empty value, or
// garbage where a proxy should have written an address. Its key is [Missing], and the
// limit's OnMissingKey decides. A missing key never falls back to another source,
// except in [First].
//
// A request may also carry the value several times: a header on two lines, a query
// parameter twice, cookies of one name that differ, or two different API keys. Its key
// is [Ambiguous], and the limiter denies it with status 400 whatever OnMissingKey says.
// Frameworks and authentication differ in which value they take: the first, the last, or
// any valid one. A client could otherwise show one value to the limit and another to the
// application.
//
// Only the header block counts. Trailers, which a client may send after the body, are
// never read. Whitespace around a value is not part of it: spaces and tabs, as HTTP says,
// and all other Unicode whitespace, which applications trim with strings.TrimSpace.
//
// # The form of a key
//
// A key is one part, or several joined by "|":
//
//	ip:192.0.2.7
//	ip:2001:db8:0:1::/64
//	user:alice|route:/orders/:id
//	apikey#HsHCa1DV08WNlYMYGvgHZg
//
// A part is its kind, ":" and the value, if the value is 1 to 64 bytes of printable ASCII
// without "|", "{" and "}". Any other value is hashed: kind, "#" and the first 128 bits
// of its SHA-256 in base64url.
//
// Different inputs give different keys. No kind holds ":", "#" or "|", so a value can't
// be mistaken for a hash, nor user "192.0.2.7" for that IP. No readable value holds "|",
// so parts can't be mistaken for each other.
//
// Keys are safe to store. They have at most 256 bytes, however large the request. They
// hold no braces, so no client chooses the hash tag of a Redis key, and no control
// characters, so none breaks a header or a log line.
//
// A client that can make up its key can still choose its Redis Cluster slot. The slot is
// a checksum of the key without a secret, also of hashed keys. After some ten thousand
// tries a client has all its keys in one slot, and their load on one master. It shares no
// bucket with others there. With [Func.WithSecret] nobody outside knows which value has
// which slot.
//
// # Secrets
//
// A part is always hashed if its kind contains auth, cookie, credential, jwt, key,
// password, secret, session, signature or token. That covers APIKey, Cookie and
// Header("Authorization"). The hash has no salt, so that all processes agree on it. It
// hides long random keys and sessions, but not values that can be guessed, such as a
// four-digit PIN. [Func.WithSecret] hides these as well, and addresses and user names.
//
// # Mistakes
//
// Constructors neither panic nor return errors, so that they can be written where they
// are used. Err reports a mistake such as a bad header name, a bad CIDR or a short token,
// and building a limiter returns that error. Until then, the key of such a Func is
// missing, such a Condition does not hold, and such a Strategy finds no address.
//
// # Concurrency and memory
//
// Everything in this package is safe for concurrent use. Keys are copied from the
// request into the caller's buffer. Nothing of the request is retained, including the
// strings that Fiber reuses for the next request.
package keyfuncs
