package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// The states of a payout.
const (
	paid   = "paid"
	queued = "queued"
)

// payout is one order to pay.
type payout struct {
	ID    string `json:"id"` // the Idempotency-Key of the customer's request
	Cents int64  `json:"cents"`
	State string `json:"state"` // Guarded by desk.mu.

	customer string
	done     chan struct{} // closed when it is paid
}

const (
	// mostQueued bounds how many payouts of a customer wait, and mostKept how many are remembered: what a client can
	// fill must have an end.
	mostQueued = 10
	mostKept   = 1000

	// moment is how long a request waits for its payout, and pollEvery how soon to ask about one that is queued.
	moment    = 500 * time.Millisecond
	pollEvery = "10"
)

// desk takes orders. Here they are kept in memory. Where money is real they belong into a database, in the transaction
// that moves it: then a process that dies loses no order to which it has answered 202.
type desk struct {
	limiter *core.Limiter
	pay     func(*payout)
	context context.Context

	mu    sync.Mutex
	known map[string]map[string]*payout // Guarded by mu. By customer and ID.
	queue map[string][]*payout          // Guarded by mu. By customer; a worker has each that is not empty.
}

// newServer pays three at once for each customer, and then six a minute, over all processes on the store. Requests have
// a limit of their own, since polls and repeats cost something, too.
func newServer(ctx context.Context, store core.Store, pay func(*payout)) http.Handler {
	payouts := core.PerMinute(6).Burst(3).By(keyfuncs.User("customer")).Named("payouts")
	d := &desk{
		limiter: core.ForLimits(store, []core.Limit{payouts}), pay: pay, context: ctx,
		known: make(map[string]map[string]*payout), queue: make(map[string][]*payout),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payouts", d.order)
	mux.HandleFunc("GET /payouts/{id}", d.tell)
	return nethttp.Limit(store, core.PerMinute(30).By(keyfuncs.ClientIP()).Named("requests"))(mux)
}

// order answers 201 if the payout is paid within a moment, and else 202.
func (d *desk) order(w http.ResponseWriter, r *http.Request) {
	customer, _, ok := r.BasicAuth() // stands for your authentication
	p := new(payout)
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(p)
	p.ID, p.State, p.customer, p.done = r.Header.Get("Idempotency-Key"), queued, customer, make(chan struct{})
	if !ok || err != nil || p.ID == "" || len(p.ID) > 64 || p.Cents < 1 {
		http.Error(w, "want a customer, an Idempotency-Key of up to 64 bytes, and cents", http.StatusBadRequest)
		return
	}
	known, isNew := d.take(p)
	switch {
	case known == nil:
		w.Header().Set("Retry-After", pollEvery)
		http.Error(w, "too many payouts are waiting", http.StatusTooManyRequests)
	case known.Cents != p.Cents:
		http.Error(w, "this Idempotency-Key belongs to another payout", http.StatusUnprocessableEntity)
	case !isNew:
		d.write(w, http.StatusOK, known)
	default:
		select {
		case <-p.done:
			d.write(w, http.StatusCreated, p)
		case <-time.After(moment):
			w.Header().Set("Location", "/payouts/"+p.ID)
			d.write(w, http.StatusAccepted, p)
		}
	}
}

// take queues a payout. A request that is repeated gets the payout of the first one, and there is none if too many wait.
func (d *desk) take(p *payout) (known *payout, isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.known[p.customer]
	waiting, atWork := d.queue[p.customer] // a queue that is there has somebody at work, though it may be empty
	switch {
	case of[p.ID] != nil:
		return of[p.ID], false
	case len(of) >= mostKept, len(waiting) >= mostQueued:
		return nil, false
	case of == nil:
		of = make(map[string]*payout)
		d.known[p.customer] = of
	}
	of[p.ID], d.queue[p.customer] = p, append(waiting, p)
	if !atWork {
		go d.work(p.customer)
	}
	return p, true
}

// work pays what a customer has queued, one after the other, as the limit has room. It ends with the queue.
func (d *desk) work(customer string) {
	for next := d.next(customer); next != nil; next = d.next(customer) {
		for {
			decision := d.limiter.AllowKey(d.context, keyfuncs.Encode("user", customer), 1)
			if decision.Allowed {
				break
			}
			select {
			case <-time.After(max(decision.RetryAfter, 10*time.Millisecond)):
			case <-d.context.Done():
				return
			}
		}
		d.pay(next)
		d.mu.Lock()
		next.State, d.queue[customer] = paid, d.queue[customer][1:]
		d.mu.Unlock()
		close(next.done)
	}
}

// next returns the payout that is first in the queue, or nil if there is none.
func (d *desk) next(customer string) *payout {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue[customer]) == 0 {
		delete(d.queue, customer)
		return nil
	}
	return d.queue[customer][0]
}

// tell says what has become of an order of the customer.
func (d *desk) tell(w http.ResponseWriter, r *http.Request) {
	customer, _, _ := r.BasicAuth()
	d.mu.Lock()
	p := d.known[customer][r.PathValue("id")]
	d.mu.Unlock()
	if p == nil {
		http.NotFound(w, r)
		return
	}
	d.write(w, http.StatusOK, p)
}

func (d *desk) write(w http.ResponseWriter, status int, p *payout) {
	d.mu.Lock()
	now := *p
	d.mu.Unlock()
	if now.State == queued {
		w.Header().Set("Retry-After", pollEvery)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&now) // the client may be gone
}
