package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// In an overload the capacity shrinks, and it is the heavy client whose requests are shed.
func TestOverloadShedsTheHeavyClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 100})
		l := limiterOn(t, core.NewMemory(), core.PerSecond(400).By(keyfuncs.Everyone()).Named("capacity").Scale(load.Factor).Fair(core.Shares{By: byClient}))
		busy := begin(load, 4, 100) // far above what the service can take
		defer func() { end(busy) }()
		after(t, load, 40)
		check.Equal(t, "the factor, its floor", load.Factor(t.Context()), 0.25)
		shed, lightDenied, light := 0, 0, 0
		for tick := range 5000 { // of a millisecond: 100 a second are left
			if tick%20 == 0 { // 50 a second of 25 clients
				light++
				if !l.Allow(client(fmt.Sprint(tick / 20 % 25))).Allowed {
					lightDenied++
				}
			}
			if tick%5 == 0 && !l.Allow(client("heavy")).Allowed { // 200 a second
				shed++
			}
			time.Sleep(time.Millisecond)
		}
		check.Equal(t, fmt.Sprintf("of %d requests of light clients, denied", light), lightDenied, 0)
		if shed < 600 || shed > 800 {
			t.Errorf("%d of 1000 requests of the heavy client were shed, want some 700: 50 a second are left for it", shed)
		}
	})
}

// A request that waits asks again and again. Whoever is over its share waits for what others leave.
func TestFairWithWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), core.PerSecond(10).By(keyfuncs.Everyone()).Wait(5*time.Second).Fair(core.Shares{By: byClient}))
		l.Allow(client("light"))
		start := time.Now()
		for range 30 {
			d := l.Allow(client("heavy"))
			check.Equal(t, "the heavy client waits", d.Allowed, true)
		}
		if took := time.Since(start); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("30 requests of 10 a second took %v", took)
		}
		start = time.Now()
		wantAllowed(t, "a light one", l.Allow(client("light")))
		if took := time.Since(start); took > 100*time.Millisecond { // for one unit, of a bucket that a single client has used
			t.Errorf("a light client waited %v", took)
		}
	})
}

// A repeat of an operation is free, whatever the share of its client.
func TestFairRepeatsAreFree(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, divided().OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(100))
	l.Allow(client("light"))
	first := &request{headers: map[string]string{"X-Client": "heavy", "Idempotency-Key": "1"}}
	l.Allow(first)
	useUp(l, "heavy")
	d := l.Allow(first)
	check.All(t, "a repeat", []any{d.Allowed, d.Results()[0].Repeated}, true, true)
}

// useUp has clients ask until all of them are denied.
func useUp(l *core.Limiter, clients ...string) {
	for granted := true; granted; {
		granted = false
		for _, name := range clients {
			granted = l.Allow(client(name)).Allowed || granted
		}
	}
}
