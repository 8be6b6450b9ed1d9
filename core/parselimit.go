package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

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
//	option    = algorithm | "burst", number | "jitter" | "wait", duration
//	          | "lease", duration | "soft", number ;
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
	p := limitParser{rest: s}
	l, err := p.limit()
	if err == nil {
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

const (
	maxLimitText = 256

	requestNouns = " r req reqs request requests "
)

// limitParser reads the text of a limit from left to right.
type limitParser struct {
	rest   string
	given  []string // the options that were read
	number int64    // units per window
	unit   string   // "day" or another if the window is exactly one of it, so that a time zone can follow
	months bool     // the window is a month
	day    int      // on which months begin; 0 if not given
	zone   *time.Location
}

func (p *limitParser) limit() (Limit, error) {
	p.blanks()
	var l Limit
	switch {
	case p.rest == "":
		return l, errors.New(`there is no limit, expected one such as "100/minute"`)
	case p.word("concurrent"):
		n, err := p.count(`concurrent needs how many, as in "concurrent 10"`)
		if err != nil {
			return l, err
		}
		l = Concurrent(n)
	default:
		window, err := p.rate()
		if err != nil {
			return l, err
		}
		l = Per(p.number, window)
	}
	for {
		before := p.rest
		p.blanks()
		switch {
		case p.rest == "":
			return p.inCalendar(l)
		case before == p.rest:
			return l, fmt.Errorf("unexpected %q", p.next())
		}
		var err error
		if l, err = p.option(l); err != nil {
			return l, err
		}
	}
}

// rate reads how many units per window.
func (p *limitParser) rate() (window time.Duration, err error) {
	if p.number, err = p.count(`expected a number first, as in "100/minute"`); err != nil {
		return 0, err
	}
	p.blanks()
	if noun := p.letters(); noun != "" && strings.Contains(requestNouns, " "+strings.ToLower(noun)+" ") {
		p.rest = p.rest[len(noun):]
		p.blanks()
	}
	if strings.HasPrefix(p.rest, "/") {
		p.rest = p.rest[1:]
	} else if !p.word("per") {
		return 0, fmt.Errorf(`expected "/" or "per" after the number, as in "%d/minute", got %q`, p.number, p.next())
	}
	p.blanks()
	if digits(p.rest) > 0 {
		window, p.unit, err = p.duration("")
		return window, err
	}
	unit, err := p.unitName()
	if err != nil {
		return 0, err
	}
	p.unit = unit.names[0]
	p.months = p.unit == "month"
	return unit.length, nil
}
