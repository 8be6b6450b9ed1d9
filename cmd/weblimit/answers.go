package main

import "time"

// The answers of the API, as far as they are shown: see package inspect.

type overview struct {
	At        time.Time      `json:"at"`
	Instances []instanceJSON `json:"instances"`
	Silent    []silentJSON   `json:"silent"`
	Partial   string         `json:"partial"`
	Store     *storeJSON     `json:"store"`
	Limits    []limitJSON    `json:"limits"`
	More      int64          `json:"more_limits"`
	Uncounted int64          `json:"uncounted"`
	Denied    []clientJSON   `json:"denied"`
	WouldDeny []clientJSON   `json:"would_deny"`
	Near      []clientJSON   `json:"near"`
}

type instanceJSON struct {
	Name  string    `json:"name"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Class string    `json:"class"`

	Versions []string `json:"versions"`

	Open []struct {
		Node  string    `json:"node"`
		Since time.Time `json:"since"`
		Class string    `json:"class"`
	} `json:"open"`
}

type silentJSON struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

type storeJSON struct {
	State  string `json:"state"`
	Ledger *struct {
		Since time.Time `json:"since"`
	} `json:"ledger_outage"`
	Outage *struct {
		Since time.Time `json:"since"`
		Class string    `json:"class"`
	} `json:"outage"`
}

type limitsAnswer struct {
	At     time.Time   `json:"at"`
	Limits []limitJSON `json:"limits"`
}

type limitJSON struct {
	Name      string      `json:"name"`
	Algorithm string      `json:"algorithm"`
	Quota     int64       `json:"quota"`
	Numbers   string      `json:"numbers"`
	Window    string      `json:"window"`
	Shadow    bool        `json:"shadow"`
	Penalized bool        `json:"penalized"`
	PerSecond rates       `json:"per_second"`
	Minute    counts      `json:"minute"`
	Suggest   *suggestion `json:"suggest"`
}

type rates struct {
	Allowed   float64 `json:"allowed"`
	Denied    float64 `json:"denied"`
	WouldDeny float64 `json:"would_deny"`
}

type counts struct {
	Requests  int64 `json:"requests"`
	Denied    int64 `json:"denied"`
	WouldDeny int64 `json:"would_deny"`
}

type suggestion struct {
	Share    float64 `json:"share"`
	Quota    int64   `json:"quota"`
	Low      int64   `json:"low"`
	High     int64   `json:"high"`
	WindowMS int64   `json:"window_ms"`
	Clients  int64   `json:"clients"`
	Within   float64 `json:"within"`
}

type clientJSON struct {
	Limit  string    `json:"limit"`
	Key    string    `json:"key"`
	Label  string    `json:"label"`
	Shadow bool      `json:"shadow"`
	Minute counts    `json:"minute"`
	Hour   counts    `json:"hour"`
	Used   float64   `json:"used"`
	UsedAt time.Time `json:"used_at"`
	Denial *denial   `json:"denial"`
}

type denial struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Why    string    `json:"why"`

	Version string `json:"version"`
}

type explanation struct {
	At   time.Time `json:"at"`
	Keys []keyJSON `json:"keys"`
}

type keyJSON struct {
	Key     string      `json:"key"`
	Label   string      `json:"label"`
	State   string      `json:"state"`
	Summary string      `json:"summary"`
	Limits  []stateJSON `json:"limits"`
	Unused  []string    `json:"unused"`
	Error   string      `json:"error"`
}

type stateJSON struct {
	Limit        string    `json:"limit"`
	Algorithm    string    `json:"algorithm"`
	Burst        int64     `json:"burst"`
	Numbers      string    `json:"numbers"`
	Shadow       bool      `json:"shadow"`
	State        string    `json:"state"`
	Kept         bool      `json:"kept"`
	Why          string    `json:"why"`
	Cost         int64     `json:"cost"`
	Used         int64     `json:"used"`
	Remaining    int64     `json:"remaining"`
	RetryAfterMS int64     `json:"retry_after_ms"`
	FullAfterMS  int64     `json:"full_after_ms"`
	BlockedUntil time.Time `json:"blocked_until"`
	Minute       *counts   `json:"minute"`
	Hour         *counts   `json:"hour"`
	LastDenial   *denial   `json:"last_denial"`
	Versions     []string  `json:"versions"`
}

type blocksAnswer struct {
	At     time.Time `json:"at"`
	Blocks []struct {
		Limit string    `json:"limit"`
		Key   string    `json:"key"`
		Label string    `json:"label"`
		Until time.Time `json:"until"`
		Level int64     `json:"level"`
		Idle  string    `json:"idle"`
	} `json:"blocks"`
	More  bool   `json:"more"`
	Error string `json:"error"`
}

type actionAnswer struct {
	Action string    `json:"action"`
	Key    string    `json:"key"`
	Limits []string  `json:"limits"`
	Kept   []string  `json:"kept"`
	Until  time.Time `json:"until"`
}
