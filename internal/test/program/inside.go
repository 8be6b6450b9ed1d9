package program

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// Inside runs a program by its function run in this process, on a free port, with an environment. It returns what
// the program has printed once that has the text last. stop ends the program, which has to be no error; so does the
// end of the test.
func Inside(t *testing.T, run func(context.Context, func(string) string, io.Writer) error, env map[string]string, last string) (printed string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out child.Output
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, func(name string) string {
			if value, set := env[name]; set || name != "ADDR" {
				return value
			}
			return "127.0.0.1:0"
		}, &out)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("it has not stopped two minutes later")
		}
	})
	t.Cleanup(stop)
	wait.Until(t, "it prints "+last, func() bool { return strings.Contains(out.String(), last) })
	return out.String(), stop
}
