package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/internal/described"
)

var _ core.Policies = (*Client)(nil)

// Limiter returns a limiter that has the service decide by the policy of that name, for adapters and for
// AllowKey. It implements [core.Policies].
//
// config.Store must be [Client.Store]. docs/service/parity.md says what its other fields do here, and which are refused.
// Conditions of Bypass ask nobody. OnWarning hears of the levels that this limiter's own requests reach, without the keys
// that say more than they do: see keyfuncs.Func.ReadsMore.
//
// The service is not asked whether there is such a policy, so that a process starts while the service is down.
// Without one, decisions are as in an outage, and events say why.
//
// What a policy settles when a request ends is settled by the service: estimates, refunds and slots of concurrent
// requests. It is told in the background, and again while it does not answer; Drain of the limiter or of an adapter's
// settings waits for it. If this process dies first, estimates stay charged, and slots are taken until their lease ends.
//
// Timeout may be shorter than that of [Config], for this limiter. Fallback.Limits may take the place of OnOutage.Limits,
// and Fallback.Store counts either. AllowAtMost is denied with an error by a service of before it had at_most.
func (c *Client) Limiter(config core.Config, name string) (*core.Limiter, error) {
	switch {
	case name == "":
		return nil, errors.New("weblimit: client: the policy has no name")
	case config.Store != core.Store(&c.stands):
		return nil, errors.New("weblimit: client: core.Config.Store must be Store() of the client: the limits are counted by the service")
	case len(config.Limits) > 0:
		return nil, errors.New("weblimit: client: Config.Limits must be empty: the limits are those of the policy; limits for outages are in client.Config.OnOutage")
	case config.Timeout > c.config.Timeout:
		return nil, fmt.Errorf("weblimit: client: Config.Timeout is %v, and no request to the service takes longer than client.Config.Timeout, %v", config.Timeout, c.config.Timeout)
	case config.MaxWaiting != 0 || config.MaxWaitingPerKey != 0:
		return nil, errors.New("weblimit: client: Config.MaxWaiting and MaxWaitingPerKey must be 0: the service says how long a request waits, and this process does not know its keys; the wait of a limit bounds its queue")
	case config.MissingKey.Status != 0:
		return nil, errors.New("weblimit: client: Config.MissingKey.Status must be 0: the status is that of the policy; set missing_key there, or leave it to the default")
	}
	limits, err := c.config.OnOutage.limitsBeside(&config.Fallback)
	if err != nil {
		return nil, err
	}
	config.Limits = limits
	of := &policy{client: c, name: name, onWarning: config.OnWarning}
	if config.Timeout == 0 {
		config.Timeout = c.config.Timeout
	} else {
		of.timeout = config.Timeout
	}
	return compose.NewRemote(config, of.decide)
}

// limitsBeside returns the limits that decide in an outage, by the store of a fallback if it has one.
func (o OnOutage) limitsBeside(fallback *core.Fallback) ([]core.Limit, error) {
	if len(fallback.Limits) == 0 {
		return o.limits()
	}
	if len(o.Limits) > 0 || o.Action != core.Local {
		return nil, errors.New("weblimit: client: Config.Fallback has Limits, and client.Config.OnOutage says something else: leave one of them out")
	}
	limits := fallback.Limits
	fallback.Limits = nil
	return limits, nil
}

// policy is a policy that a limiter asks for.
type policy struct {
	client  *Client
	name    string
	timeout time.Duration // if it is shorter than the client's

	onWarning func(context.Context, core.Warning) // or nil
}

// decide asks the service a question of a limiter.
func (p *policy) decide(ctx context.Context, q compose.Question) (compose.Verdict, error) {
	c, check := p.client, Check{Policy: p.name}
	if q.Request != nil {
		check.Request = c.describe(q.Request)
	} else {
		check.Key = sendable(q.Key)
	}
	switch cost := min(q.Cost, described.MaxCost); { // no limit has room for more
	case q.AtMost:
		check.AtMost = &cost
	case q.Request == nil, q.Peek:
		check.Cost = &cost
	}
	whole := ctx
	ctx = context.WithoutCancel(ctx) // a client that hangs up is charged all the same
	if p.timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		ctx = bounded
	}
	path, call := "/v1/check", newCall("", []Check{check})
	if q.Peek {
		path = "/v1/peek"
	} else {
		call.Hold, call.Warnings = true, p.onWarning != nil
	}
	a, err := c.ask(ctx, path, call)
	if err != nil {
		if v, is := refused(err, &q); is {
			return v, nil
		}
		return compose.Verdict{}, err
	}
	if a.Granted == described.MaxCost {
		a.Granted = q.Cost // no limit has room for so many, so none has decided: all are granted
	}
	v, err := c.verdict(&a)
	if err == nil && call.Warnings {
		for _, w := range a.Warnings {
			p.onWarning(whole, w)
		}
	}
	return v, err
}

// sendable returns a key as the service takes it. One that JSON can't hold, or that is too long, becomes its hash: it
// has a bucket of its own, as every key does. So does one that looks like a hash, or it could be another's.
func sendable(key string) string {
	if key == "" || len(key) > described.MaxKey || !utf8.ValidString(key) || strings.HasPrefix(key, "key#") {
		return string(keyfuncs.AppendKey(nil, key))
	}
	return key
}

// proxyHeaders are sent with each request: policies find the client's address by them.
var proxyHeaders = []string{"Host", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Accept-Language"}

// describe returns what the service is told of a request.
func (c *Client) describe(r keyfuncs.Request) *Request {
	d := &Request{Method: r.Method(), Path: r.Path()}
	if route, known := r.Route(); known {
		d.Route = route
	}
	if peer := r.Peer(); peer.IsValid() {
		d.ClientIP = peer.WithZone("").String()
	}
	send := &c.config.Send
	for _, names := range [][]string{proxyHeaders, send.Headers} {
		d.Headers = read(d.Headers, names, r.Header)
	}
	d.Cookies = read(d.Cookies, send.Cookies, r.Cookie)
	d.Query = read(d.Query, send.Query, r.Query)
	for _, name := range send.Params {
		if of, ok := keyfuncs.As[keyfuncs.Params](r); ok {
			if value, ok := of.Param(name); ok {
				d.Params = with(d.Params, name, value)
			}
		}
	}
	for _, name := range send.Values {
		if value := plain(r.Value(name)); value != nil {
			d.Values = with(d.Values, name, value)
		}
	}
	return d
}

func read(to map[string][]string, names []string, of func(string, int) (string, bool)) map[string][]string {
	for _, name := range names {
		var lines []string
		for i := range described.MaxLines + 1 { // one more shows that there are too many
			line, ok := of(name, i)
			if !ok {
				break
			}
			// JSON has no other text, and the service refuses it, which a client could cause.
			lines = append(lines, strings.ToValidUTF8(line, "\uFFFD"))
		}
		if lines != nil {
			to = with(to, name, lines)
		}
	}
	return to
}

func with[V any](m map[string]V, name string, value V) map[string]V {
	if m == nil {
		m = make(map[string]V, 4)
	}
	m[name] = value
	return m
}

// plain returns a stored value as the service takes it: text, a whole number or a truth value. It is nil
// for others.
func plain(value any) any {
	if s, ok := value.(fmt.Stringer); ok { // such as a UUID, as keys by a value read it
		if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && v.IsNil() {
			return nil
		}
		return s.String()
	}
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.CanInt() && v.Int() >= -1<<53 && v.Int() <= 1<<53:
		return v.Int()
	case v.CanInt():
		return fmt.Sprint(v.Int())
	case v.CanUint() && v.Uint() <= 1<<53:
		return v.Uint()
	case v.CanUint():
		return fmt.Sprint(v.Uint())
	}
	return nil
}

// reasons are the reasons by their text.
var reasons = func() map[string]core.Reason {
	all := make(map[string]core.Reason)
	for r := core.ReasonUndecided; r.String() != "unknown reason"; r++ {
		all[r.String()] = r
	}
	return all
}()

// standings are the standings by their text. One that this version does not know is none.
var standings = func() map[string]store.Standing {
	all := make(map[string]store.Standing)
	for s := store.WithinShare; s <= store.OverMaximum; s++ {
		all[s.String()] = s
	}
	return all
}()

var errServiceOutage = errors.New("weblimit: the store of the service did not answer it")

// verdict returns an answer as a limiter takes it.
func (c *Client) verdict(a *Answer) (compose.Verdict, error) {
	reason, ok := reasons[a.Reason]
	if !ok {
		return compose.Verdict{}, c.failure(store.ClassUnknown, errors.New("an answer without a reason that this version knows"))
	}
	v := compose.Verdict{
		Allowed: a.Allowed, Reason: reason, Granted: a.Granted, RetryAfter: millis(a.RetryAfterMS), Delay: millis(a.DelayMS),
		What: a.Missing + a.Ambiguous, Challenge: a.Headers["WWW-Authenticate"], Version: a.Version,
		Results: make([]core.LimitResult, len(a.Limits)),
	}
	if !a.Allowed {
		v.Status = a.Status
	}
	if a.Outage {
		v.Err = errServiceOutage
	}
	if a.Allowed && a.Reservation != "" {
		v.RenewIn = renewIn(a.RenewMS)
		v.Held = &held{client: c, token: a.Reservation, in: v.RenewIn}
	}
	now := time.Now().UnixMicro()
	for i := range a.Limits {
		of, to := &a.Limits[i], &v.Results[i]
		if of.Class != "" {
			if v.Classes == nil {
				v.Classes = make([]string, len(a.Limits))
			}
			v.Classes[i] = of.Class
		}
		if of.Estimate {
			v.Estimated = append(v.Estimated, i)
		}
		rule, err := c.rules.of(of)
		if err != nil {
			return v, c.failure(store.ClassUnknown, err)
		}
		*to = core.LimitResult{Rule: rule, Shadow: of.Shadow, Hidden: of.Hidden, Or: of.Or, WarnLevel: of.Warning}
		to.Result = core.Result{
			Allowed: of.Allowed, Charged: of.Charged, Blocked: of.Blocked, Repeated: of.Repeated, PassedOver: of.PassedOver, Remaining: of.Remaining,
			RetryAfter: millis(of.RetryAfterMS), Window: millis(of.EffectiveWindowMS), ResetAfter: millis(of.ResetMS), At: cmp.Or(of.AtUS, now),
			Standing: standings[of.Standing], Share: of.Share,
		}
		switch r := reasons[of.Reason]; r {
		case core.ReasonMissingKey, core.ReasonAmbiguousKey, core.ReasonInvalidCost:
			to.Reason = r
		case core.ReasonCachedDenial:
			to.Cached = true
		}
	}
	return v, nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// rules keeps the rules of answers, so that equal ones are one.
type rules struct {
	known sync.Map // of ruleKey to *core.Rule
	count atomic.Int64
}

// maxRules bounds what is kept: the service can have other numbers in each answer, by tiers and scaling, and policies change.
// Further rules are made for each answer.
const maxRules = 4096

type ruleKey struct {
	name, algorithm, period, zone string
	quota, burst, window, wait    int64
	soft, whole                   int64
	day                           int
}

func (r *rules) of(l *LimitResult) (*core.Rule, error) {
	key := ruleKey{l.Name, l.Algorithm, l.Period, l.Zone, l.Quota, l.Burst, l.WindowMS, l.WaitMS, l.Soft, l.Whole, l.MonthDay}
	if known, ok := r.known.Load(key); ok {
		return known.(*core.Rule), nil
	}
	made, err := ruleOf(l)
	if err != nil {
		return nil, err
	}
	if r.count.Load() < maxRules {
		if known, before := r.known.LoadOrStore(key, made); before {
			return known.(*core.Rule), nil
		}
		r.count.Add(1)
	}
	return made, nil
}

func ruleOf(l *LimitResult) (*core.Rule, error) {
	n := store.Numbers{Quota: l.Quota, Burst: l.Burst, Soft: l.Soft, Whole: l.Whole, Window: millis(l.WindowMS), Wait: millis(l.WaitMS)}
	for a := store.TokenBucket; a <= store.Ledger; a++ {
		if a.String() == l.Algorithm {
			n.Algorithm = a
		}
	}
	if n.Algorithm == store.Calendar {
		n.Calendar.Unit, n.Calendar.Day = store.CalendarMonth, l.MonthDay
		if l.Period == "day" {
			n.Calendar.Unit = store.CalendarDay
		}
		var err error
		if n.Calendar.Location, err = time.LoadLocation(l.Zone); err != nil { // this machine lacks the zone; the service has decided by it
			n.Calendar.Location = time.UTC
		}
	}
	if n.Algorithm != store.TokenBucket && l.Burst < l.Quota { // of a class of requests that may use less
		n.Whole = l.Quota
	}
	rule, err := store.NewRule(l.Name, n)
	if err != nil {
		return nil, fmt.Errorf("an answer with a limit that can't be: %w", err)
	}
	return &rule, nil
}
