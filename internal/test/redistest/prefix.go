package redistest

import (
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"testing"
)

// prefixes counts the calls of Prefix, so that a test run again (-count) gets another one.
var prefixes atomic.Uint64

// Prefix returns a key prefix that no other test of this binary has, and no other call: short,
// of [a-z0-9.:] only, hence without the braces of a hash tag. It begins with a hash of the
// test's name, and ends with a colon, so that none is a prefix of another.
func Prefix(tb testing.TB) string {
	tb.Helper()
	h := fnv.New32a()
	_, _ = h.Write([]byte(tb.Name())) // never fails
	return "t" + strconv.FormatUint(uint64(h.Sum32()), 36) + "." + strconv.FormatUint(prefixes.Add(1), 36) + ":"
}
