package keyfuncs

import (
	"maps"
	"slices"
	"strings"
)

// secrets are what hides the parts of a Func's keys, by the kind of a part as keys have it: in the order in which
// they apply, and none for a part that is not hidden. A kind that two parts have under different secrets has a nil
// slice, since a part does not say which of both it is.
type secrets map[string][]*hmacKey

// with returns the secrets with one more for each part of a kind.
func (s secrets) with(key *hmacKey, kind string) secrets {
	more := maps.Clone(s)
	if more == nil {
		more = secrets{}
	}
	for part := range kindsIn(kind) {
		of := inKeys(part)
		before, known := s[of]
		if !known {
			before = []*hmacKey{}
		}
		if more[of] = before; before != nil && of != kindAll {
			more[of] = append(slices.Clip(before), key)
		}
	}
	return more
}

// secretsOf returns the secrets of a Func of several keys, nil if there are none.
func secretsOf(keys []Func) secrets {
	if !slices.ContainsFunc(keys, func(f Func) bool { return f.secrets != nil }) {
		return nil
	}
	all := secrets{}
	for _, f := range keys {
		for part := range kindsIn(f.kind) {
			of := inKeys(part)
			own, known := f.secrets[of]
			if !known {
				own = []*hmacKey{}
			}
			if before, twice := all[of]; twice && (before == nil || !slices.Equal(before, own)) {
				own = nil
			}
			all[of] = own
		}
	}
	return all
}

// Conceal returns the key under which f counts what it would count under the given key if no part of it was
// hidden by [Func.WithSecret]. Without a secret, that is the key itself. It is for tools of operators,
// who know an address and not its hash:
//
//	key, ok := f.Conceal(keyfuncs.Encode("ip", "192.0.2.7"))
//
// It returns false for a key that has a part of a kind that f has not, or under two secrets; and
// for one that is longer than 256 bytes.
func (f Func) Conceal(key string) (concealed string, ok bool) {
	if f.secrets == nil {
		return key, f.Err() == nil
	}
	if len(key) > maxKey {
		return "", false
	}
	dst := make([]byte, 0, maxKey)
	for i, part := range strings.Split(key, "|") {
		if i > 0 {
			dst = append(dst, '|')
		}
		kind := part
		if end := strings.IndexAny(part, ":#"); end >= 0 {
			kind = part[:end]
		}
		hiding := f.secrets[kind]
		if hiding == nil {
			return "", false
		}
		start := len(dst)
		dst = append(dst, part...)
		for _, secret := range hiding {
			dst = secret.rewrite(dst, start)
		}
	}
	return string(dst), len(dst) <= maxKey
}
