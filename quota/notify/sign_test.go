package notify

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The message and signature that the libraries of Standard Webhooks are tested with.
func TestSignatureOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	secrets := must.Get(parseSecrets([]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}))(t)
	h := make(http.Header)
	sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), secrets)
	check.Equal(t, "signature", h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
}

func TestSecretsThatAreWrong(t *testing.T) {
	t.Parallel()
	const good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for _, secrets := range [][]string{
		nil,
		{""},
		{"whsec_"},
		{good[6:]},
		{"whsec_c2hvcnQ="},
		{"whsec_!!!!"},
		{good, ""},
		{good, good, good, good, good, good},
		{"whsec_" + strings.Repeat("A", 200)},
	} {
		_, err := parseSecrets(secrets)
		if err == nil {
			t.Errorf("%q is taken", secrets)
		} else if strings.Contains(err.Error(), "c2hvcnQ") || strings.Contains(err.Error(), "!!!!") {
			t.Errorf("a secret is in the error: %v", err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 22, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, " 5 ": 5 * time.Second, "-1": 0, "1.5": 0, "soon": 0, "99999999999999": 7 * 24 * time.Hour, "9999999999999999999999": 0,
		"Sun, 22 Nov 2026 10:01:00 GMT": time.Minute, "Sun, 22 Nov 2026 09:00:00 GMT": 0,
	} {
		check.Equal(t, text, retryAfter(text, now), want)
	}
}
