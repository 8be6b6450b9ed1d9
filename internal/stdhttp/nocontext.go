package stdhttp

import (
	"net/http"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Memory is what decisions need while they are made. An adapter that has pooled requests keeps it in
// them. After a panic it can't be used again. Its zero value is ready to use.
type Memory struct {
	scratch adapter.Scratch
	brief   adapter.Context // of a decision that ends before the handler runs; zero in between
}

// memories are for adapters that have no pooled requests.
var memories = sync.Pool{New: func() any { return new(Memory) }}

// allowed is the decision on all requests that are allowed and have nothing reserved, where nobody reads
// more of it.
var allowed = &core.Decision{Allowed: true}

// DecideWithoutContext is Decide for a Config with NoContext: r stays as it is unless something is
// reserved, and the decision on an allowed request says only that.
func DecideWithoutContext(limiter *adapter.Limiter, in keyfuncs.Request, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	m := memories.Get().(*Memory)
	d, r := m.decideWithoutContext(limiter, in, r, h)
	memories.Put(m)
	return d, r
}

// Decide is the function Decide or, with noContext, DecideWithoutContext.
func (m *Memory) Decide(limiter *adapter.Limiter, in keyfuncs.Request, r *http.Request, h http.Header, noContext bool) (*core.Decision, *http.Request) {
	if noContext {
		return m.decideWithoutContext(limiter, in, r, h)
	}
	e, room := newExchange(limiter, r)
	limiter.DecideIn(&m.scratch, in, &e.context, room)
	return e.write(r, h)
}

func (m *Memory) decideWithoutContext(limiter *adapter.Limiter, in keyfuncs.Request, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	if limiter.Limits() > 1 { // their results stay where they are
		many := new(struct {
			adapter.Context
			room [3]core.LimitResult
		})
		limiter.DecideIn(&m.scratch, in, &many.Context, many.room[:])
		return attachReserved(limiter, &many.Context, r, h)
	}
	limiter.DecideIn(&m.scratch, in, &m.brief, nil)
	d := &m.brief.Decision
	if !d.Allowed || limiter.Reserved(d) {
		kept := new(adapter.Context)
		*kept, m.brief = m.brief, adapter.Context{}
		return attachReserved(limiter, kept, r, h)
	}
	d.SetHeaders(adapter.HeaderMap(h))
	*d = core.Decision{}
	return allowed, r
}

func attachReserved(limiter *adapter.Limiter, c *adapter.Context, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	c.Decision.SetHeaders(adapter.HeaderMap(h))
	if limiter.Reserved(&c.Decision) {
		c.Context = r.Context()
		r = r.WithContext(c)
	}
	return &c.Decision, r
}
