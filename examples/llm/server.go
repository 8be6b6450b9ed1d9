package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

const (
	defaultTokens = 500  // that an answer may have if the question does not say
	mostTokens    = 4000 // that it may have at all
)

// newServer limits each API key to 10,000 tokens a minute. A question that is
// answered with an error costs nothing.
func newServer(store core.Store) http.Handler {
	tokens := core.PerMinute(10_000).By(keyfuncs.APIKey("X-API-Key")).Named("tokens").
		EstimateBy(maxTokens).RefundOn(core.ServerErrors)
	limit := nethttp.Limit(store, tokens)

	mux := http.NewServeMux()
	mux.Handle("POST /generate", limit(http.HandlerFunc(generate)))
	return mux
}

// maxTokens is what an answer may cost, and so what is charged before it is known.
func maxTokens(r keyfuncs.Request) int64 {
	asked, _ := r.Query("max_tokens", 0)
	n, err := strconv.ParseInt(asked, 10, 64)
	if err != nil || n < 1 {
		return defaultTokens
	}
	return min(n, mostTokens)
}

// generate streams an answer, and tells the limit of each token.
func generate(w http.ResponseWriter, r *http.Request) {
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		http.Error(w, "the question is too long", http.StatusRequestEntityTooLarge)
		return
	}
	if string(question) == "fail" {
		http.Error(w, "the model is out of order", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, token := range strings.Fields("You asked: " + string(question) + " I wonder, too.") {
		_ = nethttp.Charge(r.Context(), 1) // or no limit was charged, such as in an outage
		if _, err := fmt.Fprintf(w, "%s ", token); err != nil {
			return // the client is gone: what it got is charged
		}
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprintln(w)
}
