package peers

import (
	"context"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
)

const weblimitByHand = "what one limit needs and nothing else, written by hand: token buckets in a map that never forgets"

// floor shows what a limit in memory, by client address and with the same headers, takes at least in
// each framework. It has no decision that handlers could read, no bound of its memory, no second limit
// and no other algorithm.
var floor = floorOf(Peer{Name: "floor", Counts: weblimitByHand}, false)

// floorContext is floor with a decision that handlers can read.
var floorContext = floorOf(Peer{Name: "floor-context", Counts: weblimitByHand + "; handlers can read the decision"}, true)

// floorSilent is floor without headers.
var floorSilent = floorOf(Peer{Name: "floor-no-headers", Counts: weblimitByHand + "; no headers", Silent: true}, false)

func floorOf(p Peer, hasContext bool) Peer {
	p.Module, p.Baseline = weblimitModule, true
	silent := p.Silent
	byAddr := func(q Quota) *floorByAddr { return &floorByAddr{newFloorBuckets[netip.Addr](q), silent, hasContext} }
	if !silent && !hasContext {
		p.Memory = func(q Quota) (Limiter, error) {
			b := newFloorBuckets[string](q)
			return Limiter{Check: func(_ context.Context, key string) (bool, error) {
				allowed, _, _ := b.take(key)
				return allowed, nil
			}}, nil
		}
	}
	p.HTTP = func(q Quota) (func(http.Handler) http.Handler, error) {
		b := byAddr(q)
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r, allowed := b.pass(r, w.Header()); allowed {
					next.ServeHTTP(w, r)
					return
				}
				w.WriteHeader(http.StatusTooManyRequests)
			})
		}, nil
	}
	p.Gin = func(q Quota) (gin.HandlerFunc, error) {
		b := byAddr(q)
		return func(c *gin.Context) {
			var allowed bool
			if c.Request, allowed = b.pass(c.Request, c.Writer.Header()); !allowed {
				c.AbortWithStatus(http.StatusTooManyRequests)
			}
		}, nil
	}
	p.Echo = func(q Quota) (echo.MiddlewareFunc, error) {
		b := byAddr(q)
		return func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				r, allowed := b.pass(c.Request(), c.Response().Header())
				if hasContext {
					c.SetRequest(r)
				}
				if allowed {
					return next(c)
				}
				return c.NoContent(http.StatusTooManyRequests)
			}
		}, nil
	}
	if hasContext {
		return p
	}
	p.Fiber = func(q Quota) (fiber.Handler, error) {
		b := byAddr(q)
		return func(c *fiber.Ctx) error {
			addr, _ := netip.AddrFromSlice(c.Context().RemoteIP())
			allowed, remaining, full := b.take(floorKey(addr))
			if !silent {
				var buf [64]byte
				h := &c.Response().Header
				h.Set("RateLimit-Policy", b.policy)
				h.SetBytesV("RateLimit", appendFloor(buf[:0], remaining, full))
			}
			if allowed {
				return c.Next()
			}
			return c.SendStatus(http.StatusTooManyRequests)
		}, nil
	}
	return p
}

// floorBuckets are token buckets in a sharded map. A bucket is the time at which it is full again.
type floorBuckets[K comparable] struct {
	start        time.Time
	unit, window int64 // in nanoseconds
	policy       string
	seed         maphash.Seed
	shards       [256]struct {
		mu   sync.Mutex
		full map[K]*int64 // nanoseconds since start. Guarded by mu.
		_    [48]byte     // the rest of a cache line
	}
}

func newFloorBuckets[K comparable](q Quota) *floorBuckets[K] {
	unit := int64(q.Window) / q.Units
	b := &floorBuckets[K]{start: time.Now(), unit: unit, window: unit * q.Units, seed: maphash.MakeSeed()}
	b.policy = `"default";q=` + strconv.FormatInt(q.Units, 10) + ";w=" + strconv.FormatInt(int64(q.Window/time.Second), 10)
	for i := range b.shards {
		b.shards[i].full = map[K]*int64{}
	}
	return b
}

// take returns what remains and when the bucket of a key is full again.
func (b *floorBuckets[K]) take(key K) (allowed bool, remaining int64, full time.Duration) {
	now := int64(time.Since(b.start))
	s := &b.shards[maphash.Comparable(b.seed, key)%uint64(len(b.shards))]
	s.mu.Lock()
	at := s.full[key]
	if at == nil {
		at = new(int64)
		s.full[key] = at
	}
	debt := max(*at-now, 0)
	if allowed = debt+b.unit <= b.window; allowed {
		debt += b.unit
		*at = now + debt
	}
	s.mu.Unlock()
	return allowed, (b.window - debt) / b.unit, time.Duration(debt)
}

// floorByAddr decides requests of net/http by the client's address.
type floorByAddr struct {
	*floorBuckets[netip.Addr]
	silent, hasContext bool
}

// floorHeaders are the headers of one response: each has values of its own, in one allocation.
type floorHeaders struct {
	policy, limit [1]string
	text          [32]byte
}

// floorDecision is a context that holds what a handler may read, with all else that belongs to the
// request.
type floorDecision struct {
	context.Context
	allowed   bool
	remaining int64
	full      time.Duration
	request   http.Request
	headers   floorHeaders
}

type floorDecisionKey struct{}

func (d *floorDecision) Value(key any) any {
	if key == (floorDecisionKey{}) {
		return d
	}
	return d.Context.Value(key)
}

// pass decides a request and sets the headers of its response.
func (b *floorByAddr) pass(r *http.Request, h http.Header) (_ *http.Request, allowed bool) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	allowed, remaining, full := b.take(floorKey(peer.Addr()))
	if b.silent {
		return r, allowed
	}
	var own *floorHeaders
	if b.hasContext {
		d := &floorDecision{Context: r.Context(), allowed: allowed, remaining: remaining, full: full}
		d.request = *r.WithContext(d)
		r, own = &d.request, &d.headers
	} else {
		own = new(floorHeaders)
	}
	text := appendFloor(own.text[:0], remaining, full)
	own.policy[0], own.limit[0] = b.policy, unsafe.String(unsafe.SliceData(text), len(text))
	h["Ratelimit-Policy"], h["Ratelimit"] = own.policy[:], own.limit[:]
	return r, allowed
}

func appendFloor(dst []byte, remaining int64, full time.Duration) []byte {
	dst = append(dst, `"default";r=`...)
	dst = strconv.AppendInt(dst, remaining, 10)
	dst = append(dst, ";t="...)
	return strconv.AppendInt(dst, int64((full+time.Second-1)/time.Second), 10)
}

// floorKey has one key for each IPv4 address and for each /64 of IPv6.
func floorKey(addr netip.Addr) netip.Addr {
	if addr = addr.Unmap(); addr.Is6() {
		network, _ := addr.Prefix(64)
		addr = network.Addr()
	}
	return addr
}
