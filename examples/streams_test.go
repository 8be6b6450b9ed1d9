package examples_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

// The code of docs about streams and blocks: see readme_test.go.

type userKey struct{}

func docsStream(store core.Store, next func(context.Context) (token string, err error)) http.Handler {
	budgets := nethttp.Limit(store,
		core.PerMinute(10_000).By(keyfuncs.User(userKey{})).Named("tokens").Estimate(500),
		core.PerDay(200).FixedWindow().By(keyfuncs.User(userKey{})).Named("answers").Estimate(1))

	stream := func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		_ = core.Spend(ctx, 0) // in place of all estimates: from here on only what is reported counts
		for n := 0; ; n++ {
			token, err := next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler) // the client sees that its answer was cut
			}
			if n == 0 {
				_ = core.Spend(ctx, 1, "answers")
			}
			_ = core.Spend(ctx, 1, "tokens") // before it is written
			if _, err := io.WriteString(w, token); err != nil {
				return // the client hung up
			}
		}
	}
	return budgets(http.HandlerFunc(stream))
}

func docsBlock(ctx context.Context, store core.Store) error {
	clients := core.PerMinute(300).By(keyfuncs.User("user")).Named("clients")
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{clients}}))
	err := limiter.Block(ctx, "clients", keyfuncs.Encode("user", "42"), 24*time.Hour)
	return err
}

// However a stream ends, what was reported is charged, and nothing else.
func TestDocumentedStreams(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tokens        int   // until the stream ends
		ends          error // how
		hangUp        bool
		cut           bool // the client sees that its answer is not whole
		least, answer int64
	}{
		"it is done":                    {7, io.EOF, false, false, 7, 1},
		"the model fails in the middle": {7, io.ErrUnexpectedEOF, false, true, 7, 1},
		"the model fails before it":     {0, io.ErrUnexpectedEOF, false, true, 0, 0},
		"the client hangs up":           {400, io.EOF, true, false, 1, 1},
		"more than the estimate":        {700, io.EOF, false, false, 700, 1},
		"it fails after more than that": {700, io.ErrUnexpectedEOF, false, true, 700, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, sent := weblimittest.New(t), 0 // whose clock stands still, so that no tokens come back
			token := "token "
			if tt.hangUp {
				token = strings.Repeat(token, 10_000) // more than the server keeps for itself, so that it is noticed
			}
			hungUp, ended := make(chan struct{}), make(chan struct{})
			stream := docsStream(store, func(ctx context.Context) (string, error) {
				switch {
				case sent == tt.tokens:
					return "", tt.ends
				case tt.hangUp && sent == 3:
					<-hungUp
					<-ctx.Done()
				}
				sent++
				return token, nil
			})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				stream.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "42")))
			}))
			defer server.Close()
			var err error
			response, failed := server.Client().Get(server.URL)
			switch {
			case failed != nil: // cut before the status
				err = failed
			case tt.hangUp:
				_, _ = io.ReadFull(response.Body, make([]byte, 10))
				_ = response.Body.Close()
				close(hungUp)
			default:
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			if (err != nil) != tt.cut {
				t.Errorf("the client sees %v", err)
			}
			<-ended
			limiter := core.ForLimits(store, []core.Limit{
				core.PerMinute(10_000).By(keyfuncs.User(userKey{})).Named("tokens"),
				core.PerDay(200).FixedWindow().By(keyfuncs.User(userKey{})).Named("answers"),
			})
			want := int64(sent)
			wait.For(t, "what was reported is charged", func() error {
				d, err := limiter.Peek(t.Context(), keyfuncs.Encode("user", "42"), 0)
				if err != nil {
					return err
				}
				if tokens, answers := d.Results()[0].Remaining, d.Results()[1].Remaining; tokens != 10_000-want || answers != 200-tt.answer {
					return fmt.Errorf("%d tokens and %d answers are left, want %d tokens and %d answer charged", tokens, answers, want, tt.answer)
				}
				return nil
			})
			if want < tt.least {
				t.Errorf("%d tokens, want %d at least", want, tt.least)
			}
		})
	}
}

// A client is blocked by hand, and never by its own denials.
func TestDocumentedBlock(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	limiter := core.ForLimits(store, []core.Limit{core.PerMinute(300).By(keyfuncs.User("user")).Named("clients")})
	for range 1000 {
		if d := limiter.Allow(keyfuncs.Values{"user": "41"}); d.Reason == core.ReasonBlocked {
			t.Fatal("blocked by itself")
		}
	}
	if err := docsBlock(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if d := limiter.Allow(keyfuncs.Values{"user": "42"}); d.Reason != core.ReasonBlocked || d.RetryAfter < 23*time.Hour {
		t.Errorf("%v for %v", d.Reason, d.RetryAfter)
	}
}
