package fairsim_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/fairsim"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
)

// row is a load, and what must come of it.
type row struct {
	name   string
	config fairsim.Config
	light  int     // from which client on they ask for at most half of their share
	jain   float64 // at least
	used   float64 // at least
	denied float64 // of what light clients ask for, at most
}

// zipf returns clients whose rates follow Zipf's law.
func zipf(clients int, rate float64) (all []fairsim.Client) {
	sum := 0.0
	for i := range clients {
		sum += 1 / float64(i+1)
	}
	for i := range clients {
		all = append(all, fairsim.Client{Rate: rate / float64(i+1) / sum})
	}
	return all
}

// same returns clients that are all alike.
func same(clients int, c fairsim.Client) (all []fairsim.Client) {
	for range clients {
		all = append(all, c)
	}
	return all
}

func rows() (all []row) {
	windows := long.Rounds(24, 120)
	for _, clients := range []int{10, 100, 10_000} {
		for _, overload := range []float64{1.1, 2, 5} {
			quota := int64(2000)
			if clients == 10_000 {
				if quota = long.Rounds[int64](20_000, 100_000); (overload == 5 || race.Enabled) && !long.Run() {
					continue // for some ten seconds, in which there is no race to be found: a simulation has one goroutine
				}
			}
			r := row{
				name:   fmt.Sprintf("%d clients by Zipf's law, %v times what there is", clients, overload),
				config: fairsim.Config{Quota: quota, Clients: zipf(clients, overload*float64(quota)), Windows: windows, Warm: windows / 3},
				light:  clients, jain: 0.99, used: 0.98, denied: long.Rounds(0.005, 0.001),
			}
			r.light = lightOf(&r.config)
			all = append(all, r)
		}
	}
	const quota = 2000
	add := func(name string, light int, jain float64, clients []fairsim.Client) {
		c := fairsim.Config{Quota: quota, Clients: clients, Windows: 2 * windows, Warm: windows}
		all = append(all, row{name: name, config: c, light: light, jain: jain, used: 0.98, denied: long.Rounds(0.005, 0.001)})
	}
	one := same(20, fairsim.Client{Rate: quota / 4})
	for i := range one {
		one[i].Share = func(int) core.Share { return core.Share{Weight: int64(1 + i%4)} }
	}
	add("20 clients of weights 1 to 4 who all want more", 20, 0.99, one)

	busy := same(10, fairsim.Client{Rate: quota / 2})
	add("10 clients who want all, 900 who ask for less than a half of their share", 10, 0.99, append(busy, same(900, fairsim.Client{Rate: 0.5, Regular: true})...))

	var turns []fairsim.Client
	for i := range 100 {
		turns = append(turns, fairsim.Client{RateAt: func(window int) float64 {
			if (window+i)%2 == 0 {
				return 0
			}
			return quota / 20
		}})
	}
	add("100 clients who ask in turns of a window, 100 light ones", 100, 0.98, append(turns, same(100, fairsim.Client{Rate: 2, Regular: true})...))

	costs := append(same(50, fairsim.Client{Rate: 1, Cost: 200}), same(50, fairsim.Client{Rate: 100})...)
	add("50 clients with requests of five shares each, 50 of one unit, 100 light ones", 100, 0.95, append(costs, same(100, fairsim.Client{Rate: 5, Regular: true})...))

	sleeper := append(zipf(20, 3*quota), fairsim.Client{RateAt: func(window int) float64 {
		if window%8 == 7 {
			return quota
		}
		return 0
	}})
	add("a client that sleeps for 7 windows and then asks for all, 20 busy ones, 50 light ones", 21, 0.98, append(sleeper, same(50, fairsim.Client{Rate: 5})...))

	add("what is left is used: one client who wants all, 20 light ones", 1, 0.98, append(same(1, fairsim.Client{Rate: 2 * quota}), same(20, fairsim.Client{Rate: 20})...))
	all[len(all)-1].config.Burst = quota / 2
	return all
}

// lightOf returns from which client on, of those who ask the less the higher their number, they ask for at most half of their share.
func lightOf(c *fairsim.Config) int {
	left, n := float64(c.Quota), len(c.Clients)
	level := left
	for i := n - 1; i >= 0; i-- { // those who want least first
		if level = left / float64(i+1); c.Clients[i].Rate > level {
			break
		}
		left -= c.Clients[i].Rate
	}
	for i := range n {
		if c.Clients[i].Rate <= level/2 {
			return i
		}
	}
	return n
}

var (
	tables = flag.Bool("tables", false, "print the table of docs/use/fair.md")
	header = "| Who asks | Jain's index | Used | Denied of light clients | Without shares: index | Denied |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
)

// Whatever clients ask for, what they are granted is near to what is max-min fair, nearly all is used, and light clients do not notice.
// With -tables it prints the table of docs: go test -v -run TestClientsGetWhatIsFair ./internal/test/fairsim -tables
func TestClientsGetWhatIsFair(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	t.Cleanup(func() {
		if *tables {
			t.Logf("\n\n%s%s", header, &lines)
		}
	})
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			if !*tables {
				t.Parallel()
			}
			r.config.Seed = 1
			o := must.Get(fairsim.Run(r.config))(t)
			denied := o.Denied(r.light, len(o.Asked))
			if o.Jain() < r.jain || o.Used() < r.used || denied > r.denied {
				t.Errorf("Jain's index is %.4f, used %.4f, denied %.5f of light clients; want at least %v and %v, and at most %v",
					o.Jain(), o.Used(), denied, r.jain, r.used, r.denied)
			}
			if *tables {
				r.config.Plain = true
				plain := must.Get(fairsim.Run(r.config))(t)
				lightly, before := "", ""
				if r.light < len(o.Asked) {
					lightly, before = fmt.Sprintf("%.2f %%", 100*denied), fmt.Sprintf("%.0f %%", 100*plain.Denied(r.light, len(o.Asked)))
				}
				fmt.Fprintf(&lines, "| %s | %.3f | %.1f %% | %s | %.3f | %s |\n", r.name, o.Jain(), 100*min(o.Used(), 1), lightly, plain.Jain(), before)
			}
		})
	}
}

// perWindow runs a simulation, and returns what clients of some numbers were granted in each window.
func perWindow(t *testing.T, c fairsim.Config, clients ...int) [][]int {
	t.Helper()
	got := make([][]int, len(clients))
	for i := range got {
		got[i] = make([]int, c.Windows)
	}
	c.Each = func(window, client int, granted bool) {
		for i, number := range clients {
			if granted && number == client {
				got[i][window]++
			}
		}
	}
	c.Seed = 1
	must.Get(fairsim.Run(c))(t)
	return got
}

// between fails the test unless numbers are.
func between(t *testing.T, what string, numbers []int, least, most int) {
	t.Helper()
	for i, n := range numbers {
		if n < least || n > most {
			t.Errorf("%s: %v, of which number %d is not from %d to %d", what, numbers, i, least, most)
			return
		}
	}
}

const quota = 2000

func from(window int, rate float64) func(int) float64 {
	return func(now int) float64 {
		if now < window {
			return 0
		}
		return rate
	}
}

func TestANewClientHasItsShareAtOnce(t *testing.T) {
	t.Parallel()
	clients := append(zipf(20, 3*quota), fairsim.Client{RateAt: from(20, quota)})
	got := perWindow(t, fairsim.Config{Quota: quota, Clients: clients, Windows: 30}, 20, 0)
	between(t, "a new client whose share is about 100, in its first window", got[0][20:21], 90, 250)
	between(t, "later", got[0][21:], 88, 125)
	between(t, "another client of that share", got[1][20:], 85, 125)
}

// Who has used what was idle is not denied for that when others come.
func TestWhoWasAloneHasItsShareWhenOthersCome(t *testing.T) {
	t.Parallel()
	clients := append(same(1, fairsim.Client{Rate: 3 * quota}), same(99, fairsim.Client{RateAt: from(10, quota/40)})...)
	got := perWindow(t, fairsim.Config{Quota: quota, Clients: clients, Windows: 20}, 0, 1)
	between(t, "alone", got[0][2:10], quota*95/100, quota*105/100)
	between(t, "a window after 99 others came", got[0][11:], 11, 38)
	between(t, "one of the others", got[1][11:], 11, 38)
}

func TestWhatOthersLeaveIsUsedInTheNextWindow(t *testing.T) {
	t.Parallel()
	clients := same(50, fairsim.Client{RateAt: func(window int) float64 {
		if window < 15 {
			return quota / 5
		}
		return 0
	}})
	clients[0] = fairsim.Client{Rate: quota / 5}
	got := perWindow(t, fairsim.Config{Quota: quota, Clients: clients, Windows: 25}, 0)
	between(t, "beside 49 others", got[0][3:15], 25, 60)
	between(t, "two windows after they left", got[0][17:], 340, 460)
}

func TestAWeightThatChangesHoldsSoon(t *testing.T) {
	t.Parallel()
	clients := same(20, fairsim.Client{Rate: quota / 4})
	clients[0].Share = func(window int) core.Share {
		if window >= 15 {
			return core.Share{Weight: 4}
		}
		return core.Share{}
	}
	got := perWindow(t, fairsim.Config{Quota: quota, Clients: clients, Windows: 30}, 0, 1)
	between(t, "with a weight of 1 of 20", got[0][5:15], 65, 130)
	between(t, "with a weight of 4 of 23", got[0][20:], 275, 390)
	between(t, "another client", got[1][17:], 75, 100)
}

// Whoever makes up clients takes the limit, and whoever makes up users of one client takes that client's share.
func TestManyKeysOfOneOwner(t *testing.T) {
	t.Parallel()
	honest := same(9, fairsim.Client{Rate: quota / 4})
	for _, within := range []bool{false, true} {
		clients := honest
		for i := range 91 {
			key := fairsim.Client{Rate: quota / 40}
			if within {
				key.Name, key.User = "owner", fmt.Sprint("user:", i)
			}
			clients = append(clients[:len(clients):len(clients)], key)
		}
		o := must.Get(fairsim.Run(fairsim.Config{Quota: quota, Clients: clients, Windows: 15, Warm: 5, Seed: 1}))(t)
		owner, all := int64(0), int64(0)
		for i, granted := range o.Granted {
			if all += granted; i >= 9 {
				owner += granted
			}
		}
		got, want := float64(owner)/float64(all), 0.91
		if within {
			want = 0.1
		}
		if got < want-0.02 || got > want+0.03 {
			t.Errorf("91 keys of one owner, as users of one client: %v, get %.3f of the limit, want about %v", within, got, want)
		}
	}
}

// Clients that are made up by the hundred thousand take the limit, but for what is guaranteed, and memory is bounded.
func TestClientsThatAreMadeUp(t *testing.T) {
	t.Parallel()
	windows := long.Rounds(4, 20)
	served := fairsim.Client{Rate: 15, Regular: true, Share: func(int) core.Share { return core.Share{Minimum: 20} }}
	c := fairsim.Config{
		Quota: quota, Guaranteed: 400, Clients: append(same(20, served), same(20, fairsim.Client{Rate: 15})...), Windows: windows,
		Warm: windows / 2, Minted: long.Rounds(110_000, 1_000_000), Seed: 1,
	}
	o := must.Get(fairsim.Run(c))(t)
	if o.Records > 3*100_000+10_000 {
		t.Errorf("the store holds %d records", o.Records)
	}
	if o.Denied(0, 20) > 0 || o.Denied(20, 40) < 0.5 {
		t.Errorf("of what clients with a minimum ask for, %.4f is denied, want nothing; of others, %.4f", o.Denied(0, 20), o.Denied(20, 40))
	}
}
