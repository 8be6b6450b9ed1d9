package child_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
)

// ending is a test that ends by a panic, in place of its goroutine.
type ending struct{ testing.TB }

func (ending) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestAServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "serves")
	s := child.Serve(t, exec.Command("sh", "-c", "echo hello; echo >'"+file+"'; exec sleep 1000"), func(string) error {
		_, err := os.Stat(file)
		return err
	})
	s.Kill()
	check.Equal(t, "what it has written", s.Log(), "hello\n")
}

// Nobody waits for minutes for a server that has ended.
func TestAServerThatDoesNotStartIsToldAtOnce(t *testing.T) {
	t.Parallel()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "exit status 3, before it served") {
			t.Error(said)
		}
	}()
	child.Serve(ending{t}, exec.Command("sh", "-c", "exit 3"), func(string) error { return errors.New("nobody answers") })
}
