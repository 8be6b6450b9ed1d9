package envoy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/envoy"
)

func TestDirectoriesBehindLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(dir, unit string) {
		if err := os.MkdirAll(filepath.Join(root, dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: " + unit + ", requests_per_unit: 1}\n"
		if err := os.WriteFile(filepath.Join(root, dir, "sub", "d.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("v1", "minute")
	write("v2", "hour")
	link := filepath.Join(root, "config")
	if err := os.Symlink("v1", link); err != nil {
		t.Fatal(err)
	}
	s, err := envoy.New(envoy.Config{Source: envoy.Directory(link), Store: core.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	before := s.Status().Version
	stop := s.Watch(t.Context())
	defer stop()
	if err := os.Symlink("v2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	for range 1200 {
		if s.Status().Version != before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the link was swapped, and nothing changed")
}

func TestAPipeAmongFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("domain: d\ndescriptors: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
