package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/service/client"
)

// newOrders returns an application that decides by the policies of the service, as it would by those of a
// file. While the service is away, it counts by itself.
func newOrders(service string) (http.Handler, error) {
	remote, err := client.New(client.Config{
		URL:      service,
		Timeout:  time.Second,
		OnOutage: client.OnOutage{Limits: []core.Limit{core.PerMinute(60).By(keyfuncs.ClientIP()).Named("stand-in")}},
	})
	if err != nil {
		return nil, err
	}
	limits := nethttp.With(core.Config{Store: remote.Store()})
	return limits.Policy(remote, "api")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "your orders")
	})), nil
}

// newReports returns an application that knows nothing of weblimit: it sends JSON to the service, and
// answers its client with what it hears.
func newReports(service string) http.Handler {
	asking := http.Client{Timeout: time.Second}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, _ := net.SplitHostPort(r.RemoteAddr) // RemoteAddr is always host:port
		question, err := json.Marshal(map[string]any{"policy": "api", "request": map[string]string{"client_ip": ip}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		call, err := http.NewRequestWithContext(r.Context(), http.MethodPost, service+"/v1/check", bytes.NewReader(question))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		call.Header.Set("Content-Type", "application/json")
		var answer struct {
			Allowed bool
			Status  int
			Headers map[string]string
			Problem json.RawMessage
		}
		response, err := asking.Do(call)
		if err == nil {
			defer response.Body.Close()
			err = json.NewDecoder(response.Body).Decode(&answer)
		}
		if err != nil || response.StatusCode != http.StatusOK {
			// The service is away. This application serves nobody then; another one may serve everybody.
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		for name, value := range answer.Headers {
			w.Header().Set(name, value)
		}
		if !answer.Allowed {
			w.Header().Set("Content-Type", core.ProblemType)
			w.WriteHeader(answer.Status)
			_, _ = w.Write(answer.Problem) // the client may be gone
			return
		}
		fmt.Fprintln(w, "your reports")
	})
}
