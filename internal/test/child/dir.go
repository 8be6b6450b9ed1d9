package child

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Dir makes a folder whose name leaves room for that of a unix socket in it, and removes it after the test.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "w"))(tb)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
