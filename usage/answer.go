package usage

import (
	"encoding/json"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Answer is the response to a request, for a handler of any framework.
type Answer struct {
	Status int
	Header map[string][]string // canonical names; to be set in that of the response
	Body   []byte
}

// Answer returns the response to a request.
func (u *Usage) Answer(r keyfuncs.Request) Answer {
	report, denied, err := u.Report(r)
	switch {
	case err != nil:
		denied = &core.Decision{Reason: core.ReasonOutageDenied, RetryAfter: time.Second, Err: err}
		a := answerDenied(denied, r)
		a.Header["Retry-After"] = []string{"1"}
		return a
	case denied != nil:
		return answerDenied(denied, r)
	}
	body, err := json.Marshal(report)
	if err != nil { // numbers, names and times always marshal
		return Answer{Status: 500, Header: map[string][]string{"Cache-Control": {"no-store"}}}
	}
	return Answer{200, headerOf("application/json"), append(body, '\n')}
}

// answerDenied returns the response to a request that is refused, with the headers and the body of a denial.
func answerDenied(d *core.Decision, r keyfuncs.Request) Answer {
	h := headerOf(core.ProblemType)
	d.SetHeaders(adapter.HeaderMap(h))
	accepts, _ := r.Header("Accept-Language", 0)
	body, language := d.AppendProblem(nil, accepts)
	if language != "" {
		h["Content-Language"] = []string{language}
	}
	return Answer{d.Status(), h, body}
}

func headerOf(contentType string) map[string][]string {
	return map[string][]string{"Content-Type": {contentType}, "Cache-Control": {"no-store"}}
}
