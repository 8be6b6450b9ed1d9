package limittext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/spelling"
)

// algorithmNames are the words that algorithms begin with.
func (p *parser) algorithmNames() (names []string) {
	for _, a := range p.words {
		names = append(names, a.Word)
	}
	return append(names, "token", "leaky")
}

// optionNames are the words that options begin with.
func (p *parser) optionNames() []string {
	return append(append([]string{"burst"}, p.algorithmNames()...), "jitter", "wait", "lease", "soft", "debt", "from")
}

// option reads one option into the text.
func (p *parser) option(t *Text) (err error) {
	word := p.letters()
	name := strings.ToLower(word)
	from := p.rest
	p.rest = p.rest[len(word):]
	if !p.ends("=") {
		name = "" // such as a time zone, Europe/Berlin
	}
	if slices.Contains(p.algorithmNames(), name) {
		return p.algorithm(t, name)
	}
	switch name {
	case "burst":
		t.Burst, err = p.value(name, `burst needs how many units, as in "burst 20"`)
	case "soft":
		t.Soft, err = p.value(name, `soft needs how many units, as in "soft 80"`)
	case "debt":
		t.Debt, err = p.value(name, `debt needs how many units, as in "debt 500"`)
	case "wait":
		t.Wait, err = p.time(name, `wait needs how long at most, as in "wait 500ms"`)
	case "lease":
		t.Lease, err = p.time(name, `lease needs how long, as in "lease 30s"`)
	case "jitter":
		t.Jitter, err = true, p.once(name)
	case "from":
		err = p.from(t, name)
	default:
		p.rest = from
		err = p.timeZone(t)
	}
	return err
}

// from reads the day on which months begin, or that windows begin with first use.
func (p *parser) from(t *Text, name string) error {
	if p.secondWord("first") {
		if !p.secondWord("use") {
			return errors.New(`expected "from first use"`)
		}
		t.FromUse = true
		return p.once("from first use")
	}
	if t.Calendar.Unit != store.CalendarMonth {
		return errors.New(`"from" is for months, as in "1000/month from 15 UTC", and for windows, as in "100/5h from first use"`)
	}
	n, err := p.value(name, `from needs a day of the month, as in "from 15"`)
	if err != nil {
		return err
	}
	if *n < 1 || *n > 31 {
		return fmt.Errorf("the day of the month must be from 1 to 31, got %d", *n)
	}
	t.Calendar.Day = int(*n)
	return nil
}

// algorithm reads the rest of an algorithm's name, and the wait of a leaky bucket.
func (p *parser) algorithm(t *Text, name string) (err error) {
	if p.once("algorithm") != nil {
		return fmt.Errorf("a limit has one algorithm, got a second, %q", name)
	}
	switch name {
	case "leaky":
		p.secondWord("bucket")
		t.Leaky, err = p.time("wait", `leaky needs the longest wait, as in "leaky 1s"`)
		return err
	case "token":
		if name = "bucket"; !p.secondWord(name) {
			return errors.New(`expected "token bucket"`)
		}
	case "sliding":
		if p.secondWord("log") {
			name = "log"
		}
	}
	for _, a := range p.words {
		if a.Word == name {
			if a.Second != "" {
				p.secondWord(a.Second)
			}
			t.Algorithm = a.Algorithm
		}
	}
	return nil
}

// timeZone reads a time zone, or says what is wrong with a word that is nothing else.
func (p *parser) timeZone(t *Text) error {
	name := p.next()
	p.rest = p.rest[len(name):]
	if like := spelling.Nearest(name, p.optionNames()); like != "" {
		return fmt.Errorf("unknown option %q; did you mean %q?", name, like)
	}
	if p.unit != "day" && p.unit != "month" {
		return fmt.Errorf("unknown option %q, expected one of %s", name, strings.Join(p.optionNames(), ", "))
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
	if t.Calendar.Location = zone; p.unit == "day" {
		t.Calendar.Unit, t.Window = store.CalendarDay, 0
	}
	return nil
}
