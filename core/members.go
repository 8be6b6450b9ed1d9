package core

import (
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
