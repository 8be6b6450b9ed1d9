package stdhttp

import (
	"net/textproto"
	"strings"
)

// cookie returns the i-th valid cookie of a name, in the order of
// http.Request.Cookies, of which http.Request.Cookie takes the first: the limit must
// see the cookies that the application sees.
func cookie(lines []string, name string, i int) (value string, ok bool) {
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
			if !validCookieValue(value) {
				continue
			}
			if i == 0 {
				return value, true
			}
			i--
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
