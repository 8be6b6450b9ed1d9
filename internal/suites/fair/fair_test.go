package fair

import (
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A busy client asks for fifty times its share, and a hundred others for less than theirs, in eight processes: those lose next
// to nothing, and all together get no more than there is. How long light clients wait is printed beside a run without the busy one.
func TestABusyClientTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	for way := range ways {
		t.Run(way, func(t *testing.T) { // one after the other, so that they do not keep each other from the processors
			alone, beside := undisturbed(t, way, false, aloneFor()), undisturbed(t, way, true, *duration)
			for _, r := range []report{alone, beside} {
				if r.Failed > 0 {
					t.Errorf("%d requests of %d failed", r.Failed, r.Light+r.Busy)
				}
				if 100*r.LightDenied >= r.Light {
					t.Errorf("%d of %d requests of light clients were denied, want less than one in a hundred", r.LightDenied, r.Light)
				}
			}
			if most := int(capacity*(duration.Seconds()+1.5)) + processes; beside.Light-beside.LightDenied+beside.BusyGranted > most {
				t.Errorf("%d requests were granted, of %d at most", beside.Light-beside.LightDenied+beside.BusyGranted, most)
			}
			if beside.BusyGranted == 0 {
				t.Error("the busy client was granted nothing, although the others leave a fifth")
			}
			t.Logf("light: %d requests, %d denied; p50 %v, p99 %v beside a busy client with %d of %d granted; p50 %v, p99 %v without",
				beside.Light, beside.LightDenied, part(beside.Took, 0.5), part(beside.Took, 0.99), beside.BusyGranted, beside.Busy, part(alone.Took, 0.5), part(alone.Took, 0.99))
		})
	}
}

// undisturbed returns a run in which nothing stood still: else all clients ask at once when it goes on, for more than a limit
// holds, and that some are denied is right.
func undisturbed(t *testing.T, way string, busy bool, lasts time.Duration) report {
	t.Helper()
	for range 10 {
		if r := run(t, way, busy, lasts); r.Late < 700*time.Millisecond {
			return r
		}
	}
	t.Skip("this machine stands still too often")
	return report{}
}

func run(t *testing.T, way string, busy bool, lasts time.Duration) (all report) {
	t.Helper()
	server := redistest.Shared(t)
	o := order{Way: way, Redis: server.Addr(), Prefix: redistest.Prefix(t), For: lasts, Busy: busy}
	if way == "service" {
		o.Service = startService(t, o)
	}
	var started []*child.Process
	for i := range processes {
		o.Seed = uint64(i)
		started = append(started, clients.Start(t, o))
	}
	for _, p := range started {
		child.Receive[string](t, p)
	}
	for _, p := range started {
		p.Send(t, "go")
	}
	for _, p := range started {
		r := child.Receive[report](t, p)
		all.Light, all.LightDenied = all.Light+r.Light, all.LightDenied+r.LightDenied
		all.Busy, all.BusyGranted, all.Failed = all.Busy+r.Busy, all.BusyGranted+r.BusyGranted, all.Failed+r.Failed
		all.Took, all.Late = append(all.Took, r.Took...), max(all.Late, r.Late)
		p.Wait(t)
	}
	slices.Sort(all.Took)
	return all
}

// part returns the time that so many requests did not exceed.
func part(took []time.Duration, of float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[int(of*float64(len(took)-1))].Round(10 * time.Microsecond)
}
