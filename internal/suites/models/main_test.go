package models

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// told is what a library makes of the gateway.
type told struct {
	Text     string `json:"text"`     // of a stream
	Used     int64  `json:"used"`     // tokens that the stream tells
	Left     string `json:"left"`     // of the header for tokens
	Tries    int    `json:"tries"`    // of a call that is denied at first, and fits in some seconds
	Hopeless int    `json:"hopeless"` // of a call that never fits
	Status   int    `json:"status"`   // of that
	Code     string `json:"code"`     // of that
	Cut      string `json:"cut"`      // of the error in a stream that is ended
}

// library calls the gateway at a URL.
type library func(t *testing.T, url string) told

// Questions, and what they take: the gateway estimates half a token for each byte.
var (
	short = "Why is the sky blue?"
	long  = strings.Repeat("why ", 3900) // with its answer 7,807 tokens
)

// endless is a question to which the answer is longer than what is reserved for it, without a maximum.
var endless = strings.Repeat("why ", 5000)

// hopeless is a question that is reserved more than the limit ever has.
var hopeless = strings.Repeat("why ", 12_000)

// tightened uses up the customer's tokens but for some, and returns a question that has to wait for two or three seconds
// if its answer may have 4,000 tokens.
func tightened(t *testing.T, left func() int64, ask func(text string)) string {
	t.Helper()
	ask(long)
	ask(long)
	var n int64
	wait.Until(t, "what was reserved and not used is given back", func() bool { n = left(); return n > 4000 })
	return strings.Repeat("why ", int(n+900-4000)/2)
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, "../../../examples", "./llm"))
	for name, tt := range map[string]struct {
		ask       library
		code, cut string
	}{
		"OpenAI, Go":      {openAIInGo, "rate_limit_exceeded", "rate_limit_exceeded"},
		"Anthropic, Go":   {anthropicInGo, "rate_limit_error", "rate_limit_error"},
		"OpenAI, Node":    {inNode("openai"), "rate_limit_exceeded", "rate_limit_exceeded"},
		"Anthropic, Node": {inNode("anthropic"), "rate_limit_error", "rate_limit_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running := program.Start(t, program.Command(filepath.Join(dir, "llm"), "ADDR=127.0.0.1:0"))
			url := strings.Replace(running.URL("curl "), "localhost", "127.0.0.1", 1)
			got := tt.ask(t, url)
			check.Equal(t, "the text of a stream", got.Text, "You asked: "+short+" I wonder, too. ")
			check.Equal(t, "tokens that it tells", got.Used, 15)
			if left, err := strconv.ParseInt(got.Left, 10, 64); err != nil || left < 15_000 || left > 20_000 {
				t.Errorf("tokens left: %q", got.Left)
			}
			check.Equal(t, "tries of a call that has to wait", got.Tries, 2)
			check.Equal(t, "tries of a call that never fits", got.Hopeless, 1)
			check.Equal(t, "its status", got.Status, http.StatusTooManyRequests)
			check.Contains(t, "its error", got.Code, tt.code)
			check.Contains(t, "the error of a stream that is ended", got.Cut, tt.cut)
		})
	}
}

// inNode runs the library of a provider for Node.
func inNode(provider string) library {
	return func(t *testing.T, url string) (got told) {
		t.Helper()
		script := filepath.Join("..", "clients", "testdata", "node", "models.mjs")
		if _, err := os.Stat(filepath.Join(filepath.Dir(script), "node_modules", provider)); err != nil && provider == "openai" {
			missing(t, err)
		}
		if _, err := exec.LookPath("node"); err != nil {
			missing(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", script, provider, url)
		out, err := cmd.Output()
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			t.Fatalf("%v\n%s", err, failed.Stderr)
		}
		must.OK(t, err)
		must.OK(t, json.Unmarshal(out, &got))
		return got
	}
}

func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// counter counts the requests that a library sends.
type counter struct{ n int }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return http.DefaultTransport.RoundTrip(r)
}

// try calls the gateway by a library for Go: by stream, which returns the text and the tokens that it tells, and by ask,
// which returns the header for the tokens that are left.
func try(t *testing.T, sent *counter, stream func(string, int64) (string, int64, error), ask func(string, int64) (string, error), read func(error) (int, string)) (got told) {
	t.Helper()
	var err error
	got.Text, got.Used, err = stream(short, 100)
	must.OK(t, err)
	got.Left = must.Get(ask("why", 1))(t)

	sent.n = 0
	_, err = ask(hopeless, 1)
	got.Hopeless = sent.n
	got.Status, got.Code = read(err)

	question := tightened(t, func() int64 { return must.Get(strconv.ParseInt(must.Get(ask("why", 1))(t), 10, 64))(t) }, func(text string) { must.Do(ask(text, 4000))(t) })
	sent.n = 0
	must.Do(ask(question, 4000))(t)
	got.Tries = sent.n

	_, _, err = stream(endless, 0)
	if err != nil {
		got.Cut = err.Error()
	}
	return got
}
