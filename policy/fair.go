package policy

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// fair has clients divide a limit.
func (s *scope) fair(l core.Limit, n *node) core.Limit {
	shares := core.Shares{By: s.key(n.get("by")), Guaranteed: n.get("guaranteed").integer()}
	if within := n.get("within"); within != nil {
		shares.Within = s.key(within)
	}
	of, written := n.get("of"), n.get("shares")
	switch {
	case of == nil && written == nil:
		if guaranteed := n.get("guaranteed"); guaranteed != nil {
			s.add(guaranteed, "nobody has a minimum: write of and shares, as in {of: plan, shares: {pro: {minimum: 100}}}")
			shares.Guaranteed = 0
		}
	case of == nil:
		s.add(written, "nothing chooses among shares: write of, as in {of: plan, shares: {pro: {weight: 4}}}")
		shares.Guaranteed = 0
	case written == nil:
		s.add(of, "there is nothing to choose: write shares, as in {of: plan, shares: {pro: {weight: 4}}}")
		shares.Guaranteed = 0
	default:
		shares.Of = s.shares(l, of, written, shares.Guaranteed)
	}
	return l.Fair(shares)
}

// shares returns the function that chooses among the shares of a limit.
func (s *scope) shares(l core.Limit, of, n *node, guaranteed int64) func(keyfuncs.Request) core.Share {
	by, minimum := s.value(of), int64(0)
	rule, err := l.Rule() // an error is told later
	concurrent := isConcurrent(l)
	known := make(map[string]core.Share, len(n.fields))
	for i := range n.fields {
		written := n.fields[i].value
		share := core.Share{Weight: written.get("weight").integer(), Minimum: written.get("minimum").integer(), Maximum: written.get("maximum").integer()}
		minimum = max(minimum, share.Minimum)
		switch {
		case concurrent && share.Minimum+share.Maximum > 0:
			s.add(written, "clients of a limit of concurrent requests have a weight only: it says who of those who wait comes next")
		case share.Minimum > guaranteed:
			s.add(written.get("minimum"), "a minimum of %d units needs as many guaranteed, and %d are", share.Minimum, guaranteed)
		case share.Maximum > 0 && share.Maximum < share.Minimum:
			s.add(written.get("maximum"), "a client can use %d units at most, and a minimum of %d", share.Maximum, share.Minimum)
		}
		if err == nil && !concurrent && share.Maximum >= rule.Quota {
			s.add(written.get("maximum"), "the limit itself is %d units: write less, or leave it out", rule.Quota)
		}
		known[n.fields[i].key.text] = share
	}
	if guaranteed > 0 && minimum == 0 {
		s.add(n, "%d units are guaranteed, and no share has a minimum", guaranteed)
	}
	return func(r keyfuncs.Request) core.Share { return known[by(r)] }
}
