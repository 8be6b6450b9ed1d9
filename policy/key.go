package policy

import (
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/keyfuncs"
)

// keyNames are the keys that a word alone stands for.
var keyNames = []string{"ip", "user", "tenant", "api_key", "route", "host", "method", "basic_auth_user", "everyone"}

// otherNames are names that other limiters have for a key.
var otherNames = map[string]string{
	"address": "ip", "addr": "ip", "client": "ip", "client_ip": "ip", "remote_addr": "ip", "remote_address": "ip", "source_ip": "ip",
	"all": "everyone", "global": "everyone", "any": "everyone", "path": "route", "endpoint": "route", "consumer": "user", "org": "tenant",
}

// key returns the key of a node. After a problem it returns a key that nobody has.
func (s *scope) key(n *node) keyfuncs.Func {
	f := s.plainKey(n)
	if secret := s.secret; secret != nil && f.Err() == nil {
		f = f.WithSecret(secret)
	}
	if err := f.Err(); err != nil {
		// Advice that names a function of Go is of no use to whoever writes a file.
		text := unprefixed(err)
		if before, _, of := strings.Cut(text, "; use keyfuncs."); of {
			text = before + "; use ip, and say in client_ip who is believed"
		}
		s.add(n, "%s", text)
		return unusable
	}
	return f
}

// unusable stands for what could not be read; the file is refused.
var unusable = keyfuncs.Custom("unusable", func(keyfuncs.Request) string { return "" })

func (s *scope) plainKey(n *node) keyfuncs.Func {
	switch n.kind {
	case kindText:
		return s.namedKey(n)
	case kindList:
		if keys := s.keys(n); len(keys) > 1 {
			return keyfuncs.Join(keys...)
		} else if len(keys) == 1 {
			return keys[0]
		}
		return unusable
	}
	if len(n.fields) != 1 {
		return unusable
	}
	of, v := n.fields[0].key.text, n.fields[0].value
	switch of {
	case "user":
		return keyfuncs.User(v.text)
	case "tenant":
		return keyfuncs.Tenant(v.text)
	case "api_key":
		return keyfuncs.APIKey(v.texts()...)
	case "header":
		return keyfuncs.Header(v.text)
	case "cookie":
		return keyfuncs.Cookie(v.text)
	case "query":
		return keyfuncs.Query(v.text)
	case "param":
		return keyfuncs.Param(v.text)
	case "first":
		return keyfuncs.First(s.keys(v)...)
	}
	return unusable
}

func (s *scope) keys(n *node) []keyfuncs.Func {
	keys := make([]keyfuncs.Func, 0, len(n.items))
	for _, item := range n.items {
		keys = append(keys, s.plainKey(item))
	}
	return keys
}

// namedKey returns the key of a word: the application's if it has given one.
func (s *scope) namedKey(n *node) keyfuncs.Func {
	if given, ok := s.options.Keys[n.text]; ok {
		return given
	}
	switch n.text {
	case "ip":
		return s.clientIP()
	case "user":
		return keyfuncs.User("user")
	case "tenant":
		return keyfuncs.Tenant("tenant")
	case "api_key":
		return keyfuncs.APIKey()
	case "route":
		return keyfuncs.Route()
	case "host":
		return keyfuncs.Host()
	case "method":
		return keyfuncs.Method()
	case "basic_auth_user":
		return keyfuncs.BasicAuthUser()
	case "everyone":
		return keyfuncs.Everyone()
	}
	all := slices.Concat(keyNames, namesOf(s.options.Keys))
	switch n.text {
	case "header", "cookie", "query", "param", "first":
		s.add(n, "%s needs to know which: {%s: …}", n.text, n.text)
		return unusable
	}
	// A tool that takes any name still refuses one that is nearly a known one: it is a misspelling.
	if s.options.AnyName && spelling.NearestName(n.text, all) == "" && otherNames[n.text] == "" {
		name := n.text
		return keyfuncs.Custom(kindOf(name), func(r keyfuncs.Request) string {
			text, _ := r.Value(name).(string)
			return text
		})
	}
	if of := otherNames[n.text]; of != "" {
		s.add(n, "unknown key %s; did you mean %q?", spelling.Quote(n.text), of)
	} else if best := spelling.Meant(n.text, all); best != "" {
		s.add(n, "unknown key %s%s", spelling.Quote(n.text), best)
	} else {
		s.add(n, "unknown key %s, want %s; the application gives keys of its own names in policy.Options.Keys", spelling.Quote(n.text), among(all))
	}
	return unusable
}

// kindOf makes a kind of keys of a name.
func kindOf(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}

// clientIP returns the key ip.
func (s *scope) clientIP() keyfuncs.Func {
	options := make([]keyfuncs.IPOption, 0, 2)
	if strategy, ok := s.strategy(); ok {
		options = append(options, strategy)
	} else {
		s.byPeer = true
	}
	if bits := s.ip.get("ipv6_prefix"); bits != nil {
		options = append(options, keyfuncs.IPv6Prefix(int(bits.integer())))
	}
	return keyfuncs.ClientIP(options...)
}

// strategy returns how the address of a client is found, or false if it is the peer.
func (s *scope) strategy() (keyfuncs.Strategy, bool) {
	if s.ip == nil {
		return keyfuncs.Strategy{}, false
	}
	// Policies that have client_ip from the defaults share one strategy, so that a problem in it is told once.
	if known, ok := s.strategies[s.ip]; ok {
		return known, known.Err() == nil
	}
	made, found := keyfuncs.Peer(), false
	for i := range s.ip.fields {
		of, v := s.ip.fields[i].key.text, s.ip.fields[i].value
		if of == "ipv6_prefix" {
			continue
		}
		found = true
		switch of {
		case "trusted_proxies":
			made = keyfuncs.TrustedProxies(v.texts()...)
		case "forwarded":
			made = keyfuncs.Forwarded(v.texts()...)
		case "x_real_ip":
			made = keyfuncs.XRealIP(v.texts()...)
		case "cloudflare":
			made = keyfuncs.Cloudflare(v.get("between").texts()...)
		case "hops":
			made = keyfuncs.HopCount(int(v.integer()))
		case "header":
			made = keyfuncs.SingleHeader(v.get("name").string(), v.get("from").texts()...)
		}
		if err := made.Err(); err != nil {
			s.add(v, "%s", unprefixed(err))
			made = keyfuncs.Peer()
		}
	}
	if !found {
		return made, false
	}
	s.strategies[s.ip] = made
	return made, true
}
