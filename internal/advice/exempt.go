package advice

import "github.com/weblimit/weblimit/keyfuncs"

// lookExempt advises if a request that a listed proxy has passed on is exempt for the
// proxy's address.
func (a *Advisor) lookExempt(r keyfuncs.Request) {
	header := a.namedIn(r)
	if header == "" {
		return
	}
	exempt := func(whose string) {
		a.say(Exempt, whose+": FromCIDR exempts requests that a proxy has passed on with "+header+": it compares the address of the peer, which is the proxy, so all clients behind it are exempt; use FromCIDR of the strategy that ClientIP has")
	}
	for _, c := range a.bypass {
		if c.FromPeer(r) && c.Ask(r) == keyfuncs.Yes {
			exempt("Config.Bypass")
		}
	}
	for _, l := range a.limits {
		for _, c := range l.When {
			if c.FromPeer(r) && c.Ask(r) == keyfuncs.No {
				exempt("limit " + l.Name)
			}
		}
	}
}

// namedIn returns the header in which a listed proxy has named the client of a request, or "".
func (a *Advisor) namedIn(r keyfuncs.Request) string {
	for _, l := range a.proxied {
		if header := l.Key.Named(r); header != "" {
			return header
		}
	}
	return ""
}
