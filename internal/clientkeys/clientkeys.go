// Package clientkeys tells which keys a limit can count, and which of them somebody means who writes
// an address or a user's name. What a limit counts is given as in store.Declaration.Keys: the kind
// of its key function, such as "ip", "first(user,ip)" or "join(ip,route)". In "ip/56" other bits of an IPv6 address
// count than 64: see keyfuncs.Func.Kind.
package clientkeys

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Match reports whether a limit by kinds can count key, in the form that stores have it. It is true
// for kinds that are not known.
func Match(kinds, key string) bool {
	all := combinations(kinds)
	return len(all) == 0 || slices.ContainsFunc(all, func(kinds []string) bool { return matches(kinds, key) })
}

// Former returns of what kinds a limit counted key before, if it counts such keys no more: what a store has
// under them says nothing about requests.
func Former(now string, before []string, key string) (kinds string, ok bool) {
	if Match(now, key) {
		return "", false
	}
	for _, kinds := range before {
		if len(combinations(kinds)) > 0 && Match(kinds, key) {
			return kinds, true
		}
	}
	return "", false
}

// Meant returns the keys of a limit by kinds that text can stand for, in the form that stores have
// them: the one key that it is, such as "ip:192.0.2.7", or else what it is as a value of each kind.
// Limits by several kinds together have only whole keys, such as "ip:192.0.2.7|route:/login". What is a key
// of another kind is not taken for a value: nobody means the user whose name is "ip:192.0.2.7".
func Meant(kinds, text string) (keys []string) { return meant(combinations(kinds), text) }

// MeantUnder is Meant for a limit whose keys may be hashed under a secret. conceal is keyfuncs.Func.Conceal of its
// key function, or nil where the secret is not known: then only what is hashed already is a key.
func MeantUnder(kinds, text string, conceal func(key string) (string, bool)) []string {
	all := combinations(kinds)
	keys := meant(all, text)
	if conceal == nil {
		return keys
	}
	for i := range all {
		for j := range all[i] {
			all[i][j] = strings.TrimSuffix(all[i][j], underSecret)
		}
	}
	for _, key := range meant(all, text) {
		if hidden, ok := conceal(key); ok && !Match(kinds, key) {
			key = hidden
		}
		if Match(kinds, key) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func meant(all [][]string, text string) (keys []string) {
	for _, kinds := range all {
		if key, ok := whole(kinds, text); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 || ofAKind(text) {
		return keys
	}
	for _, kinds := range all {
		if len(kinds) != 1 || kinds[0] == "all" {
			continue
		}
		if key, ok := part(kinds[0], text); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ofAKind reports whether text is a key of one of the kinds that each application can have.
func ofAKind(text string) bool {
	at := strings.IndexAny(text, ":#")
	if at < 0 {
		return false
	}
	switch kind := text[:at]; kind {
	case "ip", "user", "tenant", "apikey", "route", "method", "host", "basic", "join", "key":
		return true
	default:
		name, _, found := strings.Cut(kind, ".")
		return found && slices.Contains([]string{"header", "cookie", "param", "query"}, name)
	}
}

// inKeys returns a kind as it stands in keys, and whether its values are hashed under a secret.
func inKeys(kind string) (of string, hashed bool) {
	of, hashed = strings.CutSuffix(kind, underSecret)
	of, _, _ = strings.Cut(of, "/")
	return of, hashed
}

// Clients returns what tells apart the clients that divide a limit by kinds, "" for a limit that they don't. equal is set if
// none has more weight than another.
func Clients(kinds string) (clients string, equal bool) {
	kinds, _, _ = strings.Cut(kinds, " once per ")
	_, how, divided := strings.Cut(kinds, " divided ")
	if !divided {
		return "", false
	}
	clients, equal = strings.CutPrefix(how, "among ")
	if !equal {
		_, clients, _ = strings.Cut(how, "among ")
	}
	clients, _, _ = strings.Cut(clients, " and ")
	return clients, equal
}

// Kinds returns the kinds of which keys of one part are, as they stand in keys.
func Kinds(kinds string) (single []string) {
	for _, kinds := range combinations(kinds) {
		if len(kinds) != 1 || kinds[0] == "all" {
			continue
		}
		if kind, _ := inKeys(kinds[0]); !slices.Contains(single, kind) {
			single = append(single, kind)
		}
	}
	return single
}

// Example returns what a key of a limit by kinds looks like, such as `ip:192.0.2.7`. It is "" for
// kinds that are not known.
func Example(kinds string) string {
	all := combinations(kinds)
	if len(all) == 0 {
		return ""
	}
	parts := make([]string, len(all[0]))
	for i, kind := range all[0] {
		switch of, hashed := inKeys(kind); {
		case hashed: // of no client: to show the form
			parts[i] = of + "#Qn9zJxS0m1uP3vK7yT5wRg"
		case of == "all":
			parts[i] = kind
		case of == "ip":
			parts[i] = "ip:192.0.2.7"
		case of == "route":
			parts[i] = "route:/login"
		default:
			parts[i] = keyfuncs.Encode(kind, "42")
		}
	}
	return strings.Join(parts, "|")
}

// whole returns the key that text is, if it has a part of each kind, with its parts as limits write
// them.
func whole(kinds []string, text string) (string, bool) {
	if matches(kinds, text) {
		return text, true
	}
	parts := strings.Split(text, "|")
	if len(parts) != len(kinds) {
		return "", false
	}
	for i, kind := range kinds {
		of, _ := inKeys(kind)
		value, ok := strings.CutPrefix(parts[i], of+":")
		switch {
		case matchesPart(kind, parts[i]):
		case !ok:
			return "", false
		default:
			if parts[i], ok = part(kind, value); !ok {
				return "", false
			}
		}
	}
	return keyfuncs.EncodeJoin(parts...), true
}

// part returns the part of a key that a value gives.
func part(kind, value string) (string, bool) {
	of, hashed := inKeys(kind)
	if hashed {
		return "", false // nobody here can hash it
	}
	if value = strings.TrimSpace(value); value == "" {
		return "", false
	}
	key := keyfuncs.Encode(kind, value)
	if of == "ip" {
		if strings.HasPrefix(key, "ip#") {
			return "", false // no address
		}
		if network, err := netip.ParsePrefix(value); err == nil && network.Addr().Is6() {
			key = "ip:" + network.Masked().String()
		}
	}
	return key, matchesPart(kind, key)
}

// hash is the length of a hash in a key, in characters.
const hash = 22

func matches(kinds []string, key string) bool {
	if rest, ok := strings.CutPrefix(key, "join#"); ok && len(kinds) > 1 && len(rest) == hash {
		return true
	}
	for i, kind := range kinds {
		first, rest, more := strings.Cut(key, "|")
		if more != (i < len(kinds)-1) || !matchesPart(kind, first) {
			return false
		}
		key = rest
	}
	return true
}

// matchesPart reports whether a key function of the kind can have written a part.
func matchesPart(kind, part string) bool {
	if kind == "all" {
		return part == kind
	}
	of, hashed := inKeys(kind)
	rest, ok := strings.CutPrefix(part, of)
	if len(rest) < 2 || !ok {
		return false
	}
	switch value := rest[1:]; {
	case rest[0] == '#':
		return len(value) == hash && (hashed || of != "ip") // without a secret no address is hashed
	case rest[0] != ':' || hashed:
		return false
	case of == "ip":
		if network, err := netip.ParsePrefix(value); err == nil {
			// Of another network the limit has no key.
			return network.Addr().Is6() && keyfuncs.Encode(kind, network.Addr().String()) == part
		}
		addr, err := netip.ParseAddr(value)
		return err == nil && addr.Is4()
	default:
		// A value that limits would have hashed stands in none of their keys.
		return keyfuncs.Encode(kind, value) == part
	}
}

// mostCombinations bounds what is made of one text.
const mostCombinations = 64

// combinations returns the kinds of which the parts of keys are, one slice for each way in which a key
// can be made; none if kinds is not understood.
func combinations(kinds string) [][]string {
	kinds, _, _ = strings.Cut(kinds, " once per ")
	kinds, _, _ = strings.Cut(kinds, " divided ")
	all, rest, ok := alternatives(kinds)
	if !ok || rest != "" {
		return nil
	}
	return all
}

// alternatives reads kinds that are separated by commas, of which a key has one.
func alternatives(text string) (all [][]string, rest string, ok bool) {
	for rest = text; ; rest = rest[1:] {
		var one [][]string
		if one, rest, ok = oneOf(strings.TrimLeft(rest, " ")); !ok {
			return nil, "", false
		}
		if all = append(all, one...); len(all) > mostCombinations {
			return nil, "", false
		}
		if !strings.HasPrefix(rest, ",") {
			return all, rest, true
		}
	}
}

// underSecret marks a kind whose values are hashed under a secret, which only the limit's processes have.
const underSecret = "#"

// oneOf reads a kind, first(…), join(…) or secret(…).
func oneOf(text string) (all [][]string, rest string, ok bool) {
	if inside, found := strings.CutPrefix(text, "secret("); found {
		if all, rest, ok = oneOf(inside); ok {
			rest, ok = strings.CutPrefix(rest, ")")
		}
		for _, kinds := range all {
			for i, kind := range kinds {
				if kind != "all" {
					kinds[i] = strings.TrimSuffix(kind, underSecret) + underSecret
				}
			}
		}
		return all, rest, ok
	}
	if inside, found := strings.CutPrefix(text, "first("); found {
		if all, rest, ok = alternatives(inside); ok {
			rest, ok = strings.CutPrefix(rest, ")")
		}
		return all, rest, ok
	}
	if inside, found := strings.CutPrefix(text, "join("); found {
		all = [][]string{nil}
		for rest = inside; ; rest = rest[1:] {
			var next, longer [][]string
			if next, rest, ok = oneOf(rest); !ok || len(all)*len(next) > mostCombinations {
				return nil, "", false
			}
			for _, before := range all {
				for _, kinds := range next {
					longer = append(longer, slices.Concat(before, kinds))
				}
			}
			all = longer
			if !strings.HasPrefix(rest, ",") {
				rest, ok = strings.CutPrefix(rest, ")")
				return all, rest, ok
			}
		}
	}
	end := strings.IndexAny(text, "(),| ")
	if end < 0 {
		end = len(text)
	}
	kind := text[:end]
	if kind != "all" && (kind == "" || strings.HasPrefix(keyfuncs.Encode(kind, "x"), "invalid#")) {
		return nil, "", false
	}
	return [][]string{{kind}}, text[end:], true
}
