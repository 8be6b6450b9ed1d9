package core

import (
	"fmt"

	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Advice is a kind of likely misconfiguration that a limiter notices and logs. It logs one line
// per process and kind, for those on routes and keys one per limit, with a stable code and a link to
// docs/run/advice.md. Config.Silence switches kinds off, by these codes:
//
//   - WL001: forwarded headers are seen while only the peer is used
//   - WL002: the framework's client address can be forged
//   - WL003: a limiter is built while a request is served
//   - WL004: one limiter counts a request twice
//   - WL005: Redis may evict the keys of limits
//   - WL006: a tier can never work
//   - WL007: a Scale function panics
//   - WL008: a limiter needs the route where it is not known
//   - WL009: an observer panics
//   - WL010: a trusted proxy names no client
//   - WL011: some requests reach handlers without passing the limiter
//   - WL012: forwarded headers come from a private address that is not listed
//   - WL013: no request has a limit's key
//   - WL014: FromCIDR exempts what proxies pass on
//   - WL015: a cost is above what the limit ever has room for
//   - WL016: a condition names a route that the router does not have
//   - WL017: other processes have a limit of the same name with other numbers
type Advice string

// validate returns an error for a code that no advice has.
func (a Advice) validate() error {
	if !advice.Code(a).Known() {
		return configError("Silence", fmt.Sprintf("has %q, which is no advice: the codes are WL001 to %s", a, advice.Last))
	}
	return nil
}

// facts returns what advice on the limit depends on.
func (l *Limit) facts(key keyfuncs.Func) advice.Facts {
	f := advice.Facts{
		Name: l.name, Key: key, When: l.when, Scaled: l.scale != nil,
		Skips: l.missing == SkipLimit, Denies: l.missing == DenyRequest,
	}
	if l.classes != nil {
		f.Upper = keyfuncs.Any(l.classes.conditions()...)
	}
	return f
}
