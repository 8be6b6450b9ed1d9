package weblimittest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes failures instead of failing. Cleanups run with run.
type recorder struct {
	testing.TB
	failures, logs []string
	cleanups       []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return len(r.failures) > 0 }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)  { r.logs = append(r.logs, fmt.Sprint(args...)) }
func (r *recorder) Errorf(text string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(text, args...))
}

func (r *recorder) Fatalf(text string, args ...any) {
	r.Errorf(text, args...)
	runtime.Goexit()
}

// record runs a test and returns what it fails with, and what it logs.
func record(t *testing.T, test func(testing.TB)) (failures, logs string) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range r.cleanups {
				f()
			}
		}()
		test(r)
	}()
	<-done
	return strings.Join(r.failures, "\n"), strings.Join(r.logs, "\n")
}
