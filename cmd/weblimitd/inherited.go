package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/internal/settings"
)

// inherited are variables of envoyproxy/ratelimit, which whoever changes over has set. Started as ratelimit, the program
// takes them: see entry. Started as weblimitd it reads none, and with --envoy-config it passes none over in silence: one
// that is set is an error that names what stands for it here, unless that is set as well, or the variable says what
// weblimitd does anyway. Without --envoy-config they are those of other programs: PORT, HOST, LOG_LEVEL and REDIS_URL are
// common names.
type inherited struct {
	names   string // with blanks between them
	instead string // the settings that stand for them, with blanks between them; one that is set is enough
	note    string // what else there is to know

	// with is a variable and its value without which the others mean nothing, such as USE_STATSD=true, or several
	// of them with blanks between them. A value of "" is any.
	with string

	// agrees reports whether a value says what weblimitd does anyway. Nil stands for never.
	agrees func(o *options, value string) bool

	// becomes gives settings what the variables say, for a program that was started as ratelimit. Nil stands for
	// variables that are refused there unless they agree.
	becomes func(e *entry, v *inherited)
	unless  string // settings of ours, with blanks between them, one of which takes the place of all that becomes would give
	as      string // what the variables become, in docs; "" for the settings of instead
}

// ofAService is a value that Kubernetes sets in each container for a Service, such as STATSD_PORT for one
// named statsd.
var ofAService = regexp.MustCompile(`^(tcp|udp|sctp)://`)

func anyValue(*options, string) bool { return true }

func says(word string) func(*options, string) bool {
	return func(_ *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return strings.EqualFold(value, word) || err == nil && strconv.FormatBool(is) == word
	}
}

func sameBool(own func(*options) bool) func(*options, string) bool {
	return func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && is == own(o)
	}
}

func hasVariable(names ...string) func(*options, string) bool {
	return func(o *options, _ string) bool {
		for _, name := range names {
			if o.variables[name] != "" {
				return true
			}
		}
		return false
	}
}

func (o *options) saysNo(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && !is
}

func (o *options) traced() bool {
	return tracesTo(func(name string) string { return o.variables[name] })
}

// refuseInherited returns an error for each variable of envoyproxy/ratelimit that says what is not done.
// Values are not repeated: some are passwords.
func (o *options) refuseInherited() error {
	var errs []error
	for i := range inheritedVariables {
		v := &inheritedVariables[i]
		for name := range strings.FieldsSeq(v.names) {
			if value := o.variables[name]; value != "" && !ofAService.MatchString(value) && o.counts(v) && !o.standsFor(v, name) && (v.agrees == nil || !v.agrees(o, value)) {
				errs = append(errs, fmt.Errorf("%s is a variable of envoyproxy/ratelimit, which is not read here: %s", name, v.mend(o.set)))
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs, errors.New("docs/service/envoy.md has all variables, under \"From variables to settings\""))
	}
	return errors.Join(errs...)
}

// counts reports whether a variable means something beside the others.
func (o *options) counts(v *inherited) bool {
	for needed := range strings.FieldsSeq(v.with) {
		if name, value, _ := strings.Cut(needed, "="); !says(value)(o, o.variables[name]) {
			return false
		}
	}
	return true
}

// standsFor reports whether a setting is set that stands for a variable. PostgreSQL stands for all of
// Redis.
func (o *options) standsFor(v *inherited, variable string) bool {
	if o.postgres.URL != "" && (strings.HasPrefix(variable, "REDIS_") || variable == "CACHE_KEY_PREFIX") {
		return true
	}
	for name := range strings.FieldsSeq(v.instead) {
		if o.set.From(name) != settings.Unset {
			return true
		}
	}
	return false
}

// mend says what to do about a variable.
func (v *inherited) mend(set *settings.Set) string {
	text := "unset it"
	if all := v.settings(set); len(all) > 0 {
		text = "set " + strings.Join(all, " or ") + ", or unset it"
	}
	if v.note != "" {
		text += "; " + v.plainNote()
	}
	return text
}

// plainNote is the note, without the marks of docs.
func (v *inherited) plainNote() string { return strings.ReplaceAll(v.note, "`", "") }

// settings are those that stand for a variable, as flags, or as variables if they are secrets.
func (v *inherited) settings(set *settings.Set) (all []string) {
	for name := range strings.FieldsSeq(v.instead) {
		for _, s := range set.All() {
			if s.Name == name && s.EnvOnly {
				all = append(all, settings.Variable(name))
			} else if s.Name == name {
				all = append(all, "--"+name)
			}
		}
	}
	return all
}

// inheritedRows are the rows of docs/service/envoy.md.
func inheritedRows() string {
	var b strings.Builder
	set := newOptions().set
	for i := range inheritedVariables {
		v := &inheritedVariables[i]
		stands := v.settings(set)
		for j := range stands {
			stands[j] = "`" + stands[j] + "`"
		}
		text, as := strings.Join(stands, ", "), v.as
		switch {
		case as == "" && v.becomes != nil:
			as = text
		case as == "" && v.agrees != nil:
			as = "refused if it says otherwise"
		case as == "":
			as = "refused"
		}
		if v.note != "" {
			text = strings.TrimPrefix(text+"; "+v.note, "; ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(strings.Fields(v.names), "`, `"), text, as)
	}
	return b.String()
}
