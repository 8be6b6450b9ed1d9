package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/internal/described"
)

// Config sets up a [Client].
type Config struct {
	// URL is where the service is: http://host:port, https://host, or unix:///path/to/socket. Required.
	URL string

	// Token goes into Authorization: Bearer …. Defaults to none.
	Token string

	// TLS is for https, with a certificate for mutual TLS. Defaults to that of the system.
	TLS *tls.Config

	// Transport replaces the HTTP transport, with TLS and unix sockets. Defaults to one of its own with
	// Connections connections, which honors no proxy of the environment.
	Transport http.RoundTripper

	// Timeout is how long a decision may take, from 1ms to 5m. Defaults to 100ms.
	Timeout time.Duration

	// Connections is how many requests to the service are under way at once: checks that come
	// meanwhile wait and go together. Defaults to 4.
	Connections int

	// MaxBatch is how many checks go together at most, up to service.Config.MaxChecks. Defaults to 64.
	MaxBatch int

	// MaxPending bounds how many checks wait. Further ones are decided as in an outage. Defaults to 4096.
	MaxPending int

	// Send names what of a request the service is told, beside method, path, route and the address of the peer.
	Send Fields

	// OnOutage says how to decide while the service does not answer. [Client.Limiter] requires it: nothing is
	// allowed by accident. Without limiters it is not needed.
	OnOutage OnOutage
}

// Fields name parts of requests. The service reads policies by them: what is not sent, no limit can read.
type Fields struct {
	Headers []string // beside Host and the headers by which proxies name clients
	Cookies []string
	Query   []string
	Params  []string
	Values  []string // stored by middleware, such as user, tenant and plan
}

// validate returns an error for a name that the service does not take.
func (f *Fields) validate() error {
	for what, names := range map[string][]string{"Headers": f.Headers, "Cookies": f.Cookies, "Query": f.Query, "Params": f.Params, "Values": f.Values} {
		for _, name := range names {
			if name == "" || len(name) > described.MaxName || what == "Headers" && !described.IsToken(name) {
				return fmt.Errorf("Config.Send.%s: %q is no name of at most %d bytes", what, name, described.MaxName)
			}
		}
	}
	return nil
}

// OnOutage says how to decide while the service does not answer: by Limits or by Action, and not by both.
type OnOutage struct {
	// Limits decide in this process, each divided by core.Config.Replicas. Their own OnOutage says whether
	// they do, or allow or deny. Their names must not be those of other limits on Client.Store. Defaults
	// to none.
	Limits []core.Limit

	// Action without Limits is [core.Deny], which answers 503, or [core.Allow], which lets requests pass and says
	// so in decision and events. Its zero value, core.Local, needs Limits.
	Action core.OutageAction
}

// validate reports what would have no effect. Whether a limiter can do with it says limits.
func (o OnOutage) validate() error {
	if o.Action > core.Deny {
		return fmt.Errorf("OnOutage: unknown Action %d", o.Action)
	}
	if o.Action != core.Local && len(o.Limits) > 0 {
		return errors.New("OnOutage: it has Limits and an Action; each of the Limits says by its OnOutage whether it allows or denies")
	}
	return nil
}

// limits returns the limits that decide in an outage.
func (o OnOutage) limits() ([]core.Limit, error) {
	switch {
	case len(o.Limits) > 0:
		return o.Limits, nil
	case o.Action == core.Local:
		return nil, errors.New("weblimit: client.Config.OnOutage: say how to decide while the service does not answer: by Limits in this process, or by Action, core.Deny or core.Allow")
	}
	// Never counted: it says what happens while the service does not answer, to batches of any size.
	return []core.Limit{core.PerSecond(1 << 50).By(keyfuncs.Everyone()).Named("service").OnOutage(o.Action)}, nil
}

// Client asks a service. It is safe for concurrent use.
type Client struct {
	config  Config
	base    string
	node    string
	http    *http.Client
	stands  stands
	rules   rules
	queue   queue
	breaker breaker.Breaker
}

// New returns a client, or an error that says which part of the configuration can't work. It does not
// talk to the service.
func New(config Config) (*Client, error) {
	err := config.complete()
	c := &Client{config: config}
	if err == nil {
		err = c.connect()
	}
	if err != nil {
		return nil, fmt.Errorf("weblimit: client.Config: %w", err)
	}
	c.queue.client = c
	return c, nil
}

// complete sets defaults, copies what the caller could change later, and checks all but the URL.
func (c *Config) complete() error {
	for _, each := range []struct {
		of        *int
		otherwise int
	}{{&c.Connections, 4}, {&c.MaxBatch, 64}, {&c.MaxPending, 4096}} {
		if *each.of == 0 {
			*each.of = each.otherwise
		}
	}
	if c.Timeout == 0 {
		c.Timeout = store.DefaultTimeout
	}
	if c.Connections < 1 || c.MaxBatch < 1 || c.MaxPending < 1 || c.Timeout < time.Millisecond || c.Timeout > store.MaxTimeout {
		return fmt.Errorf("want Connections, MaxBatch and MaxPending of at least 1, and a Timeout from 1ms to %v", store.MaxTimeout)
	}
	if c.Transport != nil && c.TLS != nil {
		return errors.New("TLS is that of the client's own transport: set it in your Transport, or leave out Transport")
	}
	// With each of these, all requests would fail, which looks like a service that is away: with core.Allow, all would pass.
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("Config.Token: it has a character that no header can have; is there a line break at its end?")
	}
	if err := c.Send.validate(); err != nil {
		return err
	}
	if err := c.OnOutage.validate(); err != nil {
		return err
	}
	c.OnOutage.Limits = slices.Clone(c.OnOutage.Limits)
	send := &c.Send
	send.Cookies, send.Query, send.Params, send.Values = slices.Clone(send.Cookies), slices.Clone(send.Query), slices.Clone(send.Params), slices.Clone(send.Values)
	send.Headers = slices.Clone(send.Headers)
	for i, name := range send.Headers {
		send.Headers[i] = http.CanonicalHeaderKey(name) // as requests are asked for them
	}
	return nil
}

// connect sets where the service is and by which HTTP client it is asked. It sends nothing.
func (c *Client) connect() error {
	at, err := url.Parse(c.config.URL)
	if err != nil {
		return errors.New("URL: not a URL") // the error of url.Parse would show a password in it
	}
	if at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return errors.New("URL: want no user, query and fragment")
	}
	// Two connections more than checks use: a call such as Settle must not wait for them.
	transport := &http.Transport{
		MaxConnsPerHost: c.config.Connections + 2, MaxIdleConnsPerHost: c.config.Connections + 2, IdleConnTimeout: time.Minute,
		TLSClientConfig: c.config.TLS.Clone(), ForceAttemptHTTP2: true, DisableCompression: true,
	}
	switch {
	case at.Scheme == "unix" && at.Host == "" && at.Path != "":
		if c.config.Transport != nil {
			return errors.New("URL: a unix socket can't have a Transport")
		}
		path := at.Path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c.base, c.node = "http://localhost", path
	case (at.Scheme == "http" || at.Scheme == "https") && at.Host != "":
		c.base, c.node = strings.TrimSuffix(at.String(), "/"), at.Host
	default:
		return errors.New("URL: want http://host:port, https://host or unix:///path")
	}
	c.http = &http.Client{Transport: c.config.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // to somewhere else, with the token
	}}
	if c.http.Transport == nil {
		c.http.Transport = transport
	}
	return nil
}

// Store is the store of the client's limiters: it holds nothing but what is known of outages. Its OnEvent
// reports them.
func (c *Client) Store() core.Store { return &c.stands }

// OnEvent calls f when the service stops to answer and when it is back; see core.Event.
func (c *Client) OnEvent(f func(core.Event)) { c.stands.OnEvent(f) }

// Close closes connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Check decides a check, or several all or nothing.
//
// An error says that the service did not answer, or that the call is wrong: a [*Problem], or an error before
// it was sent, as for a path of more than 8 KiB. A client may cause the latter, so don't let its request pass.
// An error is never a denial. Nothing is sent again by itself: whether it was charged is not known. To send it again give it
// an operation, by [Client.CheckOnce].
func (c *Client) Check(ctx context.Context, checks ...Check) (Answer, error) {
	return c.ask(ctx, "/v1/check", newCall("", checks))
}

// CheckOnce is [Client.Check] for an operation: the same checks with the same operation are charged
// once within ten minutes, however often they are sent.
func (c *Client) CheckOnce(ctx context.Context, operation string, checks ...Check) (Answer, error) {
	return c.ask(ctx, "/v1/check", newCall(operation, checks))
}

// Peek returns what Check would, and charges nothing.
func (c *Client) Peek(ctx context.Context, checks ...Check) (Answer, error) {
	return c.ask(ctx, "/v1/peek", newCall("", checks))
}

// Reserve is [Client.Check] with a Reservation, by which Settle or Refund corrects the charge.
func (c *Client) Reserve(ctx context.Context, checks ...Check) (Answer, error) {
	return c.ask(ctx, "/v1/reserve", newCall("", checks))
}

// Charge charges what was used, whether or not there is room for it, once per operation if there is one.
func (c *Client) Charge(ctx context.Context, operation string, checks ...Check) error {
	return c.call(ctx, "/v1/charge", newCall(operation, checks), nil)
}

// Settle corrects what a reservation has charged, once. A [*Problem] of status 409 says that it was settled
// before, and 410 that it has expired.
func (c *Client) Settle(ctx context.Context, s Settlement) error {
	return c.call(ctx, "/v1/settle", s, nil)
}

// Refund gives back what a reservation has charged, once.
func (c *Client) Refund(ctx context.Context, reservation string) error {
	return c.call(ctx, "/v1/refund", Settlement{Reservation: reservation}, nil)
}

// Renew keeps a reservation from expiring while its work goes on, and begins the leases of its slots anew, after
// RenewMS of the answer that had it. The answer has a Reservation in its place, and the next RenewMS. After an error that is
// no [*Problem], renew the same again. A [*Problem] of status 409 says that it was settled before, or that a Reservation in
// its place was renewed.
func (c *Client) Renew(ctx context.Context, reservation string) (a Answer, err error) {
	if err = c.call(ctx, "/v1/renew", Settlement{Reservation: reservation}, &a); err == nil && a.Reservation == "" {
		err = c.failure(store.ClassUnknown, errors.New("not an answer of the service: it has no reservation"))
	}
	return a, err
}

// wireCall is a call of the API: a check, or several together.
type wireCall struct {
	*Check
	Together  []Check `json:"together,omitempty"`
	Operation string  `json:"operation,omitempty"`
	Hold      bool    `json:"hold,omitempty"` // what can be settled, if there is anything
	Warnings  bool    `json:"warnings,omitempty"`
	TimeoutMS int64   `json:"timeout_ms,omitempty"`
}

func newCall(operation string, checks []Check) *wireCall {
	if len(checks) == 1 {
		return &wireCall{Check: &checks[0], Operation: operation}
	}
	return &wireCall{Together: checks, Operation: operation}
}

func (w *wireCall) checks() []Check {
	if w.Check != nil {
		return []Check{*w.Check}
	}
	return w.Together
}

func (c *Client) ask(ctx context.Context, path string, call *wireCall) (a Answer, err error) {
	checks := call.checks()
	for i := range checks {
		if r := checks[i].Request; r != nil {
			if err := r.odd(); err != nil { // it would keep others of its batch from an answer
				return a, err
			}
		}
		if !utf8.ValidString(checks[i].Key) {
			return a, &oddRequest{"key of valid UTF-8"}
		}
	}
	call.TimeoutMS = min(max(c.config.Timeout.Milliseconds(), 1), 10_000)
	if path == "/v1/check" {
		a, err = c.queue.ask(ctx, call)
	} else {
		err = c.call(ctx, path, call, &a)
	}
	if err == nil {
		if err = a.check(len(checks)); err == nil {
			err = a.checkGranted(checks)
		}
		if err != nil {
			err = c.failure(store.ClassUnknown, err)
		}
	}
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

// maxAnswer bounds what is read of a response: something else than the service may answer.
const maxAnswer = 4 << 20

// call sends a body and reads the answer into to, unless that is nil.
func (c *Client) call(ctx context.Context, path string, body, to any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("weblimit: client: %w", err)
	}
	return c.send(ctx, path, text, to)
}

// send sends a text, within the timeout. Its error is a *Problem, or a *store.Error for what is an outage.
func (c *Client) send(ctx context.Context, path string, text []byte, to any) error {
	if err := c.enter(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	err := c.roundTrip(bounded, path, text, to)
	if err != nil && ctx.Err() != nil {
		return err // the caller has given up, by a client that hung up: it says nothing about the service
	}
	c.leave(err)
	return err
}

func (c *Client) roundTrip(ctx context.Context, path string, text []byte, to any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return c.failure(store.ClassUnknown, err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.config.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.config.Token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return c.failure(store.ClassTimeout, err)
		}
		return c.failure(store.ClassConnection, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return c.failure(store.ClassConnection, err)
	case response.StatusCode == http.StatusOK:
		if to == nil {
			return nil
		}
		if err := json.Unmarshal(answer, to); err != nil {
			return c.failure(store.ClassUnknown, fmt.Errorf("not an answer of the service: %w", err))
		}
		return nil
	}
	// What is no problem of the service, such as the error page of a proxy, is an outage, and so is 503, which says that
	// the service can't decide now. Other problems are about the call.
	problem := &Problem{Status: response.StatusCode}
	if err := json.Unmarshal(answer, problem); err != nil || problem.Status != response.StatusCode {
		return c.failure(store.ClassUnknown, fmt.Errorf("status %d", response.StatusCode))
	}
	if problem.Status == http.StatusServiceUnavailable {
		return c.failure(store.ClassOverload, problem)
	}
	return problem
}

// failure returns the error of a service that did not answer.
func (c *Client) failure(class store.Class, err error) error {
	return &store.Error{Class: class, Node: c.node, Err: err}
}
