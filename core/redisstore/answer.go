package redisstore

import (
	"slices"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// answerGuarded is answer for a part in which penalties guard checks: it was
// decided for itself alone.
func (p *part) answerGuarded(checks []store.Check, results []store.Result) {
	granted := 1
	for i, a := range p.answers(checks) {
		of := i
		if i < 0 {
			of = ^i // a penalty that is a block denies what it guards
		}
		if !checks[of].Shadow {
			granted = min(granted, p.fit(a, &checks[of]))
		}
	}
	if p.judges {
		granted = 0
	}
	p.granted = p.Op == take && granted > 0
	for i, a := range p.answers(checks) {
		if i >= 0 {
			results[i] = p.result(a, &checks[i], granted, p.blocked(checks, i))
		}
	}
}

// answers yields the script's answer to each check i, and to its penalty for ^i,
// and leaves out holds.
func (p *part) answers(checks []store.Check) func(yield func(i int, a script.Answer) bool) {
	return func(yield func(int, script.Answer) bool) {
		var a script.Answer
		left := p.reply
		for _, i := range p.Checks {
			if a, left = p.Cut(left, i, checks); i != script.Hold && !yield(i, a) {
				return
			}
		}
	}
}

// blocked returns for how many microseconds the key of a check is blocked.
func (p *part) blocked(checks []store.Check, check int) int64 {
	if !slices.Contains(p.Checks, ^check) {
		return 0
	}
	for i, a := range p.answers(checks) {
		if i == ^check {
			return a.Number(0)
		}
	}
	return 0
}
