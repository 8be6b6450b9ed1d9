package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/quota"
)

const (
	// maxAnswer bounds what is read of an answer that refuses, for the text of the error.
	maxAnswer = 256

	// maxAnswerHeaders bounds the headers of an answer.
	maxAnswerHeaders = 16 << 10

	maxURL = 2048
)

// control is asked before each connection: see net.Dialer.ControlContext.
type control func(ctx context.Context, network, address string, _ syscall.RawConn) error

// newClient returns a client that follows no redirects and uses no proxy. check may be nil.
func newClient(roots *x509.CertPool, check control) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, ControlContext: check}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // a small answer can't become a large one
			MaxIdleConns:           100,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: maxAnswerHeaders,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// parseURL checks the URL of a receiver. Its errors don't have the URL in them, of which a part
// may be secret.
func parseURL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("the URL is not %s:// and a host, and at most %d bytes", strings.Join(schemes, ":// or "), maxURL)
	case u.User != nil:
		return nil, errors.New("the URL has a user in it")
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return u, nil
		}
	}
	return nil, fmt.Errorf("the URL is of the scheme %q, and must be of %s", u.Scheme, strings.Join(schemes, " or "))
}

// checkNetworks checks allowed networks.
func checkNetworks(all []netip.Prefix) error {
	for _, p := range all {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("weblimit: notify: AllowNetworks: %v is not a network", p)
		}
	}
	return nil
}

// post sends a body. An answer of 2xx is success, whatever its body. status is 0 if there was no
// answer.
func post(ctx context.Context, client *http.Client, to *url.URL, contentType string, body []byte, set func(http.Header)) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, permanent(errors.New("the request can't be made"))
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "weblimit/"+core.Version())
	set(request.Header)
	response, err := client.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL
		}
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return response.StatusCode, nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // of what was read until an error, if there is one
	err = fmt.Errorf("the receiver answered %d", response.StatusCode)
	if response.StatusCode/100 == 3 {
		err = fmt.Errorf("%w: redirects are not followed", err)
	} else if len(text) > 0 {
		err = fmt.Errorf("%w: %q", err, text)
	}
	return response.StatusCode, &quota.DeliveryError{Err: err, RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
}

// retryAfter reads a Retry-After header, in seconds or as a date. It returns 0 for others.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), 7*24*3600)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
