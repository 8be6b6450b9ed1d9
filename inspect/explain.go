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
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

const (
	maxQuery   = 1024 // bytes of what is looked up
	maxKeys    = 8    // keys that one look-up explains
	checksEach = 64   // checks of one question to the store
	maxCost    = 1 << 40
)

// explainRequest asks about a client. Query is a whole key, such as "user:42", or what a key is made
// of: an address, a user, an API key, a label.
type explainRequest struct {
	Query string `json:"query"`
	Cost  int64  `json:"cost"` // of the request in question; 0 for that of the last denial, or 1
}

type explainJSON struct {
	At   time.Time `json:"at"`
	Keys []keyJSON `json:"keys"`
}

// keyJSON is the state of one key. State is "blocked", "denied", "allowed" or "unknown": nothing is
// known of such a key.
type keyJSON struct {
	Key     string      `json:"key"`
	Label   string      `json:"label,omitempty"`
	State   string      `json:"state"`
	Summary string      `json:"summary"`
	Limits  []stateJSON `json:"limits"`
	Unused  []string    `json:"unused"` // limits of which the key has used nothing
	Error   string      `json:"error,omitempty"`
}

// stateJSON is what one limit says of a key. State is "blocked", "denied", "near" or "allowed".
type stateJSON struct {
	Limit        string      `json:"limit"`
	Algorithm    string      `json:"algorithm"`
	Quota        int64       `json:"quota"`
	Burst        int64       `json:"burst"`
	WindowMS     int64       `json:"window_ms"`
	Numbers      string      `json:"numbers"`
	Shadow       bool        `json:"shadow"`
	CanBlock     bool        `json:"can_block"`
	State        string      `json:"state"`
	Why          string      `json:"why"`
	Cost         int64       `json:"cost"` // that State is about
	Used         int64       `json:"used"`
	Remaining    int64       `json:"remaining"`
	RetryAfterMS int64       `json:"retry_after_ms"` // until Cost fits; 0 if waiting can't help
	FullAfterMS  int64       `json:"full_after_ms"`  // until nothing is used
	BlockedUntil time.Time   `json:"blocked_until,omitzero"`
	Minute       *countsJSON `json:"minute,omitempty"` // nil if the key is not among the heavy hitters
	Hour         *countsJSON `json:"hour,omitempty"`
	LastDenial   *denialJSON `json:"last_denial,omitempty"`
}

func (h *Handler) serveExplain(r *request) *problem {
	var ask explainRequest
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
	answer := explainJSON{At: time.Now(), Keys: []keyJSON{}}
	for _, key := range h.candidates(ask.Query, declarations, o.snapshot) {
		answer.Keys = append(answer.Keys, h.explain(r.Context(), key, ask.Cost, declarations, o.snapshot))
	}
	// Of several keys that were guessed, those of which something is known. Of none, the first.
	known := slices.DeleteFunc(slices.Clone(answer.Keys), func(k keyJSON) bool { return len(k.Limits) == 0 })
	if len(known) > 0 {
		answer.Keys = known
	} else {
		answer.Keys = answer.Keys[:1]
	}
	slices.SortStableFunc(answer.Keys, func(a, b keyJSON) int { return cmp.Compare(rank(a.State), rank(b.State)) })
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

// storeKey returns the key as stores have it. Keys that are hashed are left as the page shows them.
func storeKey(key string) []byte {
	hashed := keyfuncs.AppendKey(nil, "") // "key#" and a hash
	if len(key) == len(hashed) && strings.HasPrefix(key, string(hashed[:4])) {
		return []byte(key)
	}
	return keyfuncs.AppendKey(nil, key)
}

// candidates returns the keys that may be meant, the most likely first, and always one.
func (h *Handler) candidates(query string, declarations []store.Declaration, s *top.Snapshot) []string {
	kinds := kindsOf(declarations)
	found := []string{string(storeKey(query))}
	if kind := kindOf(query); kind != "" && slices.Contains(kinds, kind) {
		return found // a whole key
	}
	add := func(key string) {
		if key != "" && len(found) < maxKeys && !slices.Contains(found, key) {
			found = append(found, key)
		}
	}
	for i := range s.Limits {
		for _, c := range s.Limits[i].Clients {
			if label := h.labels.of(c.Key); label != "" && strings.EqualFold(label, query) {
				add(c.Key)
			}
		}
	}
	for _, kind := range kinds {
		add(keyfuncs.Encode(kind, query))
	}
	return found
}

// kindsOf returns the kinds of keys with one part that the limits have: of "first(user,ip)" both.
func kindsOf(declarations []store.Declaration) []string {
	var kinds []string
	for _, d := range declarations {
		for _, kind := range strings.FieldsFunc(d.Keys, func(r rune) bool { return strings.ContainsRune("(), |", r) }) {
			if keyfuncs.Encode(kind, "x") != "" && !strings.HasPrefix(keyfuncs.Encode(kind, "x"), "invalid#") && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// kindOf returns the kind of a key's first part, or "".
func kindOf(key string) string {
	if i := strings.IndexAny(key, ":#"); i > 0 {
		return key[:i]
	}
	return ""
}

// explain asks the store and the heavy hitters about one key.
func (h *Handler) explain(ctx context.Context, key string, cost int64, declarations []store.Declaration, s *top.Snapshot) keyJSON {
	k := keyJSON{Key: key, Label: h.labels.of(key), Limits: []stateJSON{}, Unused: []string{}}
	for part := range slices.Chunk(declarations, checksEach) {
		if err := h.explainPart(ctx, &k, part, cost, s); err != nil {
			k.Error = "The store did not answer, so the numbers are missing: " + classOf(err) + "."
			k.addKnown(part, s)
		}
	}
	slices.SortStableFunc(k.Limits, func(a, b stateJSON) int {
		return cmp.Or(cmp.Compare(shadowLast(a), shadowLast(b)), cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(b.RetryAfterMS, a.RetryAfterMS))
	})
	k.sumUp()
	return k
}

func (h *Handler) explainPart(ctx context.Context, k *keyJSON, declarations []store.Declaration, cost int64, s *top.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, h.config.Timeout)
	defer cancel()
	checks, results := make([]store.Check, len(declarations)), make([]store.Result, len(declarations))
	declarations = slices.Clone(declarations)
	for i := range declarations {
		client := clientIn(s, declarations[i].Rule.Name, k.Key)
		adoptNumbers(&declarations[i].Rule, client)
		checks[i] = store.Check{Key: []byte(k.Key), Rule: &declarations[i].Rule, Cost: costOf(cost, client), Shadow: declarations[i].Shadow}
	}
	if err := h.config.Store.Peek(ctx, checks, results); err != nil {
		return err
	}
	for i := range declarations {
		d, check, result := &declarations[i], &checks[i], &results[i]
		client := clientIn(s, d.Rule.Name, k.Key)
		if client == nil && !result.Blocked && result.Remaining >= d.Rule.Burst {
			k.Unused = append(k.Unused, d.Rule.Name)
			continue
		}
		k.Limits = append(k.Limits, stateOf(d, check.Cost, result, client))
	}
	return nil
}

// addKnown adds what the heavy hitters know of a key while the store does not answer.
func (k *keyJSON) addKnown(declarations []store.Declaration, s *top.Snapshot) {
	for i := range declarations {
		if client := clientIn(s, declarations[i].Rule.Name, k.Key); client != nil {
			state := stateOf(&declarations[i], costOf(0, client), nil, client)
			k.Limits = append(k.Limits, state)
		}
	}
}

// adoptNumbers changes a rule to the numbers that the client's last denial had, if they are others: those
// of its tier, or of a limit that is scaled. Read under other numbers, its bucket would seem to
// hold another share.
func adoptNumbers(rule *store.Rule, client *top.Client) {
	if client == nil || rule.Algorithm == store.Calendar {
		return
	}
	d := &client.Denial
	if d.Quota == 0 || d.Quota == rule.Quota && d.Burst == rule.Burst && d.Window == rule.Window {
		return
	}
	n := rule.Numbers
	n.Quota, n.Burst, n.Window = d.Quota, d.Burst, d.Window
	n.Whole = n.Burst
	if n.Soft >= n.Burst {
		n.Soft = 0
	}
	if adopted, err := store.NewRule(rule.Name, n); err == nil {
		*rule = adopted
	}
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

// stateOf says what a limit makes of a key. result is nil if the store did not answer.
func stateOf(d *store.Declaration, cost int64, result *store.Result, client *top.Client) stateJSON {
	l := declared(*d)
	state := stateJSON{
		Limit: l.Name, Algorithm: l.Algorithm, Quota: l.Quota, Burst: l.Burst, WindowMS: l.WindowMS, Numbers: l.Numbers,
		Shadow: l.Shadow, CanBlock: l.CanBlock, Cost: cost, State: "unknown",
	}
	if client != nil {
		minute, hour := countsJSON(client.Minute), countsJSON(client.Hour)
		state.Minute, state.Hour, state.LastDenial = &minute, &hour, denialOf(&client.Denial)
	}
	if result == nil {
		state.Why = "The store did not answer."
		return state
	}
	state.Remaining, state.Used = result.Remaining, max(l.Burst-result.Remaining, 0)
	state.RetryAfterMS, state.FullAfterMS = millis(result.RetryAfter), millis(result.ResetAfter)
	state.State = stateWord(d, cost, result)
	state.Why = stateWhy(&state, &d.Rule, result, l.Window)
	if result.Blocked {
		state.BlockedUntil = time.UnixMicro(result.At).Add(result.RetryAfter)
	}
	return state
}

func stateWord(d *store.Declaration, cost int64, result *store.Result) string {
	switch {
	case result.Blocked:
		return "blocked"
	case !result.Allowed:
		return "denied"
	case result.Remaining-cost < d.Rule.Burst/10:
		return "near"
	}
	return "allowed"
}

// millis rounds up, so that waiting that long is long enough.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// stateWhy says in words what a limit's numbers mean for a key now.
func stateWhy(s *stateJSON, rule *store.Rule, result *store.Result, window string) string {
	used := fmt.Sprintf("%s of %s used", grouped(s.Used), grouped(s.Burst))
	if s.Used == s.Burst {
		used = "All " + grouped(s.Burst) + " used"
	}
	switch {
	case rule.Algorithm == store.Concurrency:
		used = fmt.Sprintf("%s of %s in use", grouped(s.Used), grouped(s.Burst))
	case rule.Algorithm != store.TokenBucket:
		used += " in " + window
	case s.Used > 0:
		used += fmt.Sprintf(", and %s come back per %s", grouped(rule.Quota), window)
	}
	switch {
	case s.State == "blocked":
		return "Blocked for another " + short(result.RetryAfter) + "."
	case s.State == "denied" && result.RetryAfter == 0:
		return fmt.Sprintf("A cost of %s never fits: the most is %s.", grouped(s.Cost), grouped(s.Burst))
	case s.State == "denied":
		return fmt.Sprintf("%s. A cost of %s fits in %s%s.", used, grouped(s.Cost), short(result.RetryAfter), wait(result.ResetAfter, ", the whole limit in %s"))
	case s.Used == 0:
		return "Nothing used now."
	}
	return fmt.Sprintf("%s. %s left%s.", used, grouped(s.Remaining), wait(result.ResetAfter, "; the whole limit is back in %s"))
}

// sumUp says in one sentence what happens to the client's next request.
func (k *keyJSON) sumUp() {
	k.State = "unknown"
	for i := range k.Limits {
		l := &k.Limits[i]
		switch {
		case l.State == "unknown":
		case l.Shadow:
			if k.State == "unknown" {
				k.State, k.Summary = "allowed", "Allowed now."
			}
			if l.State == "denied" || l.State == "blocked" {
				k.Summary = fmt.Sprintf("Allowed now, but %s would deny it if it were enforced.", l.Limit)
			}
		case l.State == "denied" || l.State == "blocked":
			k.State = l.State
			k.Summary = fmt.Sprintf("Denied by %s. %s", l.Limit, l.Why)
			return
		case k.State == "unknown":
			k.State, k.Summary = "allowed", "Allowed now: "+lowerFirst(l.Why)
			if l.Minute != nil && l.Minute.Denied > 0 {
				k.Summary = fmt.Sprintf("Allowed at this moment, and denied %s times in the last minute by %s.", grouped(l.Minute.Denied), l.Limit)
			}
		}
	}
	if k.State == "unknown" {
		k.Summary = "Nothing is counted for this key: all its limits are unused."
		if k.Error != "" {
			k.Summary = k.Error
			if len(k.Limits) > 0 && k.Limits[0].LastDenial != nil {
				k.Summary += fmt.Sprintf(" The last denial was by %s: %s", k.Limits[0].Limit, lowerFirst(k.Limits[0].LastDenial.Why))
			}
		}
	}
}

func lowerFirst(s string) string {
	if s != "" && s[0] >= 'A' && s[0] <= 'Z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

// shadowLast orders limits that are enforced before those that are not.
func shadowLast(s stateJSON) int {
	if s.Shadow {
		return 1
	}
	return 0
}

// rank orders states, the worst first.
func rank(state string) int {
	return slices.Index([]string{"blocked", "denied", "near", "allowed", "unknown"}, state)
}
