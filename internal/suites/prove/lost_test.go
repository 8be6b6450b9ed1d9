package prove

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// TestLost has messages that end cached denials get lost: half of those to the first process, without a
// trace, and all to the second, which may not subscribe. Those to the third come late. The fourth loses
// its connection now and then, as all do. Whatever is lost, a denial is repeated for no longer than its
// age: half of the histories are with one that is over soon, and half with the default one.
func TestLost(t *testing.T) {
	server := redistest.Start(t)
	losses := []loss{drop, refused, stall, ""}
	const shortAge = 30 * time.Millisecond
	start := func(age time.Duration) []*process {
		orders := make([]order, len(losses))
		for i, l := range losses {
			orders[i] = order{Network: server.Network(), Addr: server.Addr(), Age: age.Microseconds(), Loss: l}
		}
		return startEach(t, orders)
	}
	quick, usual := start(shortAge), start(0)
	rdb := server.Client(t)
	each(t, 0.12, func(seed uint64, count *tally) *history {
		h := newHistory("lost", seed, 100*time.Millisecond, time.Second, time.Hour, 24*time.Hour)
		h.losses, h.repeats = losses, byAll
		r := rand.New(rand.NewPCG(seed, 23))
		processes := usual
		if h.job.Each = 30; seed%4 > 0 { // they take less time
			processes, h.age, h.job.Pause = quick, shortAge, 20_000
		} else {
			h.job.Each, h.job.Pause = 40, 200_000
		}
		done := make(chan struct{})
		var cuts sync.WaitGroup
		cuts.Go(func() { cutNowAndThen(t, rdb, r, count, done) })
		together(t, h, processes)
		close(done)
		cuts.Wait()
		return h
	})
}

// cutNowAndThen cuts all connections on which processes receive messages, until done.
func cutNowAndThen(tb testing.TB, rdb *redis.Client, r *rand.Rand, count *tally, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(micros(20_000 + r.Int64N(700_000))):
			cutSubscriptions(tb, rdb, count)
		}
	}
}

func cutSubscriptions(tb testing.TB, rdb *redis.Client, count *tally) {
	n, err := rdb.ClientKillByFilter(context.Background(), "type", "pubsub").Result()
	if err != nil {
		tb.Error(err)
	}
	count.note("subscriptions cut", int(n))
}
