package stdhttp

import (
	"net/url"
	"strings"
)

// query returns the i-th value of a parameter, in the order of url.Values, of which
// Get takes the first: the limit must see the values that the application sees.
// Pairs with an invalid escape or a semicolon are no pairs. It allocates only where
// one is escaped.
func query(raw, name string, i int) (value string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" || strings.IndexByte(pair, ';') >= 0 {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if key, ok = unescape(key); !ok || key != name {
			continue
		}
		if value, ok = unescape(value); !ok {
			continue
		}
		if i == 0 {
			return value, true
		}
		i--
	}
	return "", false
}

func unescape(s string) (string, bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, true
	}
	s, err := url.QueryUnescape(s)
	return s, err == nil
}
