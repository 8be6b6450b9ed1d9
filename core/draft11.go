package core

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/weblimit/weblimit/internal/seam"
)

func (d *Decision) setDraft11(h Header, style *headerStyle, room *seam.HeaderRoom) {
	policy := style.policy
	switch {
	case style.varies:
		policy = d.policies()
	case d.Err != nil && d.asked():
		policy = d.outagePolicies(policy)
	}
	if room == nil {
		room = new(seam.HeaderRoom)
	}
	field := ""
	if d.asked() {
		field = d.rateLimit(room)
	}
	if len(policy) > maxField || len(field) > maxField {
		policy, field = d.crowded()
	}
	m, isMap := h.(seam.HeaderMap)
	if !isMap || len(m) > 0 && (len(m[headerPolicy]) > 0 || len(m[headerLimit]) > 0) {
		d.addDraft11(h, policy, field)
		return
	}
	// Each response has values of its own: handlers and middleware may change them in place.
	if policy != "" {
		room.Policy[0] = policy
		m[headerPolicy] = room.Policy[:]
	}
	if field != "" {
		room.Limit[0] = field
		m[headerLimit] = room.Limit[:]
	}
}

// addDraft11 adds the members of the two fields to what they have already. Each name is there once:
// of two limits of one name both fields show the same.
func (d *Decision) addDraft11(h Header, policy, field string) {
	if h, ok := h.(seam.Unwritten); ok {
		if policy != "" {
			h.Append(headerPolicy, policy)
		}
		if field != "" {
			h.Append(headerLimit, field)
		}
		return
	}
	policies, fields := listOf(h, headerPolicy), listOf(h, headerLimit)
	if policies == "" && fields == "" || !d.limiter.mayName(policies) && !d.limiter.mayName(fields) {
		addList(h, headerPolicy, policies, policy)
		addList(h, headerLimit, fields, field)
		return
	}
	setList(h, headerPolicy, mergeMembers(policies, policy, func(name string) bool {
		own := memberOf(field, name)
		return own == "" || d.keeps(own, memberOf(fields, name))
	}))
	setList(h, headerLimit, mergeMembers(fields, field, func(name string) bool {
		return d.keeps(memberOf(field, name), memberOf(fields, name))
	}))
}

// mayName reports whether a field of draft-11 may have a member with the name of one of l's limits.
// It is cheap and, where a name is part of something else, too careful.
func (l *Limiter) mayName(field string) bool {
	for i := range l.limits {
		if strings.Contains(field, l.limits[i].rule.Name) {
			return true
		}
	}
	if l.fallback != nil {
		for i := range l.fallback.limits {
			if strings.Contains(field, l.fallback.limits[i].rule.Name) {
				return true
			}
		}
	}
	return false
}

// rateLimit returns the value of the RateLimit field. Most values fit in the room and are made
// without an allocation. The bytes there don't change before the room is used for another response.
func (d *Decision) rateLimit(room *seam.HeaderRoom) string {
	if d.count == 1 && len(d.one[0].Rule.Name) <= len(room.Text)/2 {
		field := d.appendRateLimit(room.Text[:0])                 // a longer one is allocated
		return unsafe.String(unsafe.SliceData(field), len(field)) //nolint:gosec // G103: never written again, see above
	}
	var buf [128]byte
	field := d.appendRateLimit(buf[:0])
	if len(field) > len(room.Text) {
		return string(field)
	}
	return unsafe.String(&room.Text[0], copy(room.Text[:], field)) //nolint:gosec // G103: never written again, see above
}

func (d *Decision) appendRateLimit(dst []byte) []byte {
	results := d.Results()
	for i := range results {
		if r := &results[i]; r.told() {
			dst = r.appendRateLimit(separate(dst))
		}
	}
	return dst
}

// policies returns the value of RateLimit-Policy if it depends on the request, or on an outage. For
// a single limit it is cached.
func (d *Decision) policies() string {
	var enforced *Rule
	var buf [256]byte
	all := buf[:0]
	for i, results := 0, d.Results(); i < len(results); i++ {
		rule := results[i].Rule
		if !results[i].told() {
			continue
		}
		if enforced == nil {
			enforced = rule
			continue
		}
		if len(all) == 0 {
			all = append(all, d.limiter.policies.of(enforced)...)
		}
		all = append(separate(all), d.limiter.policies.of(rule)...)
	}
	switch {
	case len(all) > 0:
		return string(all)
	case enforced != nil:
		return d.limiter.policies.of(enforced)
	}
	return ""
}

// outagePolicies returns the value of RateLimit-Policy in an outage: the numbers of the limits that
// decide, which are shares or those of Config.Fallback, beside limits that only let requests pass.
func (d *Decision) outagePolicies(declared string) string {
	deciding := d.policies()
	f := d.limiter.fallback
	if int(d.count) == len(d.limiter.limits) || f != nil && len(f.limits) > 0 {
		return deciding
	}
	return mergeMembers(declared, deciding, func(string) bool { return false })
}

// keeps reports whether the RateLimit member of a limiter further out stays instead of d's own of
// the same name: if it has fewer units left, or as many for longer, and the limit does not deny.
func (d *Decision) keeps(own, old string) bool {
	name := nameOf(own)
	for i, results := 0, d.Results(); i < len(results); i++ {
		if r := &results[i]; !r.Allowed && r.Enforced() && r.Rule.Name == strings.Trim(name, `"`) {
			return false
		}
	}
	before, known := parameter(old, paramRemaining)
	now, _ := parameter(own, paramRemaining)
	if !known || before != now {
		return known && before < now
	}
	before, known = parameter(old, paramEffective)
	now, _ = parameter(own, paramEffective)
	return known && before >= now
}

// parameter returns the integer that follows key, such as ";r=", in a member.
func parameter(member, key string) (int64, bool) {
	_, value, found := strings.Cut(member, key)
	if !found {
		return 0, false
	}
	value, _, _ = strings.Cut(value, ";")
	n, err := strconv.ParseInt(strings.TrimRight(value, " \t"), 10, 64)
	return n, err == nil
}
