package regionsim

import (
	"math/rand/v2"
	"sort"
	"time"
)

// load makes the requests of a simulation.
type load struct {
	*Config
	rand    *rand.Rand
	keys    []float64 // weights of keys, cumulative
	regions []float64 // weights of regions, cumulative
	quota   float64
	window  time.Duration
	now     time.Duration // since the start
}

func newLoad(c *Config, quota int64, window time.Duration) *load {
	return &load{
		Config: c, rand: rand.New(rand.NewPCG(c.Seed, 1)), quota: float64(quota), window: window,
		keys: zipf(c.Keys), regions: zipf(c.Regions),
	}
}

// zipf returns cumulative weights of ranks by Zipf's law.
func zipf(n int) []float64 {
	weights, sum := make([]float64, n), 0.0
	for i := range weights {
		sum += 1 / float64(i+1)
		weights[i] = sum
	}
	return weights
}

func (l *load) pick(weights []float64) int {
	if len(weights) == 1 {
		return 0
	}
	return sort.SearchFloat64s(weights, l.rand.Float64()*weights[len(weights)-1])
}

// next returns the next request. Its time is after that of the one before.
func (l *load) next() (at time.Duration, key, region int) {
	rate := l.Rate
	if l.Load == FlashAll && l.inFlash() {
		rate = 3 * l.quota
	}
	l.now += time.Duration(l.rand.ExpFloat64()/rate*float64(time.Second)) + 1
	key = l.pick(l.keys)
	return l.now, key, l.region(key)
}

func (l *load) inFlash() bool {
	begin := l.window * 3 / 2
	return l.now >= begin && l.now < begin+time.Second
}

func (l *load) region(key int) int {
	switch l.Load {
	case OneOnly:
		return l.Regions - 1
	case Uneven:
		return l.pick(l.regions)
	case Moving:
		if l.rand.IntN(10) > 0 {
			return (key*7 + int(l.now/moves)) % l.Regions
		}
	}
	return l.rand.IntN(l.Regions)
}
