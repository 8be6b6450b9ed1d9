package regionsim_test

import (
	"flag"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/regionsim"
)

const (
	quota  = 1000
	window = time.Minute
)

// limits are limits of the same quota.
var limits = []struct {
	name  string
	limit core.Limit
}{
	{"fixed window", core.Per(quota, window).FixedWindow()},
	{"sliding window", core.Per(quota, window).SlidingWindow()},
	{"token bucket", core.Per(quota, window)},
	{"small bucket", core.Per(quota, window).Burst(quota / 10)},
	{"calendar day", core.PerCalendarDay(quota, time.UTC)},
}

// loads are loads of one key: requests per unit of quota, and which region gets them.
var loads = []struct {
	name string
	rate float64
	load regionsim.Load
}{
	{"all in one region, 1.5 ×", 1.5, regionsim.OneOnly},
	{"even, 1.5 ×", 1.5, regionsim.Even},
	{"uneven, 0.9 ×", 0.9, regionsim.Uneven},
	{"hot region moves every 10 s, 1.5 ×", 1.5, regionsim.Moving},
	{"3 × in one second everywhere", 0.5, regionsim.FlashAll},
}

// one returns the settings for one key with a load per minute, however long the limit's window is.
func one(limit core.Limit, regions int, roundTrip time.Duration, rate float64, load regionsim.Load) regionsim.Config {
	return regionsim.Config{
		Limit: limit, Regions: regions, RoundTrips: []time.Duration{roundTrip}, Jitter: 0.2, Keys: 1,
		Rate: rate * quota / window.Seconds(), Load: load, Warm: window, Duration: 6 * window, Deadline: time.Second, Seed: 1,
	}
}

// unbroken reports a design that granted more than its bound.
func unbroken(t *testing.T, seed uint64, outcomes map[regionsim.Design]regionsim.Outcome) {
	t.Helper()
	for _, d := range []regionsim.Design{regionsim.Exact, regionsim.Static, regionsim.Leased, regionsim.Overdraw} {
		if o := outcomes[d]; o.Broken > 0 {
			t.Errorf("seed %d: %v granted %d units more than its bound: %+v", seed, d, o.Broken, o)
		}
	}
}

// Whatever happens to the links, regions together never grant more than the bounds that package regions states: the
// quota, and the overdraft once per region.
func TestTheBoundsHold(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name string
		loss float64
		cuts []regionsim.Cut
	}{
		{"no faults", 0, nil},
		{"answers are lost", 0.2, nil},
		{"a region is cut off for a window", 0, []regionsim.Cut{{Region: 1, From: 90 * time.Second, To: 150 * time.Second, Up: true, Down: true}}},
		{"no answers for three windows", 0, []regionsim.Cut{{Region: regionsim.Everywhere, From: 90 * time.Second, To: 270 * time.Second, Down: true}}},
		{"home is away for ten windows, and answers are lost", 0.1, []regionsim.Cut{{Region: regionsim.Everywhere, From: 90 * time.Second, To: 690 * time.Second, Up: true}}},
		{"the link comes and goes", 0.1, []regionsim.Cut{
			{Region: 0, From: 61 * time.Second, To: 62 * time.Second, Down: true},
			{Region: 1, From: 63 * time.Second, To: 65 * time.Second, Up: true},
			{Region: 0, From: 119 * time.Second, To: 121 * time.Second, Down: true},
			{Region: 1, From: 179 * time.Second, To: 181 * time.Second, Down: true},
		}},
	}
	for _, l := range limits {
		for i, fault := range faults {
			t.Run(l.name+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				for round := range long.Rounds(1, 20) {
					seed := uint64(1 + i + 100*round)
					of := loads[(i+round)%len(loads)]
					c := one(l.limit, []int{2, 3, 5, 10}[seed%4], 0, of.rate, of.load)
					c.Designs, c.Duration = []regionsim.Design{regionsim.Static, regionsim.Leased, regionsim.Overdraw}, 4*window
					c.RoundTrips = []time.Duration{15 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond}
					c.Loss, c.Cuts, c.Seed = fault.loss, fault.cuts, seed
					if i%2 == 1 {
						c.Deadline = 100 * time.Millisecond
					}
					for _, cut := range fault.cuts {
						c.Duration = max(c.Duration, cut.To+window)
					}
					unbroken(t, seed, regionsim.Run(t, c))
				}
			})
		}
	}
}

// moving returns the settings for many keys, each of which has a hot region that moves.
func moving(limit core.Limit, requests float64) regionsim.Config {
	c := regionsim.Config{
		Limit: limit, Regions: 3, RoundTrips: []time.Duration{80 * time.Millisecond}, Jitter: 0.2, Keys: 10_000, Rate: 5000,
		Load: regionsim.Moving, Warm: window, Deadline: time.Second, Seed: 1,
		Designs: []regionsim.Design{regionsim.Leased},
	}
	if !long.Run() {
		c.Keys, c.Rate = 1000, 1000
	}
	c.Duration = c.Warm + time.Duration(requests/c.Rate*float64(time.Second))
	return c
}

// Keys whose load moves from region to region get what one exact limiter would grant, nearly, with few messages; and no
// request waits for longer than its deadline.
//
// Where units come back all the time, home leases what comes together in a while. So of the requests of a key that is above
// its limit, others are granted than by the exact limiter, and those count as denied wrongly. And what is leased to a
// region from which the load has moved away is lost until its period is over: several times a minute.
func TestALoadThatMoves(t *testing.T) {
	t.Parallel()
	for i, want := range []struct{ granted, wrong, messages float64 }{{0.99, 0.01, 0.02}, {0.98, 0.08, 0.035}, {0.99, 0.06, 0.02}} {
		t.Run(limits[i].name, func(t *testing.T) {
			t.Parallel()
			c := moving(limits[i].limit, long.Rounds(100_000.0, 10_000_000))
			o := regionsim.Run(t, c)[regionsim.Leased]
			granted, wrong, delayed, messages := o.Rates()
			t.Logf("%d requests: granted %.4f of the exact limiter's, wrongly denied %.4f, delayed %.4f by at most %v, messages %.4f; %+v",
				o.Requests, granted, wrong, delayed, o.Longest, messages, o.Counts)
			if granted < want.granted || wrong > want.wrong || messages > want.messages || o.Broken > 0 || o.Longest > c.Deadline {
				t.Errorf("seed %d: want at least %v granted, at most %v denied wrongly, %v messages and no bound broken: %+v",
					c.Seed, want.granted, want.wrong, want.messages, o)
			}
		})
	}
}

func TestASimulationIsDeterminedByItsConfig(t *testing.T) {
	t.Parallel()
	c := one(limits[0].limit, 3, 80*time.Millisecond, 5, regionsim.Moving)
	c.Loss, c.Keys, c.Bin, c.Duration = 0.1, 20, 10*time.Second, 3*window
	c.Cuts = []regionsim.Cut{{Region: 1, From: 90 * time.Second, To: 95 * time.Second, Down: true}}
	first, second := regionsim.Run(t, c), regionsim.Run(t, c)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("the same settings, seed %d, gave two outcomes:\n%+v\n%+v", c.Seed, first, second)
	}
	check.Equal(t, "designs", len(first), 6)
}

// Units that regions exchange too late are granted several times: the simulation sees what it is to show.
func TestExchangedCountsGrantMoreThanTheQuota(t *testing.T) {
	t.Parallel()
	of := loads[len(loads)-1]
	outcomes := regionsim.Run(t, one(limits[0].limit, 3, 80*time.Millisecond, of.rate, of.load))
	if slow := outcomes[regionsim.Slow]; slow.Most < 2.5 || slow.Broken < quota {
		t.Errorf("counts that are exchanged every 5 s granted %v quotas in a window, want nearly 3: %+v", slow.Most, slow)
	}
	unbroken(t, 1, outcomes)
}

var tables = flag.Bool("tables", false, "print the tables of docs/run/regions.md")

// Prints the tables of docs in Markdown: go test -v -run TestTables ./internal/test/regionsim -tables
func TestTables(t *testing.T) {
	t.Parallel()
	if !*tables {
		t.Skip("prints tables with -tables")
	}
	var designs, leased string
	for _, of := range loads {
		for _, regions := range []int{3, 10} {
			outcomes := regionsim.Run(t, one(limits[0].limit, regions, 80*time.Millisecond, of.rate, of.load))
			designs += fmt.Sprintf("| %s | %d |", of.name, regions)
			for _, d := range regionsim.Designs(outcomes)[1:] {
				o := outcomes[d]
				granted, wrong, _, messages := o.Rates()
				designs += fmt.Sprintf(" %.2f; %.1f %%; %.1f %%; %.3f |", o.Most, 100*granted, 100*wrong, messages)
			}
			designs += "\n"
		}
	}
	for _, l := range limits[:3] {
		for _, of := range []struct {
			regions             int
			roundTrip, deadline time.Duration
		}{
			{3, 15 * time.Millisecond, 100 * time.Millisecond},
			{3, 80 * time.Millisecond, 100 * time.Millisecond},
			{3, 80 * time.Millisecond, time.Second},
			{3, 250 * time.Millisecond, 100 * time.Millisecond},
			{3, 250 * time.Millisecond, time.Second},
			{10, 80 * time.Millisecond, time.Second},
		} {
			c := moving(l.limit, 100_000)
			c.Regions, c.RoundTrips, c.Deadline = of.regions, []time.Duration{of.roundTrip}, of.deadline
			o := regionsim.Run(t, c)[regionsim.Leased]
			granted, wrong, delayed, messages := o.Rates()
			leased += fmt.Sprintf("| %s | %d | %v | %v | %.2f %% | %.2f %% | %.2f %% | %.4f |\n",
				l.name, of.regions, of.roundTrip, of.deadline, 100*granted, 100*wrong, 100*delayed, messages)
		}
	}
	t.Logf("largest admission in a window, in quotas; granted, of the exact limiter's; wrongly denied; messages per request:\n\n"+
		"| Load | Regions | static shares | counts every 5 s | counts every 0.1 s | leased | leased, overdraft 1/10 |\n"+
		"| --- | ---: | --- | --- | --- | --- | --- |\n%s\n"+
		"a thousand keys by Zipf's law, each with a hot region that moves every 10 s:\n\n"+
		"| Limit | Regions | Round trip | Deadline | Granted | Wrongly denied | Delayed | Messages per request |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n%s", designs, leased)
}
