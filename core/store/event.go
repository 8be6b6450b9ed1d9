package store

import (
	"context"
	"log/slog"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	EventStoreError      EventKind = iota + 1 // the store did not answer a check
	EventBreakerOpened                        // a node failed so often that it is not asked for a while
	EventBreakerClosed                        // the node has answered again; or it has left its Cluster, and Err says so
	EventOutageBegan                          // the first decision without the store
	EventOutageEnded                          // for a second, the store has made all decisions again
	EventSettlementsLost                      // what requests gave back or cost was not stored, and is not tried again

	EventLedgerOut       // the ledger of a quota.Book does not answer; what was used waits
	EventLedgerBack      // it has answered again
	EventAccountsWaiting // accounts of a quota.Book that are not remembered in this process, which is full; the store knows them
	EventAccountsForked  // accounts of which the store had lost changes that the ledger has
	EventFailoversUnseen // the store of a quota.Book can't tell when another server takes over, and what is lost then; said once
	EventNoticesFailing  // attempts to deliver notices of a quota.Book failed; they are tried again
	EventNoticesDead     // a notice of a quota.Book is not tried any more
	EventExportFailing   // a receiver did not accept usage of a quota.Book, which is sent again

	EventLimitUnknown       // the configuration of a quota.Book names a limit that no process has; said once in each process
	EventLedgerClockSetBack // the clock of a ledger was set back, or a server took over whose clock lags; once in each process

	EventInvalidationOff // a store does not hear what other processes give back: the denials that it repeats end by their age
	EventInvalidationOn  // it hears that again
)

var eventKinds = [...]string{
	EventStoreError:    "store error",
	EventBreakerOpened: "breaker opened",
	EventBreakerClosed: "breaker closed",
	EventOutageBegan:   "outage began",
	EventOutageEnded:   "outage ended",

	EventSettlementsLost: "settlements lost",

	EventLedgerOut:       "ledger out",
	EventLedgerBack:      "ledger back",
	EventAccountsWaiting: "accounts waiting",
	EventAccountsForked:  "accounts forked",
	EventFailoversUnseen: "failovers unseen",
	EventNoticesFailing:  "notices failing",
	EventNoticesDead:     "notices dead",
	EventExportFailing:   "export failing",

	EventLimitUnknown:       "limit unknown",
	EventLedgerClockSetBack: "ledger clock set back",

	EventInvalidationOff: "invalidation off",
	EventInvalidationOn:  "invalidation on",
}

// String returns the kind's name, such as "store error", for logs and metrics.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventKinds) {
		return eventKinds[k]
	}
	return "unknown event"
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

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
	if e.Kind == EventBreakerClosed || e.Kind == EventOutageEnded || e.Kind == EventLedgerBack || e.Kind == EventInvalidationOn {
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
	slog.Default().LogAttrs(context.Background(), level, "weblimit: "+e.Kind.String(), attrs...)
}
