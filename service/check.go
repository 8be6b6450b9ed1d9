package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/internal/described"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// check is one question: a policy, who asks, and for how much.
type check struct {
	policy  string
	request *described.Request // or nil
	key     string
	cost    int64 // with atMost, how many units are wanted
	hasCost bool
	atMost  bool
	costs   map[string]int64
}

// call is a call of the API: one check, or several that are decided together.
type call struct {
	checks    []check
	together  bool
	operation string
	timeout   time.Duration
	hold      bool // what the caller can settle later, if there is anything
	warnings  bool // the answer has those of core.Config.OnWarning
}

// maxTimeout bounds how long a caller may let the store take, and so how long a call keeps its place among
// those in flight. The timeout of the policy holds, too.
const maxTimeout = 10 * time.Second

var (
	checkFields = []string{"policy", "request", "key", "cost", "costs", "at_most"}
	callFields  = append(checkFields[:len(checkFields):len(checkFields)], "together", "operation", "timeout_ms", "hold", "warnings")
)

// readCall reads a call. most bounds its checks.
func readCall(r *strict.Reader, most int) (*call, error) {
	to := &call{checks: make([]check, 1)}
	var single bool
	err := r.Object(func(name string) (err error) {
		switch name {
		case "together":
			if single {
				return r.Errorf("beside the fields of a single check; put that check into the list")
			}
			to.together, to.checks = true, to.checks[:0]
			return r.Array(most, func(int) error {
				var one check
				err := r.Object(func(name string) error { return one.read(r, name, checkFields) })
				if err == nil {
					err = one.valid(r)
				}
				if err == nil && one.atMost {
					err = r.Errorf("at_most in a list whose checks are decided all or nothing")
				}
				to.checks = append(to.checks, one)
				return err
			})
		case "operation":
			if to.operation, err = readPlain(r, maxOperation); err == nil && to.operation == "" {
				err = r.Errorf("empty")
			}
			return err
		case "hold":
			to.hold, err = r.Bool()
			return err
		case "warnings":
			to.warnings, err = r.Bool()
			return err
		case "timeout_ms":
			ms, err := r.Int(1, maxTimeout.Milliseconds())
			to.timeout = time.Duration(ms) * time.Millisecond
			return err
		}
		if to.together {
			return r.Errorf("beside together, whose checks have fields of their own")
		}
		single = true
		return to.checks[0].read(r, name, callFields)
	})
	switch {
	case err != nil:
		return nil, err
	case !to.together:
		err = to.checks[0].valid(r)
	case len(to.checks) == 0:
		err = r.Errorf("together has no checks")
	}
	return to, err
}

// read reads one field of a check.
func (c *check) read(r *strict.Reader, name string, known []string) (err error) {
	switch name {
	case "policy":
		c.policy, err = readPlain(r, maxPolicy)
	case "request":
		c.request, err = readRequest(r)
	case "key":
		if c.key, err = r.Text(described.MaxKey); err == nil && c.key == "" {
			err = r.Errorf("empty")
		}
	case "cost", "at_most":
		if c.hasCost || c.atMost {
			return r.Errorf("beside the other of cost and at_most")
		}
		c.cost, err = r.Int(0, described.MaxCost)
		c.hasCost, c.atMost = name == "cost", name == "at_most"
	case "costs":
		c.costs, err = readCosts(r)
	default:
		err = r.Unknown(known...)
	}
	return err
}

// readCosts reads costs by the names of limits.
func readCosts(r *strict.Reader) (map[string]int64, error) {
	costs := make(map[string]int64)
	err := r.Object(func(limit string) error {
		cost, err := r.Int(0, described.MaxCost)
		costs[limit] = cost
		return err
	})
	return costs, err
}

// valid checks a check whose fields are read.
func (c *check) valid(r *strict.Reader) error {
	switch {
	case c.policy == "":
		return r.Errorf("policy is missing")
	case c.request == nil && c.key == "":
		return r.Errorf("request or key is missing")
	case c.request != nil && c.key != "":
		return r.Errorf("request and key: with a key, limits read nothing from a request")
	case c.atMost && c.costs != nil:
		return r.Errorf("want at_most or costs: what is granted is charged to all limits")
	}
	return nil
}

// pointer returns where check i of a call is, whose own place is at.
func (c *call) pointer(at string, i int) string {
	if c.together {
		return at + "/together/" + strconv.Itoa(i)
	}
	return at
}

// asks makes questions of the checks of a call. pointer is where the call is.
func (s *Service) asks(ctx context.Context, c *call, pointer string) ([]compose.Ask, error) {
	dst := make([]compose.Ask, 0, len(c.checks))
	for i := range c.checks {
		of := &c.checks[i]
		limiter, err := s.limiter(of.policy, c.pointer(pointer, i)+"/policy")
		if err != nil {
			return nil, err
		}
		q := compose.Ask{Limiter: limiter, Key: of.key, Cost: of.cost, HasCost: of.hasCost, AtMost: of.atMost, Costs: of.costs}
		if of.request != nil {
			of.request.Ctx = ctx
			q.Request, q.Seen = of.request, of.request
			if of.request.RouteText != "" && !s.routes.shows(of.request.RouteText) {
				q.Seen = unrouted{of.request}
			}
		}
		if c.operation != "" {
			q.Operation = of.operation(c.operation)
		}
		dst = append(dst, q)
	}
	return dst, nil
}

// operation returns the key of an operation. The costs are part of it: a check that costs more is
// no repeat, or a caller could have a large cost for the charge of a small one. The ID is plain text, so
// that a zero ends it; costs of several limits are hashed in the order of their names, since a map has none.
func (c *check) operation(id string) []byte {
	key := append(make([]byte, 0, len(id)+40), id...)
	if c.hasCost {
		key = strconv.AppendInt(append(key, 0), c.cost, 10)
	}
	if len(c.costs) > 0 {
		hash := sha256.New()
		for _, limit := range slices.Sorted(maps.Keys(c.costs)) {
			_, _ = hash.Write(binary.AppendVarint(append([]byte(limit), 0), c.costs[limit]))
		}
		key = hash.Sum(append(key, 0, 0))[:len(key)+2+16]
	}
	return key
}

// unrouted is a request whose route observers are not shown: see Config.MaxRoutes. Limits still read it.
type unrouted struct{ keyfuncs.Request }

func (unrouted) Route() (string, bool) { return "", false }
