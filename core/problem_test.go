package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// problem is the body of a denial: RFC 9457, and violated-policies of the draft.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies"`
}

const (
	abnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// wantProblem checks the exact bytes of a body, and that they are JSON.
func wantProblem(t testing.TB, d *core.Decision, want string) problem {
	t.Helper()
	got, _ := d.AppendProblem(nil, "")
	check.Equal(t, "body", string(got), want)
	return parseProblem(t, got)
}

func parseProblem(t testing.TB, body []byte) problem {
	t.Helper()
	var p problem
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("%v in\n\t%s", err, body)
	}
	if decoder.More() {
		t.Errorf("there is more than one value in\n\t%s", body)
	}
	return p
}

func TestProblem(t *testing.T) {
	t.Parallel()
	const (
		head = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded.`
		out  = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Service temporarily unavailable.`
	)
	limit := func(names ...string) (limits []core.Limit) {
		for _, name := range names {
			limits = append(limits, everyone(5).Named(name))
		}
		return limits
	}
	wait := func(d time.Duration) core.Result { return core.Result{RetryAfter: d} }
	idle, never := core.Result{Allowed: true, Remaining: 1}, core.Result{Remaining: 1}
	down := limiterOn(t, newFlaky(true), everyone(5).OnOutage(core.Deny)).Allow(&request{})
	odd := limiterOn(t, core.NewMemory(), everyone(5)).AllowKey(context.Background(), "k", -1)
	for _, tt := range []struct {
		name     string
		decision core.Decision
		want     string
		violated []string
	}{
		{"seconds", decided(t, limit("burst"), wait(6*time.Second)), head + ` Retry in 6 seconds.","violated-policies":["burst"]}`, []string{"burst"}},
		{"one second", decided(t, limit("burst"), wait(time.Second)), head + ` Retry in 1 second.","violated-policies":["burst"]}`, []string{"burst"}},
		{"less than a second", decided(t, limit("burst"), wait(1)), head + ` Retry in 1 second.","violated-policies":["burst"]}`, []string{"burst"}},
		{"more than a second", decided(t, limit("burst"), wait(time.Second+1)), head + ` Retry in 2 seconds.","violated-policies":["burst"]}`, []string{"burst"}},
		{"a month", decided(t, limit("burst"), wait(31*24*time.Hour)), head + ` Retry in 2678400 seconds.","violated-policies":["burst"]}`, []string{"burst"}},
		{"several violated limits and one that is not", decided(t, limit("a", "b", "c"), wait(3*time.Second), idle, wait(2*time.Second)), head + ` Retry in 3 seconds.","violated-policies":["a","c"]}`, []string{"a", "c"}},
		{"the last of more than four", decided(t, limit("a", "b", "c", "d", "e"), idle, idle, idle, idle, wait(2*time.Second)), head + ` Retry in 2 seconds.","violated-policies":["e"]}`, []string{"e"}},
		{"never possible", decided(t, limit("a", "b"), never, wait(2*time.Second)), strings.Replace(head, "Rate limit exceeded.", "The request costs more than the limit ever allows.", 1) + `","violated-policies":["a","b"]}`, []string{"a", "b"}},
		{"a name of all that is allowed", decided(t, limit("AZaz09._-"), wait(time.Second)), head + ` Retry in 1 second.","violated-policies":["AZaz09._-"]}`, []string{"AZaz09._-"}},
		{"an outage", down, out + ` Retry in 1 second."}`, nil},
		{"a negative cost", odd, head + `"}`, nil},
		{"the zero decision", core.Decision{}, head + `"}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := wantProblem(t, &tt.decision, tt.want)
			want := problem{quotaExceeded, "Quota Exceeded", 429, p.Detail, tt.violated}
			if tt.decision.Reason == core.ReasonOutageDenied {
				want = problem{reducedCapacity, "Temporary Reduced Capacity", 503, p.Detail, tt.violated}
			}
			if !reflect.DeepEqual(p, want) {
				t.Errorf("the body reads %+v, want %+v", p, want)
			}
			check.Equal(t, "status, that of the body", tt.decision.Status(), p.Status)
			if appended, _ := tt.decision.AppendProblem([]byte("before "), ""); string(appended) != "before "+tt.want {
				t.Errorf("appended to something it reads\n\t%s", appended)
			}
		})
	}
}

// Bodies, headers and logs name the limits, and never the key.
func TestNothingToldHoldsTheKey(t *testing.T) {
	t.Parallel()
	const secret = "alice-at-example"
	for name, store := range map[string]core.Store{"memory": core.NewMemory(), "out": newFlaky(true)} {
		for policy, outage := range map[string]core.OutageAction{"local": core.Local, "deny": core.Deny, "allow": core.Allow} {
			l := limiterOn(t, store, core.PerHour(1).By(keyfuncs.User("userID")).Named(policy).OnOutage(outage))
			for range 2 {
				d := l.Allow(user(secret))
				h := adapter.HeaderMap{}
				d.SetHeaders(h)
				for what, told := range map[string]string{
					"body":    problemBody(d),
					"headers": fmt.Sprint(h),
					"log":     logged(t, d),
				} {
					if strings.Contains(told, secret) {
						t.Errorf("%s, %s: the %s holds the key: %s", name, policy, what, told)
					}
				}
			}
		}
	}
}

// problemBody returns a denial's body in English.
func problemBody(d core.Decision) string {
	body, _ := d.AppendProblem(nil, "")
	return string(body)
}
