// Package pageapi has what the page of package inspect answers, in JSON. The page writes it and the command weblimit
// reads it, so that a field that one of them forgets can't be.
package pageapi

import "time"

// Overview is what the page shows without being asked, for all who look.
type Overview struct {
	At        time.Time  `json:"at"`
	Version   string     `json:"version"`
	Instance  string     `json:"instance"` // which answers
	Instances []Instance `json:"instances"`
	Silent    []Silent   `json:"silent"`            // instances that were there some minutes ago
	Partial   string     `json:"partial,omitempty"` // why instances are missing
	Store     *Health    `json:"store"`             // nil if the page is not of an application
	Limits    []Limit    `json:"limits"`
	More      int64      `json:"more_limits"` // that Limits leaves out
	Uncounted int64      `json:"uncounted"`   // decisions of limits beyond top.Config.Limits
	Denied    []Client   `json:"denied"`      // the most denied clients of all limits, of the last hour
	WouldDeny []Client   `json:"would_deny"`  // the same of limits in shadow mode
	Near      []Client   `json:"near"`        // those nearest to a limit, and not denied
	Regions   []Region   `json:"regions,omitempty"`
}

// Session is what an overview says to one operator.
type Session struct {
	*Overview
	Actor       string `json:"actor"`
	MayAct      bool   `json:"may_act"`
	MaxBlockSec int64  `json:"max_block_seconds"`
}

// Limits are all limits, or one.
type Limits struct {
	At      time.Time `json:"at"`
	Limits  []Limit   `json:"limits"`
	Regions []Region  `json:"regions,omitempty"`
}

// Region is a region in which limits are leased from home, as the instance that answers sees it. Counts are those of this
// instance, since it began.
type Region struct {
	Region   string   `json:"region"`
	HomeAway *Outage  `json:"home_away,omitempty"` // nil while home answers
	TripMS   int64    `json:"home_trip_ms"`        // how long a question to home took lately
	Keys     int64    `json:"keys"`                // above their floor
	Limits   []Leased `json:"limits"`
	More     int64    `json:"more_limits,omitempty"` // that Limits leaves out
}

// Leased is a limit whose units a region leases.
type Leased struct {
	Limit       string `json:"limit"`
	Messages    int64  `json:"messages"`
	Failed      int64  `json:"failed"` // leases that home did not answer
	Leased      int64  `json:"leased"` // units
	Spent       int64  `json:"spent"`
	Lost        int64  `json:"lost"`         // on their way
	Returned    int64  `json:"returned"`     // since the clocks of region and home are in different windows
	Waited      int64  `json:"waited"`       // requests
	DeniedEarly int64  `json:"denied_early"` // requests, although home may have had units
}

// Limit is one limit, and what it has counted.
type Limit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Quota     int64  `json:"quota"`
	Burst     int64  `json:"burst"`
	WindowMS  int64  `json:"window_ms"`
	Window    string `json:"window"`
	Numbers   string `json:"numbers"` // in words: "300 per 1m, burst 50"
	Keys      string `json:"keys,omitempty"`
	Shadow    bool   `json:"shadow"`
	CanBlock  bool   `json:"can_block"`
	Penalized bool   `json:"penalized"` // it blocks repeat offenders, so no number is suggested for it
	Here      bool   `json:"here"`      // this process has the limit, so that it can act on it

	Versions []string `json:"versions,omitempty"` // of the policy by which instances decide

	PerSecond Rates       `json:"per_second"` // the mean of the last ten seconds
	Minute    Counts      `json:"minute"`
	Seconds   *Series     `json:"seconds,omitempty"`
	Minutes   *Series     `json:"minutes,omitempty"`
	Suggest   *Suggestion `json:"suggest,omitempty"`
}

// Rates are decisions per second.
type Rates struct {
	Allowed   float64 `json:"allowed"`
	Denied    float64 `json:"denied"`
	WouldDeny float64 `json:"would_deny"`
}

// Counts are decisions in a time.
type Counts struct {
	Requests  int64 `json:"requests"`
	Denied    int64 `json:"denied"`
	WouldDeny int64 `json:"would_deny"`
}

// Series is what was counted in each of some steps.
type Series struct {
	StepMS    int64     `json:"step_ms"`
	Start     time.Time `json:"start"`
	Allowed   []int64   `json:"allowed"`
	Denied    []int64   `json:"denied"`
	WouldDeny []int64   `json:"would_deny"`
}

// Suggestion is a number for a limit, from what clients use.
type Suggestion struct {
	Share    float64 `json:"share"`
	Quota    int64   `json:"quota"`
	Low      int64   `json:"low"`
	High     int64   `json:"high"`
	WindowMS int64   `json:"window_ms"`
	Clients  int64   `json:"clients"`
	Within   float64 `json:"within"` // the share of clients that stay within the limit's present quota
}

// Health is what a process knows of its store.
type Health struct {
	State  string    `json:"state"` // "ok", "degraded" (a breaker is open, or the ledger of a quota.Book is out) or "outage"
	Since  time.Time `json:"since"` // when this process began to listen
	Shared bool      `json:"shared"`
	Outage *Outage   `json:"outage,omitempty"`
	Ended  Ended     `json:"ended"` // outages since then, without those that count as slow
	Slow   Slow      `json:"slow"`
	Ledger *Outage   `json:"ledger_outage,omitempty"` // of the ledger of a quota.Book
	Nodes  []Node    `json:"nodes"`
	Events []Event   `json:"events"` // newest first
}

// Outage is an outage that lasts.
type Outage struct {
	Since time.Time `json:"since"`
	Class string    `json:"class,omitempty"`
	Node  string    `json:"node,omitempty"`
}

// Ended sums up outages that have ended.
type Ended struct {
	Outages   int64     `json:"outages"`
	LastAt    time.Time `json:"last_at,omitzero"` // when the last one ended
	LongestMS int64     `json:"longest_ms"`
}

// Slow sums up what core.Event.Slow says was no outage.
type Slow struct {
	Times    int64     `json:"times"`
	Timeouts int64     `json:"timeouts"`
	LastAt   time.Time `json:"last_at,omitzero"`
}

// Node is a server of the store.
type Node struct {
	Node        string    `json:"node"`
	Breaker     string    `json:"breaker"` // "open" or "closed"
	Since       time.Time `json:"since"`   // the last change
	Errors      int64     `json:"errors"`
	Class       string    `json:"class,omitempty"` // of the last error
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// Event is something that happened to the store.
type Event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Class      string    `json:"class,omitempty"`
	Node       string    `json:"node,omitempty"`
	Count      int64     `json:"count,omitempty"`
	DurationMS int64     `json:"duration_ms,omitempty"`
}

// Instance is one instance. State is as in Health, as the instance saw its store when it took its
// snapshot.
type Instance struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"` // of its snapshot
	State    string    `json:"state"`
	Since    time.Time `json:"since,omitzero"` // when the outage began, or the last one ended
	Class    string    `json:"class,omitempty"`
	LastedMS int64     `json:"lasted_ms,omitempty"` // of an outage that has ended
	Open     []Breaker `json:"open,omitempty"`
	Versions []string  `json:"versions,omitempty"` // of the policies by which it decides
}

// Breaker is a server that an instance does not ask.
type Breaker struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
	Class string    `json:"class,omitempty"`
}

// Silent is an instance that was there some minutes ago.
type Silent struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // of the last snapshot that was seen
}

// State is what one limit says of a key. State is "blocked", "denied", "near" or "allowed".
type State struct {
	Limit        string    `json:"limit"`
	Algorithm    string    `json:"algorithm"`
	Quota        int64     `json:"quota"`
	Burst        int64     `json:"burst"`
	WindowMS     int64     `json:"window_ms"`
	Numbers      string    `json:"numbers"`
	Shadow       bool      `json:"shadow"`
	CanBlock     bool      `json:"can_block"`
	Kept         bool      `json:"kept"` // what is used is kept in a book, and can't be reset
	State        string    `json:"state"`
	Why          string    `json:"why"`
	Cost         int64     `json:"cost"` // that State is about
	Used         int64     `json:"used"`
	Remaining    int64     `json:"remaining"`
	RetryAfterMS int64     `json:"retry_after_ms"`       // until Cost fits; 0 if waiting can't help
	FullAfterMS  int64     `json:"full_after_ms"`        // until nothing is used
	Standing     string    `json:"standing,omitempty"`   // to the client's share, if clients divide the limit
	Share        int64     `json:"share,omitempty"`      // units per window, at present
	Guaranteed   int64     `json:"guaranteed,omitempty"` // units that are kept for clients with a minimum
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
	Minute       *Counts   `json:"minute,omitempty"` // nil if the key is not among the heavy hitters
	Hour         *Counts   `json:"hour,omitempty"`
	LastDenial   *Denial   `json:"last_denial,omitempty"`
	Versions     []string  `json:"versions,omitempty"` // of the policy by which instances decide
}

// Denial is the last denial of a client.
type Denial struct {
	At           time.Time `json:"at"`
	Reason       string    `json:"reason"`
	Shadow       bool      `json:"shadow"`
	Cost         int64     `json:"cost"`
	Remaining    int64     `json:"remaining"`
	Quota        int64     `json:"quota"`
	Burst        int64     `json:"burst"`
	WindowMS     int64     `json:"window_ms"`
	RetryAfterMS int64     `json:"retry_after_ms"`
	Why          string    `json:"why"`
	Version      string    `json:"version,omitempty"` // of the policy that denied
}

// Done is what an action did.
type Done struct {
	Action string    `json:"action"`
	Key    string    `json:"key"`
	Limits []string  `json:"limits"`
	Kept   []string  `json:"kept,omitempty"` // limits whose use is kept in a book, so that it was not reset
	Until  time.Time `json:"until,omitzero"`
}

// Blocks are blocks in force.
type Blocks struct {
	At     time.Time `json:"at"` // when the store was read
	Blocks []Block   `json:"blocks"`
	More   bool      `json:"more"` // there are others
	Error  string    `json:"error,omitempty"`
}

// Block is one of them.
type Block struct {
	Limit string    `json:"limit"`
	Key   string    `json:"key"`
	Label string    `json:"label,omitempty"`
	Until time.Time `json:"until"`
	Level int64     `json:"level"`          // blocks in a row; 0 for those set by hand
	Idle  string    `json:"idle,omitempty"` // why it blocks nobody now
}

// Client is a client under a limit.
type Client struct {
	Limit  string    `json:"limit"`
	Key    string    `json:"key"`
	Label  string    `json:"label,omitempty"`
	Shadow bool      `json:"shadow"`
	Minute Counts    `json:"minute"`
	Hour   Counts    `json:"hour"`
	Used   float64   `json:"used"`
	UsedAt time.Time `json:"used_at,omitzero"`
	Seen   time.Time `json:"seen,omitzero"`
	Denial *Denial   `json:"denial,omitempty"`
}

// Explanation says what is known of each key that a question may mean.
type Explanation struct {
	At   time.Time `json:"at"`
	Keys []Key     `json:"keys"`
}

// Key is the state of one key. State is "blocked", "denied", "allowed" or "unknown": nothing is
// known of such a key.
type Key struct {
	Key     string   `json:"key"`
	Label   string   `json:"label,omitempty"`
	State   string   `json:"state"`
	Summary string   `json:"summary"`
	Limits  []State  `json:"limits"`
	Unused  []string `json:"unused"` // limits of which the key has used nothing
	Error   string   `json:"error,omitempty"`
}

// Act asks for an action on a client: Key is a key, or what it is made of, as for explain. Limit
// may be "" for all limits; in a block, if only one counts such keys. Seconds is for block alone.
type Act struct {
	Key     string `json:"key"`
	Limit   string `json:"limit,omitempty"`
	Seconds int64  `json:"seconds,omitempty"`
}

// Question asks about a client. Query is a whole key, such as "user:42", or what a key is made
// of: an address, a user, an API key, a label.
type Question struct {
	Query string `json:"query"`
	Cost  int64  `json:"cost"` // of the request in question; 0 for that of the last denial, or 1
}
