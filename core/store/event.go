package store

import (
	"context"
	"log/slog"
	"time"
)

// EventKind is the kind of an [Event], in words for logs and metrics. Who raises an event declares its kind: those of stores are
// here, and those of a ledger in package quota.
type EventKind string

// The kinds of events that stores raise.
const (
	EventStoreError      EventKind = "store error"      // the store did not answer a check
	EventBreakerOpened   EventKind = "breaker opened"   // a node failed so often that it is not asked for a while
	EventBreakerClosed   EventKind = "breaker closed"   // the node has answered again; or it has left its Cluster, and Err says so
	EventOutageBegan     EventKind = "outage began"     // the first decision without the store
	EventOutageEnded     EventKind = "outage ended"     // for a second, the store has made all decisions again
	EventSettlementsLost EventKind = "settlements lost" // what requests gave back or cost was not stored, and is not tried again
)

// Event reports a change of a store's health: see [Registry.OnEvent].
type Event struct {
	Kind  EventKind
	Class Class  // the reason, for errors, opened breakers, outages and lost settlements; "" for other kinds, and for an outage that had several
	Node  string // the server's address, or the name of a channel or export; "" if the event is not about one
	Err   error  // the error that caused it, or nil

	// Count is the number of errors of this class and node, or of lost settlements, since
	// the last such event, this one included. For an outage that has ended, the number of
	// decisions without the store: see [Event.Slow]. For accounts, notices and increments of
	// usage, their number. 0 for other kinds.
	Count int64

	// Omitted is the number of changes of the same breaker, or of outages, that listeners were not told before this one:
	// where they come too fast, the last one is told every 10 seconds. Observers are told of each. 0 for other kinds.
	Omitted int64

	// Duration is how long the breaker was open, or how long the outage lasted, of the store or
	// of the ledger, or by how much the ledger's clock was set back. 0 for other kinds.
	Duration time.Duration

	// Over says that an event of another package's kind ends what an earlier one has reported. It is
	// logged as information, as closed breakers and ended outages are.
	Over bool
}

// fewTimeouts is up to how many time-outs together are a slow store, and no outage: a machine that was
// busy for a moment, a pause of the network.
const fewTimeouts = 10

// Slow reports whether an outage that has ended was less than that: ten decisions or fewer were made
// without the store, all since it had not answered in time. While it lasts, nobody can know. It returns
// false for other kinds than [EventOutageEnded].
func (e *Event) Slow() bool {
	return e.Kind == EventOutageEnded && e.Class == ClassTimeout && e.Count > 0 && e.Count <= fewTimeouts
}

// log writes the event to the default logger.
func (e *Event) log() {
	level := slog.LevelWarn
	if e.Over || e.Kind == EventBreakerClosed || e.Kind == EventOutageEnded {
		level = slog.LevelInfo
	}
	attrs := make([]slog.Attr, 0, 6)
	if e.Class != "" {
		attrs = append(attrs, slog.String("class", string(e.Class)))
	}
	if e.Node != "" {
		attrs = append(attrs, slog.String("node", e.Node))
	}
	if e.Count > 0 {
		attrs = append(attrs, slog.Int64("count", e.Count))
	}
	if e.Omitted > 0 {
		attrs = append(attrs, slog.Int64("omitted", e.Omitted))
	}
	if e.Duration > 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	slog.Default().LogAttrs(context.Background(), level, "weblimit: "+string(e.Kind), attrs...)
}
