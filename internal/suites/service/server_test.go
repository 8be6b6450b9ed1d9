package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
)

const file = `
version: "7"
defaults: {client_ip: {trusted_proxies: [10.0.0.0/8]}, timeout: 1m}
policies:
  api:
    headers: [draft11, x_ratelimit]
    bypass: [{routes: [GET /healthz]}]
    limits:
      client: {limit: 5/hour fixed, by: ip, warn_at: [0.5]}
      tenant: {limit: 100/hour fixed, by: tenant, on_missing_key: skip, tiers: {by: plan, limits: {pro: 500/hour fixed}}}
  keys:
    limits:
      key: {limit: 3/hour fixed, by: api_key, on_missing_key: deny}
  login:
    limits:
      login: {limit: 2/hour, by: ip, penalty: {after: 2, within: 1h, for: 1h}}
  tokens:
    limits:
      requests: {limit: 100/hour fixed, by: tenant}
      tokens: {limit: 10000/hour fixed, by: tenant, cost_by: tokens}
      month: {limit: 1000000/month UTC soft 900000, by: tenant}
  queue:
    limits:
      queue: {limit: 1/minute burst 1 wait 10m, by: everyone}
  running:
    limits:
      running: {limit: concurrent 2, by: tenant}
  estimated:
    limits:
      guess: {limit: 10000/hour fixed, by: tenant, estimate: 10}
  shadow:
    limits:
      trial: {limit: 2/hour, by: everyone, shadow: true, warn_at: [0.5]}
  lower:
    limits:
      lower: {limit: 10/hour, by: everyone, keep_free: {share: 0.5, for: {methods: [POST]}}}
  budgets:
    limits:
      plan: {limit: 1/hour fixed, by: everyone}
      credits: {limit: 100/hour fixed, by: everyone, hidden: true}
    choices: [[plan, credits]]
  classes:
    limits:
      shared: {limit: 10/hour, by: everyone, classes: [{name: checkout, when: {methods: [POST]}, keep: 0.2}, {name: others}]}
  fair:
    limits:
      capacity: {limit: 10/hour, by: everyone, estimate: 1, fair: {by: tenant, within: user, of: plan, shares: {small: {maximum: 2}}}}
  closed:
    limits:
      closed: {limit: 1/hour, by: everyone, on_outage: deny}
`

func load(t testing.TB, text string) *policy.Set {
	t.Helper()
	return must.Get(policy.Parse("limits.yaml", []byte(text), policy.Options{AnyName: true}))(t)
}

// patience is how long tests wait for what must happen, on the busiest machine.
const patience = time.Minute

// newService starts no test at the end of an hour, as long as the fixed windows of the policies.
func newService(t testing.TB, change ...func(*service.Config)) *service.Service {
	t.Helper()
	windows.AwayFrom(time.Hour, 20*time.Second)
	config := service.Config{Policies: load(t, file), Store: core.NewMemory()}
	for _, c := range change {
		c(&config)
	}
	return must.Get(service.New(config))(t)
}

// post sends a call, and returns the status and the body as JSON.
func post(t testing.TB, to http.Handler, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	text := must.Get(io.ReadAll(w.Result().Body))(t)
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w.Code, got
}
