package nethttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// Only the handler knows to whom a message goes, and asks a limit for that.
func ExampleGuard() {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	perRecipient := limits.Guard(core.PerHour(2).Named("recipient"))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		var message struct{ To string }
		if json.NewDecoder(r.Body).Decode(&message) != nil {
			http.Error(w, "no message", http.StatusBadRequest)
			return
		}
		if !perRecipient.Allow(w, r, keyfuncs.Encode("to", message.To), 1) {
			return
		}
		fmt.Fprint(w, "sent")
	})

	for _, to := range []string{"ann", "ann", "ann", "ben"} {
		r := httptest.NewRequest("POST", "/messages", strings.NewReader(`{"to": "`+to+`"}`))
		r.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		mux.ServeHTTP(res, r)
		fmt.Println(to, res.Code, res.Header().Get("X-RateLimit-Remaining"), "left")
	}
	// Output:
	// ann 200 1 left
	// ann 200 0 left
	// ann 429 0 left
	// ben 200 1 left
}
