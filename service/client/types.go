package client

import "github.com/weblimit/weblimit/core"

// Check is what the service is asked: a policy, and a request or a key.
type Check struct {
	Policy  string           `json:"policy"`
	Request *Request         `json:"request,omitempty"`
	Key     string           `json:"key,omitempty"`   // instead of Request; "user:42" is the user 42
	Cost    *int64           `json:"cost,omitempty"`  // instead of the costs of all limits
	Costs   map[string]int64 `json:"costs,omitempty"` // by limit, instead of the costs of these

	// AtMost grants as many of so many units as fit, as core.Limiter.AllowAtMost does: Answer.Granted. It stands instead
	// of Cost and Costs, in a check that is alone in its call and has no operation.
	AtMost *int64 `json:"at_most,omitempty"`
}

// Request describes a request. docs/service/http.md says what each field means.
type Request struct {
	Method   string              `json:"method,omitempty"`
	Path     string              `json:"path,omitempty"`
	Route    string              `json:"route,omitempty"`
	ClientIP string              `json:"client_ip,omitempty"` // the peer as the caller sees it
	Headers  map[string][]string `json:"headers,omitempty"`
	Query    map[string][]string `json:"query,omitempty"`
	Cookies  map[string][]string `json:"cookies,omitempty"`
	Params   map[string]string   `json:"params,omitempty"`
	Values   map[string]any      `json:"values,omitempty"` // strings, whole numbers and truth values
}

// Answer is the answer to a check, or to several together.
type Answer struct {
	Allowed      bool              `json:"allowed"`
	Reason       string            `json:"reason"`            // as core.Reason writes it
	Status       int               `json:"status"`            // to answer the client with; 200 if Allowed
	Granted      int64             `json:"granted,omitempty"` // units of Check.AtMost, which are charged
	RetryAfter   int64             `json:"retry_after,omitempty"`
	RetryAfterMS int64             `json:"retry_after_ms,omitempty"`
	DelayMS      int64             `json:"delay_ms,omitempty"` // to wait before going on
	Limit        string            `json:"limit,omitempty"`    // that matters most to the client
	Missing      string            `json:"missing,omitempty"`
	Ambiguous    string            `json:"ambiguous,omitempty"`
	Outage       bool              `json:"outage,omitempty"`    // the service decided without its store
	Unsettled    bool              `json:"unsettled,omitempty"` // a limit was charged that Settle would correct: use Reserve
	Version      string            `json:"version,omitempty"`
	Limits       []LimitResult     `json:"limits,omitempty"`
	Warnings     []core.Warning    `json:"warnings,omitempty"`
	Headers      map[string]string `json:"headers"`           // to pass on to the client
	Problem      map[string]any    `json:"problem,omitempty"` // a body for a denial
	Checks       []Answer          `json:"checks,omitempty"`  // of several together

	Reservation  string `json:"reservation,omitempty"` // of Reserve, for Settle and Refund
	SettleBefore string `json:"settle_before,omitempty"`
	RenewMS      int64  `json:"renew_ms,omitempty"` // after which time Renew is due, if the work still goes on
}

// LimitResult is what one limit says.
type LimitResult struct {
	Name              string  `json:"name"`
	Allowed           bool    `json:"allowed"`
	Charged           bool    `json:"charged"`
	Shadow            bool    `json:"shadow,omitempty"`
	Or                bool    `json:"or,omitempty"`          // an alternative to the limit before: core.First
	PassedOver        bool    `json:"passed_over,omitempty"` // another one of them was charged, or would be
	Hidden            bool    `json:"hidden,omitempty"`      // clients are not to be told of the limit
	Class             string  `json:"class,omitempty"`       // of the request, if the limit has classes
	Reason            string  `json:"reason,omitempty"`
	Algorithm         string  `json:"algorithm"`
	Quota             int64   `json:"quota"`
	Burst             int64   `json:"burst"`
	Whole             int64   `json:"whole,omitempty"` // of a token bucket, if requests of this class may use less of it: Burst
	WindowMS          int64   `json:"window_ms,omitempty"`
	WaitMS            int64   `json:"wait_ms,omitempty"`
	Period            string  `json:"period,omitempty"` // "day" or "month" of the calendar
	MonthDay          int     `json:"month_day,omitempty"`
	Zone              string  `json:"zone,omitempty"`
	AtUS              int64   `json:"at_us,omitempty"`
	Remaining         int64   `json:"remaining"`
	Standing          string  `json:"standing,omitempty"` // how the client stands to its share, if clients divide the limit: core.Limit.Fair
	Share             int64   `json:"share,omitempty"`    // units per window that are the client's share at present
	EffectiveWindowMS int64   `json:"effective_window_ms"`
	ResetMS           int64   `json:"reset_ms"`
	RetryAfterMS      int64   `json:"retry_after_ms,omitempty"`
	Estimate          bool    `json:"estimate,omitempty"` // what was charged is an estimate
	Repeated          bool    `json:"repeated,omitempty"`
	Blocked           bool    `json:"blocked,omitempty"`
	Soft              int64   `json:"soft,omitempty"`
	OverSoft          bool    `json:"over_soft,omitempty"`
	Warning           float64 `json:"warning,omitempty"`
}

// Settlement corrects what a reservation has charged.
type Settlement struct {
	Reservation string           `json:"reservation"`
	Cost        *int64           `json:"cost,omitempty"`  // of all estimates
	Costs       map[string]int64 `json:"costs,omitempty"` // by limit
	Outcome     *Outcome         `json:"outcome,omitempty"`
}

// Outcome says how the request ended, for limits that refund by it.
type Outcome struct {
	Status   int  `json:"status,omitempty"`
	Canceled bool `json:"canceled,omitempty"`
	TimedOut bool `json:"timed_out,omitempty"`
	Panicked bool `json:"panicked,omitempty"`

	// How long the handler waited for its client, and how long it took in all: a failure of the server counts as the
	// client's if that kept it waiting.
	WaitedMS   int64 `json:"waited_ms,omitempty"`
	DurationMS int64 `json:"duration_ms,omitempty"`
}

// Problem is an error of the service (RFC 9457): the call was wrong, or can't be served.
type Problem struct {
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Pointer string `json:"pointer,omitempty"`
}

// Error returns the detail, and where the call is wrong.
func (p *Problem) Error() string {
	if p.Pointer != "" {
		return "weblimit: service: " + p.Pointer + ": " + p.Detail
	}
	return "weblimit: service: " + p.Detail
}
