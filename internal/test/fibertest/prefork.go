package fibertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// preforkAddr is set where this program is to serve with Prefork, on that address.
const preforkAddr = "WEBLIMIT_TEST_PREFORK"

// Main runs the tests of an adapter. In a process that was started for Prefork it serves an application
// that counts in memory. It returns the exit code for os.Exit.
func Main[C Ctx[C]](m *testing.M, f Framework[C]) int {
	addr := os.Getenv(preforkAddr)
	if addr == "" {
		return limittest.Main(m)
	}
	app := f.App(Options[C]{Prefork: true})
	app.Use("", f.Limit(core.NewMemory(), core.PerDay(1).By(keyfuncs.Everyone())))
	if err := app.Listen(addr); err != nil {
		fmt.Fprintln(os.Stderr, "the server ended:", err)
		return 3
	}
	return 0
}

// refusal is how a function of the adapter refuses a limiter in a process of Prefork.
func (s suite[C]) refusal(function string) string {
	return "weblimit: " + s.f.Name() + "." + function + ": the limiter counts in memory, and with Prefork each process would by itself"
}

// Fiber's parent process never serves; its children do, and don't start.
func (s suite[C]) preforkDoesNotStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	program := exec.CommandContext(ctx, os.Args[0])
	program.Env = append(os.Environ(), preforkAddr+"=127.0.0.1:0")
	program.WaitDelay = 5 * time.Second
	output, err := program.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the program has not failed: %v, %s", err, output)
	}
	for _, want := range []string{s.refusal("New"), "the server ended: "} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the program said %s\nwant %s", output, want)
		}
	}
}

// embedded is a store in memory within another.
type embedded struct{ *core.Memory }

// shared is a store that does not say that it counts in this process.
type shared struct {
	core.Store
	registry store.Registry
}

func (s *shared) Registry() *store.Registry { return &s.registry }

// Not parallel: it sets the variable by which Fiber knows a child.
func (s suite[C]) childOfPrefork(t *testing.T) {
	says := func(f func()) (said string) {
		defer func() {
			if value := recover(); value != nil {
				said = fmt.Sprint(value)
			}
		}()
		f()
		return ""
	}
	limit := func(store core.Store) func() {
		return func() { s.f.Limit(store, core.PerDay(1).By(keyfuncs.Everyone())) }
	}
	inMemory := func() []core.Store {
		return []core.Store{core.NewMemory(), embedded{core.NewMemory()}, struct{ core.Store }{core.NewMemory()}}
	}
	for _, store := range inMemory() {
		check.Equal(t, "without Prefork", says(limit(store)), "")
	}
	t.Setenv(s.f.PreforkVariable(), "1")
	for _, store := range inMemory() {
		if said := says(limit(store)); !strings.HasPrefix(said, s.refusal("New")) {
			t.Errorf("with Prefork: %v", said)
		}
	}
	guard := func() { s.f.With(core.Config{Store: core.NewMemory()})(core.PerDay(1)) }
	if said := says(guard); !strings.HasPrefix(said, s.refusal("Settings.Guard")) {
		t.Errorf("a guard with Prefork: %v", said)
	}
	check.Equal(t, "with a shared store", says(limit(&shared{Store: core.NewMemory()})), "")
}
