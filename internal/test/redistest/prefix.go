package redistest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// prefixes counts the calls of Prefix, so that a test run again (-count) gets another one.
var prefixes atomic.Uint64

// process tells the prefixes of one test process from those of another, which may use the same server: by its
// number, and by a random one, since a test may run in a machine of its own.
var process = strconv.FormatInt(int64(os.Getpid()), 36) + "." + strconv.FormatUint(uint64(rand.Uint32()), 36)

// Prefix returns a short key prefix that no other call returns, in this process or in another one. It consists
// of [a-z0-9.:], so it has no braces of a hash tag. It ends with a colon, so no prefix begins with another.
func Prefix(tb testing.TB) string {
	tb.Helper()
	return "t" + process + "." + strconv.FormatUint(prefixes.Add(1), 36) + ":"
}
