package stdhttp

import (
	"net/textproto"
	"strings"
)

// cookie returns the first valid cookie of a name, as http.Request.Cookie finds
// it: the limit must see the cookie that the application sees.
func cookie(lines []string, name string) (value string, ok bool) {
	if name == "" {
		return "", false
	}
	for _, line := range lines {
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ";")
			found, value, _ := strings.Cut(textproto.TrimString(part), "=")
			if textproto.TrimString(found) != name {
				continue
			}
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			if validCookieValue(value) {
				return value, true
			}
		}
	}
	return "", false
}

// validCookieValue reports whether net/http would not skip the cookie.
func validCookieValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
