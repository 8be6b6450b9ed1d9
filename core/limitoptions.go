package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/spelling"
)

// algorithmNames are the words that algorithms begin with, and optionNames those of all options.
var (
	algorithmNames = func() (names []string) {
		for _, a := range algorithmWords {
			names = append(names, a.word)
		}
		return append(names, "token", "leaky")
	}()
	optionNames = append(append([]string{"burst"}, algorithmNames...), "jitter", "wait", "lease", "soft", "from")
)

// option reads one option and applies it.
func (p *limitParser) option(l Limit) (Limit, error) {
	word := p.letters()
	name := strings.ToLower(word)
	from := p.rest
	p.rest = p.rest[len(word):]
	if !p.ends("=") {
		name = "" // such as a time zone, Europe/Berlin
	}
	var err error
	var n int64
	var d time.Duration
	if slices.Contains(algorithmNames, name) {
		return p.algorithm(l, name)
	}
	switch name {
	case "burst":
		n, err = p.value(name, `burst needs how many units, as in "burst 20"`)
		l = l.Burst(n)
	case "soft":
		n, err = p.value(name, `soft needs how many units, as in "soft 80"`)
		l = l.Soft(n)
	case "wait":
		d, err = p.time(name, `wait needs how long at most, as in "wait 500ms"`)
		l = l.Wait(d)
	case "lease":
		d, err = p.time(name, `lease needs how long, as in "lease 30s"`)
		l = l.Lease(d)
	case "jitter":
		err = p.once(name)
		l = l.Jitter()
	case "from":
		if !p.months {
			return l, errors.New(`"from" belongs to months, as in "1000/month from 15 UTC"`)
		}
		n, err = p.value(name, `from needs a day of the month, as in "from 15"`)
		if err == nil && (n < 1 || n > 31) {
			err = fmt.Errorf("the day of the month must be from 1 to 31, got %d", n)
		}
		p.day = int(n)
	default:
		p.rest = from
		err = p.timeZone()
	}
	return l, err
}

// algorithm reads the rest of an algorithm's name, and the wait of a leaky bucket.
func (p *limitParser) algorithm(l Limit, name string) (Limit, error) {
	if err := p.once("algorithm"); err != nil {
		return l, fmt.Errorf("a limit has one algorithm, got a second, %q", name)
	}
	switch name {
	case "leaky":
		p.secondWord("bucket")
		d, err := p.time("wait", `leaky needs the longest wait, as in "leaky 1s"`)
		return l.LeakyBucket(d), err
	case "token":
		if name = "bucket"; !p.secondWord(name) {
			return l, errors.New(`expected "token bucket"`)
		}
	case "sliding":
		if p.secondWord("log") {
			name = "log"
		}
	}
	for _, a := range algorithmWords {
		if a.word == name {
			if a.second != "" {
				p.secondWord(a.second)
			}
			l = a.choose(l)
		}
	}
	return l, nil
}

// inCalendar makes the limit one of calendar days or months if it has a time zone.
func (p *limitParser) inCalendar(l Limit) (Limit, error) {
	if p.zone == nil {
		if p.months {
			return l, fmt.Errorf(`months are those of a calendar, which needs a time zone, as in "%d/month UTC"`, p.number)
		}
		return l, nil
	}
	calendar := PerCalendarDay(p.number, p.zone)
	if p.months {
		calendar = PerBillingMonth(p.number, max(p.day, 1), p.zone)
	}
	if l.numbers.chosen != 0 {
		return l, errors.New("calendar days and months are fixed windows, and have no other algorithm")
	}
	n := l.numbers
	n.Algorithm, n.Window, n.Calendar = calendar.numbers.Algorithm, calendar.numbers.Window, calendar.numbers.Calendar
	l.numbers = n
	return l, nil
}

// timeZone reads a time zone, or says what is wrong with a word that is nothing else.
func (p *limitParser) timeZone() error {
	name := p.next()
	p.rest = p.rest[len(name):]
	if like := spelling.Nearest(name, optionNames); like != "" {
		return fmt.Errorf("unknown option %q; did you mean %q?", name, like)
	}
	if p.unit != "day" && p.unit != "month" {
		return fmt.Errorf("unknown option %q, expected one of %s", name, strings.Join(optionNames, ", "))
	}
	if err := p.once("time zone"); err != nil {
		return err
	}
	if strings.EqualFold(name, "local") {
		return errors.New("the zone Local is another one on each machine; name the zone, as in Europe/Berlin")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return fmt.Errorf("%q is neither an option nor a known time zone, such as UTC or Europe/Berlin", name)
	}
	p.zone = zone
	return nil
}
