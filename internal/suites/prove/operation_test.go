package prove

import (
	"fmt"
	"strings"
)

// kind is what an operation does.
type kind string

const (
	take    kind = "take"
	peek    kind = "peek"
	charge  kind = "charge"
	refund  kind = "refund"
	renew   kind = "renew"
	reset   kind = "reset"
	block   kind = "block"
	unblock kind = "unblock"

	// What the test itself does to the server.
	emptied kind = "emptied"   // it lost all that it had
	clockTo kind = "clock set" // to operation.Micros
)

// check is one check of an operation: a key, which is one of a client's, under a limit.
type check struct {
	Key, Limit int
	Cost       int64 `json:",omitempty"`
	Shadow     bool  `json:",omitempty"`
	Part       int   `json:",omitempty"` // which of the clients asks that divide the limit, from 1
	Or         bool  `json:",omitempty"` // an alternative to the check before
}

// cell returns the place of the check's bucket in a state.
func (c *check) cell(limits int) int { return c.Key*limits + c.Limit }

// result is what a check was answered. Times are microseconds.
type result struct {
	Allowed, Charged, Blocked, Cached bool  `json:",omitempty"`
	Remaining                         int64 `json:",omitempty"`
	RetryAfter, Window, ResetAfter    int64 `json:",omitempty"`
	Turn, Forgiven                    int64 `json:",omitempty"`
	PassedOver                        bool  `json:",omitempty"`
	Standing                          uint8 `json:",omitempty"`
	At                                int64

	hint    bool // of the model: waits are only hints
	divided bool // of the model: what is left depends on shares
}

// operation is one call of a store, and what became of it.
type operation struct {
	ID      int
	Process int
	Thread  int
	Client  int // whose keys it is about; those of different clients have nothing to do with each other
	Kind    kind
	Checks  []check
	Before  []result `json:",omitempty"` // refund and renew: the results of the charge
	Micros  int64    `json:",omitempty"` // block: for how long; clockTo: to what
	From    int64    `json:",omitempty"` // clockTo: what it was before
	Ahead   int64    `json:",omitempty"` // how far the server's clock is ahead of the machine's
	Call    int64    // nanoseconds of the machine's monotonic clock
	Heard   int64    `json:",omitempty"` // before the call the process had received all that was sent to it before; see ear
	Since   int64    `json:",omitempty"` // see history.relate

	Return  int64
	Results []result `json:",omitempty"`
	Err     string   `json:",omitempty"`
	Undone  bool     `json:",omitempty"` // it failed, and the store says that it certainly did nothing
	Ended   bool     `json:",omitempty"`
}

// unknown reports whether the operation may have happened or not.
func (o *operation) unknown() bool { return !o.Ended || o.Err != "" && !o.Undone }

// at returns when the server decided. A refund leaves out what was not charged, with its old time.
func (o *operation) at() (t int64) {
	for i := range o.Results {
		t = max(t, o.Results[i].At)
	}
	return t
}

// retryAfter returns the longest wait of its results.
func (o *operation) retryAfter() (wait int64) {
	for i := range o.Results {
		wait = max(wait, o.Results[i].RetryAfter)
	}
	return wait
}

func (o *operation) describe(limits []limit) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s", o.Kind)
	if o.Micros > 0 {
		fmt.Fprintf(&s, " %d", o.Micros)
	}
	for i, c := range o.Checks {
		fmt.Fprintf(&s, " k%d·%s×%d", c.Key, limits[c.Limit].Name, c.Cost)
		if c.Shadow {
			s.WriteString(" shadow")
		}
		if c.Or {
			s.WriteString(" or")
		}
		if i < len(o.Before) {
			fmt.Fprintf(&s, " of %d", o.Before[i].At)
		}
	}
	switch {
	case o.Undone:
		s.WriteString(" → not done: " + o.Err)
	case o.unknown():
		s.WriteString(" → unknown: " + o.Err)
	}
	for _, r := range o.Results {
		s.WriteString(" → " + r.String())
	}
	return s.String()
}

func (r result) String() string {
	s := "denied"
	switch {
	case r.Charged:
		s = "charged"
	case r.Allowed:
		s = "allowed"
	case r.Blocked:
		s = "blocked"
	}
	if r.Cached {
		s += " (cached)"
	}
	return fmt.Sprintf("%s left=%d retry=%d window=%d reset=%d turn=%d forgiven=%d at=%d", s, r.Remaining, r.RetryAfter, r.Window, r.ResetAfter, r.Turn, r.Forgiven, r.At)
}
