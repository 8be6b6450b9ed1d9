package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
)

// wantGranted asks for a batch of tokens for ann, of whom 100 requests and 1000 tokens are allowed.
func wantGranted(t *testing.T, s *Service, body string, want int64) answer {
	t.Helper()
	a := ask(t, s, "/v1/check", body)
	must.Equal(t, body+": granted", a.Granted, want)
	must.Equal(t, body+": allowed", a.Allowed, want > 0)
	return a
}

// atOneTime has a service count in memory at one time, so that nothing is refilled.
func atOneTime(c *Config) {
	memory := core.NewMemory()
	now := time.Now().UnixMicro()
	testclock.Set(memory, func() int64 { return now })
	c.Store = memory
}

func TestABatchIsGrantedInPart(t *testing.T) {
	t.Parallel()
	s := newService(t, atOneTime)
	const ann = `{"policy":"tokens","key":"user:ann","at_most":%d}`
	all := wantGranted(t, s, fmt.Sprintf(ann, 70), 70)
	must.Equal(t, "time until more, where all are granted", all.RetryAfterMS, 0)
	part := wantGranted(t, s, fmt.Sprintf(ann, int64(1)<<53), 30)
	if part.RetryAfterMS != 36_000 || part.Status != 200 {
		t.Errorf("a part: %+v", part)
	}
	// The same again is another batch: it is charged what it is granted.
	none := wantGranted(t, s, fmt.Sprintf(ann, int64(1)<<53), 0)
	if none.Reason != "limit exceeded" || none.Status != 429 || none.RetryAfterMS == 0 || none.Problem == nil {
		t.Errorf("none: %+v", none)
	}
	must.Equal(t, "left of tokens", remaining(t, s, "user:ann"), 900)
	a := ask(t, s, "/v1/check", `{"policy":"tokens","key":"user:bea","at_most":0}`)
	if left := remaining(t, s, "user:bea"); !a.Allowed || a.Granted != 0 || left != 1000 {
		t.Errorf("0 units: %+v, and %d are left", a, left)
	}
	if _, body := wantStatus(t, s, 200, "/v1/check", `{"policy":"tokens","key":"user:bea"}`); strings.Contains(body, "granted") {
		t.Errorf("callers that do not know batches see nothing of them: %s", body)
	}
}

func TestBatchesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	s := newService(t, atOneTime)
	const of = `{"policy":"tokens","key":"user:ann",`
	for _, c := range []struct {
		status        int
		path, body    string
		pointer, says string
	}{
		{400, "/v1/check", of + `"at_most":-1}`, "/at_most", "from 0 to"},
		{400, "/v1/check", of + `"at_most":9007199254740993}`, "/at_most", "from 0 to"},
		{400, "/v1/check", of + `"at_most":1e3}`, "/at_most", "whole number"},
		{400, "/v1/check", of + `"at_most":"7"}`, "/at_most", "whole number"},
		{400, "/v1/check", of + `"at_most":null}`, "/at_most", "Null"},
		{400, "/v1/check", of + `"at_most":7,"at_most":9}`, "/at_most", "twice"},
		{400, "/v1/check", of + `"at_most":7,"cost":7}`, "/cost", "the other of cost and at_most"},
		{400, "/v1/check", of + `"cost":7,"at_most":7}`, "/at_most", "the other of cost and at_most"},
		{400, "/v1/check", of + `"at_most":7,"costs":{"tokens":1}}`, "", "at_most or costs"},
		{400, "/v1/check", of + `"costs":{},"at_most":7}`, "", "at_most or costs"},
		{400, "/v1/check", `{"together":[` + of + `"at_most":7}]}`, "/together/0", "all or nothing"},
		{400, "/v1/check", `{"together":[` + of + `"cost":7}],"at_most":7}`, "/at_most", "Beside together"},
		{400, "/v1/checks", `{"checks":[` + of + `"cost":7},` + of + `"at_most":-1}]}`, "/checks/1/at_most", "from 0 to"},
		{422, "/v1/check", of + `"at_most":7,"operation":"a"}`, "/operation", "can't be repeated"},
		{422, "/v1/reserve", of + `"at_most":7,"operation":"a"}`, "/operation", "can't be repeated"},
		{422, "/v1/peek", of + `"at_most":7}`, "/at_most", "without a charge"},
		{422, "/v1/charge", of + `"at_most":7}`, "/at_most", "all is charged by a charge"},
		{422, "/v1/charge", of + `"at_most":7,"operation":"a"}`, "/at_most", "all is charged by a charge"},
		{400, "/v1/settle", `{"reservation":"x","at_most":7}`, "/at_most", "Unknown field"},
	} {
		_, got := wantStatus(t, s, c.status, c.path, c.body)
		if !strings.Contains(got, fmt.Sprintf(`"pointer":%q`, c.pointer)) && c.pointer != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s %s: %s", c.path, c.body, got)
		}
	}
	_, got := wantStatus(t, s, 200, "/v1/checks", `{"checks":[`+of+`"at_most":7,"operation":"a"},`+of+`"at_most":7}]}`)
	if !strings.Contains(got, `"pointer":"/checks/0/operation"`) || !strings.Contains(got, `"granted":7`) {
		t.Errorf("one of two: %s", got)
	}
	drain(t, s)
	must.Equal(t, "left, of which the one that made sense was granted", remaining(t, s, "user:ann"), 993)
}

func TestABatchIsSettledByItsReservation(t *testing.T) {
	t.Parallel()
	s := newService(t, atOneTime)
	const ann = `{"policy":"tokens","key":"user:ann","at_most":400}`
	reserved := ask(t, s, "/v1/reserve", ann)
	must.Equal(t, "granted", reserved.Granted, 100)
	ask(t, s, "/v1/settle", `{"reservation":"`+reserved.Reservation+`","cost":40}`) // of 100 jobs, 40 had something to do
	drain(t, s)
	again := ask(t, s, "/v1/reserve", ann)
	must.Equal(t, "granted afterwards", again.Granted, 60)
	ask(t, s, "/v1/refund", `{"reservation":"`+again.Reservation+`"}`)
	wantStatus(t, s, 409, "/v1/refund", `{"reservation":"`+again.Reservation+`"}`)
	drain(t, s)
	must.Equal(t, "left of tokens", remaining(t, s, "user:ann"), 960)
	if a := ask(t, s, "/v1/check", `{"policy":"tokens","key":"user:ann","at_most":7,"hold":true}`); a.Reservation != "" || a.Granted != 7 {
		t.Errorf("nothing of it can change: %+v", a)
	}
	slots := ask(t, s, "/v1/check", `{"policy":"running","key":"user:ann","at_most":9,"hold":true}`)
	must.Equal(t, "slots", slots.Granted, 2)
	renewed := ask(t, s, "/v1/renew", `{"reservation":"`+slots.Reservation+`"}`)
	wantGranted(t, s, `{"policy":"running","key":"user:ann","at_most":9}`, 0)
	ask(t, s, "/v1/settle", `{"reservation":"`+renewed.Reservation+`"}`)
	drain(t, s)
	wantGranted(t, s, `{"policy":"running","key":"user:ann","at_most":9}`, 2)
}

// asked returns the answers to several calls.
func asked(t *testing.T, s *Service, body string) []answer {
	var got struct {
		Answers []answer `json:"answers"`
	}
	_, text := wantStatus(t, s, 200, "/v1/checks", body)
	must.OK(t, json.Unmarshal([]byte(text), &got))
	return got.Answers
}

// A caller that hangs up between grant and answer is charged once, and can't have it again for nothing.
func TestACallerOfABatchHangsUp(t *testing.T) {
	t.Parallel()
	s := newService(t, atOneTime)
	for i, want := range []int64{960, 920, 900, 900} {
		ctx, hangUp := context.WithCancel(t.Context())
		hangUp()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/check", strings.NewReader(`{"policy":"tokens","key":"user:ann","at_most":40}`))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(httptest.NewRecorder(), r)
		must.Equal(t, fmt.Sprint("left after ", i+1), remaining(t, s, "user:ann"), want)
	}
}

// Many batches in one body compete for the same units: what is granted is what is charged.
func TestManyBatchesInOneCall(t *testing.T) {
	t.Parallel()
	s := newService(t, atOneTime)
	many := `{"checks":[` + strings.Repeat(`,{"policy":"tokens","key":"user:ann","at_most":9007199254740992}`, 64)[1:] + `]}`
	var sum int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, a := range asked(t, s, many) {
				mu.Lock()
				sum += a.Granted
				mu.Unlock()
			}
		})
	}
	group.Wait()
	must.Equal(t, "granted in all", sum, 100)
	must.Equal(t, "left of tokens", remaining(t, s, "user:ann"), 900)
	wantStatus(t, s, 400, "/v1/checks", `{"checks":[`+strings.Repeat(`,{"policy":"tokens","key":"user:ann","at_most":1}`, 65)[1:]+`]}`)
}

// leisurely is a store that takes its time for each call, and counts them.
type leisurely struct {
	core.Store
	takes time.Duration
	calls int
}

func (s *leisurely) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	s.calls++
	if ends, _ := ctx.Deadline(); time.Until(ends) < s.takes {
		time.Sleep(time.Until(ends))
		return &store.Error{Class: store.ClassTimeout, Err: context.DeadlineExceeded}
	}
	time.Sleep(s.takes)
	return s.Store.Take(ctx, checks, results)
}

// A batch takes a store no longer than a check does, though it may ask several times.
func TestTheTimeOfABatchIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := &leisurely{Store: core.NewMemory(), takes: 30 * time.Millisecond}
		s := newService(t, func(c *Config) {
			c.Store, c.Policies = memory, policies{"jobs": {core.PerHour(10).By(keyfuncs.User("user")).Named("jobs")}}
		})
		for _, c := range []struct {
			more   string
			takes  time.Duration
			outage bool
			want   int64
		}{{``, 60 * time.Millisecond, false, 4}, {`,"timeout_ms":50`, 50 * time.Millisecond, true, 4}, {`,"timeout_ms":20`, 20 * time.Millisecond, true, 10}} {
			key := fmt.Sprint("user:", c.takes)
			ask(t, s, "/v1/check", `{"policy":"jobs","key":"`+key+`","cost":6}`)
			began := time.Now()
			a := ask(t, s, "/v1/check", `{"policy":"jobs","key":"`+key+`","at_most":99`+c.more+`}`)
			if took := time.Since(began); took != c.takes || a.Outage != c.outage || a.Granted != c.want {
				t.Errorf("%q: it took %v, want %v: %+v", c.more, took, c.takes, a)
			}
		}
		must.Equal(t, "calls of the store", memory.calls, 3+3+2)
	})
}

// unreachable is a store that answers nothing.
type unreachable struct{ core.Store }

func (*unreachable) Take(context.Context, []core.Check, []core.Result) error {
	return &store.Error{Class: store.ClassConnection, Err: errors.New("refused")}
}

// While the store is away the local share decides, and whoever asks is told of the levels that are reached there, as
// OnWarning is in the process.
func TestWarningsInAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	var heard []core.Warning
	s := newService(t, func(c *Config) {
		c.Store = &unreachable{core.NewMemory()}
		c.Policies = policies{"jobs": {core.PerHour(10).By(keyfuncs.User("user")).Named("jobs").WarnAt(0.5, 0.9)}}
		c.OnWarning = func(_ context.Context, w core.Warning) { heard = append(heard, w) }
	})
	var told []core.Warning
	for _, body := range []string{`"cost":6`, `"at_most":99`} {
		_, _, answer := post(s, "/v1/check", `{"policy":"jobs","key":"user:ann","warnings":true,`+body+`}`)
		var a struct{ Warnings []core.Warning }
		must.OK(t, json.Unmarshal([]byte(answer), &a))
		told = append(told, a.Warnings...)
	}
	must.Equal(t, "levels", len(heard), 2)
	if !slices.Equal(told, heard) {
		t.Errorf("told %+v, and OnWarning %+v", told, heard)
	}
}
