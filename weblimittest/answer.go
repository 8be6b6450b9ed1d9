package weblimittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Response is what an assertion is about: the response of a server or of Fiber's Test, the
// recorder that a handler was called with, or the decision of a limiter that was asked without
// HTTP. Of a gRPC call, grpclimit/grpclimittest makes a response.
type Response interface {
	*http.Response | *httptest.ResponseRecorder | core.Decision
}

// answer is what a response says of limits.
type answer struct {
	text       string   // the response in short, for failures
	status     int      // 0 for a decision that allows
	kind       string   // the fragment of the problem type, such as "quota-exceeded"
	violated   []string // the limits that denied
	policies   []string // the limits that apply
	remaining  []member
	retryAfter string        // the field
	wait       time.Duration // what it says; 0 if it can't be read
}

// member is what is left of one limit.
type member struct {
	limit string
	left  int64
}

// read reads a response. It leaves the body of an http.Response to be read again.
func read[R Response](r R) answer {
	switch r := any(r).(type) {
	case *http.Response:
		return readHTTP(r.StatusCode, r.Header, bodyOf(r))
	case *httptest.ResponseRecorder:
		return readHTTP(r.Code, r.Result().Header, r.Body.Bytes())
	case core.Decision:
		return readDecision(r)
	}
	return answer{}
}

func bodyOf(r *http.Response) []byte {
	if r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // it has been read
	if err != nil {
		body = append(body, fmt.Sprintf(" (the body can't be read: %v)", err)...)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// shown are the fields that failures show.
var shown = append(core.ExposeHeaders(), "Content-Type")

func readHTTP(status int, header http.Header, body []byte) answer {
	a := answer{status: status, retryAfter: header.Get("Retry-After")}
	if seconds, err := strconv.ParseInt(a.retryAfter, 10, 32); err == nil && seconds > 0 {
		a.wait = time.Duration(seconds) * time.Second
	}
	for _, member := range members(header, "RateLimit-Policy") {
		a.policies = append(a.policies, nameOf(member))
	}
	for _, m := range members(header, "RateLimit") {
		if left, ok := leftOf(m); ok {
			a.remaining = append(a.remaining, member{nameOf(m), left})
		}
	}
	var problem struct {
		Type     string   `json:"type"`
		Violated []string `json:"violated-policies"`
	}
	if strings.HasPrefix(header.Get("Content-Type"), core.ProblemType) && json.Unmarshal(body, &problem) == nil {
		_, a.kind, _ = strings.Cut(problem.Type, "http-problem-types#")
		a.violated = problem.Violated
	}

	var text strings.Builder
	fmt.Fprintf(&text, "the response: %d %s\n", status, http.StatusText(status))
	for _, name := range shown {
		for _, value := range header.Values(name) {
			fmt.Fprintf(&text, "  %s: %s\n", name, value)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&text, "  %.300s", body)
	}
	a.text = strings.TrimRight(text.String(), "\n")
	return a
}

// members returns the members of a field of draft-11, and none of an older field of that name. Names
// of limits have neither commas nor quotes.
func members(header http.Header, name string) []string {
	var found []string
	for _, m := range strings.Split(strings.Join(header.Values(name), ","), ",") {
		if m = strings.TrimSpace(m); strings.HasPrefix(m, `"`) && strings.Count(m, `"`) >= 2 {
			found = append(found, m)
		}
	}
	return found
}

func nameOf(member string) string { return strings.SplitN(member, `"`, 3)[1] }

// leftOf returns the parameter r of a member.
func leftOf(member string) (int64, bool) {
	for _, parameter := range strings.Split(member, ";")[1:] {
		if value, ok := strings.CutPrefix(parameter, "r="); ok {
			left, err := strconv.ParseInt(value, 10, 64)
			return left, err == nil
		}
	}
	return 0, false
}

func readDecision(d core.Decision) answer {
	a := answer{wait: d.RetryAfter, text: "the decision: " + d.LogValue().String()}
	if d.Allowed {
		a.wait = 0
	} else {
		a.status = d.Status()
		a.retryAfter = a.wait.String()
	}
	for _, r := range d.Results() {
		if !r.Enforced() {
			continue
		}
		a.policies = append(a.policies, r.Rule.Name)
		a.remaining = append(a.remaining, member{r.Rule.Name, r.Remaining})
		if !r.Allowed {
			a.violated = append(a.violated, r.Rule.Name)
		}
	}
	if !d.Allowed {
		a.kind = d.Reason.String()
	}
	return a
}

// denied reports whether a limiter has denied the request, as far as a response shows it.
func (a *answer) denied() bool {
	return a.status == http.StatusTooManyRequests || a.kind != ""
}

func (a *answer) left(limit string) (int64, bool) {
	i := slices.IndexFunc(a.remaining, func(m member) bool { return m.limit == limit })
	if i < 0 {
		return 0, false
	}
	return a.remaining[i].left, true
}
