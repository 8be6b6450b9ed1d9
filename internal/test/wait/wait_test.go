package wait_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// ending is a test that ends by a panic, in place of its goroutine.
type ending struct{ testing.TB }

func (ending) Helper()                           {}
func (ending) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestWaits(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]any{
		0:           nil,
		time.Minute: nil,
		time.Hour:   "3m0s later it does not hold that an hour is over: not yet",
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			defer func() {
				check.Equal(t, fmt.Sprint("what is reported of ", after), recover(), want)
				if late := time.Since(began) - after; want == nil && late > time.Second {
					t.Errorf("it is noticed %v later", late)
				}
			}()
			over := func() bool { return time.Since(began) >= after }
			wait.For(ending{t}, "an hour is over", func() error {
				if !over() {
					return errors.New("not yet")
				}
				return nil
			})
			wait.Until(ending{t}, "an hour is over", over)
		})
	}
}
