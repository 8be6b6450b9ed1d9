package redistest

import (
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"testing"
)

// prefixes counts the calls of Prefix, so that a test run again (-count) gets another one.
var prefixes atomic.Uint64

// Prefix returns a short key prefix that no other call in this binary returns. It consists of
// [a-z0-9.:], so it has no braces of a hash tag. It begins with a hash of the test's name and
// ends with a colon, so no prefix begins with another.
func Prefix(tb testing.TB) string {
	tb.Helper()
	h := fnv.New32a()
	_, _ = h.Write([]byte(tb.Name())) // never fails
	return "t" + strconv.FormatUint(uint64(h.Sum32()), 36) + "." + strconv.FormatUint(prefixes.Add(1), 36) + ":"
}
