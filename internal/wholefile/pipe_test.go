//go:build unix

package wholefile

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestAPipeIsNoFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(name, 0o600))
	check.Fails(t, "a pipe, whose writer never comes", check.ErrorOf(Read(t.Context(), name, 3)), "is not a regular file")
}
