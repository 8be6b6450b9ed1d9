// Package settings reads a program's settings from flags, the environment and a file. Every setting has
// one name: --drain-delay, WEBLIMIT_DRAIN_DELAY and drain-delay in the file. A flag wins over the
// environment, and the environment over the file. Names that there are not are errors.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/spelling"
)

// Setting is one setting.
type Setting struct {
	Name    string
	Group   string // heading in the help
	Help    string
	Value   Value
	Default string // as text

	// EnvOnly is a secret: no flag, which everybody on the machine can read, and not in the file.
	EnvOnly bool
	// Redact returns what may be shown of a value. Defaults to all of it.
	Redact func(string) string
	// RefuseFlag returns why a value must not be in a flag, or "".
	RefuseFlag func(string) string

	from Origin
	text string
}

// Origin is where a value comes from.
type Origin string

// The origins.
const (
	Unset       Origin = "default"
	File        Origin = "file"
	Environment Origin = "environment"
	Flag        Origin = "flag"
)

// Value reads the text of a setting.
type Value interface {
	// Set reads a text. Its error does not repeat a secret.
	Set(text string) error
}

// Set holds the settings of a program.
type Set struct {
	Prefix string // of variables, such as WEBLIMIT_

	// Foreign reports variables with the prefix that are not this program's.
	Foreign func(variable string) bool

	all    []*Setting
	byName map[string]*Setting
}

// Add adds a setting. Its default is read at once, and must be valid.
func (s *Set) Add(setting Setting) {
	if s.byName == nil {
		s.byName = map[string]*Setting{}
	}
	if s.byName[setting.Name] != nil {
		panic("two settings " + setting.Name)
	}
	if setting.Default != "" {
		if err := setting.Value.Set(setting.Default); err != nil {
			panic(fmt.Sprintf("the default of %s: %v", setting.Name, err))
		}
	}
	setting.from, setting.text = Unset, setting.Default
	s.all = append(s.all, &setting)
	s.byName[setting.Name] = &setting
}

// All returns the settings in the order in which they were added.
func (s *Set) All() []*Setting { return s.all }

// From says where the value of a setting comes from.
func (s *Set) From(name string) Origin { return s.byName[name].from }

// Setting returns the setting of a name, which there must be.
func (s *Set) Setting(name string) *Setting { return s.byName[name] }

// Variable returns the name of a setting in the environment.
func (s *Set) Variable(name string) string {
	return s.Prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Shown returns a setting's value as it may be shown.
func (s *Setting) Shown() string {
	switch {
	case s.EnvOnly && s.text != "":
		return "(secret)"
	case s.Redact != nil && s.text != "":
		return s.Redact(s.text)
	}
	return s.text
}

// Origin says where the value comes from.
func (s *Setting) Origin() Origin { return s.from }

// Text returns the value as it was written. It may be a secret: see Shown.
func (s *Setting) Text() string { return s.text }

// given is a value, and where it was found.
type given struct {
	text  string
	place string // for messages: --listen, WEBLIMIT_LISTEN, weblimitd.yaml:3:1: listen
}

// Read reads all settings, and tells all that is wrong with them at once. args are without the program's
// name, env is as os.Environ has it, and the file is named by the setting fileSetting. It returns the
// arguments that are no flags.
func (s *Set) Read(args, env []string, fileSetting string, readFile func(string) ([]byte, error)) (rest []string, err error) {
	flags, rest, errs := s.readFlags(args)
	variables, wrong := s.readEnv(env)
	errs = append(errs, wrong...)
	name := flags[fileSetting].text
	if name == "" {
		name = variables[fileSetting].text
	}
	file := map[string]given{}
	if name != "" {
		file, wrong = s.readFile(name, fileSetting, readFile)
		errs = append(errs, wrong...)
	}
	for _, setting := range s.all {
		for _, source := range []struct {
			from  Origin
			given map[string]given
		}{{Flag, flags}, {Environment, variables}, {File, file}} {
			g, there := source.given[setting.Name]
			if !there {
				continue
			}
			// What another source overrides is checked, too: it is a mistake that waits.
			if setting.from == Unset {
				setting.from, setting.text = source.from, g.text
				if err := setting.Value.Set(g.text); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", g.place, err))
				}
			}
			if source.from == Flag && setting.RefuseFlag != nil {
				if why := setting.RefuseFlag(g.text); why != "" {
					errs = append(errs, fmt.Errorf("%s: %s", g.place, why))
				}
			}
		}
	}
	return rest, errors.Join(errs...)
}

// unknown says that there is no such name, and which was probably meant.
func (s *Set) unknown(what, name string, spell func(string) string) error {
	known := make([]string, len(s.all))
	for i, setting := range s.all {
		known[i] = spell(setting.Name)
	}
	best := spelling.NearestName(name, known)
	if best == "" {
		return fmt.Errorf("%s: there is no such %s", name, what)
	}
	return fmt.Errorf("%s: there is no such %s; did you mean %s?", name, what, best)
}

// String is a Value that takes any text.
type String string

// Set implements [Value].
func (v *String) Set(text string) error { *v = String(text); return nil }

// Bool is a Value that is true or false.
type Bool bool

// Set implements [Value].
func (v *Bool) Set(text string) error {
	switch text {
	case "true":
		*v = true
	case "false":
		*v = false
	default:
		return fmt.Errorf("%q must be true or false", text)
	}
	return nil
}

// Choice is a Value that is one of several words.
type Choice struct {
	Word string
	Of   []string
}

// Set implements [Value].
func (v *Choice) Set(text string) error {
	if !slices.Contains(v.Of, text) {
		return fmt.Errorf("%q must be one of %s", text, strings.Join(v.Of, ", "))
	}
	v.Word = text
	return nil
}

// Duration is a Value within bounds.
type Duration struct {
	time.Duration
	Min, Max time.Duration
}

// Set implements [Value].
func (v *Duration) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration such as 5s or 1m30s", text)
	}
	if d < v.Min || d > v.Max {
		return fmt.Errorf("%q must be from %v to %v", text, v.Min, v.Max)
	}
	v.Duration = d
	return nil
}

// Int is a Value within bounds.
type Int struct {
	N, Min, Max int
}

// Set implements [Value].
func (v *Int) Set(text string) error {
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || len(text) > 12 {
			return fmt.Errorf("%q is no whole number", text)
		}
		n = n*10 + int(text[i]-'0')
	}
	if text == "" || n < v.Min || n > v.Max {
		return fmt.Errorf("%q must be a number from %d to %d", text, v.Min, v.Max)
	}
	v.N = n
	return nil
}

// Float is a Value above 0 and at most Max.
type Float struct {
	N, Max float64
}

// Set implements [Value].
func (v *Float) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= v.Max) {
		return fmt.Errorf("%q must be a number above 0 and at most %v", text, v.Max)
	}
	v.N = n
	return nil
}

// List is a Value of texts with commas between them.
type List []string

// Set implements [Value].
func (v *List) Set(text string) error {
	*v = nil
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return fmt.Errorf("%q has an empty part", text)
		}
		*v = append(*v, part)
	}
	return nil
}
