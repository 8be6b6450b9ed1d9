package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

const (
	maxQuery   = 1024 // bytes of what is looked up
	maxKeys    = 8    // keys that one look-up explains
	checksEach = 64   // checks of one question to the store
	maxCost    = 1 << 40
)

func (h *Handler) serveExplain(r *request) *problem {
	var ask pageapi.Question
	if p := readBody(r.ResponseWriter, r.Request, &ask); p != nil {
		return p
	}
	ask.Query = strings.TrimSpace(ask.Query)
	if p := checkKey("query", ask.Query); p != nil {
		return p
	}
	if ask.Cost < 0 || ask.Cost > maxCost {
		return &problem{http.StatusBadRequest, fmt.Sprintf("cost must be from 0 to %d.", int64(maxCost))}
	}
	o, err := h.overview(r.Context())
	if err != nil {
		return gone(err)
	}
	declarations := h.config.Store.Registry().Declarations()
	answer := pageapi.Explanation{At: time.Now()}
	answer.Keys = h.explainMeant(r.Context(), ask.Query, ask.Cost, declarations, o.snapshot)
	slices.SortStableFunc(answer.Keys, func(a, b pageapi.Key) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	return r.answer(answer)
}

// checkKey returns an error for what can't be a key or a part of one.
func checkKey(what, key string) *problem {
	switch {
	case key == "":
		return &problem{http.StatusBadRequest, what + " is missing."}
	case len(key) > maxQuery:
		return &problem{http.StatusBadRequest, fmt.Sprintf("%s has more than %d bytes.", what, maxQuery)}
	case !utf8.ValidString(key) || !isPrintable(key):
		return &problem{http.StatusBadRequest, what + " has control characters."}
	}
	return nil
}

// isPrintable reports whether s has no control characters. Keys of the application may be in any
// script.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// explain asks the store and the heavy hitters about one key.
func (h *Handler) explain(ctx context.Context, key string, cost int64, declarations []store.Declaration, s *top.Snapshot) pageapi.Key {
	k := pageapi.Key{Key: key, Label: h.labels.of(key), Limits: []pageapi.State{}, Unused: []string{}}
	for part := range slices.Chunk(declarations, checksEach) {
		if err := h.explainPart(ctx, &k, part, cost, s); err != nil {
			k.Error = "The store did not answer, so the numbers are missing: " + classOf(err) + "."
			addKnown(&k, part, s)
		}
	}
	choose(&k, declarations)
	slices.SortStableFunc(k.Limits, func(a, b pageapi.State) int {
		return cmp.Or(cmp.Compare(shadowLast(a), shadowLast(b)), cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(b.RetryAfterMS, a.RetryAfterMS))
	})
	sumUp(&k)
	return k
}

func (h *Handler) explainPart(ctx context.Context, k *pageapi.Key, declarations []store.Declaration, cost int64, s *top.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, h.config.Timeout)
	defer cancel()
	checks, results, accounts := make([]store.Check, len(declarations)), make([]store.Result, len(declarations)), make([]store.Account, len(declarations))
	declarations = slices.Clone(declarations)
	unknown := make([]bool, len(declarations))
	for i := range declarations {
		client := clientIn(s, declarations[i].Rule.Name, k.Key)
		adoptNumbers(&declarations[i].Rule, client)
		checks[i] = store.Check{
			Key: []byte(k.Key), Rule: &declarations[i].Rule, Cost: costOf(cost, client), Shadow: declarations[i].Shadow, Account: &accounts[i],
		}
		if isClient(&declarations[i], k.Key) {
			unknown[i] = !divide(&checks[i], &declarations[i], k.Key)
		}
	}
	if err := h.config.Store.Peek(ctx, checks, results); err != nil {
		return err
	}
	for i := range declarations {
		d, check, result := &declarations[i], &checks[i], &results[i]
		client := clientIn(s, d.Rule.Name, k.Key)
		if unknown[i] {
			state := stateOf(d, check.Cost, nil, nil, client)
			unknownShare(&state)
			k.Limits = append(k.Limits, state)
			continue
		}
		if client == nil && !result.Blocked && result.Remaining >= d.Rule.Burst {
			k.Unused = append(k.Unused, d.Rule.Name)
			continue
		}
		state := stateOf(d, check.Cost, result, &accounts[i], client)
		state.Versions = versionsIn(s, d.Rule.Name)
		if kinds, former := h.former(d, k.Key); former {
			retire(&state, d, kinds)
		}
		k.Limits = append(k.Limits, state)
	}
	return nil
}

// addKnown adds what the heavy hitters know of a key while the store does not answer.
func addKnown(k *pageapi.Key, declarations []store.Declaration, s *top.Snapshot) {
	for i := range declarations {
		if client := clientIn(s, declarations[i].Rule.Name, k.Key); client != nil {
			state := stateOf(&declarations[i], costOf(0, client), nil, nil, client)
			state.Versions = versionsIn(s, state.Limit)
			k.Limits = append(k.Limits, state)
		}
	}
}

func versionsIn(s *top.Snapshot, limit string) []string {
	if l := s.Limit(limit); l != nil {
		return l.Versions
	}
	return nil
}

func clientIn(s *top.Snapshot, limit, key string) *top.Client {
	l := s.Limit(limit)
	if l == nil {
		return nil
	}
	if c, ok := l.Client(key); ok {
		return &c
	}
	return nil
}

// costOf returns the cost to ask about: what was asked for, or that of the last denial, or 1.
func costOf(asked int64, c *top.Client) int64 {
	if asked > 0 || c == nil {
		return max(asked, 1)
	}
	return max(c.Denial.Cost, 1)
}
