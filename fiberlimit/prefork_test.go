package fiberlimit_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// preforkAddr is set where this program is to serve with Prefork, on that address.
const preforkAddr = "WEBLIMIT_TEST_PREFORK"

// servePrefork is an application that counts in memory.
func servePrefork(addr string) {
	app := fiber.New(fiber.Config{Prefork: true, DisableStartupMessage: true})
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerDay(1).By(keyfuncs.Everyone())))
	if err := app.Listen(addr); err != nil {
		fmt.Fprintln(os.Stderr, "the server ended:", err)
		os.Exit(3)
	}
}

const refusesPrefork = "weblimit: fiberlimit.New: the limiter counts in memory, and with Prefork each process would by itself"

// Trap 60. Fiber's parent process never serves; its children do, and don't start.
func TestTrap60PreforkWithLimitsInMemoryDoesNotStart(t *testing.T) {
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
	for _, want := range []string{refusesPrefork, "the server ended: "} {
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
func TestTrap60InAChildOfPrefork(t *testing.T) {
	limit := core.PerDay(1).By(keyfuncs.Everyone())
	build := func(store core.Store) (said any) {
		defer func() { said = recover() }()
		fiberlimit.Limit(store, limit)
		return nil
	}
	for _, store := range []core.Store{core.NewMemory(), embedded{core.NewMemory()}, struct{ core.Store }{core.NewMemory()}} {
		if said := build(store); said != nil {
			t.Errorf("without Prefork: %v", said)
		}
	}
	t.Setenv("FIBER_PREFORK_CHILD", "1")
	for _, store := range []core.Store{core.NewMemory(), embedded{core.NewMemory()}, struct{ core.Store }{core.NewMemory()}} {
		if said, _ := build(store).(string); !strings.HasPrefix(said, refusesPrefork) {
			t.Errorf("with Prefork: %v", said)
		}
	}
	func() {
		defer func() {
			if said, _ := recover().(string); !strings.HasPrefix(said, strings.Replace(refusesPrefork, ".New:", ".Settings.Guard:", 1)) {
				t.Errorf("a guard with Prefork: %v", said)
			}
		}()
		fiberlimit.With(core.Config{Store: core.NewMemory()}).Guard(core.PerDay(1))
	}()
	if said := build(&shared{Store: core.NewMemory()}); said != nil {
		t.Errorf("with a shared store: %v", said)
	}
}
