package stdhttp

import (
	"net/url"
	"strings"
)

// query returns the first value of a parameter, as url.Values.Get finds it: the
// limit must see the value that the application sees. Pairs with an invalid
// escape or a semicolon are no pairs. It allocates only where one is escaped.
func query(raw, name string) (value string, ok bool) {
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
		if value, ok = unescape(value); ok {
			return value, true
		}
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
