package policy

import (
	"slices"

	"github.com/weblimit/weblimit/core"
)

// choices is the field of a policy that makes alternatives of some of its limits: core.First.
var choicesField = field{
	name: "choices", of: &list{of: &list{of: limitName, most: 100, unique: true}, most: 100},
	doc: "Lists of names of limits. Of each list the first limit with room for a request is charged, and none of the others: [[plan, credits]]. They need the same shadow and on_outage.",
}

// part is a limit of a policy before choices are made.
type part struct {
	limit  core.Limit
	node   *node
	shadow bool
	bad    bool // it has a problem, which is told already
}

// namesIn returns the names in a policy's choices.
func namesIn(n *node) map[string]bool {
	names := make(map[string]bool)
	if n != nil && !n.bad {
		for _, choice := range n.items {
			for _, name := range choice.texts() {
				names[name] = true
			}
		}
	}
	return names
}

// choose returns the limits of a policy, with each choice in the place of the first limit of it.
func (s *scope) choose(p *policy, n *node) []core.Limit {
	choice := make(map[string]int) // by the name of a limit, from 1
	made := []core.Limit{{}}       // the choices, behind the place of limits in none
	if n != nil && !n.bad {
		for _, item := range n.items {
			if l, ok := s.choiceOf(p, item, choice, len(made)); ok {
				made = append(made, l)
			}
		}
	}
	all := make([]core.Limit, 0, len(p.parts))
	placed := make([]bool, len(made))
	for _, name := range p.order {
		number := choice[name]
		switch {
		case number == 0:
			all = append(all, p.parts[name].limit)
		case number < len(made) && !placed[number]:
			all, placed[number] = append(all, made[number]), true
		}
	}
	return all
}

// choiceOf makes one choice. It notes its number for each limit in it.
func (s *scope) choiceOf(p *policy, n *node, choice map[string]int, number int) (_ core.Limit, ok bool) {
	if len(n.items) < 2 {
		s.add(n, "a choice needs two limits or more")
		return core.Limit{}, false
	}
	limits := make([]core.Limit, len(n.items))
	first := p.parts[n.items[0].text]
	for i, item := range n.items {
		part, known := p.parts[item.text]
		switch {
		case part.bad:
			return core.Limit{}, false
		case !known:
			s.add(item, "the policy has no limit of this name")
			return core.Limit{}, false
		case choice[item.text] != 0:
			s.add(item, "this limit is in another choice already")
			return core.Limit{}, false
		case part.shadow != first.shadow:
			s.add(n, "either all limits of a choice are in shadow mode, or none")
			return core.Limit{}, false
		case part.node.get("on_outage").string() != first.node.get("on_outage").string():
			s.add(n, "all limits of a choice need the same on_outage")
			return core.Limit{}, false
		}
		limits[i], choice[item.text] = part.limit, number
	}
	l := core.First(limits...)
	if first.shadow {
		l = l.Shadow()
	}
	if outage := first.node.get("on_outage"); outage != nil {
		l = l.OnOutage(core.OutageAction(slices.Index(outages, outage.text)))
	}
	return l, true
}
