package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

const (
	defaultTokens = 500  // that a question and its answer may have if the client does not say
	mostTokens    = 4000 // that they may have at all
)

// newServer limits each customer to 10,000 tokens a minute, of questions and answers.
// A question that the model fails at costs what the model has done until then.
//
// Keys are checked before tokens are counted, and addresses before keys: so nobody has
// tokens by making keys up, and trying keys out is slow.
func newServer(store core.Store) http.Handler {
	perAddress := nethttp.Limit(store, core.PerMinute(600).By(keyfuncs.ClientIP()).Named("address"))
	perCustomer := nethttp.Limit(store, core.PerMinute(10_000).By(keyfuncs.User(customerKey{})).Named("tokens").
		EstimateBy(reserved).RefundOn(core.ServerErrors))

	mux := http.NewServeMux()
	mux.Handle("POST /generate", perAddress(authenticate(withBudget(perCustomer(http.HandlerFunc(generate))))))
	return mux
}

// customers stand in for a table of API keys: a real one holds hashes.
var customers = map[string]string{"demo": "alice", "other": "bob"}

type customerKey struct{}

// authenticate finds out whose API key it is.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Values("X-API-Key")
		if len(sent) != 1 || customers[sent[0]] == "" {
			http.Error(w, "no such key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, customers[sent[0]])))
	})
}

type budgetKey struct{}

// withBudget reads once how many tokens a request may take: what is reserved for it
// and what it is held to are one number, whatever the client has written.
func withBudget(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		budget := int64(defaultTokens)
		if n, err := strconv.ParseInt(r.URL.Query().Get("max_tokens"), 10, 64); err == nil && n > 0 {
			budget = min(n, mostTokens)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), budgetKey{}, budget)))
	})
}

// reserved is what is charged before it is known what the answer takes.
func reserved(r keyfuncs.Request) int64 {
	budget, _ := r.Value(budgetKey{}).(int64)
	return budget
}

// meter charges for tokens, and ends with the budget.
type meter struct {
	ctx  context.Context
	left int64
}

// spend reports whether n more tokens are within the budget, and charges them.
func (m *meter) spend(n int64) bool {
	if n > m.left {
		return false
	}
	m.left -= n
	_ = core.Charge(m.ctx, n) // or no limit was charged, such as in an outage
	return true
}

// generate streams an answer, charges each token before it is written, and stops
// where the budget ends.
func generate(w http.ResponseWriter, r *http.Request) {
	budget, _ := r.Context().Value(budgetKey{}).(int64)
	tokens := meter{r.Context(), budget}
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		http.Error(w, "the question is too long", http.StatusRequestEntityTooLarge)
		return
	}
	if string(question) == "fail" {
		http.Error(w, "the model is out of order", http.StatusBadGateway)
		return
	}
	if !tokens.spend(int64(len(strings.Fields(string(question))))) {
		http.Error(w, "the question takes more than max_tokens", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, token := range strings.Fields("You asked: " + string(question) + " I wonder, too.") {
		if !tokens.spend(1) {
			break
		}
		if _, err := io.WriteString(w, token+" "); err != nil {
			return // the client is gone: what it got is charged
		}
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "\n")
}
