package keyfuncs

import (
	"errors"
	"slices"
)

// Func names who is limited: it makes a key of a request. Get one from a
// constructor such as [ClientIP]; the zero Func is invalid and Err says so.
//
// A Func is a small immutable value, safe to copy and for concurrent use.
type Func struct {
	kind string
	// read appends the key. What it leaves in dst is dropped by Append unless the
	// key is Present. Nil when err is set.
	read func(dst []byte, r Request) ([]byte, Presence)
	// repeated names what r has several of, when the key is Ambiguous. Nil when it
	// never is.
	repeated func(r Request) string
	// strategies are those of all the addresses that the key is made of.
	strategies []Strategy
	readsRoute bool // the key, or a part of it, is Route
	err        error
}

var errZeroFunc = errors.New("weblimit: keyfuncs: the zero Func names nobody, use a constructor such as keyfuncs.ClientIP")

// Append appends the key of r to dst and returns the longer slice. Unless the key
// is [Present] it returns dst as it was. The key is [Missing] when Err is not nil,
// too. A key is never empty and has at most 256 bytes.
//
// It allocates only to make dst longer; 256 bytes of room are enough unless a
// Join of long parts has to be shortened. dst shares no memory with r.
func (f Func) Append(dst []byte, r Request) (key []byte, p Presence) {
	if f.read != nil {
		key, p = f.read(dst, r)
	}
	if p != Present {
		key = dst
	}
	return
}

// Key is Append with the key as a string, which costs allocations.
func (f Func) Key(r Request) (key string, p Presence) {
	dst, p := f.Append(make([]byte, 0, maxValue), r)
	return string(dst), p
}

// Repeated names what r has several of when its key is [Ambiguous], for the answer
// to the client: "X-API-Key header", "api_key query parameter", "sid cookie", "API
// key". It is fixed when the Func is built and holds nothing of r. It is "" when the
// key is not Ambiguous.
func (f Func) Repeated(r Request) string {
	if f.repeated == nil {
		return ""
	}
	return f.repeated(r)
}

// Kind says what the key is made of: "ip", "user", "apikey", "header.x-tenant",
// "join(ip,route)", "first(user,ip)". It is fixed when the Func is built and
// holds nothing of any request, so it fits names of metrics and logs. It is ""
// when Err is not nil.
func (f Func) Kind() string { return f.kind }

// Reads reports whether the key, or a part of it, is an address by a strategy of
// this constructor, such as Reads(Peer()). A limiter that gives advice asks.
func (f Func) Reads(s Strategy) bool {
	return slices.ContainsFunc(f.strategies, func(own Strategy) bool { return own.name == s.name })
}

// ReadsRoute reports whether the key, or a part of it, is [Route]. A limiter that
// gives advice asks.
func (f Func) ReadsRoute() bool { return f.readsRoute }

// Err is what is wrong with how f was built, such as Header(""), and nil when
// nothing is. Building a limiter reports it, so that nothing fails while serving.
func (f Func) Err() error {
	if f.read == nil && f.err == nil {
		return errZeroFunc
	}
	return f.err
}
