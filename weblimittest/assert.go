package weblimittest

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Allowed fails the test if a limiter denied the request: if the status is 429, or the body is a
// problem of the types that denials have. It says nothing of other statuses, which are the
// handler's.
func Allowed[R Response](t testing.TB, r R) {
	t.Helper()
	if a := read(r); a.denied() {
		by := ""
		if len(a.violated) > 0 {
			by = " by " + quoted(a.violated)
		}
		t.Errorf("denied%s, want it allowed\n%s", by, a.text)
	}
}

// Denied fails the test unless a limit denied the request: unless the status is 429, and the limits
// that denied it are those with the given names, in any order. Without names any limit will do.
//
// The names are in the problem body, "violated-policies". An application with a body of its own
// leaves the names out here. A denial for an outage (503) or a missing key (401, 400) is none by
// a limit.
func Denied[R Response](t testing.TB, r R, limits ...string) {
	t.Helper()
	a := read(r)
	switch {
	case a.status != http.StatusTooManyRequests && len(limits) > 0:
		t.Errorf("not denied, want it denied by %s\n%s", quoted(limits), a.text)
	case a.status != http.StatusTooManyRequests:
		t.Errorf("not denied by a limit\n%s", a.text)
	case len(limits) > 0 && len(a.violated) == 0:
		t.Errorf("denied, and the body does not name the limit, want %s\n%s", quoted(limits), a.text)
	case len(limits) > 0 && !sameNames(a.violated, limits):
		t.Errorf("denied by %s, want %s\n%s", quoted(a.violated), quoted(limits), a.text)
	}
}

// RetryAfter returns what a denied client is told to wait: the Retry-After field in whole seconds,
// or Decision.RetryAfter. After this time the same request passes, if no other has come in between:
//
//	store.Advance(weblimittest.RetryAfter(t, response))
//
// It fails the test and returns 0 if the response does not say it: if it was not denied, or
// waiting can't help.
func RetryAfter[R Response](t testing.TB, r R) time.Duration {
	t.Helper()
	a := read(r)
	if a.wait <= 0 {
		t.Errorf("Retry-After is %q, want how long to wait\n%s", a.retryAfter, a.text)
	}
	return a.wait
}

// Remaining fails the test unless the response says that so many units are left of the limit with
// that name. It reads the RateLimit field of [core.Draft11], which is the default.
func Remaining[R Response](t testing.TB, r R, limit string, want int64) {
	t.Helper()
	a := read(r)
	switch left, ok := a.left(limit); {
	case !ok && len(a.remaining) == 0:
		t.Errorf("no RateLimit says what is left of %q, want %d\n%s", limit, want, a.text)
	case !ok:
		t.Errorf("RateLimit does not have %q, want %d left of it\n%s", limit, want, a.text)
	case left != want:
		t.Errorf("%d left of %q, want %d\n%s", left, limit, want, a.text)
	}
}

// Policies fails the test unless the response names these limits, in any order, and no others: they
// are those that apply to the request. Without names it must name none, as where a request is
// exempt. It reads the RateLimit-Policy field of [core.Draft11], which is the default.
func Policies[R Response](t testing.TB, r R, limits ...string) {
	t.Helper()
	a := read(r)
	switch {
	case sameNames(a.policies, limits):
	case len(limits) == 0:
		t.Errorf("RateLimit-Policy has %s, want no limit\n%s", quoted(a.policies), a.text)
	case len(a.policies) == 0:
		t.Errorf("RateLimit-Policy has no limit, want %s\n%s", quoted(limits), a.text)
	default:
		t.Errorf("RateLimit-Policy has %s, want %s\n%s", quoted(a.policies), quoted(limits), a.text)
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
