package store

import (
	"context"
	"log/slog"
	"time"
)

// EventKind is what happened to a store.
type EventKind uint8

// The kinds of events.
const (
	EventStoreError    EventKind = iota + 1 // a check was not answered
	EventBreakerOpened                      // a node failed so often that it is not asked any more
	EventBreakerClosed                      // it has answered again
	EventOutageBegan                        // the first decision without the store
	EventOutageEnded                        // the store decides again, and for a second nothing else did
)

var eventKinds = [...]string{
	EventStoreError:    "store error",
	EventBreakerOpened: "breaker opened",
	EventBreakerClosed: "breaker closed",
	EventOutageBegan:   "outage began",
	EventOutageEnded:   "outage ended",
}

// String returns the kind in words, for logs and metrics.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventKinds) {
		return eventKinds[k]
	}
	return "unknown event"
}

// Event tells of a store's health. [Registry.OnEvent] is where to hear of it.
type Event struct {
	Kind  EventKind
	Class Class  // why: of errors, opened breakers and outages that begin
	Node  string // the server's address; "" if it is not about one
	Err   error  // the error that led to it, if one did

	// Count is how many errors of this class and node there were since the last
	// such event, this one included. 0 for other kinds.
	Count int64

	// Duration is how long the breaker was open or the outage lasted. 0 for
	// other kinds.
	Duration time.Duration
}

// log writes the event to the default logger.
func (e *Event) log() {
	level := slog.LevelWarn
	if e.Kind == EventBreakerClosed || e.Kind == EventOutageEnded {
		level = slog.LevelInfo
	}
	attrs := make([]slog.Attr, 0, 5)
	if e.Class != "" {
		attrs = append(attrs, slog.String("class", string(e.Class)))
	}
	if e.Node != "" {
		attrs = append(attrs, slog.String("node", e.Node))
	}
	if e.Count > 0 {
		attrs = append(attrs, slog.Int64("count", e.Count))
	}
	if e.Duration > 0 {
		attrs = append(attrs, slog.Duration("duration", e.Duration))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	slog.Default().LogAttrs(context.Background(), level, "weblimit: "+e.Kind.String(), attrs...)
}
