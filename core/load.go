package core

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The defaults of LoadConfig.Clients and LoadConfig.Floor.
const (
	defaultLoadClients = 8
	defaultLoadFloor   = 0.25
)

// LoadConfig says what overload is, and whose requests make it.
type LoadConfig struct {
	// By tells clients apart, as [Limit.By] does: keyfuncs.ClientIP with the
	// proxies named, or a key that was authenticated. Those without a key count
	// as one client. Required.
	By keyfuncs.Func

	// InFlight is how many requests may be at work at a time: more is overload.
	// Defaults to 0, which disables it.
	InFlight int64

	// Slow is how long a request may be at work: it is overload when more than 1
	// in 100 took longer, of all that ended in the last 10 seconds, and at least 17.
	// Defaults to 0, which disables it.
	Slow time.Duration

	// Clients is how many clients overload takes: each counts for at most this
	// part of InFlight and of what is slow, and for one request at least. So a
	// single client, however many connections it has, moves nothing. At most 64.
	// Defaults to 8.
	Clients int64

	// Floor is the least factor, from 0.05 to 1: what a client of a limit has left
	// however overloaded the service is. Defaults to 0.25.
	Floor float64
}

// Load measures how busy the handlers behind it are, for limits that become
// tighter while the service is overloaded:
//
//	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: 500 * time.Millisecond})
//	limit := core.PerSecond(100).By(keyfuncs.ClientIP()).Scale(load.Factor)
//	http.ListenAndServe(addr, limits.Limit(limit)(limits.Measure(load)(mux))) // limits := nethttp.With(…)
//
// A request is at work while its handler runs and does not wait for its client:
// time in which it reads the body or writes the response is the client's, so one
// that trickles is no load. Put Measure of the adapter's With behind the limiter, so that it
// measures what is let through, and around handlers that answer: one that waits for
// events, or for a client by other means, is at work all the time. What takes the
// connection over is not measured from then on.
//
// It takes 23 KB, runs no goroutine, and is safe for concurrent use.
type Load struct {
	config  LoadConfig
	seed    maphash.Seed
	working [loadClients]atomic.Int64 // requests at work, by client

	mu      sync.Mutex
	seconds [loadSeconds]loadSecond // a ring. Guarded by mu.
	factor  float64                 // Guarded by mu.
	due     time.Time               // of the next factor. Guarded by mu.
}

// loadSecond counts what ended within a second, by client.
type loadSecond struct {
	at          int64 // the second, since the epoch
	ended, late [loadClients]uint32
}

const (
	loadSeconds = 10

	// loadClients is how many clients are told apart. Those beyond share counts: what
	// one of many adds is bounded together with what some others add.
	loadClients = 256

	// leastLate is how many slow requests are no overload, however few there are.
	leastLate = 16
)

// NewLoad returns a Load. It panics if the configuration can't work; so call it at
// start-up, not while serving.
func NewLoad(config LoadConfig) *Load {
	if config.Clients == 0 {
		config.Clients = defaultLoadClients
	}
	if config.Floor == 0 {
		config.Floor = defaultLoadFloor
	}
	if err := config.validate(); err != nil {
		panic("weblimit: NewLoad: " + store.Reason(err))
	}
	return &Load{config: config, seed: maphash.MakeSeed(), factor: 1}
}

func (c *LoadConfig) validate() error {
	switch {
	case c.By.Err() != nil:
		return c.By.Err()
	case c.InFlight < 0:
		return fmt.Errorf("LoadConfig.InFlight must be at least 1, got %d", c.InFlight)
	case c.Slow < 0:
		return fmt.Errorf("LoadConfig.Slow must be positive, got %v", c.Slow)
	case c.InFlight == 0 && c.Slow == 0:
		return errors.New("set LoadConfig.InFlight or Slow, or nothing is overload")
	case c.Clients < 1 || c.Clients > loadClients/4:
		return fmt.Errorf("LoadConfig.Clients must be from 1 to %d, got %d", loadClients/4, c.Clients)
	case !(c.Floor >= 1.0/scaleSteps && c.Floor <= 1): // NaN, too
		return fmt.Errorf("LoadConfig.Floor must be from 0.05 to 1, got %v", c.Floor)
	}
	return nil
}

// BeginKey begins to measure work for a client, in code that has no HTTP request.
// Handlers are measured by the adapters' Measure. Call [Work.End] when the work is done:
//
//	defer load.BeginKey("user:42").End()
func (l *Load) BeginKey(key string) *Work {
	var room [256]byte // for the longest key
	return l.begin(keyfuncs.AppendKey(room[:0], key))
}

// Begin is BeginKey for a request: what the adapters' Measure is built on.
func (l *Load) Begin(r keyfuncs.Request) *Work {
	var room [256]byte
	key, presence := l.config.By.Append(room[:0], r)
	if presence != keyfuncs.Present { // several values are counted as none
		key = append(room[:0], missingKey...)
	}
	return l.begin(key)
}

func (l *Load) begin(key []byte) *Work {
	w := &Work{load: l, client: uint8(maphash.Bytes(l.seed, key)), since: time.Now()}
	l.working[w.client].Add(1)
	return w
}

// end counts a request that has ended.
func (l *Load) end(client uint8, took time.Duration) {
	second := time.Now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seconds[uint64(second)%loadSeconds]
	if s.at != second {
		*s = loadSecond{at: second}
	}
	s.ended[client]++
	if took > l.config.Slow {
		s.late[client]++
	}
}

// InFlight returns how many requests are at work. Those that wait for their client
// are not.
func (l *Load) InFlight() int64 {
	n := int64(0)
	for i := range l.working {
		n += l.working[i].Load()
	}
	return n
}

// Factor is for [Limit.Scale]: it falls from 1 while there is overload, by what is
// beyond the bounds and by 5 to 30 % a second, down to the floor; and it rises by
// 0.05 a second when there is none. Limits may share it.
func (l *Load) Factor(context.Context) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.due) {
		return l.factor
	}
	l.due = now.Add(scaleEvery * 9 / 10) // who asks each second asks not quite on time
	if excess := max(l.crowd(), l.lateness(now.Unix())); excess > 1 {
		l.factor *= min(max(1/excess, 0.7), 0.95)
	} else {
		l.factor += 1.0 / scaleSteps
	}
	l.factor = min(max(l.factor, l.config.Floor), 1)
	return l.factor
}

// crowd returns how many times InFlight requests are at work, of each client as many
// as count.
func (l *Load) crowd() float64 {
	if l.config.InFlight == 0 {
		return 0
	}
	n, most := int64(0), l.share(l.config.InFlight)
	for i := range l.working {
		n += min(l.working[i].Load(), most)
	}
	return float64(n) / float64(l.config.InFlight)
}

// lateness returns how many times more requests were slow than may be, of each
// client as many as count. l.mu is held.
func (l *Load) lateness(second int64) float64 {
	if l.config.Slow == 0 {
		return 0
	}
	var ended, late [loadClients]int64
	total := int64(0)
	for i := range l.seconds {
		s := &l.seconds[i]
		if second-s.at < 0 || second-s.at >= loadSeconds {
			continue // of another round, or a clock that was set back
		}
		for client := range s.ended {
			ended[client] += int64(s.ended[client])
			late[client] += int64(s.late[client])
			total += int64(s.ended[client])
		}
	}
	// Many fast requests of one client hide nobody's slow ones: none counts for more
	// than its share of all that count.
	all := bounded(&ended, total)
	for most := l.share(all); all > 0 && most < total; most = l.share(all) {
		total, all = most, bounded(&ended, most)
	}
	may := max(all/100, leastLate)
	return float64(bounded(&late, l.share(may))) / float64(may)
}

// bounded returns the sum of what clients have, of each at most so many.
func bounded(clients *[loadClients]int64, most int64) (sum int64) {
	for _, n := range clients {
		sum += min(n, most)
	}
	return sum
}

// share returns what of n one client counts for.
func (l *Load) share(n int64) int64 { return max(n/l.config.Clients, 1) }
