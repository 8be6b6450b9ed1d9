package keyfuncs

import (
	"context"
	"net/netip"
	"slices"
	"strings"
)

// Values is a [Request] of plain values, for jobs, consumers of queues and other code without
// HTTP. With it the keys, tiers, conditions and costs of a limit work there, too:
//
//	d := limiter.Allow(keyfuncs.Values{"user": "42", "plan": "premium"})
//
// Value finds each value under its name, as [User], [Tenant] and the functions of Tiers,
// CostBy and [Matches] read it. A string is also the header, cookie, query parameter and path
// parameter of its name; for headers the case of the name does not count. Three names are
// special: "ip" is the peer, "method" the method, and "route" the route. Without "route" the route is
// not known: a limit on routes applies, and an exemption does not.
//
// Names are strings. What is stored under a key of another type, as net/http middleware does, is
// found in the context: User(userKey{}) and Tenant(tenantKey{}) read it from
//
//	keyfuncs.Values{"plan": "premium"}.WithContext(context.WithValue(ctx, userKey{}, "42"))
//
// Values keep their types. With Values{"items": 3} a CostBy finds an int, and no int64. Have it
// return a negative cost for what it does not find, which is denied: a cost of 0 is free.
//
//	CostBy(func(r keyfuncs.Request) int64 {
//		if items, ok := r.Value("items").(int); ok {
//			return int64(items)
//		}
//		return -1
//	})
//
// The values must not change while a limiter decides. The context is context.Background; see
// [Values.WithContext].
//
// # Security
//
// The values are believed. Take them from what was verified, and not from a message that anybody
// may write.
type Values map[string]any

var (
	_ Request = Values{}
	_ Params  = Values{}
)

// Context returns context.Background.
func (Values) Context() context.Context { return context.Background() }

// Method returns the value of "method", or "".
func (v Values) Method() string { return v.text("method") }

// Path returns "".
func (Values) Path() string { return "" }

// Route returns the value of "route", which is known if there is one.
func (v Values) Route() (template string, known bool) {
	template, known = v["route"].(string)
	return template, known
}

// Header returns the string with this name, in any case. Names that differ only in case are lines of
// one header, sorted by name.
func (v Values) Header(name string, i int) (string, bool) {
	var lines []string // their names
	for each, value := range v {
		if _, ok := value.(string); ok && strings.EqualFold(each, name) {
			lines = append(lines, each)
		}
	}
	if i < 0 || i >= len(lines) {
		return "", false
	}
	slices.Sort(lines)
	return v.text(lines[i]), true
}

// Cookie returns the string with this name.
func (v Values) Cookie(name string, i int) (string, bool) { return v.only(name, i) }

// Query returns the string with this name.
func (v Values) Query(name string, i int) (string, bool) { return v.only(name, i) }

// Param returns the string with this name.
func (v Values) Param(name string) (string, bool) { return v.only(name, 0) }

// Peer returns the address in "ip", a string or a netip.Addr, and the zero Addr if there is none.
func (v Values) Peer() netip.Addr {
	if addr, ok := v["ip"].(netip.Addr); ok {
		return addr.Unmap()
	}
	addr, _ := netip.ParseAddr(v.text("ip")) // the zero Addr on error
	return addr.Unmap()
}

// Value returns the value with this name.
func (v Values) Value(key any) any {
	if key == (RequestKey{}) {
		return v
	}
	name, ok := key.(string)
	if !ok {
		return nil
	}
	return v[name]
}

// WithContext returns the values with a context, for observers, for a wait that ends with it,
// and for the values in it.
func (v Values) WithContext(ctx context.Context) Request { return &valuesIn{v, ctx} }

func (v Values) text(name string) string {
	text, _ := v[name].(string)
	return text
}

func (v Values) only(name string, i int) (string, bool) {
	text, ok := v[name].(string)
	return text, ok && i == 0
}

// valuesIn are values in a context.
type valuesIn struct {
	Values
	ctx context.Context //nolint:containedctx // a Request has one
}

func (v *valuesIn) Context() context.Context { return v.ctx }

// Value looks into the values first.
func (v *valuesIn) Value(key any) any {
	if key == (RequestKey{}) {
		return v
	}
	if value := v.Values.Value(key); value != nil {
		return value
	}
	return v.ctx.Value(key)
}
