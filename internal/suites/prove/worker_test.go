package prove

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// order says which store a process uses.
type order struct {
	Network, Addr string // of Redis
	AddrFile      string // has the address of Redis
	Cluster       bool
	PostgreSQL    string
	Place         *place // if the process is in a region
	Age           int64  // of repeated denials, in microseconds; 0 is the default
	Loss          loss
}

// line is what a process says: an operation, or that a job is done.
type line struct {
	Operation *operation `json:",omitempty"`
	Done      bool       `json:",omitempty"`
	Err       string     `json:",omitempty"`
}

// worker does jobs until it is told no more.
var worker = child.NewRole("worker", func(t *testing.T, parent *child.Parent, o order) {
	r := must.Get(o.open())(t)
	r.note = func(o *operation) { parent.Send(line{Operation: o}) }
	for {
		var j job // a new one: what a message leaves out keeps its value
		if !parent.Receive(&j) {
			return
		}
		done := line{Done: true}
		if err := r.run(&j); err != nil {
			done.Err = err.Error()
		}
		parent.Send(done)
	}
})

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// open returns a runner with the process's stores.
func (o *order) open() (*runner, error) {
	if o.PostgreSQL != "" {
		s, err := openPostgres(o.PostgreSQL)
		return &runner{store: s}, err
	}
	dial := new(net.Dialer).DialContext
	if o.AddrFile != "" {
		dial = dialerOf(o.AddrFile)
	}
	e := &ear{loss: o.Loss, client: o.client(dial), received: make(chan struct{}, 1)}
	r := &runner{
		store:     redisstore.New(o.client(dial), redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}}),
		repeating: redisstore.New(o.client(e.dialer(dial)), redisstore.Config{DenialCache: redisstore.DenialCache{Age: micros(o.Age)}}),
		ear:       e,
	}
	for _, s := range []store.Store{r.store, r.repeating} {
		s.Registry().OnEvent(func(core.Event) {}) // no log
	}
	if o.Place == nil {
		return r, nil
	}
	var errs [2]error
	r.place = o.Place
	r.store, errs[0] = o.Place.over(r.store)
	r.repeating, errs[1] = o.Place.over(r.repeating)
	return r, errors.Join(errs[:]...)
}

func (o *order) client(dial dialer) redis.UniversalClient {
	if o.Cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}, Dialer: dial})
	}
	return redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Dialer: dial})
}

// process is a process that makes operations.
type process struct{ *child.Process }

func start(tb testing.TB, o order) *process {
	tb.Helper()
	return &process{worker.Start(tb, o)}
}

// dead reports whether the process has ended.
func (p *process) dead() bool { return p.State() != nil }

// failure returns an error if the process has ended by itself.
func (p *process) failure() error {
	if p.dead() && p.State().ExitCode() > 0 { // -1 if it was killed
		return fmt.Errorf("a process has ended: %v\n%s", p.State(), p.Printed())
	}
	return nil
}

// run has the process do a job, and returns the operations that it made, or had begun when it died.
func (p *process) run(tb testing.TB, j *job) ([]*operation, error) {
	p.Send(tb, j)
	latest := map[int]*operation{}
	for {
		var l line
		switch err := p.Next(&l); {
		case errors.Is(err, child.ErrEnded) || l.Done && l.Err == "":
			return slices.Collect(maps.Values(latest)), nil
		case err != nil:
			return nil, fmt.Errorf("process %d, %s: %w", j.Process, j.Name, err)
		case l.Err != "":
			return nil, errors.New(l.Err)
		}
		latest[l.Operation.ID] = l.Operation
	}
}
