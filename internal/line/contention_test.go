package line

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/race"
)

const (
	pace   = time.Millisecond // from one request that is served to the next: 1000 a second
	places = 512              // half of Config.MaxWaiting, as one key gets
)

// group is clients that behave alike.
type group struct {
	name    string
	clients int           // 0 for a new one each time
	users   int           // of each client; 0 for none
	rate    float64       // requests a second, of all together
	class   int           // of their requests
	weight  int64         // of each
	hangsUp time.Duration // they wait so long, and come again at once; 0 if they wait for ever
}

// crowded is what became of the requests of a group.
type crowded struct {
	waits          []time.Duration         // of those that were served
	byClient       map[int][]time.Duration // in a group of clients that return
	denied, hungUp int
	worst          float64 // served in front of a request, as part of the bound
}

// quantile returns the wait that so many of the served requests do not exceed.
func (c *crowded) quantile(q float64) time.Duration {
	slices.Sort(c.waits)
	if len(c.waits) == 0 {
		return 0
	}
	return c.waits[min(int(q*float64(len(c.waits))), len(c.waits)-1)]
}

// ofWorst returns the quantile of the client for which it is the highest.
func (c *crowded) ofWorst(q float64) (worst time.Duration) {
	for _, waits := range c.byClient {
		worst = max(worst, (&crowded{waits: waits}).quantile(q))
	}
	return worst
}

// queue is a line as the simulation sees it.
type queue interface {
	join(p *Place, r Request) (displaced *Place, ok bool)
	next() *Place
	leave(p *Place)
}

// byShare is the line of this package.
type byShare struct{ Line }

func (l *byShare) join(p *Place, r Request) (*Place, bool) {
	return l.Join(p, r, Bounds{Full: l.Len() >= places})
}

func (l *byShare) next() *Place {
	p := l.Next()
	if p != nil {
		l.Served(p)
	}
	return p
}

func (l *byShare) leave(p *Place) { l.Leave(p) }

// byArrival is what a limit without Fair has: whoever comes first is served first, and finds no place when all are taken.
type byArrival struct {
	all  []*Place
	left map[*Place]bool
}

func (l *byArrival) join(p *Place, _ Request) (*Place, bool) {
	if len(l.all)-len(l.left) >= places {
		return nil, false
	}
	l.all = append(l.all, p)
	return nil, true
}

func (l *byArrival) next() *Place {
	for len(l.all) > 0 {
		p := l.all[0]
		l.all = l.all[1:]
		if !l.left[p] {
			return p
		}
		delete(l.left, p)
	}
	return nil
}

func (l *byArrival) leave(p *Place) {
	if l.left == nil {
		l.left = map[*Place]bool{}
	}
	l.left[p] = true
}

// waits is a request of the simulation.
type waits struct {
	Place
	group, client int
	came          time.Duration
	before        int64 // requests that were served before it came
	bound         float64
	gone          bool
}

// simulate has n requests of the groups come at random times, the same each time, and serves one each pace.
func simulate(n int, q queue, groups []group) []crowded {
	random := rand.New(rand.NewPCG(7, 7))
	total := 0.0
	for _, g := range groups {
		total += g.rate
	}
	results := make([]crowded, len(groups))
	var now, serves time.Duration
	var served, minted int64
	arrivals := 0
	inLine := map[[2]int]int{} // by group and client
	weight, clients := int64(0), 0
	var impatient []*waits
	come := func(g, client int) {
		arrivals++
		of, user := groups[g], uint64(0)
		if of.users > 0 {
			user = 1 + uint64(random.IntN(of.users))
		}
		if of.clients == 0 {
			minted++
			client = int(minted)
		}
		w := &waits{group: g, client: client, came: now, before: served}
		w.Data = w
		r := Request{Class: of.class, Client: uint64(g)<<48 | uint64(client) + 1, User: user, Weight: max(of.weight, 1), Cost: 1}
		displaced, ok := q.join(&w.Place, r)
		if displaced != nil {
			other := displaced.Data.(*waits)
			other.gone = true
			results[other.group].denied++
			inLine[[2]int{other.group, other.client}]--
		}
		if !ok {
			results[g].denied++
			return
		}
		// See TestNobodyStarves for the bound. Here it is of the most clients and weight that can be in line.
		ahead := inLine[[2]int{g, client}]
		inLine[[2]int{g, client}]++
		w.bound = float64(ahead+1)*float64(weight)/float64(r.Weight) + float64(weight) + float64(clients) + 1
		if of.hangsUp > 0 {
			impatient = append(impatient, w)
		}
	}
	for _, g := range groups { // as if all clients were there all the time, and as many new ones as there are places
		if g.clients == 0 {
			weight, clients = weight+places*max(g.weight, 1), clients+places
		} else {
			weight, clients = weight+int64(g.clients)*max(g.weight, 1), clients+g.clients
		}
	}
	for arrivals < n {
		now += time.Duration(random.ExpFloat64() / total * float64(time.Second))
		for ; serves <= now; serves += pace {
			p := q.next()
			if p == nil {
				serves = now + pace // idle
				break
			}
			w := p.Data.(*waits)
			w.gone = true
			inLine[[2]int{w.group, w.client}]--
			of := &results[w.group]
			wait := max(serves-w.came, 0)
			of.waits = append(of.waits, wait)
			if groups[w.group].clients > 0 {
				if of.byClient == nil {
					of.byClient = map[int][]time.Duration{}
				}
				of.byClient[w.client] = append(of.byClient[w.client], wait)
			}
			of.worst = max(of.worst, float64(served-w.before)/w.bound)
			served++
		}
		for len(impatient) > 0 && now-impatient[0].came > groups[impatient[0].group].hangsUp {
			w := impatient[0]
			if impatient = impatient[1:]; !w.gone {
				w.gone = true
				q.leave(&w.Place)
				inLine[[2]int{w.group, w.client}]--
				results[w.group].hungUp++
				come(w.group, w.client)
			}
		}
		which, g := random.Float64()*total, 0
		for which > groups[g].rate && g < len(groups)-1 {
			which -= groups[g].rate
			g++
		}
		come(g, random.IntN(max(groups[g].clients, 1)))
	}
	return results
}

// Of a limit of 1000 requests a second, one client wants 3000 and each of 100 others 5. Beside it are attacks on the line.
// No request that keeps its place waits for more than the bound, in ten million arrivals of a long run:
//
//	LONG_TESTS=1 go test ./internal/line -run NobodyStarves -v
//
// The bound, in requests of cost 1 that are served in front of one that has j of its client before it: (j+1)·W/w + W + K + 1. W is the
// weight of all clients in the line, w that of its own, and K how many clients there are. It is for one class. A class below
// others gets one of eight requests, which it shares with other such classes.
//
// Why: the request begins at most (j+1)/w after the virtual time. That goes on by 1/W with each request served, so after (j+1)·W/w of
// them whoever comes is behind it. In front of it are then those of K clients that begin earlier: one of each, and what
// clients lag behind the virtual time, which is no more than W+1 for all together, as whoever lags most is served.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	n := long.Rounds(200_000, 10_000_000)
	if race.Enabled {
		n = 50_000
	}
	light := group{name: "100 light clients", clients: 100, rate: 500}
	heavy := group{name: "a heavy one", clients: 1, rate: 3000}
	for name, tt := range map[string]struct {
		groups []group
		p99    time.Duration // of the first group at most; 0 where nothing is promised
	}{
		"contention": {[]group{light, heavy}, 10 * time.Millisecond},
		// A light client has the right to 5 requests a second, one in 200 ms.
		"weights":                      {[]group{{name: "100 light clients", clients: 100, rate: 250}, heavy, {name: "2 of weight 50", clients: 2, rate: 1500, weight: 50}}, 500 * time.Millisecond},
		"whoever hangs up and returns": {[]group{light, {name: "one that hangs up after 20 ms", clients: 1, rate: 1000, hangsUp: 20 * time.Millisecond}}, 10 * time.Millisecond},
		"users of one client":          {[]group{light, {name: "10,000 users of one client", clients: 1, users: 10_000, rate: 3000}}, 10 * time.Millisecond},
		"new clients":                  {[]group{light, {name: "new clients", rate: 3000}}, 0},
		"a class below":                {[]group{{name: "100 light clients", clients: 100, rate: 100, class: 1}, heavy, {name: "a heavy one in the class below", clients: 1, rate: 3000, class: 1}}, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fair, arrival := new(byShare), new(byArrival)
			results := simulate(n, fair, tt.groups)
			beside := simulate(n, arrival, tt.groups)
			for i := range results {
				r, b := &results[i], &beside[i]
				t.Logf("%-30s by share: p50 %7.1f ms, p99 %7.1f ms, p99 of the worst client %7.1f ms, longest %7.1f ms, %8d served, %8d denied; by arrival: p50 %7.1f ms, p99 %7.1f ms, of the worst client %7.1f ms, %8d served, %8d denied; %.2f of the bound",
					tt.groups[i].name, ms(r.quantile(0.5)), ms(r.quantile(0.99)), ms(r.ofWorst(0.99)), ms(r.quantile(1)), len(r.waits), r.denied, ms(b.quantile(0.5)), ms(b.quantile(0.99)), ms(b.ofWorst(0.99)), len(b.waits), b.denied, r.worst)
				bound := 1.0
				if tt.groups[i].class > 0 {
					bound = lowerEvery + 1 // for a call of the higher class that was passed over
				} else if name == "a class below" {
					bound = float64(lowerEvery) / (lowerEvery - 1)
				}
				if r.worst > bound {
					t.Errorf("%s: a request waited for %.2f of the bound", tt.groups[i].name, r.worst)
				}
				if len(r.waits) == 0 {
					t.Errorf("%s: none was served", tt.groups[i].name)
				}
			}
			first, all := &results[0], len(results[0].waits)+results[0].denied
			if tt.p99 > 0 && (first.denied*1000 > all || first.quantile(0.99) > tt.p99) {
				t.Errorf("%s: %d of %d denied, p99 %v, want one in 1000 and %v at most", tt.groups[0].name, first.denied, all, first.quantile(0.99), tt.p99)
			}
			if known := remembered(&fair.Line); known > 2*maxAbsent+3*places {
				t.Errorf("the line knows %d clients and users", known)
			}
		})
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// remembered returns how many clients and users a line knows.
func remembered(l *Line) (n int) {
	for _, c := range l.classes {
		n += len(c.known)
		for _, f := range c.known {
			if f.inner != nil {
				n += len(f.inner.known)
			}
		}
	}
	for _, h := range l.holders.known {
		if n++; h.users != nil {
			n += len(h.users.known)
		}
	}
	return n
}

func BenchmarkJoinLeave(b *testing.B) {
	for _, beside := range []int{0, 1000} {
		b.Run(fmt.Sprint("beside ", beside), func(b *testing.B) {
			l := new(Line)
			for i := range beside {
				l.Join(new(Place), Request{Client: uint64(i), Weight: 1, Cost: 1}, Bounds{})
			}
			b.ReportAllocs()
			p := new(Place)
			for i := 0; b.Loop(); i++ {
				l.Join(p, Request{Client: uint64(i % 5000), Weight: 1, Cost: 1}, Bounds{})
				l.Leave(p)
			}
		})
	}
}

func BenchmarkJoinServe(b *testing.B) {
	l := new(Line)
	for i := range 1000 {
		l.Join(new(Place), Request{Client: uint64(i), Weight: 1, Cost: 1}, Bounds{})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := l.Next()
		l.Served(p)
		l.Join(p, Request{Client: uint64(i * 7 % 5000), Weight: 1, Cost: 1}, Bounds{})
	}
}
