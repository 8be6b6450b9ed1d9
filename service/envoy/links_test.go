package envoy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"
)

func TestDirectoriesBehindLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(dir, unit string) {
		must.OK(t, os.MkdirAll(filepath.Join(root, dir, "sub"), 0o700))
		write2(t, filepath.Join(root, dir, "sub", "d.yaml"), "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: "+unit+", requests_per_unit: 1}\n")
	}
	write("v1", "minute")
	write("v2", "hour")
	link := filepath.Join(root, "config")
	must.OK(t, os.Symlink("v1", link))
	s := newServer(t, envoy.Config{Source: envoy.Directory(link)})
	before := s.Status().Version
	stop := s.Watch(t.Context())
	defer stop()
	must.OK(t, os.Symlink("v2", link+".new"))
	must.OK(t, os.Rename(link+".new", link))
	wait.Until(t, "the link is swapped", func() bool { return s.Status().Version != before })
}

func TestAPipeAmongFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write2(t, filepath.Join(dir, "a.yaml"), "domain: d\ndescriptors: []\n")
	if err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "b.yaml")).Run(); err != nil {
		t.Skip(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := envoy.New(envoy.Config{Source: envoy.Directory(dir), Store: core.NewMemory()})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(time.Minute):
		t.Error("it waits for a pipe")
	}
}
