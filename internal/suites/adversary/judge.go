package adversary

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"

	"github.com/weblimit/weblimit/core"
)

// wrong is a difference between a case and the oracle.
type wrong struct {
	kind string // the same for failures of one cause, as far as that can be said
	text string
}

func (w *wrong) Error() string { return w.kind + ": " + w.text }

func wrongf(kind, format string, args ...any) *wrong {
	return &wrong{kind: kind, text: fmt.Sprintf(format, args...)}
}

// account is what a bucket has used and owes. Both are known within bounds: a
// client that is gone may leave open how its request has ended.
type account struct {
	used, owed bounds
}

type bounds struct{ least, most int64 }

func (b *bounds) add(least, most int64) {
	b.least += least
	b.most += most
}

// judge compares a case with the oracle.
type judge struct {
	framework *Framework
	setup     *setup
	peer      netip.Addr
	end       ending
	accounts  map[bucket]*account

	multiplexed bool // HTTP/2
	limiter     *core.Limiter
	direct      bool // nobody has seen what the store was asked

	doubtful bool // it may be denied as ambiguous: whether that limit applies is the router's answer
	sent     int  // requests that the oracle has read
}

// connection compares the visits of a connection with the requests that its client sent.
func (j *judge) connection(raw []byte, visits []*Visit) *wrong {
	p := &parser{Dialect: j.framework.Dialect, rest: raw}
	for i := 0; ; {
		m := p.next()
		if m == nil {
			return j.noMore(visits[i:], "the client has sent no more")
		}
		j.sent++
		switch {
		case m.lost:
			return j.strays(visits[i:])
		case m.refused != "":
			return j.noMore(visits[i:], "it is to be refused: "+m.refused)
		case p.bodyFirst && !m.whole:
			return j.noMore(visits[i:], "its body is torn")
		case p.itself(m):
			switch {
			case m.folded && p.losesItsPlace:
				return j.strays(visits[i:])
			case p.ends(m, answer{read: true}):
				return j.noMore(visits[i:], "the connection has ended")
			}
			continue
		case i == len(visits):
			if j.end == resets || j.end == leaves {
				return nil // it may have gone before
			}
			return wrongf("not served", "request %d has not reached the application: %s %q", j.sent, m.method, m.target)
		}
		v := visits[i]
		i++
		if v.method != m.method || v.target != m.target {
			return wrongf("another request", "request %d is %s %q, and %s %q has reached the application", j.sent, m.method, m.target, v.method, v.target)
		}
		c := &caller{message: m, dialect: j.framework.Dialect, peer: j.peer, visit: v}
		if w := j.visit(c); w != nil {
			return w
		}
		if m.folded && p.losesItsPlace {
			return j.strays(visits[i:])
		}
		if i == len(visits) && j.framework.Dialect.framework == "net/http" && m.target == "*" && v.status == http.StatusBadRequest {
			return nil // a ServeMux has refused this, and closed; or it was denied
		}
		if p.ends(m, j.answer(v)) {
			return j.noMore(visits[i:], "the connection has ended")
		}
	}
}

func (j *judge) noMore(visits []*Visit, why string) *wrong {
	if len(visits) == 1 && j.framework.Dialect.reports && visits[0].ran == 0 {
		return j.strays(visits)
	}
	if len(visits) == 0 {
		return nil
	}
	return wrongf("a request that nobody sent", "%s %q has reached the application after request %d: %s", visits[0].method, visits[0].target, j.sent, why)
}

// strays are requests made of bytes that the framework has read twice. The oracle only
// knows that the limits must hold for them.
func (j *judge) strays(visits []*Visit) *wrong {
	if j.direct { // they could be of anybody
		clear(j.accounts)
		return nil
	}
	for _, v := range visits {
		for _, a := range v.asked {
			acc := j.account(a.bucket)
			if !a.charged {
				continue
			}
			r := j.setup.rule(a.limit)
			if acc.used.least+a.cost > r.quota {
				return wrongf("beyond the quota", "%v has used %d of %d, and %d more are taken", a.bucket, acc.used.least, r.quota, a.cost)
			}
			least := a.cost
			if r.estimate || r.refunds {
				least = 0 // its handler may have said so
			}
			acc.used.add(least, a.cost)
			acc.owed.add(least, 3*r.quota)
		}
		if len(v.asked) == 0 && v.ran > 0 && len(j.setup.bypass) == 0 && j.setup.rules[0].applies == nil && j.setup.rules[0].missing == core.ShareBucket {
			return wrongf("not counted", "%s %q has run a handler, and is counted under no limit", v.method, v.target)
		}
	}
	return nil
}

func (j *judge) account(b bucket) *account {
	acc := j.accounts[b]
	if acc == nil {
		acc = new(account)
		j.accounts[b] = acc
	}
	return acc
}

// want is a check that the oracle expects.
type want struct {
	rule *rule
	who  who
	open bool // it may be left out: whether the limit applies is the router's answer
}

// visit judges one request and charges it to the accounts.
func (j *judge) visit(c *caller) *wrong {
	v := c.visit
	j.doubtful = false
	if v.ran > 1 {
		return wrongf("run twice", "request %d has run %d handlers", j.sent, v.ran)
	}
	if v.ran == 0 && len(v.asked) == 0 && j.unrouted(v) {
		return nil
	}
	wants, denial, free := j.wants(c)
	switch {
	case v.ran == 0 && len(v.asked) == 0 && v.status == http.StatusBadRequest && j.doubtful:
		return nil
	case free:
		if len(v.asked) > 0 {
			return wrongf("a bypass that is counted", "request %d is exempt, and is counted for %v", j.sent, v.buckets())
		}
		return nil
	case denial != 0:
		return j.denied(v, denial)
	}
	if j.direct {
		for _, want := range wants {
			v.asked = append(v.asked, ask{bucket: bucket{want.rule.name, want.who.key}, cost: want.rule.cost, charged: v.status != http.StatusTooManyRequests})
		}
	}
	if w := j.asked(wants, v); w != nil {
		return w
	}
	allowed := len(v.asked) == 0 || v.asked[0].charged
	if w := j.fits(v, allowed); w != nil {
		return w
	}
	if !allowed {
		if v.ran > 0 {
			return wrongf("run though denied", "request %d has run %s, and was charged nothing", j.sent, v.route)
		}
		return j.status(v, http.StatusTooManyRequests)
	}
	if route, known := c.route(); known && route != routeNone && v.ran == 0 {
		return wrongf("not run", "request %d is allowed, and %s has not run; status %d", j.sent, route, v.status)
	}
	j.charge(v)
	return nil
}

// unrouted reports whether the framework has answered before the limiter. Gin redirects to
// add or remove a trailing slash, and Fiber may find no route with a limiter.
func (j *judge) unrouted(v *Visit) bool {
	switch j.framework.Dialect.framework {
	case "gin":
		return v.status == http.StatusMovedPermanently || v.status == http.StatusTemporaryRedirect
	case "fiber":
		return j.setup.onRoute && (v.status == http.StatusNotFound || v.status == http.StatusMethodNotAllowed)
	}
	return false
}

// wants returns the checks that the request should cause. Instead, it returns a status if
// the request must be denied without a check, or free if it is exempt.
func (j *judge) wants(c *caller) (wants []want, denial int, free bool) {
	open := false // it may be exempt
	defer func() {
		if open && (denial == 0 || c.visit.status != denial) {
			wants, denial, free = nil, 0, true
		}
	}()
	for _, b := range j.setup.bypass {
		yes, known := b.holds(c)
		if yes && known {
			return nil, 0, true
		}
		// If no handler has run, only the router knows the route.
		open = open || !known && len(c.visit.asked) == 0
	}
	for i := range j.setup.rules {
		r := &j.setup.rules[i]
		unsure := false // whether it applies
		if r.applies != nil {
			yes, known := r.applies(c)
			if unsure = !known; known && !yes {
				continue
			}
		}
		w := r.by(c)
		switch {
		case w.ambiguous && !unsure:
			return nil, http.StatusBadRequest, false
		case w.key != "" || w.unknown:
		case w.ambiguous:
			j.doubtful = true
			continue
		case r.missing == core.SkipLimit:
			continue
		case r.missing == core.DenyRequest:
			return nil, http.StatusBadRequest, false
		default:
			w.key = missing
		}
		wants = append(wants, want{r, w, unsure})
	}
	return wants, 0, false
}

// denied judges a request that must be denied without asking the store.
func (j *judge) denied(v *Visit, status int) *wrong {
	switch {
	case v.ran > 0:
		return wrongf("run though "+http.StatusText(status), "request %d has run %s; it was to be denied with %d. It was counted for %v", j.sent, v.route, status, v.buckets())
	case len(v.asked) > 0:
		return wrongf("counted though "+http.StatusText(status), "request %d was to be denied with %d, and is counted for %v", j.sent, status, v.buckets())
	}
	return j.status(v, status)
}

func (j *judge) status(v *Visit, status int) *wrong {
	if v.status != status {
		return wrongf("another status", "request %d was denied with %d, and not with %d", j.sent, v.status, status)
	}
	return nil
}

// asked compares the checks that the store got with those that it should have got.
func (j *judge) asked(wants []want, v *Visit) *wrong {
	rest := v.asked
	for _, want := range wants {
		if len(rest) == 0 || rest[0].limit != want.rule.name {
			if want.open && v.ran == 0 {
				continue
			}
			return wrongf("not counted", "request %d is not counted for %s %q; it is for %v, and has run %q", j.sent, want.rule.name, want.who.key, v.buckets(), v.route)
		}
		got := rest[0]
		rest = rest[1:]
		switch {
		case want.who.unknown && v.ran == 0: // the router knows
		case got.key != want.who.key:
			return wrongf("another key", "request %d is counted for %v, and should be for %q", j.sent, got.bucket, want.who.key)
		case got.cost != want.rule.cost:
			return wrongf("another cost", "request %d costs %d, and not %d", j.sent, got.cost, want.rule.cost)
		}
	}
	if len(rest) > 0 {
		return wrongf("counted for somebody else", "request %d is counted for %v as well", j.sent, rest[0].bucket)
	}
	return nil
}

// fits judges whether the request was allowed according to its accounts.
func (j *judge) fits(v *Visit, allowed bool) *wrong {
	must, mustNot := true, false
	for i, a := range v.asked {
		if a.charged != v.asked[0].charged {
			return wrongf("charged in part", "request %d: %v is charged %v, and %v %v", j.sent, v.asked[0].bucket, v.asked[0].charged, a.bucket, v.asked[i].charged)
		}
		acc := j.account(a.bucket)
		quota := j.setup.rule(a.limit).quota
		must = must && acc.used.most+a.cost <= quota
		mustNot = mustNot || acc.used.least+a.cost > quota
	}
	switch {
	case allowed && mustNot:
		return wrongf("beyond the quota", "request %d is allowed, and does not fit: %v", j.sent, j.state(v))
	case !allowed && must:
		return wrongf("denied too early", "request %d is denied, and fits: %v", j.sent, j.state(v))
	}
	return nil
}

func (j *judge) state(v *Visit) (s []string) {
	for _, a := range v.asked {
		used := j.account(a.bucket).used
		s = append(s, fmt.Sprintf("%v has used %d to %d of %d, and %d more are asked for", a.bucket, used.least, used.most, j.setup.rule(a.limit).quota, a.cost))
	}
	return s
}

func (s *setup) rule(name string) *rule {
	return &s.rules[slices.IndexFunc(s.rules, func(r rule) bool { return r.name == name })]
}

// charge charges an allowed request to the accounts after it has ended.
func (j *judge) charge(v *Visit) {
	for _, a := range v.asked {
		r := j.setup.rule(a.limit)
		due := r.due(v, j.end == waits && !j.multiplexed)
		acc := j.account(a.bucket)
		acc.owed.add(due.least, due.most)
		acc.used.add(due.least, due.most)
		acc.used.least, acc.used.most = min(acc.used.least, 2*r.quota), min(acc.used.most, 2*r.quota) // nobody can owe more
	}
}

// due returns the bounds of what an allowed request owes under a rule. Nothing that a
// client does lowers it. If the handler failed and the client left, either may have come
// first.
func (r *rule) due(v *Visit, stays bool) bounds {
	owes := r.cost
	told := false
	if r.estimate && (v.route == routeCharge || v.route == routeBroken) {
		owes, told = min(v.units, 3*r.quota), true
	}
	due := bounds{owes, owes}
	if !r.refunds || v.left || told { // what was told is spent
		return due
	}
	switch v.route {
	case routeFail, routePanic, routeBroken:
		if due.least = 0; stays {
			due.most = 0
		}
	}
	return due
}

// answer returns the properties of the answer that affect the connection.
func (j *judge) answer(v *Visit) answer {
	aborts := false
	switch j.framework.Dialect.framework {
	case "chi":
		aborts = v.route == routePanic
	case "net/http":
		aborts = v.route == routePanic
	}
	return answer{
		route:   v.route,
		streams: v.route == routeStream,
		aborts:  aborts,
		read:    v.route == routeRead || v.route == routeWait,
	}
}

// balance compares the final charges of all buckets with the accounts.
func (j *judge) balance(r *recorder) *wrong {
	if j.direct {
		return j.peek()
	}
	owed := r.balance()
	for _, b := range slices.SortedFunc(maps.Keys(owed), func(a, b bucket) int {
		if a.limit+a.key < b.limit+b.key {
			return -1
		}
		return 1
	}) {
		acc := j.accounts[b]
		if acc == nil {
			if owed[b] == 0 {
				continue
			}
			return wrongf("counted for somebody else", "%v owes %d, and sent nothing", b, owed[b])
		}
		switch is := owed[b]; {
		case is < acc.owed.least:
			return wrongf("owes less", "%v owes %d at the end, and should owe %d", b, is, acc.owed.least)
		case is > acc.owed.most:
			return wrongf("owes more", "%v owes %d at the end, and should owe %d", b, is, acc.owed.most)
		}
	}
	return nil
}

// peek compares what Limiter.Peek says is left with the accounts.
func (j *judge) peek() *wrong {
	for b, acc := range j.accounts {
		if b.key == missing { // nobody can ask for it
			continue
		}
		d, err := j.limiter.Peek(context.Background(), b.key, 0)
		if err != nil {
			return wrongf("store", "%v", err)
		}
		if left := d.Results()[0].Remaining; left != j.setup.rule(b.limit).quota-acc.used.least {
			return wrongf("another key", "%v has %d units left, and should have used %d", b, left, acc.used.least)
		}
	}
	return nil
}
