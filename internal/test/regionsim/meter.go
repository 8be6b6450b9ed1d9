package regionsim

import (
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// meter measures one design: what it grants, and whether that keeps the bounds which package regions states.
type meter struct {
	rule      *store.Rule
	regions   int64
	overdraft int64
	period    *store.Rule // of leases of a token bucket; it tells when periods begin
	began     time.Time
	bin, warm time.Duration

	mu   sync.Mutex
	out  Outcome // guarded by mu, as all below
	keys []keyMeter
	most int64
}

// keyMeter is the account of one key.
type keyMeter struct {
	window  int64 // when the present one begins, in microseconds since the epoch
	granted int64 // in it

	// Of a token bucket, times Integers.Unit: the most by which what was granted between some moment and now exceeds what
	// the rate allows for that time and what was leased for the period of that moment.
	excess int64
	at     int64 // the moment of excess, in ticks
	begins int64 // the present period
	leased int64 // for it, so far
}

func newMeter(c *Config, rule *store.Rule, overdraft int64) (*meter, error) {
	m := &meter{
		rule: rule, regions: int64(c.Regions), overdraft: overdraft, began: time.Now(), bin: c.Bin, warm: c.Warm,
		keys: make([]keyMeter, c.Keys),
	}
	if rule.Algorithm != store.TokenBucket {
		return m, nil
	}
	n := &rule.Integers
	fills := time.Duration(n.Capacity/n.Rate*n.Tick) * time.Microsecond
	length := min(max(fills/2, 100*time.Millisecond), 30*time.Second).Truncate(time.Microsecond)
	period, err := store.NewRule("period", store.Numbers{Algorithm: store.FixedWindow, Quota: 1, Window: length, Jitter: true})
	m.period = &period
	return m, err
}

// answered counts a request that was answered at a time in microseconds since the epoch.
func (m *meter) answered(key, region int, name []byte, at int64, granted, exact bool, waited time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.UnixMicro(at).Sub(m.began) >= m.warm {
		m.count(granted, exact, waited)
	}
	if !granted {
		return
	}
	if m.bin > 0 {
		bin := int(time.UnixMicro(at).Sub(m.began) / m.bin)
		for len(m.out.Admitted) <= bin {
			m.out.Admitted = append(m.out.Admitted, make([]int64, m.regions))
		}
		m.out.Admitted[bin][region]++
	}
	k := &m.keys[key]
	if start := m.windowOf(at, name); start != k.window {
		k.window, k.granted = start, 0
	}
	k.granted++
	m.most = max(m.most, k.granted)
	if m.rule.Algorithm == store.TokenBucket {
		m.drain(k, at, name)
		k.excess += m.rule.Integers.Unit
		m.broken(k.excess/m.rule.Integers.Unit - m.rule.Burst) // whole units: records count in ticks
	} else {
		m.broken(k.granted - m.rule.Quota - m.regions*m.overdraft)
	}
}

// count counts a request after the warm-up. m.mu is held.
func (m *meter) count(granted, exact bool, waited time.Duration) {
	m.out.Requests++
	if exact {
		m.out.Exact++
	}
	if waited > 0 {
		m.out.Delayed++
		m.out.Longest = max(m.out.Longest, waited)
	}
	switch {
	case granted:
		m.out.Granted++
	case exact:
		m.out.Wrong++
	}
}

func (m *meter) broken(beyond int64) { m.out.Broken = max(m.out.Broken, beyond) }

// lease counts units that home has charged for a region.
func (m *meter) lease(key int, name []byte, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rule.Algorithm != store.TokenBucket {
		return
	}
	k := &m.keys[key]
	m.drain(k, time.Now().UnixMicro(), name)
	k.leased += units
}

// drain brings the excess of a token bucket to a time.
func (m *meter) drain(k *keyMeter, now int64, name []byte) {
	n := &m.rule.Integers
	if begins := windowStart(now, m.period, name); begins != k.begins {
		k.begins, k.leased = begins, 0
		k.excess -= m.regions * m.overdraft * n.Unit // each period has its own
	}
	tick := now / n.Tick
	k.excess = max(k.excess-(tick-k.at)*n.Rate, -(k.leased+m.regions*m.overdraft)*n.Unit)
	k.at = tick
}

// windowOf returns when the window of a time begins: of a token bucket, one that is aligned as a fixed window.
func (m *meter) windowOf(at int64, name []byte) int64 {
	if m.rule.Algorithm == store.Calendar {
		start, _, _ := m.rule.Period(at)
		return start
	}
	return windowStart(at, m.rule, name)
}

func windowStart(at int64, r *store.Rule, name []byte) int64 {
	at -= counting.Offset(r, name)
	return at - at%r.Window.Microseconds()
}

// outcome returns what was measured.
func (m *meter) outcome() Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out.Most = float64(m.most) / float64(m.rule.Quota)
	return m.out
}
