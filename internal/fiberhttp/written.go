package fiberhttp

// written are the beginnings of all response headers that core.Decision.SetHeaders writes or reads.
var written = [...]string{"Ratelimit", "Retry-After", "X-Ratelimit", "X-Quota", "Www-Authenticate"}

// IsWritten reports whether a response header may be one that limiters write. A response without any
// need not be asked for each of them.
func IsWritten(name []byte) bool {
	if len(name) < len("X-Quota") {
		return false
	}
	switch lower(name[0]) {
	case 'r', 'x', 'w':
		for _, begin := range written {
			if len(name) >= len(begin) && equalFold(name[:len(begin)], begin) {
				return true
			}
		}
	}
	return false
}
