package advice

import (
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
)

const forwardedHeaders = "X-Forwarded-For Forwarded X-Real-Ip Cf-Connecting-Ip True-Client-Ip"

// lookForwarded advises if proxies name clients, and the limits use the peer's address.
func (a *Advisor) lookForwarded(r keyfuncs.Request) {
	if !a.readsPeer {
		return
	}
	if name := forwardedIn(r, ""); name != "" {
		a.say(Forwarded, "requests have "+name+", but limits by ClientIP use the peer's address; behind a proxy that is one bucket for all clients; name the proxy in ClientIP")
	}
}

// forwardedIn returns the first header of r by which proxies name clients, or "" if there is none.
// A first one may be given.
func forwardedIn(r keyfuncs.Request, first string) string {
	if first != "" {
		if _, seen := r.Header(first, 0); seen {
			return first
		}
	}
	for name := range strings.FieldsSeq(forwardedHeaders) {
		if _, seen := r.Header(name, 0); seen {
			return name
		}
	}
	return ""
}
