// Package settings reads the settings of a command from flags, the environment and a file. Every setting has
// one name: --drain-delay, WEBLIMIT_DRAIN_DELAY and drain-delay in the file. A flag wins over the
// environment, and the environment over the file. Names that there are not are errors, and so are settings
// that would do nothing.
//
// The struct that a part of a command is made from adds its settings to the command's Set. Flags are passed to
// the parser of the command as a [flag.FlagSet], which packages flag and pflag take.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
)

// prefix is what the names of variables begin with, and ofImages those by which an image sets defaults: whoever
// starts a container can set the setting itself, in any way.
const (
	prefix   = "WEBLIMIT_"
	ofImages = prefix + "DEFAULT_"
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

	needs [][]string
	flags []string // texts of the flag, before they are read
	from  Origin
	place string // that names a value that was inherited
	text  string
}

// Origin is where a value comes from.
type Origin string

// The origins.
const (
	Unset       Origin = "default"
	Inherited   Origin = "inherited" // from variables of another program
	File        Origin = "file"
	Environment Origin = "environment"
	Flag        Origin = "flag"
)

// Set holds the settings of a program.
type Set struct {
	all     []*Setting
	byName  map[string]*Setting
	renamed map[string]string // former names, to those of today
}

// Add adds a setting. Its default is read at once, and must be valid.
func (s *Set) Add(setting Setting) *Setting {
	if s.byName == nil {
		s.byName, s.renamed = map[string]*Setting{}, map[string]string{}
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
	return &setting
}

// Group returns what adds settings under one heading of the help.
func (s *Set) Group(heading string) Group { return Group{s, heading} }

// Group adds settings under one heading.
type Group struct {
	set     *Set
	heading string
}

// Add adds a setting.
func (g Group) Add(name string, value Value, byDefault, help string) *Setting {
	return g.set.Add(Setting{Name: name, Group: g.heading, Help: help, Value: value, Default: byDefault})
}

// Secret adds a setting that only the environment may have.
func (g Group) Secret(name string, value Value, help string) *Setting {
	return g.set.Add(Setting{Name: name, Group: g.heading, Help: help, Value: value, EnvOnly: true})
}

// URL adds a setting that may hold a password, but not as a flag. instead says where the password belongs.
func (g Group) URL(name string, value Value, instead, help string) *Setting {
	return g.set.Add(Setting{
		Name: name, Group: g.heading, Help: help, Value: value, Redact: redactURL,
		RefuseFlag: func(text string) string { return refusePassword(text, instead) },
	})
}

// Needs says that a setting does nothing without one of others. Of several calls, each holds.
func (s *Setting) Needs(oneOf ...string) *Setting {
	s.needs = append(s.needs, oneOf)
	return s
}

// Renamed has the former name of a setting be an error that names today's.
func (s *Set) Renamed(former, name string) { s.renamed[former] = name }

// All returns the settings in the order in which they were added.
func (s *Set) All() []*Setting { return s.all }

// From says where the value of a setting comes from.
func (s *Set) From(name string) Origin { return s.byName[name].from }

// Variable returns the name of a setting in the environment.
func Variable(name string) string {
	return prefix + spelled(name)
}

func defaultVariable(name string) string { return ofImages + spelled(name) }

func spelled(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

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

// Written returns how a setting is written where it was found: as a variable, or as a flag.
func (s *Setting) Written() string {
	if s.from == Inherited {
		return s.place
	}
	if s.from == Environment || s.EnvOnly {
		return Variable(s.Name)
	}
	return "--" + s.Name
}

// isOn reports whether a setting says something, and that it is not off.
func (s *Setting) isOn() bool { return s.text != "" && s.text != "false" && s.text != "off" }

// Given is the text of a setting, and where it was found.
type Given struct {
	Text  string
	Place string // for messages: --listen, WEBLIMIT_LISTEN, weblimitd.yaml:3:1: listen
}

// Read gives all settings their values, and tells all that is wrong with them at once. The flags have been
// parsed before; file is nil without a file.
func (s *Set) Read(env func(variable string) string, file map[string]Given) error {
	var errs []error
	for former, name := range s.renamed {
		if env(Variable(former)) != "" {
			errs = append(errs, fmt.Errorf("%s: the name is now %s", Variable(former), Variable(name)))
		}
	}
	for _, setting := range s.all {
		text, err := s.flag(setting)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources := []struct {
			from Origin
			Given
		}{
			{Flag, Given{text, "--" + setting.Name}},
			{Environment, Given{env(Variable(setting.Name)), Variable(setting.Name)}},
			{File, file[setting.Name]},
		}
		for _, source := range sources {
			if source.Text == "" {
				continue
			}
			setting.from, setting.text = source.from, source.Text
			if err := setting.Value.Set(source.Text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", source.Place, err))
			}
			break
		}
		if setting.from == Unset {
			errs = append(errs, s.readDefault(setting, env))
		}
	}
	return errors.Join(errs...)
}

// readDefault gives a setting the default that an image has for it.
func (s *Set) readDefault(setting *Setting, env func(variable string) string) error {
	variable := defaultVariable(setting.Name)
	text := env(variable)
	if text == "" {
		return nil
	}
	setting.text = text
	if err := setting.Value.Set(text); err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return nil
}

// Inherit gives a setting a value that variables of another program stand for, unless it is set. It is called after
// [Set.Read].
func (s *Set) Inherit(name string, given Given) error {
	setting := s.byName[name]
	if setting.from != Unset {
		return nil
	}
	setting.from, setting.place, setting.text = Inherited, given.Place, given.Text
	if err := setting.Value.Set(given.Text); err != nil {
		return fmt.Errorf("%s: %w", given.Place, err)
	}
	return nil
}

// Needless returns an error for each setting that would do nothing. Such a setting is a mistake that shows in an
// incident only: with a password for a Redis that is not named, each instance counts in its own memory.
func (s *Set) Needless() error {
	var errs []error
	for _, setting := range s.all {
		for _, oneOf := range setting.needs {
			set := func(name string) bool { return s.byName[name].isOn() }
			if setting.from != Unset && setting.isOn() && setting.text != setting.Default && !slices.ContainsFunc(oneOf, set) {
				errs = append(errs, fmt.Errorf("%s does nothing without --%s", setting.Written(), strings.Join(oneOf, " or --")))
			}
		}
	}
	return errors.Join(errs...)
}

// Unknown says that there is no setting of a name, and which was probably meant. spell writes the names of
// settings as the unknown one is written.
func (s *Set) Unknown(what, name string, spell func(string) string) error {
	for former, today := range s.renamed {
		if spell(former) == name {
			return fmt.Errorf("%s: the name is now %s", name, spell(today))
		}
	}
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

// Variables returns an error for each variable of this project that is no setting. An empty one is none, and
// foreign reports those of other programs.
func (s *Set) Variables(environ []string, foreign func(variable string) bool) error {
	known := make(map[string]bool, len(s.all))
	for _, setting := range s.all {
		known[Variable(setting.Name)], known[defaultVariable(setting.Name)] = true, true
	}
	for former := range s.renamed { // which Read refuses
		known[Variable(former)] = true
	}
	var errs []error
	for _, entry := range environ {
		variable, text, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(variable, prefix) && text != "" && !known[variable] && !foreign(variable) {
			errs = append(errs, s.Unknown("setting", variable, Variable))
		}
	}
	return errors.Join(errs...)
}

// Early returns the text of a setting before it is read, as the name of the file of settings is needed.
func (s *Set) Early(name string, env func(variable string) string) string {
	if text, err := s.flag(s.byName[name]); text != "" || err != nil { // which Read will say
		return text
	}
	return env(Variable(name))
}

// ByName returns the setting of a name, or nil.
func (s *Set) ByName(name string) *Setting { return s.byName[name] }
