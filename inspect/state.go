package inspect

import (
	"fmt"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

// adoptNumbers changes a rule to the numbers that the client's last denial had, if they are others: those
// of its tier, or of a limit that is scaled. Read under other numbers, its bucket would seem to
// hold another share.
func adoptNumbers(rule *store.Rule, client *top.Client) {
	if client == nil {
		return
	}
	d := client.Denial
	if rule.Algorithm == store.Calendar {
		d.Window = rule.Window // that of the denial varies with the month
	}
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

// stateOf says what a limit makes of a key. result and account are nil if the store did not answer.
func stateOf(d *store.Declaration, cost int64, result *store.Result, account *store.Account, client *top.Client) pageapi.State {
	l := declared(*d)
	state := pageapi.State{
		Limit: l.Name, Algorithm: l.Algorithm, Quota: l.Quota, Burst: l.Burst, WindowMS: l.WindowMS, Numbers: l.Numbers,
		Shadow: l.Shadow, CanBlock: l.CanBlock, Cost: cost, State: "unknown",
	}
	if client != nil {
		minute, hour := pageapi.Counts(client.Minute), pageapi.Counts(client.Hour)
		state.Minute, state.Hour, state.LastDenial = &minute, &hour, denialOf(&client.Denial)
	}
	if result == nil {
		state.Why = "The store did not answer."
		return state
	}
	state.Remaining, state.Used = result.Remaining, max(l.Burst-result.Remaining, 0)
	if account.Position > 0 { // in a book, which may have another quota for the client
		state.Kept, state.Used = true, account.Used
	}
	state.RetryAfterMS, state.FullAfterMS = millis(result.RetryAfter), millis(result.ResetAfter)
	if result.Standing != store.Undivided {
		shareOf(&state, &d.Rule, result)
	}
	state.State = stateWord(d, cost, result)
	state.Why = stateWhy(&state, &d.Rule, result, l.Window)
	if result.Blocked {
		state.BlockedUntil = time.UnixMicro(result.At).Add(result.Window)
	}
	return state
}

// retire says that a limit counts such keys no more: what the store has of them denies nobody.
func retire(s *pageapi.State, d *store.Declaration, kinds string) {
	s.State, s.RetryAfterMS, s.BlockedUntil = "allowed", 0, time.Time{}
	s.Why = fmt.Sprintf("Not counted any more: the limit counts by %s now, and no more by %s.", d.Keys, kinds)
}

func stateWord(d *store.Declaration, cost int64, result *store.Result) string {
	switch {
	case result.Blocked:
		return "blocked"
	case !result.Allowed:
		return "denied"
	case result.Remaining-cost < result.Usual(&d.Rule)/10:
		return "near"
	}
	return "allowed"
}

// millis rounds up, so that waiting that long is long enough.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// stateWhy says in words what a limit's numbers mean for a key now.
func stateWhy(s *pageapi.State, rule *store.Rule, result *store.Result, window string) string {
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
		return "Blocked for another " + short(result.Window) + "."
	case s.State == "denied" && result.RetryAfter == 0:
		return fmt.Sprintf("A cost of %s never fits: the most is %s.", grouped(s.Cost), grouped(s.Burst))
	case result.Standing != store.Undivided:
		return shareWhy(s, result, window)
	case s.State == "denied":
		return fmt.Sprintf("%s. A cost of %s fits in %s%s.", used, grouped(s.Cost), short(result.RetryAfter), wait(result.ResetAfter, ", the whole limit in %s"))
	case s.Used == 0:
		return "Nothing used now."
	}
	return fmt.Sprintf("%s. %s left%s.", used, grouped(s.Remaining), wait(result.ResetAfter, "; the whole limit is back in %s"))
}

// sumUp says in one sentence what happens to the client's next request.
func sumUp(k *pageapi.Key) {
	k.State = "unknown"
	for i := range k.Limits {
		l := &k.Limits[i]
		switch {
		case l.State == "unknown":
		case l.Shadow:
			if k.State == "unknown" {
				k.State, k.Summary = "allowed", "Allowed now."
			}
			switch {
			case l.State == "denied" || l.State == "blocked":
				k.Summary = fmt.Sprintf("Allowed now, but %s would deny it if it were enforced.", l.Limit)
			case l.Minute != nil && l.Minute.WouldDeny > 0:
				k.Summary = fmt.Sprintf("Allowed at this moment, but %s would have denied it %s times in the last minute if it were enforced.", l.Limit, grouped(l.Minute.WouldDeny))
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
func shadowLast(s pageapi.State) int {
	if s.Shadow {
		return 1
	}
	return 0
}

// rank orders states, the worst first.
func rank(state string) int {
	return slices.Index([]string{"blocked", "denied", "near", "allowed", "unknown"}, state)
}
