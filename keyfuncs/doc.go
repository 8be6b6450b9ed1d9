// Package keyfuncs says who is limited, and who is exempt. A [Func] reads a
// request and gives the key of the bucket that the request is charged to; a
// [Condition] says yes or no about it; a [Strategy] finds its client's address.
//
// Which Func to use:
//
//   - [ClientIP] for traffic without an account; it reads no header unless given
//     a Strategy, such as [TrustedProxies] or [Cloudflare];
//   - [User] behind your authentication: a user ID is what is hardest to change;
//   - [Tenant] for what the users of one customer share;
//   - [APIKey] for API clients, together with a limit by IP (see its security note);
//   - [Header] and [Cookie] for values that something you trust has set or checked;
//   - [Route] and [Method], joined with one of the above, for a bucket per endpoint;
//   - [Everyone] for one bucket over all requests;
//   - [Join] for "each of these together" and [First] for "user, else IP";
//   - [Lookup] for the country or network that an address belongs to;
//   - [Custom] for anything else.
//
// Which Condition:
//
//   - [Routes] and [Methods] for parts of the app, such as health checks;
//   - [Tokens] for monitoring and partners that hold a secret;
//   - [FromCIDR] and [Strategy.FromCIDR] for networks;
//   - [Preflight] for CORS preflights that no route answers;
//   - [Not], [All] and [Any] to combine, and [Matches] for anything else.
//
// # Missing and ambiguous keys
//
// A request may lack what a Func reads: no user, no such header, an empty
// value, garbage where a proxy should have written an address. Its key is [Missing],
// and the limit's own setting decides. A missing key never falls back to another
// source by itself; [First] does so on purpose.
//
// A request may also have it several times: a header on two lines, a parameter of the
// query twice, cookies of one name that differ, two API keys that differ. Its key is
// [Ambiguous], and the limiter denies it with status 400, whatever the limit's
// setting. Frameworks and authentication differ in which they take: the first, the
// last, or any that is valid. A client could show one value to the limit and another
// to the application.
//
// Only the header block counts. Trailers, which a client may send behind the body, are
// no headers. Blanks around a value are no part of it: spaces and tabs as HTTP says,
// and the other blanks of Unicode, which applications trim with strings.TrimSpace.
//
// # What a key looks like
//
// A key is one part, or several joined by "|":
//
//	ip:192.0.2.7
//	ip:2001:db8:0:1::/64
//	user:alice|route:/orders/:id
//	apikey#HsHCa1DV08WNlYMYGvgHZg
//
// A part is its kind, ":" and the value where the value is 1 to 64 bytes of
// printable ASCII without "|", "{" and "}". Any other value is hashed: kind,
// "#" and the first 128 bits of its SHA-256 in base64url. So different inputs
// give different keys: no kind holds ":", "#" or "|", which tells a value from
// a hash and user "192.0.2.7" from IP 192.0.2.7, and no readable value holds
// "|", which tells one part from the next. And keys are safe to store: at most
// 256 bytes, however large the request; no braces, so that no client chooses the
// hash tag of a Redis key; no control characters, so that none breaks a header or
// a log line.
//
// A client that can make up its key can still choose its Redis Cluster slot. The
// slot is a checksum of the key without a secret, hashed keys included, so the
// client tries some ten thousand values and has all its keys in one slot, and their
// load on one master. They share no bucket with others there. With
// [Func.WithSecret] nobody outside knows which value has which slot.
//
// # Secrets
//
// A part whose kind names a secret is hashed whatever its value: a kind that
// contains auth, cookie, credential, jwt, key, password, secret, session,
// signature or token. That covers APIKey, Cookie and Header("Authorization").
// The hash has no salt, so that all processes agree on it: it hides long random
// keys and sessions, not guessable ones such as a four-digit PIN. What
// [Func.WithSecret] makes hides these too, and addresses and user names besides.
//
// # Mistakes
//
// Constructors neither panic nor return errors, so that they can be written
// where they are used. What was wrong (a header name, a CIDR, a short token) is
// in Err, which building a limiter reports; until then a Func's key is missing, a
// Condition does not hold, and a Strategy knows no address.
//
// # Concurrency and memory
//
// All of the package is safe for concurrent use. Keys are copied out of the
// request into the caller's buffer. Nothing of the request is kept, also not
// the strings that Fiber reuses for the next one.
package keyfuncs
