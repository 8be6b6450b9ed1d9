package store

import (
	"fmt"
	"strings"
)

// project is what the texts of this project's errors begin with, once.
const project = "weblimit: "

// ConfigError is the error of a configuration that can't work, from a constructor: it says at which place, what is
// wrong there, and what to do about it. Places nest: the error of a fallback wraps that of one of its limits.
type ConfigError struct {
	Path string // the place: `limit "api"`, "Config.Fallback"
	Err  error  // what is wrong there
}

// Error returns the places, outermost first, and what is wrong.
func (e *ConfigError) Error() string { return project + e.Path + ": " + Reason(e.Err) }

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// AtLimit returns the error of a configuration that is about one limit.
func AtLimit(name string, err error) error {
	return &ConfigError{Path: fmt.Sprintf("limit %q", name), Err: err}
}

// Reason returns the text of an error of this project without the project's name, to be said within another text, or after
// the name of a program. Errors that were joined, and those in other texts, lose it, too.
func Reason(err error) string { return strings.TrimPrefix(within.Replace(err.Error()), project) }

// within removes the project's name from errors within an error.
var within = strings.NewReplacer("\n"+project, "\n", ": "+project, ": ")
