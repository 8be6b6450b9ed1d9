package core

import (
	"cmp"
	"slices"
	"strings"
)

// crowded returns the values of RateLimit-Policy and RateLimit where not all limits that applied have room in
// them. Both name the same limits, in their order: the one that binds and those that deny first, then those with the fewest
// units remaining.
func (d *Decision) crowded() (policy, field string) {
	results := d.Results()
	order := make([]int, 0, len(results))
	for i := range results {
		if results[i].told() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(first(b == int(d.binding), a == int(d.binding)), first(results[a].Allowed, results[b].Allowed), cmp.Compare(results[a].Remaining, results[b].Remaining))
	})
	policies, fields := make([]string, len(results)), make([]string, len(results)) // by result; "" if not named
	inPolicy, inField := 0, 0                                                      // their bytes, with separators
	for _, i := range order {
		p, f := d.limiter.policies.of(results[i].Rule), string(results[i].appendRateLimit(nil))
		if inPolicy, inField = inPolicy+len(p)+2, inField+len(f)+2; max(inPolicy, inField) > maxField+2 {
			break
		}
		policies[i], fields[i] = p, f
	}
	unnamed := func(member string) bool { return member == "" }
	policy = strings.Join(slices.DeleteFunc(policies, unnamed), ", ")
	if d.asked() {
		field = strings.Join(slices.DeleteFunc(fields, unnamed), ", ")
	}
	return policy, field
}

// first compares two conditions: the one that is false comes first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
