package inspect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// Which client somebody means who writes an address, a user, a label or a key. What is explained and
// what is acted upon is found in the same way: an action on a key that no limit counts would be an answer
// of success without an effect.

// storeKey returns the key as stores have it. Keys that are hashed are left as the page shows them.
func storeKey(key string) string {
	hashed := keyfuncs.AppendKey(nil, "") // "key#" and a hash
	if len(key) == len(hashed) && strings.HasPrefix(key, string(hashed[:4])) {
		return key
	}
	return string(keyfuncs.AppendKey(nil, key))
}

// meant returns the keys that text may mean under some limits, without the kinds that do not fit.
// whole is set if text is a key itself, so that there is no other.
func (h *Handler) meant(text string, among []store.Declaration, s *top.Snapshot) (keys []string, whole bool) {
	typed := storeKey(text)
	add := func(key string) {
		if len(keys) < maxKeys && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for i := range among {
		for _, key := range clientkeys.MeantUnder(kindsOf(&among[i]), text, among[i].Conceal) {
			if key == typed {
				return []string{key}, true
			}
			if kind := kindOf(key); kind != "" && strings.HasPrefix(text, kind+":") {
				add(key)
			}
		}
	}
	if len(keys) > 0 { // several, if limits count other bits of an address, or under other secrets
		return keys, len(keys) == 1
	}
	for i := range s.Limits {
		for _, c := range s.Limits[i].Clients {
			if label := h.labels.of(c.Key); label != "" && strings.EqualFold(label, text) && c.Key != "" {
				add(c.Key)
			}
		}
	}
	if h.countsKind(kindOf(text)) {
		return keys, false // a key of a limit that is not among them
	}
	for i := range among {
		for _, key := range clientkeys.MeantUnder(kindsOf(&among[i]), text, among[i].Conceal) {
			add(key)
		}
	}
	return keys, false
}

// countsKind reports whether a limit of this process has keys of the kind.
func (h *Handler) countsKind(kind string) bool {
	return kind != "" && slices.ContainsFunc(h.config.Store.Registry().Declarations(), func(d store.Declaration) bool {
		return slices.Contains(clientkeys.Kinds(kindsOf(&d)), kind)
	})
}

// kindOf returns the kind of a key's first part, or "".
func kindOf(key string) string {
	if i := strings.IndexAny(key, ":#"); i > 0 {
		return key[:i]
	}
	return ""
}

// explainMeant explains the keys that text may mean, at least one: of several, those of which something
// is known.
func (h *Handler) explainMeant(ctx context.Context, text string, cost int64, among []store.Declaration, s *top.Snapshot) []pageapi.Key {
	keys, whole := h.meant(text, among, s)
	if typed := storeKey(text); !whole && !slices.Contains(keys, typed) {
		// A key that the application makes itself, for core.Limiter.AllowKey, can look like anything.
		keys = append(keys, typed)
	}
	explained := make([]pageapi.Key, 0, len(keys))
	for _, key := range keys {
		explained = append(explained, h.explain(ctx, key, cost, among, s))
	}
	known := slices.DeleteFunc(slices.Clone(explained), func(k pageapi.Key) bool { return len(k.Limits) == 0 })
	if len(known) > 0 {
		return known
	}
	return explained[:1]
}

// keyOf returns the key that an action on some limits is about. It is one that one of them can count, or
// of which something is known.
func (h *Handler) keyOf(ctx context.Context, text string, among []store.Declaration) (string, *problem) {
	o, err := h.overview(ctx)
	if err != nil {
		return "", gone(err)
	}
	keys, whole := h.meant(text, among, o.snapshot)
	if whole {
		return keys[0], nil
	}
	if len(keys) == 1 && counts(among, keys[0]) {
		return keys[0], nil
	}
	var known []string
	for _, k := range h.explainMeant(ctx, text, 0, among, o.snapshot) {
		if len(k.Limits) > 0 {
			known = append(known, k.Key)
		}
	}
	switch {
	case len(known) == 1:
		return known[0], nil
	case len(known) > 1:
		keys = known
	}
	if len(keys) > 1 {
		which := ": say which, or under which limit."
		if len(among) == 1 {
			which = ": say which."
		}
		return "", &problem{http.StatusUnprocessableEntity, "This can be " + inWords(keys, "or") + which}
	}
	return "", &problem{http.StatusUnprocessableEntity, noKey(text, among)}
}

// counts reports whether one of the limits can count a key.
func counts(among []store.Declaration, key string) bool {
	return slices.ContainsFunc(among, func(d store.Declaration) bool { return clientkeys.Match(kindsOf(&d), key) })
}

// former returns of what kinds a limit counted a key before a policy file changed them, if it counts such
// keys no more.
func (h *Handler) former(d *store.Declaration, key string) (kinds string, ok bool) {
	if isClient(d, key) {
		return "", false
	}
	return clientkeys.Former(d.Keys, h.config.Store.Registry().KeysBefore(d.Rule.Name), key)
}

// noKey says why a text is no key of the limits, and what one looks like.
func noKey(text string, among []store.Declaration) string {
	var kinds, examples []string
	for i := range among {
		if kind := kindsOf(&among[i]); !slices.Contains(kinds, kind) && len(kinds) < 3 {
			kinds = append(kinds, kind)
			examples = append(examples, clientkeys.Example(kind))
		}
	}
	what := "The limits count"
	if len(among) == 1 {
		what = "The limit " + among[0].Rule.Name + " counts"
	}
	hint := ""
	if slices.ContainsFunc(among, func(d store.Declaration) bool { return d.Conceal == nil && strings.Contains(d.Keys, "secret(") }) {
		hint = " The secret is not known here, so keys are told by their hash: copy one from a list of clients."
	}
	return fmt.Sprintf("%s by %s, and %q has used nothing of it: nothing was done. A key looks like %s.%s",
		what, inWords(kinds, "or"), shorten(text), inWords(examples, "or"), hint)
}

// inWords returns "a, b or c".
func inWords(list []string, last string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " " + last + " " + list[n-1]
	}
	return strings.Join(list, "")
}

// shorten returns the beginning of a text.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
