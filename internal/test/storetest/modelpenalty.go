package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// modelPenalty is the penalty record of one key under one limit with a Block.
type modelPenalty struct {
	strikes []int64 // times of denials; they count until their window ends
	window  int64   // end of the window that the first strike began
	since   int64   // beginning of the last block, until another strike counts
	until   int64   // end of the last block
	level   int64   // number of blocks
	gone    int64   // time at which the record is forgotten
}

func micros(d time.Duration) int64 { return d.Microseconds() }

// penalty returns the record as of now. The caller may change it.
func (m *model) penalty(rule *core.Rule, key string, now int64) modelPenalty {
	p := m.penalties[key+"|"+rule.Name]
	if p.gone <= now {
		return modelPenalty{}
	}
	p.strikes = slices.Clone(p.strikes)
	// If the clock was set back, nothing lasts longer than if it began now.
	if len(p.strikes) > 0 {
		p.until = min(p.until, now) // no strikes are counted during a block
		p.window = min(p.window, now+micros(rule.Block.Within))
	} else if p.since > now {
		p.since, p.until = now, now+p.until-p.since
	}
	if p.window <= now {
		p.strikes, p.window = nil, 0
	}
	if p.until+micros(rule.Block.Max) <= now {
		p.level = 0
	}
	return p
}

// modelManual is a block by hand under a limit without a Block.
type modelManual struct{ since, until int64 }

// manual returns the block by hand of a key as of now; its until is 0 if there is none.
func (m *model) manual(c *core.Check, now int64) modelManual {
	b := m.manuals[string(c.Key)+"|"+c.Rule.Name]
	switch {
	case b.until <= now:
		return modelManual{}
	case b.since > now: // the clock was set back
		return modelManual{now, now + b.until - b.since}
	}
	return b
}

// bringBack stores the records as they are now, if the clock was set back since they were written.
func (m *model) bringBack(c *core.Check, now int64) {
	if b := m.manual(c, now); b.until > 0 {
		m.manuals[string(c.Key)+"|"+c.Rule.Name] = b
	}
	if !c.Rule.Penalized() {
		return
	}
	was, stored := m.penalties[string(c.Key)+"|"+c.Rule.Name]
	if p := m.penalty(c.Rule, string(c.Key), now); stored && was.gone > now && (p.until < was.until || len(p.strikes) > 0 && p.window < was.window) {
		m.keep(c.Rule, string(c.Key), p)
	}
}

// keep stores a record for as long as it has an effect.
func (m *model) keep(rule *core.Rule, key string, p modelPenalty) {
	p.gone = max(p.until, p.window)
	if p.level > 0 {
		p.gone = max(p.gone, p.until+micros(rule.Block.Max))
	}
	m.penalties[key+"|"+rule.Name] = p
}

// blocked returns for how long a check is blocked.
func (m *model) blocked(c *core.Check, now int64) int64 {
	if c.Cost == 0 {
		return 0
	}
	until := m.manual(c, now).until
	if c.Rule.Penalized() {
		until = max(until, m.penalty(c.Rule, string(c.Key), now).until)
	}
	return max(until-now, 0)
}

// strike counts a denial of a check that is not blocked. It returns the length of the
// block that follows, 0 if there is none.
func (m *model) strike(c *core.Check, now int64) int64 {
	if !c.Rule.Penalized() {
		return 0
	}
	b, p := c.Rule.Block, m.penalty(c.Rule, string(c.Key), now)
	if p.strikes = append(p.strikes, now); len(p.strikes) == 1 {
		p.since = 0
		p.window = now + micros(b.Within)
	}
	if int64(len(p.strikes)) >= b.After {
		length := micros(b.For)
		for range p.level {
			length = min(length*b.Factor, micros(b.Max))
		}
		p = modelPenalty{since: now, until: now + length, level: p.level + 1}
	}
	m.keep(c.Rule, string(c.Key), p)
	return max(p.until-now, 0)
}

// block sets a block by hand.
func (m *model) block(c *core.Check, now int64, d time.Duration) {
	id := string(c.Key) + "|" + c.Rule.Name
	if !c.Rule.Penalized() {
		m.manuals[id] = modelManual{now, now + micros(d)}
		return
	}
	delete(m.manuals, id)
	p := m.penalty(c.Rule, string(c.Key), now)
	m.keep(c.Rule, string(c.Key), modelPenalty{since: now, until: now + micros(d), level: p.level})
}

// lift removes what blocks a key under a rule.
func (m *model) lift(c *core.Check) {
	id := string(c.Key) + "|" + c.Rule.Name
	delete(m.manuals, id)
	if c.Rule.Penalized() {
		delete(m.penalties, id)
	}
}

// blocks lists the blocks in force under the rules.
func (m *model) blocks(rules []*core.Rule, now int64) []store.Blocked {
	var all []store.Blocked
	for name, b := range m.manuals {
		key, limit, _ := strings.Cut(name, "|")
		for _, rule := range rules {
			if rule.Name == limit && b.until > now {
				all = append(all, store.Blocked{Limit: limit, Key: key, Until: time.UnixMicro(b.until)})
			}
		}
	}
	for name := range m.penalties {
		key, limit, _ := strings.Cut(name, "|")
		for _, rule := range rules {
			if rule.Name != limit {
				continue
			}
			// As it was written: what is forgotten is so when the next check comes.
			if p := m.penalties[name]; p.until > now && p.gone > now {
				all = append(all, store.Blocked{Limit: limit, Key: key, Until: time.UnixMicro(p.until), Level: p.level})
			}
		}
	}
	return sortBlocked(all)
}

func sortBlocked(all []store.Blocked) []store.Blocked {
	slices.SortFunc(all, func(a, b store.Blocked) int {
		return cmp.Or(strings.Compare(a.Limit, b.Limit), strings.Compare(a.Key, b.Key), a.Until.Compare(b.Until), cmp.Compare(a.Level, b.Level))
	})
	return all
}

// answerBlocked turns the result of a limit into that of a blocked check.
func answerBlocked(r core.Result, left int64, fits bool) core.Result {
	wait := max(r.RetryAfter, time.Duration(left)*time.Microsecond)
	blocked := core.Result{Blocked: true, Window: wait, ResetAfter: max(r.ResetAfter, wait), At: r.At, Unknown: r.Unknown, Standing: r.Standing, Share: r.Share}
	if fits {
		blocked.RetryAfter = wait
	}
	return blocked
}
