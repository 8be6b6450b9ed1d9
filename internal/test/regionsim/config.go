package regionsim

import (
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store/regional"
)

// Config holds the settings of a simulation.
type Config struct {
	Limit      core.Limit
	Regions    int
	RoundTrips []time.Duration // of the regions to home, repeated if there are fewer
	Jitter     float64         // by how much a crossing takes longer, at most, as a part of 1
	Loss       float64         // the part of home's answers that are lost
	Cuts       []Cut
	Floor      int64 // as in regions.Config

	Keys     int     // by Zipf's law
	Rate     float64 // requests per second, of all keys
	Load     Load
	Warm     time.Duration // how long requests count for the bounds only: a home that is new leases nothing for some seconds
	Duration time.Duration
	Deadline time.Duration // of a request, as core.Config.Timeout
	Seed     uint64
	Designs  []Design // defaults to all

	// Bin is the length of the bins in which Outcome.Admitted counts. Defaults to none.
	Bin time.Duration
}

// Cut is a time in which links to home do not work.
type Cut struct {
	Region   int // or Everywhere
	From, To time.Duration
	Up       bool // questions do not arrive
	Down     bool // answers do not arrive
}

// Everywhere stands for all regions.
const Everywhere = -1

// Load says which region gets a request.
type Load int

// The loads.
const (
	Even     Load = iota // each region gets as many
	OneOnly              // all in one region
	Moving               // 9 of 10 requests of a key in one region, and each 10 seconds in another
	Uneven               // by Zipf's law
	FlashAll             // even, and three quotas within one second in the second window
)

// moves is how long the load of a key stays in a region.
const moves = 10 * time.Second

// Design is a way to have a limit in several regions.
type Design int

// The designs.
const (
	Exact    Design = iota // one limiter, which is asked without delay: what cannot be built
	Static                 // each region has its part of the quota
	Slow                   // counts are exchanged every 5 s, and take 5 s
	Fast                   // counts are exchanged every 0.1 s, and take 0.1 s
	Leased                 // package regions
	Overdraw               // package regions with an overdraft of a tenth of the quota
)

// String returns the design in words.
func (d Design) String() string {
	return [...]string{"one exact limiter", "static shares", "counts every 5 s", "counts every 0.1 s", "leased", "leased, overdraft 1/10"}[d]
}

// Outcome is what a simulation measured of one design.
type Outcome struct {
	Requests int64
	Granted  int64
	Exact    int64         // granted by the exact limiter
	Wrong    int64         // requests that were denied, and that the exact limiter granted
	Delayed  int64         // requests that waited for home
	Longest  time.Duration // that one waited
	Messages int64         // between regions: a question to home for a key, or a key in an exchange
	Most     float64       // the largest admission of a key in a window, in quotas
	Broken   int64         // units beyond the bound, at most

	Counts   regional.Counts // of a leased design, over all regions
	Admitted [][]int64       // by bin and region
}

// Rates returns parts of 1: granted of what the exact limiter grants; wrongly denied, delayed, and messages, of requests.
func (o *Outcome) Rates() (granted, wrong, delayed, messages float64) {
	all := float64(max(o.Requests, 1))
	return float64(o.Granted) / float64(max(o.Exact, 1)), float64(o.Wrong) / all, float64(o.Delayed) / all, float64(o.Messages) / all
}
