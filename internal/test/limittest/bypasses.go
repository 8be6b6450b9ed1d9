package limittest

import (
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// token is the value that bypasses compare with.
const token = "tok-0f47c2d9e6b14a3c"

// untold fails the test if a response holds the token or part of it.
func (e *env) untold(what string, r response) {
	e.Helper()
	part := token[4:12]
	if strings.Contains(r.body, part) {
		e.Errorf("%s: the body tells the token: %s", what, r.body)
	}
	for name, lines := range r.header {
		for _, line := range lines {
			if strings.Contains(line, part) {
				e.Errorf("%s: %s tells the token: %s", what, name, line)
			}
		}
	}
}

// guesses are values that are not the token.
var guesses = map[string][]option{
	"none":               nil,
	"empty":              {with("X-Bypass-Token", "")},
	"another":            {with("X-Bypass-Token", "tok-ffffffffffffffff")},
	"a prefix":           {with("X-Bypass-Token", token[:len(token)-1])},
	"longer":             {with("X-Bypass-Token", token+"0")},
	"in capitals":        {with("X-Bypass-Token", strings.ToUpper(token))},
	"with a blank after": {with("X-Bypass-Token", token+"\u00a0")},
	"twice":              {with("X-Bypass-Token", token), with("X-Bypass-Token", token)},
	"twice, empty first": {with("X-Bypass-Token", ""), with("X-Bypass-Token", token)},
	"in a list":          {with("X-Bypass-Token", token+", "+token)},
	"quoted":             {with("X-Bypass-Token", `"`+token+`"`)},
	"as a bearer token":  {with("Authorization", "Bearer "+token)},
	"in another header":  {with("X-Bypass", token)},
	"with underscores":   {with("X_Bypass_Token", token)},
	"in a cookie":        {with("Cookie", "X-Bypass-Token="+token)},
	"60 KB of it":        {with("X-Bypass-Token", strings.Repeat(token, 3000))},
	"bytes beyond ASCII": {with("X-Bypass-Token", strings.Repeat("\x80", 32))},
}

var bypasses = []scenario{
	{"the right bypass token passes and touches no store, and guesses count", func(e *env) {
		store := e.counting()
		s := e.serve(App{
			LargeHeaders: true,
			Layers: e.configured(core.Config{
				Store:  store,
				Limits: []core.Limit{core.PerDay(int64(len(guesses))).By(keyfuncs.ClientIP()).Named("client")},
				Bypass: []keyfuncs.Condition{keyfuncs.Tokens("X-Bypass-Token", "tok-aaaaaaaaaaaaaaaa", token)},
			}),
			Routes: reasons,
		})
		right := func() {
			e.Helper()
			for range 3 {
				r := s.get("/", with("X-Bypass-Token", token))
				equal(e, "status with the token", r.status, http.StatusOK)
				equal(e, "decision with the token", r.body, "bypassed, false")
				e.silent("with the token", r)
				e.untold("with the token", r)
			}
			equal(e, "requests with the token that reached the store", store.asked(), 0)
		}
		right()
		for what, options := range guesses {
			r := s.get("/", options...)
			equal(e, what+": status", r.status, http.StatusOK)
			equal(e, what+": decision", r.body, "within limit, false")
			e.untold(what, r)
		}
		equal(e, "guesses that reached the store", store.asked(), int64(len(guesses)))
		for what, options := range guesses {
			r := s.get("/?X-Bypass-Token="+token, options...)
			e.denied(what, r)
			e.untold(what, r)
		}
		store.asked()
		right()
	}},
	{"a bypass token as bearer token", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerDay(1).By(keyfuncs.ClientIP())},
			Bypass: []keyfuncs.Condition{keyfuncs.Tokens("Authorization", token)},
		})})
		e.passes("first", s.get("/"))
		for _, value := range []string{token, "Basic " + token, "Bearer", "Bearer  ", "Bearer " + token + "x", "Bearer " + token + ", Bearer " + token} {
			e.denied(value, s.get("/", with("Authorization", value)))
		}
		e.denied("doubled", s.get("/", with("Authorization", "Bearer "+token), with("Authorization", "Bearer "+token)))
		e.passes("Bearer", s.get("/", with("Authorization", "Bearer "+token)))
		e.passes("bearer", s.get("/", with("Authorization", "bearer "+token)))
	}},
	{"bypassed networks are those of the peer, or of what a strategy finds", func(e *env) {
		s := e.serve(App{Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{
				keyfuncs.FromCIDR("192.0.2.64/26"),
				keyfuncs.TrustedProxies("10.0.0.0/8").FromCIDR("2001:db8:5::/48"),
			},
		})})
		e.passes("first", s.get("/"))
		for range 2 {
			e.passes("from the network", s.get("/", from("192.0.2.70:1")))
			e.passes("from the network, mapped", s.get("/", from("[::ffff:192.0.2.70]:1")))
			e.passes("through a proxy", s.get("/", from(proxy), with("X-Forwarded-For", "192.0.2.1, 2001:db8:5::1")))
		}
		for what, options := range map[string][]option{
			"claimed by a header":       {with("X-Forwarded-For", "192.0.2.70"), with("X-Real-Ip", "192.0.2.70")},
			"claimed by another peer":   {with("X-Forwarded-For", "2001:db8:5::1")},
			"claimed through a proxy":   {from(proxy), with("X-Forwarded-For", "2001:db8:5::1, 192.0.2.1")},
			"of another strategy":       {from(proxy), with("X-Forwarded-For", "192.0.2.70")},
			"an address that is none":   {from(proxy), with("X-Forwarded-For", "2001:db8:5::1, x")},
			"beside the network":        {from("192.0.2.63:1")},
			"a peer that is no address": {from("@"), with("X-Forwarded-For", "192.0.2.70")},
		} {
			e.denied(what, s.get("/", options...))
		}
	}},
}
