// Command fair shows what a busy client does to others, under a plain limit and under one that clients divide.
//
//	go -C examples run ./fair
//
// One client asks for five times the capacity of a service, and a hundred others for five requests a second each. It
// prints what each got. Everything is in this program, and takes five seconds; -for says how long.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

const (
	capacity   = 1000 // requests a second that the service can take
	heavyRate  = 5000 // that one client asks for
	lightRate  = 5    // that each of the others asks for
	lightCount = 100
)

// plain is a limit for all: whoever asks most often gets most of it.
func plain() core.Limit {
	return core.PerSecond(capacity).By(keyfuncs.Everyone()).Named("capacity")
}

// fair is the same limit, which clients divide: who is over its share is denied, and nobody else.
func fair() core.Limit {
	return plain().Fair(core.Shares{By: keyfuncs.Tenant("tenant")})
}

func main() {
	lasts := flag.Duration("for", 5*time.Second, "how long clients ask")
	flag.Parse()
	if err := run(os.Stdout, *lasts); err != nil {
		log.Fatal(err)
	}
}

// count is how often a group of clients asked, and was allowed.
type count struct{ asked, granted int }

// world is a limiter, and what clients got of it.
type world struct {
	limiter      *core.Limiter
	heavy, light count
}

func run(out io.Writer, lasts time.Duration) error {
	if lasts < time.Second {
		return errors.New("-for must be at least 1s: shares are found in rounds of a second")
	}
	worlds := make([]world, 2)
	for i, limit := range []core.Limit{plain(), fair()} {
		limiter, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}})
		if err != nil {
			return err
		}
		worlds[i].limiter = limiter
	}
	fmt.Fprintf(out, "A service takes %d requests a second. One client asks for %d, and %d others for %d each.\n\n", capacity, heavyRate, lightCount, lightRate)
	load(worlds, lasts)
	report(out, worlds, lasts)
	return nil
}

// load asks both limiters alike, in steps of some milliseconds.
func load(worlds []world, lasts time.Duration) {
	heavy, light := 0, 0
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		past := min(time.Since(start), lasts)
		for ; heavy < due(past, heavyRate); heavy++ {
			for i := range worlds {
				worlds[i].heavy.ask(worlds[i].limiter, "heavy")
			}
		}
		for ; light < due(past, lightRate*lightCount); light++ {
			for i := range worlds {
				worlds[i].light.ask(worlds[i].limiter, fmt.Sprint("light ", light%lightCount))
			}
		}
		if past == lasts {
			return
		}
	}
}

// due is how many requests have to be asked by now, at a rate a second.
func due(past time.Duration, rate int) int { return int(past * time.Duration(rate) / time.Second) }

func (c *count) ask(limiter *core.Limiter, tenant string) {
	d := limiter.Allow(keyfuncs.Values{"tenant": tenant})
	c.asked++
	if d.Allowed {
		c.granted++
	}
}

// denied is how many percent of the requests were denied.
func (c *count) denied() float64 { return 100 * float64(c.asked-c.granted) / float64(max(c.asked, 1)) }

func report(out io.Writer, worlds []world, lasts time.Duration) {
	perSecond := func(n int) float64 { return float64(n) / lasts.Seconds() }
	fmt.Fprintf(out, "%-24s %16s %16s\n", "", "plain limit", "with Fair")
	fmt.Fprintf(out, "%-24s %14.0f/s %14.0f/s\n", "the busy client gets", perSecond(worlds[0].heavy.granted), perSecond(worlds[1].heavy.granted))
	fmt.Fprintf(out, "%-24s %14.0f/s %14.0f/s\n", "the others get", perSecond(worlds[0].light.granted), perSecond(worlds[1].light.granted))
	fmt.Fprintf(out, "%-24s %15.1f%% %15.1f%%\n", "of the others, denied", worlds[0].light.denied(), worlds[1].light.denied())
}
