package limittext

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/spelling"
)

// unit is a unit of time, by its names; the first is the one that Text.String writes.
type unit struct {
	names  []string
	length time.Duration // 0 for months, which vary
}

var units = []unit{
	{[]string{"us", "microsecond", "microseconds"}, time.Microsecond},
	{[]string{"ms", "millisecond", "milliseconds"}, time.Millisecond},
	{[]string{"second", "s", "sec", "secs", "seconds"}, time.Second},
	{[]string{"minute", "m", "min", "mins", "minutes"}, time.Minute},
	{[]string{"hour", "h", "hr", "hrs", "hours"}, time.Hour},
	{[]string{"day", "d", "days"}, 24 * time.Hour},
	{[]string{"week", "w", "weeks"}, 7 * 24 * time.Hour},
	{[]string{"month", "months"}, 0},
}

// once reports an option that was given before.
func (p *parser) once(name string) error {
	if slices.Contains(p.given, name) {
		return fmt.Errorf("%s is given twice", name)
	}
	p.given = append(p.given, name)
	return nil
}

// value reads the number of an option.
func (p *parser) value(name, missing string) (*int64, error) {
	if err := p.once(name); err != nil {
		return nil, err
	}
	p.equals()
	n, err := p.count(missing)
	if err == nil && !p.ends("") {
		err = fmt.Errorf("unexpected %q after %s %d", p.next(), name, n)
	}
	return &n, err
}

// time reads the duration of an option.
func (p *parser) time(name, missing string) (*time.Duration, error) {
	if err := p.once(name); err != nil {
		return nil, err
	}
	p.equals()
	d, _, err := p.duration(missing)
	return &d, err
}

// equals skips what may stand between an option and its value.
func (p *parser) equals() {
	p.rest = strings.TrimPrefix(p.rest, "=")
	p.blanks()
}

// duration reads numbers with units: 15m, 1h30m, 15 minutes. one is the unit if it is one of it.
func (p *parser) duration(missing string) (sum time.Duration, one string, err error) {
	for first := true; first || digits(p.rest) > 0; first = false {
		n, err := p.count(missing)
		if err != nil {
			return 0, "", err
		}
		if first {
			p.blanks()
		}
		unit, err := p.unitName()
		if err != nil {
			return 0, "", err
		}
		switch {
		case unit.length == 0:
			return 0, "", errors.New(`months are those of a calendar: expected "/month" and a time zone, or days`)
		case n > int64(math.MaxInt64-sum)/int64(unit.length):
			return 0, "", errors.New("the time is too long")
		}
		one = ""
		if sum += time.Duration(n) * unit.length; first && n == 1 {
			one = unit.names[0]
		}
	}
	return sum, one, nil
}

// unitName reads the name of a unit.
func (p *parser) unitName() (unit, error) {
	word := p.letters()
	if word == "" {
		return unit{}, fmt.Errorf("expected a unit such as second, minute, hour or day, got %q", p.next())
	}
	p.rest = p.rest[len(word):]
	if word == "M" {
		return unit{}, errors.New(`the unit "M" could be minutes or months: write "m" or "month"`)
	}
	name := strings.ToLower(word)
	var names []string
	for _, u := range units {
		if slices.Contains(u.names, name) {
			return u, nil
		}
		names = append(names, u.names...)
	}
	if like := spelling.Nearest(name, names); like != "" {
		return unit{}, fmt.Errorf("unknown unit %q; did you mean %q?", word, like)
	}
	return unit{}, fmt.Errorf("unknown unit %q, expected second, minute, hour, day, week or month", word)
}

// count reads a number. missing is the error if there is none.
func (p *parser) count(missing string) (int64, error) {
	p.blanks()
	n := digits(p.rest)
	if n == 0 {
		if next := p.next(); next != "" {
			missing += fmt.Sprintf(", got %q", next)
		}
		return 0, errors.New(missing)
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	if r := p.rest; r != "" && (r[0] == '.' || r[0] == ',' || r[0] == '_') {
		return 0, fmt.Errorf("expected a whole number, which may have _ between its digits, got %q", text+p.next())
	}
	value, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the number %s is too large", text)
	}
	return value, nil
}

// secondWord reads a word that may follow, and reports whether it did.
func (p *parser) secondWord(word string) bool {
	before := p.rest
	p.blanks()
	if p.word(word) && p.ends("") {
		return true
	}
	p.rest = before
	return false
}

// word reads a word, and reports whether it is next.
func (p *parser) word(word string) bool {
	if !strings.EqualFold(p.letters(), word) {
		return false
	}
	p.rest = p.rest[len(word):]
	return true
}

// letters returns the letters that are next.
func (p *parser) letters() string {
	for i := range len(p.rest) {
		if c := p.rest[i] | 0x20; c < 'a' || c > 'z' {
			return p.rest[:i]
		}
	}
	return p.rest
}

// ends reports whether nothing, a blank, or one of the given bytes is next.
func (p *parser) ends(or string) bool {
	return p.rest == "" || strings.IndexByte(blankBytes+or, p.rest[0]) >= 0
}

// next returns what is next, up to a blank.
func (p *parser) next() string {
	if i := strings.IndexAny(p.rest, blankBytes); i >= 0 {
		return p.rest[:i]
	}
	return p.rest
}

const blankBytes = " \t\r\n"

func (p *parser) blanks() { p.rest = strings.TrimLeft(p.rest, blankBytes) }

// digits returns the length of the number that s begins with.
func digits(s string) (n int) {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			n = i + 1
		case c == '_' && i > 0 && n == i:
		default:
			return n
		}
	}
	return n
}
