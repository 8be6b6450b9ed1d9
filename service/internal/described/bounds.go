package described

import (
	"strings"
	"time"
)

// Bounds of what a check says, in bytes unless they say otherwise; docs/service/http.md has them. The service refuses what
// exceeds them, and its client knows that before it asks.
const (
	MaxKey    = 1024
	MaxMethod = 32
	MaxRoute  = 512
	MaxPath   = 8 << 10
	MaxName   = 128 // of a header, cookie, parameter or value
	MaxValue  = 8 << 10
	MaxLines  = 32  // values of one header, cookie or parameter
	MaxFields = 100 // values of all headers, of all cookies, or of all parameters; a search looks through all

	// MaxCost is the largest cost, far above what any limit has room for. Up to it, readers of JSON that keep
	// numbers as float64 read the number that was written.
	MaxCost = 1 << 53

	// MaxTime is the longest time of an outcome.
	MaxTime = 365 * 24 * time.Hour
)

// IsToken reports whether a text can be a method or the name of a header (RFC 9110, section 5.6.2).
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// IsPlain reports whether a text has no control characters, which would end in logs and metrics.
func IsPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}
