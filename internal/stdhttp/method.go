package stdhttp

import "net/http"

// TakesMethod reports whether a route that was registered for one method, or for all by "", "*" or "ANY",
// answers requests with another. The latter is "" for any. GET answers HEAD.
func TakesMethod(registered, method string) bool {
	switch registered {
	case "", "*", "ANY", method:
		return true
	}
	return method == "" || method == http.MethodHead && registered == http.MethodGet
}
