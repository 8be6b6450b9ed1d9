// Command regions shows one limit over three regions: 600 requests a minute for each client, wherever they arrive. Each
// region decides with a store of its own, and leases units from home, 80ms away. One busy client moves from region to
// region. Type the name of a region and Enter to cut its link to home, and again to heal it.
//
// The stores are redis-servers, if there is one in PATH, and otherwise in memory.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

const (
	quota     = 600
	perSecond = 30 // requests of the busy client
	stays     = 10 * time.Second
)

var names = []string{"eu", "us", "ap"}

// region is one region, and what its application has counted.
type region struct {
	name    string
	link    *link // to home
	store   *regions.Store
	limiter *core.Limiter

	asked, granted int // in the present minute
}

func main() {
	runs := flag.Duration("for", time.Hour, "how long to run")
	flag.Parse()
	slog.SetLogLoggerLevel(slog.LevelError) // the picture shows what the log would say
	all, kind, end, err := start()
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	fmt.Printf("%d requests a minute over three regions, each on a store %s. Type eu, us or ap and Enter to cut a link.\n\n", quota, kind)
	fmt.Println("Home is new, and only learns for five seconds.")
	time.Sleep(6 * time.Second)
	ctx, stop := context.WithTimeout(context.Background(), *runs)
	defer stop()
	show(ctx, all, typed())
}

// newRegion returns a region with a limiter. Its requests may wait for home, so the limiter has more time than by default.
func newRegion(name string, local, home core.Store) (*region, error) {
	r := &region{name: name, link: &link{Store: home, oneWay: 40 * time.Millisecond}}
	var err error
	if r.store, err = regions.New(local, r.link, regions.Config{Region: name, Regions: len(names)}); err != nil {
		return nil, err
	}
	r.limiter, err = core.New(core.Config{
		Store:   r.store,
		Limits:  []core.Limit{core.PerMinute(quota).FixedWindow().By(keyfuncs.User("user"))},
		Timeout: 300 * time.Millisecond,
	})
	return r, err
}

// typed returns the lines of the standard input.
func typed() <-chan string {
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			lines <- strings.TrimSpace(s.Text())
		}
	}()
	return lines
}

// show sends the client's requests, and draws what became of them, until ctx is done.
func show(ctx context.Context, all []*region, typed <-chan string) {
	began, minute := time.Now(), time.Now().Truncate(time.Minute)
	requests, frames := time.NewTicker(time.Second/perSecond), time.NewTicker(time.Second)
	defer requests.Stop()
	defer frames.Stop()
	for drawn := 0; ; {
		select {
		case <-ctx.Done():
			return
		case name := <-typed:
			for _, r := range all {
				if r.name == name {
					r.link.cut.Store(!r.link.cut.Load())
				}
			}
		case <-requests.C:
			if now := time.Now().Truncate(time.Minute); now != minute {
				minute = now
				for _, r := range all {
					r.asked, r.granted = 0, 0
				}
			}
			busy := all[int(time.Since(began)/stays)%len(all)]
			busy.asked++
			if d := busy.limiter.AllowKey(ctx, "alice", 1); d.Allowed {
				busy.granted++
			}
		case <-frames.C:
			draw(all, drawn > 0)
			drawn++
		}
	}
}

// draw prints a line for each region, over the last picture if the output is a terminal.
func draw(all []*region, again bool) {
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && again {
		fmt.Printf("\x1b[%dA", len(all)+2)
	}
	sum := 0
	for _, r := range all {
		s, state := r.store.Stats(), "home answers"
		switch {
		case r.link.cut.Load():
			state = "CUT: lives on its floor"
		case !s.Home.Away.IsZero():
			state = "home does not answer"
		}
		fmt.Printf("%s  %-30s %4d of %4d asked  leased in all %5d  questions %4d  %-24s\x1b[K\n",
			r.name, strings.Repeat("#", r.granted*30/quota), r.granted, r.asked, s.Leased, s.Messages, state)
		sum += r.granted
	}
	fmt.Printf("all %d of %d this minute\x1b[K\n\n", sum, quota)
}
