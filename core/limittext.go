package core

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/limittext"
)

// maxLimitText is how many bytes the text of a limit has at most.
const maxLimitText = 256

// ParseLimit reads the numbers of a limit from text, for flags, environment variables and
// configuration files. What depends on requests is added in code:
//
//	limit, err := core.ParseLimit(os.Getenv("LIMIT")) // such as "100/minute burst 20"
//	…
//	limit = limit.By(keyfuncs.ClientIP()).Named("api")
//
// The text, in the EBNF of ISO 14977, where blanks may stand between words and numbers:
//
//	limit     = ( rate | "concurrent", number ), { option } ;
//	rate      = number, [ requests ], ( "/" | "per" ), ( duration | unit | calendar ) ;
//	calendar  = "day", zone | "month", [ "from", number ], zone ;
//	option    = algorithm | "burst", number | "jitter" | "from first use" | "wait", duration
//	          | "lease", duration | "soft", number | "debt", number ;
//	algorithm = [ "token" ], "bucket" | "leaky", [ "bucket" ], duration
//	          | "fixed", [ "window" ] | "sliding", [ "window" ] | [ "sliding" ], "log" ;
//	duration  = number, unit, { number, unit } ;
//	unit      = "us" | "ms" | "s" | "m" | "h" | "d" | "w" | "second" | "minute" | "hour" | … ;
//	requests  = "r" | "req" | "request" | "requests" ;
//	number    = digit, { digit | "_", digit } ;
//
// Units have their usual short and long names, singular or plural. Letters may be of either
// case, but for the zone, which is a name of the IANA database, and for a sole "M", which
// could be minutes or months. Each option may be given once, and a value may follow its name behind "=".
//
//	100/minute                         PerMinute(100)
//	5 per 15 minutes                   Per(5, 15*time.Minute)
//	10r/s burst 20                     PerSecond(10).Burst(20)
//	1000/day fixed jitter              PerDay(1000).FixedWindow().Jitter()
//	1000/minute debt 5000              PerMinute(1000).Debt(5000)
//	100/5h from first use              Per(100, 5*time.Hour).FromFirstUse()
//	5/15m log                          Per(5, 15*time.Minute).SlidingLog()
//	10/s leaky 1s                      PerSecond(10).LeakyBucket(time.Second)
//	1000/day Europe/Berlin             PerCalendarDay(1000, berlin)
//	100_000/month from 15 UTC soft 80000
//	                                   PerBillingMonth(100_000, 15, time.UTC).Soft(80_000)
//	concurrent 2 lease 30s             Concurrent(2).Lease(30*time.Second)
//
// The error quotes the text and says what was expected. A limit that can never work, such as
// "0/minute", is an error, too. Text of more than 256 bytes is refused.
func ParseLimit(s string) (Limit, error) {
	if len(s) > maxLimitText {
		return Limit{}, &store.ConfigError{Path: "ParseLimit", Err: fmt.Errorf("a limit has at most %d bytes, got %d that begin with %q", maxLimitText, len(s), s[:32])}
	}
	var l Limit
	text, err := algorithmWords.Parse(s)
	if err == nil {
		l = fromText(text)
		_, err = l.Rule()
	}
	if err != nil {
		if of := (*store.ConfigError)(nil); errors.As(err, &of) { // that of a limit, which has no name here
			err = of.Err
		}
		return Limit{}, &store.ConfigError{Path: "ParseLimit", Err: &store.ConfigError{Path: fmt.Sprintf("%q", s), Err: err}}
	}
	return l, nil
}

// MustParseLimit returns the limit of [ParseLimit], and panics if there was an error: for
// start-up, not while serving.
func MustParseLimit(s string) Limit {
	l, err := ParseLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

// fromText returns the limit that a text says.
func fromText(t limittext.Text) Limit {
	l := Per(t.Quota, t.Window)
	switch {
	case t.Concurrent:
		l = Concurrent(t.Quota)
	case t.Calendar.Unit != 0:
		l = perPeriod(t.Quota, t.Calendar)
	}
	if t.Burst != nil {
		l = l.Burst(*t.Burst)
	}
	if t.Wait != nil {
		l = l.Wait(*t.Wait)
	}
	if t.Leaky != nil {
		l = l.LeakyBucket(*t.Leaky)
	}
	if t.Algorithm != 0 {
		l.numbers.choose(t.Algorithm)
	}
	if t.FromUse {
		l = l.FromFirstUse()
	}
	if t.Jitter {
		l = l.Jitter()
	}
	if t.Lease != nil {
		l = l.Lease(*t.Lease)
	}
	if t.Soft != nil {
		l = l.Soft(*t.Soft)
	}
	if t.Debt != nil {
		l = l.Debt(*t.Debt)
	}
	return l
}

// String returns the numbers of the limit as [ParseLimit] reads them, such as "100/minute burst
// 20". The rest of the limit is not in it: its name, keys, cost, penalty, warning levels, regions and
// policies, and whatever functions decide. It is "" for the zero Limit.
func (l Limit) String() string {
	n := &l.numbers
	if n.Algorithm == 0 {
		return ""
	}
	t := limittext.Text{Concurrent: n.concurrent, Quota: n.Quota, Window: n.Window, Algorithm: n.chosen, Jitter: n.Jitter, FromUse: n.FromUse}
	if n.Algorithm == store.Calendar {
		t.Calendar = n.Calendar
	}
	if n.hasBurst {
		t.Burst = &n.Burst
	}
	switch {
	case l.wait == 0:
	case n.chosen == store.TokenBucket && n.hasBurst:
		t.Leaky = &l.wait
	default:
		t.Wait = &l.wait
	}
	if n.hasLease {
		t.Lease = &n.Window
	}
	if n.hasSoft {
		t.Soft = &n.Soft
	}
	if n.HasDebt {
		t.Debt = &n.Debt
	}
	return algorithmWords.Write(&t)
}

// MarshalText returns the text of [Limit.String], for [flag.TextVar], JSON, YAML and other
// configuration. It fails if that text would not make the same numbers: for the zero Limit,
// for one that can never work, and for a calendar in a time zone without an IANA name.
func (l Limit) MarshalText() ([]byte, error) {
	text := l.String()
	again := l
	if err := again.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("weblimit: limit %q has no text: %s", l.name, store.Reason(err))
	}
	before, err := l.Rule()
	if err != nil {
		return nil, err
	}
	if after, err := again.Rule(); err != nil || before != after || l.wait != again.wait {
		return nil, fmt.Errorf("weblimit: limit %q has no text: %q does not say all of its numbers", l.name, text)
	}
	return []byte(text), nil
}

// UnmarshalText replaces the numbers of the limit by those that [ParseLimit] reads, and keeps the
// rest: name, keys, cost, penalty, policies and functions. So a limit in code can be the default
// of a flag:
//
//	limit := core.PerMinute(100).By(keyfuncs.ClientIP()).Named("api")
//	flag.TextVar(&limit, "limit", limit, "requests per client")
//
// If there is an error, the limit stays as it is.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) > maxLimitText {
		text = text[:maxLimitText+1] // refused, and not worth a copy of it all
	}
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	n, kept := parsed.numbers, &l.numbers
	n.Block, n.hasPenalty = kept.Block, kept.hasPenalty
	n.Once, n.Repeats, n.hasRepeats = kept.Once, kept.Repeats, kept.hasRepeats
	l.numbers, l.wait = n, parsed.wait
	l.settings.made = l.settings.made&^inText | parsed.settings.made
	l.settings.again = l.settings.again&^inText | parsed.settings.again
	if l.name == "" && !l.named {
		l.name = parsed.name
	}
	if l.cost == 0 && !l.settings.has(setCost|setCostBy) && !l.estimate {
		l.cost = parsed.cost
	}
	return nil
}
