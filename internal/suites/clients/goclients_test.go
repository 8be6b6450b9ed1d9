package clients

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-resty/resty/v2"
	"github.com/google/go-github/v75/github"
	"github.com/hashicorp/go-retryablehttp"
)

// soon is how long clients wait by themselves. So many tries take much less than an hour.
const soon = 50 * time.Millisecond

// retryable sends a request by hashicorp/go-retryablehttp.
func retryable(url string) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 2, soon, soon
	if res, err := c.Get(url); err == nil {
		_ = res.Body.Close()
	}
}

// withBackoff sends a request by net/http and retries by cenkalti/backoff, which leaves it to
// its user to read Retry-After.
func withBackoff(url string) {
	_, _ = backoff.Retry(context.Background(), func() (int, error) {
		res, err := http.DefaultClient.Get(url)
		if err != nil {
			return 0, err
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return res.StatusCode, nil
		}
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			return 0, backoff.RetryAfter(seconds)
		}
		return 0, errors.New(res.Status)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(soon)), backoff.WithMaxTries(3))
}

// withResty sends a request by go-resty, which retries a status if it is told to.
func withResty(url string) {
	c := resty.New().SetRetryCount(2).SetRetryWaitTime(soon).SetRetryMaxWaitTime(soon).
		AddRetryCondition(func(r *resty.Response, _ error) bool { return r.StatusCode() == http.StatusTooManyRequests })
	c.SetLogger(quiet{})
	_, _ = c.R().Get(url)
}

type quiet struct{}

func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

// withGithub sends two requests by google/go-github: it does not retry, but holds the next
// request back until it may be sent.
func withGithub(url string) {
	c := github.NewClient(nil)
	ctx := context.WithValue(context.Background(), github.SleepUntilPrimaryRateLimitResetWhenRateLimited, true)
	for range 2 {
		req, err := c.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			log.Print(err)
			return
		}
		_, _ = c.Do(ctx, req, io.Discard)
	}
}
