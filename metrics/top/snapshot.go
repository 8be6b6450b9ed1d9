package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Snapshot is what one process has counted, or after [Merge] what several have. It is a copy:
// nothing changes it later.
type Snapshot struct {
	// Instances are the processes that it comes from, in the order of their names.
	Instances []Instance

	// Limits are in the order of their names. A limit is here once it has decided something.
	Limits []Limit

	// Uncounted is how many decisions of limits were not counted because there are more limits
	// than Config.Limits, since the start of each process.
	Uncounted int64
}

// Instance is a process, when it took its snapshot, and how it then saw its stores.
type Instance struct {
	Name   string
	At     time.Time
	Health Health

	// Versions are those of the configurations by which it decides, such as those of policy files:
	// core.Config.Version, at the last decision of each limit. They are in order, at most 8, and
	// none if configurations have no version.
	Versions []string
}

// Limit is what has been counted of one limit.
type Limit struct {
	Name string

	// The limit's numbers as the store had them at the last decision, and zero if there was
	// none but in outages. With Tiers or Scale they are those of one request.
	Algorithm store.Algorithm
	Quota     int64
	Burst     int64
	Window    time.Duration
	Shadow    bool // judged, never enforced

	// Versions are those of the configurations that decided last, on each instance: several while
	// a new version reaches one after the other. They are in order, at most 8, and none if
	// configurations have no version.
	Versions []string

	// Keys says what the limit's keys are made of, such as "ip" or "first(user,ip)": the kind of
	// its key function. It is "" if that is not known. Where instances have different ones, as while
	// a new version of a policy file reaches one after the other, it has all of them.
	Keys string

	// KeysBefore says what the keys were made of before a policy file changed them, in the lifetime of
	// the instances. Clients with such keys can still be on the lists for up to two hours.
	KeysBefore []string

	// Numbers are all numbers of the limit, of which store.NewRule makes its rule: for commands
	// that read or change what the store keeps without having the limit. They are zero if
	// they are not known, as for a calendar in a time zone that this machine does not have, and
	// for a limit that was removed.
	Numbers store.Numbers

	// Clients are those that are on at least one of the lists, in no order: the nearest to
	// the limit, the most often denied and the busiest. See [Limit.Nearest],
	// [Limit.MostDenied] and [Limit.Busiest].
	Clients []Client

	// Rates are all decisions of the limit, also those without a key.
	Rates Rates

	// Use is how much single clients use, from which [Use.Suggest] reads a quota.
	Use Use
}

// Client is what has been counted of one client of a limit.
type Client struct {
	// Key is the client's key as keyfuncs.Encode writes it: "user:42". API keys and other
	// secrets in it are hashed. It may identify a person, and a client may have chosen it:
	// escape it where it is shown.
	Key string

	Minute Counts // of the last 60 seconds
	Hour   Counts // of the last 60 minutes

	// Used is the highest share of the limit that the client has used in the last one to two
	// hours: 0.95 is 5 % below the limit. UsedAt is when, to 0.1 s.
	Used   float64
	UsedAt time.Time

	Seen   time.Time // the last decision, to 0.1 s
	Denial Denial    // the last one; its Reason is core.ReasonUndecided if there is none
}

// Counts are decisions of one limit.
type Counts struct {
	Requests  int64 // all of them
	Denied    int64
	WouldDeny int64 // those that a limit in shadow mode would have denied
}

// Denial is the last time that a limit denied a client, or would have in shadow mode.
type Denial struct {
	At     time.Time // to 0.1 s
	Reason core.Reason
	Shadow bool // would have denied

	Cost       int64         // units that were asked for
	Remaining  int64         // units that were left
	Quota      int64         // of the limit, for this client
	Burst      int64         // the same
	Window     time.Duration // the same
	RetryAfter time.Duration // 0 if waiting can't help

	// Standing is how the client stood to its share, if clients divide the limit, and Share how many units per window that was.
	Standing store.Standing
	Share    int64

	// Version is that of the configuration that denied, such as a policy file; "" if it has none, or
	// if many others have decided since.
	Version string
}

// Rates are decisions of a limit over time, in steps that all processes share, by the clocks of
// the processes. The step that has not ended is left out.
type Rates struct {
	Seconds Series // the last 120 seconds
	Minutes Series // the last 120 minutes
}

// Series are counts of equal steps of time, oldest first. The three slices have equal
// lengths. Steps before the process began are left out.
type Series struct {
	Step  time.Duration
	Start time.Time // of the first step

	Allowed   []int64
	Denied    []int64
	WouldDeny []int64
}

// Nearest returns the n clients that came nearest to the limit in the last hour, the nearest
// first. Of those that came equally near, the one that is denied more comes first.
func (l *Limit) Nearest(n int) []Client { return l.first(n, nearer) }

// MostDenied returns the n clients that the limit denied most, or would have denied in
// shadow mode, in the last minute and then in the last hour. Clients without denials are
// left out.
func (l *Limit) MostDenied(n int) []Client {
	list := l.first(n, moreDenied)
	end := slices.IndexFunc(list, func(c Client) bool { return c.Minute.denials()+c.Hour.denials() == 0 })
	if end >= 0 {
		list = slices.Clip(list[:end])
	}
	return list
}

// Busiest returns the n clients with the most requests in the last minute, and then in the
// last hour.
func (l *Limit) Busiest(n int) []Client { return l.first(n, busier) }

// Client returns what is known of a key.
func (l *Limit) Client(key string) (c Client, ok bool) {
	if i := slices.IndexFunc(l.Clients, func(c Client) bool { return c.Key == key }); i >= 0 {
		return l.Clients[i], true
	}
	return Client{}, false
}

// Limit returns what is known of the limit with that name, or nil.
func (s *Snapshot) Limit(name string) *Limit {
	if i := slices.IndexFunc(s.Limits, func(l Limit) bool { return l.Name == name }); i >= 0 {
		return &s.Limits[i]
	}
	return nil
}

// first returns the first n clients by an order.
func (l *Limit) first(n int, order func(a, b *Client) int) []Client {
	all := l.sorted(order)
	list := make([]Client, 0, max(0, min(n, len(all))))
	for _, c := range all[:cap(list)] {
		list = append(list, *c)
	}
	return list
}

// sorted returns all clients in an order.
func (l *Limit) sorted(order func(a, b *Client) int) []*Client {
	all := make([]*Client, len(l.Clients))
	for i := range l.Clients {
		all[i] = &l.Clients[i]
	}
	slices.SortFunc(all, order)
	return all
}

// denials are those that count for lists: enforced or not.
func (c Counts) denials() int64 { return c.Denied + c.WouldDeny }

func nearer(a, b *Client) int {
	return cmp.Or(cmp.Compare(b.Used, a.Used), moreDenied(a, b))
}

func moreDenied(a, b *Client) int {
	return cmp.Or(
		cmp.Compare(b.Minute.denials(), a.Minute.denials()),
		cmp.Compare(b.Hour.denials(), a.Hour.denials()),
		busier(a, b),
	)
}

func busier(a, b *Client) int {
	return cmp.Or(
		cmp.Compare(b.Minute.Requests, a.Minute.Requests),
		cmp.Compare(b.Hour.Requests, a.Hour.Requests),
		cmp.Compare(a.Key, b.Key),
	)
}
