package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/internal/settings"
)

// entryName is the name of envoyproxy/ratelimit's program. Whatever starts it, such as Envoy Gateway, sets variables of
// that program and expects its ports: weblimitd started under this name has both.
const entryName = "ratelimit"

// startedAs reports whether the path by which the program was started ends in a name.
func startedAs(path, name string) bool {
	return strings.TrimSuffix(filepath.Base(path), ".exe") == name
}

// entry turns variables of envoyproxy/ratelimit into settings. Those of weblimitd that are set win. Each variable that
// is set becomes a setting, is an error, or is not needed, and is said to be so.
type entry struct {
	*options
	said []became
	errs []error
}

// became is what became of a variable. The name is "" for what envoyproxy/ratelimit does by default.
type became struct{ variable, text string }

func (b became) String() string {
	if b.variable == "" {
		return "by the name " + entryName + ": " + b.text
	}
	return b.variable + ": " + b.text
}

// translate gives the settings that nothing has set what the variables say. It is called when all others are read.
func (e *entry) translate() error {
	for i := range inheritedVariables {
		v := &inheritedVariables[i]
		switch own := e.ownSetting(v.unless); {
		case own != "":
			e.needless(own+" is set", strings.Fields(v.names)...)
		case !e.counts(v):
			e.needless("it means nothing without "+strings.ReplaceAll(v.with, " ", " and "), strings.Fields(v.names)...)
		case v.becomes != nil:
			v.becomes(e, v)
		default:
			e.refuse(v)
		}
	}
	if e.policy == "" { // or strangers could ask by the policy, too
		e.give("insecure-listen", "true")
	}
	if len(e.errs) > 0 {
		e.errs = append(e.errs, errors.New("docs/service/envoy.md has all variables, under \"From variables to settings\""))
	}
	return errors.Join(e.errs...)
}

// ownSetting returns the first of some settings that is set, as it was written, or "".
func (e *entry) ownSetting(names string) string {
	for name := range strings.FieldsSeq(names) {
		if s := e.set.ByName(name); s.Origin() != settings.Unset && s.Origin() != settings.Inherited {
			return s.Written()
		}
	}
	return ""
}

// value returns the value of a variable, or "" for one that Kubernetes has set for a Service.
func (e *entry) value(variable string) string {
	if value := e.variables[variable]; !ofAService.MatchString(value) {
		return value
	}
	return ""
}

// or returns the value of a variable, or its default.
func (e *entry) or(variable, byDefault string) string {
	if value := e.value(variable); value != "" {
		return value
	}
	return byDefault
}

// yes reports whether a variable is true. One that is neither is an error where its row is read.
func (e *entry) yes(variable string) bool {
	is, _ := strconv.ParseBool(e.value(variable))
	return is
}

// give has a setting have the value that variables stand for; without variables, that of envoyproxy/ratelimit.
func (e *entry) give(setting, text string, variables ...string) {
	place := "the name " + entryName
	if found := e.found(variables); len(found) > 0 {
		place = strings.Join(found, ", ")
	}
	if err := e.set.Inherit(setting, settings.Given{Text: text, Place: place}); err != nil {
		e.errs = append(e.errs, err)
		return
	}
	s := e.set.ByName(setting)
	if s.Origin() != settings.Inherited {
		e.needless(s.Written()+" is set", variables...)
		return
	}
	say := "--" + setting + " " + s.Shown()
	if s.EnvOnly {
		say = settings.Variable(setting) + " " + s.Shown()
	}
	if len(e.found(variables)) == 0 {
		e.said = append(e.said, became{"", say})
		return
	}
	e.say(say, variables...)
}

// found are those of some variables that are set.
func (e *entry) found(variables []string) (found []string) {
	for _, variable := range variables {
		if e.value(variable) != "" {
			found = append(found, variable)
		}
	}
	return found
}

// say says what became of variables, if they are set.
func (e *entry) say(text string, variables ...string) {
	for _, variable := range e.found(variables) {
		e.said = append(e.said, became{variable, text})
	}
}

func (e *entry) needless(why string, variables ...string) { e.say("not needed: "+why, variables...) }

// fail says what is wrong with a variable, and does not repeat its value, which may be a password.
func (e *entry) fail(variable, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("%s: %w", variable, fmt.Errorf(format, args...)))
}

// refuse takes variables that become nothing: those that say what is done anyway are not needed, and others are errors.
func (e *entry) refuse(v *inherited) {
	for variable := range strings.FieldsSeq(v.names) {
		value := e.value(variable)
		switch {
		case value == "":
		case v.agrees != nil && v.agrees(e.options, value):
			why := strings.TrimPrefix(v.plainNote(), "not needed: ")
			if why == "" {
				why = "it is so anyway"
			}
			e.needless(why, variable)
		default:
			e.fail(variable, "%s", v.mend(e.set))
		}
	}
}

// tell logs what became of the variables, which whoever wrote them does not see otherwise.
func (e *entry) tell(log *slog.Logger) {
	all := make([]string, len(e.said))
	for i, b := range e.said {
		all[i] = b.String()
	}
	log.Info("weblimitd: variables of envoyproxy/ratelimit", "became", all)
}
