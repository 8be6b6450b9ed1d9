package settings

import (
	"fmt"
	"strings"
)

// ErrHelp is returned for --help.
var ErrHelp = fmt.Errorf("help")

// readFlags reads --name value and --name=value, with one dash or two; a Bool needs no value. Everything
// behind -- or in front of which no flag stands is an argument. An empty value is an error: --redis "$REDIS" must not
// mean that there is no Redis where the variable is not set.
func (s *Set) readFlags(args []string) (flags map[string]given, rest []string, errs []error) {
	flags = map[string]given{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return flags, append(rest, args...), errs
		}
		name, dashed := strings.CutPrefix(arg, "-")
		if !dashed || name == "" {
			rest = append(rest, arg)
			continue
		}
		name = strings.TrimPrefix(name, "-")
		name, text, hasText := strings.Cut(name, "=")
		if name == "help" || name == "h" {
			return nil, nil, []error{ErrHelp}
		}
		setting := s.byName[name]
		if setting == nil || setting.EnvOnly {
			if setting != nil {
				errs = append(errs, fmt.Errorf("--%s: everybody on this machine could read it in the list of processes: set %s", name, s.Variable(name)))
			} else {
				errs = append(errs, s.unknown("flag", "--"+name, func(known string) string { return "--" + known }))
			}
			if !hasText && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // its value, which is no argument
			}
			continue
		}
		_, isBool := setting.Value.(*Bool)
		switch {
		case hasText:
		case isBool:
			text = "true"
		case len(args) == 0:
			errs = append(errs, fmt.Errorf("--%s needs a value", name))
			continue
		case s.isFlag(args[0]):
			errs = append(errs, fmt.Errorf("--%s needs a value, and %s follows", name, args[0]))
			continue
		default:
			text, args = args[0], args[1:]
		}
		if strings.TrimSpace(text) == "" {
			errs = append(errs, fmt.Errorf("--%s is empty: leave it out, or is a variable of the shell not set?", name))
			continue
		}
		if _, twice := flags[name]; twice {
			errs = append(errs, fmt.Errorf("--%s is there twice", name))
			continue
		}
		flags[name] = given{text, "--" + name}
	}
	return flags, rest, errs
}

// isFlag reports whether an argument is a flag that there is, and so no value of another one.
func (s *Set) isFlag(arg string) bool {
	name, dashed := strings.CutPrefix(arg, "--")
	name, _, _ = strings.Cut(name, "=")
	return dashed && s.byName[name] != nil
}

// readEnv reads the variables with the prefix. An empty variable is none.
func (s *Set) readEnv(env []string) (variables map[string]given, errs []error) {
	variables = map[string]given{}
	names := make(map[string]string, len(s.all))
	for _, setting := range s.all {
		names[s.Variable(setting.Name)] = setting.Name
	}
	for _, entry := range env {
		variable, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, s.Prefix) {
			continue
		}
		name, known := names[variable]
		switch {
		case known && text != "":
			variables[name] = given{text, variable}
		case known, text == "", s.Foreign != nil && s.Foreign(variable):
		default:
			errs = append(errs, s.unknown("setting", variable, s.Variable))
		}
	}
	return variables, errs
}
