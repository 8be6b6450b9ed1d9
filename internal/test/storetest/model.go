package storetest

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// model decides as a store should, by the definition of each algorithm, on exact fractions.
// It shares no arithmetic with the stores: it finds Remaining and RetryAfter by trying.
type model struct {
	buckets   map[string]*modelBucket // by key and limit
	marks     map[string]modelMark    // by key, limit and operation
	penalties map[string]modelPenalty // by key and limit
	manuals   map[string]modelManual  // by key and limit

	// Of limits that clients divide, by key, limit, client and user: see fairmodel.go.
	divisions map[string]modelDivision
	parts     map[string]modelPart
}

// modelMark says when an operation was charged, until when it is known, and how often it
// was repeated since.
type modelMark struct{ at, until, repeats int64 }

// modelBucket is the state of one key under one limit.
type modelBucket struct {
	rule  core.Rule
	debt  *big.Rat        // token bucket: units, at since
	since int64           // token bucket: in ticks
	start int64           // windows: of the current one, in ticks
	count [2]int64        // windows: units used in the current one and the one before it
	log   []modelLogEntry // sliding log; concurrency: the slots
	end   int64           // calendar windows: of the current one
	known int64           // ledgers: the position, or 0 if the account is unknown
	used  bool            // false if nothing is stored
	over  *modelBucket    // what is stored, if it counts more than the rule holds, and so stays: see modelforeign.go
	idle  bool            // the last change may have had nothing to change: a store need not have written what was over
}

type modelLogEntry struct{ at, units int64 }

func newModel() *model {
	return &model{
		buckets: map[string]*modelBucket{}, marks: map[string]modelMark{}, penalties: map[string]modelPenalty{}, manuals: map[string]modelManual{},
		divisions: map[string]modelDivision{}, parts: map[string]modelPart{},
	}
}

func (b *modelBucket) clone() *modelBucket {
	c := *b
	if b.debt != nil {
		c.debt = new(big.Rat).Set(b.debt)
	}
	c.log = append([]modelLogEntry(nil), b.log...)
	return &c
}

func modelTick(r *core.Rule) int64 { return r.Integers.Tick }

func modelWindow(r *core.Rule) int64 { return r.Window.Microseconds() / modelTick(r) }

// modelWhole returns the burst of the limit's upper class of requests. A limit with a
// queue has one class.
func modelWhole(r *core.Rule) int64 {
	if r.Wait > 0 {
		return r.Burst
	}
	return r.Integers.Whole / (r.Integers.Capacity / r.Burst)
}

// modelHolds returns the units that a bucket holds, including its queue.
func modelHolds(r *core.Rule, burst int64) *big.Rat {
	holds := new(big.Rat).SetInt64(burst)
	if r.Wait > 0 {
		ticks := r.Wait.Microseconds() / modelTick(r)
		holds.Add(holds, new(big.Rat).Mul(modelRate(r), new(big.Rat).SetInt64(ticks)))
	}
	return holds
}

// modelMost returns how many units a charge can bring the use to at most: the debt beyond what the bucket holds, queue
// included, or by default as much again.
func modelMost(r *core.Rule) *big.Rat {
	holds := modelHolds(r, modelWhole(r))
	if r.HasDebt {
		return holds.Add(holds, new(big.Rat).SetInt64(r.Debt))
	}
	return holds.Add(holds, holds)
}

// modelRate returns the units that a token bucket regains in a tick.
func modelRate(r *core.Rule) *big.Rat { return big.NewRat(r.Quota, modelWindow(r)) }

// sameForm reports whether a bucket of rule a can be read as one of rule b.
func sameForm(a, b *core.Rule) bool {
	if a.Algorithm != b.Algorithm || modelTick(a) != modelTick(b) {
		return false
	}
	if a.Algorithm == store.TokenBucket {
		return modelRate(a).Cmp(modelRate(b)) == 0
	}
	if onCalendar(a) {
		return a.Integers.Unit == b.Integers.Unit // the unit identifies zone and kind
	}
	return a.Window == b.Window
}

// at returns b at a later time, under its own rule.
func (b *modelBucket) at(now int64, key string) *modelBucket {
	c := b.clone()
	t := now / modelTick(&c.rule)
	w := modelWindow(&c.rule)
	switch c.rule.Algorithm {
	case store.TokenBucket:
		regained := new(big.Rat).Mul(modelRate(&c.rule), new(big.Rat).SetInt64(t-c.since))
		if c.debt.Sign() == 0 { // nothing is stored: if the clock was set back, nothing comes back
			regained.SetInt64(0)
		}
		if c.debt.Sub(c.debt, regained); c.debt.Sign() < 0 {
			c.debt = new(big.Rat)
		}
		c.since = t
		c.used = c.debt.Sign() > 0
	case store.FixedWindow:
		if !c.used || t >= c.start+w {
			c.begin(t, key)
		}
	case store.Calendar, store.Ledger:
		if !c.used || t >= c.end {
			known, before := c.known, c.end
			c.begin(t, key)
			// The account of the period before is known, so nobody has charged this one.
			if c.used && known > 0 && c.start == before && t-before < (6*time.Hour).Microseconds() {
				c.known = 1 << 36
			}
		}
	case store.SlidingWindow:
		switch {
		case !c.used || t >= c.start+2*w:
			c.begin(t, key)
		case t >= c.start+w:
			c.start += w
			c.count = [2]int64{0, c.count[0]}
		}
	case store.SlidingLog, store.Concurrency:
		for len(c.log) > 0 && c.log[0].at+w <= t {
			c.log = c.log[1:]
		}
	}
	if c.rule.Algorithm != store.TokenBucket {
		c.used = c.count != [2]int64{} || c.logged() > 0 || c.known > 0
	}
	return c
}

// begin starts the aligned window that contains t, or one that begins with first use at t.
func (b *modelBucket) begin(t int64, key string) {
	if onCalendar(&b.rule) {
		b.start, b.end = modelPeriod(&b.rule, t)
		b.count, b.known = [2]int64{}, 0
		return
	}
	if b.rule.FromUse {
		b.start, b.count = t, [2]int64{}
		return
	}
	w := modelWindow(&b.rule)
	offset := counting.Offset(&b.rule, []byte(key)) / modelTick(&b.rule)
	b.start, b.count = t-((t-offset)%w+w)%w, [2]int64{}
}

func (b *modelBucket) logged() (units int64) {
	for _, e := range b.log {
		units += e.units
	}
	return units
}

// level returns the units that count as used.
func (b *modelBucket) level() *big.Rat {
	switch b.rule.Algorithm {
	case store.TokenBucket:
		return new(big.Rat).Set(b.debt)
	case store.FixedWindow, store.Calendar, store.Ledger:
		return new(big.Rat).SetInt64(b.count[0])
	case store.SlidingLog, store.Concurrency:
		return new(big.Rat).SetInt64(b.logged())
	}
	panic(fmt.Sprintf("the model has no level of %v at any time: see levelAt", b.rule.Algorithm))
}

func (b *modelBucket) levelAt(t int64) *big.Rat {
	if b.rule.Algorithm != store.SlidingWindow {
		return b.level()
	}
	w := modelWindow(&b.rule)
	previous := big.NewRat(b.count[1]*(w-max(t-b.start, 0)), w)
	return previous.Add(previous, new(big.Rat).SetInt64(b.count[0]))
}

// open returns the bucket as the rule sees it now, and whether it was converted from a
// rule with other numbers.
func (m *model) open(rule *core.Rule, key string, now int64) (b *modelBucket, converted bool) {
	old, ok := m.buckets[key+"|"+rule.Name]
	t := now / modelTick(rule)
	fresh := &modelBucket{rule: *rule, debt: new(big.Rat), since: t}
	switch rule.Algorithm {
	case store.FixedWindow, store.SlidingWindow, store.Calendar, store.Ledger:
		fresh.begin(t, key)
	}
	if !ok {
		return fresh, false
	}
	old = old.at(now, key)
	if !old.used {
		return fresh, false
	}
	if sameForm(&old.rule, rule) {
		old.rule = *rule
		converted = old.bringBack(now)
		if !old.used { // an account is forgotten
			return fresh, true
		}
		return old, converted
	}
	if isLog(&old.rule) && isLog(rule) {
		old.rule = *rule
		old.bringBack(now)
		old.idle = true
		return old.at(now, key), true
	}
	level := old.countable(old.levelAt(now / modelTick(&old.rule)))
	if old.exceeds(rule, level, now) {
		fresh.over = old
		return fresh, false
	}
	return m.convert(fresh, level, now)
}

// unknown reports whether the bucket is of an account whose use nobody has told.
func (b *modelBucket) unknown() bool { return b.rule.Algorithm == store.Ledger && b.known == 0 }

func onCalendar(r *core.Rule) bool {
	return r.Algorithm == store.Calendar || r.Algorithm == store.Ledger
}

func isLog(r *core.Rule) bool {
	return r.Algorithm == store.SlidingLog || r.Algorithm == store.Concurrency
}

func ceilRat(r *big.Rat) *big.Int {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func (b *modelBucket) fits(t, cost int64) bool {
	if b.over != nil {
		return cost == 0
	}
	return cost == 0 || cost <= b.rule.Burst && b.fitsInto(t, cost, modelHolds(&b.rule, b.rule.Burst))
}

// fitsAtOnce is fits for a request that does not queue.
func (b *modelBucket) fitsAtOnce(t, cost int64) bool {
	return b.fitsInto(t, cost, new(big.Rat).SetInt64(b.rule.Burst))
}

func (b *modelBucket) fitsInto(t, cost int64, holds *big.Rat) bool {
	if b.unknown() {
		return false
	}
	level := b.levelAt(t)
	return level.Add(level, new(big.Rat).SetInt64(cost)).Cmp(holds) <= 0
}

// answer returns the result that a store should give for an opened bucket.
func (b *modelBucket) answer(now, cost int64, charged bool, key string) core.Result {
	if b.over != nil {
		return b.answerForeign(now, cost, charged)
	}
	tick := modelTick(&b.rule)
	t := now / tick
	r := core.Result{Allowed: charged || b.fits(t, cost), Charged: charged}
	r.Remaining = search(b.rule.Burst, func(n int64) bool { return !b.fitsAtOnce(t, n+1) })
	wait := func(cost int64, fits func(b *modelBucket, t, cost int64) bool) time.Duration {
		return b.waitFor(now, cost, key, fits)
	}
	if !r.Allowed && cost <= b.rule.Burst {
		if r.RetryAfter = time.Second; b.rule.Algorithm != store.Concurrency {
			r.RetryAfter = wait(cost, (*modelBucket).fits)
		}
	}
	if onCalendar(&b.rule) {
		b.start = b.end // and its window has no length
	}
	windowLeft := time.Duration((b.start+modelWindow(&b.rule))*tick-t*tick) * time.Microsecond
	switch {
	case b.rule.Algorithm == store.Concurrency:
		r.Window = time.Second
	case r.RetryAfter > 0:
		r.Window = r.RetryAfter
	case r.Remaining == 0:
		r.Window = wait(1, (*modelBucket).fitsAtOnce)
	case b.rule.Algorithm == store.FixedWindow, onCalendar(&b.rule):
		r.Window = windowLeft
	default:
		r.Window = b.spread(r.Remaining)
	}
	switch b.rule.Algorithm {
	case store.TokenBucket:
		r.ResetAfter = time.Duration(ceilRat(new(big.Rat).Quo(b.debt, modelRate(&b.rule))).Int64()*tick) * time.Microsecond
	case store.FixedWindow, store.Calendar, store.Ledger:
		r.ResetAfter = windowLeft
	case store.SlidingWindow:
		if b.count[0] > 0 {
			r.ResetAfter = windowLeft + b.rule.Window
		} else if b.count[1] > 0 {
			r.ResetAfter = windowLeft
		}
	case store.SlidingLog, store.Concurrency:
		if len(b.log) > 0 {
			r.ResetAfter = time.Duration(b.log[len(b.log)-1].at+modelWindow(&b.rule)-now) * time.Microsecond
		}
	}
	if b.rule.Wait > 0 && charged {
		if queued := new(big.Rat).Sub(b.debt, new(big.Rat).SetInt64(b.rule.Burst)); queued.Sign() > 0 {
			r.Turn = time.Duration(ceilRat(queued.Quo(queued, modelRate(&b.rule))).Int64()*tick) * time.Microsecond
		}
	}
	if b.rule.Algorithm == store.Ledger {
		r.Charged = charged && b.known > 0
		r.Unknown = b.known == 0
	}
	return r
}

// waitFor returns how long it takes until a cost fits.
func (b *modelBucket) waitFor(now, cost int64, key string, fits func(b *modelBucket, t, cost int64) bool) time.Duration {
	if b.unknown() {
		return time.Second
	}
	tick := modelTick(&b.rule)
	t := now / tick
	span := 2*modelWindow(&b.rule) + 1
	switch b.rule.Algorithm {
	case store.Calendar, store.Ledger:
		span = b.end - t
	case store.TokenBucket:
		span = ceilRat(new(big.Rat).Quo(b.debt, modelRate(&b.rule))).Int64()
	}
	// Buckets of more than one tick's resolution are decided as of the tick.
	n := search(span, func(n int64) bool { return fits(b.at((t+n)*tick, key), t+n, cost) })
	return time.Duration(n*tick) * time.Microsecond
}

// spread returns the time in which the rule grants units.
func (b *modelBucket) spread(units int64) time.Duration {
	spread := new(big.Rat).Mul(big.NewRat(units, b.rule.Quota), new(big.Rat).SetInt64(b.rule.Window.Microseconds()))
	return time.Duration(ceilRat(spread).Int64()) * time.Microsecond
}

// search returns the smallest n below most for which found is true, or most. It is sort.Search for
// machines whose int has 32 bits.
func search(most int64, found func(n int64) bool) int64 {
	least := int64(0)
	for least < most {
		if n := least + (most-least)/2; found(n) {
			most = n
		} else {
			least = n + 1
		}
	}
	return least
}

// tell sets the account of a check.
func (b *modelBucket) tell(c *core.Check) {
	if c.Account == nil || b.rule.Algorithm != store.Ledger {
		return
	}
	if *c.Account = (store.Account{Position: b.known}); b.known > 0 {
		c.Account.Used = b.count[0]
	}
}

func (b *modelBucket) charge(now, cost int64) {
	if b.idle = cost == 0; b.idle {
		return
	}
	b.used = true
	switch b.rule.Algorithm {
	case store.TokenBucket:
		b.debt.Add(b.debt, new(big.Rat).SetInt64(cost))
	case store.SlidingLog, store.Concurrency:
		if last := len(b.log) - 1; last >= 0 && b.log[last].at >= now {
			b.log[last].units += cost
		} else {
			b.log = append(b.log, modelLogEntry{now, cost})
		}
	default:
		b.count[0] += cost
		if b.known > 0 {
			b.known++
		}
	}
}

// chargeAnyway charges up to what a client can come to owe, and returns how many units more the cost has.
func (b *modelBucket) chargeAnyway(now, cost int64) (forgiven int64) {
	full := modelMost(&b.rule)
	if b.rule.Algorithm != store.TokenBucket {
		used := b.count[0]
		if isLog(&b.rule) {
			used = b.logged()
		}
		units := max(min(cost, full.Num().Int64()-used), 0)
		b.charge(now, units)
		return cost - units
	}
	if b.debt.Cmp(full) > 0 { // charged under a limit with a larger burst
		full.Set(b.debt)
	}
	before := new(big.Rat).Set(b.debt)
	if b.charge(now, min(cost, ceilRat(full).Int64())); b.debt.Cmp(full) > 0 {
		b.debt = full
	}
	charged := new(big.Rat).Sub(b.debt, before)
	return ceilRat(charged.Sub(new(big.Rat).SetInt64(cost), charged)).Int64()
}

// take decides checks. No two have the same key and rule.
func (m *model) take(checks []core.Check, now int64, charge bool) []core.Result {
	granted, unknown := charge, false
	opened := make([]*modelBucket, len(checks))
	checks = slices.Clone(checks)
	repeated, free := make([]bool, len(checks)), make([]bool, len(checks))
	blocked, all, shares := make([]int64, len(checks)), make([]judged, len(checks)), make([]*modelShare, len(checks))
	for i, c := range checks {
		if charge && c.Cost > 0 {
			m.bringBack(&c, now)
		}
		blocked[i] = m.blocked(&c, now) // by its cost, whether it was charged before or not
		was, _ := m.open(c.Rule, string(c.Key), now)
		if c.Cost > 0 && was.unknown() { // then nothing happens to any of the checks
			granted, unknown = false, true
		} else if mark := m.mark(&c, now); now < mark.until && mark.repeats < c.Rule.Repeats && (blocked[i] == 0 || now+blocked[i] < mark.until) {
			repeated[i], free[i] = true, c.Cost == 0
			checks[i].Cost, c.Cost = 0, 0
		}
		var converted bool
		opened[i], converted = m.open(c.Rule, string(c.Key), now)
		if converted && charge {
			m.store(&c, opened[i].clone())
		}
		fits := opened[i].fits(now/modelTick(c.Rule), c.Cost)
		if shares[i] = m.askShare(&c, opened[i], now, charge); shares[i] != nil {
			fits = shares[i].fits
		}
		all[i] = judged{fits: blocked[i] == 0 && fits, blocked: blocked[i] > 0, repeated: repeated[i]}
	}
	pays, denied := paying(checks, all)
	granted = granted && !denied
	results := make([]core.Result, len(checks))
	for i, c := range checks {
		fits := opened[i].fits(now/modelTick(c.Rule), c.Cost)
		charged := granted && pays[i]
		if charged {
			opened[i].charge(now, c.Cost)
			if shares[i] != nil {
				shares[i].pay(c.Cost)
			}
			if repeated[i] && !free[i] {
				mark := m.mark(&c, now)
				mark.repeats++
				m.marks[markKey(&c)] = mark
			}
			if c.Cost > 0 {
				m.store(&c, opened[i])
				if c.Once != nil {
					m.marks[markKey(&c)] = modelMark{at: now, until: now + c.Rule.Once.Microseconds()}
				}
			}
		}
		opened[i].tell(&c)
		results[i] = opened[i].answer(now, c.Cost, charged && !repeated[i], string(c.Key))
		if shares[i] != nil {
			shares[i].tell(&results[i], opened[i], c.Cost, charged && !repeated[i], string(c.Key))
		}
		results[i].Repeated = repeated[i] && (pays[i] || !isAlternative(checks, i))
		results[i].At = opened[i].chargedAt(now, results[i].Charged)
		if charge && !fits && blocked[i] == 0 && !unknown {
			blocked[i] = m.strike(&c, now)
		}
		if blocked[i] > 0 {
			results[i] = answerBlocked(results[i], blocked[i], c.Cost <= c.Rule.Burst)
		}
	}
	passOver(checks, results)
	return results
}

func markKey(c *core.Check) string {
	return string(c.Key) + "|" + c.Rule.Name + "|" + string(c.Once)
}

func (m *model) store(c *core.Check, b *modelBucket) {
	m.buckets[string(c.Key)+"|"+c.Rule.Name] = b
}

// charge charges each check, up to what its client can come to owe.
func (m *model) charge(checks []core.Check, now int64) []core.Result {
	results := make([]core.Result, len(checks))
	for i, c := range checks {
		share := m.chargeShare(&c, now)
		b, _ := m.open(c.Rule, string(c.Key), now)
		if b = m.adopt(b, now); b.over != nil { // it is charged no more than that
			results[i] = b.answer(now, 0, true, string(c.Key))
			share.tellShare(&results[i])
			results[i].At = b.chargedAt(now, true)
			results[i].Forgiven = c.Cost
			continue
		}
		forgiven := int64(0)
		if !b.unknown() {
			forgiven = b.chargeAnyway(now, c.Cost)
		}
		m.store(&c, b)
		b.tell(&c)
		results[i] = b.answer(now, 0, true, string(c.Key))
		share.tellShare(&results[i])
		results[i].At = b.chargedAt(now, true)
		results[i].Forgiven = forgiven
	}
	return results
}

func (m *model) refund(checks []core.Check, results []core.Result, now int64) []core.Result {
	results = append([]core.Result(nil), results...)
	for i, c := range checks {
		if !results[i].Charged {
			continue
		}
		share, standing := m.refundShare(&c, &results[i], now), results[i].Standing
		if m.refundForeign(&c, &results[i], now) {
			share.tellShare(&results[i])
			results[i].Standing = standing
			continue
		}
		b, _ := m.open(c.Rule, string(c.Key), now)
		tick, at := modelTick(c.Rule), results[i].At
		_, chargedEnd := modelChargedIn(c.Rule, &results[i])
		if b.unknown() && chargedEnd == b.end {
			m.store(&c, b)
			results[i].Unknown = true
			b.tell(&c)
			continue
		}
		switch c.Rule.Algorithm {
		case store.TokenBucket:
			since := counting.ChargedAt(c.Rule, c.Cost, &results[i])
			back := new(big.Rat).Mul(modelRate(c.Rule), new(big.Rat).SetInt64(max(now/tick-since/tick, 0)))
			charged := modelHolds(c.Rule, modelWhole(c.Rule)) // it cannot have been more
			if cost := new(big.Rat).SetInt64(c.Cost); cost.Cmp(charged) < 0 {
				charged = cost
			}
			if back.Sub(charged, back); back.Sign() > 0 {
				if b.debt.Sub(b.debt, back); b.debt.Sign() < 0 {
					b.debt = new(big.Rat)
				}
			}
		case store.SlidingLog, store.Concurrency:
			b.free(at, c.Cost)
		case store.Calendar, store.Ledger:
			if chargedEnd == b.end && !b.unknown() {
				units := min(b.count[0], c.Cost)
				if b.count[0] -= units; units > 0 && b.known > 0 {
					b.known++
				}
			}
		default:
			for n := range b.count {
				start := b.start - int64(n)*modelWindow(c.Rule)
				if t := at / tick; t >= start && (n == 0 || t < start+modelWindow(c.Rule)) {
					b.count[n] -= min(b.count[n], c.Cost)
				}
			}
		}
		b.idle = true
		m.store(&c, b)
		if mark := m.mark(&c, now); mark.at == at && now < mark.until {
			delete(m.marks, markKey(&c))
		}
		b.tell(&c)
		results[i] = b.answer(now, 0, false, string(c.Key))
		share.tellShare(&results[i])
		results[i].At, results[i].Standing = now, standing
	}
	return results
}

// restore begins the generations that follow those that accounts have.
func (m *model) restore(checks []core.Check, from []counting.Restoration, now int64) []core.Result {
	results := make([]core.Result, len(checks))
	for i, c := range checks {
		b, _ := m.open(c.Rule, string(c.Key), now)
		restored := b.known>>36 == from[i].Expect && b.end == from[i].Ends && (from[i].Position == 0 || from[i].Position == b.known)
		if restored {
			b.known = from[i].Generation<<36 + 1
			if b.count[0] = max(b.count[0], from[i].Used); from[i].Position > 0 {
				b.count[0] = from[i].Used
			}
			b.used = true
		}
		m.store(&c, b)
		b.tell(&c)
		results[i] = b.answer(now, 0, restored, string(c.Key))
		results[i].At = now
	}
	return results
}

func (m *model) reset(checks []core.Check) {
	for _, c := range checks {
		m.store(&c, &modelBucket{rule: *c.Rule, debt: new(big.Rat), idle: true})
		if c.Once != nil {
			delete(m.marks, markKey(&c))
		}
		m.resetShare(&c)
		m.lift(&c)
	}
}
