package fairsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Window is that of the limit in every simulation.
const Window = time.Second

// steps is how many moments of a window have requests.
const steps = 100

// Config is a limit, and who asks for it.
type Config struct {
	Quota      int64 // per Window
	Burst      int64 // defaults to Quota
	Guaranteed int64
	Clients    []Client
	Windows    int // how many there are
	Warm       int // how many of them are not measured
	Seed       uint64

	// Each, if it is set, is told whether a request of the client of a number was granted in a window.
	Each func(window, client int, granted bool)

	// Minted, if it is set, is how many clients more ask once in each window, and never again.
	Minted int

	Plain bool // clients don't divide the limit
}

// Client is somebody who asks.
type Client struct {
	Name    string                      // defaults to one of its own
	User    string                      // defaults to none
	Rate    float64                     // requests per window
	RateAt  func(window int) float64    // defaults to Rate in all of them
	Share   func(window int) core.Share // defaults to that of all others
	Cost    int64                       // defaults to 1
	Regular bool                        // the requests come at even intervals, not at random
}

// Outcome is what was measured.
type Outcome struct {
	Asked, Granted []int64 // units of each client, in the windows that are measured
	Ideal          []float64
	Records        int // in the store at most
	windows        int
	quota          int64
}

// Run runs a simulation.
func Run(c Config) (Outcome, error) {
	rule, err := store.NewRule("all", store.Numbers{
		Algorithm: store.TokenBucket, Quota: c.Quota, Window: Window, Burst: c.Burst, Divided: !c.Plain, Guaranteed: c.Guaranteed,
	})
	if err != nil {
		return Outcome{}, err
	}
	memory, now := memstore.New(), time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC).UnixMicro()
	testclock.Set(memory, func() int64 { return now })
	random := rand.New(rand.NewPCG(c.Seed, 1))
	n := len(c.Clients)
	o := Outcome{Asked: make([]int64, n), Granted: make([]int64, n), windows: c.Windows - c.Warm, quota: c.Quota}
	keys, users, owing := make([][]byte, n), make([][]byte, n), make([]float64, n)
	for i, client := range c.Clients {
		if keys[i] = []byte(client.Name); client.Name == "" {
			keys[i] = fmt.Append(nil, "client:", i)
		}
		if client.User != "" {
			users[i] = []byte(client.User)
		}
		owing[i] = random.Float64()
	}
	checks, results := make([]store.Check, 1), make([]store.Result, 1)
	var asking []int
	minted := 0
	for window := range c.Windows {
		for range steps {
			asking = asking[:0]
			for i := range c.Clients {
				for range requests(&c.Clients[i], window, &owing[i], random) {
					asking = append(asking, i)
				}
			}
			for range c.Minted / steps {
				asking = append(asking, n) // one who is never seen again
			}
			random.Shuffle(len(asking), func(a, b int) { asking[a], asking[b] = asking[b], asking[a] })
			for _, i := range asking {
				if i == n {
					minted++
					share := store.Share{Key: fmt.Append(nil, "minted:", minted), Weight: 1}
					checks[0] = store.Check{Key: []byte("all"), Rule: &rule, Cost: 1, Share: &share}
					if err := memory.Take(context.Background(), checks, results); err != nil {
						return o, err
					}
					continue
				}
				client := &c.Clients[i]
				cost := max(client.Cost, 1)
				share := store.Share{Key: keys[i], User: users[i], Weight: 1}
				if client.Share != nil {
					of := client.Share(window)
					share.Weight, share.Minimum, share.Maximum = max(of.Weight, 1), of.Minimum, of.Maximum
				}
				if checks[0] = (store.Check{Key: []byte("all"), Rule: &rule, Cost: cost, Share: &share}); c.Plain {
					checks[0].Share = nil
				}
				if err := memory.Take(context.Background(), checks, results); err != nil {
					return o, err
				}
				granted := results[0].Charged
				if c.Each != nil {
					c.Each(window, i, granted)
				}
				if window < c.Warm {
					continue
				}
				o.Asked[i] += cost
				if granted {
					o.Granted[i] += cost
				}
			}
			now += Window.Microseconds() / steps
		}
		o.Records = max(o.Records, memory.Len())
	}
	o.Ideal = ideal(c.Clients, o.Asked, float64(c.Quota)*float64(o.windows), c.Warm)
	return o, nil
}

// requests returns how many requests a client sends in a step.
func requests(c *Client, window int, owing *float64, random *rand.Rand) (n int) {
	rate := c.Rate
	if c.RateAt != nil {
		rate = c.RateAt(window)
	}
	for *owing -= rate / steps; *owing <= 0; n++ {
		if c.Regular {
			*owing++
		} else {
			*owing += random.ExpFloat64()
		}
	}
	return n
}

// ideal returns what is max-min fair by weight of a capacity: who asks for less than its share gets that.
func ideal(clients []Client, asked []int64, capacity float64, window int) []float64 {
	shares, weights := make([]float64, len(clients)), make([]float64, len(clients))
	for i, c := range clients {
		if weights[i] = 1; c.Share != nil {
			weights[i] = float64(max(c.Share(window).Weight, 1))
		}
	}
	low, high := 0.0, capacity
	for range 100 {
		level, sum := (low+high)/2, 0.0
		for i := range clients {
			shares[i] = min(float64(asked[i]), level*weights[i])
			sum += shares[i]
		}
		if sum > capacity {
			high = level
		} else {
			low = level
		}
	}
	return shares
}

// Jain returns Jain's index of what clients got of what is fair: 1 if each got the same part of it.
func (o *Outcome) Jain() float64 {
	sum, squares, n := 0.0, 0.0, 0.0
	for i, ideal := range o.Ideal {
		if ideal > 0 {
			x := float64(o.Granted[i]) / ideal
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	return sum * sum / (n * squares)
}

// Used returns how much was granted of what could have been: of the quota, or of all that was asked for if that is less.
func (o *Outcome) Used() float64 {
	granted, asked := int64(0), int64(0)
	for i := range o.Granted {
		granted, asked = granted+o.Granted[i], asked+o.Asked[i]
	}
	return float64(granted) / math.Min(float64(o.quota)*float64(o.windows), float64(asked))
}

// Denied returns how much was denied of what the clients of some numbers asked for.
func (o *Outcome) Denied(from, to int) float64 {
	granted, asked := int64(0), int64(0)
	for i := from; i < to; i++ {
		granted, asked = granted+o.Granted[i], asked+o.Asked[i]
	}
	if asked == 0 {
		return 0
	}
	return 1 - float64(granted)/float64(asked)
}
