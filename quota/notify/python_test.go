package notify_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// The receiver in Python of docs/bill/notices.md takes what is signed, and nothing else.
func TestTheReceiverInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	page := must.Get(os.ReadFile("../../docs/bill/notices.md"))(t)
	_, rest, _ := strings.Cut(string(page), "```python\n")
	code, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no Python")
	}
	var header http.Header
	var body []byte
	keep := func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}
	must.OK(t, delivered(t, keep))
	for _, tt := range []struct {
		name, secret, add, age, want string
	}{
		{"signed", secret, "", "0", "True"},
		{"signed with the next secret", another, "", "0", "True"},
		{"another secret", "whsec_c29tZXRoaW5nIGVsc2UgYWx0b2dldGhlcg==", "", "0", "False"},
		{"another body", secret, "x", "0", "False"},
		{"an old one", secret, "", "301", "False"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, python, "-c", code+`
import sys
now = time.time() + int(sys.argv[5])
time.time = lambda: now
headers = {"webhook-id": sys.argv[1], "webhook-timestamp": sys.argv[2], "webhook-signature": sys.argv[3]}
print(verify(headers, sys.stdin.buffer.read(), sys.argv[4]))
`, header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature"), tt.secret, tt.age)
		cmd.Stdin = bytes.NewReader(append(bytes.Clone(body), tt.add...))
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil || strings.TrimSpace(string(out)) != tt.want {
			t.Errorf("%s: %s, %v", tt.name, out, err)
		}
	}
}
