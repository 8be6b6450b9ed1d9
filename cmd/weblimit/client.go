package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
)

// maxAnswer bounds what a server can make this process hold.
const maxAnswer = 32 << 20

// client asks the API of package inspect.
type client struct {
	base           *url.URL
	user, password string
	http           *http.Client
	amend          func(path string, answer []byte) ([]byte, error) // nil for none
}

func newClient(page *url.URL, user, password string, transport http.RoundTripper, timeout time.Duration) *client {
	return &client{
		base: page.JoinPath("api", "v1"), user: user, password: password,
		http: &http.Client{
			Transport: transport, Timeout: timeout,
			// A redirect may lead anywhere, and the password goes nowhere but to the page.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// pageTransport is the way to a page.
func pageTransport(security *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        security,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a small answer can't become a large one
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// do sends a question and returns the answer, which is JSON.
func (c *client) do(ctx context.Context, method, path string, question any) ([]byte, error) {
	var body io.Reader
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	path, query, _ := strings.Cut(path, "?")
	to := c.base.JoinPath(path)
	to.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "weblimit/"+core.Version())
	r.Header.Set("Accept", "application/json")
	if question != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Weblimit-Inspect", "cli")
	}
	if c.user != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	res, err := c.http.Do(r)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) { // without the URL, which is said already
			err = inner.Err
		}
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d MB", maxAnswer>>20)
	}
	if err := complaint(res, answer); err != nil {
		return nil, err
	}
	if c.amend != nil {
		return c.amend(path, answer)
	}
	return answer, nil
}

// complaint returns the error that an answer is, or nil.
func complaint(res *http.Response, answer []byte) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK {
		if kind != "application/json" {
			return errNoPage
		}
		return nil
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if kind == core.ProblemType && json.Unmarshal(answer, &problem) == nil && problem.Detail != "" {
		detail := strings.TrimSuffix(problem.Detail, ".")
		if res.StatusCode == http.StatusUnauthorized {
			detail += ": set --user, and WEBLIMIT_PASSWORD or --password-file"
		}
		return errors.New(detail)
	}
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fmt.Errorf("it redirects to %s, which is not followed: set --url to where the page is", res.Header.Get("Location"))
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: set --user, and WEBLIMIT_PASSWORD or --password-file", http.StatusText(res.StatusCode))
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("there is nothing (404): %w", errNoPage)
	}
	return fmt.Errorf("it answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
}
