package advice

import (
	"fmt"
	"strconv"
	"strings"
)

// Code is a kind of advice, as logs and core.Config.Silence name it. Codes have no gaps.
type Code string

// The codes. What each of them means for users is in docs/run/advice.md.
const (
	Forwarded Code = "WL001" // forwarded headers are seen while only the peer is used
	Framework Code = "WL002" // the framework's client address can be forged
	InHandler Code = "WL003" // a limiter is built while a request is served
	Twice     Code = "WL004" // one limiter counts a request twice
	Eviction  Code = "WL005" // Redis may evict the keys of limits
	Tier      Code = "WL006" // a tier can never work
	Scale     Code = "WL007" // a Scale function panics
	Route     Code = "WL008" // a limiter needs the route where it is not known
	Observer  Code = "WL009" // an observer panics
	NoClient  Code = "WL010" // a trusted proxy names no client
	Unguarded Code = "WL011" // some requests reach handlers without passing the limiter
	Unlisted  Code = "WL012" // forwarded headers come from a private address that is not listed
	Keyless   Code = "WL013" // no request has a limit's key
	Exempt    Code = "WL014" // FromCIDR exempts what proxies pass on
	NeverFits Code = "WL015" // a cost is above what the limit ever has room for
	NoRoute   Code = "WL016" // a condition names a route that the router does not have
	Rival     Code = "WL017" // other processes have a limit of the same name with other numbers
)

// Last is the last of the codes.
const Last = Rival

// Known reports whether a code is one of these.
func (c Code) Known() bool {
	n, _ := strconv.Atoi(strings.TrimPrefix(string(c), "WL"))
	return n >= 1 && c <= Last && string(c) == fmt.Sprintf("WL%03d", n)
}
