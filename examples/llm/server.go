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
	defaultTokens = 500  // of a question and its answer, unless the client asks for others
	mostTokens    = 4000 // of a question and its answer, at most
)

// newServer limits each customer to 10,000 tokens a minute, of questions and answers.
// If the model fails, also in the middle of an answer, the customer pays for the tokens until then.
//
// Addresses are counted before keys are checked, and keys are checked before tokens are
// counted. So made-up keys give no tokens, and trying out keys is slow.
func newServer(store core.Store) http.Handler {
	perAddress := nethttp.Limit(store, core.PerMinute(600).By(keyfuncs.ClientIP()).Named("address"))
	perCustomer := nethttp.Limit(store, core.PerMinute(10_000).By(keyfuncs.User(customerKey{})).Named("tokens").
		EstimateBy(reserved).RefundOn(core.ServerErrors))

	mux := http.NewServeMux()
	mux.Handle("POST /generate", perAddress(authenticate(withBudget(perCustomer(http.HandlerFunc(generate))))))
	return mux
}

// customers stands in for a table of API keys: a real one holds hashes.
var customers = map[string]string{"demo": "alice", "other": "bob"}

type customerKey struct{}

// authenticate looks up the customer of an API key.
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

// withBudget reads once how many tokens a request may use. The reservation and the
// bound are the same number, whatever the client has written.
func withBudget(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		budget := int64(defaultTokens)
		if n, err := strconv.ParseInt(r.URL.Query().Get("max_tokens"), 10, 64); err == nil && n > 0 {
			budget = min(n, mostTokens)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), budgetKey{}, budget)))
	})
}

// reserved is the charge before the cost of the answer is known.
func reserved(r keyfuncs.Request) int64 {
	budget, _ := r.Value(budgetKey{}).(int64)
	return budget
}

// meter charges tokens until the budget is used up.
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
	_ = core.Spend(m.ctx, n) // an error says that no limit was charged, as in an outage
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
		if token == "fail" {
			// The status was sent with the first token, and says 200. So cut the answer, which tells the
			// client. It pays for what was spent, as after a hang-up.
			panic(http.ErrAbortHandler)
		}
		if !tokens.spend(1) {
			break
		}
		if _, err := io.WriteString(w, token+" "); err != nil {
			return // the client has hung up: the tokens that it got are charged
		}
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "\n")
}
