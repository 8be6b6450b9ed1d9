package envoy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// answering is a source whose files a test sets, and that hears what became of them.
type answering struct {
	files []policy.File
	err   error
	heard []error
}

func (a *answering) Load(context.Context) ([]policy.File, error) { return a.files, a.err }
func (a *answering) Watch(ctx context.Context, _ func())         { <-ctx.Done() }
func (a *answering) Acknowledge(err error)                       { a.heard = append(a.heard, err) }

// A source hears after each load whether its files decide, and what is wrong with them, also when they are refused again.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	source := &answering{files: files(two)}
	s := newServer(t, envoy.Config{Source: source})
	hears := func(what string, why ...string) {
		t.Helper()
		check.Equal(t, "how often it hears "+what, len(source.heard), len(why))
		for i, err := range source.heard {
			if why[i] == "" {
				check.OK(t, err)
			} else {
				check.Fails(t, what, err, why[i])
			}
		}
		source.heard = nil
	}
	hears("of the first", "")
	source.files = files("domain: edge\ndescriptors: [{}]\n")
	for range 2 {
		check.Fails(t, "a wrong file", s.Reload(t.Context()), "needs a key")
	}
	hears("of a wrong file, twice", "needs a key", "needs a key")
	source.err = errors.New("away")
	check.Fails(t, "no file", s.Reload(t.Context()), "away")
	hears("of nothing")
	source.files, source.err = nil, nil
	check.Fails(t, "none", s.Reload(t.Context()), "there are no files")
	hears("of none", "there are no files")
	source.files = files(two)
	must.OK(t, s.Reload(t.Context()))
	hears("of what decides", "")
	check.OK(t, s.Status().Err)
}

// A server that may start without files answers OK until there are some, and says so.
func TestStartWithout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log bytes.Buffer
	config := envoy.Config{Source: envoy.Directory(dir), StartWithout: true, UnhealthyWithout: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s := newServer(t, config)
	healthy := func(want int) {
		t.Helper()
		w := httptest.NewRecorder()
		s.Healthcheck().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		check.Equal(t, "/healthcheck", w.Code, want)
	}
	healthy(http.StatusInternalServerError)
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 0")
	check.Contains(t, "the log", log.String(), "started without limits, every request is answered OK until there are good files")
	check.Fails(t, "the status", s.Status().Err, "there are no files")
	check.Equal(t, "the version", s.Status().Version, "")

	write2(t, filepath.Join(dir, "edge.yaml"), "domain: edge\ndescriptors: [{}]\n")
	check.Fails(t, "a wrong file", s.Reload(t.Context()), "needs a key")
	check.Contains(t, "the log", log.String(), "there are no limits before: every request is answered OK")
	write2(t, filepath.Join(dir, "edge.yaml"), perUser(5))
	must.OK(t, s.Reload(t.Context()))
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 4")
	healthy(http.StatusOK)
	check.Equal(t, "changes", s.Status().Changes, 1)

	// From then on it is as others: what decides stays.
	must.OK(t, os.Remove(filepath.Join(dir, "edge.yaml")))
	check.Fails(t, "an empty folder", s.Reload(t.Context()), "there are no files")
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 3")
	healthy(http.StatusOK)
	s.Shutdown()
	write2(t, filepath.Join(dir, "edge.yaml"), perUser(6))
	must.OK(t, s.Reload(t.Context()))
	healthy(http.StatusInternalServerError) // and stays so

	// What is wrong with the configuration itself is an error nevertheless, and so is a file that is to be published.
	config.NearLimit, config.Store = 2, still()
	_, err := envoy.New(config)
	check.Fails(t, "a configuration that can't work", err, "NearLimit")
	check.Fails(t, "a file", envoy.Config{StartWithout: true}.Validate(files("domain: x\ndescriptors: 5")[0]), "it must be a list")
}

// A source that may have no files takes the limits away.
func TestAllowEmpty(t *testing.T) {
	t.Parallel()
	source := &answering{}
	var log bytes.Buffer
	s := newServer(t, envoy.Config{Source: source, AllowEmpty: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 0")
	check.Contains(t, "the log", log.String(), "there are no limits, every request is answered OK")
	source.files = files(perUser(5))
	must.OK(t, s.Reload(t.Context()))
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 4")
	source.files = nil
	must.OK(t, s.Reload(t.Context()))
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 0")
	source.files = files(perUser(5))
	must.OK(t, s.Reload(t.Context()))
	wantAnswers(t, direct{s}, request("edge", "user=a"), "OK, OK 3") // what was used stays used
	check.Equal(t, "what it hears", len(source.heard), 4)
}
