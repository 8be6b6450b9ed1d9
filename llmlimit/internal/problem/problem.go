// Package problem has the sentence of a denial, for bodies of other forms.
package problem

import (
	"encoding/json"
	"net/http"

	"github.com/weblimit/weblimit/core"
)

// Detail returns the sentence that a denial's problem has, in the language of the request.
func Detail(d *core.Decision, r *http.Request) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	text, _ := d.AppendProblem(nil, r.Header.Get("Accept-Language"))
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return "Rate limit exceeded."
	}
	return problem.Detail
}
