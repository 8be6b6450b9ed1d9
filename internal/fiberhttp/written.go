package fiberhttp

import "github.com/weblimit/weblimit/core"

// written are all response headers that core.Decision.SetHeaders writes or reads, by their length.
var written = func() (all [][]string) {
	for _, name := range core.ExposeHeaders() {
		for len(all) <= len(name) {
			all = append(all, nil)
		}
		all[len(name)] = append(all[len(name)], name)
	}
	return all
}()

// IsWritten reports whether a response header is one that limiters write. A response without any
// need not be asked for each of them.
func IsWritten(name []byte) bool {
	if len(name) >= len(written) {
		return false
	}
	for _, other := range written[len(name)] {
		if equalFold(name, other) {
			return true
		}
	}
	return false
}
