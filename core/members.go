package core

import (
	"strconv"
	"strings"
)

// mergeMembers returns a list field that says what before and mine say. A member of mine whose
// name is in before takes the place of that one, unless keep reports that it stays.
func mergeMembers(before, mine string, keep func(name string) bool) string {
	merged := make([]byte, 0, len(before)+len(mine)+2)
	for rest := before; rest != ""; {
		var member string
		if member, rest = cutMember(rest); member == "" {
			continue
		}
		name := nameOf(member)
		if own := memberOf(mine, name); own != "" {
			if memberOf(string(merged), name) != "" {
				continue
			}
			if !keep(name) {
				member = own
			}
		}
		merged = append(separate(merged), member...)
	}
	for rest := mine; rest != ""; {
		var own string
		if own, rest = cutMember(rest); memberOf(before, nameOf(own)) == "" {
			merged = append(separate(merged), own...)
		}
	}
	return string(merged)
}

// memberOf returns the first member of a list field with that name, or "".
func memberOf(field, name string) string {
	for rest := field; rest != ""; {
		var member string
		if member, rest = cutMember(rest); nameOf(member) == name {
			return member
		}
	}
	return ""
}

// cutMember returns the first member of a list field, and the others. A comma in a string is no
// end of a member.
func cutMember(field string) (member, rest string) {
	end := endOf(field, ',')
	return strings.Trim(field[:end], " \t"), field[min(end+1, len(field)):]
}

// nameOf returns the item that a member begins with, such as "api" with its quotes.
func nameOf(member string) string { return strings.TrimRight(member[:endOf(member, ';')], " \t") }

// endOf returns the index of the first c outside of strings (RFC 9651, section 3.3.3), or the
// length of s.
func endOf(s string, c byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == c && !quoted:
			return i
		}
	}
	return len(s)
}

// keeps reports whether the RateLimit member of a limiter further out stays instead of d's own of
// the same name: if it has fewer units left, or as many for longer, and the limit does not deny.
func (d *Decision) keeps(own, old string) bool {
	name := nameOf(own)
	for i, results := 0, d.Results(); i < len(results); i++ {
		if r := &results[i]; !r.Allowed && !r.Shadow && r.Rule.Name == strings.Trim(name, `"`) {
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
