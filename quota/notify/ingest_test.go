package notify_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

func anIncrement() quota.Increment {
	return quota.Increment{
		ID: "usage_0123", Limit: "plan", Tenant: "tenant:acme", Start: november, End: november.AddDate(0, 1, 0),
		Day: november.AddDate(0, 0, 21), At: november.AddDate(0, 0, 21).Add(time.Hour), Value: -3, Total: 40,
	}
}

func TestIngest(t *testing.T) {
	t.Parallel()
	var body []byte
	var header http.Header
	url, roots := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	i := must.Get(notify.NewIngest(notify.IngestConfig{
		URL: url + "/api/v1/events", Token: "om_123", Source: "api.example.com", RootCAs: roots,
		Subject: func(i quota.Increment) string { return strings.TrimPrefix(i.Tenant, "tenant:") },
	}))(t)
	odd := anIncrement()
	odd.Tenant = "tenant:\u0085<script>"
	must.OK(t, i.Send(t.Context(), []quota.Increment{anIncrement(), odd}))
	if header.Get("Content-Type") != "application/cloudevents-batch+json" || header.Get("Authorization") != "Bearer om_123" {
		t.Errorf("headers %v", header)
	}
	var events []map[string]any
	if err := json.Unmarshal(body, &events); err != nil || len(events) != 2 {
		t.Fatal(string(body), err)
	}
	want := map[string]any{
		"value": -3.0, "limit": "plan", "tenant": "tenant:acme", "period_start": "2026-11-01T00:00:00Z", "period_end": "2026-12-01T00:00:00Z",
		"day": "2026-11-22", "day_total": 40.0,
	}
	if data := checkEvent(t, events[0]); !reflect.DeepEqual(data, want) || events[0]["subject"] != "acme" || events[0]["source"] != "api.example.com" {
		t.Errorf("%s", body)
	}
	checkEvent(t, events[1])
	check.Equal(t, "a subject with control characters", events[1]["subject"].(string), `\xc2853c7363726970743e`)
}

func TestAnswersOfEngines(t *testing.T) {
	t.Parallel()
	for status, permanent := range map[int]bool{400: true, 413: true, 422: true, 401: false, 404: false, 429: false, 500: false} {
		url, roots := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		i := must.Get(notify.NewIngest(notify.IngestConfig{URL: url, RootCAs: roots}))(t)
		var e *quota.DeliveryError
		if err := i.Send(t.Context(), []quota.Increment{anIncrement()}); !errors.As(err, &e) || e.Permanent != permanent {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestIngestsThatAreWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []notify.IngestConfig{
		{},
		{URL: "example.com"},
		{URL: "https://example.com", Token: "a b"},
		{URL: "https://example.com", Token: "a\r\nX: y"},
		{URL: "https://example.com", Type: strings.Repeat("x", 300)},
	} {
		if _, err := notify.NewIngest(c); err == nil || !strings.HasPrefix(err.Error(), "weblimit: notify: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
