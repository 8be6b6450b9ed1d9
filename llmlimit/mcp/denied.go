package mcp

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/llmlimit/internal/problem"
)

// RateLimited is the code of a denial, of those that JSON-RPC leaves to servers.
const RateLimited = -32029

// denial is the answer to a request that is denied.
type denial struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   failure         `json:"error"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    data   `json:"data"`
}

// data says when the same request would pass. RetryAfter is 0 if waiting can't help.
type data struct {
	RetryAfter int64 `json:"retryAfter"` // in seconds
}

// Denied answers a denied request with an error of JSON-RPC: code -32029, and in its data retryAfter, in seconds, 0 if
// waiting can't help. The status is Config.Status. Retry-After and the other headers of the decision stand beside it. It
// is for Config.Denied of package nethttp, and of others over net/http.
//
// What is no request of JSON-RPC gets the usual denial: a GET, a notification, a batch, and whatever could not be read.
// A denial that has another reason than a limit, such as a key that is missing, has the code -32000.
func (t *Tools) Denied(w http.ResponseWriter, r *http.Request, d core.Decision) {
	c, ok := r.Context().Value(callKey{t}).(*call)
	if !ok || c.id == nil {
		stdhttp.Deny(w, r, &d)
		return
	}
	answer := denial{Version: "2.0", ID: c.id, Error: failure{RateLimited, problem.Detail(&d, r), data{d.RetryAfterSeconds()}}}
	if d.Status() != http.StatusTooManyRequests {
		answer.Error.Code = -32000
	}
	text, err := json.Marshal(answer)
	if err != nil { // the ID was valid when it was read
		stdhttp.Deny(w, r, &d)
		return
	}
	stdhttp.ClearValidators(w.Header())
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get("Content-Encoding") == "" { // else middleware compresses it
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	}
	w.WriteHeader(t.config.Status)
	_, _ = w.Write(text)
}
