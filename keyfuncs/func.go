package keyfuncs

import (
	"errors"
	"slices"
)

// Func makes the key of a request: the identity that a limit counts by. Get one from a
// constructor such as [ClientIP]. The zero Func is invalid, and Err says so.
//
// A Func is a small immutable value. It is safe to copy and for concurrent use.
type Func struct {
	kind string
	// read appends the key. Append drops what it has appended unless the key is
	// Present. Nil if err is set.
	read func(dst []byte, r Request) ([]byte, Presence)
	// repeated names the repeated value of r if the key is Ambiguous. Nil if the key
	// never is.
	repeated func(r Request) string
	// lack is what a request without the key lacks. Nil if the kind says it. It is behind a
	// pointer, since a Func is copied for each request.
	lack *lack
	// strategies find the addresses in the key.
	strategies []Strategy
	readsRoute bool     // the key, or a part of it, is that of Route
	derived    bool     // the key, or a part of it, is made by a function of the application
	params     []string // of the path, which the key reads
	needs      []string
	secrets    secrets // by which Conceal finds keys; nil if there are none
	err        error
}

var errZeroFunc = errors.New("weblimit: keyfuncs: the zero Func makes no key, use a constructor such as keyfuncs.ClientIP")

// Append appends the key of r to dst and returns the extended slice. Unless the key is
// [Present] it returns dst unchanged. If Err is not nil, the key is [Missing]. A key
// has 1 to 256 bytes.
//
// Append allocates only to extend dst. 256 bytes of capacity are enough, unless a Join of
// long parts has to be shortened. The result shares no memory with r.
func (f Func) Append(dst []byte, r Request) (key []byte, p Presence) {
	if f.read != nil {
		key, p = f.read(dst, r)
	}
	if p != Present {
		key = dst
	}
	return
}

// Key is [Func.Append] with the key as a string, which allocates.
func (f Func) Key(r Request) (key string, p Presence) {
	dst, p := f.Append(make([]byte, 0, maxValue), r)
	return string(dst), p
}

// Repeated names the repeated value if the key of r is [Ambiguous], for the response to
// the client: "X-API-Key header", "api_key query parameter", "sid cookie", "API key". The
// text is fixed when the Func is built and holds nothing of r. It is "" if the key is not
// Ambiguous.
func (f Func) Repeated(r Request) string {
	if f.repeated == nil {
		return ""
	}
	return f.repeated(r)
}

// Kind says what the key is made of: "ip", "user", "apikey", "header.x-tenant",
// "join(ip,route)", "first(user,ip)", and "secret(user)" with [Func.WithSecret]. An address of
// which other bits than 64 count is "ip/56": see [IPv6Prefix]. Kind is fixed when the Func is built and holds
// nothing of any request, so it can be used in metrics and logs. It is "" if Err is not
// nil.
func (f Func) Kind() string { return f.kind }

// Reads reports whether the key, or a part of it, is an address that was found by a
// strategy of the same constructor as s, such as Reads(Peer()). Limiters use it to give
// advice.
func (f Func) Reads(s Strategy) bool {
	return slices.ContainsFunc(f.strategies, func(own Strategy) bool { return own.name == s.name })
}

// ReadsRoute reports whether the key, or a part of it, is that of [Route]. Limiters use
// it to give advice.
func (f Func) ReadsRoute() bool { return f.readsRoute }

// ReadsMore reports whether the key, or a part of it, can say more than the request does: one that a function of the
// application makes, by [Custom] or [Lookup], and one under a secret. A service keeps such keys from its callers.
func (f Func) ReadsMore() bool { return f.derived || f.secrets != nil }

// Needing returns f for requests that have a value of their framework, such as a
// "*gin.Context". A limiter whose adapter has none is an error at start-up. For other
// requests f has to return false. It is for authors of adapters; see [Custom].
func (f Func) Needing(value string) Func {
	f.needs = append(slices.Clip(f.needs), value)
	return f
}

// Needs returns the values that a request must have for f or a part of it; see
// [Func.Needing].
func (f Func) Needs() []string { return slices.Clone(f.needs) }

// Err returns what is wrong with how f was built, such as Header(""), or nil. Building a
// limiter returns this error, so that nothing fails while serving.
func (f Func) Err() error {
	if f.read == nil && f.err == nil {
		return errZeroFunc
	}
	return f.err
}
