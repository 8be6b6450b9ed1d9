package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

// direct answers as the page of an application does, from what its instances have in Redis: the
// handler of package inspect in this process, over limits whose numbers come from the snapshots
// that instances publish. It publishes nothing itself.
type direct struct {
	page    *inspect.Handler
	tracker *top.Tracker
	note    string // what can't be answered, for people; or ""
	known   int    // how many limits are published
}

// localPage is the address of a direct.
var localPage = &url.URL{Scheme: "http", Host: "localhost", Path: "/"}

// nobody says what to do if Redis can't be understood.
func nobody(prefix string) error {
	return fmt.Errorf("no instance publishes its limits there under the prefix %q. Applications do with "+
		"top.Config{Exchange: store.Exchange()}, for as long as they run; if theirs is another prefix, set --prefix. "+
		"Or ask an application: --url", prefix)
}

// openDirect reads what instances publish.
func openDirect(ctx context.Context, rdb redis.UniversalClient, prefix string, timeout time.Duration) (*direct, error) {
	// Without the denial cache, which could answer by what was true before an action of this very command.
	s := redisstore.New(rdb, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Disabled: true}})
	s.OnEvent(func(core.Event) {}) // each answer has its own error
	published, err := s.Exchange().Collect(ctx)
	if err != nil {
		return nil, err
	}
	all, broken := top.Published(published, time.Now())
	if len(all) == 0 {
		return nil, errors.Join(broken, nobody(prefix))
	}
	d := new(direct)
	if broken != nil {
		d.note = fmt.Sprintf("%d of %d instances can't be understood: %v", len(published)-len(all), len(published), broken)
	}
	d.declare(s.Registry(), top.Merge(all...))
	d.tracker = top.New(top.Config{Exchange: reading{s.Exchange()}, Interval: time.Minute})
	d.page, err = inspect.New(inspect.Config{
		Store: keeping{s}, Top: d.tracker, Timeout: timeout, MaxBlock: 10 * 365 * 24 * time.Hour,
		Authorize: func(*http.Request) (string, inspect.Permission) { return "weblimit", inspect.Act },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		d.tracker.Close()
		return nil, err
	}
	return d, nil
}

// declare registers the limits that instances publish.
func (d *direct) declare(registry *store.Registry, s *top.Snapshot) {
	var unknown []string
	for i := range s.Limits {
		l := &s.Limits[i]
		rule, err := store.NewRule(l.Name, l.Numbers)
		if err == nil {
			err = declare(registry, store.Declaration{Rule: rule, Keys: l.Keys, Named: true, Shadow: l.Shadow}, l.KeysBefore)
		}
		if err != nil {
			unknown = append(unknown, l.Name)
			continue
		}
		d.known++
	}
	if len(unknown) > 0 {
		text := "numbers of these limits are not published, so nothing is known of their keys: " + strings.Join(unknown, ", ") +
			"; ask an application, with --url"
		d.note = strings.TrimPrefix(d.note+"; "+text, "; ")
	}
}

// declare registers a limit as it is where policy files have changed what its keys are made of: one after the other, as
// the instances have, so that keys of before are known, too.
func declare(registry *store.Registry, d store.Declaration, before []string) error {
	var now []store.Declaration
	for _, keys := range append(slices.Clone(before), d.Keys) {
		next := d
		next.Keys = keys
		if err := registry.Replace(now, []store.Declaration{next}); err != nil {
			return err
		}
		now = []store.Declaration{next}
	}
	return nil
}

// reading is an exchange to which nothing is published: instances would show this process among themselves.
type reading struct{ *redisstore.Exchange }

func (reading) Publish(context.Context, string, []byte, time.Duration) error { return nil }

func (reading) Agree(_ context.Context, proposal []byte) ([]byte, error) { return proposal, nil }

func (d *direct) close() {
	d.page.Close()
	d.tracker.Close()
}

// RoundTrip implements [http.RoundTripper]: it has the handler answer.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody // as servers have it
	}
	done := make(chan *http.Response, 1)
	go func() { // a round trip ends with its context, and a handler need not
		w := &recorder{header: make(http.Header), status: http.StatusOK}
		d.page.ServeHTTP(w, r)
		done <- &http.Response{
			StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
			Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
		}
	}()
	select {
	case res := <-done:
		return res, nil
	case <-r.Context().Done(): // the handler's own time-outs end it
		return nil, r.Context().Err()
	}
}

// recorder keeps a response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

// amend takes this process out of an overview: it has no instance of a limit, and no state of a store
// to tell.
func (d *direct) amend(path string, answer []byte) ([]byte, error) {
	if path != "overview" {
		return answer, nil
	}
	var fields map[string]json.RawMessage
	var instances []json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["instances"], &instances); err != nil {
		return nil, err
	}
	instances = slices.DeleteFunc(instances, func(text json.RawMessage) bool {
		var i pageapi.Instance
		return json.Unmarshal(text, &i) == nil && i.Name == d.tracker.Instance()
	})
	text, err := json.Marshal(instances)
	if err != nil {
		return nil, err
	}
	fields["instances"] = text
	for _, name := range []string{"store", "instance", "actor", "may_act", "max_block_seconds"} {
		delete(fields, name)
	}
	return json.Marshal(fields)
}

// reach says which limits an answer about a key is about; "" if that is all of them.
func (c *connection) reach() string {
	if c.redis == nil {
		return ""
	}
	return "Known on Redis: " + plural(c.redis.known, "limit") + ", those that have decided something since an instance started. Ask an application, with --url, about all."
}
