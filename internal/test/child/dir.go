package child

import (
	"os"
	"testing"
)

// Dir makes a folder whose name leaves room for that of a unix socket in it, and removes it after the test.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "w")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
