package policy

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Options give a policy file what it can't say itself: functions of the application, by the names
// that the file uses. The zero value is ready to use.
type Options struct {
	// Keys are keys for by, once_per and percent, beside those of the format. The names user and
	// tenant may be given here, and then say who a request's user and tenant are.
	Keys map[string]keyfuncs.Func

	// Conditions are for the field condition.
	Conditions map[string]keyfuncs.Condition

	// Values are for tiers, fair and the field value, such as the plan of a request's tenant. A
	// value "" is none.
	Values map[string]func(keyfuncs.Request) string

	// Costs are for cost_by and estimate_by.
	Costs map[string]func(keyfuncs.Request) int64

	// Scales are for scale, such as the Factor of a core.Load.
	Scales map[string]func(context.Context) float64

	// AnyName lets a file use names that are not given here. Keys, values and costs of such a
	// name are then read from what is stored in the request under it, conditions hold if true is
	// stored there, and scales are 1. It is for tools that check files without the application:
	// in a service a misspelled name would be an error that nobody sees. Defaults to false.
	AnyName bool

	// Validate says why the program can't use a policy, or returns nil. A file with one that it can't use is
	// refused, such as by gateway.Validate if gateways ask. Defaults to none.
	Validate func(policy string, limits []core.Limit) error

	// Env returns a variable of the environment, for references such as ${env:NAME}. Defaults to
	// os.LookupEnv.
	Env func(name string) (value string, ok bool)

	// WithoutSecrets leaves references to secrets unread, for tools that check a file where the
	// secrets are not known. The policies can't be used then. Defaults to false.
	WithoutSecrets bool

	// Keep names a file in which the last good version is kept. A process that starts while the
	// source can't be read, or holds a file that is refused, begins with that; the log and
	// Status say so. The file holds no secrets. It can't be the policy file itself. Defaults to
	// none: then such a process gets an error.
	Keep string

	// EndMark refuses a file in YAML whose last line is not "...", which is how YAML marks the end of a
	// document. A file that is written slowly, and not replaced as a whole, may otherwise be taken while
	// its end is missing: cut off behind a line it is valid, and has fewer limits. JSON needs no mark: it
	// is not valid without its last brace. Defaults to false.
	EndMark bool

	// Logger hears of new versions, and of files that are refused. Defaults to slog.Default().
	Logger *slog.Logger
}

func (o *Options) env(name string) (string, bool) {
	if o.Env != nil {
		return o.Env(name)
	}
	return os.LookupEnv(name)
}

func (o *Options) logger() *slog.Logger {
	if o.Logger != nil {
		return o.Logger
	}
	return slog.Default()
}

// namesOf returns the names that the application has given, for messages.
func namesOf[T any](given map[string]T) []string { return slices.Sorted(maps.Keys(given)) }

// clone returns a copy that shares no map with o: each reload reads them, and the application may change its own.
func (o Options) clone() Options {
	o.Keys, o.Conditions, o.Values = maps.Clone(o.Keys), maps.Clone(o.Conditions), maps.Clone(o.Values)
	o.Costs, o.Scales = maps.Clone(o.Costs), maps.Clone(o.Scales)
	return o
}
