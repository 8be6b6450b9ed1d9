package notify_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	another = "whsec_dGhpcyBpcyBhIHNlY3JldCBvZiAyNCBi"
)

var november = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

func aNotice() quota.Notice {
	return quota.Notice{
		ID: "notice_0123", Limit: "plan", Tenant: "tenant:acme", Start: november, End: november.AddDate(0, 1, 0),
		Level: 80, Used: 81, Included: 100, Hard: 120, At: november.Add(time.Hour + time.Microsecond),
	}
}

// server starts a receiver with TLS.
func server(t *testing.T, h http.HandlerFunc) (url string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.URL, roots
}

func hookTo(t *testing.T, url string, roots *x509.CertPool) *notify.Webhook {
	t.Helper()
	return must.Get(notify.NewWebhook(notify.WebhookConfig{URL: url, Secrets: []string{secret, another}, RootCAs: roots}))(t)
}

// delivered returns how the delivery of a notice to a handler ends.
func delivered(t *testing.T, h http.HandlerFunc) error {
	t.Helper()
	url, roots := server(t, h)
	return hookTo(t, url, roots).Deliver(t.Context(), aNotice())
}

// checkEvent checks what CloudEvents 1.0 demand of an event in JSON, and returns its data.
func checkEvent(t *testing.T, e map[string]any) map[string]any {
	t.Helper()
	for _, name := range []string{"specversion", "id", "source", "type", "time", "datacontenttype", "subject"} {
		if s, ok := e[name].(string); !ok || s == "" {
			t.Errorf("attribute %s is %v", name, e[name])
		}
	}
	if e["specversion"] != "1.0" || e["datacontenttype"] != "application/json" {
		t.Errorf("event %v", e)
	}
	_, err := time.Parse(time.RFC3339Nano, fmt.Sprint(e["time"]))
	check.OK(t, err)
	for name := range e {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Errorf("attributes are lower-case letters and digits: %s", name)
		}
	}
	data, _ := e["data"].(map[string]any)
	if len(e) != 8 || data == nil {
		t.Errorf("event %v", e)
	}
	return data
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	var bodies []string
	url, roots := server(t, func(w http.ResponseWriter, r *http.Request) {
		copied := r.Clone(r.Context())
		body, err := verify(r, secret)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/cloudevents+json" || r.Header.Get("webhook-id") != "notice_0123" {
			t.Errorf("%s %v: %v", r.Method, r.Header, err)
		}
		bodies = append(bodies, string(body))
		for name, change := range map[string]func(){
			"another secret": func() {},
			"another body":   func() { copied.Body = http.NoBody },
			"another id":     func() { copied.Header.Set("webhook-id", "notice_0124") },
			"an old one":     func() { copied.Header.Set("webhook-timestamp", "1614265330") },
		} {
			change()
			if _, err := verify(copied, "whsec_c29tZXRoaW5nIGVsc2UgYWx0b2dldGhlcg=="); err == nil {
				t.Errorf("%s is taken for signed", name)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	w := hookTo(t, url, roots)
	for range 2 {
		must.OK(t, w.Deliver(t.Context(), aNotice()))
	}
	check.Equal(t, "a repeat", bodies[1], bodies[0])
	var e map[string]any
	must.OK(t, json.Unmarshal([]byte(bodies[0]), &e))
	want := map[string]any{
		"limit": "plan", "tenant": "tenant:acme", "period_start": "2026-11-01T00:00:00Z", "period_end": "2026-12-01T00:00:00Z",
		"level": 80.0, "used": 81.0, "included": 100.0, "hard": 120.0,
	}
	if data := checkEvent(t, e); !reflect.DeepEqual(data, want) || e["time"] != "2026-11-01T01:00:00.000001Z" || e["type"] != "weblimit.quota.notice" {
		t.Errorf("%s", bodies[0])
	}
}

func TestBothSecretsSign(t *testing.T) {
	t.Parallel()
	for _, s := range []string{secret, another} {
		var err error
		check.OK(t, delivered(t, func(_ http.ResponseWriter, r *http.Request) { _, err = verify(r, s) }))
		check.OK(t, err)
	}
}

func TestAnswersOfReceivers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status     int
		header     string
		permanent  bool
		retryAfter time.Duration
	}{
		{http.StatusInternalServerError, "", false, 0},
		{http.StatusServiceUnavailable, "30", false, 30 * time.Second},
		{http.StatusTooManyRequests, "7", false, 7 * time.Second},
		{http.StatusNotFound, "", false, 0},
		{http.StatusGone, "", true, 0},
	} {
		err := delivered(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", tt.header)
			http.Error(w, "no\nthanks", tt.status)
		})
		var e *quota.DeliveryError
		if !errors.As(err, &e) || e.Permanent != tt.permanent || e.RetryAfter != tt.retryAfter && !tt.permanent {
			t.Errorf("%d: %#v", tt.status, err)
		}
		check.Equal(t, "the error", err.Error(), fmt.Sprintf(`the receiver answered %d: "no\nthanks\n"`, tt.status))
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	other, _ := server(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	err := delivered(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	if err == nil || !strings.Contains(err.Error(), "redirects are not followed") || hits.Load() != 0 {
		t.Errorf("%v, and %d requests to the other", err, hits.Load())
	}
}

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	url, _ := server(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	check.Fails(t, "any certificate is taken", hookTo(t, url, x509.NewCertPool()).Deliver(t.Context(), aNotice()), "")
}

// A receiver that answers without end, or compressed, or with endless headers, costs a few
// kilobytes.
func TestAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		url, roots := server(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			chunk := []byte(strings.Repeat("x", 1<<20))
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})
		w := hookTo(t, url, roots)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		err := w.Deliver(t.Context(), aNotice())
		runtime.ReadMemStats(&after)
		if (err == nil) != (status == http.StatusOK) || time.Since(began) > time.Minute {
			t.Errorf("%d: %v after %v", status, err, time.Since(began))
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%d: %d bytes were allocated", status, grown)
		}
	}
	if err := delivered(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	}); err == nil {
		t.Error("a megabyte of headers is read")
	}
}

func TestAReceiverThatNeverAnswers(t *testing.T) {
	t.Parallel()
	url, roots := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // or the server does not see the client go
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := hookTo(t, url, roots).Deliver(ctx, aNotice()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	} else if strings.Contains(err.Error(), url) {
		t.Errorf("the URL is in the error: %v", err)
	}
}

// URLs that tenants choose lead to public addresses only, unless they are allowed.
func TestURLsOfTenants(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	url, roots := server(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	port := url[strings.LastIndex(url, ":"):]
	for _, tt := range []struct {
		name, url string
		allow     []netip.Prefix
		want      string // of the error
		hits      int64
	}{
		{"loopback", url, nil, "not public", 0},
		{"a name that resolves to loopback", "https://localhost" + port, nil, "not public", 0},
		{"an address in another notation", "https://[::ffff:127.0.0.1]" + port, nil, "not public", 0},
		{"the metadata of a cloud", "https://169.254.169.254/latest", nil, "not public", 0},
		{"allowed", url, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "", 1},
		{"without TLS", "http://example.com/", nil, "scheme", 0},
		{"of a file", "file:///etc/passwd", nil, "host", 0},
		{"with a user", "https://a:b@example.com/", nil, "user", 0},
		{"none", "", nil, "", 0},
	} {
		hits.Store(0)
		w := must.Get(notify.NewWebhook(notify.WebhookConfig{
			Endpoint: func(context.Context, quota.Notice) (notify.Endpoint, error) {
				return notify.Endpoint{URL: tt.url, Secrets: []string{secret}}, nil
			},
			AllowNetworks: tt.allow, RootCAs: roots,
		}))(t)
		err := w.Deliver(t.Context(), aNotice())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || hits.Load() != tt.hits {
			t.Errorf("%s: %v, %d requests", tt.name, err, hits.Load())
		}
	}
}

func TestWebhooksThatAreWrong(t *testing.T) {
	t.Parallel()
	endpoint := func(context.Context, quota.Notice) (notify.Endpoint, error) { return notify.Endpoint{}, nil }
	secrets := []string{secret}
	for _, c := range []notify.WebhookConfig{
		{},
		{URL: "https://example.com"},
		{Secrets: secrets},
		{URL: "example.com", Secrets: secrets},
		{URL: "ftp://example.com", Secrets: secrets},
		{URL: "https://:443", Secrets: secrets},
		{URL: "https://u:p@example.com", Secrets: secrets},
		{URL: "https://example.com", Secrets: secrets, Endpoint: endpoint},
		{Endpoint: endpoint, Secrets: secrets},
		{Endpoint: endpoint, AllowNetworks: []netip.Prefix{{}}},
		{URL: "https://example.com", Secrets: secrets, Type: "a\nb"},
		{URL: "https://example.com", Secrets: secrets, Source: "%zz"},
		{URL: "https://example.com", Secrets: secrets, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	} {
		if _, err := notify.NewWebhook(c); err == nil || !strings.HasPrefix(err.Error(), "weblimit: notify: ") || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
