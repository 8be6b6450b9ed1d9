package settings

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Flags returns the flags of the settings of some groups, of all if none is named. Parsing them takes every text:
// what is wrong with one is said by [Set.Read], since the errors of parsers repeat texts, and some are secrets.
func (s *Set) Flags(groups ...string) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	for _, setting := range s.all {
		if len(groups) > 0 && !slices.Contains(groups, setting.Group) {
			continue
		}
		var value flag.Value = (*text)(setting)
		if _, ok := setting.Value.(*Bool); ok {
			value = (*boolean)(setting)
		}
		flags.Var(value, setting.Name, setting.Help)
	}
	return flags
}

// text collects what is given as one flag. Parsers show the name of its type in the help.
type text Setting

func (t *text) Set(given string) error {
	t.flags = append(t.flags, given)
	return nil
}

func (t *text) String() string { return t.Default }

// boolean is a flag that needs no text.
type boolean Setting

func (b *boolean) Set(given string) error { return (*text)(b).Set(given) }

func (b *boolean) String() string { return b.Default }

// Type is how pflag knows that the help shows no text.
func (b *boolean) Type() string { return "bool" }

// IsBoolFlag is how package flag and pflag know that the flag needs no text.
func (b *boolean) IsBoolFlag() bool { return true }

// flag returns the text of a setting's flag; "" if it is not there. A flag that is there and empty is an error:
// --redis "$REDIS" must not mean that there is no Redis where the variable is not set.
func (s *Set) flag(setting *Setting) (string, error) {
	if len(setting.flags) == 0 {
		return "", nil
	}
	name, given := setting.Name, setting.flags[0]
	switch {
	case setting.EnvOnly:
		return "", fmt.Errorf("--%s: everybody on this machine could read it in the list of processes: set %s", name, Variable(name))
	case len(setting.flags) > 1:
		return "", fmt.Errorf("--%s is there twice", name)
	case s.isFlag(given):
		return "", fmt.Errorf("--%s needs a value, and %s follows", name, given)
	case strings.TrimSpace(given) == "":
		return "", fmt.Errorf("--%s is empty: leave it out, or is a variable of the shell not set?", name)
	case setting.RefuseFlag != nil:
		if why := setting.RefuseFlag(given); why != "" {
			return "", fmt.Errorf("--%s %s", name, why)
		}
	}
	return given, nil
}

// FlagError returns an error of pflag in the words of this package. Such an error has the name of the flag.
func (s *Set) FlagError(err error) error {
	var of interface {
		error
		GetSpecifiedName() string
		GetSpecifiedShortnames() string
	}
	if !errors.As(err, &of) {
		return err
	}
	name, dashed := of.GetSpecifiedName(), func(known string) string { return "--" + known }
	short, _, _ := strings.Cut(of.GetSpecifiedShortnames(), "=") // what follows may be a secret
	if len(short) > 1 {
		return oneDash(short)
	}
	if s.byName[name] != nil {
		return fmt.Errorf("--%s needs a value", name)
	}
	return s.Unknown("flag", "--"+name, dashed)
}

// OneDash returns an error if a setting is written with one dash. The parser says so as well, but takes -home-redis for -h,
// which asks for help.
func (s *Set) OneDash(args []string) error {
	for _, arg := range args {
		name, dashed := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=") // what follows may be a secret
		if dashed && s.byName[name] != nil {
			return oneDash(name)
		}
	}
	return nil
}

func oneDash(name string) error {
	return fmt.Errorf("-%s: flags begin with two dashes: --%s", name, name)
}

// isFlag reports whether a text is a flag that there is, and so no value of another one.
func (s *Set) isFlag(text string) bool {
	name, dashed := strings.CutPrefix(text, "--")
	name, _, _ = strings.Cut(name, "=")
	return dashed && s.byName[name] != nil
}
