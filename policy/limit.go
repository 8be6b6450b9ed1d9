package policy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/keyfuncs"
)

// limit returns the limit of a node. group holds for the requests that it is for; it is nil for all.
func (s *scope) limit(name string, n *node, group *keyfuncs.Condition, shadow bool) core.Limit {
	l, err := core.ParseLimit(n.get("limit").text)
	if err != nil { // the shape has checked it
		s.add(n.get("limit"), "%s", unprefixed(err))
		return l
	}
	l = s.applies(l.Named(name).By(s.key(n.get("by"))), n, group)
	if outage := n.get("on_outage"); outage != nil && !s.chosen[name] {
		l = l.OnOutage(core.OutageAction(slices.Index(outages, outage.text)))
	}
	l = s.cost(l, n)
	l = regions(s.use(l, n), n)
	if fair := n.get("fair"); fair != nil {
		l = s.fair(l, fair)
	}
	if !s.chosen[name] && (shadow || n.get("shadow").isTrue()) {
		l = l.Shadow()
	}
	if n.get("hidden").isTrue() {
		l = l.Hidden()
	}
	if status := n.get("status"); status != nil {
		l = l.Status(int(status.integer()))
	}
	if _, err := l.Rule(); err != nil {
		s.add(n, "%s", unprefixed(err))
	}
	if tiers := n.get("tiers"); tiers != nil {
		l = l.Tiers(s.tiers(l, tiers, n.get("cost")))
	}
	return l
}

// applies says which requests a limit is for, and what becomes of those that can't be asked of it.
func (s *scope) applies(l core.Limit, n *node, group *keyfuncs.Condition) core.Limit {
	if group != nil {
		l = l.When(*group)
	}
	if when := n.get("when"); when != nil {
		l = l.When(s.condition(when))
	}
	if unless := n.get("unless"); unless != nil {
		l = l.Unless(s.condition(unless))
	}
	if missing := n.get("on_missing_key"); missing != nil {
		l = l.OnMissingKey(core.MissingKey(slices.Index(missingKeys, missing.text)))
	}
	return l
}

// regions says how a limit counts over regions.
func regions(l core.Limit, n *node) core.Limit {
	if mode := n.get("regions"); mode != nil {
		l = l.Regions(core.RegionMode(indexOf(regionModes, mode.text)))
	}
	if overdraft := n.get("overdraft"); overdraft != nil {
		l = l.Overdraft(overdraft.integer())
	}
	return l
}

// use says what changes with how much of a limit is used, or was.
func (s *scope) use(l core.Limit, n *node) core.Limit {
	if kept := n.get("keep_free"); kept != nil {
		l = l.KeepFree(kept.get("share").number(), s.condition(kept.get("for")))
	}
	if written := n.get("classes"); written != nil {
		l = s.classes(l, written)
	}
	if slow := n.get("slow_down"); slow != nil {
		l = l.SlowDown(slow.get("from").number(), span(slow.get("up_to")))
	}
	if warn := n.get("warn_at"); warn != nil {
		at := make([]float64, len(warn.items))
		for i, item := range warn.items {
			at[i] = item.number()
		}
		l = l.WarnAt(at...)
	}
	if p := n.get("penalty"); p != nil {
		l = l.Penalty(core.Block{
			After: p.get("after").integer(), Within: span(p.get("within")), For: span(p.get("for")),
			Factor: p.get("factor").integer(), Max: span(p.get("max")),
		})
	}
	if scale := n.get("scale"); scale != nil {
		l = l.Scale(s.scale(scale))
	}
	return l
}

// classes divides the requests of a limit.
func (s *scope) classes(l core.Limit, n *node) core.Limit {
	all := make([]core.Class, len(n.items))
	for i, item := range n.items {
		all[i].Name = item.get("name").text
		if when := item.get("when"); when != nil {
			all[i].When = s.condition(when)
		}
		if keep := item.get("keep"); keep != nil {
			all[i].Keep = keep.number()
		}
	}
	if len(all) == 0 {
		return l.Classes(core.Class{}) // which says that there are too few
	}
	return l.Classes(all[0], all[1:]...)
}

// span returns the duration of a checked node, or 0 if it is not there.
func span(n *node) time.Duration {
	d, _ := parseDuration(n.string())
	return d
}

// cost says what a request costs, and when it costs nothing.
func (s *scope) cost(l core.Limit, n *node) core.Limit {
	if cost := n.get("cost"); cost != nil {
		l = l.Cost(cost.integer())
	}
	if by := n.get("cost_by"); by != nil {
		l = l.CostBy(s.costOf(by))
	}
	if estimate := n.get("estimate"); estimate != nil {
		l = l.Estimate(estimate.integer())
	}
	if by := n.get("estimate_by"); by != nil {
		l = l.EstimateBy(s.costOf(by))
	}
	if n.get("up_to_burst").isTrue() {
		l = l.UpToBurst()
	}
	if n.get("spill_over").isTrue() {
		l = l.SpillOver()
	}
	if once := n.get("once_per"); once != nil {
		l = l.OncePer(s.key(once.get("key")), span(once.get("for")))
		if repeats := once.get("repeats"); repeats != nil {
			l = l.Repeats(repeats.integer())
		}
	}
	if on := n.get("refund_on"); on != nil {
		l = l.RefundOn(refundOn(on.texts()))
	}
	return l
}

// costOf returns a cost function of the application.
func (s *scope) costOf(n *node) func(keyfuncs.Request) int64 {
	if given, ok := s.options.Costs[n.text]; ok {
		return given
	}
	if s.options.AnyName {
		name := n.text
		return func(r keyfuncs.Request) int64 {
			switch cost := r.Value(name).(type) {
			case int64:
				return cost
			case int:
				return int64(cost)
			}
			return 1
		}
	}
	s.unknown(n, "cost", "Costs", namesOf(s.options.Costs))
	// A cost below 0 denies: should the file ever be used, nothing passes for free.
	return func(keyfuncs.Request) int64 { return -1 }
}

func (s *scope) scale(n *node) func(context.Context) float64 {
	if given, ok := s.options.Scales[n.text]; ok {
		return given
	}
	if !s.options.AnyName {
		s.unknown(n, "scale", "Scales", namesOf(s.options.Scales))
	}
	return func(context.Context) float64 { return 1 }
}

// refundOn refunds after any of the outcomes.
func refundOn(words []string) func(core.Outcome) bool {
	on := make([]func(core.Outcome) bool, len(words))
	for i, word := range words {
		on[i] = refunds[slices.Index(refundWords, word)]
	}
	if len(on) == 1 {
		return on[0]
	}
	return func(o core.Outcome) bool {
		return slices.ContainsFunc(on, func(f func(core.Outcome) bool) bool { return f(o) })
	}
}

// tiers returns the function that chooses among the tiers of a limit.
func (s *scope) tiers(l core.Limit, n, cost *node) func(keyfuncs.Request) core.Limit {
	by, written := s.value(n.get("by")), n.get("limits")
	known := make(map[string]core.Limit, len(written.fields))
	for i := range written.fields {
		value, text := written.fields[i].key.text, written.fields[i].value
		tier, err := core.ParseLimit(text.text)
		switch {
		case err != nil: // the shape has checked it
			s.add(text, "%s", unprefixed(err))
			continue
		case isConcurrent(tier) != isConcurrent(l):
			s.add(text, "%s: a tier counts concurrent requests if the limit does, and only then", spelling.Quote(text.text))
			continue
		case strings.Contains(tier.String(), " wait ") || strings.Contains(tier.String(), " leaky "):
			s.add(text, "%s: how long requests wait is the same for all tiers; write it in the limit itself", spelling.Quote(text.text))
			continue
		}
		if cost != nil {
			if _, err := tier.Cost(cost.integer()).Rule(); err != nil {
				s.add(text, "%s", unprefixed(err))
			}
		}
		known[value] = tier
	}
	return func(r keyfuncs.Request) core.Limit { return known[by(r)] }
}

func isConcurrent(l core.Limit) bool { return strings.HasPrefix(l.String(), "concurrent ") }
