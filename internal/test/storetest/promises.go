package storetest

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// runPromises looks at what users are promised whatever the shares are, under numbers and a clock that do not change, and
// without the model: a divided limit is never exceeded, no minimum is denied, and what is denied costs nothing.
func runPromises(t *testing.T, newStore Factory, sequences uint64) {
	for seed := range seeds(sequences) {
		t.Run(fmt.Sprintf("random sequence %d keeps what is promised of limits that clients divide", seed), func(t *testing.T) {
			t.Parallel()
			p := newPromised(newRig(t, newStore), rand.New(rand.NewPCG(seed, 4)))
			for range 600 {
				p.step()
			}
			p.bounded()
		})
	}
}

// promised is a random sequence of requests of clients whose minima are guaranteed together.
type promised struct {
	*rig
	rand    *rand.Rand
	rule    *core.Rule
	clients []store.Share
	granted []promisedGrant
	settled int // of these, how many are too old to be refunded
	worst   bool
}

type promisedGrant struct {
	client, units, kept int64
	check               core.Check
	result              core.Result
	refunded            bool
}

func newPromised(r *rig, random *rand.Rand) *promised {
	r.Helper()
	for {
		n := store.Numbers{
			Algorithm: store.TokenBucket, Divided: true,
			Quota:  pick(random, []int64{1, 5, 10, 97, 1000, 4999, 1_000_000_007, 1 << 40}),
			Window: pick(random, []time.Duration{time.Millisecond, 13 * time.Millisecond, time.Second, 5003 * time.Millisecond, time.Hour}),
		}
		n.Burst = pick(random, []int64{n.Quota, n.Quota, max(n.Quota/2, 1), 3 * n.Quota})
		n.Guaranteed = min(n.Quota, n.Burst-1)
		if random.IntN(2) == 0 {
			n.Guaranteed = random.Int64N(n.Guaranteed + 1)
		}
		rule, err := store.NewRule("promised", n)
		if err != nil {
			continue
		}
		p := &promised{rig: r, rand: random, rule: &rule, worst: random.IntN(2) == 0}
		for i, left := 0, n.Guaranteed; i < 5; i++ {
			share := store.Share{Key: fmt.Append(nil, "client:", i), Weight: pick(random, []int64{1, 1, 3, store.MaxWeight})}
			if i < 3 {
				share.Minimum = random.Int64N(left + 1)
				if i == 2 {
					share.Minimum = left
				}
				left -= share.Minimum
			}
			p.clients = append(p.clients, share)
		}
		return p
	}
}

func (p *promised) step() {
	p.Helper()
	switch n := p.rand.IntN(10); {
	case n < 7:
		p.ask()
	case n < 8 && p.settled < len(p.granted):
		p.giveBack()
	default:
		w := p.rule.Window
		p.Advance(pick(p.rand, []time.Duration{time.Microsecond, w / 4096, w / 1000, w / 10, w / 3, w, 3 * w}))
	}
}

// ask has a client ask, often for all that is left of its minimum, or for all that is in the bucket.
func (p *promised) ask() {
	p.Helper()
	i := p.rand.IntN(len(p.clients))
	share := p.clients[i]
	left := p.leftOfMinimum(int64(i))
	before := p.left()
	cost := pick(p.rand, []int64{1, left, left, before, before - p.rule.Guaranteed, before / 2, p.rule.Quota / 9})
	if p.worst && share.Minimum == 0 { // what others do to deny a minimum
		cost = before - p.rule.Guaranteed
	}
	if cost = min(max(cost, 1), p.rule.Burst); p.rand.IntN(4) == 0 {
		share.User = pick(p.rand, [][]byte{[]byte("u1"), []byte("u2")})
	}
	check := core.Check{Key: []byte("all"), Rule: p.rule, Cost: cost, Share: &share}
	result := p.takeAll(check)[0]
	switch after := p.left(); {
	case result.Charged:
		p.granted = append(p.granted, promisedGrant{int64(i), cost, cost, check, result, false})
		if cost > before {
			p.Fatalf("%s: %d units are granted where %d are left: %s", describeFair(p.rule), cost, before, show(result))
		}
	case cost <= left:
		p.Fatalf("%s: a request of client %d for %d of the %d units that are left of its minimum of %d is denied: %s",
			describeFair(p.rule), i, cost, left, share.Minimum, show(result))
	case result.Standing == store.OfMinimum:
		p.Fatalf("%s: a request of client %d for %d of its minimum of %d is denied: %s", describeFair(p.rule), i, cost, share.Minimum, show(result))
	case after != before:
		p.Fatalf("%s: a request that is denied changes what is left from %d to %d: %s", describeFair(p.rule), before, after, show(result))
	case cost <= (p.rule.Burst-p.rule.Guaranteed)/2 && result.RetryAfter == 0:
		p.Fatalf("%s: a request for %d fits when all have waited, and no wait is told: %s", describeFair(p.rule), cost, show(result))
	}
}

// left returns what the bucket holds.
func (p *promised) left() int64 { return p.peek(p.rule, "all", 0).Remaining }

// leftOfMinimum returns what a client can use of its minimum for sure: what it was not granted within the last window. That is
// counted in 1000 ticks or more, and seen up to three of them later.
func (p *promised) leftOfMinimum(client int64) int64 {
	minimum, ticks := p.clients[client].Minimum, p.rule.Integers.Ticks
	used := int64(0)
	from := p.Micros() - p.rule.Window.Microseconds()*(ticks+3)/ticks
	for i := len(p.granted) - 1; i >= 0 && p.granted[i].result.At >= from; i-- {
		if g := &p.granted[i]; g.client == client {
			used += g.units
		}
	}
	if used > 0 {
		used += (2*minimum + ticks - 1) / ticks
	}
	return max(minimum-used, 0)
}

// giveBack refunds a grant, or a part of it.
func (p *promised) giveBack() {
	p.Helper()
	g := &p.granted[p.settled+p.rand.IntN(len(p.granted)-p.settled)]
	if g.refunded {
		return
	}
	check := g.check
	if check.Cost = g.kept; p.rand.IntN(3) == 0 {
		check.Cost /= 2
	}
	results := []core.Result{g.result}
	if err := p.Refund(context.Background(), []core.Check{check}, results); err != nil {
		p.Fatalf("refund: %v", err)
	}
	g.kept, g.refunded = g.kept-check.Cost, true
	if p.rand.IntN(4) == 0 {
		p.settled = len(p.granted)
	}
}

// bounded fails the test if more was granted between any two moments than a bucket of these numbers holds and regains.
func (p *promised) bounded() {
	p.Helper()
	for i := range p.granted {
		sum, from := int64(0), p.granted[i].result.At
		for j := i; j < len(p.granted); j++ {
			g := &p.granted[j]
			sum += g.kept
			span := time.Duration(g.result.At-from+p.rule.Integers.Tick) * time.Microsecond
			regained := new(big.Rat).SetInt64(p.rule.Quota)
			regained.Mul(regained, new(big.Rat).SetFrac64(int64(span), int64(p.rule.Window)))
			if most := plus(regained, p.rule.Burst); most.Cmp(new(big.Rat).SetInt64(sum)) < 0 {
				p.Fatalf("%s: %d units are granted within %v, which is more than the burst and %v", describeFair(p.rule), sum, span, regained)
			}
		}
	}
}
