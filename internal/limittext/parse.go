package limittext

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weblimit/weblimit/core/store"
)

const requestNouns = " r req reqs request requests "

// Parse reads the text of a limit. The error says what was expected. Whether such a limit can work is not looked at.
func (w Words) Parse(s string) (Text, error) {
	p := parser{words: w, rest: s}
	var t Text
	err := p.limit(&t)
	return t, err
}

// parser reads the text of a limit from left to right.
type parser struct {
	words Words
	rest  string
	given []string // the options that were read
	unit  string   // "day" or another if the window is exactly one of it, so that a time zone can follow
}

func (p *parser) limit(t *Text) (err error) {
	p.blanks()
	switch {
	case p.rest == "":
		return errors.New(`there is no limit, expected one such as "100/minute"`)
	case p.word("concurrent"):
		t.Concurrent = true
		t.Quota, err = p.count(`concurrent needs how many, as in "concurrent 10"`)
	default:
		err = p.rate(t)
	}
	for err == nil {
		before := p.rest
		p.blanks()
		switch {
		case p.rest == "":
			return t.validate()
		case before == p.rest:
			return fmt.Errorf("unexpected %q", p.next())
		}
		err = p.option(t)
	}
	return err
}

// validate returns an error for a calendar that is none.
func (t *Text) validate() error {
	switch {
	case t.Calendar.Unit == 0:
		return nil
	case t.Calendar.Location == nil:
		return fmt.Errorf(`months are those of a calendar, which needs a time zone, as in "%d/month UTC"`, t.Quota)
	case t.FromUse:
		return errors.New("calendar days and months begin with the calendar, and not with first use")
	case t.Algorithm != 0 || t.Leaky != nil:
		return errors.New("calendar days and months are fixed windows, and have no other algorithm")
	}
	return nil
}

// rate reads how many units per window.
func (p *parser) rate(t *Text) (err error) {
	if t.Quota, err = p.count(`expected a number first, as in "100/minute"`); err != nil {
		return err
	}
	p.blanks()
	if noun := p.letters(); noun != "" && strings.Contains(requestNouns, " "+strings.ToLower(noun)+" ") {
		p.rest = p.rest[len(noun):]
		p.blanks()
	}
	if strings.HasPrefix(p.rest, "/") {
		p.rest = p.rest[1:]
	} else if !p.word("per") {
		return fmt.Errorf(`expected "/" or "per" after the number, as in "%d/minute", got %q`, t.Quota, p.next())
	}
	p.blanks()
	if digits(p.rest) > 0 {
		t.Window, p.unit, err = p.duration("")
		return err
	}
	unit, err := p.unitName()
	if err != nil {
		return err
	}
	t.Window, p.unit = unit.length, unit.names[0]
	if p.unit == "month" {
		t.Calendar = store.Period{Unit: store.CalendarMonth, Day: 1}
	}
	return nil
}
